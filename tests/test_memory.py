"""The memory as its users call it: what each method does, and what bad input leaves behind."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg, Plan, TextBlock
from autocontext.errors import AutoContextError, ConfigError, InvalidMessage, StoreError
from autocontext.models import DashScopeChatModel, OpenAIChatModel
from autocontext.models.opening import open_model
from autocontext.stores import InMemorySessionStore
from autocontext.stores.opening import open_database
from autocontext.testing import ScriptedModel, assert_valid_chat, assistant, conversation, tool_exchange, user
from tests.conversations import histories, valid_histories
from tests.extras import need
from tests.invariants import assert_pairs_kept, handles, new_memory


def compressed() -> AutoContextMemory:
    memory = new_memory("tiny")
    memory.add_messages(conversation(rounds=3))
    assert memory.compress_if_needed(force=True)
    return memory


def key_in_view(memory: AutoContextMemory) -> str:
    """The UUID of the first message in view that a compression made."""
    return next(key for m in memory.messages for key in handles(m))


# ---------------------------------------------------------------------------------------------------------- branches
@given(histories(duplicates=True), histories())
def test_what_happens_in_a_branch_stays_there(history: list[Msg], more: list[Msg]) -> None:
    memory = new_memory("tiny")
    memory.add_messages(history)
    memory.compress_if_needed(force=True)
    before = memory.state_dict()
    branch = memory.branch()
    assert branch.state_dict() == before
    branch.add_messages(more)
    branch.compress_if_needed(force=True)
    branch.follow([], [m.id for m in history])
    assert memory.state_dict() == before
    memory.add_messages(more)
    assert branch.get_original_memory_msgs() == memory.get_original_memory_msgs() == [*history, *more]
    assert [*branch.numbered("m1")] == [*memory.numbered("m1")]


@pytest.mark.parametrize("more", [-20, 0, 300])
def test_a_branch_counts_as_the_memory_has_learned_to(more: int) -> None:
    memory = new_memory("tiny")
    memory.set_overhead("Be brief.")
    assert memory.branch().token_count == memory.token_count
    memory.add_messages(conversation(rounds=2))
    memory.record_usage(memory.token_count + more)
    memory.add_message(user("And now?"))
    branch = memory.branch()
    assert branch.token_count == memory.token_count
    for either in (memory, branch):
        either.delete_message(0)
    assert branch.token_count == memory.token_count


def test_the_passes_of_a_branch_are_counted_and_told_as_those_of_the_memory() -> None:
    store, told = InMemorySessionStore(), list[Any]()
    memory = AutoContextMemory(AutoContextConfig.for_window(1_000), store=store, session_id="s1", plan=Plan(name="p"))
    memory.on_compression(told.append)
    memory.child("reader").add_message(user("of the child"))
    branch = memory.branch().branch()
    branch.add_messages(conversation(rounds=3))
    report = branch.compress_if_needed(force=True)
    assert report
    assert told == [report]
    assert memory.usage == branch.usage
    assert memory.usage.passes == 1
    assert branch.session == memory.session
    assert branch.reload("reader/m1") == memory.reload("reader/m1") != []
    assert memory.messages == []


# ------------------------------------------------------------------------------------------------------------ adding
@given(histories(duplicates=True))
def test_messages_are_kept_as_they_are_and_in_order(history: list[Msg]) -> None:
    one_by_one, at_once = AutoContextMemory(), AutoContextMemory()
    for m in history:
        one_by_one.add_message(m)
    at_once.add_messages(iter(history))
    assert one_by_one.messages == at_once.messages == history
    assert one_by_one.get_original_memory_msgs() == history


def broken_supply() -> Iterator[Msg]:
    yield user("one")
    raise RuntimeError("the supply has ended")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("msgs", "error", "problem"),
    [
        ([user("a"), "text"], InvalidMessage, r"messages\[1\] is a str, not a Msg"),
        ([{"role": "user", "content": "a"}], InvalidMessage, r"messages\[0\] is a dict"),
        ([user("a"), None], InvalidMessage, r"messages\[1\] is a NoneType"),
        (broken_supply, RuntimeError, "the supply has ended"),
    ],
    ids=["text", "dict", "none", "iterator that fails"],
)
def test_all_are_added_or_none(msgs: Any, error: type[Exception], problem: str) -> None:
    memory = compressed()
    before = memory.state_dict()
    with pytest.raises(error, match=problem):
        memory.add_messages(msgs() if callable(msgs) else msgs)
    assert memory.state_dict() == before


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Msg(role="robot", content="x"), "role"),
        (lambda: Msg(role="user", content=[{"type": "scent", "smell": "x"}]), "content"),
        (lambda: Msg(role="user", content=[{"type": "text"}]), "text"),
        (lambda: Msg(role="user", content="x", mood="good"), "mood"),
        (lambda: Msg(role="user", content="x", id=""), "id"),
        (lambda: Msg(role="user", content="x", metadata={"when": object()}), "when"),
        (lambda: Msg.model_validate({"content": "x"}), "role"),
        (lambda: TextBlock(text=5), "text"),
    ],
    ids=["role", "block", "no text", "unknown key", "empty id", "metadata", "no role", "no string"],
)
def test_a_malformed_message_is_one_line_that_names_the_field(make: Callable[[], Any], field: str) -> None:
    with pytest.raises(InvalidMessage, match=rf"\b{field}\b") as caught:
        make()
    assert "\n" not in str(caught.value)


# ----------------------------------------------------------------------------------------------------------- reading
def test_what_is_handed_out_is_the_caller_s_to_change() -> None:
    memory = compressed()
    before = memory.state_dict()
    memory.messages.clear()
    memory.get_messages().clear()
    memory.get_original_memory_msgs().clear()
    memory.get_compression_events().clear()
    memory.get_offload_context()[key_in_view(memory)].clear()
    memory.get_offload_context().clear()
    assert memory.state_dict() == before


def test_a_message_cannot_be_changed_in_place() -> None:
    memory = AutoContextMemory()
    memory.add_message(user("x", metadata={"list": [1]}))
    with pytest.raises(TypeError, match="frozen"):
        memory.messages[0].metadata["list"].append(2)
    with pytest.raises(TypeError, match="frozen"):
        memory.messages[0].metadata["new"] = 1


def test_reading_compresses_when_a_threshold_is_reached_and_the_property_never_does() -> None:
    config = AutoContextConfig(msg_threshold=8, last_keep=2, min_compression_token_threshold=1)
    memory = AutoContextMemory(config, ScriptedModel("Short."))
    messages = conversation(rounds=3)
    memory.add_messages(messages[:7])
    assert memory.get_messages() == messages[:7]
    assert memory.compress_if_needed().outcome == "not_needed"
    memory.add_messages(messages[7:])
    assert memory.messages == messages
    assert len(memory.get_messages()) < len(messages)
    assert memory.messages == memory.get_messages()


@pytest.mark.slow
@given(valid_histories(max_moves=4))
def test_interactions_are_what_was_said_without_tools(history: list[Msg]) -> None:
    memory = compressed()
    interaction = memory.get_interaction_msgs()
    memory.add_messages(history)
    spoken = [m for m in history if m.role in ("user", "assistant") and not m.tool_uses and not m.tool_results]
    assert memory.get_interaction_msgs() == interaction + spoken


# ---------------------------------------------------------------------------------------------------------- removing
@pytest.mark.parametrize("index", [-1, 3, 100])
def test_an_index_out_of_range_is_named(index: int) -> None:
    memory = AutoContextMemory()
    memory.add_messages([user("a"), assistant("b"), user("c")])
    with pytest.raises(IndexError, match=rf"delete_message: index {index} .* 3 messages") as caught:
        memory.delete_message(index)
    assert isinstance(caught.value, AutoContextError)
    assert len(memory.messages) == 3


@given(valid_histories(min_moves=1), st.integers(0, 99))
def test_deleting_one_half_of_a_pair_removes_the_exchange(history: list[Msg], place: int) -> None:
    memory = AutoContextMemory()
    memory.add_messages(history)
    removed = memory.delete_message(place % len(history))
    assert_valid_chat(memory.messages)
    assert history[place % len(history)] in removed
    assert [m for m in history if m not in removed] == memory.messages
    assert memory.get_original_memory_msgs() == history


def test_clear_empties_all_four_stores() -> None:
    memory = compressed()
    key = key_in_view(memory)
    memory.clear()
    assert memory.state_dict() == AutoContextMemory().state_dict()
    assert memory.reload(key) == []
    assert memory.token_count == 0
    memory.add_message(user("anew"))
    assert [m.text for m in memory.get_messages()] == ["anew"]


# -------------------------------------------------------------------------------------------------------------- undo
@given(valid_histories())
def test_undoing_everything_newest_first_gives_the_conversation_back(history: list[Msg]) -> None:
    memory = new_memory("tiny", estimate=True)
    memory.add_messages(history)
    memory.compress_if_needed(force=True)
    for _ in memory.get_offload_context():
        for key in reversed(memory.get_offload_context()):
            memory.undo(key)
    assert memory.messages == history


def test_what_stands_for_an_earlier_compression_can_be_undone_first() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    for _ in range(4):
        memory.add_messages(conversation(rounds=6, tools_per_round=4, chars=600))
        memory.compress_if_needed(force=True)
    replaced = 0
    for uuid in list(memory.get_offload_context()):
        if memory.undo(uuid):
            assert memory.replaced_by(uuid) == ""
        elif later := memory.replaced_by(uuid):
            replaced += 1
            assert later in {m.origin.uuid for m in memory.messages if m.origin is not None}
            while memory.replaced_by(uuid):
                assert memory.undo(memory.replaced_by(uuid))
            assert memory.undo(uuid)
    assert replaced
    assert memory.replaced_by("no such") == ""


def test_undo_of_one_compression_leaves_the_others() -> None:
    memory = compressed()
    before, key = memory.messages, key_in_view(memory)
    at = next(i for i, m in enumerate(before) if key in handles(m))
    assert memory.undo(key) is True
    assert [m for m in memory.messages if m in before] == [m for i, m in enumerate(before) if i != at]
    assert memory.undo(key) is False
    assert memory.reload(key) != []
    assert_pairs_kept(before, memory.messages)


@pytest.mark.sampled
@pytest.mark.parametrize("key", ["", "unknown", "own"])
def test_there_is_nothing_to_undo_for_other_keys(key: str) -> None:
    memory = compressed()
    memory.offload("own", [user("kept")])
    before = memory.messages
    assert memory.undo(key) is False
    assert memory.messages == before


# ---------------------------------------------------------------------------------------------------------- offloads
@given(histories(duplicates=True), st.text(min_size=1))
def test_what_was_offloaded_is_reloaded(history: list[Msg], key: str) -> None:
    memory = AutoContextMemory()
    memory.add_messages(history)
    memory.offload(key, history)
    assert memory.reload(key) == history == memory.get_offload_context()[key]
    assert memory.messages == history
    memory.clear_offload(key)
    assert memory.reload(key) == list(memory.numbered(key).values())
    assert memory.get_original_memory_msgs() == history


def test_one_message_may_be_offloaded_too() -> None:
    memory = AutoContextMemory()
    memory.offload("own", user("kept", id="k"))
    assert [m.id for m in memory.reload("own")] == ["k"]


@pytest.mark.parametrize(
    ("key", "msgs", "problem"),
    [("", [user("x")], "uuid is empty"), ("own", ["x"], r"messages\[0\] is a str"), ("own", [user("x"), 5], r"\[1\]")],
)
def test_a_bad_offload_changes_nothing(key: str, msgs: Any, problem: str) -> None:
    memory = compressed()
    before = memory.state_dict()
    with pytest.raises(InvalidMessage, match=problem):
        memory.offload(key, msgs)
    assert memory.state_dict() == before


@pytest.mark.parametrize("key", ["", "unknown", "0" * 36])
def test_an_unknown_key_reloads_nothing(key: str) -> None:
    memory = compressed()
    assert memory.reload(key) == []
    memory.clear_offload(key)


def test_a_unique_prefix_of_eight_characters_is_enough() -> None:
    memory = compressed()
    key = key_in_view(memory)
    assert memory.reload(key[:8]) == memory.reload(key) != []
    assert memory.reload(key[:7]) == []


# ------------------------------------------------------------------------------------------------------------- store
def test_a_session_is_opened_where_it_was_left() -> None:
    store = InMemorySessionStore()
    first = AutoContextMemory(compressed().config, ScriptedModel("Short."), store=store, session_id="s", user_id="u")
    first.add_messages(conversation(rounds=3))
    first.compress_if_needed(force=True)
    again = AutoContextMemory(first.config, store=store, session_id="s", user_id="u")
    assert again.state_dict() == first.state_dict()
    assert again.token_count == first.token_count
    assert AutoContextMemory(store=store, session_id="s", user_id="another").messages == []
    assert AutoContextMemory(store=store).messages == []


# ------------------------------------------------------------------------------------------------------------- async
def test_asynchronous_callers_get_the_same() -> None:
    memory, other = new_memory("tiny", estimate=True), new_memory("tiny", estimate=True)
    for each in (memory, other):
        each.add_messages([*conversation(rounds=3), *tool_exchange("read")])
    view = asyncio.run(other.aget_messages())
    assert [m.role for m in view] == [m.role for m in memory.get_messages()]
    assert bool(asyncio.run(other.acompress_if_needed(force=True))) == bool(memory.compress_if_needed(force=True))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"config": 16_000}, r"AutoContextMemory\.config: 16000 is not .*for_window\(16000\)"),
        ({"config": {"max_token": 9}}, r"write AutoContextConfig\(\*\*"),
        ({"model": "gpt-4o"}, r"AutoContextMemory\.model: 'gpt-4o' is not a model; write OpenAIChatModel\('gpt-4o'\)"),
        ({"model": len}, "CallableModel"),
        ({"model": object()}, "`complete` or `acomplete`"),
        ({"store": "agent.db"}, r"AutoContextMemory\.store: .*SqliteSessionStore\('agent.db'\)"),
        ({"store": object()}, "is not a store of sessions; see SessionStore"),
        ({"plan": "first this"}, r"AutoContextMemory\.plan: .*write Plan"),
        ({"session_id": "42"}, r"AutoContextMemory\.session_id: without a store nothing is kept under '42'"),
        ({"session_id": ""}, r'AutoContextMemory\.session_id: "" names no session; leave it out to begin a new one'),
    ],
)
def test_a_wrong_argument_is_refused_by_name_with_the_way_out(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        AutoContextMemory(**arguments)


@pytest.mark.parametrize("plan", [{"name": "x"}, 5, "first this", ["a"]])
def test_what_is_no_plan_is_refused_when_it_is_attached(plan: Any) -> None:
    memory = AutoContextMemory(plan=Plan(name="Ship it"))
    with pytest.raises(ConfigError, match=r"attach_plan_note: .* is not a plan; write Plan"):
        memory.attach_plan_note(plan)
    memory.attach_plan_note(None)


# ------------------------------------------------------------------------------------------------------------- open
def test_open_begins_a_session_and_goes_on_with_it(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with AutoContextMemory.open(path, session_id="42", user_id="ann", window="16k") as memory:
        assert memory.config == AutoContextConfig.for_window(16_000)
        memory.add({"role": "user", "content": "Remember me."})
        assert repr(memory).startswith("<AutoContextMemory '42' of user 'ann': 1 messages in view of 1, at most ")
        assert (len(memory), [m.text for m in memory], bool(memory)) == (1, ["Remember me."], True)
    with pytest.raises(StoreError, match="closed"):
        memory.add({"role": "user", "content": "Too late."})
    with AutoContextMemory.open(path, session_id="42", user_id="ann", config=AutoContextConfig()) as again:
        assert [m.text for m in again] == ["Remember me."]
    with AutoContextMemory.open(path, session_id="42") as of_nobody:
        assert (len(of_nobody), bool(of_nobody)) == (0, True)


def test_open_makes_a_subclass_that_names_its_parameters_otherwise() -> None:
    class Mine(AutoContextMemory):
        def __init__(self, settings: Any = None, llm: Any = None, **more: Any) -> None:
            super().__init__(settings, llm, **more)

    with Mine.open(":memory:", window="4k") as memory:
        assert (type(memory), memory.config.max_token) == (Mine, 4_000)


def test_open_works_in_asynchronous_code_and_on_an_open_database(tmp_path: Path) -> None:
    async def go() -> None:
        async with AutoContextMemory.open(tmp_path / "agent.db", session_id="42") as memory:
            memory.add({"role": "user", "content": "Hi"})
            assert (await memory.ato_openai())[0]["content"] == "Hi"

    asyncio.run(go())
    database = open_database(tmp_path / "agent.db")
    with AutoContextMemory.open(database, session_id="42") as memory:
        assert len(memory) == 1
    assert AutoContextMemory.open(database, session_id="42").messages  # who opened the database closes it
    database.close()


def test_open_takes_the_name_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    need("openai", "dashscope")
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("DASHSCOPE_API_KEY", "test-key")
    for name, kind in (("gpt-4.1-mini", OpenAIChatModel), ("qwen-plus", DashScopeChatModel)):
        model = open_model(name, "here")
        assert isinstance(model, kind)
        assert model.model == name
    with AutoContextMemory.open(":memory:", model="gpt-4.1-mini") as memory:
        assert memory.counter.name == "o200k_base"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"window": 16_000, "config": AutoContextConfig()}, "pass window or config, not both"),
        ({"window": "big"}, "is not a number of tokens"),
        ({"model": " "}, r"AutoContextMemory\.model: \"\" names no model"),
        ({"model": 3}, r"AutoContextMemory\.model: 3 is not a model"),
    ],
)
def test_open_refuses_what_cannot_be(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        AutoContextMemory.open(":memory:", **arguments)
