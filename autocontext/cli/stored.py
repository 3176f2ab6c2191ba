"""Opens the database and the session of a command."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from autocontext import AutoContextError, AutoContextMemory
from autocontext.cli import file_kinds
from autocontext.stores import DatabaseSessionStore, SessionInfo


def add_database(parser: argparse.ArgumentParser) -> None:
    """Add DB, the first argument of every command on a database."""
    parser.add_argument("db", metavar="DB", help="a database file, or a postgresql:// URL")


def add_user(parser: argparse.ArgumentParser) -> None:
    """Add --user."""
    parser.add_argument("--user", default="", metavar="U", help='the session\'s user (default: "")')


@contextmanager
def open_sessions(url: str, *, create: bool = False) -> Iterator[DatabaseSessionStore]:
    """Open the sessions of a database. A missing file is an error unless `create`."""
    if not create and "://" not in url and not Path(url).is_file():
        raise AutoContextError(f"{url}: no such database file")
    if "://" not in url and Path(url).is_file():
        with open(url, "rb") as file:  # noqa: PTH123 (an OSError then names the path as the user wrote it)
            other = file_kinds.not_a_database(file.read(file_kinds.HEAD))
        if other:
            raise AutoContextError(f"{url}: no database of this library; it looks like {other.replace('FILE', url)}")
    store = DatabaseSessionStore(url)
    try:
        yield store
    finally:
        store.close()


def session_info(store: DatabaseSessionStore, user: str, session_id: str) -> SessionInfo:
    """One session of a user. Raises AutoContextError, which lists the existing ones."""
    infos = store.sessions(user)
    for info in infos:
        if info.session_id == session_id:
            return info
    raise AutoContextError(f"user {user!r} has no session {session_id!r}{_alternatives(store, user, infos)}")


def open_memory(store: DatabaseSessionStore, info: SessionInfo) -> AutoContextMemory:
    """Open a session as a memory."""
    return AutoContextMemory(store=store, session_id=info.session_id, user_id=info.user_id)


def find_memory(store: DatabaseSessionStore, user: str, session_id: str | None, uuid: str) -> AutoContextMemory:
    """The session that knows an offload UUID or, if `session_id` is given, a message number.

    Raises AutoContextError if there is none.
    """
    infos = [session_info(store, user, session_id)] if session_id is not None else store.sessions(user)
    for info in infos:
        memory = open_memory(store, info)
        # Every session has an m1, so a number needs a session.
        if memory.handle(uuid) or (session_id is not None and memory.numbered(uuid)):
            return memory
    scope = f"session {session_id!r}" if session_id is not None else f"the {len(infos)} sessions"
    raise AutoContextError(f"nothing is stored under {uuid!r} in {scope} of user {user!r}{other_users(store, user)}")


def other_users(store: DatabaseSessionStore, user: str) -> str:
    """What --user can be besides `user`, as the end of a sentence; "" if nobody else has a session."""
    users = sorted({info.user_id for info in store.sessions()} - {user})
    return f"; --user can be {', '.join(map(repr, users[:5]))}{' ...' if len(users) > 5 else ''}" if users else ""


def session_name(info: SessionInfo) -> str:
    """The name of a session: its user, if any, and its id."""
    return f"{info.user_id}/{info.session_id}" if info.user_id else info.session_id


def utc_time(milliseconds: int) -> str:
    """A time in UTC, readable."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _alternatives(store: DatabaseSessionStore, user: str, infos: list[SessionInfo]) -> str:
    if infos:
        names = ", ".join(repr(info.session_id) for info in infos[:5])
        return f"; there are {names}" + (f" and {len(infos) - 5} more" if len(infos) > 5 else "")
    others = other_users(store, user)
    return f" nor any other{others}" if others else ": the database has no sessions"
