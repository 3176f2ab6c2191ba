"""Files that are damaged, cut off, read-only or from another version: told in one line, never silently empty."""

import os
import random
import shutil
import subprocess

import pytest

from autocontext import AutoContextMemory, Msg
from autocontext.errors import StoreCorruptError, StoreError, StoreVersionError
from autocontext.history.entries import Added
from autocontext.stores import SessionKey, SqliteSessionStore
from autocontext.stores.database import Statement
from tests.stores.stores import opened as open_store
from tests.stores.stores import stored

S = SessionKey("u", "s")


def made(count):
    rng = random.Random(1)
    return [Added(message=Msg(id=f"m{i}", role="user", content=rng.randbytes(350).hex())) for i in range(count)]


ENTRIES = made(60)


def added(count):
    return ENTRIES[:count]


def execute(store, sql, **params):
    def work():
        return (yield Statement(sql, params))

    return store.database.write(work)


@pytest.fixture(params=["in memory", "sqlite file", "postgresql"])
def store(request, tmp_path):
    with stored(request.param, tmp_path) as opened:
        opened.append(S, added(20), after=0)
        yield opened


DAMAGES = {
    "UPDATE autocontext_entries SET body = :body WHERE sequence = 12": r"its bytes have changed",
    "DELETE FROM autocontext_entries WHERE sequence = 12": "it is missing",
    "UPDATE autocontext_sessions SET entries = 12": "the session should end before it",
    "DELETE FROM autocontext_sessions": None,
}


@pytest.mark.parametrize("sql", DAMAGES)
def test_damage_names_session_and_sequence_and_what_is_before_it_can_be_read(store, sql):
    execute(store, sql, **({"body": b"{}"} if ":body" in sql else {}))
    lost = 0 if DAMAGES[sql] is None else 12
    told = DAMAGES[sql] or "the session should end before it"
    for _ in range(2):  # reading repairs nothing and destroys nothing
        with pytest.raises(StoreCorruptError, match=f"user 'u', session 's', sequence {lost}: {told}"):
            store.read(S)
    with pytest.raises(StoreCorruptError):
        AutoContextMemory(store=store, session_id="s", user_id="u")
    assert store.read(S, until=lost) == added(lost)


def test_a_valid_checksum_over_nonsense_is_told_too(store):
    import zlib

    body = b'{"type":"wizard"}'
    execute(
        store, "UPDATE autocontext_entries SET body = :body, checksum = :sum WHERE sequence = 3",
        body=body, sum=zlib.crc32(body),
    )  # fmt: skip
    with pytest.raises(StoreCorruptError, match="sequence 3: entry"):
        store.read(S)


@pytest.mark.parametrize("places", [60, pytest.param(1500, marks=pytest.mark.slow)])
def test_bytes_flipped_anywhere_are_never_silent(tmp_path, places):
    whole = tmp_path / "whole.db"
    store = SqliteSessionStore(whole)
    entries = added(60)
    for i, entry in enumerate(entries):
        store.append(S, [entry], after=i)
    store.append(SessionKey("v", "s"), added(3), after=0)
    store.scrub()
    store.close()
    content = whole.read_bytes()
    rng = random.Random(places)
    told = 0
    for _ in range(places):
        damaged = bytearray(content)
        at = rng.randrange(len(damaged))
        damaged[at : at + 16] = rng.randbytes(len(damaged[at : at + 16]))
        path = tmp_path / "damaged.db"
        path.write_bytes(damaged)
        try:
            store = SqliteSessionStore(path)
            assert store.read(S) == entries, at
        except StoreCorruptError as e:
            told += 1
            if "session 's'" in str(e):
                good = int(str(e).split("sequence ")[1].split(":")[0])
                assert not good or SqliteSessionStore(path).read(S, until=good) == entries[:good], at
        except StoreVersionError:
            told += 1
        finally:
            store.close()
        assert path.read_bytes() == bytes(damaged), at
        for file in tmp_path.glob("damaged.db*"):
            file.unlink()
    assert told > places / 5  # the rest hit unused space


def test_a_write_ahead_file_that_is_cut_gives_a_state_that_was(tmp_path):
    store = SqliteSessionStore(tmp_path / "agent.db")
    entries = added(30)
    for i, entry in enumerate(entries):
        store.append(S, [entry], after=i)
    wal = (tmp_path / "agent.db-wal").read_bytes()
    seen = set()
    for cut in range(0, len(wal), len(wal) // 12):
        folder = tmp_path / str(cut)
        folder.mkdir()
        shutil.copy(tmp_path / "agent.db", folder)
        (folder / "agent.db-wal").write_bytes(wal[:cut])
        again = SqliteSessionStore(folder / "agent.db")
        found = again.read(S)
        assert found == entries[: len(found)]
        seen.add(len(found))
        again.append(S, added(1), after=len(found))
        again.close()
    assert len(seen) > 5


def made_read_only(folder):
    """The folder, so that nobody can write to it, root included; None where that cannot be arranged."""
    if os.geteuid() != 0:
        for path in (*folder.iterdir(), folder):
            path.chmod(0o555)
        return lambda: folder.chmod(0o755)
    if subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False).returncode:
        return None
    subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
    return lambda: subprocess.run(["umount", folder], check=True)


def test_a_read_only_folder_is_told_and_nothing_is_lost(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    store = SqliteSessionStore(folder / "agent.db")
    store.append(S, added(2), after=0)
    store.close()
    undo = made_read_only(folder)
    if undo is None:
        pytest.skip("needs the right to mount, or not to be root: a read-only folder cannot be made")
    try:
        with pytest.raises(StoreError, match=r"agent\.db: .*(read-only.*check|cannot be opened.*may be written to)"):
            SqliteSessionStore(folder / "agent.db").append(S, added(1), after=2)
        with pytest.raises(StoreError, match=r"in a folder that exists and may be written to"):
            SqliteSessionStore(folder / "new.db")
    finally:
        undo()
    assert len(SqliteSessionStore(folder / "agent.db").read(S)) == 2


@pytest.mark.parametrize("kind", ["sqlite file", "postgresql"])
def test_a_newer_file_is_refused_and_left_alone(kind, tmp_path):
    with stored(kind, tmp_path) as store:
        store.append(S, added(2), after=0)
        execute(store, "UPDATE autocontext_schema SET version = 99 WHERE part = 'sessions'")
        where = store.database.name if kind == "sqlite file" else store.database
        with pytest.raises(StoreVersionError, match=r"its sessions have version 99, .*upgrade autocontext-memory"):
            open_store(kind, where)
        assert len(store.read(S)) == 2
