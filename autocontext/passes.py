"""Running passes for one memory: when due, one at a time, from synchronous or asynchronous code, or beside it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from autocontext.asking import Asker, in_thread
from autocontext.config import AutoContextConfig
from autocontext.engine import Pass, Settings, Step, compress, due
from autocontext.errors import Conflict, ContextOverflowError
from autocontext.events import CompressionReport, UsageTotals
from autocontext.ledger import Evidence
from autocontext.log import Entry, Log
from autocontext.pacing import Pacing
from autocontext.plan import PlanLike
from autocontext.questions import Ask
from autocontext.requests import Answer
from autocontext.tally import Tally

_log = logging.getLogger(__name__)
_COUNTED_ASIDE = 64 * 1024
"""Bytes; asynchronous callers have larger texts tokenized in a thread."""

Listener = Callable[[CompressionReport], Any]


class Passes:
    """What a memory needs to keep its view small.

    `lock` is held while the log is read or changed, never while a model or a store is waited for.
    """

    def __init__(
        self,
        *,
        log: Log,
        tally: Tally,
        config: AutoContextConfig,
        model: Any,
        lock: threading.RLock,
        commit: Callable[[Entry], None],
    ) -> None:
        self.plan: PlanLike | None = None
        self.usage = UsageTotals()
        self.listeners: list[Listener] = []
        self._log, self._tally, self._config, self._lock, self._commit = log, tally, config, lock, commit
        self._asker = Asker(model, config)
        self._strict = bool(getattr(model, "strict", False))
        """A test model may ask for it: a proposal that breaks a rule then raises."""
        self._evidence = Evidence()
        self._pacing = Pacing()
        self._turn = threading.Lock()
        """Held during a pass: one at a time."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop whose pass it is, if it is one."""
        self._background: set[Any] = set()
        """Tasks and threads of passes beside the conversation; held here, since a loop holds its tasks weakly."""

    def start_anew(self) -> None:
        """Forget what earlier passes came to: the view is another one now."""
        self._pacing = Pacing()
        self._evidence = Evidence()

    # ------------------------------------------------------------------------------------------------- when reading
    def before_reading(self) -> None:
        """Run the pass that is due before the view is shown, or start it beside the conversation."""
        if not self._waits():
            self._start_thread()
        elif self._due():
            self.run()

    async def abefore_reading(self) -> None:
        """The same for asynchronous callers."""
        await self._count_large()
        if not self._waits():
            self._start_task()
        elif self._due():
            await self.arun()

    def _waits(self) -> bool:
        """Whether a turn has to wait for a pass that is due."""
        with self._lock:
            return not self._config.background or self._tally.reaches(self._config.max_token + 1)

    def _due(self, *, early: bool = False) -> bool:
        with self._lock:
            return not due(self._log, self._tally, self._settings(early=early))

    def _start_thread(self) -> None:
        if self._turn.locked() or not self._due(early=True):
            return
        thread = threading.Thread(target=self._in_background, name="autocontext-pass", daemon=True)
        self._background = {t for t in self._background if not isinstance(t, threading.Thread) or t.is_alive()}
        self._background.add(thread)
        thread.start()

    def _in_background(self) -> None:
        try:
            self.run(early=True)
        except Exception:  # noqa: BLE001 (nobody waits for a thread: what went wrong can only be logged)
            _log.exception("a pass in the background failed; the view is as it was")

    def _start_task(self) -> None:
        if self._turn.locked() or not self._due(early=True):
            return
        task = asyncio.get_running_loop().create_task(self.arun(early=True))
        self._background.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[CompressionReport]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a pass in the background failed; the view is as it was", exc_info=error)

    # ------------------------------------------------------------------------------------------------------ running
    def run(self, *, force: bool = False, early: bool = False) -> CompressionReport:
        """Run a pass if one is due, or anyway with `force`; waits for one that is running."""
        if not self._turn.acquire(blocking=not self._is_ours()):
            return self._busy("this event loop is running a pass: await it instead of calling from the same thread")
        try:
            steps = self._begin(force=force, early=early)
            answers: list[Answer] | None = None
            while not isinstance(step := self._next(steps, answers), CompressionReport):
                answers = None
                if isinstance(step, Ask):
                    answers = self._asker.ask(step)
                else:
                    self._commit(step.entry)
        except Conflict as e:
            return self._busy(str(e))
        finally:
            self._turn.release()
        return self._finish(step, early=early)

    async def arun(self, *, force: bool = False, early: bool = False) -> CompressionReport:
        """The same for asynchronous callers: the model and the store are awaited."""
        await self._take_turn()
        try:
            self._loop = asyncio.get_running_loop()
            await self._count_large()
            steps = self._begin(force=force, early=early)
            answers: list[Answer] | None = None
            while not isinstance(step := self._next(steps, answers), CompressionReport):
                answers = None
                if isinstance(step, Ask):
                    answers = await self._asker.aask(step)
                else:
                    await in_thread(partial(self._commit, step.entry))
        except Conflict as e:
            return self._busy(str(e))
        finally:
            self._loop = None
            self._turn.release()
        return self._finish(step, early=early)

    async def _take_turn(self) -> None:
        """Wait for the turn without blocking the event loop: the pass may run in another thread or loop."""
        pause = 0.001
        while not self._turn.acquire(blocking=False):
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)

    def _is_ours(self) -> bool:
        """Whether the running pass belongs to the event loop of this very thread, which must not wait for itself."""
        try:
            return self._loop is not None and asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _settings(self, *, force: bool = False, early: bool = False) -> Settings:
        return Settings(self._config, self.plan, self._pacing, force=force, early=early, strict=self._strict)

    def _begin(self, *, force: bool, early: bool) -> Pass:
        return compress(self._log, self._tally, self._evidence, self._settings(force=force, early=early))

    def _next(self, steps: Pass, answers: list[Answer] | None) -> Step | CompressionReport:
        """The next step of a pass, or its report."""
        with self._lock:
            try:
                return steps.send(answers)
            except StopIteration as done:
                report: CompressionReport = done.value
                return report

    async def _count_large(self) -> None:
        """Have large new texts tokenized in a thread, if they have to be at all."""
        with self._lock:
            share = self._config.background_ratio if self._config.background else self._config.token_ratio
            needed = self._tally.at_most >= int(self._config.max_token * share)
            large = self._tally.large(_COUNTED_ASIDE) if needed else []
        for id_, msg in large:
            tokens = await in_thread(partial(self._tally.counter.count, msg))
            with self._lock:
                self._tally.learn(id_, tokens)

    # ------------------------------------------------------------------------------------------------------- after
    def _busy(self, reason: str) -> CompressionReport:
        with self._lock:
            size, tokens = len(self._log.view_ids), self._tally.at_most
        return CompressionReport(
            outcome="busy",
            reason=reason,
            tokens_before=tokens,
            tokens_after=tokens,
            messages_before=size,
            messages_after=size,
        )

    def _finish(self, report: CompressionReport, *, early: bool) -> CompressionReport:
        """Account for a pass and tell the listeners. Raises ContextOverflowError with `strict_fit`."""
        if report.outcome == "not_needed":
            return report
        self._pacing = self._pacing.after(report)
        self.usage += report
        for listener in tuple(self.listeners):
            try:
                listener(report)
            except Exception:  # noqa: BLE001 (a listener must not cost a turn)
                _log.exception("a compression listener failed")
        if report.outcome == "impossible" and self._config.strict_fit and not early:
            raise ContextOverflowError(report.reason)
        return report
