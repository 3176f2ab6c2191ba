"""AutoContext: sessions, contents, cached results and memories in one database, used together."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from autocontext.config import AutoContextConfig
from autocontext.content import ContentStore, PrunePolicy
from autocontext.content.store import DatabaseContentStore
from autocontext.memory import AutoContextMemory
from autocontext.stores.closing import DatabasePart
from autocontext.stores.database import Database
from autocontext.stores.database_sessions import DatabaseSessionStore
from autocontext.suite.preparing import Prepared, PrepareReport
from autocontext.suite.saving import SaveReport
from autocontext.suite.session import Session, Tool

if TYPE_CHECKING:
    from autocontext.cache import ResultCache
    from autocontext.memories import MemoryInjector, MemoryStore
    from autocontext.models import AsyncChatModel, ChatModel
    from autocontext.plan import PlanLike
    from autocontext.tokens import TokenCounter

__all__ = ["AutoContext", "PrepareReport", "Prepared", "SaveReport", "Session", "Tool"]

_BATCH = 0.10
"""Share of the window that pruning has to free at once: each batch breaks the provider's prompt cache."""


class AutoContext(DatabasePart):
    """The parts of this library on one database: `sessions`, `content`, `cache`, `memories`.

    Open it with `AutoContext.open`, close it or use it in a `with` block; threads and event loops may share it. Given
    an open Database it leaves it open.
    """

    def __init__(
        self,
        url: Database | str | Path = ":memory:",
        *,
        model: ChatModel | AsyncChatModel | None = None,
        config: AutoContextConfig | None = None,
        prune: PrunePolicy | None = None,
        memory_tokens: int = 2_000,
    ) -> None:
        super().__init__(url)
        self.model = model
        self.config = config or AutoContextConfig()
        self.prune_policy = prune or PrunePolicy(clear_at_least_tokens=int(self.config.max_token * _BATCH))
        self._memory_tokens = memory_tokens
        self.sessions, self.content = self._tables()

    @classmethod
    def open(
        cls,
        url: Database | str | Path = ":memory:",
        *,
        model: ChatModel | AsyncChatModel | None = None,
        config: AutoContextConfig | None = None,
        prune: PrunePolicy | None = None,
        memory_tokens: int = 2_000,
    ) -> Self:
        """Open or make a database: a file path, `:memory:`, a `postgresql://` URL, or an open Database.

        `model` writes summaries (None: no model is needed), `config` is for all sessions; `prune` says which old texts
        give way to handles, `memory_tokens` is what memories may take of a context (0: none). Raises StoreError.
        """
        return cls(url, model=model, config=config, prune=prune, memory_tokens=memory_tokens)

    def session(
        self,
        session_id: str | None = None,
        *,
        user_id: str = "",
        config: AutoContextConfig | None = None,
        plan: PlanLike | None = None,
    ) -> Session:
        """Open a conversation where it was left, or begin one; without an id it gets a new one."""
        memory = AutoContextMemory(
            config or self.config, self.model, store=self.sessions, session_id=session_id, user_id=user_id, plan=plan
        )
        return Session(self, memory)

    @cached_property
    def cache(self) -> ResultCache:
        """Cached results that belong to no user; those of `Session.call_tool` are kept by user, see `cache_of`."""
        return self._cache("shared")

    def cache_of(self, user_id: str) -> ResultCache:
        """The cached results of one user."""
        return self._cache(f"user:{user_id}")

    @cached_property
    def memories(self) -> MemoryStore:
        """What is known about users."""
        from autocontext.memories import MemoryStore  # noqa: PLC0415 (rankers: only who uses memories needs them)

        return MemoryStore(self.database)

    def namespace(self, user_id: str) -> str:
        """Under which a user's contents are stored: two users never meet, a user's sessions share equal contents."""
        return f"user:{user_id}"

    def injector(self, user_id: str, counter: TokenCounter) -> MemoryInjector | None:
        """What puts a user's memories into a context; None without a user, or when they may take no room."""
        if not self._memory_tokens or not user_id:
            return None
        from autocontext.memories import MemoryInjector  # noqa: PLC0415 (as above)

        return MemoryInjector(self.memories, user_id=user_id, max_tokens=self._memory_tokens, counter=counter)

    def memory_tools(self, user_id: str) -> list[Tool]:
        """The tools by which a model keeps memories of one user; none when no user is named."""
        if not user_id:
            return []
        from autocontext.memories import memory_tools  # noqa: PLC0415 (as above)

        return [Tool(t.name, t.schema(), t, t.acall) for t in memory_tools(self.memories, user_id=user_id)]

    def memory_instructions(self, user_id: str) -> list[str]:
        """What the system prompt should say about the tools for memories."""
        if not user_id:
            return []
        from autocontext.memories import INSTRUCTIONS  # noqa: PLC0415 (as above)

        return [INSTRUCTIONS]

    def _tables(self) -> tuple[DatabaseSessionStore, ContentStore]:
        """Make or update the tables that every session uses."""
        try:
            return DatabaseSessionStore(self.database), DatabaseContentStore(self.database)
        except BaseException:
            self.close()
            raise

    def _cache(self, namespace: str) -> ResultCache:
        from autocontext.cache import ResultCache  # noqa: PLC0415 (only who caches needs it)

        return ResultCache(self.database, namespace=namespace)
