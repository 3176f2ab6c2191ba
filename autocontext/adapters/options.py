"""The options that every adapter's constructor takes, typed once for editors and type checkers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, cast, get_type_hints

from autocontext.config import AutoContextConfig
from autocontext.errors import ConfigError, did_you_mean
from autocontext.memory import open_with_store
from autocontext.models import AsyncChatModel, ChatModel
from autocontext.plan import PlanLike
from autocontext.stores import SessionStore
from autocontext.stores.database import Database
from autocontext.stores.database_sessions import DatabaseSessionStore
from autocontext.tools import INSTRUCTIONS

Constructor = TypeVar("Constructor", bound=Callable[..., None])


class MemoryOptions(TypedDict, total=False):
    """What an adapter makes its memories from when it is not given one; each option may be left out.

    A constructor takes them as `**options: Unpack[MemoryOptions]`:

        AutoContextMiddleware(config=AutoContextConfig.for_window(16_000), store=SqliteSessionStore("agent.db"))
    """

    config: AutoContextConfig | None
    """When to compress, and how."""
    model: ChatModel | AsyncChatModel | None
    """Writes the summaries; None: no model is called."""
    store: SessionStore | None
    """Keeps sessions across processes; None: they last as long as the adapter."""
    session_id: str | None
    """Binds the adapter to one conversation; None: the framework says which conversation a run belongs to."""
    user_id: str
    """Whose sessions these are."""
    plan: PlanLike | None
    """The agent's plan; compressions keep what its open steps need."""


def refuse_unknown(owner: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise ConfigError for the first name that is not known, with the way that is meant."""
    for name in (name for name in names if name not in known):
        hint = did_you_mean(name, known)
        if name == "window":
            hint = "pass it to `open`, or config=AutoContextConfig.for_window(...)"
        elif name in AutoContextConfig.model_fields:
            hint = f"it is set in the configuration: config=AutoContextConfig.for_window(..., {name}=...)"
        raise ConfigError(f"{owner} has no option {name!r}; {hint}")


def with_memory_options(init: Constructor) -> Constructor:
    """Spell out the MemoryOptions of a constructor: in `inspect.signature`, and in the error for a wrong name.

    `init` takes `**options: Unpack[MemoryOptions]`. The decorated constructor raises ConfigError for an unknown option.
    """
    signature = inspect.signature(init)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    shared = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default="" if name == "user_id" else None, annotation=type_
        )
        for name, type_ in get_type_hints(MemoryOptions).items()
    ]
    _self, *known = (p.name for p in (*own, *shared))

    @wraps(init)
    def checked_init(self: Any, *args: Any, **options: Any) -> None:
        refuse_unknown(type(self).__name__, options, known)
        init(self, *args, **options)

    checked_init.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    return cast("Constructor", checked_init)


class Openable:
    """An adapter that can be opened over the sessions of a database."""

    instructions = INSTRUCTIONS
    """What the model has to know about tags, for the system prompt."""
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
        return open_with_store(cls, url, window, config, model, **options)

    def close(self) -> None:
        """Close the database that `open` opened; a store that was passed stays open. Closing twice does nothing."""
        if self.opened_store is not None:
            self.opened_store.close()
