"""The plan in a note: as many of its lines as have room."""

from __future__ import annotations

from collections.abc import Iterable

from autocontext.messages import ToolUseBlock
from autocontext.notes.calls import shorten
from autocontext.plan import PlanLike, current_plan, is_open
from autocontext.text.rendering import one_line

_LINE = 120
"""Characters of a step."""


class PlanPart:
    """The lines of a plan. When room is short, closed steps go first, then the name, then open steps.

    Steps that are left out are counted.
    """

    def __init__(self, plan: PlanLike | None, calls: Iterable[ToolUseBlock]) -> None:
        name, steps = current_plan(plan, calls)
        title = [f"{name}:"] if name else []
        lines = [*title, *(f"- {step}: {state}" for step, state in steps)]
        self._lines = [f"> {shorten(one_line(line), _LINE)}" for line in lines]
        self._named = len(title)
        open_steps = [i for i, (_, state) in enumerate(steps, self._named) if is_open(state)]
        self.open = len(open_steps)
        """How many steps are still to be done."""
        self._order = [*open_steps, *sorted({*range(len(lines))} - {*open_steps})]
        """Places in the plan, the most important line first."""

    @property
    def ranked(self) -> list[str]:
        """All lines, the most important first."""
        return [self._lines[i] for i in self._order]

    def lines(self, size: int) -> list[str]:
        """The `size` most important lines in the plan's order, and how many steps are left out."""
        shown = [self._lines[i] for i in sorted(self._order[:size])]
        hidden = sum(i >= self._named for i in self._order[size:])
        if not hidden:
            return shown
        still_open = max(0, self.open - size)
        count = f"... and {hidden} more step{'s' if hidden > 1 else ''}"
        return [*shown, count + (f" ({still_open} open)" if still_open else "")]
