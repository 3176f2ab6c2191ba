"""A log with its work ledger, as the built-in strategies see them, for testing folds without a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from autocontext import AutoContextConfig, Msg
from autocontext.compression.token_sum import TokenSum
from autocontext.history.edits import Applied, apply
from autocontext.history.entries import Added, Edited
from autocontext.history.log import Log
from autocontext.history.proposals import Proposal, build
from autocontext.notes.work import WorkLedger
from autocontext.notes.writer import NoteWriter
from autocontext.strategies import View
from autocontext.strategies.fold import Fold


class Sized:
    """A token counter with message sizes set by the test; 4 characters of text are one token."""

    name = "sized"
    exact = False

    def __init__(self, size: Callable[[Msg], int]) -> None:
        self.count = self.bound = size

    def count_text(self, text: str) -> int:
        return -(-len(text) // 4)


class Desk:
    """Messages in a log, their view, and folds to propose and apply."""

    def __init__(self, messages: Iterable[Msg], config: AutoContextConfig, size: Callable[[Msg], int]) -> None:
        self.log, self.config = Log(), config
        for m in messages:
            self.log.record(Added(message=m))
        self.token_sum = TokenSum(Sized(size), self.log)
        self.hand_over = NoteWriter(
            self.log,
            WorkLedger(),
            config,
            None,
            count_text=self.token_sum.count_text,
            counter=self.token_sum.counter,
        )

    @property
    def messages(self) -> list[Msg]:
        return self.log.view_messages

    @property
    def view(self) -> View:
        return View(self.log.view_ids, self.log.view_messages, self.token_sum.count)

    def add(self, *messages: Msg) -> None:
        for m in messages:
            self.token_sum.update(self.log.record(Added(message=m)))

    def fold(
        self, *, messages: float = 0, tokens: int = 0, asks: bool = False, last_resort: bool = False
    ) -> list[Proposal]:
        """The proposals of a fold that should remove these messages and tokens from the view."""
        fold = Fold(self.config, self.hand_over, (messages, tokens), asks=asks, last_resort=last_resort)
        return fold.propose(self.view)

    def make(self, proposals: Sequence[Proposal], answers: Sequence[str] = (), *, spare: int = 0) -> Applied:
        """Apply what the gate accepts; `answers` are the answers to each proposal's questions."""
        edits = [build(p, answers[: len(p.questions)], handles=self.log.offloads) for p in proposals]
        applied = apply(self.view, edits, self.token_sum.counter.count, strict=True, spare=spare)
        self.token_sum.update(self.log.record(Edited(edits=applied.edits, events=())))
        return applied
