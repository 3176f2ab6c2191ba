"""EncryptedSessionStore: what is on disk, which keys open it, what an attacker who can write cannot do."""

import asyncio
import logging
import secrets
import subprocess
import sys
import traceback

import pytest

from tests.extras import need

need("crypto")

from autocontext import AutoContextMemory, Msg
from autocontext.errors import ConfigError, StoreCorruptError, StoreError
from autocontext.history.entries import Added, Sealed
from autocontext.history.log import Log
from autocontext.stores import (
    EncryptedSessionStore,
    InMemorySessionStore,
    SessionKey,
    SqliteSessionStore,
    copy_sessions,
)
from autocontext.testing import conversation

S = SessionKey("u", "s")
OLD, NEW = secrets.token_bytes(32), secrets.token_bytes(32)


def added(*texts):
    return [Added(message=Msg(role="user", content=text)) for text in texts]


@pytest.fixture
def plain():
    return InMemorySessionStore()


def test_nothing_that_was_said_is_in_the_file(tmp_path):
    path = tmp_path / "agent.db"
    store = EncryptedSessionStore(SqliteSessionStore(path), OLD)
    memory = AutoContextMemory(store=store, session_id="s", user_id="u")
    memory.add_messages([Msg(role="user", content="the launch code is 0000"), *conversation(30)])
    assert memory.compress_if_needed(force=True)
    assert store.search("launch code", user_id="u")
    store.close()
    written = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    assert b"launch" not in written
    assert b"module_1" not in written
    again = EncryptedSessionStore(SqliteSessionStore(path), OLD)
    assert AutoContextMemory(store=again, session_id="s", user_id="u").state_dict() == memory.state_dict()


def test_equal_entries_are_sealed_differently(plain):
    [entry] = added("a")
    EncryptedSessionStore(plain, OLD).append(S, [entry] * 3, after=0)
    assert len({e.data for e in plain.read(S)}) == len({e.nonce for e in plain.read(S)}) == 3


def test_keys_are_rotated_while_old_entries_stay_readable(plain):
    EncryptedSessionStore(plain, {"2025": OLD}).append(S, added("a", "b"), after=0)
    both = EncryptedSessionStore(plain, {"2025": OLD, "2026": NEW}, current="2026")
    both.append(S, added("c"), after=2)
    assert [e.message.text for e in both.read(S)] == ["a", "b", "c"]
    assert [e.key_id for e in plain.read(S)] == ["2025", "2025", "2026"]
    assert (both.rotate(S), both.rotate(S)) == (2, 0)
    assert [e.message.text for e in EncryptedSessionStore(plain, {"2026": NEW}).read(S)] == ["a", "b", "c"]


def test_an_unknown_key_is_named_and_nothing_is_given(plain):
    EncryptedSessionStore(plain, {"k2": OLD}).append(S, added("a"), after=0)
    with pytest.raises(StoreError, match="session 's', sequence 0: no key 'k2'; open it with the key of this id, too"):
        EncryptedSessionStore(plain, {"k3": NEW}).read(S)


def test_a_wrong_key_is_one_clear_error(plain):
    EncryptedSessionStore(plain, OLD).append(S, added("a"), after=0)
    with pytest.raises(StoreCorruptError, match="user 'u', session 's', sequence 0: it cannot be decrypted") as e:
        EncryptedSessionStore(plain, NEW).read(S)
    assert e.value.__cause__ is None


def moved_within(plain):
    a, b = plain.read(S)
    plain.rewrite(S, {0: b, 1: a})


def moved_to_another_user(plain):
    entries = plain.read(S)
    plain.delete(S)
    plain.append(SessionKey("v", "s"), entries, after=0)
    return SessionKey("v", "s")


def moved_to_another_session(plain):
    plain.append(SessionKey("u", "t"), plain.read(S), after=0)
    return SessionKey("u", "t")


def named_after_another_key(plain):
    plain.rewrite(S, {0: plain.read(S)[0].model_copy(update={"key_id": "other"})})


def cut(plain):
    plain.rewrite(S, {0: plain.read(S)[0].model_copy(update={"data": plain.read(S)[0].data[:8]})})


def no_base64(plain):
    plain.rewrite(S, {0: plain.read(S)[0].model_copy(update={"nonce": "?"})})


@pytest.mark.parametrize(
    "tamper",
    [moved_within, moved_to_another_user, moved_to_another_session, named_after_another_key, cut, no_base64],
)
def test_a_record_that_was_changed_or_moved_is_refused(plain, tamper):
    store = EncryptedSessionStore(plain, {"key": OLD, "other": OLD}, current="key")
    store.append(S, added("a", "b"), after=0)
    key = tamper(plain) or S
    with pytest.raises(StoreCorruptError, match="was changed or moved"):
        store.read(key)


def test_plain_entries_are_not_taken_for_encrypted_ones(plain):
    plain.append(S, added("planted"), after=0)
    with pytest.raises(StoreError, match="it is not encrypted; copy the session with copy_sessions"):
        EncryptedSessionStore(plain, OLD).read(S)


def test_a_store_of_ones_own_needs_no_asynchronous_methods(plain):
    class Own:
        append, read = plain.append, plain.read
        closed = False

        def close(self):
            self.closed = True

    own = Own()

    async def go():
        store = EncryptedSessionStore(own, OLD)
        await store.aappend(S, added("a"), after=0)
        read = await store.aread(S)
        await store.aclose()
        return read

    assert [entry.message.text for entry in asyncio.run(go())] == ["a"]
    assert own.closed


def test_a_plain_session_moves_behind_a_key_and_back(plain):
    plain.append(S, added("a", "b"), after=0)
    encrypted, back = EncryptedSessionStore(InMemorySessionStore(), OLD), InMemorySessionStore()
    assert copy_sessions(plain, encrypted) == copy_sessions(encrypted, back) == 2
    assert back.read(S) == plain.read(S)


def test_opening_an_encrypted_session_without_its_key_tells_what_to_do(plain):
    EncryptedSessionStore(plain, OLD).append(S, added("a"), after=0)
    with pytest.raises(StoreError, match=r"this session is encrypted: open it through EncryptedSessionStore"):
        AutoContextMemory(store=plain, session_id="s", user_id="u")


@pytest.mark.parametrize(
    ("keys", "current", "told"),
    [
        (b"short", None, "key 'key' must be 32 random bytes: secrets.token_bytes"),
        ({"a": OLD, "b": "x" * 32}, "a", "key 'b' must be 32 random bytes"),
        ({"a": OLD, "b": NEW}, None, r"current must name the key that seals new entries \(got None, keys: 'a', 'b'\)"),
        ({"a": OLD}, "b", "current must name the key"),
        ({}, None, "keys: none"),
    ],
)
def test_keys_are_checked(plain, keys, current, told):
    with pytest.raises(ConfigError, match=told):
        EncryptedSessionStore(plain, keys, current=current)


def test_no_key_shows_anywhere(plain, caplog):
    caplog.set_level(logging.DEBUG)
    key = b"an easily recognised key: 32 byt"
    store = EncryptedSessionStore(plain, key)
    store.append(S, added("a"), after=0)
    told = [repr(store), repr(vars(store)), str(store)]
    cut(plain)
    try:
        store.read(S)
    except StoreCorruptError:
        told += traceback.format_exc().splitlines()
    with pytest.raises(ConfigError) as e:
        EncryptedSessionStore(plain, {"k": key + b"x"})
    told += [str(e.value), caplog.text]
    assert not any("recognised" in t or key.hex() in t for t in told)


def test_a_log_takes_no_sealed_entries():
    with pytest.raises(StoreError, match="this session is encrypted"):
        Log([Sealed(key_id="k", nonce="", data="")])


def test_the_missing_extra_is_named():
    code = """
import sys
sys.modules["cryptography.exceptions"] = None
from autocontext.errors import MissingExtraError
try:
    from autocontext.stores import EncryptedSessionStore
except MissingExtraError as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install -e '.[crypto]'" in done.stdout
