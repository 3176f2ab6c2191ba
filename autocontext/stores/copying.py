"""Copying sessions between stores of any kind."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from autocontext.errors import Conflict
from autocontext.stores.protocol import SessionInfo, SessionStore

_AT_ONCE = 500
"""Entries that are held in memory and stored in one transaction."""


class Progress(NamedTuple):
    """How far a copy has come; reported after each session."""

    session: SessionInfo
    """The one that is done."""
    entries: int
    """How many of its entries were copied now; fewer than it has when an earlier copy was taken up again."""
    done: int
    total: int
    """Sessions."""


def copy_sessions(
    source: SessionStore,
    to: SessionStore,
    *,
    user_id: str | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> int:
    """Copy all sessions of a user (None: of everybody) with their expiry; returns how many entries were copied.

    It can be stopped and run again: a session that is there in part is completed, one that has grown is brought up to
    date. Entries keep their numbers; `revisions` at the target are those of the copy. Raises Conflict when a session at
    the target is another one of that name; what was copied before stays.
    """
    copied = 0
    sessions = source.sessions(user_id)
    for done, info in enumerate(sessions, 1):
        entries = _copy(source, to, info)
        copied += entries
        if progress is not None:
            progress(Progress(info, entries, done, len(sessions)))
    return copied


def _copy(source: SessionStore, to: SessionStore, info: SessionInfo) -> int:
    present = 0
    while part := to.read(info.key, after=present, until=present + _AT_ONCE):
        if part != source.read(info.key, after=present, until=present + len(part)):
            raise Conflict(
                f"copy: session {info.session_id!r} of user {info.user_id!r} exists at the target with other entries; "
                "delete it there or copy into an empty store"
            )
        present += len(part)
    after = present
    while part := source.read(info.key, after=after, until=after + _AT_ONCE):
        to.append(info.key, part, after=after)
        after += len(part)
    if info.expires_at is not None:
        to.expire(info.key, info.expires_at / 1000 - time.time())
    return after - present
