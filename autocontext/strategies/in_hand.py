"""What the agent is working on: the newest texts of the files and records that its calls name.

A text is as young as the last call about its file: one that was read fifteen messages ago and is being edited now is
needed before the output of the test between. Only the arguments of calls say so, so it holds for any tool and language.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from autocontext.history.view import View
from autocontext.text.failures import is_failure

_FILE = re.compile(r"/[^/]*\.[^\W\d]\w*$")
"""The end of a path to a file."""


def in_hand(view: View, stop: int) -> Iterator[int]:
    """The messages before `stop` with results and calls about files and records, those touched last first."""
    touched: dict[str, int] = {}
    """By thing, the last call about it."""
    texts: list[tuple[int, int]] = []
    for pair in reversed(view.answers):
        things = set(_things(pair.use.input))
        for thing in things:
            touched.setdefault(thing, pair.call)
        if things and pair.call < stop and not is_failure(pair.output):
            last = max(map(touched.__getitem__, things))
            texts += [(last, i) for i in (pair.result, pair.call) if i < stop]
    return (i for _, i in dict.fromkeys(sorted(texts, reverse=True)))


def _things(arguments: Mapping[str, Any]) -> Iterator[str]:
    """The files and records that a call names, in a list of objects too; of a command, the files in its first line."""
    # Imported here: what the notes need is not needed before the first pass.
    from autocontext.notes.calls import command_line, thing_of  # noqa: PLC0415
    from autocontext.notes.values import known_values  # noqa: PLC0415

    if thing := thing_of(arguments):
        yield posixpath.normpath(thing)
    elif line := command_line(arguments).partition("\n")[0]:
        yield from (posixpath.normpath(value) for value in known_values(line) if _FILE.search(value))
    else:
        inner = (v for value in arguments.values() if isinstance(value, list | tuple) for v in value)
        for value in inner:
            if isinstance(value, Mapping):
                yield from _things(value)
