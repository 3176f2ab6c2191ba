"""Which memory a conversation has: one that was given, one bound to a session id, or one for each session."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from autocontext.config import AutoContextConfig
from autocontext.errors import ConfigError
from autocontext.memory import AutoContextMemory
from autocontext.models import AsyncChatModel, ChatModel
from autocontext.plan import PlanLike
from autocontext.stores import SessionStore

_MOST_OPEN = 1_000
"""Memories with a store that are held open; of more, the one that was asked for longest ago is let go."""


class Sessions:
    """Makes and keeps memories; what an adapter's constructor is given.

    With a memory or a session id it is bound to one conversation. Otherwise each id that `of` is asked for has a
    memory of its own. Safe to use from several threads. Raises ConfigError when a memory comes with what would make
    one.
    """

    def __init__(
        self,
        memory: AutoContextMemory | None = None,
        *,
        config: AutoContextConfig | None = None,
        model: ChatModel | AsyncChatModel | None = None,
        store: SessionStore | None = None,
        session_id: str | None = None,
        user_id: str = "",
        plan: PlanLike | None = None,
    ) -> None:
        made_of: dict[str, Any] = {"config": config, "model": model, "store": store, "session_id": session_id}
        if memory is not None and (
            extra := [k for k, v in {**made_of, "user_id": user_id or None}.items() if v is not None]
        ):
            raise ConfigError(f"{', '.join(extra)}: the memory that is passed has its own; pass the one or the other")
        self._config, self._model, self._store, self._plan = config, model, store, plan
        self._user_id = user_id
        self._lock = threading.RLock()
        self._memories: OrderedDict[tuple[str, str], AutoContextMemory] = OrderedDict()
        self._spoken_for: tuple[str, str] | None = None
        self._bound = memory
        if memory is not None and plan is not None:
            memory.attach_plan_note(plan)
        if memory is None and session_id is not None:
            self._bound = self._make(session_id, user_id, store)

    @property
    def bound(self) -> AutoContextMemory | None:
        """The one memory, when there is only one."""
        return self._bound

    def one(self) -> AutoContextMemory:
        """The memory of an adapter that serves one conversation; made now if none was named."""
        with self._lock:
            if self._bound is None:
                self._bound = AutoContextMemory(
                    self._config, self._model, store=self._store, user_id=self._user_id, plan=self._plan
                )
            return self._bound

    def of(self, session_id: str, user_id: str | None = None, *, kept: bool = True) -> AutoContextMemory:
        """The memory of a session. One that is not `kept` is not written to the store: nobody knows its id.

        Raises ConfigError when this object is bound to one conversation and is asked for a second one.
        """
        key = (self._user_id if user_id is None else user_id, session_id)
        with self._lock:
            if self._bound is not None:
                self._check(key, kept=kept)
                return self._bound
            if key not in self._memories:
                self._memories[key] = self._make(session_id, key[0], self._store if kept else None)
                if self._store is not None and len(self._memories) > _MOST_OPEN:
                    self._memories.popitem(last=False)  # the store opens it again
            self._memories.move_to_end(key)
            return self._memories[key]

    def forget(self, session_id: str, user_id: str | None = None) -> None:
        """Let go of a session's memory; one with a store is opened again when it is asked for."""
        with self._lock:
            self._memories.pop((self._user_id if user_id is None else user_id, session_id), None)

    def _check(self, key: tuple[str, str], *, kept: bool) -> None:
        if not kept:
            return
        self._spoken_for = self._spoken_for or key
        if key != self._spoken_for:
            raise ConfigError(
                f"session_id: this adapter is bound to one conversation ({self._spoken_for[1]!r}) and was asked for "
                f"another one ({key[1]!r}); leave memory and session_id out, and each has a memory of its own"
            )

    def _make(self, session_id: str, user_id: str, store: SessionStore | None) -> AutoContextMemory:
        return AutoContextMemory(
            self._config, self._model, store=store, session_id=session_id, user_id=user_id, plan=self._plan
        )
