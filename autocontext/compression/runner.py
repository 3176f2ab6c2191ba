"""Runs the passes of one memory when they are due: one at a time, in sync code, async code or the background."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

from autocontext.compression.accounting import too_large, too_many_bytes, untouched
from autocontext.compression.asking import Asker, way_out
from autocontext.compression.limits import (
    GROWTH,
    Limits,
    Pacing,
    PassOptions,
    Target,
    due,
    due_anyway,
    images_due,
)
from autocontext.compression.loading import Loading
from autocontext.compression.lock import LockHolder, pauses
from autocontext.compression.pass_run import PassContext, PassRun, Recorder
from autocontext.compression.paying import PromptCache, is_reply
from autocontext.compression.questions import Ask
from autocontext.compression.recalling import Recaller
from autocontext.compression.telemetry import PassSpan, count_calls, in_use
from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig
from autocontext.errors import Conflict, ContextOverflowError
from autocontext.events import CompressionReport, Health, Repeats, UsageTotals
from autocontext.flows import arun, lazy, run
from autocontext.flows.forking import import_before_fork, part_at_fork
from autocontext.flows.logs import logger
from autocontext.flows.threads import in_thread
from autocontext.history.collector import PAUSES
from autocontext.history.log import Log
from autocontext.history.redacting import HOOK_FAILED
from autocontext.plan import PlanLike
from autocontext.requests import Answer

if TYPE_CHECKING:
    from autocontext.compression.repeats import RepeatMeter
    from autocontext.notes.writer import NoteWriter
    from autocontext.strategies import Strategy

T = TypeVar("T")

_log = logger("autocontext.passes")  # the name that docs/production.md gives
_FAILED = "session %r: a pass in the background failed; the view is as it was"
_CLOSED = (
    "session %r: the memory was closed while a pass ran, whose note is lost though the model was asked. With "
    "background=True keep memories open, or let them share a database: AutoContext.open(...).session(...)"
)
_MODEL_FAILED = (
    "session %r: the summarising model %r gives no usable answer: %s. Until it does, rules alone write the notes. %s. "
    "memory.health() counts the failures; this is said once"
)
_OVERFLOW = (
    "session %r: the context does not fit: %s. Shorten that part, unpin what is pinned, or open the memory with a "
    "larger window. to_openai(strict=True) and its like raise ContextOverflowError instead"
)
_NO_RELOAD = (
    "session %r: messages are condensed, and no tool of the request is context_reload, so the model cannot read them "
    "again. Add memory.tools('reload') to the tools of the agent (docs/reload.md); this is said once"
)
_HOOK_FAILED = "session %r: %s"
_ASKED_RATIO = 0.5
"""`target_ratio` of a pass that somebody asks for: about what a note and the newest messages take."""
_STEPS = 4
"""Newest steps of the agent, the largest of which says how large the next one may be."""
_COUNTED_IN_THREAD = 64 * 1024
"""Bytes; for asynchronous callers, more text than this is counted in a thread."""
_OWN_PASS = "this code is part of the running pass, or blocks its event loop: waiting for it would never end"

Listener = Callable[[CompressionReport], Any]

# What the first pass imports.
import_before_fork("autocontext.compression.engine", "autocontext.notes.page", "autocontext.models.extractive")
part_at_fork(PAUSES)


class Wanted(TypedDict, total=False):
    """What somebody wants of one pass; nothing needs to be said."""

    force: bool
    """Run although no limit is reached."""
    early: bool
    """In the background, with softer limits."""
    max_token: int | None
    """Another window for this pass."""
    goes_further: bool
    """Leave at most half of the trigger: agent, user or program ask for the pass before one is due."""
    focus: str
    """What notes keep first."""
    only: Callable[[NoteWriter], Strategy]
    """Makes the one strategy of this pass, which then always runs."""


class PassRunner:
    """What a memory needs to keep its view small."""

    def __init__(
        self,
        *,
        recorder: Recorder,
        token_sum: TokenSum,
        config: AutoContextConfig,
        model: Any,
        loading: Loading,
        clock: Callable[[], float],
        conversation: str = "",
    ) -> None:
        self.plan: PlanLike | None = None
        self.usage = UsageTotals()
        self.last: CompressionReport | None = None
        """The report of the last pass that changed something."""
        self.lacks_reload = False
        """Whether the requests are known to have tools, and `context_reload` not among them."""
        self.pacing = Pacing()
        """When a pass is tried again after one that could not reach its target."""
        self._listeners: dict[object, Listener] = {}
        self._token_sum, self._config, self._lock = token_sum, config, recorder.lock
        self._context = PassContext(recorder, token_sum)
        self._pass_lock = self._context.pass_lock
        self._asker = Asker(model, config)
        self._loading = loading
        self._cache = PromptCache(recorder.log, token_sum, config, clock)
        self._conversation = conversation
        self._strict = bool(getattr(model, "strict", False))
        """A test model may ask for it: a proposal that breaks a rule then raises."""
        self._recaller = Recaller()
        self._told: set[str] = set()
        """The warnings that were given, and are not given again."""
        self._meter: RepeatMeter | None = None
        self._found = len(recorder.log.entries)
        """Number of entries when the session was opened: their calls are not told again."""
        self._told_calls = Repeats()
        """What telemetry knows."""
        self._thread: threading.Thread | None = None
        """The background pass that synchronous code started last."""
        self._closed = False
        self._tasks: set[lazy.asyncio.Task[CompressionReport]] = set()
        """Those of asynchronous code; held here, since a loop holds its tasks weakly."""

    @property
    def _log(self) -> Log:
        return self._context.recorder.log

    @property
    def cache(self) -> PromptCache:
        """What the provider has cached; use it under the lock."""
        _ = self._log
        return self._cache

    def restart(self, *, all_new: bool = False) -> None:
        """Forget all passes, and stop the running one: the view is another one now (`all_new`: all messages are)."""
        if all_new:
            self._recaller.forget()
        self.pacing = Pacing()
        self._context.ledger = None
        self._pass_lock.revoke()

    def close(self) -> None:
        """Give up the running pass, and begin none in the background any more: the database is about to be closed."""
        self._closed = True
        if self._pass_lock.taken:
            _log.warning(_CLOSED, self._conversation)
            self._pass_lock.revoke()

    def resize(self, config: AutoContextConfig) -> None:
        """Go by another configuration from the next pass on. Use it under the lock."""
        self._config = self._asker.config = config
        self._token_sum.resize(config.max_token)
        self._cache.resize(config)
        self.restart()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the report of each pass; returns the function that stops it, however often called."""
        key = object()
        self._listeners[key] = listener

        def stop() -> None:
            self._listeners.pop(key, None)

        return stop

    def belong_to(self, whole: PassRunner) -> None:
        """Go by the plan of another memory, whose branch this one's is, and count and tell the passes as that one's."""
        self.plan, self._conversation = whole.plan, whole._conversation

        def pass_on(report: CompressionReport) -> None:
            with whole._lock:
                whole.usage += report
            whole._call_listeners(report)

        self.listen(pass_on)

    # ------------------------------------------------------------------------------------------------- when reading
    def before_reading(self) -> None:
        """Run the pass that is due before the view is shown, or start it in the background."""
        with self._lock:
            self._load_ahead()
        if not self._waits():
            self._start_thread()
        elif self._due():
            self.run()
        self._recall()
        self._read()

    async def abefore_reading(self) -> None:
        """The same for asynchronous callers."""
        await self.locked(self._load_ahead)
        await self._count_in_thread()
        waits = await self.locked(self._waits)
        due = await self.locked(lambda: self._due(early=not waits))
        if due and waits:
            await self.arun()
        elif due:
            self._start_task()
        if await self.locked(self._recalls):
            await in_thread(self._recall)
        await self.locked(self._read)

    def _recalls(self) -> bool:
        return self._recaller.due(self._log, self._config)

    def _recall(self) -> None:
        """Put lines before a new message of the user that names them; after the pass, which may take them out."""
        with self._lock, suppress(Conflict):  # another process has just written: the lines are a help, not a must
            if self._recalls() and (entry := self._recaller.entry(self._log, self._token_sum, self._config)):
                self._context.recorder.commit(entry)

    def overflow(self) -> str:
        """Why the view is over the window, or images and files over the bytes of a request; "" if it fits."""
        with self._lock:
            if not self._token_sum.reaches(self._config.max_token + 1):
                return too_many_bytes(self._log, self._token_sum, self._config)
            return too_large(self._log, self._token_sum, self._config.max_token)

    def is_near(self) -> bool:
        """Whether one more step of the agent, as large as its last ones, brings a pass. Use it under the lock."""
        config, log = self._config, self._log
        limits = Limits.of(config, early=config.background)
        steps = list(islice(self._newest_steps(), _STEPS))
        tokens = self._token_sum.total() + max((tokens for _, tokens in steps), default=0)
        messages = len(log.view_ids) + max((messages for messages, _ in steps), default=0)
        reached = tokens >= limits.tokens or messages >= limits.messages
        return reached and tokens >= self.pacing.waits_until(config)

    def _newest_steps(self) -> Iterator[tuple[int, int]]:
        """Messages and tokens of each step in view, the newest first: a reply of the agent with what followed it."""
        log, messages, tokens = self._log, 0, 0
        for id_, m in zip(reversed(log.view_ids), reversed(log.view_messages), strict=True):
            messages, tokens = messages + 1, tokens + self._token_sum.count(id_, m)
            if is_reply(m):
                yield messages, tokens
                messages = tokens = 0

    def gains_little(self) -> str:
        """Why a pass that is asked for is not worth it; "" if it is. Use it under the lock."""
        config, log = self._config, self._log
        if config.escalation == "single":  # it has no target
            return ""
        target = Target(log, self._token_sum, _going_further(config))
        tokens, messages = self._token_sum.total(), len(log.view_ids)
        least = target.tokens + int(config.token_trigger * GROWTH)
        if tokens < least and messages < target.messages:
            return f"{tokens:,} of {config.max_token:,} tokens are used, and a pass is worth it from {least:,} on"
        if self.pacing.should_wait(messages, self._token_sum, config):
            return "the last pass took out what it could, and the context has hardly grown since"
        return ""

    def _read(self) -> None:
        """A request follows. Warn of a missing reload tool, once, and of a view over the window, once until it fits."""
        with self._lock:
            self.cache.requested()
            condensed = bool(self._log.events)
        self._tell_calls()
        if self.lacks_reload and condensed:
            self._warn_once(_NO_RELOAD)
        if reason := self.overflow():
            self._warn_once(_OVERFLOW, reason)
        else:
            self._told.discard(_OVERFLOW)

    def _warn_once(self, text: str, *arguments: str) -> None:
        if text not in self._told:
            self._told.add(text)
            _log.warning(text, self._conversation, *arguments)

    def repeats(self) -> Repeats:
        """Whether the agent repeats itself after passes; reads the entries that are new since the last time."""
        from autocontext.compression.repeats import RepeatMeter  # noqa: PLC0415 (as the ledger: only passes need it)

        with self._lock:
            entries = self._log.entries
            if self._meter is None:
                self._meter = RepeatMeter()
                self._meter.follow(entries[: self._found])
                self._told_calls = self._meter.repeats
            self._meter.follow(entries[self._meter.entries :])
            return self._meter.repeats

    def _tell_calls(self, *, begins: bool = False) -> None:
        """Give telemetry the calls since the last time; nothing until the pass that `begins`.

        That first time it reads the whole log, as the pass does.
        """
        if not in_use() or (self._meter is None and not begins):
            return
        with self._lock:
            now = self.repeats()
            told, self._told_calls = self._told_calls, now
        count_calls(now.before - told.before, now.after - told.after)

    def _load_ahead(self) -> None:
        """Load the vocabulary in a thread once the view may be half of what triggers a pass."""
        tokens, messages = self._token_sum.at_most, len(self._log.view_ids)
        if 2 * tokens >= self._config.max_token or 2 * messages >= self._config.msg_threshold:
            self._loading.start()

    async def locked(self, fn: Callable[[], T]) -> T:
        """What `fn`, which takes little time, returns under the lock; the event loop is not blocked for the lock."""
        if self._token_sum.behind or not self._context.recorder.whole:
            await in_thread(self._catch_up)
        waits = pauses()
        while not (done := self._try_locked(fn)):
            await lazy.asyncio.sleep(next(waits))
        return done[0]

    def _catch_up(self) -> None:
        """Do what takes time: read the store after an interrupt, read the messages of a session just opened."""
        with self._lock:
            _ = self._log.view_messages, self._token_sum.at_most, self._token_sum.request.total()

    def _try_locked(self, fn: Callable[[], T]) -> tuple[T] | tuple[()]:
        """What `fn` returns under the lock, or () if another thread has the lock."""
        # `map` takes it, and not a call: after a call, an interrupt could come before the block that gives it back.
        for taken in map(self._lock.acquire, (False,)):
            if taken:
                with self._lock:
                    self._lock.release()
                    return (fn(),)
        return ()

    def _waits(self) -> bool:
        """Whether a turn has to wait for a pass that is due."""
        if not self._config.background:
            return True
        with self._lock:
            log, tokens = self._log, self._token_sum
            return tokens.reaches(self._config.max_token + 1) or due_anyway(log, tokens, self._config)

    def _due(self, *, early: bool = False) -> bool:
        limits = Limits.of(self._config, early=early)
        with self._lock:
            # First the comparisons alone, as every turn makes them.
            near = self._log.compactions or limits.reached(self._log, self._token_sum)
            near = near or images_due(self._log, self._token_sum, self._config)
            if near and not due(self._log, self._token_sum, self._options(early=early)):
                return True
            return self._pays()

    def _pays(self) -> bool:
        """Whether a pass is worth its price although no limit is reached."""
        return self.cache.pays(self.pacing, asks=self._asker.asks)

    def _start_thread(self) -> None:
        with self._lock:
            if self._pass_lock.taken or (self._thread and self._thread.is_alive()) or not self._due(early=True):
                return
            # In a copy of the caller's context, as a task has it: traces belong together.
            work = partial(contextvars.copy_context().run, self._in_background)
            self._thread = threading.Thread(target=work, name="autocontext-pass", daemon=True)
            self._thread.start()

    def _in_background(self) -> None:
        try:
            if not self._closed:
                self.run(early=True)
        except Exception as e:  # noqa: BLE001 (nobody waits for the thread, so the error can only be logged)
            self._failed(e)

    def _failed(self, error: BaseException) -> None:
        if self._closed:
            _log.warning(_CLOSED, self._conversation)
        else:
            _log.error(_FAILED, self._conversation, exc_info=error)

    def _start_task(self) -> None:
        loop = lazy.asyncio.get_running_loop()
        if self._pass_lock.taken or any(task.get_loop() is loop for task in tuple(self._tasks)):
            return
        task = loop.create_task(self.arun(early=True))
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: lazy.asyncio.Task[CompressionReport]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    # --------------------------------------------------------------------------------------------------- when idle
    def run_if_idle(self) -> CompressionReport:
        """Run a pass if the provider's cache has expired and the view is worth one."""
        report = self._idle()
        return self.run(force=True) if report is None else report

    async def arun_if_idle(self) -> CompressionReport:
        """The same for asynchronous callers."""
        await self._count_in_thread(anyway=True)
        report = await self.locked(self._idle)
        return await self.arun(force=True) if report is None else report

    def _idle(self) -> CompressionReport | None:
        """The report that no pass is made while idle; None if one is worth it."""
        with self._lock:
            left = self.cache.expires_in
            if left is None:
                reason = "cache_ttl is not set" if self._config.cache_ttl is None else "no request was made yet"
            elif left > 0:
                reason = f"the provider's cache expires in {left:.0f} s"
            elif self._due():
                return None
            else:
                reason = "the cache has expired, but the view is hardly over its target"
            return untouched(self._log, self._token_sum, "not_needed", reason)

    # ------------------------------------------------------------------------------------------------------ running
    def run(self, **wanted: Unpack[Wanted]) -> CompressionReport:
        """Run a pass if one is due or wanted; waits for one that is running."""
        holder = LockHolder()
        with holder.running:
            if not self._pass_lock.take(holder):
                return self._busy()
            with self._lock:
                options = self._options(**wanted)
            with PassSpan(self._conversation) as span:
                pass_run = PassRun(self._context, options, holder, span)
                try:
                    report = run(pass_run.steps(), partial(self._answers, pass_run))
                finally:
                    self._end(pass_run)
        self._tell_calls(begins=bool(report))
        return self._notify(report, early=options.early)

    async def arun(self, **wanted: Unpack[Wanted]) -> CompressionReport:
        """The same for asynchronous callers: the model is awaited; planning and the store are given to threads."""
        holder = LockHolder(lazy.asyncio.get_running_loop())
        with holder.running:
            if not await self._pass_lock.atake(holder):
                await self._count_in_thread(anyway=True)
                return await self.locked(self._busy)
            options = await self.locked(lambda: self._options(**wanted))
            with PassSpan(self._conversation) as span:
                pass_run = PassRun(self._context, options, holder, span)
                try:
                    await self._count_in_thread(anyway=True)
                    report = await arun(pass_run.steps(), partial(self._aanswers, pass_run), in_threads=True)
                    await self.locked(partial(self._end, pass_run))
                except BaseException:
                    self._abandon(pass_run)
                    raise
        if report and in_use():
            await in_thread(partial(self._tell_calls, begins=True))
        return self._notify(report, early=options.early)

    def _answers(self, pass_run: PassRun, ask: Ask) -> list[Answer]:
        with pass_run.inside():
            answers = self._asker.ask(ask)
        self._tell_failure()
        return answers

    async def _aanswers(self, pass_run: PassRun, ask: Ask) -> list[Answer]:
        with pass_run.inside():
            answers = await self._asker.aask(ask)
        self._tell_failure()
        return answers

    def _tell_failure(self) -> None:
        """Warn once of a model that fails: notes go on without it, so nobody would see it otherwise."""
        health = self._asker.health
        if health.failed:
            self._warn_once(_MODEL_FAILED, self._asker.name, health.last_failure, way_out(health.last_failure))

    def health(self, *, store: Literal["none", "in step", "behind"]) -> Health:
        """How the model has done so far."""
        return self._asker.health.model_copy(update={"model": self._asker.name, "store": store})

    def _options(self, max_token: int | None = None, *, goes_further: bool = False, **options: Any) -> PassOptions:
        config = self._config if max_token is None else self._config.model_copy(update={"max_token": max_token})
        config = _going_further(config) if goes_further else config
        return PassOptions(
            config,
            self.plan,
            self.pacing,
            strict=self._strict,
            asks=self._asker.asks,
            pays=config is self._config and self._pays(),
            cold=self.cache.cold,
            window=self._config.max_token,
            **options,
        )

    def _busy(self) -> CompressionReport:
        with self._lock:
            return untouched(self._log, self._token_sum, "busy", _OWN_PASS)

    def _end(self, pass_run: PassRun) -> None:
        """Record a pass, also one that was given up after it paid for model calls, and let the next one begin."""
        report = pass_run.busy("") if pass_run.report is None else pass_run.report
        with self._lock:
            pass_run.span.report = report
            self.pacing = self.pacing.after(report, self._config, self._token_sum.correction)
            if report.outcome not in ("not_needed", "busy"):
                self.cache.passed()
            options = pass_run.options
            if not (options.force or options.early or options.only):
                self.cache.requested()  # the caller is about to send the view
            if report.model_calls or report.outcome not in ("not_needed", "busy"):
                self.usage += report
            self.last = report or self.last

    def _abandon(self, pass_run: PassRun) -> None:
        """End a pass that was cancelled, without waiting: a thread of it may still plan, or be inside the store."""
        end = partial(self._end, pass_run)
        if not self._try_locked(end):
            threading.Thread(target=end, name="autocontext-end", daemon=True).start()

    async def _count_in_thread(self, *, anyway: bool = False) -> None:
        """Count new texts in a thread if their counts are needed (`anyway`: whatever the size of the view) and long."""
        if not anyway and not await self.locked(self._counts_matter):
            return
        if not self._loading.ready:
            self._loading.start()
            await in_thread(self._loading.wait)
        if waiting := await self.locked(lambda: self._token_sum.waiting(_COUNTED_IN_THREAD)):
            measure, learn = self._token_sum.measure, self._token_sum.learn
            counted = await in_thread(lambda: [(id_, msg, measure(msg, bound)) for id_, msg, bound in waiting])
            await self.locked(lambda: [learn(*one) for one in counted])

    def _counts_matter(self) -> bool:
        """Whether the view may be so large that its tokens have to be known."""
        watched = self.cache.watched
        share = self._config.background_ratio if self._config.background else self._config.token_ratio
        return self._token_sum.at_most >= min(int(self._config.max_token * share), watched)

    # ------------------------------------------------------------------------------------------------------- after
    def _notify(self, report: CompressionReport, *, early: bool) -> CompressionReport:
        """Call the listeners. Raises ContextOverflowError with `strict_fit`."""
        if report.outcome in ("not_needed", "busy"):
            return report
        if HOOK_FAILED in report.reason:
            self._warn_once(_HOOK_FAILED, report.reason)
        if report.receipt:
            _log.info("%s", report.receipt, extra={"conversation": self._conversation})
        self._call_listeners(report)
        if report.outcome == "impossible" and self._config.strict_fit and not early:
            raise ContextOverflowError(report.reason)
        return report

    def _call_listeners(self, report: CompressionReport) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                listener(report)
            except Exception:  # noqa: BLE001 (a listener must not cost a turn)
                _log.exception("session %r: the listener %r failed", self._conversation, listener)


def _going_further(config: AutoContextConfig) -> AutoContextConfig:
    """The configuration for a pass that is asked for before one is due."""
    return config.model_copy(update={"target_ratio": min(_ASKED_RATIO, config.target_ratio)})
