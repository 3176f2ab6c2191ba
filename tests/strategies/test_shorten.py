"""The middle distance: long results and arguments in short, everything else as it was, and nothing lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg
from autocontext.testing import assert_valid_chat, assistant, tool_exchange, user
from tests.conversations import histories
from tests.invariants import ESTIMATE, check, owed, unreachable

ALONE = AutoContextConfig(max_token=4_000, strategies=("shorten",), last_resort=False, target_ratio=0.1, **ESTIMATE)
"""A forced pass of this one step, down to very little."""
MARK = re.compile(r"\[m(\d+): ([\d,]+) of ([\d,]+) characters left out\]")


def log(n: int) -> str:
    lines = [f"10:{i:02}:00 INFO worker {i} of day {n} is fine" for i in range(60)]
    lines.insert(31, f"disk {n}77 failed: ticket SHOP-{n}")
    return "\n".join(lines)


def work(days: int = 6) -> list[Msg]:
    made = [user("Read the logs of each day. Überweise nichts ohne mich.")]
    for n in range(days):
        made += [*tool_exchange("read_log", {"day": n}, log(n)), assistant(f"Day {n} shows a disk that failed.")]
    return [*made, user("And now?")]


def passed(messages: list[Msg], config: AutoContextConfig = ALONE) -> AutoContextMemory:
    memory = AutoContextMemory(config)
    memory.add_messages(messages)
    memory.compress_if_needed(force=True)
    return memory


def test_results_are_short_and_say_what_is_missing_under_their_number() -> None:
    memory = passed(work())
    short = [m for m in memory.messages if m.origin is not None]
    assert short
    for m in short:
        (result,) = m.tool_results
        found = MARK.search(result.text)
        assert found is not None
        number, missing, size = (int(g.replace(",", "")) for g in found.groups())
        original = memory.get_original_memory_msgs()[number - 1]
        assert memory.reload(f"m{number}")[-1] == original
        assert size == len(original.tool_results[0].text)
        kept = re.sub(r"(?:\A|\n)…(?:\n|\Z)", "", result.text.removesuffix(f"\n{found.group()}"))
        assert size - missing == len(kept)
        assert original.tool_results[0].text in ContextOffloadTool(memory)(found.group())
    assert_valid_chat(memory.messages)


def test_what_stands_out_and_what_was_taken_up_stays() -> None:
    later = tool_exchange("open_ticket", {"id": "worker 17 of day 2"}, "opened")
    memory = passed([*work(), *later, assistant("Opened."), user("Go on.")])
    shown = "\n".join(r.text for m in memory.messages for r in m.tool_results)
    assert all(f"ticket SHOP-{n}" in shown for n in range(6))


def test_the_agent_s_and_the_user_s_words_and_short_arguments_stay() -> None:
    long = "Zeile eins der neuen Datei\n" * 60
    messages = [
        user("Schreibe die Datei. " + "Bitte genau so. " * 60),
        *tool_exchange("write_file", {"path": "src/überweisung.py", "content": long}, "ok"),
        assistant("Geschrieben, weil die alte Datei fehlte. " * 20),
        *work(),
    ]
    memory = passed(messages)
    assert [m.text for m in memory.messages] == [m.text for m in messages]
    use = memory.messages[1].tool_uses[0]
    assert use.input["path"] == "src/überweisung.py"
    assert use.input["content"].endswith("[the rest: m2]")
    assert long.startswith(use.input["content"].partition("...")[0])
    assert memory.reload("m2")[0].tool_uses[0].input["content"] == long


def test_the_newest_messages_stay_as_they_are() -> None:
    config = ALONE.model_copy(update={"keep_recent": 0.3})
    memory = passed(work(), config)
    assert memory.messages[-4:] == memory.get_original_memory_msgs()[-4:]


@pytest.mark.parametrize("excess", [0.4, 0.6, 0.7])
def test_no_more_is_shortened_than_needed_oldest_first(excess: float) -> None:
    memory = AutoContextMemory(ALONE)
    memory.add_messages(work())
    before = memory.token_count
    config = ALONE.model_copy(update={"target_ratio": excess * before / ALONE.token_trigger})
    memory = passed(work(), config)
    places = [i for i, m in enumerate(memory.messages) if m.origin is not None]
    results = [i for i, m in enumerate(memory.messages) if m.tool_results]
    assert places == results[: len(places)]
    assert memory.token_count <= excess * before + 2
    assert memory.token_count >= excess * before * 0.85


@given(histories(max_moves=8))
def test_nothing_is_lost_and_a_second_pass_shortens_nothing_again(history: list[Msg]) -> None:
    memory = passed(history)
    view = memory.messages
    assert owed(view) == owed(history)
    assert unreachable(memory, history) == []
    assert len(view) == len(history)
    check(memory)
    again = memory.compress_if_needed(force=True)
    assert (bool(again), memory.messages) == (False, view)
    for key in list(memory.get_offload_context()):
        assert memory.undo(key)
    assert memory.messages == history


@given(st.integers(3, 12))
def test_a_loaded_memory_knows_what_was_shortened(days: int) -> None:
    memory = passed(work(days))
    other = AutoContextMemory(ALONE)
    other.load_state_dict(memory.state_dict())
    assert other.messages == memory.messages
    assert unreachable(other, other.get_original_memory_msgs()) == []
