"""Opens the database and the session of a command."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from autocontext import AutoContextError, AutoContextMemory
from autocontext.cli import file_kinds
from autocontext.history.log import LEAST_PREFIX
from autocontext.stores import DatabaseSessionStore, SessionInfo
from autocontext.stores.sqlite_database import TABLES, foreign_tables


def add_database(parser: argparse.ArgumentParser) -> None:
    """Add DB, the first argument of every command on a database."""
    parser.add_argument("db", metavar="DB", help="a database file, or a postgresql:// URL")


def add_user(parser: argparse.ArgumentParser) -> None:
    """Add --user."""
    parser.add_argument("--user", default="", metavar="U", help='the session\'s user (default: "")')


@contextlib.contextmanager
def open_sessions(url: str, *, create: bool = False) -> Iterator[DatabaseSessionStore]:
    """Open the sessions of a database. A missing file is an error unless `create`."""
    if "://" not in url:
        _check_file(url, create=create)
    with DatabaseSessionStore(url) as store:
        yield store


FILES = (".jsonl", ".json", ".ndjson")


def is_database(source: str, session: str | None) -> bool:
    """Whether a command that takes both reads a database here, not a file of conversations."""
    if source == "-" or "://" in source:
        return source != "-"
    if Path(source).is_file():
        with open(source, "rb") as file:  # noqa: PTH123 (as below)
            if file_kinds.is_database(file.read(file_kinds.HEAD)):
                return True
    return session is not None and not source.endswith(FILES)


def session_id(arguments: argparse.Namespace) -> str:
    """The argument SESSION, which goes with a database. Raises AutoContextError that says where the sessions stand."""
    if arguments.session is None:
        # A URL may hold a password.
        place = "DB" if "://" in arguments.source else shlex.quote(arguments.source)
        ids = f"`autocontext inspect {place}` lists the sessions"
        raise AutoContextError(f"SESSION is missing; {ids}")
    return str(arguments.session)


def _check_file(path: str, *, create: bool) -> None:
    """Raise AutoContextError for a file that is missing or no database."""
    if Path(path).is_dir():
        raise AutoContextError(f"{path}: a directory; give the database file in it")
    if not Path(path).exists():
        if create:
            return
        raise AutoContextError(f"{path}: no such database file")
    with open(path, "rb") as file:  # noqa: PTH123 (an OSError then names the path as the user wrote it)
        head = file.read(file_kinds.HEAD)
    if not head and not create:  # opening it would make it a database
        raise AutoContextError(f"{path}: an empty file, not a database")
    if other := file_kinds.not_a_database(head):
        looks = file_kinds.named(other, path)
        raise AutoContextError(f"{path}: not a database of this library; it looks like {looks}")
    if tables := _foreign_tables(path):
        raise AutoContextError(
            f"{path}: a database of another program (with the tables {tables}); give one of this library"
            + (", or a new file" if create else "")
        )


def _foreign_tables(path: str) -> str:
    """Tables of a SQLite file that has some and none of ours, which opening it would add; else "". Changes nothing."""
    try:
        with contextlib.closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as file:
            return foreign_tables(file.execute(TABLES))
    except (sqlite3.Error, UnicodeDecodeError):
        return ""  # what is wrong with it, opening it as ours says better


def sessions_of(store: DatabaseSessionStore, user: str | None) -> list[SessionInfo]:
    """The sessions of a user, or of everybody. Raises AutoContextError for a user without any, naming the others."""
    infos = store.sessions(user)
    if user is not None and not infos:
        raise AutoContextError(f"user {user!r} has no sessions{other_users(store, user)}")
    return infos


def session_info(store: DatabaseSessionStore, user: str, session_id: str) -> SessionInfo:
    """One session of a user. Raises AutoContextError, which lists the existing ones."""
    infos = store.sessions(user)
    for info in infos:
        if info.session_id == session_id:
            return info
    owners = sorted({info.user_id for info in store.sessions() if info.session_id == session_id})
    others = _choices(owners) if owners else _alternatives(store, user, infos)
    raise AutoContextError(f"user {user!r} has no session {session_id!r}{others}")


def open_memory(store: DatabaseSessionStore, info: SessionInfo) -> AutoContextMemory:
    """Open a session as a memory."""
    return AutoContextMemory(store=store, session_id=info.session_id, user_id=info.user_id)


def find_memory(store: DatabaseSessionStore, user: str, session_id: str | None, uuid: str) -> AutoContextMemory:
    """The session that knows an offload UUID or, if `session_id` is given, a message number.

    Raises AutoContextError if there is none.
    """
    infos = [session_info(store, user, session_id)] if session_id is not None else sessions_of(store, user)
    for info in infos:
        memory = open_memory(store, info)
        # Every session has an m1, so a number needs a session.
        if memory.handle(uuid) or (session_id is not None and memory.numbered(uuid)):
            return memory
    scope = f"session {session_id!r}" if session_id is not None else "any session"
    raise AutoContextError(f"nothing is stored under {uuid!r} in {scope} of user {user!r}{_advice(uuid, session_id)}")


def _advice(uuid: str, session_id: str | None) -> str:
    """What may be wrong with a handle that nothing is stored under, as the end of a sentence."""
    if re.match(r"m\d", uuid):
        return "; message numbers need --session" if session_id is None else ""
    return f"; give at least {LEAST_PREFIX} characters of a UUID" if len(uuid) < LEAST_PREFIX else ""


def other_users(store: DatabaseSessionStore, user: str) -> str:
    """What --user can be besides `user`, as the end of a sentence; "" if nobody else has a session."""
    users = sorted({info.user_id for info in store.sessions()} - {user})
    return _choices(users) if users else ""


def _choices(users: Sequence[str]) -> str:
    return f"; --user can be {', '.join(map(repr, users[:5]))}{' ...' if len(users) > 5 else ''}"


def session_name(info: SessionInfo) -> str:
    """The name of a session: its user, if any, and its id."""
    return f"{info.user_id}/{info.session_id}" if info.user_id else info.session_id


def utc_time(milliseconds: int) -> str:
    """A time in UTC, readable."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _alternatives(store: DatabaseSessionStore, user: str, infos: list[SessionInfo]) -> str:
    if infos:
        names = ", ".join(repr(info.session_id) for info in infos[:5])
        return f"; its sessions: {names}" + (f" and {len(infos) - 5} more" if len(infos) > 5 else "")
    others = other_users(store, user)
    return f" nor any other{others}" if others else ": the database has no sessions"
