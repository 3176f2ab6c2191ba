"""Adapters by their short way: a database, a window and a model by name, as AutoContextMemory.open takes them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Self

from autocontext.adapters.options import refuse_unknown
from autocontext.config import AutoContextConfig
from autocontext.memory import open_with_store
from autocontext.models import AsyncChatModel, ChatModel
from autocontext.plan import PlanLike
from autocontext.stores.database import Database
from autocontext.stores.database_sessions import DatabaseSessionStore


class Openable:
    """An adapter that can be opened over the sessions of a database."""

    opened_store: DatabaseSessionStore | None = None
    """The store that `open` has made; None for an adapter that was made otherwise."""

    @classmethod
    def open(
        cls,
        url: Database | str | Path,
        *,
        window: int | str | None = None,
        config: AutoContextConfig | None = None,
        model: ChatModel | AsyncChatModel | str | None = None,
        session_id: str | None = None,
        user_id: str = "",
        plan: PlanLike | None = None,
        **own: Any,
    ) -> Self:
        """The adapter over a database: a file path, `:memory:` or a `postgresql://` URL.

            AutoContextMiddleware.open("agent.db", window="100k", model="gpt-4.1-mini")

        `window` is the model's window in tokens (16_000 or "16k"), for AutoContextConfig.for_window; or pass a
        `config`. `model` is a ChatModel or the name of one. `close` closes the database. Raises ConfigError and
        StoreError.
        """
        known = [name for name in inspect.signature(cls).parameters if name not in ("memory", "store")]
        refuse_unknown(f"{cls.__name__}.open", own, ["window", *known])
        options = {"session_id": session_id, "user_id": user_id, "plan": plan, **own}
        adapter, store = open_with_store(
            lambda settings, summarizer, store: cls(config=settings, model=summarizer, store=store, **options),  # type: ignore[call-arg]  # adapters take MemoryOptions
            cls.__name__,
            url,
            window=window,
            config=config,
            model=model,
        )
        adapter.opened_store = store
        return adapter

    def close(self) -> None:
        """Close the database that `open` opened; a store that was passed stays open. Closing twice does nothing."""
        if self.opened_store is not None:
            self.opened_store.close()
