"""Pages of notes for tests."""

from collections.abc import Callable, Iterable
from typing import Any

from autocontext.history.runs import Runs
from autocontext.messages import Msg
from autocontext.notes.page import PageRequest, render
from autocontext.notes.shown import InView, Shown
from autocontext.notes.work import WorkLedger
from autocontext.text.quoting import MARK, quoted


def page(
    messages: Iterable[Msg] | WorkLedger,
    budget: int = 4_000,
    count: Callable[[str], int] = len,
    *,
    only: Iterable[int] | None = None,
    known: Iterable[int] | None = None,
    shown: Iterable[Msg] | Shown = (),
    **request: Any,
) -> str:
    """The page about some messages, by default in characters."""
    ledger = messages if isinstance(messages, WorkLedger) else WorkLedger.of(messages)
    beside = shown if isinstance(shown, Shown) else InView(shown).without(0, 0, "")
    covered, mentioned = (
        None if numbers is None else Runs.of(n for n in numbers if n <= len(ledger.messages))
        for numbers in (only, known)
    )
    return render(ledger, PageRequest(budget, count, only=covered, known=mentioned, shown=beside, **request))


def own_lines(text: str) -> list[str]:
    """The lines of a note that another text may hold without a mark: there should be none."""
    lines = [line for line in text.split("\n") if line.strip()]
    return [line for line in lines if not line.startswith(MARK) and quoted(line) == line]
