"""AutoContextMemory: the conversation of one agent, kept small and complete.

Every change goes through the journal: stored first, then recorded in the log, which all reads use. Compression is in
`compression.runner` (when it runs) and `compression.engine` (what it does).
"""

from __future__ import annotations

import time
import uuid as uuids
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

from autocontext.compression.limits import Limits
from autocontext.compression.loading import Loading
from autocontext.compression.restoring import enlarging_entries, is_readable, made_for_less, restore_entries
from autocontext.compression.runner import PassRunner, Wanted
from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig, as_config, config_of
from autocontext.errors import (
    ConfigError,
    Conflict,
    ContextOverflowError,
    InvalidMessage,
    NoSuchMessage,
    StateError,
    did_you_mean,
    short,
)
from autocontext.events import CompressionEvent, CompressionReport, Health, Repeats, UsageTotals
from autocontext.flows import Flow, compute, method, sync_and_async
from autocontext.flows.forking import fork_lock
from autocontext.flows.logs import logger
from autocontext.flows.threads import in_thread
from autocontext.formats.compactions import block_first
from autocontext.formats.provider_messages import ProviderMessages
from autocontext.formats.refusals import is_too_long, times_too_long
from autocontext.formats.usage import input_tokens_of, is_summed
from autocontext.history import numbering, state
from autocontext.history.answering import is_waiting
from autocontext.history.children import child_id, child_of, id_at, split
from autocontext.history.entries import Added, Cleared, Ended, Entry, Forgotten, Offloaded, Removed
from autocontext.history.following import follow_entries
from autocontext.history.log import Log, ViewChange
from autocontext.history.requests import open_request, without_lost_reasoning
from autocontext.history.undoing import later_compression, return_entries, undo_entry
from autocontext.messages import RESPONSES_HINTS, Msg, as_messages, is_reasoning, is_tool_message
from autocontext.models import AsyncChatModel, ChatModel
from autocontext.models.opening import checked_model, open_model
from autocontext.plan import PlanLike, check_plan
from autocontext.stores import SessionKey, SessionStore
from autocontext.stores.checks import check_text, json_text, plain
from autocontext.stores.closing import Closing
from autocontext.stores.journal import Journal
from autocontext.stores.protocol import Position, checked_store, version_of
from autocontext.text.rendering import status_line
from autocontext.tokens import TokenCounter
from autocontext.tokens.guarded import guarded
from autocontext.tokens.registry import counter_for
from autocontext.tools import ContextOffloadTool, lacks_reload

if TYPE_CHECKING:
    from autocontext.steering import ContextTool, MemoryParts
    from autocontext.stores.database import Database
    from autocontext.stores.database_sessions import DatabaseSessionStore

T = TypeVar("T")
_log = logger("autocontext.passes")  # the name that docs/production.md gives
_USAGE_TOO_SMALL = (
    "record_usage: %d tokens are less than a quarter of what is sent (about %d) and are not used. Anthropic's "
    "input_tokens leaves out what its cache had: pass reply.usage"
)
_REFUSED = "session %r: the service refused a request as too long; by our own count it had %d of %d tokens. %s"
_COUNTER_FAILED = "session %r: the token counter: %s. What it fails on counts as bytes / 4; this is said once"


class AutoContextMemory(ProviderMessages, Closing):
    """An agent's messages: the view that the model should see, and all originals.

    `model` writes the summaries (sync, async or both; None for ExtractiveModel, which needs no model). With a `store`,
    every change is durable before the call returns, and an existing session is continued. `clock` returns seconds since
    1970; it serves `cache_ttl` alone.

        with AutoContextMemory.open("agent.db", session_id="42", window="16k") as memory:
            memory.add({"role": "user", "content": "Hello"})
            reply = call_your_llm(memory.to_openai())

    Iterating gives the working view and `len` its number of messages, without compressing.
    """

    def __init__(
        self,
        config: AutoContextConfig | None = None,
        model: ChatModel | AsyncChatModel | None = None,
        *,
        store: SessionStore | None = None,
        session_id: str | None = None,
        user_id: str = "",
        plan: PlanLike | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        owner = type(self).__name__
        self.unsent = set()
        self._told_usage = False
        self.opened_store: DatabaseSessionStore | None = None
        """The store that `open` has made; None for a memory that was made otherwise."""
        self.config = as_config(config, owner)
        checked_model(model, owner)
        checked_store(store, owner)
        check_plan(f"{owner}.plan", plan)
        if session_id == "":
            raise ConfigError(f'{owner}.session_id: "" names no session; leave it out to begin a new one')
        if session_id is not None and store is None:
            raise ConfigError(
                f"{owner}.session_id: without a store nothing is kept under {session_id!r}; "
                "pass store=SqliteSessionStore(path) too, or leave it out"
            )
        self.session = SessionKey(plain(user_id), plain(session_id or str(uuids.uuid4())))
        self._lock = fork_lock()
        self._store = store
        self._children_store = store
        """Where children are: without a store, in one that the first of them makes."""
        self._model, self._clock = model, clock
        self._journal = Journal(store, self.session, self._lock, self._after_entry)
        log = self._journal.log
        counter = guarded(counter_for(self.config.token_counter, model), self._tell_counter)
        loading = Loading(counter)
        self._tokens = TokenSum(counter, log, loading.wait, window=self.config.max_token)
        self._pass_runner = PassRunner(
            recorder=self._journal,
            token_sum=self._tokens,
            config=self.config,
            model=model,
            loading=loading,
            clock=clock,
            conversation=self.session.session_id,
        )
        self._pass_runner.plan = plan
        self._enlarged = False
        """Whether it was looked at, since this memory was opened, if the session comes from a smaller window."""
        self._overhead: tuple[str, ...] = ()
        self.set_overhead()
        self._last_read: Sequence[str] = ()
        """Ids of the view when it was read last, to be sent."""
        self._recovered = (-1, 0)
        """Number of entries, and the correction of the view, after the last refusal that a pass has helped."""
        self._count_cache: dict[int, tuple[Msg, int]] = {}
        """By identity, the messages of the last `count` that were not in view, with their tokens."""

    @classmethod
    def open(
        cls,
        url: Database | str | Path,
        *,
        session_id: str | None = None,
        user_id: str = "",
        window: int | str | None = None,
        config: AutoContextConfig | None = None,
        model: ChatModel | AsyncChatModel | str | None = None,
        plan: PlanLike | None = None,
    ) -> Self:
        """Open a session of a database, or begin it: a file path, `:memory:` or a `postgresql://` URL.

        `window` is the model's window in tokens (16_000 or "16k"), for AutoContextConfig.for_window; or pass a
        `config`. `model` is a ChatModel or the name of one ("gpt-4.1-mini", "qwen-plus"). Close the memory, or use
        `with`, to close the database. Raises ConfigError and StoreError.
        """
        return open_with_store(cls, url, window, config, model, session_id=session_id, user_id=user_id, plan=plan)

    def _close(self) -> Flow[None]:
        """Close the database that `open` opened; a store that was passed stays open. Closing twice does nothing.

        A pass in the background that still runs is then given up, with a warning.
        """
        if self.opened_store is not None:
            self._pass_runner.close()
            yield method(self.opened_store, "close")

    close, aclose = sync_and_async(_close)

    def __len__(self) -> int:
        with self._lock:
            return len(self._log.view_ids)

    def __bool__(self) -> bool:
        return True  # a memory without messages is a memory

    def __iter__(self) -> Iterator[Msg]:
        return iter(self.messages)

    def __repr__(self) -> str:
        with self._lock:
            view, originals, at_most = len(self._log.view_ids), len(self._log.original), self._token_sum.at_most
            compressions = len(self._log.events)
        user = f" of user {self.session.user_id!r}" if self.session.user_id else ""
        return (
            f"<{type(self).__name__} {self.session.session_id!r}{user}: {view} messages in view of {originals}, "
            f"at most {at_most:,} of {self.config.max_token:,} tokens, {compressions} compressions>"
        )

    # ------------------------------------------------------------------------------------------------------ adding
    def add_message(self, msg: Msg) -> None:
        """Add a message at the end; with a store it is durable when this returns."""
        self.add_messages((msg,))

    def add_messages(self, msgs: Iterable[Msg]) -> None:
        """Add messages at the end, in order, all or none. Raises InvalidMessage for anything that is not a Msg.

        `add` takes dicts in providers' formats, too.
        """
        self._journal.append_with_retry(*(Added(message=msg) for msg in as_messages(msgs)))

    # ----------------------------------------------------------------------------------------------------- reading
    def get_messages(self) -> list[Msg]:
        """What the model should see; compresses first if a threshold is reached."""
        self._before_passes()
        self._pass_runner.before_reading()
        return self._shown()

    async def aget_messages(self) -> list[Msg]:
        """What the model should see; compresses first, without blocking the event loop."""
        if self.config.provider_compaction == "instead" or not self._enlarged:
            await in_thread(self._before_passes)
        await self._pass_runner.abefore_reading()
        return await self._pass_runner.locked(self._shown)

    def _before_passes(self) -> None:
        """Put back what has no reason to be out of view: before the passes, which may compress it."""
        if self.config.provider_compaction == "instead":
            self._restore_compacted(lambda: True)
        if not self._enlarged:
            with self._lock:
                self._enlarged = not made_for_less(self._log, self.config)
                if not self._enlarged:
                    self._enlarge()

    def resize(self, window: int | str) -> None:
        """Go on with a model of another window, in tokens (200_000 or "200k").

        In a larger one, what was compressed last comes back into view at once, as much as half of it holds. In a
        smaller one, the next request makes a pass. A session that is opened in a larger window does the same when it
        is read first. Raises ConfigError for fewer than 500 tokens.
        """
        config = self.config.resized(window)
        with self._lock:
            grows = config.max_token > self.config.max_token
            self.config = config
            self._pass_runner.resize(config)
            self._count_overhead()
            if grows:
                self._enlarge()

    def _enlarge(self) -> None:
        with suppress(Conflict):  # another process has just written: the next reading tries again
            self._enlarged = False
            self._journal.commit(*enlarging_entries(self._log, self._token_sum, self.config))
            self._enlarged = True

    def _shown(self) -> list[Msg]:
        with self._lock:
            log = self._log
            self._last_read = tuple(log.view_ids)
            return block_first(log.view_messages) if log.compactions else list(log.view_messages)

    def make_readable(self, provider: str) -> None:
        """Put back the originals behind compactions that this provider ("openai", "anthropic" or "") cannot read.

        From then on they are compressed like any others. `to_openai`, `to_responses` and `to_anthropic` call it.
        """
        self._restore_compacted(lambda: not all(is_readable(m, provider) for m in self._log.view_messages))

    async def amake_readable(self, provider: str) -> None:
        """`make_readable` without blocking the event loop."""
        if await self._pass_runner.locked(lambda: bool(self._log.compactions)):
            await in_thread(lambda: self.make_readable(provider))

    def _restore_compacted(self, is_due: Callable[[], bool]) -> None:
        def entries() -> list[Entry]:
            due = self._log.compactions and is_due()
            return restore_entries(self._log, self._token_sum, self.config) if due else []

        self._journal.commit_anew(entries)

    def as_sent(self, messages: Iterable[Msg]) -> list[Msg]:
        """The messages of a request in a form that strict services take; with `show_status`, the status line is last.

        The line is not stored, and comes last so that the provider's cache of the messages before it stays valid.
        """
        messages = [*messages]
        if any(is_reasoning(m) or any(RESPONSES_HINTS in block.metadata for block in m.content) for m in messages):
            with self._lock:
                messages = [*without_lost_reasoning(self._log, messages)]
        sent = super().as_sent(messages)
        # After an assistant's message the line would read as the user's reply.
        if not self.config.show_status or not sent or sent[-1].role not in ("user", "tool"):
            return sent
        trigger = Limits.of(self.config, early=self.config.background).tokens
        with self._lock:
            used, near = self._token_sum.total(), self._pass_runner.is_near()
        line = status_line(used, self.config.max_token, trigger, near=near)
        return [*sent, Msg(id="context-status", role="user", content=line)]

    @property
    def messages(self) -> list[Msg]:
        """The working view, without compressing."""
        with self._lock:
            return list(self._log.view_messages)

    def _names_of_calls(self, ids: AbstractSet[str]) -> dict[str, str]:
        names: dict[str, str] = {}
        with self._lock:
            for msg in reversed(self._log.view_messages):
                for use in reversed(msg.tool_uses):
                    if use.id in ids:
                        names.setdefault(use.id, use.name)
                if len(names) == len(ids):
                    break
        return names

    @property
    def open_request(self) -> Msg | None:
        """What the user said last, as it was said, if the view has no answer to it yet; else None.

        A program that is started again after a crash asks its question only if there is none:
        `if memory.open_request is None: memory.add(question)`.
        """
        with self._lock:
            return open_request(self._log)

    def close_request(self) -> None:
        """Say that a run has ended and nothing is open, for one that ends with a tool's result instead of a reply.

        Does nothing while a call waits for its result. The adapters do it where a framework tells them of the end.
        """
        request = self.open_request

        def entries() -> list[Ended]:
            # What another process has asked meanwhile is another request.
            return [Ended()] if self.open_request == request and not is_waiting(self._log) else []

        if request is not None:
            self._journal.commit_anew(entries)

    @property
    def token_count(self) -> int:
        """Tokens of the working view and the overhead (see `set_overhead`)."""
        with self._lock:
            return self._token_sum.total()

    def _tell_counter(self, problem: str) -> None:
        _log.warning(_COUNTER_FAILED, self.session.session_id, problem)

    @property
    def counter(self) -> TokenCounter:
        """The counter of this memory; one of your own counts as bytes / 4 what it fails on."""
        return self._tokens.counter

    def set_overhead(self, *parts: str | Mapping[str, Any]) -> None:
        """Count what is sent with the messages: system texts and tool schemas. Replaces those of an earlier call.

        Where the schemas are without `context_reload`, a warning says so once something is condensed.
        """
        if wrong := [part for part in parts if not isinstance(part, str | Mapping)]:
            raise ConfigError(f"set_overhead: got {short(wrong[0])}; write set_overhead(system, *schemas)")
        texts = [part if isinstance(part, str) else json_text("set_overhead", part, ascii_only=False) for part in parts]
        with self._lock:
            self._overhead = tuple(texts)
            self._pass_runner.lacks_reload = lacks_reload(parts)
            self._count_overhead()

    def _count_overhead(self) -> None:
        """Count the overhead, with the longest line that `as_sent` may add."""
        largest = self.config.max_token
        status = [f"[user] {status_line(largest, largest, largest, near=True)}"] if self.config.show_status else []
        self._token_sum.set_overhead([*self._overhead, *status])

    def count(self, messages: Iterable[Msg]) -> int:
        """Tokens of these messages and the overhead; messages of the previous call are not counted again."""
        with self._lock:
            in_view = {id(m): id_ for id_, m in self._log.in_view}
            cache, self._count_cache = self._count_cache, {}
            total = self._token_sum.overhead
            for m in messages:
                place = in_view.get(id(m))
                cached = cache.get(id(m))
                if place is not None:
                    tokens = self._token_sum.count(place, m)
                else:
                    tokens = cached[1] if cached is not None and cached[0] is m else self._token_sum.counter.count(m)
                    self._count_cache[id(m)] = (m, tokens)
                total += tokens
            return total

    def record_usage(self, input_tokens: Any) -> None:
        """Use the provider's token count of the last request, until the next one is told.

        It is for the view that was read last. What was or is added since is counted on top; if something of that view
        has left it meanwhile, as by a pass in the background, the count is not used. Where messages leave the view
        later, what remains keeps its share of what the provider counted more; what it counted less is forgotten.

        Pass the `usage` of the reply, of Anthropic's or OpenAI's SDK or as a dict, before you add the reply. A number
        must include the tokens that the provider's cache had, which Anthropic's `input_tokens` leaves out. A count of
        less than a quarter of our own is not used, and the first one is warned of; nor is that of an answer for which
        Anthropic has run tools, since it is a sum. OpenAI's says so nowhere: leave it out. Raises InvalidMessage where
        there is no count.
        """
        tokens = input_tokens_of(input_tokens)
        if is_summed(input_tokens):
            return
        with self._lock:
            if self._use_count(tokens, self._last_read or self._log.view_ids) or self._told_usage:
                return
            self._told_usage, own = True, self._token_sum.roughly
        _log.warning(_USAGE_TOO_SMALL, tokens, own)

    def _use_count(self, tokens: int, sent: Iterable[str]) -> bool:
        """Use a provider's count of these messages if all are in view; False for one of under a quarter of our own."""
        log, ids = self._log, set(sent)
        if not self._is_in_view(ids):
            return True
        tokens += sum(self._token_sum.count(i, log.messages[i]) for i in log.view_ids if i not in ids)
        is_likely = tokens >= self._token_sum.roughly / 4
        if is_likely:
            self._token_sum.anchor(tokens)
        return is_likely

    def _recover(self, error: BaseException) -> Flow[bool]:
        """Whether a refused request may be sent once more: the service called it too long, and the view is smaller now.

        `error` is what the client raised; of any other one nothing changes. The memory has learned that its view was
        over the window, and made a pass as `compress_if_needed(force=True)` does. Send again once, not in a loop:

            except BadRequestError as error:
                if not memory.recover(error):
                    raise
                reply = client.chat.completions.create(model=model, messages=memory.to_openai(), tools=tools)
        """
        if not is_too_long(error):
            return False
        learned = yield from compute(partial(self._learn_refusal, times_too_long(error)))
        if learned is None:
            return not (yield from compute(lambda: self._is_in_view(self._last_read)))
        own, is_smaller = learned
        report: CompressionReport | None = None
        problem: Exception | None = None
        try:
            report = yield method(self, "compress_if_needed", force=True)
        except Exception as e:  # noqa: BLE001 (raised below)
            problem = e
        again = yield from compute(partial(is_smaller, bool(report)))
        if problem is not None and not isinstance(problem, ContextOverflowError):  # with strict_fit
            raise problem
        told = problem if report is None else report.receipt or report.reason
        _log.warning(_REFUSED, self.session.session_id, own, self.config.max_token, told)
        return again

    recover, arecover = sync_and_async(_recover)

    def _learn_refusal(self, times: float) -> tuple[int, Callable[[bool], bool]] | None:
        """Count the view as so many times the window, or just over it; None if it is as one without a count left it.

        Returns our own count, and what says after the pass whether the view is smaller than the one refused.
        """
        with self._lock:
            tokens, pacing, sent = self._token_sum, self._pass_runner.pacing, self._last_read
            if times <= 1 and self._recovered == (len(self._log.entries), tokens.correction):
                return None
            own, take_back = tokens.own, tokens.try_at_least(int(times * self.config.max_token) + 1)

        def is_smaller(helped: bool) -> bool:
            with self._lock:
                if helped:
                    self._recovered = (len(self._log.entries), self._token_sum.correction)
                elif take_back():  # what was too long may be another part
                    self._pass_runner.pacing = pacing
                # Of several threads that were refused, one makes the pass.
                return helped or not self._is_in_view(sent)

        return own, is_smaller

    def _is_in_view(self, ids: Iterable[str]) -> bool:
        with self._lock:
            return set(self._log.view_ids).issuperset(ids)

    def get_original_memory_msgs(self) -> list[Msg]:
        """Every message ever added, unchanged."""
        with self._lock:
            return self._log.read(self._log.original)

    def get_interaction_msgs(self) -> list[Msg]:
        """The originals of the user and the agent, without tool calls and results."""
        return [
            m for m in self.get_original_memory_msgs() if m.role in ("user", "assistant") and not is_tool_message(m)
        ]

    def get_offload_context(self) -> dict[str, list[Msg]]:
        """The offload entries: the messages that compressions took out of the view, by UUID."""
        with self._lock:
            return {uuid: self._log.read(ids) for uuid, ids in self._log.offloads.items()}

    def get_compression_events(self) -> list[CompressionEvent]:
        """One event per edit, in order."""
        with self._lock:
            return list(self._log.events)

    # ------------------------------------------------------------------------------------------------- compressing
    def compress_if_needed(
        self, *, force: bool = False, max_token: int | None = None, focus: str = ""
    ) -> CompressionReport:
        """Run a pass if a threshold is reached, or always with `force`; the report is true if something changed.

        With the settings of `for_window`, a pass of `force` leaves half of the window: before one is due,
        `target_ratio` would leave it nothing to do. `max_token` overrides the window for this pass, in tokens; then
        `target_ratio` holds. `focus` ("the billing bug") is what its notes keep first and in most detail.
        """
        return self._pass_runner.run(**self._wanted(force, max_token, focus))

    async def acompress_if_needed(
        self, *, force: bool = False, max_token: int | None = None, focus: str = ""
    ) -> CompressionReport:
        """`compress_if_needed` without blocking the event loop."""
        return await self._pass_runner.arun(**self._wanted(force, max_token, focus))

    def _wanted(self, force: bool, max_token: int | None, focus: str) -> Wanted:
        # AgentScope-Java's strategies do with `force` what they do when a pass is due.
        goes_further = force and max_token is None and "shorten" in self.config.strategies
        return {"force": force, "max_token": max_token, "goes_further": goes_further, "focus": focus}

    def compress_if_idle(self) -> CompressionReport:
        """Run a pass if the provider's prompt cache has expired (`cache_ttl`) and the view is worth one.

        Call it from a timer, while nobody waits: nothing of the next request is cached, so a pass costs nothing extra.
        `cache_expires_in` says when. `get_messages` does the same when it is called later.
        """
        return self._pass_runner.run_if_idle()

    async def acompress_if_idle(self) -> CompressionReport:
        """`compress_if_idle` without blocking the event loop."""
        return await self._pass_runner.arun_if_idle()

    @property
    def cache_expires_in(self) -> float | None:
        """Seconds until the provider forgets the last request, 0 or less once it has; None without `cache_ttl`.

        The last request was when the context was last read, or, in a session opened again, before its last reply.
        """
        with self._lock:
            return self._pass_runner.cache.expires_in

    @property
    def usage(self) -> UsageTotals:
        """Totals over the passes since this memory was opened."""
        return self._pass_runner.usage

    def health(self) -> Health:
        """Whether the summarising model answers, and whether the store is in step: as far as this process has seen.

        if memory.health().failing: ...
        """
        store: Literal["none", "in step", "behind"] = "in step" if self._journal.whole else "behind"
        return self._pass_runner.health(store="none" if self._store is None else store)

    def repeats(self) -> Repeats:
        """Whether the agent repeats itself after passes: of the calls around them, how many were made or read before.

        The first use reads the whole log, each later one only what is new.
        """
        return self._pass_runner.repeats()

    def overflow(self) -> str:
        """Why the view is over `max_token`, or with images and files over `max_request_bytes`; "" if it fits.

        It names the largest part.
        """
        return self._pass_runner.overflow()

    def on_compression(self, listener: Callable[[CompressionReport], Any]) -> Callable[[], None]:
        """Call `listener` with the report of each pass; returns a function that stops it. Its failures are logged."""
        return self._pass_runner.listen(listener)

    def attach_plan_note(self, plan: PlanLike | None) -> None:
        """Set the plan that summaries should serve; each pass reads it again. None removes it.

        Raises ConfigError for what has not the attributes of a Plan.
        """
        check_plan("attach_plan_note", plan)
        self._pass_runner.plan = plan

    def undo(self, uuid: str) -> bool:
        """Put back into the view what the compression `uuid` replaced; False if its note is no longer in view.

        `replaced_by` says which later compression stands for the note.
        """
        check_text("uuid", uuid, InvalidMessage)
        with self._lock:
            note = self._log.note_of(uuid)
            entry = undo_entry(self._log, note) if note is not None else None
            if entry is not None:
                self._journal.commit(entry)
            return entry is not None

    def replaced_by(self, uuid: str) -> str:
        """The UUID of the later compression in view that stands for the note of this one; "" if there is none.

        `undo` that one first: it puts back what it replaced, notes included.
        """
        check_text("uuid", uuid, InvalidMessage)
        with self._lock:
            return later_compression(self._log, self._log.handle(uuid))

    # ------------------------------------------------------------------------------------------- the agent's tools
    def tools(self, *names: str) -> list[ContextOffloadTool | ContextTool]:
        """The tools with which an agent reads, sees and steers its context, or those with these names.

        "reload", "status", "archive", "restore", "pin", "note", "condense", "search": each has a `name`, a `schema()`
        (an OpenAI function schema), and is called with the model's arguments (in asynchronous code with
        `await tool.acall(...)`).

            loop.run(client, model, memory, tools=[read_log, *memory.tools()])

        Raises ConfigError for an unknown name.
        """
        from autocontext.steering import context_tools  # noqa: PLC0415 (only agents that steer need it)

        everything: list[ContextOffloadTool | ContextTool] = [ContextOffloadTool(self), *context_tools(self._parts())]
        tools = {tool.name: tool for tool in everything}
        wanted = [name if name in tools else f"context_{name}" for name in names]
        for name, full in zip(names, wanted, strict=True):
            if full not in tools:
                known = [tool.removeprefix("context_") for tool in tools]
                raise ConfigError(f"tools: there is no tool {name!r}; {did_you_mean(name, known)}")
        return [tools[name] for name in wanted or tools]

    # ------------------------------------------------------------------------------------------------- sub-agents
    def child(
        self,
        name: str,
        *,
        window: int | str | None = None,
        config: AutoContextConfig | None = None,
        model: ChatModel | AsyncChatModel | str | None = None,
    ) -> AutoContextMemory:
        """The memory of a sub-agent: a session of its own in the same store, or the one that it has there already.

        It has this memory's user, and its configuration and model unless others are given; `window` adjusts the
        configuration. Here its messages are "researcher/m12", for `reload` and the reload tool; it sees nothing of
        this memory. Each call opens the session. Raises ConfigError for a name with other characters than letters,
        digits, `_`, `-` and `.`, and for more than 8 levels of children.

            researcher = memory.child("researcher", window="16k")
        """
        config = config_of("child", window, config, self.config)
        session_id = child_id(self.session.session_id, name)
        return self._session(session_id, config, self._model if model is None else open_model(model, "child"))

    @property
    def children(self) -> list[str]:
        """The names of the children that have messages, sorted; theirs are not among them.

        Lists the user's sessions.
        """
        with self._lock:
            store = self._children_store
        sessions = [] if store is None else store.sessions(self.session.user_id)
        found = [child_of(info.session_id) for info in sessions]
        return sorted(c.name for c in found if c is not None and c.parent == self.session.session_id)

    @property
    def parent(self) -> SessionKey | None:
        """The session whose child this one is; None if it is nobody's."""
        child = child_of(self.session.session_id)
        return None if child is None else SessionKey(self.session.user_id, child.parent)

    def branch(self) -> AutoContextMemory:
        """A memory without a store that begins as this one is: what is added, removed or condensed there, stays there.

        Messages so far have the same numbers in both. What the passes of the branch cost counts as this memory's.
        """
        with self._lock:
            branch = AutoContextMemory(self.config, self._model, clock=self._clock)
            branch._journal.commit(self._log.snapshot())
            branch.session, branch._children_store = self.session, self._children_store
            branch.set_overhead(*self._overhead)
            branch._tokens.correct_like(self._token_sum)
        branch._pass_runner.belong_to(self._pass_runner)
        return branch

    def _at(self, path: str) -> AutoContextMemory:
        """The child at a path such as "researcher/" or "researcher/reader/", to be read."""
        return self._session(id_at(self.session.session_id, path), self.config, self._model)

    def _session(
        self, session_id: str, config: AutoContextConfig | None, model: ChatModel | AsyncChatModel | None
    ) -> AutoContextMemory:
        from autocontext.stores.database_sessions import InMemorySessionStore  # noqa: PLC0415 (most memories have a store)

        with self._lock:
            if self._children_store is None:
                self._children_store = InMemorySessionStore()
        store, user = self._children_store, self.session.user_id
        return AutoContextMemory(config, model, store=store, session_id=session_id, user_id=user, clock=self._clock)

    # --------------------------------------------------------------------------------------------------- offloads
    def offload(self, uuid: str, msgs: Msg | Iterable[Msg]) -> None:
        """Store messages under your own key; `reload` and the reload tool find them."""
        check_text("uuid", uuid, InvalidMessage)
        if not uuid:
            raise InvalidMessage("offload: uuid is empty; give the entry a key")
        self._journal.append_with_retry(Offloaded(uuid=uuid, messages=tuple(as_messages(msgs))))

    def reload(self, uuid: str) -> list[Msg]:
        """The original messages of an offload entry; [] if it is unknown.

        `uuid` may be a prefix of at least 8 characters that fits only one entry, or numbers of originals, such as
        "m41", "m12-m19" and "m1,m7" (see `numbered`). Of a child it may be both, after its name: "researcher/m12".
        """
        check_text("uuid", uuid, InvalidMessage)
        with self._lock:
            if handle := self._log.handle(uuid):
                return self._log.originals_of(handle)
        path, rest = split(uuid)
        return self._at(path).reload(rest) if path else list(self.numbered(uuid).values())

    def numbered(self, numbers: str) -> dict[int, Msg]:
        """The originals that "m41", "m12-m19" or "m1,m7" names, by number, ascending; {} if it names none.

        m1 is the first message of `get_original_memory_msgs()`; numbers never change. A message with tool calls or
        results comes with its whole exchange. "researcher/m12" names a child's.
        """
        check_text("numbers", numbers, InvalidMessage)
        path, rest = split(numbers)
        if path:
            return self._at(path).numbered(rest)
        with self._lock:
            originals = self._log.originals
            places = numbering.parse(numbers, len(originals))
            return {n: originals[n - 1] for n in numbering.with_exchanges(places or (), originals)}

    def handle(self, uuid: str) -> str:
        """The full UUID for a UUID or prefix; "" if no offload entry fits, or more than one.

        That of a child's entry has the child's name before it: "researcher/0f2c7a5e-...".
        """
        check_text("uuid", uuid, InvalidMessage)
        with self._lock:
            if handle := self._log.handle(uuid):
                return handle
        path, rest = split(uuid)
        handle = self._at(path).handle(rest) if path else ""
        return path + handle if handle else ""

    def clear_offload(self, uuid: str) -> None:
        """Remove an offload entry; the original memory keeps the messages."""
        check_text("uuid", uuid, InvalidMessage)
        with self._lock:
            if uuid in self._log.offloads:
                self._journal.append_with_retry(Forgotten(uuid=uuid))

    # ---------------------------------------------------------------------------------------------------- removing
    def delete_message(self, index: int) -> list[Msg]:
        """Remove the message at `index` from the view, with the calls and results it is paired with, and return them.

        A line of ours before one of them, such as "3 days later", goes too and is not returned. The original memory
        keeps them. Raises NoSuchMessage (an IndexError) out of range.
        """
        with self._lock:
            size = len(self._log.view_ids)
            if not hasattr(index, "__index__"):
                raise InvalidMessage(f"delete_message: index must be a whole number (got {short(index)})")
            if not 0 <= index < size:
                raise NoSuchMessage(f"delete_message: index {index} is out of range; the view has {size} messages")
            log = self._log
            exchange = log.view().exchange(index)
            lines = (i - 1 for i in exchange if i and log.is_line(log.view_ids[i - 1]))
            removed = [log.view_messages[i] for i in exchange]
            self._journal.commit(Removed(ids=tuple(log.view_ids[i] for i in sorted({*exchange, *lines}))))
            return removed

    def follow(self, ids: Collection[str], gone: Collection[str] = (), own: Collection[str] | None = None) -> None:
        """Take out of the view what a framework's list of messages has no more: a turn tried again, a branch left.

        `ids` are those of the list at the start of a run. What stands behind the last message they share goes (a list
        that shares nothing is new input, not a history), and those of `gone`, ids that the list has had, wherever they
        stand; a note goes once all that it stands for does, and one that stays no longer puts them back when it is
        undone. What is in the list again returns to its place. The originals stay.

        In the middle of a run, pass as `own` the ids of all that came from the list: nothing else goes for where it
        stands, such as what a tool has added.
        """
        self._journal.commit_anew(lambda: follow_entries(self._log, ids, gone, own))

    def bring_back(self, ids: Collection[str]) -> None:
        """Put back in its place what `follow` has taken out of the view, also in another process."""
        self._journal.commit_anew(lambda: return_entries(self._log, ids))

    def _move_to_end(self, ids: Collection[str]) -> None:
        """Move messages to the end of the view: they are there as said once more, after what was added since."""
        with self._lock:
            moved = [key for key, m in self._log.in_view if m.id in ids]
            again = [Added(message=m) for m in self._log.read(moved)]
            self._journal.append_with_retry(Removed(ids=tuple(moved)), *again)

    def clear(self) -> None:
        """Begin again with an empty conversation: no view, originals, offloads and events; the next message is m1.

        A store keeps the entries from before, in the file, exports and forks: its `delete` and `erase` remove them.
        """
        self._journal.append_with_retry(Cleared())

    # ------------------------------------------------------------------------------------------------------- state
    def state_dict(self) -> dict[str, Any]:
        """The whole state as a JSON object that `load_state_dict` reads.

        Its keys: version, working_memory_storage, original_memory_storage, offload_context, compression_events.
        """
        with self._lock:
            return state.dump(self._log)

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Replace the whole state. Raises StateError naming the field at fault, and then changes nothing."""
        self._journal.commit(state.load(saved))

    def refresh(self) -> int:
        """Read what other processes have added to this session; returns the number of log entries."""
        with self._lock:
            return len(self._journal.catch_up())

    def save_to(self, store: SessionStore, session_id: str | None = None) -> SessionKey:
        """Copy the whole state to a session in another store (of the same user); returns its key.

        An existing session gets the state as its newest entry, so its earlier states can still be forked.
        """
        key = SessionKey(self.session.user_id, session_id or self.session.session_id)
        there = store.read(key)
        with self._lock:
            entries: list[Entry] = [self._log.snapshot()] if there else [*self._log.entries]
        store.append(key, entries, after=Position(len(there), version_of(there)))
        return key

    def load_from(self, store: SessionStore, session_id: str | None = None) -> None:
        """Replace the whole state by a session in another store (of the same user).

        Raises StateError if there is no such session, and then changes nothing.
        """
        key = SessionKey(self.session.user_id, session_id or self.session.session_id)
        entries = store.read(key)
        if not entries:
            raise StateError(f"load_from: the store has no session {key.session_id!r} of user {key.user_id!r}")
        self._journal.commit(Log(entries).snapshot())

    # ------------------------------------------------------------------------------------------------------- inner
    @property
    def _log(self) -> Log:
        """The log, whole, also after an interrupt; use it under the lock."""
        return self._journal.log

    @property
    def _token_sum(self) -> TokenSum:
        """The token sum of the log as it is, whole; use it under the lock."""
        self._journal.mend()
        return self._tokens

    def _parts(self) -> MemoryParts:
        from autocontext.steering import MemoryParts  # noqa: PLC0415 (as in `tools`)

        return MemoryParts(
            token_sum=self._tokens,
            config=self.config,
            runner=self._pass_runner,
            journal=self._journal,
            lock=self._lock,
            session=self.session,
            store=self._store,
        )

    def _after_entry(self, entry: Entry | None, change: ViewChange) -> None:
        """Update the token sum and the passes after an entry was recorded, or all were read again (None)."""
        self._tokens.update(change)
        if change.all_new or (entry is not None and entry.type == "restored"):
            self._pass_runner.restart(all_new=change.all_new)


def open_with_store(
    of: type[T],
    url: Database | str | Path,
    window: int | str | None,
    config: AutoContextConfig | None,
    model: ChatModel | AsyncChatModel | str | None,
    **options: Any,
) -> T:
    """An `of` over a database, which is its `opened_store`. It is closed again if that fails."""
    from autocontext.stores.database_sessions import DatabaseSessionStore  # noqa: PLC0415 (needs sqlite3)

    settings, summarizer = config_of(f"{of.__name__}.open", window, config), open_model(model, of.__name__)
    store, make = DatabaseSessionStore(url), cast("Callable[..., Any]", of)
    try:
        if issubclass(of, AutoContextMemory):  # by place: a subclass may have names of its own
            opened = make(settings, summarizer, store=store, **options)
        else:
            opened = make(config=settings, model=summarizer, store=store, **options)
    except BaseException:
        store.close()
        raise
    opened.opened_store = store
    return cast("T", opened)


def offered_tools(memory: AutoContextMemory) -> list[ContextOffloadTool | ContextTool]:
    """The tools that its agent is given: `context_reload`, with `steering` all of them."""
    return memory.tools() if memory.config.steering else memory.tools("reload")


def learn_usage(memory: AutoContextMemory, sent: Iterable[Msg], usage: Any, answer: Iterable[Any] = ()) -> None:
    """`record_usage` by the reply to a request that held `sent`, messages of the memory's view as they were then.

    What was added meanwhile is counted on top. Nothing changes, and nothing is told, where the usage has no count or
    an unlikely one, as of a model in a test, where a pass in the background has changed what was sent, or where the
    parts of the `answer` show that the service has run tools.
    """
    if is_summed(usage, answer):
        return
    with suppress(InvalidMessage):
        tokens, asked = input_tokens_of(usage), {id(m) for m in sent}
        with memory._lock:  # noqa: SLF001 (so that no pass comes between)
            ids = [i for i, m in zip(memory._log.view_ids, memory.messages, strict=True) if id(m) in asked]  # noqa: SLF001
            if tokens and len(ids) == len(asked):
                memory._use_count(tokens, ids)  # noqa: SLF001 (without a warning)


def in_log(memory: AutoContextMemory, read: Callable[[Log], T]) -> T:
    """What `read` finds in the memory's log, which is whole and stays as it is meanwhile."""
    with memory._lock:  # noqa: SLF001 (as above)
        return read(memory._log)  # noqa: SLF001 (as above)


def add_unless(memory: AutoContextMemory, msg: Msg, there: Callable[[], object]) -> None:
    """Add a message unless it is there: asked at each attempt, with the lock held."""
    memory._journal.commit_anew(lambda: () if there() else [Added(message=msg)])  # noqa: SLF001 (as above)
