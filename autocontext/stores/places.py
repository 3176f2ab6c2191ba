"""Every place that can hold what was said: the tables of all parts, and their columns.

Erasing goes through this table, and so does encryption. A test compares it with the schemas of all parts, so a part
that adds a table or a column has to say here what it holds.

Of the files, agent.db is overwritten at once when rows go (PRAGMA secure_delete), agent.db-wal emptied by `scrub`, and
agent.db-shm an index of that one, without texts. There is an agent.db-journal only while an empty file becomes a
database, and no temporary file of SQLite (PRAGMA temp_store = MEMORY). An export is a *.part while it is written, which
a crash leaves behind. Exports and *.corrupt-* are the caller's.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from autocontext.stores.database import Statement, Work


class Place(NamedTuple):
    """A table, and its columns that hold what was said."""

    part: str
    """The name of the Schema that creates it."""
    table: str
    key: tuple[str, ...]
    """The primary key."""
    texts: tuple[str, ...] = ()
    """Columns that hold what was said; an encrypted database binds them to their row."""
    names: tuple[str, ...] = ()
    """Such columns that rows are looked up by; encrypted, equal values of one owner stay equal."""
    readable: tuple[str, ...] = ()
    """All other columns beside the key: ids, times, sizes, counts. They stay readable."""
    session: Literal["", "own", "made of it"] = ""
    """Rows of `own` are deleted with their session, rows `made of it` (of its log) also when a message is erased."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns."""
        return tuple(dict.fromkeys((*self.key, *self.texts, *self.names, *self.readable)))


_SESSION = ("user_id", "session_id")

PLACES = (
    Place(
        "sessions", "autocontext_sessions", _SESSION, session="own",
        readable=("entries", "edition", "created_at", "updated_at", "expires_at", "identity", "head", "previous"),
    ),
    Place(
        "sessions", "autocontext_entries", (*_SESSION, "sequence"), ("body",), session="own",
        readable=("batch", "checksum", "previous"),
    ),
    Place("sessions", "autocontext_search", (*_SESSION, "start"), ("body",), (), ("until",), "made of it"),
    Place(
        "states", "autocontext_states", (*_SESSION, "revision"), ("metadata", "body", "checksum"), session="made of it",
        readable=("created_at",),
    ),
    Place(
        "contents", "autocontext_content", ("namespace", "ref"), ("about", "checksum"), ("name",),
        readable=("sha256", "encoding", "chars", "size", "stored", "held_until", "created_at"),
    ),
    Place("contents", "autocontext_content_page", ("namespace", "ref", "page"), ("body", "checksum")),
    Place(
        "contents", "autocontext_content_key", ("namespace", "key"), ("about", "checksum"), ("key", "basename"),
        readable=("ref", "expires_at", "created_at"),
    ),
    Place(
        "cache", "autocontext_cache", ("namespace", "key"), ("version", "args", "body", "tags", "marks", "checksum"),
        ("key", "task"), readable=("kind", "cost", "created", "expires", "gone", "used", "size"),
    ),
    Place("cache", "autocontext_cache_mark", ("namespace", "mark", "key"), (), ("mark", "key")),
    Place("cache", "autocontext_cache_tag", ("namespace", "key", "tag"), (), ("key", "tag")),
    Place(
        "cache", "autocontext_cache_computation", ("namespace", "key", "slot"), (), ("key", "task"),
        readable=("holder", "until", "waits_for"),
    ),
    Place("cache", "autocontext_cache_computation_tag", ("namespace", "holder", "tag"), (), ("tag",)),
    Place("cache", "autocontext_cache_call", (*_SESSION, "call", "namespace", "key"), (), ("key",), session="own"),
    Place("cache", "autocontext_cache_file", ("namespace", "file")),
    Place("memories", "autocontext_memory_users", ("user_id",), readable=("revision",)),
    Place(
        "memories", "autocontext_memories", ("user_id", "id"),
        ("content", "category", "tags", "context", "source", "source_error", "archived", "metadata", "checksum"),
        ("digest",),
        readable=(
            "importance", "confidence", "created_at", "updated_at", "last_accessed", "access_count",
            "last_confirmed_at", "confirmation_count", "expires_at", "revision", "block",
        ),
    ),
    Place("memories", "autocontext_memory_block", ("user_id", "block"), ("body",)),
    Place(
        "memories", "autocontext_memory_sections", ("user_id", "name"), ("summary", "checksum"),
        readable=("updated_at",),
    ),
    Place("encryption", "autocontext_keys", ("name",), readable=("key_id", "body")),
)  # fmt: skip
PLACE = {place.table: place for place in PLACES}


def forget(user_id: str, session_id: str, *, whole: bool) -> Work[None]:
    """Delete what is derived from a session's log; with `whole`, everything of the session."""
    parts = {row[0] for row in (yield Statement("SELECT part FROM autocontext_schema"))}
    where = "WHERE user_id = :user_id AND session_id = :session_id"
    session = {"user_id": user_id, "session_id": session_id}
    for place in PLACES:
        if place.part in parts and place.session == "made of it":
            # Repeat until nothing is left: a writer that this statement waited for may have added a row.
            while (yield Statement(f"DELETE FROM {place.table} {where} RETURNING user_id", session)):
                pass
        elif place.part in parts and whole and place.session:
            yield Statement(f"DELETE FROM {place.table} {where}", session)
