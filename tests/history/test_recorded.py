"""What a memory holds of each message: its entries as a list would, at most 1.5 KB a message."""

import copy
import gc
import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.history.entries import Added, Cleared, Entry, Forgotten, Restored
from autocontext.history.recorded import Recorded
from autocontext.messages import TextBlock, ToolResultBlock, ToolUseBlock, interned
from autocontext.stores import SqliteSessionStore
from autocontext.testing import conversation, tool_call, tool_result, user

entries = st.lists(
    st.one_of(
        st.builds(lambda text: Added(message=user(text)), st.text(max_size=5)),
        st.just(Cleared()),
        st.builds(lambda text: Forgotten(uuid=text), st.text(max_size=5)),
    )
)


@given(entries, entries, st.slices(10))
def test_entries_are_those_of_a_list(first: list[Entry], more: list[Entry], part: slice) -> None:
    recorded, again = Recorded(), Recorded()
    recorded.extend(first)
    recorded.extend(more)
    again.extend([*first, *more])
    plain = first + more
    assert recorded == plain
    assert plain == recorded
    assert recorded == again
    assert (recorded == first) == (not more)
    assert [*recorded] == plain
    assert len(recorded) == len(plain)
    assert recorded[part] == plain[part]
    assert [recorded[i] for i in range(len(plain))] == plain
    assert [e.model_dump_json() for e in recorded] == [e.model_dump_json() for e in plain]
    assert list(recorded.of(Forgotten)) == [e for e in plain if isinstance(e, Forgotten)]
    assert not list(recorded.of(Restored))


@given(st.sampled_from(conversation(rounds=2)), st.booleans())
def test_a_message_that_shares_is_what_it_was(msg: Msg, read: bool) -> None:
    plain = Msg.model_validate(msg.to_dict()) if read else msg.model_copy(deep=True)
    shared = interned(plain.model_copy(deep=True))
    for value, twin in zip((plain, *plain.content), (shared, *shared.content), strict=True):
        assert value == twin
        assert value.model_fields_set == twin.model_fields_set
        assert value.model_dump(exclude_unset=True) == twin.model_dump(exclude_unset=True)
        assert value.model_dump_json(exclude_unset=True) == twin.model_dump_json(exclude_unset=True)
        for other in (copy.copy(twin), copy.deepcopy(twin), pickle.loads(pickle.dumps(twin)), twin.model_copy()):  # noqa: S301 (our own)
            assert other == twin
            assert type(other.model_fields_set) is set
            assert other.model_fields_set == twin.model_fields_set


def test_what_is_shared_cannot_be_changed() -> None:
    one, two = interned(user("one")), interned(user("two"))
    assert one.model_fields_set is two.model_fields_set
    changes: list[Callable[[], object]] = [
        lambda: one.model_fields_set.add("metadata"),
        one.model_fields_set.clear,
        lambda: one.model_fields_set.update({"metadata"}),
        lambda: one.model_fields_set.discard("role"),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="messages are frozen"):
            change()
    named = one.model_copy(update={"metadata": {"a": 1}})
    assert named.model_fields_set == one.model_fields_set | {"metadata"}
    assert "metadata" not in two.model_fields_set


# ------------------------------------------------------------------------------------------------------------- bytes
def texts(count: int) -> Iterator[Msg]:
    return (Msg(role="user", content=f"{n:06d} " + "x" * 293) for n in range(count))


def calls(count: int) -> Iterator[Msg]:
    for n in range(count // 2):
        yield tool_call("read_file", {"path": f"src/module_{n}.py", "limit": n}, id=f"call_{n:06d}")
        yield tool_result(f"call_{n:06d}", f"{n:06d} " + "x" * 293, name="read_file")


@pytest.mark.slow
@pytest.mark.parametrize("made", [texts, calls])
def test_a_message_takes_at_most_1500_bytes(made: Callable[[int], Iterator[Msg]], tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "agent.db")
    config = AutoContextConfig(msg_threshold=10**9, max_token=10**9)
    memory = AutoContextMemory(config, store=store, session_id="s")
    memory.add_messages(made(2))  # what a first message loads
    gc.collect()
    tracemalloc.start()
    try:
        memory.add_messages(made(4_000))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] <= 1_500 * 4_000
        del memory
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        again = AutoContextMemory(config, store=store, session_id="s")
        gc.collect()
        assert len(again) == 4_002
        assert tracemalloc.get_traced_memory()[0] - before <= 1_000 * 4_000  # as they are stored
        assert len(again.messages) == 4_002
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before <= 1_500 * 4_000
    finally:
        tracemalloc.stop()


def test_equal_names_and_keys_are_one_text() -> None:
    """What pydantic shares of them depends on all that the process has read: once a message took 1,504 bytes for it."""

    def fresh(text: str) -> str:
        return "".join([*text])

    def read() -> tuple[Msg, Msg]:
        call = tool_call(fresh("read_file"), {fresh("path"): {fresh("of"): 1}}, id="c")
        return interned(call), interned(tool_result("c", "x", name=fresh("read_file")))

    (call, answer), (again, _) = read(), read()
    asked, once_more, told = call.content[0], again.content[0], answer.content[0]
    assert isinstance(asked, ToolUseBlock)
    assert isinstance(once_more, ToolUseBlock)
    assert isinstance(told, ToolResultBlock)
    assert asked.name is once_more.name is told.name
    assert call.name is again.name
    for one, two in zip(asked.input, once_more.input, strict=True):
        assert one is two
    assert next(iter(asked.input["path"])) is next(iter(once_more.input["path"]))


def test_blocks_share_too() -> None:
    one, two = (interned(Msg(role="user", content=[TextBlock(text=text)])) for text in ("one", "two"))
    assert one.content[0].model_fields_set is two.content[0].model_fields_set
