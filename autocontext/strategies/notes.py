"""The protocol between the fold strategies and the writer of notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from autocontext.history.runs import Runs
from autocontext.history.view import Span, View


class NoteWriter(Protocol):
    """Writes the notes of a pass."""

    @property
    def share(self) -> int:
        """Most tokens of all folds' notes together."""
        ...

    def number(self, id_: str) -> int | None:
        """The number of an original message; None for any other."""
        ...

    def numbers(self, id_: str) -> Runs:
        """The numbers of the originals that a message of the view is or stands for."""
        ...

    def writing(
        self, view: View, span: Span, budget: int, *, plan: bool = False, fills: bool = False
    ) -> Callable[[str], str]:
        """A function from the model's text to what follows it, for a note of at most `budget` tokens about a span.

        `plan` includes the attached plan. With `fills`, quoted lines may fill room that would stay empty.
        """
        ...

    def needed(self, view: View, span: Span, most: int) -> int:
        """Tokens that a note about a span needs, without quotes, from 1 to `most`."""
        ...

    def earlier_notes(self, span: Span) -> str:
        """The texts that models wrote for the notes in a span."""
        ...

    def changes(self, first: int, last: int) -> Iterable[tuple[int, int, str]]:
        """What calls in the messages `first` to `last` changed: numbers of call and result, and the thing."""
        ...

    @property
    def frame(self) -> int:
        """Tokens of an empty note."""
        ...
