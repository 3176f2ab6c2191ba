"""What the agent is working on: the newest texts of the files and records that its calls name, by structure alone.

A text is as young as the last call about its file: one that was read fifteen messages ago and is being edited now is
needed before the output of the test between.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from autocontext.history.view import View
from autocontext.messages import ToolUseBlock, texts_in
from autocontext.text.failures import is_failure

_FILE = re.compile(r"/[^/]*\.[^\W\d]\w*$")
"""The end of a path to a file."""


def in_hand(view: View, stop: int) -> Iterator[int]:
    """The messages before `stop` with calls about a file or record and their results, what was touched last first.

    A text most of which a newer one shows is not among them.
    """
    from autocontext.notes.readings import Outline  # noqa: PLC0415 (see `compression.pass_run`)

    touched: dict[str, int] = {}
    """By thing, the last call about it."""
    about: list[tuple[int, int, int]] = []
    for pair in reversed(view.answers):
        things = things_of(pair.use)
        for thing in things:
            touched.setdefault(thing, pair.call)
        if things and not is_failure(pair.output):
            age = max(touched[thing] for thing in things)
            about += [(age, pair.result, len(about)), (age, pair.call, len(about))]
    shown: list[Outline] = []
    seen: set[int] = set()
    for _, i, _ in sorted(about, key=lambda found: (found[0], found[1]), reverse=True):
        if i in seen:
            continue
        seen.add(i)
        m = view.messages[i]
        texts = [r.text for r in m.tool_results] or [t for use in m.tool_uses for t in texts_in(use.input)]
        outline = Outline.of("\n".join(texts))
        if any(outline.still_shown(newer) for newer in shown):
            continue
        shown.append(outline)
        if i < stop:
            yield i


def things_of(use: ToolUseBlock) -> set[str]:
    """The files and records that a call names; of a command line, its words that look like a path."""
    from autocontext.notes.calls import PATH_KEYS, command_line, is_record_key, texts_of, thing_of  # noqa: PLC0415
    from autocontext.notes.values import known_values  # noqa: PLC0415

    if thing := thing_of(use.input):
        return {posixpath.normpath(thing)}
    if line := command_line(use.input):
        return {posixpath.normpath(value) for value in known_values(line.partition("\n")[0]) if _FILE.search(value)}
    named = ((key, text) for key, text in texts_of(use.input) if key in PATH_KEYS or is_record_key(key))
    return {posixpath.normpath(text.strip()) for _, text in named if text.strip()}
