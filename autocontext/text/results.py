"""What a tool returned or raised, as a text for the model: of any value, and never an exception.

A tool that has returned has done its work, so nothing about its value may make an error of it.
"""

from __future__ import annotations

import json
import reprlib
from typing import Any, TypeAlias

from autocontext.messages import AudioBlock, ImageBlock, OutputBlock, TextBlock, ThinkingBlock, VideoBlock

_LONGEST = 1_000_000
"""Characters of a `repr`; what JSON can hold is never cut."""


_BLOCKS = (TextBlock, ThinkingBlock, ImageBlock, AudioBlock, VideoBlock)
Output: TypeAlias = str | tuple[OutputBlock, ...]


def result_output(value: Any) -> Output:
    """Blocks as they are, such as images; of anything else its text."""
    values = value if type(value) in (list, tuple) else [value]
    if values and all(issubclass(type(v), _BLOCKS) for v in values):  # isinstance asks the value, which may raise
        return tuple(values)
    return result_text(value)


def result_text(value: Any) -> str:
    """Text as it is, anything else as JSON where it can be, and otherwise as in code."""
    if issubclass(type(value), str):  # isinstance asks the value, which may raise
        return str.__str__(value)
    try:
        return json.dumps(value, ensure_ascii=False, default=_said)
    except Exception:  # noqa: BLE001 (keys that are no text, cycles, and whatever the value's own code raises)
        return as_in_code(value)


def as_in_code(value: Any) -> str:
    """The value's `repr`; where that raises, the one of what it holds. At most a million characters."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 (the value's own code)
        try:
            text = _PIECES.repr(value)
        except Exception:  # noqa: BLE001 (as above)
            text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text) - _LONGEST:,} characters more)"


def _said(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 (as above)
        return as_in_code(value)


class _Pieces(reprlib.Repr):
    """The `repr` of a container, with a stand-in for each thing in it that has none."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 20
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = 1000
        self.maxstring = self.maxother = 10_000

    def repr_int(self, x: int, level: int) -> str:
        del level
        try:
            return repr(x)
        except ValueError:  # more digits than Python writes
            return hex(x)


_PIECES = _Pieces()
