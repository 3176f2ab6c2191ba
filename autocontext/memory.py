"""AutoContextMemory: the conversation of one agent, kept small and complete.

This module does the I/O around the core: it drives `engine.compress`, once for synchronous and once for asynchronous
callers, puts the engine's questions to the model and writes entries to the store before they count.
"""

from __future__ import annotations

import asyncio
import threading
import uuid as uuids
from collections.abc import Iterable, Mapping
from typing import Any

from autocontext import state
from autocontext.asking import Asker, in_thread
from autocontext.config import AutoContextConfig
from autocontext.engine import Ask, Pass, Step, compress, triggered
from autocontext.errors import InvalidMessage
from autocontext.events import CompressionEvent, CompressionReport
from autocontext.log import Added, Cleared, Entry, Forgotten, Log, Offloaded, Removed, Restored, contents
from autocontext.messages import Msg, as_messages, is_tool_message
from autocontext.models import AsyncChatModel, ChatModel
from autocontext.plan import PlanLike
from autocontext.requests import Answer
from autocontext.stores import SessionKey, SessionStore
from autocontext.tally import Tally
from autocontext.tokens import get_counter
from autocontext.view import View


class AutoContextMemory:
    """An agent's messages: what the model should see now, and everything there ever was.

    `model` writes the summaries (sync, async or both; None: ExtractiveModel, which needs no model). With a `store`,
    every change is durable before the call returns, and a session that exists is opened where it was left.
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
    ) -> None:
        self.config = config or AutoContextConfig()
        self.session = SessionKey(user_id, session_id or str(uuids.uuid4()))
        self._store = store
        self._asker = Asker(model, self.config)
        self._plan = plan
        self._lock = threading.RLock()
        """Held while the log changes; never while a model or a slow store is waited for by others."""
        self._passing = threading.Lock()
        """Held during a pass: one at a time."""
        self._log = Log(store.read(self.session) if store else ())
        self._tally = Tally(_counter(self.config, model), self._log)

    # ------------------------------------------------------------------------------------------------------ adding
    def add_message(self, msg: Msg) -> None:
        """Add a message at the end; with a store it is durable when this returns."""
        self.add_messages((msg,))

    def add_messages(self, msgs: Iterable[Msg]) -> None:
        """Add messages at the end, in order, all or none.

        Raises InvalidMessage naming the index of what is not a Msg.
        """
        self._commit(*(Added(message=msg) for msg in as_messages(msgs)))

    # ----------------------------------------------------------------------------------------------------- reading
    def get_messages(self) -> list[Msg]:
        """What the model should see; compresses first when a threshold is reached."""
        if self._triggered():
            self.compress_if_needed()
        return self.messages

    async def aget_messages(self) -> list[Msg]:
        """What the model should see; compresses first, without blocking the event loop."""
        if self._triggered():
            await self.acompress_if_needed()
        return self.messages

    @property
    def messages(self) -> list[Msg]:
        """The working view as it stands; never compresses."""
        with self._lock:
            return list(self._log.view_messages)

    @property
    def token_count(self) -> int:
        """Tokens of the working view."""
        with self._lock:
            return self._tally.total()

    def get_original_memory_msgs(self) -> list[Msg]:
        """Every message ever added, as it was added."""
        with self._lock:
            return self._log.read(self._log.original)

    def get_interaction_msgs(self) -> list[Msg]:
        """The originals without tool calls and results: what the user and the agent said to each other."""
        return [
            m for m in self.get_original_memory_msgs() if m.role in ("user", "assistant") and not is_tool_message(m)
        ]

    def get_offload_context(self) -> dict[str, list[Msg]]:
        """The offload entries: by UUID, the messages that a compression took out of the view."""
        with self._lock:
            return dict(contents(self._log))

    def get_compression_events(self) -> list[CompressionEvent]:
        """One event per edit, in order."""
        with self._lock:
            return list(self._log.events)

    # ------------------------------------------------------------------------------------------------- compressing
    def compress_if_needed(self, *, force: bool = False) -> CompressionReport:
        """Run a pass when a threshold is reached, or anyway with `force`; the report is true when something changed."""
        with self._passing:
            steps = self._pass(force=force)
            answers: list[Answer] | None = None
            while True:
                step = self._next(steps, answers)
                if isinstance(step, CompressionReport):
                    return step
                if isinstance(step, Ask):
                    answers = self._asker.ask(step)
                else:
                    self._commit(step.entry)
                    answers = None

    async def acompress_if_needed(self, *, force: bool = False) -> CompressionReport:
        """The same for asynchronous callers: the model and the store are awaited."""
        async with _Turn(self._passing):
            steps = self._pass(force=force)
            answers: list[Answer] | None = None
            while True:
                step = self._next(steps, answers)
                if isinstance(step, CompressionReport):
                    return step
                if isinstance(step, Ask):
                    answers = await self._asker.aask(step)
                else:
                    await self._acommit(step.entry)
                    answers = None

    def attach_plan_note(self, plan: PlanLike | None) -> None:
        """Name the plan that summaries should serve; it is read anew at each pass. None takes it away."""
        self._plan = plan

    def undo(self, uuid: str) -> bool:
        """Put back into the view what the compression `uuid` replaced; False when its note is no longer in view."""
        with self._lock:
            note = self._log.note_of(uuid)
            ids = self._log.behind(uuid)
            if note is None or not ids or not set(ids).isdisjoint(self._log.view_ids):
                return False
            self._commit(Restored(uuid=uuid, note=note, ids=ids))
            return True

    # --------------------------------------------------------------------------------------------------- offloads
    def offload(self, uuid: str, msgs: Msg | Iterable[Msg]) -> None:
        """Keep messages under a key of your own; `reload` and the reload tool find them."""
        if not uuid:
            raise InvalidMessage("offload: uuid is empty; give the entry a key")
        self._commit(Offloaded(uuid=uuid, messages=tuple(as_messages(msgs))))

    def reload(self, uuid: str) -> list[Msg]:
        """The messages behind an offload UUID, as they were; [] when it is unknown.

        A prefix of at least 8 characters will do where it fits one entry only.
        """
        with self._lock:
            if uuid not in self._log.offloads and len(uuid) >= _LEAST_PREFIX:
                fits = [key for key in self._log.offloads if key.startswith(uuid)]
                uuid = fits[0] if len(fits) == 1 else uuid
            return self._log.originals_of(uuid)

    def clear_offload(self, uuid: str) -> None:
        """Forget an offload entry; the originals stay in the original memory."""
        with self._lock:
            if uuid in self._log.offloads:
                self._commit(Forgotten(uuid=uuid))

    # ---------------------------------------------------------------------------------------------------- removing
    def delete_message(self, index: int) -> list[Msg]:
        """Take the message at `index` out of the view, and with it the calls and results it is paired with.

        The original memory keeps them. Returns what was removed. Raises IndexError (an InvalidMessage) out of range.
        """
        with self._lock:
            size = len(self._log.view_ids)
            if not 0 <= index < size:
                raise NoSuchMessage(f"delete_message: index {index} is out of range; the view has {size} messages")
            exchange = View(self._log.view_ids, self._log.view_messages).exchange(index)
            removed = [self._log.view_messages[i] for i in exchange]
            self._commit(Removed(ids=tuple(self._log.view_ids[i] for i in exchange)))
            return removed

    def clear(self) -> None:
        """Drop everything: view, originals, offloads and events."""
        self._commit(Cleared())

    # ------------------------------------------------------------------------------------------------------- state
    def state_dict(self) -> dict[str, Any]:
        """The whole state as a JSON object that `load_state_dict` reads.

        Its keys: version, working_memory_storage, original_memory_storage, offload_context, compression_events.
        """
        with self._lock:
            return state.dump(self._log)

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Replace the whole state. Raises StateError naming the field at fault; the memory is then as it was."""
        self._commit(state.load(saved))

    # ------------------------------------------------------------------------------------------------------- inner
    def _triggered(self) -> bool:
        with self._lock:
            return triggered(self._log, self._tally, self.config)

    def _pass(self, *, force: bool) -> Pass:
        strict = bool(getattr(self._asker.model, "strict", False))
        return compress(self._log, self._tally, self.config, plan=self._plan, force=force, strict=strict)

    def _next(self, steps: Pass, answers: list[Answer] | None) -> Step | CompressionReport:
        """The next step of a pass, or its report; nothing is added to the log meanwhile."""
        with self._lock:
            try:
                return steps.send(answers)
            except StopIteration as done:
                report: CompressionReport = done.value
                return report

    def _commit(self, *entries: Entry) -> None:
        """Store entries, then let them count; if storing fails nothing has changed."""
        with self._lock:
            if self._store is not None and entries:
                self._store.append(self.session, entries, after=len(self._log.entries))
            for entry in entries:
                self._tally.update(self._log.record(entry))

    async def _acommit(self, entry: Entry) -> None:
        if self._store is None:
            self._commit(entry)
        else:
            await in_thread(lambda: self._commit(entry))


_LEAST_PREFIX = 8


class NoSuchMessage(InvalidMessage, IndexError):
    """An index that the working view does not have."""


class _Turn:
    """Waits for a thread lock without blocking the event loop: a pass may run in another thread or loop."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    async def __aenter__(self) -> None:
        pause = 0.001
        while not self._lock.acquire(blocking=False):
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.05)

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


def _counter(config: AutoContextConfig, model: object) -> Any:
    """The configured counter; "auto" goes by the model's name, where it has one."""
    if config.token_counter != "auto":
        return get_counter(config.token_counter)
    name = getattr(model, "model", None)
    return get_counter(name if isinstance(name, str) and name else "o200k_base")
