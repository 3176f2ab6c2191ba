"""The marks that AgentScope 1 gives messages: which ones a message has, what asking for one means, how they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HINT = "hint"
"""The mark of messages that the agent adds for one call of the model: they are shown, and not remembered."""


def marks_in(marks: Any) -> list[str]:
    """One mark, several or none as a list of plain strings: the agent's own are members of an Enum."""
    names = [marks] if isinstance(marks, str) else marks or []
    if not isinstance(names, list | tuple | set) or not all(isinstance(m, str) for m in names):
        raise TypeError(f"marks must be a string, a list of strings or None, not {marks!r}")
    return [str.__str__(m) for m in names]


def is_wanted(marks: Sequence[str], mark: str | None, exclude_mark: str | None) -> bool:
    """Whether a message with these marks is asked for."""
    return (mark is None or mark in marks) and (exclude_mark is None or exclude_mark not in marks)


def changed(marks: Sequence[str], new_mark: str | None, old_mark: str | None) -> list[str]:
    """The marks with `old_mark` taken away and `new_mark` added."""
    left = [m for m in marks if m != old_mark]
    return left if new_mark is None or new_mark in left else [*left, str.__str__(new_mark)]
