"""Opening what is stored: the database and the session that a command names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from autocontext import AutoContextError, AutoContextMemory
from autocontext.stores import DatabaseSessionStore, SessionInfo, SessionKey


def add_database(parser: argparse.ArgumentParser) -> None:
    """The first argument of every command on a database."""
    parser.add_argument("db", metavar="DB", help="a database file, or a postgresql:// URL")


def add_user(parser: argparse.ArgumentParser) -> None:
    """Whose sessions a command is about."""
    parser.add_argument("--user", default="", metavar="U", help='whose session it is (default: "")')


@contextmanager
def opened(url: str, *, make: bool = False) -> Iterator[DatabaseSessionStore]:
    """The sessions of a database. A file that is not there is an error unless the command is to make it."""
    if not make and "://" not in url and not Path(url).is_file():
        raise AutoContextError(f"{url}: no such database file")
    store = DatabaseSessionStore(url)
    try:
        yield store
    finally:
        store.close()


def known(store: DatabaseSessionStore, user: str, session_id: str) -> SessionInfo:
    """One session of a user. Raises AutoContextError naming those there are."""
    infos = store.sessions(user)
    for info in infos:
        if info.session_id == session_id:
            return info
    raise AutoContextError(f"user {user!r} has no session {session_id!r}{_instead(store, infos)}")


def memory_of(store: DatabaseSessionStore, info: SessionInfo) -> AutoContextMemory:
    """A session as a memory."""
    return AutoContextMemory(store=store, session_id=info.session_id, user_id=info.user_id)


def holder(store: DatabaseSessionStore, user: str, session_id: str | None, uuid: str) -> AutoContextMemory:
    """The session of a user in which an offload UUID, or in a named session a number, is known.

    Raises AutoContextError.
    """
    infos = [known(store, user, session_id)] if session_id is not None else store.sessions(user)
    for info in infos:
        memory = memory_of(store, info)
        # Every session has an m1, so a number says nothing about which one is meant.
        if memory.handle(uuid) or (session_id is not None and memory.numbered(uuid)):
            return memory
    scope = f"session {session_id!r}" if session_id is not None else f"the {len(infos)} sessions"
    raise AutoContextError(f"nothing is stored under {uuid!r} in {scope} of user {user!r}")


def key_of(info: SessionInfo) -> str:
    """A session in words."""
    return f"{info.user_id}/{info.session_id}" if info.user_id else info.session_id


def day(milliseconds: int) -> str:
    """A time as people read it, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _instead(store: DatabaseSessionStore, infos: list[SessionInfo]) -> str:
    if infos:
        names = ", ".join(repr(info.session_id) for info in infos[:5])
        return f"; there are {names}" + (f" and {len(infos) - 5} more" if len(infos) > 5 else "")
    users = sorted({info.user_id for info in store.sessions()})
    if not users:
        return ": the database has no sessions"
    return f" nor any other; --user can be {', '.join(map(repr, users[:5]))}" + (" ..." if len(users) > 5 else "")


__all__ = ["SessionKey", "add_database", "add_user", "day", "holder", "key_of", "known", "memory_of", "opened"]
