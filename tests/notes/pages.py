"""Pages of notes for tests."""

from collections.abc import Callable, Iterable
from typing import Any

from autocontext.messages import Msg
from autocontext.notes.page import PageRequest, render
from autocontext.notes.work import WorkLedger


def page(
    messages: Iterable[Msg] | WorkLedger, budget: int = 4_000, count: Callable[[str], int] = len, **request: Any
) -> str:
    """The page about some messages, by default in characters."""
    ledger = messages if isinstance(messages, WorkLedger) else WorkLedger.of(messages)
    return render(ledger, PageRequest(budget, count, **request))
