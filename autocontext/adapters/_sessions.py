"""Which memory a conversation has: the one passed in, the one of a session id, or one for each session."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Unpack

from autocontext.adapters.options import MemoryOptions
from autocontext.config import AutoContextConfig
from autocontext.errors import ConfigError, SessionGone, short
from autocontext.flows.forking import fork_lock
from autocontext.memory import AutoContextMemory, offered_tools
from autocontext.stores import InMemorySessionStore, SessionKey, SessionStore
from autocontext.stores.kept import Kept

_MAX_OPEN = 1_000
"""Memories with a store that are held open; beyond it the least recently used one is dropped, and opened again."""


class Sessions:
    """Opens and keeps memories from the options of an adapter's constructor.

    With a memory or a session id it is bound to one conversation; otherwise each id that `of` is asked for has a
    memory of its own. Safe to use from several threads. Raises ConfigError when a memory comes with options that would
    make another one.
    """

    def __init__(self, memory: AutoContextMemory | None = None, **options: Unpack[MemoryOptions]) -> None:
        if not isinstance(memory, AutoContextMemory | None):
            raise ConfigError(
                f"memory: {short(memory)} is not an AutoContextMemory; for a database use `open`, as in "
                'open("agent.db", window="16k")'
            )
        # A plan goes to the memory that is passed; everything else that memory has of its own.
        conflicts = [k for k, v in options.items() if k != "plan" and v is not None and (k, v) != ("user_id", "")]
        if memory is not None and conflicts:
            raise ConfigError(
                f"{', '.join(conflicts)}: the memory that is passed has its own; pass the one or the other"
            )
        self.config = options.get("config") if memory is None else memory.config
        """The configuration of all memories."""
        self._open = partial(AutoContextMemory, self.config, options.get("model"), plan=options.get("plan"))
        self._store: SessionStore = options.get("store") or InMemorySessionStore()
        self._keeps = options.get("store") is not None
        self._user_id = options.get("user_id", "")
        self._lock = fork_lock()
        self._memories: Kept[tuple[str, str], AutoContextMemory] = Kept(_MAX_OPEN, forgotten=False)
        self._bound_key: tuple[str, str] | None = None
        self._passed = self.bound = memory
        """`bound`: the one memory, when there is only one."""
        plan, session_id = options.get("plan"), options.get("session_id")
        if memory is not None and plan is not None:
            memory.attach_plan_note(plan)
        if memory is None and session_id is not None:
            self.bound = self._open(store=self._store, session_id=session_id, user_id=self._user_id)

    def one(self) -> AutoContextMemory:
        """The memory of an adapter that serves one conversation; opened now if none was named."""
        with self._lock:
            if self.bound is None:
                self.bound = self._open(store=self._store, user_id=self._user_id)
            return self.bound

    def of(self, session_id: str, user_id: str | None = None, *, kept: bool = True) -> AutoContextMemory:
        """The memory of a session. One that is not `kept` is not written to the store: nobody knows its id.

        Raises ConfigError when this object is bound to one conversation and is asked for a second one.
        """
        key = self._key(session_id, user_id)
        with self._lock:
            if self.bound is not None:
                if kept:
                    self._check(key)
                return self.bound
            if (memory := self._memories.get(key)) is None:
                place: dict[str, Any] = {"store": self._store, "session_id": session_id} if kept else {}
                memory = self._open(**place, user_id=key[0])
                self._memories.put(key, memory)
            return memory

    def begin(self, session_id: str, user_id: str | None = None, *, kept: bool = True) -> AutoContextMemory:
        """`of` at the start of a run: the memory has what other processes have added to the session since.

        A session that was deleted meanwhile begins anew; of a memory that was passed, that raises SessionGone.
        """
        memory = self.of(session_id, user_id, kept=kept)
        try:
            memory.refresh()
        except SessionGone:
            with self._lock:
                if memory is self._passed:
                    raise
                if memory is self.bound:
                    own_user, own_session = memory.session
                    self.bound = self._open(store=self._store, session_id=own_session, user_id=own_user)
                else:
                    self._memories.drop(self._key(session_id, user_id))
            memory = self.of(session_id, user_id, kept=kept)
        return memory

    async def abegin(self, session_id: str, *, kept: bool = True) -> AutoContextMemory:
        """`begin` without blocking the event loop."""
        return await asyncio.to_thread(self.begin, session_id, kept=kept)

    def forget(self, session_id: str, user_id: str | None = None) -> None:
        """Let go of a session's memory; one with a store is opened again when it is asked for."""
        key = self._key(session_id, user_id)
        with self._lock:
            self._memories.drop(key)
            if not self._keeps:
                self._store.delete(key)

    def _key(self, session_id: str, user_id: str | None) -> SessionKey:
        return SessionKey(self._user_id if user_id is None else user_id, session_id)

    def _check(self, key: tuple[str, str]) -> None:
        self._bound_key = self._bound_key or key
        if key != self._bound_key:
            raise ConfigError(
                f"session_id: this adapter is bound to one conversation ({self._bound_key[1]!r}) and was asked for "
                f"another one ({key[1]!r}); leave memory and session_id out, and each has a memory of its own"
            )


def described(config: AutoContextConfig | None) -> list[dict[str, Any]]:
    """Name, description and parameters of the tools over any memory with this configuration.

    A framework asks for them before it knows the conversation.
    """
    return [tool.schema()["function"] for tool in offered_tools(AutoContextMemory(config))]
