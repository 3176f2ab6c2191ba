"""Memories of an adapter whose sessions other processes write to, or delete."""

import asyncio
from pathlib import Path

import pytest

from autocontext import AutoContextMemory
from autocontext.adapters._sessions import Sessions
from autocontext.errors import SessionGone
from autocontext.stores import SqliteSessionStore
from autocontext.testing import user


def texts(memory: AutoContextMemory) -> list[str]:
    return [m.text for m in memory.messages]


def test_a_run_begins_with_what_another_process_has_added(tmp_path: Path) -> None:
    one, other = (Sessions(store=SqliteSessionStore(tmp_path / "agent.db")) for _ in range(2))
    one.begin("s").add_message(user("one"))
    other.begin("s").add_message(user("two"))
    assert texts(one.of("s")) == ["one"]
    assert texts(one.begin("s")) == ["one", "two"]
    assert texts(asyncio.run(one.abegin("s"))) == ["one", "two"]


@pytest.mark.parametrize("bound", [None, "s"])
def test_a_session_that_was_deleted_begins_anew(tmp_path: Path, bound: str | None) -> None:
    store = SqliteSessionStore(tmp_path / "agent.db")
    sessions = Sessions(store=store, session_id=bound, user_id="ann")
    sessions.begin("s").add_message(user("one"))
    SqliteSessionStore(tmp_path / "agent.db").delete(("ann", "s"))
    with pytest.raises(SessionGone):
        sessions.of("s").add_message(user("two"))
    sessions.begin("s").add_message(user("three"))
    assert texts(sessions.of("s")) == ["three"]
    assert texts(AutoContextMemory(store=store, session_id="s", user_id="ann")) == ["three"]


def test_a_memory_that_was_passed_is_not_exchanged(tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "agent.db")
    memory = AutoContextMemory(store=store, session_id="s")
    memory.add_message(user("one"))
    store.delete(memory.session)
    with pytest.raises(SessionGone):
        Sessions(memory).begin("s")
