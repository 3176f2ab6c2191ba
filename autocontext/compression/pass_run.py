"""One running pass: it plans on the log as it is, and commits its edits if they still fit the log itself."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from autocontext.compression.accounting import price, untouched
from autocontext.compression.limits import PassOptions, due
from autocontext.compression.lock import LockHolder, PassLock, inside
from autocontext.compression.questions import Ask
from autocontext.compression.telemetry import PassSpan
from autocontext.compression.token_sum import TokenSum
from autocontext.errors import Conflict
from autocontext.events import CompressionReport
from autocontext.history.collector import collector_paused
from autocontext.history.entries import Entry
from autocontext.history.log import Log
from autocontext.requests import Answer, Usage
from autocontext.tokens import VocabularyCounter

if TYPE_CHECKING:
    from autocontext.compression.engine import Steps
    from autocontext.notes.work import WorkLedger


class PassLockLost(Exception):
    """The pass must not change anything any more."""

    def __init__(self) -> None:
        super().__init__("the memory was cleared, loaded or put back while the pass was running, or the pass given up")


class Recorder(Protocol):
    """What stores and records the entries of a memory: its Journal."""

    lock: threading.RLock
    whole: bool

    @property
    def log(self) -> Log:
        """The log, whole, also after an interrupt; for who holds the lock, before anything that follows the log."""

    def commit(self, *entries: Entry) -> None:
        """Store entries, then record them."""


@dataclass
class PassContext:
    """What all passes of one memory share.

    The recorder's lock is held while the log is copied or changed and while the store takes an entry; not while a pass
    is planned, and never while a model is asked.
    """

    recorder: Recorder
    token_sum: TokenSum
    pass_lock: PassLock = field(default_factory=PassLock)
    """Lets one pass run at a time."""
    ledger: WorkLedger | None = None
    """Of all originals up to the last pass. A running pass takes it out, and puts it back when it ends as it should."""


class PassRun:
    """A pass that holds the lock, from its first step to its report."""

    def __init__(self, context: PassContext, options: PassOptions, holder: LockHolder, span: PassSpan) -> None:
        self.options, self.holder, self.span = options, holder, span
        self.report: CompressionReport | None = None
        """Set when the pass has ended."""
        self._context, self._recorder = context, context.recorder
        self._spent: list[Answer] = []
        """All that the model has answered."""
        self._log: Log
        """The log as it was, on which the pass plans while others go on adding to the real one; set as it starts."""
        self._token_sum: TokenSum
        """Its token sum."""
        self._ledger: WorkLedger | None = None
        self._steps: Steps[CompressionReport] | None = None

    def steps(self) -> Generator[Ask, list[Answer], CompressionReport]:
        """The whole pass, as a flow that is sent the answers to each Ask; one that lost the lock reports `busy`."""
        answers: list[Answer] | None = None
        try:
            while isinstance(step := self.advance(answers), Ask):
                answers = yield step
        except (Conflict, PassLockLost) as e:
            step = self.busy(str(e))
        with self._recorder.lock:
            if self._ledger is not None and self._context.pass_lock.has(self.holder):  # not cleared or loaded meanwhile
                self._context.ledger = self._ledger
        return step

    def advance(self, answers: list[Answer] | None = None) -> Ask | CompressionReport:
        """Continue until the pass asks again or ends; others may read and add meanwhile. Raises PassLockLost."""
        self._spent += answers or ()
        with inside(self.holder):
            steps = self._steps or self._start()
            if isinstance(steps, CompressionReport):
                self.report = steps
                return steps
        with self.inside():
            self._rebase()
            sent: list[Answer] | bool | None = answers
            size = self._undisturbed()
            try:
                while not isinstance(step := collector_paused(size, partial(steps.send, sent)), Ask):
                    sent = None if self._commit(step) else False
            except StopIteration as done:
                self._rebase()
                self.report = done.value
                return self.report
            return step

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Mark what runs in here, and the threads and tasks it starts, as parts of this pass."""
        with inside(self.holder), self.span.inside():
            yield

    def busy(self, reason: str) -> CompressionReport:
        """The report of a pass that was given up, with what its model calls used."""
        with self._recorder.lock:
            report = untouched(self._recorder.log, self._context.token_sum, "busy", reason)
        used = sum((answer.usage for answer in self._spent), Usage())
        calls = sum(answer.calls for answer in self._spent)
        cost = price(used, self.options.config)
        return report.model_copy(update={"model_calls": calls, "usage": used, "cost": cost})

    def _start(self) -> Steps[CompressionReport] | CompressionReport:
        """The pass, on a fork made now; the report when none is due."""
        # Imported here, with the strategies: what only passes need costs what `import autocontext` spares.
        from autocontext.compression.engine import compress  # noqa: PLC0415
        from autocontext.notes.work import WorkLedger  # noqa: PLC0415

        context, config = self._context, self.options.config
        with self._recorder.lock:
            log = self._recorder.log
            if reason := due(log, context.token_sum, self.options):
                return untouched(log, context.token_sum, "not_needed", reason)
            self._log = log.as_it_is()
            self._token_sum = context.token_sum.fork(self._log)
            self._ledger = context.ledger or WorkLedger(config.tool_effects, config.instruction_sources)
            context.ledger = None
            self._steps = compress(self._log, self._token_sum, self._ledger, self.options)
        return self._steps

    def _undisturbed(self) -> int:
        """How many messages it plans on; 0 if it calls code of the user's own, which may wait."""
        config = self.options.config
        waits = config.redact or self.options.plan is not None or not all(isinstance(s, str) for s in config.strategies)
        return 0 if waits or not isinstance(self._token_sum.counter, VocabularyCounter) else len(self._log.view_ids)

    def _rebase(self) -> bool:
        """Take over what was recorded meanwhile, and hand over the counts made here. Raises PassLockLost.

        True if only messages were added.
        """
        with self._recorder.lock:
            log = self._recorder.log
            if not self._context.pass_lock.has(self.holder):
                raise PassLockLost
            entries = log.entries[len(self._log.entries) :]
            if entries:
                self._token_sum.update(self._log.renew(log))
            self._context.token_sum.learn_from(self._token_sum)
            return all(entry.type == "added" for entry in entries)

    def _commit(self, entry: Entry) -> bool:
        """Commit an entry that was checked on the copy; False when the view has lost messages since.

        The lock is held from the check to the commit, so that the view cannot change in between.
        """
        with self._recorder.lock:
            if not self._rebase():
                return False
            self._recorder.commit(entry)
            self._rebase()
            return True
