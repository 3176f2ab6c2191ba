"""The readings of instruction files and skills that stay in view: the newest of each, up to a tenth of the window.

A file that the system text names is one, too: the rules of a house, a protocol, a list of prices; until a call has
changed it. They are found anew in every view. An edit leaves them as they are, so the next pass finds them again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from autocontext.config import AutoContextConfig
from autocontext.history.view import Answered, View
from autocontext.messages import ToolUseBlock, leaves
from autocontext.notes.calls import looks
from autocontext.notes.instructions import Instructions, files_read, instructions_of, named_in
from autocontext.notes.readings import Outline
from autocontext.text import rendering
from autocontext.text.failures import is_failure

_SHARE = 10
"""They take at most the window's tokens divided by this."""
_BESIDE = 40
"""Tokens that stay of any other result whose call stands in the same message."""
_MOST_NAMED = 16
"""Files that the system text names of which changes are looked for in all calls after them."""
_COMPARED = 8
"""Newer readings that one is compared with."""
_STUB = 2
"""A newer text that is so many times shorter, and of other words, only says that the file is the same."""


class _Reading(NamedTuple):
    """A call in view that reads instructions, with its result."""

    pair: Answered
    what: Instructions
    whole: bool
    """Whether no edit has shortened the result."""
    only_named: bool
    """Whether only the system text says that these are instructions."""


def instructions(config: AutoContextConfig, view: View) -> Mapping[str, frozenset[int]]:
    """By the message's id, the indices of the results that stay as they are."""
    sources, room = config.instruction_sources, config.max_token // _SHARE
    if not sources:
        return {}
    return view.remembered((instructions, sources, room), lambda: _kept(view, sources, room))


def _named(view: View) -> list[str]:
    """The names of files that were read and that the system text names."""
    system = "\n".join(m.text for m in view.messages if m.role == "system")
    paths = dict.fromkeys(path for pair in view.answers for path in files_read(pair.use)) if system else ()
    return [name for path in paths if (name := named_in(system, path))]


def _kept(view: View, sources: tuple[str, ...], room: int) -> Mapping[str, frozenset[int]]:
    kept: dict[str, frozenset[int]] = {}
    looked_at = 0
    for reading in sorted(_newest(view, sources), key=lambda reading: reading.only_named):
        id_ = view.messages[reading.pair.result].id
        size = _tokens(view, reading)
        if not reading.whole or size > room:
            continue
        looked_at += reading.only_named
        if not reading.only_named or (looked_at <= _MOST_NAMED and not _changed_since(view, reading)):
            room -= size
            kept[id_] = kept.get(id_, frozenset()) | {reading.pair.block}
    return kept


def _newest(view: View, sources: tuple[str, ...]) -> Iterator[_Reading]:
    """The readings for which no newer one stands, the newest first."""
    newer: list[_Reading] = []
    for reading in reversed(list(_readings(view, sources))):
        if not any(_stands_for(view, other, reading) for other in newer[-_COMPARED:]):
            newer.append(reading)
            yield reading


def _readings(view: View, sources: tuple[str, ...]) -> Iterator[_Reading]:
    """All readings that have succeeded, in the order of their results."""
    named = tuple(_named(view))
    for pair in view.answers:
        own = instructions_of(pair.use, sources)
        what = instructions_of(pair.use, named) if own is None else own
        if what is not None and not is_failure(pair.output):
            yield _Reading(pair, what, whole=not rendering.is_short_form(pair.output.text), only_named=own is None)


def _stands_for(view: View, newer: _Reading, older: _Reading) -> bool:
    """Whether a newer reading shows what the same file says now."""
    if not newer.what.covers(older.what):
        return False
    now, then = newer.pair.output, older.pair.output
    if not newer.whole or now.output == then.output:
        return True
    between = (use for m in view.messages[older.pair.result : newer.pair.call] for use in m.tool_uses)
    if _is_changed(between, {*older.what.names, *newer.what.names}):
        return True
    same_file = newer.what.surely and older.what.surely
    if same_file and _STUB * len(now.text) >= len(then.text):
        return True
    return Outline.of(then.text).still_shown(Outline.of(now.text))


def _changed_since(view: View, reading: _Reading) -> bool:
    """Whether a call after a reading, or beside it, names the file in some spelling and does not only look."""
    own = reading.pair
    later = (pair for pair in view.answers if pair.call >= own.call and pair is not own)
    uses = (pair.use for pair in later if not is_failure(pair.output))
    return _is_changed(uses, {*map(posixpath.basename, reading.what.names)})


def _is_changed(uses: Iterable[ToolUseBlock], names: Collection[str]) -> bool:
    """Whether one of these calls has one of the names in its arguments and does not only look."""
    did = (use for use in uses if not looks(use.name, use.input))
    return any(name in text for use in did for text in leaves(use.input) for name in names)


def _tokens(view: View, reading: _Reading) -> int:
    """Tokens that stay in view with a result: its share of its message, and the other results of its exchange."""
    at = reading.pair.result
    size = sum(map(len, view.messages[at].texts()))
    own = view.tokens(at, at + 1) * len(reading.pair.output.text) // max(1, size)
    beside = sum(len(view.messages[i].tool_results) for i in view.exchange(at)) - 1
    return own + _BESIDE * beside
