"""The tables of the memory store."""

from __future__ import annotations

from autocontext.stores.database import Schema

SCHEMA = Schema(
    "memories",
    (
        (
            "CREATE TABLE autocontext_memory_users (user_id TEXT PRIMARY KEY, revision BIGINT NOT NULL)",
            """CREATE TABLE autocontext_memories (
                user_id TEXT NOT NULL, id TEXT NOT NULL, digest TEXT NOT NULL, content TEXT NOT NULL,
                category TEXT NOT NULL, tags TEXT NOT NULL, importance BIGINT NOT NULL,
                confidence DOUBLE PRECISION NOT NULL, context TEXT, source TEXT, source_error TEXT,
                created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, last_accessed BIGINT NOT NULL,
                access_count BIGINT NOT NULL, last_confirmed_at BIGINT, confirmation_count BIGINT NOT NULL,
                expires_at BIGINT, archived TEXT, metadata TEXT NOT NULL, revision BIGINT NOT NULL,
                PRIMARY KEY (user_id, id))""",
            "CREATE UNIQUE INDEX autocontext_memories_digest ON autocontext_memories (user_id, digest)",
            "CREATE INDEX autocontext_memories_revision ON autocontext_memories (user_id, revision)",
            """CREATE TABLE autocontext_memory_tags (
                user_id TEXT NOT NULL, tag TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (user_id, tag, id))""",
            """CREATE TABLE autocontext_memory_sections (
                user_id TEXT NOT NULL, name TEXT NOT NULL, summary TEXT NOT NULL, updated_at BIGINT NOT NULL,
                PRIMARY KEY (user_id, name))""",
        ),
        # Rows of version 1 have no checksum. Tags were stored a second time, to be counted.
        (
            "ALTER TABLE autocontext_memories ADD COLUMN checksum TEXT",
            "ALTER TABLE autocontext_memory_sections ADD COLUMN checksum TEXT",
            "DROP TABLE autocontext_memory_tags",
        ),
        # The index of a user with many memories. Those of a block have its number; NULL: the memory is in none.
        (
            "ALTER TABLE autocontext_memories ADD COLUMN block BIGINT",
            "CREATE INDEX autocontext_memories_block ON autocontext_memories (user_id, block, id)",
            """CREATE TABLE autocontext_memory_block (
                user_id TEXT NOT NULL, block BIGINT NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (user_id, block))""",
        ),
    ),
    derived=("autocontext_memory_block", "block"),
)
