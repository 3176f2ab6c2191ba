"""AutoContextMemory: the conversation of one agent, kept small and complete.

Everything that changes goes through the journal: stored first, then recorded in the log, of which all reading is done.
Compression itself is in `compression.runner` (when and how it is driven) and `compression.engine` (what it does).
"""

from __future__ import annotations

import json
import threading
import uuid as uuids
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from autocontext.compression.runner import PassRunner
from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig
from autocontext.errors import InvalidMessage, StateError
from autocontext.events import CompressionEvent, CompressionReport, UsageTotals
from autocontext.history import numbering, state
from autocontext.history.entries import Added, Cleared, Entry, Forgotten, NoteReplaced, Offloaded, Removed, Restored
from autocontext.history.log import Log, ViewChange, contents
from autocontext.history.view import View
from autocontext.messages import Msg, as_messages, is_compressed, is_ledger, is_tool_message
from autocontext.models import AsyncChatModel, ChatModel
from autocontext.plan import PlanLike
from autocontext.stores import SessionKey, SessionStore
from autocontext.stores.journal import Journal
from autocontext.tokens import TokenCounter, get_counter


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
        self._lock = threading.RLock()
        self._journal = Journal(store, self.session, self._lock, self._changed)
        self._log = self._journal.log
        self._token_sum = TokenSum(_counter(self.config, model), self._log)
        self._pass_runner = PassRunner(
            log=self._log,
            token_sum=self._token_sum,
            config=self.config,
            model=model,
            lock=self._lock,
            commit=self._journal.commit,
            conversation=self.session.session_id,
        )
        self._pass_runner.plan = plan
        self._counted: dict[int, tuple[Msg, int]] = {}
        """What `count` was last given besides messages of the view: by identity, each with its tokens."""

    # ------------------------------------------------------------------------------------------------------ adding
    def add_message(self, msg: Msg) -> None:
        """Add a message at the end; with a store it is durable when this returns."""
        self.add_messages((msg,))

    def add_messages(self, msgs: Iterable[Msg]) -> None:
        """Add messages at the end, in order, all or none.

        Raises InvalidMessage naming the index of what is not a Msg.
        """
        self._journal.append_with_retry(*(Added(message=msg) for msg in as_messages(msgs)))

    # ----------------------------------------------------------------------------------------------------- reading
    def get_messages(self) -> list[Msg]:
        """What the model should see; compresses first when a threshold is reached."""
        self._pass_runner.before_reading()
        return self.messages

    async def aget_messages(self) -> list[Msg]:
        """What the model should see; compresses first, without blocking the event loop."""
        await self._pass_runner.abefore_reading()
        async with self._pass_runner.held():
            return self.messages

    @property
    def messages(self) -> list[Msg]:
        """The working view as it stands; never compresses."""
        with self._lock:
            return list(self._log.view_messages)

    @property
    def token_count(self) -> int:
        """Tokens of the working view, and of what is sent besides it."""
        with self._lock:
            return self._token_sum.total()

    @property
    def counter(self) -> TokenCounter:
        """What counts the tokens of this memory."""
        return self._token_sum.counter

    def set_overhead(self, *parts: str | Mapping[str, Any]) -> None:
        """Count what is sent besides the messages: system texts and tool schemas; replaces an earlier call's."""
        texts = [part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in parts]
        with self._lock:
            self._token_sum.fixed = sum(map(self._token_sum.counter.count_text, texts))

    def count(self, messages: Iterable[Msg]) -> int:
        """Tokens of these messages and of what is sent besides them; what was counted the last time is not again."""
        with self._lock:
            in_view = {id(m): id_ for id_, m in zip(self._log.view_ids, self._log.view_messages, strict=True)}
            before, self._counted = self._counted, {}
            total = self._token_sum.fixed
            for m in messages:
                place = in_view.get(id(m))
                known = before.get(id(m))
                if place is not None:
                    tokens = self._token_sum.count(place, m)
                else:
                    tokens = known[1] if known is not None and known[0] is m else self._token_sum.counter.count(m)
                    self._counted[id(m)] = (m, tokens)
                total += tokens
            return total

    def record_usage(self, input_tokens: int) -> None:
        """Take over the provider's count of the last request; holds until the next compression or deletion.

        Call it before the reply is added: the number stands for the view as it was sent.
        """
        if input_tokens < 0:
            raise InvalidMessage(f"record_usage: input_tokens must be 0 or more (got {input_tokens})")
        with self._lock:
            self._token_sum.anchor(input_tokens)

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
    def compress_if_needed(self, *, force: bool = False, max_token: int | None = None) -> CompressionReport:
        """Run a pass when a threshold is reached, or anyway with `force`; the report is true when something changed.

        `max_token` is the window to fit into this time, for a call of the model that leaves less room than usual.
        """
        return self._pass_runner.run(force=force, max_token=max_token)

    async def acompress_if_needed(self, *, force: bool = False, max_token: int | None = None) -> CompressionReport:
        """The same for asynchronous callers: the model and the store are awaited."""
        return await self._pass_runner.arun(force=force, max_token=max_token)

    @property
    def usage(self) -> UsageTotals:
        """What the passes have used and saved since this memory was opened."""
        return self._pass_runner.usage

    def on_compression(self, listener: Callable[[CompressionReport], Any]) -> Callable[[], None]:
        """Call `listener` with the report of each pass; returns a function that stops it. Its failures are logged."""
        return self._pass_runner.listen(listener)

    def attach_plan_note(self, plan: PlanLike | None) -> None:
        """Name the plan that summaries should serve; each pass reads it again. None takes it away."""
        self._pass_runner.plan = plan

    def undo(self, uuid: str) -> bool:
        """Put back into the view what the compression `uuid` replaced; False when its note is no longer in view."""
        with self._lock:
            note = self._log.note_of(uuid)
            ids = self._log.behind(note) if note is not None else ()
            if note is None or not ids or not set(ids).isdisjoint(self._log.view_ids):
                return False
            then = (*self._log.view_messages, *self._log.read(ids))
            left = [m for m in then if is_compressed(m) and not is_ledger(m) and m.id != note]
            # Without any note left the evidence ledger has nothing to stand for; else the next pass renews it.
            entries: list[Entry] = [Restored(uuid=uuid, note=note, ids=ids)]
            if self._log.ledger is not None and not left:
                entries.append(NoteReplaced(message=None))
            self._journal.commit(*entries)
            return True

    # --------------------------------------------------------------------------------------------------- offloads
    def offload(self, uuid: str, msgs: Msg | Iterable[Msg]) -> None:
        """Keep messages under a key of your own; `reload` and the reload tool find them."""
        if not uuid:
            raise InvalidMessage("offload: uuid is empty; give the entry a key")
        self._journal.append_with_retry(Offloaded(uuid=uuid, messages=tuple(as_messages(msgs))))

    def reload(self, uuid: str) -> list[Msg]:
        """The messages behind an offload UUID, or those with some numbers, as they were; [] when it is unknown.

        A prefix of at least 8 characters will do where it fits one entry only. Where no entry fits, "m41", "m12-m19"
        and "m1,m7" are numbers of originals (see `numbered`).
        """
        with self._lock:
            handle = self.handle(uuid)
            return self._log.originals_of(handle) if handle else list(self.numbered(uuid).values())

    def numbered(self, numbers: str) -> dict[int, Msg]:
        """The originals that "m41", "m12-m19" or "m1,m7" names, by number, ascending; {} when it names none.

        m1 is the first message of `get_original_memory_msgs()`. A message with tool calls or results brings its whole
        exchange. Numbers are those of the log: whatever happens to the view, they lead to the same messages.
        """
        with self._lock:
            ids = self._log.original
            wanted = numbering.parse(numbers, len(ids))
            if not wanted:
                return {}
            originals = View(ids, self._log.read(ids))
            return {n: originals.messages[n - 1] for n in numbering.with_exchanges(wanted, originals)}

    def handle(self, uuid: str) -> str:
        """The full UUID of the offload entry that a UUID or prefix means; "" when there is none, or more than one."""
        with self._lock:
            handles = {*self._log.offloads, self._log.ledger_handle} - {""}
            if uuid in handles:
                return uuid
            fits = [key for key in handles if key.startswith(uuid)] if len(uuid) >= _LEAST_PREFIX else []
            return fits[0] if len(fits) == 1 else ""

    def clear_offload(self, uuid: str) -> None:
        """Forget an offload entry; the originals stay in the original memory."""
        with self._lock:
            if uuid in self._log.offloads:
                self._journal.append_with_retry(Forgotten(uuid=uuid))

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
            self._journal.commit(Removed(ids=tuple(self._log.view_ids[i] for i in exchange)))
            return removed

    def clear(self) -> None:
        """Drop everything: view, originals, offloads and events."""
        self._journal.append_with_retry(Cleared())

    # ------------------------------------------------------------------------------------------------------- state
    def state_dict(self) -> dict[str, Any]:
        """The whole state as a JSON object that `load_state_dict` reads.

        Its keys: version, working_memory_storage, original_memory_storage, offload_context, compression_events.
        """
        with self._lock:
            return state.dump(self._log)

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Replace the whole state. Raises StateError naming the field at fault; the memory is then as it was."""
        self._journal.commit(state.load(saved))

    def refresh(self) -> int:
        """Take over what other processes have added to this session since; returns how many log entries it was."""
        with self._lock:
            return len(self._journal.catch_up())

    def save_to(self, store: SessionStore, session_id: str | None = None) -> SessionKey:
        """Copy the whole state to a session of another store (of the same user); returns its key.

        A session that is there already gets the state as its newest entry, so its earlier states can be forked.
        """
        key = SessionKey(self.session.user_id, session_id or self.session.session_id)
        there = len(store.read(key))
        with self._lock:
            entries: list[Entry] = [self._log.snapshot()] if there else [*self._log.entries]
        store.append(key, entries, after=there)
        return key

    def load_from(self, store: SessionStore, session_id: str | None = None) -> None:
        """Replace the whole state by a session of another store (of the same user).

        Raises StateError when the session is not there; the memory is then as it was.
        """
        key = SessionKey(self.session.user_id, session_id or self.session.session_id)
        entries = store.read(key)
        if not entries:
            raise StateError(f"load_from: the store has no session {key.session_id!r} of user {key.user_id!r}")
        self._journal.commit(Log(entries).snapshot())

    # ------------------------------------------------------------------------------------------------------- inner
    def _changed(self, entry: Entry, change: ViewChange) -> None:
        """What follows from an entry that counts now."""
        self._token_sum.update(change)
        if change.all_new or entry.type == "restored":
            self._pass_runner.restart()


_LEAST_PREFIX = 8


class NoSuchMessage(InvalidMessage, IndexError):
    """An index that the working view does not have."""


def _counter(config: AutoContextConfig, model: object) -> Any:
    """The configured counter; "auto" goes by the model's name, where it has one."""
    if config.token_counter != "auto":
        return get_counter(config.token_counter)
    name = getattr(model, "model", None)
    return get_counter(name if isinstance(name, str) and name else "o200k_base")
