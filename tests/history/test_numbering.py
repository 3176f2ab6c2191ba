"""Numbers of messages: how they are written, what they are read from, and that they never lead elsewhere."""

import json
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autocontext import AutoContextMemory, Msg, TextBlock, ToolResultBlock, ToolUseBlock
from autocontext.history import numbering
from autocontext.history.numbering import name, names, with_exchanges
from autocontext.history.runs import Runs
from autocontext.stores import InMemorySessionStore, SqliteSessionStore
from autocontext.testing import ScriptedModel, assistant, conversation, tool_exchange, user
from tests.conversations import histories
from tests.costs import python_calls
from tests.invariants import CONFIGS, ESTIMATE, REPLIES, new_memory

MEGABYTE = 1_000_000
subsets = st.sets(st.integers(1, 300)).map(sorted)


def parse(text: str, total: int) -> list[int] | None:
    found = numbering.parse(text, total)
    return None if found is None else list(found)


# ------------------------------------------------------------------------------------------------- writing, reading
@pytest.mark.parametrize(
    "text", ["m41", "M41", "#41", "41", "#m41", " m41\n", '"m41"', "[m41]", "(`41`)", "m041", "m41,"]
)
def test_one_number_in_every_spelling(text: str) -> None:
    assert parse(text, 57) == [41]


@pytest.mark.parametrize(
    "text",
    ["m3-m5", "3-5", "m3-5", "M3 - M5", "m3–m5", "m3 — m5", "m3..m5", "3...5", "m5-m3", "#3-#5", "[m3]-[m5]", "m3--m5"],
)
def test_a_range_in_every_spelling(text: str) -> None:
    assert parse(text, 57) == [3, 4, 5]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("m1,m7", [1, 7]),
        ("m1, m3-m5", [1, 3, 4, 5]),
        ("['m7', 'm1']", [1, 7]),
        ("m1;m7", [1, 7]),
        ("m1，m7、m9", [1, 7, 9]),
        ("m1-m4,m3-m5,m4,m4", [1, 2, 3, 4, 5]),
        ("m0", []),
        ("m58", []),
        ("m55-m99", [55, 56, 57]),
        ("0-2", [1, 2]),
        ("m1-m999999999999", list(range(1, 58))),
        ("9" * 5_000, []),
        ("m1-" + "9" * 5_000, list(range(1, 58))),
    ],
)
def test_lists_and_numbers_that_are_not_there(text: str, numbers: list[int]) -> None:
    assert parse(text, 57) == numbers


@pytest.mark.parametrize(
    "text",
    [
        "", " ", ",", "-", "m", "#", "m-", "-5", "m1-", "1-2-3", "m1 m2", "4 1", "m4.1", "1e3", "+1", "x41", "mm41",
        "41m", "c_9f3a12be7d41", "12345678-1234-4123-8123-123456789012", "m٤١", "m４１", "message 41", "m1,none", "[]",
    ],
)  # fmt: skip
def test_anything_else_is_no_number(text: str) -> None:
    assert parse(text, 57) is None


@given(subsets)
@example([41])
@example([12, 13, 14, 19])
def test_what_is_written_is_read_again(numbers: list[int]) -> None:
    assert parse(names(numbers), 300) == (numbers or None)
    assert parse(",".join(map(name, numbers[::-1])), 300) == (numbers or None)


def test_runs_are_written_as_ranges() -> None:
    assert names([1, 3, 4, 5, 7]) == "m1,m3-m5,m7"
    assert names([]) == ""
    assert name(41) == "m41"


@given(st.text(st.sampled_from("mM#0123456789-–., []'\"\n;x")), st.integers(0, 50))
def test_any_text_gives_ascending_numbers_that_exist_or_none(text: str, total: int) -> None:
    found = parse(text, total)
    assert found is None or found == sorted(set(found) & set(range(1, total + 1)))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "hostile",
    ["9", " ", "-", ".", ",", "m", "#", "[", "1,", "1-2,", "m1-m999999999999,", "1 ", "- ", "..-", "\t-\t", "…1"],
)
@pytest.mark.parametrize("size", [MEGABYTE // 5, pytest.param(MEGABYTE, marks=pytest.mark.slow)])
def test_a_megabyte_of_anything_is_read_in_a_moment(hostile: str, size: int) -> None:
    text = (hostile * size)[:size]
    began = time.thread_time()
    for tried in (text, text + "x", "m1-" + text, "1" + text + "1"):
        parse(tried, 10_000)
    assert time.thread_time() - began < 80  # four at most, for what is linear; hours otherwise


# ------------------------------------------------------------------------------------------------------- exchanges
def paired(history: list[Msg]) -> list[set[int]]:
    """Per message the numbers of its exchange, worked out naively: a result answers the latest open call of its id."""
    groups = [{n} for n in range(1, len(history) + 1)]
    open_calls: list[tuple[str, int]] = []
    for at, msg in enumerate(history):
        for result in msg.tool_results:
            calls = [call for call in open_calls if call[0] == result.id]
            if calls:
                last = len(open_calls) - 1 - open_calls[::-1].index(calls[-1])
                call = open_calls.pop(last)[1]
                joined = groups[call] | groups[at]
                for number in joined:
                    groups[number - 1] = joined
        open_calls += [(use.id, at) for use in msg.tool_uses]
    return groups


@given(histories(max_moves=6, duplicates=True), st.sets(st.integers(0, 99), max_size=4))
def test_a_message_brings_its_whole_exchange(history: list[Msg], drawn: set[int]) -> None:
    memory = AutoContextMemory()
    memory.add_messages(history)
    wanted = sorted({1 + place % len(history) for place in drawn}) if history else []
    groups = paired(history)
    expected = sorted({number for n in wanted for number in groups[n - 1]})
    assert memory.numbered(names(wanted)) == {n: history[n - 1] for n in expected}
    assert memory.reload(names(wanted)) == [history[n - 1] for n in expected]


def test_a_call_and_the_results_of_parallel_calls_come_together() -> None:
    call = Msg(role="assistant", content=[ToolUseBlock(id=k, name="read", input={}) for k in "ab"])
    results = [Msg(role="tool", content=[ToolResultBlock(id=k, name="read", output=k)]) for k in "ab"]
    memory = AutoContextMemory()
    memory.add_messages([user("go"), call, results[0], user("wait"), results[1], assistant("done")])
    for number in ("m2", "m3", "m5", "m2-m3", "m5,m2"):
        assert memory.reload(number) == [call, *results]
        assert list(memory.numbered(number)) == [2, 3, 5]
    assert list(memory.numbered("m4")) == [4]
    assert list(memory.numbered("m4-m5")) == [2, 3, 4, 5]


@pytest.mark.slow
def test_a_long_exchange_is_gone_through_once() -> None:
    length = 20_000
    calls = [Msg(role="assistant", content=[ToolUseBlock(id="0", name="t", input={})])]
    for n in range(length):
        blocks = [ToolResultBlock(id=str(n), name="t", output=""), ToolUseBlock(id=str(n + 1), name="t", input={})]
        calls.append(Msg(role="assistant", content=blocks))
    began = time.thread_time()
    everything = list(range(1, len(calls) + 1))
    assert with_exchanges(everything, calls) == everything
    assert time.thread_time() - began < length / 2_500


def test_a_reload_costs_the_same_in_a_long_session() -> None:
    def cost(exchanges: int) -> list[int]:
        store = InMemorySessionStore()
        memory = AutoContextMemory(store=store, session_id="42")
        memory.add_messages([m for n in range(exchanges) for m in tool_exchange("read", {"n": n}, "text")])
        reopened = AutoContextMemory(store=store, session_id="42")
        found = [python_calls(partial(reopened.reload, number)) for number in ("m3", "m18", "m5-m8")]
        assert reopened.reload("m18") == memory.get_original_memory_msgs()[16:18]
        return found

    cost(20)  # the first reload of a process compiles patterns
    assert cost(20) == cost(500)


def test_a_list_of_numbers_costs_as_much_as_it_has_ranges() -> None:
    few, many = Runs([(1, 9), (12, 12)]), Runs([(1, 90_000), (100_000, 100_000)])
    assert (names(few), names(many)) == ("m1-m9,m12", "m1-m90000,m100000")
    assert python_calls(lambda: names(few)) == python_calls(lambda: names(many))


@given(subsets, subsets)
def test_numbers_without_others(numbers: list[int], others: list[int]) -> None:
    assert Runs.of(numbers).without(others) == Runs.of({*numbers} - {*others})


# ------------------------------------------------------------------------------------- numbers beside other handles
def test_what_the_caller_named_like_a_number_wins() -> None:
    memory = AutoContextMemory()
    memory.add_messages([user("one"), user("two")])
    memory.offload("m2", user("mine"))
    assert [m.text for m in memory.reload("m2")] == ["mine"]
    assert [m.text for m in memory.reload("m1-m2")] == ["one", "two"]
    memory.clear_offload("m2")
    assert [m.text for m in memory.reload("m2")] == ["two"]


def test_digits_that_begin_one_uuid_stay_that_uuid() -> None:
    memory = AutoContextMemory()
    memory.add_messages([user("one"), user("two")])
    memory.offload("00000002-aaaa-4bbb-8ccc-1234567890ab", user("mine"))
    assert [m.text for m in memory.reload("00000002")] == ["mine"]
    assert [m.text for m in memory.reload("0000002")] == ["two"]
    memory.offload("00000002-aaaa-4bbb-8ccc-1234567890ac", user("another"))
    assert [m.text for m in memory.reload("00000002")] == ["two"]


@pytest.mark.parametrize("text", ["m3", "m0", "m7-m9", "", "made-up", "m1,x"])
def test_a_number_that_is_not_there_reloads_nothing(text: str) -> None:
    memory = AutoContextMemory()
    memory.add_messages([user("one"), user("two")])
    assert memory.reload(text) == []
    assert memory.numbered(text) == {}
    assert AutoContextMemory().reload("m1") == []


# -------------------------------------------------------------------------------------------- what numbers survive
def numbers_of(memory: AutoContextMemory) -> dict[int, Msg]:
    return memory.numbered(f"m1-m{MEGABYTE}")


def numbered(messages: list[Msg]) -> dict[int, Msg]:
    return dict(enumerate(messages, 1))


@pytest.mark.slow
@given(histories(min_moves=1, max_moves=6, duplicates=True), st.sampled_from(sorted(CONFIGS)))
def test_numbers_are_the_same_wherever_a_memory_is_taken(history: list[Msg], config: str) -> None:
    chosen = CONFIGS[config].model_copy(update=ESTIMATE)
    store, other = InMemorySessionStore(), InMemorySessionStore()
    memory = AutoContextMemory(chosen, ScriptedModel(REPLIES["good"]), store=store, session_id="s")
    memory.add_messages([*history, *conversation(rounds=2), *history])
    expected = numbered(memory.get_original_memory_msgs())
    memory.compress_if_needed(force=True)
    memory.save_to(other, "copied")
    memory.save_to(other, "copied")  # onto what is there: as a snapshot
    loaded, taken = AutoContextMemory(), AutoContextMemory()
    loaded.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    taken.load_from(other, "copied")
    reopened = [AutoContextMemory(store=store, session_id=key) for key in ("s", store.fork(memory.session).session_id)]
    for each in (memory, loaded, taken, *reopened, AutoContextMemory(store=other, session_id="copied")):
        assert numbers_of(each) == expected


@pytest.mark.slow
def test_two_memories_that_write_one_session_agree_on_every_number(tmp_path: Path) -> None:
    config = CONFIGS["tiny"].model_copy(update=ESTIMATE)
    with closing(SqliteSessionStore(tmp_path / "s.db")) as one, closing(SqliteSessionStore(tmp_path / "s.db")) as two:
        memories = [
            AutoContextMemory(config, ScriptedModel(REPLIES["good"]), store=store, session_id="s")
            for store in (one, two)
        ]
        for turn in range(12):
            memory = memories[turn % 2]
            # Neither has been told of the other's latest messages: its own go in behind them.
            memory.add_messages([user(f"question {turn}"), *tool_exchange("read", {}, f"page {turn} " * 60, id="same")])
            memory.add_message(assistant(f"answer {turn}"))
            if turn % 3 == 0:
                memory.compress_if_needed(force=True)
            if turn % 4 == 1:
                memory.delete_message(len(memory.messages) - 1)
        for memory in memories:
            memory.refresh()
        again = AutoContextMemory(config, store=one, session_id="s")
        texts = [f"question {turn}" for turn in range(12)]
        for memory in (*memories, again):
            assert numbers_of(memory) == numbers_of(again) == numbered(memory.get_original_memory_msgs())
            assert [memory.reload(f"m{1 + 4 * turn}")[0].text for turn in range(12)] == texts
            for turn in range(12):
                call, result = memory.reload(f"m{2 + 4 * turn}")
                assert call.tool_uses
                assert result.tool_results[0].text.startswith(f"page {turn} ")


def test_numbers_begin_anew_after_clear() -> None:
    memory = new_memory("tiny")
    memory.add_messages(conversation(rounds=2))
    memory.clear()
    assert memory.reload("m1") == []
    memory.add_message(Msg(role="user", content=[TextBlock(text="first again")]))
    assert [m.text for m in memory.reload("m1")] == ["first again"]
