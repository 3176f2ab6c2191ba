"""What the agent is working on: the newest texts of the files and records that its calls name.

A text is as young as the last call about its file: one that was read fifteen messages ago and is being edited now is
needed before the output of the test between. Only the arguments of calls say so, so it holds for any tool and language.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autocontext.history.view import View
from autocontext.notes.calls import command_line, thing_of
from autocontext.text.failures import is_failure

_BETWEEN = re.compile(r"[\s\"'`|&;<>()=,]+")
"""What stands between the words of a command."""
_LONGEST_LINE = 2_000
"""Characters of a command's first line that are read."""


def in_hand(view: View) -> Sequence[int]:
    """The messages with results and calls about files and records, those touched last first."""
    return view.remembered(in_hand, lambda: _in_hand(view))


def _in_hand(view: View) -> Sequence[int]:
    touched: dict[str, int] = {}
    """By thing, the last call about it."""
    texts: list[tuple[int, int]] = []
    for pair in reversed(view.answers):
        things = set(_things(pair.use.input))
        for thing in things:
            touched.setdefault(thing, pair.call)
        if things and not is_failure(pair.output):
            last = max(map(touched.__getitem__, things))
            texts += [(last, pair.result), (last, pair.call)]
    return tuple(i for _, i in dict.fromkeys(sorted(texts, reverse=True)))


def _things(arguments: Mapping[str, Any]) -> Iterator[str]:
    """The files and records that a call names, also in objects; of a command, the files in its first line."""
    if thing := thing_of(arguments):
        yield posixpath.normpath(thing)
    elif command := command_line(arguments):
        words = _BETWEEN.split(command.partition("\n")[0][:_LONGEST_LINE])
        paths = (word for word in words if "/" in word)
        yield from (posixpath.normpath(path) for path in paths if posixpath.splitext(path)[1][1:2].isalpha())
    else:
        lists = (value if isinstance(value, list | tuple) else (value,) for value in arguments.values())
        named = (thing_of(value) for values in lists for value in values if isinstance(value, Mapping))
        yield from (posixpath.normpath(thing) for thing in named if thing)
