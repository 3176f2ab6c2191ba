"""Pages of notes for tests."""

from collections.abc import Callable, Iterable
from typing import Any

from autocontext.messages import Msg
from autocontext.notes.page import PageRequest, render
from autocontext.notes.work import WorkLedger
from autocontext.text.quoting import MARK, quoted


def page(
    messages: Iterable[Msg] | WorkLedger, budget: int = 4_000, count: Callable[[str], int] = len, **request: Any
) -> str:
    """The page about some messages, by default in characters."""
    ledger = messages if isinstance(messages, WorkLedger) else WorkLedger.of(messages)
    return render(ledger, PageRequest(budget, count, **request))


def own_lines(text: str) -> list[str]:
    """The lines of a note that another text may hold without a mark: there should be none."""
    lines = [line for line in text.split("\n") if line.strip()]
    return [line for line in lines if not line.startswith(MARK) and quoted(line) == line]
