"""Cells that were changed outside the library, in the tables beside the log: told, or the answer stays as it was."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autocontext import AutoContext, Msg
from autocontext.errors import AutoContextError, StoreCorruptError, StoreError
from autocontext.optimizer.states import StateStore
from autocontext.stores.database import Row, Statement, Work
from autocontext.stores.places import PLACE
from autocontext.stores.records import row_checksum
from autocontext.stores.sqlite_database import SqliteDatabase
from tests.extras import need
from tests.stores.stores import KEY

TEXT = "line of the report, and another one\n" * 900
NS = "user:u"


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def context(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AutoContext]:
    if request.param:
        need("crypto")
    with AutoContext(tmp_path / "agent.db", key=request.param) as opened:
        fill(opened)
        yield opened


def fill(context: AutoContext) -> None:
    content, memories = context.content, context.memories
    content.put(TEXT, key="src/report.txt", name="report", summary="a report", namespace=NS)
    content.put("few words", name="plain.txt", namespace=NS, ttl=1e9)
    memories.add("Prefers pytest", user_id="u", tags=["testing", "python"], context={"at": "work"}, ttl=1e9)
    memories.add("Not unittest", user_id="u", category="correction", source_error="unittest", metadata={"x": 1})
    memories.import_json({"user": {"workContext": {"summary": "Writes tests."}}, "facts": []}, user_id="u")
    session = context.session("s", user_id="u")
    session.add(Msg(role="user", content="hello"))
    session.save()


def answers(context: AutoContext) -> dict[str, Callable[[], Any]]:
    """What a caller asks: each question by itself, so that one that is told hides no other."""
    content, memories = context.content, context.memories
    return {
        "read by key": lambda: content.read("src/report.txt", namespace=NS),
        "a page": lambda: content.read("src/report.txt", 20_000, 100, namespace=NS),
        "bytes": lambda: content.read_bytes("src/report.txt", namespace=NS),
        "info": lambda: content.info("src/report.txt", namespace=NS),
        "find": lambda: content.find("report.txt", namespace=NS),
        "find plain": lambda: content.find("plain.txt", namespace=NS),
        "keys": lambda: content.keys(namespace=NS),
        "contents": lambda: [hit[:2] for hit in map(astuple, content.search("words report", namespace=NS))],
        "stats": lambda: content.stats(NS).payload_bytes,
        "memories": lambda: memories.all(user_id="u", archived=True),
        "facts": lambda: memories.document(user_id="u"),
        "memory stats": lambda: memories.stats(user_id="u"),
        "state": lambda: StateStore(context.database).load(context.session("s", user_id="u").memory.session),
    }


def astuple(hit: Any) -> tuple[Any, ...]:
    return (hit.ref, hit.text)


TABLES = (
    "autocontext_content", "autocontext_content_page", "autocontext_content_key", "autocontext_memories",
    "autocontext_memory_sections", "autocontext_states",
)  # fmt: skip


def flipped(value: Any, bit: int) -> Any:
    """The value with one bit changed, of the type that it has; None if the database cannot hold that."""
    if isinstance(value, int):
        changed = (value & (2**64 - 1)) ^ (1 << bit % 64)
        return changed - 2**64 if changed >= 2**63 else changed
    raw = bytearray(_raw(value))
    if not raw:
        return None
    raw[bit // 8 % len(raw)] ^= 1 << bit % 8
    try:
        if isinstance(value, float):
            (number,) = struct.unpack("<d", bytes(raw))
            return None if math.isnan(number) else number
        if isinstance(value, bytes):
            return bytes(raw)
        text = bytes(raw).decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _raw(value: Any) -> bytes:
    if isinstance(value, float):
        return struct.pack("<d", value)
    return value.encode() if isinstance(value, str) else value or b""


def beneath(context: AutoContext) -> SqliteDatabase:
    database: Any = context.database
    return database if isinstance(database, SqliteDatabase) else database._database


def cells(database: SqliteDatabase, table: str) -> list[tuple[int, str, Any]]:
    columns = PLACE[table].columns

    def work() -> Work[list[Row]]:
        return (yield Statement(f"SELECT rowid, {', '.join(columns)} FROM {table}"))

    return [(row[0], name, value) for row in database.read(work) for name, value in zip(columns, row[1:], strict=True)]


def set_cell(database: SqliteDatabase, table: str, row: int, column: str, value: Any) -> None:
    def work() -> Work[None]:
        yield Statement(f"UPDATE {table} SET {column} = :value WHERE rowid = :row", {"value": value, "row": row})

    database.write(work)


def asked(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except AutoContextError as e:
        return e


@pytest.mark.sampled
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "bits", [(1,), pytest.param(range(0, 512, 61), marks=pytest.mark.slow)], ids=["one bit", "many"]
)
def test_a_changed_cell_is_told_or_changes_no_answer(context: AutoContext, table: str, bits: Any) -> None:
    path, key = context.database.name, KEY if beneath(context) is not context.database else None
    before = {name: asked(question) for name, question in answers(context).items()}
    assert not [e for e in before.values() if isinstance(e, Exception)]
    told = 0
    for row, column, value in cells(beneath(context), table):
        for bit in bits:
            changed = flipped(value, bit)
            if changed is None or changed == value:
                continue
            if asked(partial(set_cell, beneath(context), table, row, column, changed)) is not None:
                continue  # another row has this key
            with AutoContext(path, key=key) as other:
                for name, question in answers(other).items():
                    answer = asked(question)
                    if isinstance(answer, StoreError | StoreCorruptError):
                        told += 1
                        continue
                    # What rows are looked up by has changed: one may be missing where it was, and no more.
                    looked_up_by = column in (*PLACE[table].key, *PLACE[table].names)
                    missing = looked_up_by and fewer(answer, before[name])
                    assert answer == before[name] or missing, (name, column, value, changed, answer)
            set_cell(beneath(context), table, row, column, value)
    assert told
    assert {name: asked(question) for name, question in answers(context).items()} == before


def fewer(answer: Any, before: Any) -> bool:
    """Whether an answer lacks something, and says nothing else."""
    if answer is None:
        return True
    if isinstance(answer, int):
        return bool(answer < before)
    if isinstance(answer, list):
        return all(item in before for item in answer)
    if isinstance(answer, dict):
        return all(before.get(name) == value or fewer(value, before.get(name)) for name, value in answer.items())
    return hasattr(answer, "total_memories") and answer.total_memories < before.total_memories


def test_damaged_memories_do_not_end_a_turn_and_can_be_deleted(
    context: AutoContext, caplog: pytest.LogCaptureFixture
) -> None:
    session = context.session("s", user_id="u")
    assert "Prefers pytest" in str(session.prepare().messages)
    damaged = next(m for m in context.memories.all(user_id="u") if m.content == "Prefers pytest")
    set_cell(beneath(context), "autocontext_memories", 1, "importance", 9)
    with AutoContext(context.database.name, key=KEY if beneath(context) is not context.database else None) as other:
        prepared = other.session("s", user_id="u").prepare()
        assert [m.text for m in prepared.messages] == ["hello"]
        assert damaged.id in caplog.text
        with pytest.raises(StoreCorruptError, match=damaged.id):
            other.memories.search("pytest", user_id="u")
        assert other.memories.delete(damaged.id, user_id="u")
        assert [m.content for m in other.memories.all(user_id="u")] == ["Not unittest"]
        assert other.content.delete("src/report.txt", namespace=NS)


def test_a_damaged_content_is_mended_by_putting_it_again(context: AutoContext) -> None:
    set_cell(beneath(context), "autocontext_content", 1, "chars", 7)
    with pytest.raises(StoreCorruptError, match="the row has changed"):
        context.content.read("src/report.txt", namespace=NS)
    context.content.put(TEXT, key="src/report.txt", namespace=NS)
    page = context.content.read("src/report.txt", namespace=NS)
    assert page is not None
    assert page.text == TEXT


def test_what_may_have_expired_by_damage_is_not_purged(context: AutoContext) -> None:
    set_cell(beneath(context), "autocontext_content_key", 1, "expires_at", 1)
    set_cell(beneath(context), "autocontext_content", 2, "held_until", 1)
    assert context.content.purge_expired() == 0
    for key in ("src/report.txt", "plain.txt"):
        with pytest.raises(StoreCorruptError):
            context.content.find(key, namespace=NS)


def test_rows_without_a_checksum_are_read(context: AutoContext) -> None:
    """As those are that an earlier version wrote."""
    before = {name: asked(question) for name, question in answers(context).items()}

    def forget() -> Work[None]:
        for table in TABLES:
            yield Statement(f"UPDATE {table} SET checksum = NULL")

    beneath(context).write(forget)
    assert {name: asked(question) for name, question in answers(context).items()} == before


def test_checksums_of_rows_are_the_same_in_every_version_of_python() -> None:
    assert row_checksum("user", 7, 2**62, -1, 0.5, b"\x00\xff", None, "数据\ud800") == "ceb875bc"
    assert row_checksum(1) != row_checksum(1.0) != row_checksum("1") != row_checksum(b"1")
    assert row_checksum("a", "bc") != row_checksum("ab", "c")
