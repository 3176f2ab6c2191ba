"""Sub-agents' sessions in every store: found again, read from their parents, deleted with them, seen by nobody else."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from autocontext import AutoContext, AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg
from autocontext.errors import SessionGone
from autocontext.stores import InMemorySessionStore, SessionKey, SqliteSessionStore, copy_sessions
from autocontext.testing import assistant, tool_exchange, user
from tests.invariants import ESTIMATE
from tests.stores.homes import home
from tests.stores.stores import DURABLE, KINDS, PLACES, opened, stored

CONFIG = AutoContextConfig.for_window(16_000, **ESTIMATE)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with stored(request.param, tmp_path) as opened_store:
        yield opened_store


def parent_in(store: Any, user_id: str = "ann") -> AutoContextMemory:
    return AutoContextMemory(CONFIG, store=store, session_id="42", user_id=user_id)


def research(name: str) -> list[Msg]:
    """m1 the task, m2-m3 a call with its result, m4 the answer."""
    return [user(f"Task of {name}."), *tool_exchange("read", {"of": name}, f"secret of {name}"), assistant("Done.")]


def family(store: Any) -> tuple[AutoContextMemory, dict[str, list[Msg]]]:
    """A parent with children and a grandchild, and what was said, by the parent's path to it."""
    parent = parent_in(store)
    said = {path: research(path or "parent") for path in ("", "researcher/", "reviewer/", "researcher/reader/")}
    parent.add_messages(said[""])
    parent.child("researcher").add_messages(said["researcher/"])
    parent.child("reviewer").add_messages(said["reviewer/"])
    parent.child("researcher").child("reader").add_messages(said["researcher/reader/"])
    return parent, said


def test_the_numbers_of_children_lead_from_the_parent_to_the_exact_originals(store: Any) -> None:
    parent, said = family(store)
    tool = ContextOffloadTool(parent)
    for path, messages in said.items():
        assert parent.reload(f"{path}m1-m4") == messages
        assert parent.numbered(f"{path}m2") == {2: messages[1], 3: messages[2]}
        assert tool(f"{path}m3").startswith(f"[{path}m2-m3: 2 messages")
        assert f"secret of {path or 'parent'}" in tool(f"{path}m3")


def test_a_child_sees_nothing_of_its_parent_and_siblings(store: Any) -> None:
    parent, said = family(store)
    child = parent.child("researcher")
    assert child.get_original_memory_msgs() == said["researcher/"] == child.get_messages()
    assert child.reload("m1-m4") == said["researcher/"]
    for path in ("..", "../m1", "/m1", "reviewer/m1", "42/m1", "researcher/m1"):
        assert child.reload(path) == []
    assert parent.get_original_memory_msgs() == said[""]
    assert "secret" not in child.tools("search")[0](query="parent reviewer reader").replace("secret of researcher", "")


def test_both_know_each_other(store: Any) -> None:
    parent, _ = family(store)
    child = parent.child("researcher")
    assert parent.children == ["researcher", "reviewer"]
    assert child.children == ["reader"]
    assert parent.parent is None
    assert child.parent == parent.session == SessionKey("ann", "42")
    assert child.child("reader").parent == child.session
    assert {info.key for info in store.sessions("ann")} == {
        parent.session, child.session, parent.child("reviewer").session, child.child("reader").session
    }  # fmt: skip


def test_a_child_without_messages_is_no_session(store: Any) -> None:
    parent = parent_in(store)
    assert parent.child("researcher").reload("m1") == parent.reload("researcher/m1") == []
    assert parent.children == store.sessions() == []


def test_children_of_one_name_are_one_session(store: Any) -> None:
    parent = parent_in(store)
    one, other = parent.child("researcher"), parent.child("researcher")
    one.add_message(user("first"))
    other.add_message(user("second"))
    one.add_message(user("third"))
    other.refresh()
    assert [m.text for m in one] == [m.text for m in other] == ["first", "second", "third"]
    assert [m.text for m in parent.reload("researcher/m1-m3")] == ["first", "second", "third"]


def test_another_user_has_other_children(store: Any) -> None:
    _, said = family(store)
    bob = parent_in(store, "bob")
    assert bob.children == bob.reload("researcher/m1") == []
    bob.child("researcher").add_message(user("Bob's"))
    assert [m.text for m in bob.reload("researcher/m1")] == ["Bob's"]
    assert parent_in(store).reload("researcher/m1-m4") == said["researcher/"]


@pytest.mark.parametrize("kind", DURABLE)
def test_after_a_restart_the_same_child_goes_on(kind: str, tmp_path: Path) -> None:
    with home(PLACES.get(kind, "postgresql"), tmp_path) as where:
        with closing(opened(kind, where)) as store:
            _, said = family(store)
        with closing(opened(kind, where)) as store:
            parent = parent_in(store)
            child = parent.child("researcher")
            child.add_message(user("And now?"))
            assert child.get_original_memory_msgs() == parent.reload("researcher/m1-m5") == [*child]
            assert child.get_original_memory_msgs()[:-1] == said["researcher/"]
            by_its_id = AutoContextMemory(CONFIG, store=store, session_id=child.session.session_id, user_id="ann")
            assert by_its_id.parent == parent.session
            assert by_its_id.messages == child.messages


def test_a_deleted_session_leaves_its_children_unless_the_tree_is_deleted(store: Any) -> None:
    parent, said = family(store)
    other = AutoContextMemory(CONFIG, store=store, session_id="421", user_id="ann")
    other.child("researcher").add_message(user("other"))
    store.delete(parent.session)
    assert parent_in(store).reload("researcher/m1-m4") == said["researcher/"]
    assert store.delete_tree(parent.session) == 3
    assert parent_in(store).children == parent_in(store).reload("researcher/reader/m1") == []
    assert [info.session_id for info in store.sessions("ann")] == [other.child("researcher").session.session_id]
    assert store.delete_tree(parent.session) == 0
    with pytest.raises(SessionGone):
        parent.add_message(user("too late"))


def test_deleting_a_child_s_tree_leaves_its_parent(store: Any) -> None:
    parent, said = family(store)
    assert store.delete_tree(parent.child("researcher").session) == 2
    assert parent.children == ["reviewer"]
    assert parent_in(store).reload("m1-m4") == said[""]


def test_what_is_erased_in_a_child_is_erased_for_its_parent(store: Any) -> None:
    parent, said = family(store)
    child = parent.child("researcher")
    assert store.erase(child.session, [said["researcher/"][2].id]) == 1
    assert "secret" not in ContextOffloadTool(parent)("researcher/m1-m4")
    assert "[redacted]" in ContextOffloadTool(parent)("researcher/m3")
    assert parent.reload("m1-m4") == said[""]
    assert parent.reload("researcher/reader/m1-m4") == said["researcher/reader/"]


def test_a_parent_that_is_cleared_and_a_fork_of_it(store: Any) -> None:
    parent, said = family(store)
    fork = store.fork(parent.session, new_id="fork")
    forked = AutoContextMemory(CONFIG, store=store, session_id=fork.session_id, user_id="ann")
    assert forked.children == forked.reload("researcher/m1") == []
    parent.clear()
    assert parent.reload("m1") == []
    assert parent.reload("researcher/m1-m4") == said["researcher/"]


def test_copied_sessions_find_their_children(store: Any) -> None:
    _, said = family(store)
    there = InMemorySessionStore()
    copy_sessions(store, there)
    assert parent_in(there).reload("researcher/reader/m1-m4") == said["researcher/reader/"]


def test_a_child_s_compressions_are_read_from_the_parent(store: Any) -> None:
    parent = parent_in(store)
    child = parent.child("researcher", window=2_000)
    logs = [m for n in range(12) for m in tool_exchange("read_log", {"n": n}, f"line {n} of the log\n" * 60)]
    child.add_messages([user("Read all logs."), *logs, assistant("Read."), user("And?")])
    assert child.compress_if_needed(force=True)
    assert child.get_offload_context()
    for uuid, originals in child.get_offload_context().items():
        assert parent.handle(f"researcher/{uuid[:8]}") == f"researcher/{uuid}"
        assert parent.reload(f"researcher/{uuid}") == originals
        assert parent.handle(uuid) == ""
        assert parent.reload(uuid) == []
    assert parent.reload("researcher/m1-m27") == child.get_original_memory_msgs()


def test_the_asynchronous_tool_reads_children_too(store: Any) -> None:
    parent, _ = family(store)
    assert "secret of researcher/reader/" in asyncio.run(
        ContextOffloadTool(parent).acall(working_context_offload_uuid="researcher/reader/m3")
    )


def test_auto_context_deletes_sub_agents_with_their_session() -> None:
    with AutoContext.open(":memory:") as context:
        memory = context.session("42", user_id="ann").memory
        memory.add(user("hello"))
        memory.child("researcher").child("reader").add(user("deep"))
        context.session("43", user_id="ann").add(user("stays"))
        assert context.delete("42", user_id="ann") is True
        assert [info.session_id for info in context.sessions.sessions()] == ["43"]
        assert context.delete("42", user_id="ann") is False


def test_a_parent_opens_no_child_unless_a_path_is_read(tmp_path: Path) -> None:
    reads = []

    class Counting(SqliteSessionStore):
        def read(self, session: SessionKey, **place: Any) -> Any:
            reads.append(session)
            return super().read(session, **place)

    with closing(Counting(tmp_path / "agent.db")) as store:
        parent, _ = family(store)
        reads.clear()
        parent.add_message(user("more"))
        parent.get_messages()
        assert parent.reload("m1") != parent.reload("unknown, though long enough") == []
        ContextOffloadTool(parent)("m1-m4")
        assert reads == []
        parent.reload("researcher/m1")
        assert {key.session_id for key in reads} == {parent.child("researcher").session.session_id}
