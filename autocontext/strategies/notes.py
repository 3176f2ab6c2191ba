"""What the strategies of a window need of whoever writes the notes of a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from autocontext.history.view import Span, View


class NoteWriter(Protocol):
    """The hand-over of a pass, as strategies see it."""

    @property
    def share(self) -> int:
        """Tokens that the notes of folds may take together."""
        ...

    @property
    def quotes_of_spare(self) -> float:
        """Share of a note up to which lines are quoted where the room would stay empty otherwise."""
        ...

    def number(self, id_: str) -> int | None:
        """The number of an original; None of anything else."""
        ...

    def writing(
        self, view: View, span: Span, budget: int, *, plan: bool = False, quotes: float | None = None
    ) -> Callable[[str], str]:
        """What makes the text of a note of at most `budget` tokens about a span, once the model's text is known.

        `plan`: with the attached plan. `quotes`: share of the note from which on no more lines are quoted.
        """
        ...

    def needed(self, view: View, span: Span, most: int) -> int:
        """Tokens of what a note about a span has to say, quotes left out: at least 1, at most `most`."""
        ...

    def earlier_notes(self, span: Span) -> str:
        """What models have written in the notes of a span."""
        ...

    @property
    def frame(self) -> int:
        """Tokens of a note that says nothing."""
        ...
