"""Copying all parts from one database to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autocontext.cache.rows import SCHEMA as CACHE
from autocontext.content.queries import SCHEMA as CONTENTS
from autocontext.memories.schema import SCHEMA as MEMORIES
from autocontext.optimizer.states import SCHEMA as STATES
from autocontext.stores.copying import Progress, copy_parts, copy_sessions

if TYPE_CHECKING:
    from autocontext.suite import AutoContext

_PARTS = (CONTENTS, CACHE, MEMORIES, STATES)
"""All but sessions, which are copied entry by entry: an encrypted entry is bound to its place."""


def copy_all(source: AutoContext, to: AutoContext, progress: Callable[[str, float | None], object] | None) -> None:
    """Do what `AutoContext.copy_to` says."""
    told = progress or (lambda *_: None)

    def sessions(now: Progress) -> None:
        told(f"session {now.done} of {now.total}: {now.session.session_id}", now.done / now.total)

    copy_sessions(source.sessions, to.sessions, progress=sessions)
    there = source.database.read(source.database.parts)
    parts = [schema for schema in _PARTS if schema.part in there]
    copy_parts(source.database, to.database, parts, lambda table, rows: told(f"{table}: {rows} rows", None))
