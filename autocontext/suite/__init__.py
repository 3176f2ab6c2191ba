"""AutoContext: sessions, contents, cached results and memories in one database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from autocontext.caches import forget_texts
from autocontext.config import AutoContextConfig, as_config, config_of
from autocontext.content import PrunePolicy
from autocontext.content.policy import checked_policy
from autocontext.content.store import DatabaseContentStore
from autocontext.errors import ConfigError
from autocontext.flows.forking import import_before_fork
from autocontext.history.cached import cached_property
from autocontext.memory import AutoContextMemory
from autocontext.models.opening import open_model
from autocontext.stores import SessionKey
from autocontext.stores.checks import check_texts, check_whole, plain
from autocontext.stores.closing import DatabasePart, awaitable
from autocontext.stores.database import Database
from autocontext.stores.database_sessions import DatabaseSessionStore
from autocontext.stores.lifecycle import below
from autocontext.suite.preparing import Prepared, PrepareReport
from autocontext.suite.saving import SaveReport
from autocontext.suite.session import Session, Tool

if TYPE_CHECKING:
    from autocontext.cache import ResultCache
    from autocontext.memories import MemoryInjector, MemoryStore
    from autocontext.models import AsyncChatModel, ChatModel
    from autocontext.plan import PlanLike
    from autocontext.stores.encrypted import EncryptedSessionStore
    from autocontext.stores.encrypted_database import EncryptedDatabase
    from autocontext.tokens import TokenCounter

__all__ = ["AutoContext", "PrepareReport", "Prepared", "SaveReport", "Session", "Tool"]

import_before_fork("autocontext.cache", "autocontext.memories")
_BATCH = 0.10
"""Share of the window that a pruning must free, because each one invalidates the provider's prompt cache."""


class AutoContext(DatabasePart):
    """The parts of this library on one database: `sessions`, `content`, `cache`, `memories`.

        with AutoContext.open("agent.db") as context:
            session = context.session("chat-1", user_id="ann")

    Threads and event loops may share it. Closing it leaves a Database that you passed open.
    """

    def __init__(
        self,
        url: Database | str | Path = ":memory:",
        *,
        model: ChatModel | AsyncChatModel | None = None,
        config: AutoContextConfig | None = None,
        prune: PrunePolicy | None = None,
        memory_tokens: int = 2_000,
        key: bytes | Mapping[str, bytes] | None = None,
        current: str | None = None,
    ) -> None:
        check_whole("memory_tokens", memory_tokens)
        self.config = as_config(config, type(self).__name__)
        usual = PrunePolicy(clear_at_least_tokens=int(self.config.max_token * _BATCH))
        self.prune_policy = usual if prune is None else checked_policy(f"{type(self).__name__}.prune", prune)
        super().__init__(url)
        self.model = model
        self._memory_tokens = memory_tokens
        try:
            if key is not None:
                from autocontext.stores.encrypted_database import EncryptedDatabase  # noqa: PLC0415 (an extra)

                self.database = EncryptedDatabase(self.database, key, current=current)
            self.sessions = self._session_store()
            self.content = DatabaseContentStore(self.database)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(
        cls,
        url: Database | str | Path = ":memory:",
        *,
        window: int | str | None = None,
        model: ChatModel | AsyncChatModel | str | None = None,
        config: AutoContextConfig | None = None,
        prune: PrunePolicy | None = None,
        memory_tokens: int = 2_000,
        key: bytes | Mapping[str, bytes] | None = None,
        current: str | None = None,
    ) -> Self:
        """Open or create a database: a file path, `:memory:`, a `postgresql://` URL, or an open Database.

        `window` is the model's window in tokens (16_000 or "16k"), for AutoContextConfig.for_window; or pass a
        `config`. Both apply to all sessions. `model`, a ChatModel or the name of one ("gpt-4.1-mini"), writes summaries
        (None: rules do). `prune` says which old texts become handles. `memory_tokens` limits the memories in a context
        (0: none).

        `key` encrypts all texts: 32 random bytes, or several keys by their ids, of which `current` encrypts new data
        and the others only decrypt; needs the extra `crypto`. Raises ConfigError, and StoreError, also if the key is
        wrong or missing.
        """
        return cls(
            url,
            model=open_model(model, cls.__name__),
            config=config_of(f"{cls.__name__}.open", window, config),
            prune=prune,
            memory_tokens=memory_tokens,
            key=key,
            current=current,
        )

    def session(
        self,
        session_id: str | None = None,
        *,
        user_id: str = "",
        config: AutoContextConfig | None = None,
        plan: PlanLike | None = None,
    ) -> Session:
        """Resume a conversation, or start one; without `session_id` it gets a new id."""
        memory = AutoContextMemory(
            config or self.config, self.model, store=self.sessions, session_id=session_id, user_id=user_id, plan=plan
        )
        return Session(self, memory)

    @cached_property
    def cache(self) -> ResultCache:
        """Cached results that belong to no user. `Session.call_tool` uses `cache_of` its user."""
        return self._cache("shared")

    def cache_of(self, user_id: str) -> ResultCache:
        """The cached results of one user."""
        return self._cache(self.namespace(user_id))

    @cached_property
    def memories(self) -> MemoryStore:
        """The long-term memories of all users."""
        from autocontext.memories import MemoryStore  # noqa: PLC0415 (imports rankers, which only memories need)

        return MemoryStore(self.database)

    def namespace(self, user_id: str) -> str:
        """The content namespace of a user: a user's sessions share equal contents, two users never do."""
        check_texts(user_id=user_id)
        return f"user:{plain(user_id)}"

    def injector(self, user_id: str, counter: TokenCounter) -> MemoryInjector | None:
        """Injects a user's memories into contexts; None without a user or with `memory_tokens=0`."""
        if not self._memory_tokens or not user_id:
            return None
        from autocontext.memories import MemoryInjector  # noqa: PLC0415 (as above)

        return MemoryInjector(self.memories, user_id=user_id, max_tokens=self._memory_tokens, counter=counter)

    def memory_tools(self, user_id: str, source: str | None = None) -> list[Tool]:
        """Tools for the model to manage one user's memories; [] without a user. `source`: the conversation's id."""
        if not user_id:
            return []
        from autocontext.memories import memory_tools  # noqa: PLC0415 (as above)

        return [
            Tool(t.name, t.schema(), t, t.acall) for t in memory_tools(self.memories, user_id=user_id, source=source)
        ]

    def erase(self, session_id: str, ids: Iterable[str], *, user_id: str = "") -> int:
        """Erase messages from all parts; returns how many of the ids the session has.

        Their texts are erased from the log, the saved states, and the user's contents and cached results. Memories
        stay: delete those yourself. Open the session again afterwards.
        """
        erased = self._erase(SessionKey(plain(user_id), plain(session_id)), ids)
        self.scrub()
        return erased

    aerase = awaitable(erase)

    def delete(self, session_id: str, *, user_id: str = "") -> bool:
        """Delete a session and those of its sub-agents from all parts, as `erase` does; False if there are none.

        Contents that another session of the user has, too, stay.
        """
        key = SessionKey(plain(user_id), plain(session_id))
        theirs = below(self.sessions, key)
        known = bool(theirs or self.sessions.read(key, until=1))
        for each in [*theirs, key]:
            self._erase(each, None)
        self.scrub()  # may wait for readers, and then fail: all are deleted before
        return known

    adelete = awaitable(delete)

    def copy_to(self, to: AutoContext, *, progress: Callable[[str, float | None], object] | None = None) -> None:
        """Copy all parts to another database, for example from a file to a server, or to an encrypted database.

        Stop everything that writes to either of them first. Can be interrupted and repeated; existing rows stay.
        `progress` receives a text and, for sessions, the share that is done. Raises Conflict as `copy_sessions` does.
        """
        from autocontext.suite.copying import copy_all  # noqa: PLC0415 (imports all parts)

        copy_all(self, to, progress)

    def scrub(self) -> None:
        """Remove replaced and deleted data of all parts from the files, and from the caches of this process.

        See `Database.scrub`.
        """
        self.database.scrub()
        forget_texts()

    def rotate(self) -> int:
        """Encrypt all rows that have another key with the current one; returns their number.

        May be run again, and while others use the database. The other keys are not needed afterwards. Raises
        ConfigError if the database was opened without a key.
        """
        if not isinstance(self.sessions, DatabaseSessionStore):
            return cast("EncryptedDatabase", self.database).rotate()
        raise ConfigError(f"{self.database.name} is not encrypted, so there is no key to rotate: open it with `key`")

    arotate = awaitable(rotate)

    def _erase(self, session: SessionKey, ids: Iterable[str] | None) -> int:
        from autocontext.suite.erasing import erase  # noqa: PLC0415 (imports the cache, which only few need)

        return erase(self, session, ids)

    def _session_store(self) -> DatabaseSessionStore | EncryptedSessionStore:
        if self.database.reads_encrypted:
            return cast("EncryptedDatabase", self.database).session_store()
        return DatabaseSessionStore(self.database)

    def _cache(self, namespace: str) -> ResultCache:
        from autocontext.cache import ResultCache  # noqa: PLC0415 (only needed for caching)

        return ResultCache(self.database, namespace=namespace)
