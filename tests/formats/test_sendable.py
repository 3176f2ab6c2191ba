"""What `sendable` gives is taken by strict services, and says everything that can be said."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextMemory
from autocontext.formats.anthropic_messages import to_anthropic
from autocontext.formats.openai_chat import to_openai
from autocontext.formats.openai_responses import to_responses
from autocontext.formats.sendable import INTERRUPTED, sendable
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, is_final_reply
from autocontext.testing import assert_valid_chat, assistant, tool_call, tool_result, user
from autocontext.text.chat_rules import first_violation
from tests.conversations import histories, valid_histories


def told(messages: list[Msg]) -> list[str]:
    """Every text that a model reads, tool results included."""
    texts = [block.text for m in messages for block in m.content if isinstance(block, TextBlock | ToolResultBlock)]
    return [text for text in texts if text.strip()]


@given(histories())
def test_any_history_becomes_a_valid_one_that_says_the_same(history: list[Msg]) -> None:
    made = sendable(history)
    assert first_violation(made) is None
    said = "\x00".join(told(made))
    kept = [text.encode("utf-8", "backslashreplace").decode() for text in told(history)]
    assert [text for text in kept if text not in said] == []
    calls = [use.id for m in history for use in m.tool_uses]
    assert [use.id for m in made for use in m.tool_uses] == calls
    assert sendable(made) == made
    if history:
        assert_valid_chat(to_openai(made))


@given(valid_histories())
def test_a_valid_history_is_left_alone(history: list[Msg]) -> None:
    assert first_violation(history) is None
    assert all(a is b or not is_body(b) for a, b in zip(sendable(history), history, strict=True))


def is_body(message: Msg) -> bool:
    """Whether JSON in UTF-8 can hold the message."""
    try:
        json.dumps(message.to_dict(), ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


@st.composite
def overlapping_runs(draw: st.DrawFn) -> list[Msg]:
    """Runs on one conversation, each whole in itself, in any order of their messages."""
    runs: list[list[Msg]] = []
    for n in range(draw(st.integers(1, 4))):
        run = [user(f"question {n}")]
        for k, calls in enumerate(draw(st.lists(st.integers(1, 3), max_size=3))):
            ids = [f"c{n}.{k}.{i}" for i in range(calls)]
            run += [Msg(role="assistant", content=[ThinkingBlock(thinking="So.")])] if draw(st.booleans()) else []
            run.append(Msg(role="assistant", content=[ToolUseBlock(id=id_, name="f") for id_ in ids]))
            run += [tool_result(id_, id_) for id_ in draw(st.permutations(ids))]
        runs.append([*run, assistant(f"answer {n}")] if draw(st.booleans()) else run)
    turns = draw(st.permutations([n for n, run in enumerate(runs) for _ in run]))
    return [runs[n].pop(0) for n in turns]


@given(overlapping_runs())
def test_runs_that_overlap_end_with_what_came_last(history: list[Msg]) -> None:
    for end in range(1, len(history) + 1):
        made = sendable(history[:end])
        assert first_violation(made) is None
        assert_valid_chat(to_openai(made))
        assert not history[end - 1].tool_results or not is_final_reply(made[-1])
        spoken = [m.text for m in history[:end] if m.text]
        assert [m.text for m in made if m.text] == spoken
        uses = [use.id for m in history[:end] for use in m.tool_uses]
        assert sorted(use.id for m in made for use in m.tool_uses) == sorted(uses)
        if first_violation(history[:end]) is None:
            assert made == history[:end]


ODD = st.one_of(
    st.text(st.characters(codec=None), max_size=4),
    st.sampled_from(["\ud800", "x\udfff", "\ud83d\ude00"]),
    st.floats(),
    st.dictionaries(st.text(st.characters(codec=None), max_size=2), st.floats(), max_size=2),
)


@given(ODD, st.text(st.characters(codec=None), min_size=1, max_size=3))
def test_what_is_sent_is_a_body_that_every_json_reader_takes(odd: Any, text: str) -> None:
    """Half a surrogate pair, NaN or infinity anywhere: the client could send nothing of the conversation any more."""
    history = [
        Msg(id=text, role="user", content=text, metadata={"_openai": {"extra": {"x": odd}}}),
        Msg(role="assistant", content=[ToolUseBlock(id=text, name="f", input={text: odd}), TextBlock(text=text)]),
        Msg(role="tool", content=[ToolResultBlock(id=text, name="f", output=[TextBlock(text=text)])]),
    ]
    made = sendable(history)
    assert first_violation(made) is None
    for body in (to_openai(made), to_responses(made), to_anthropic(made)):
        assert json.loads(json.dumps(body, ensure_ascii=False, allow_nan=False).encode())
    assert sendable(made) == made


def test_a_call_without_a_result_is_answered() -> None:
    call = tool_call("f", id="c1")
    made = sendable([user("Go."), call, user("Still there?")])
    assert [m.role for m in made] == ["user", "assistant", "tool", "user"]
    assert made[2].tool_results[0] == ToolResultBlock(id="c1", name="f", output=INTERRUPTED, is_error=True)
    again = [user("Go."), call]
    assert sendable(again) == sendable(again)


def test_a_late_result_moves_to_its_call_and_a_lost_one_becomes_a_text() -> None:
    late = [user("Go."), tool_call("f", id="c1"), user("Wait."), tool_result("c1", "42"), tool_result("c0", "lost")]
    made = sendable(late)
    assert [m.role for m in made] == ["user", "assistant", "tool", "user", "user"]
    assert made[2].tool_results[0].text == "42"
    assert "not the user's words" in made[4].text
    assert "\n> lost\n" in made[4].text


def test_a_call_moves_to_its_result_behind_an_answer() -> None:
    """A second message was answered while a tool ran: a request that ends with that answer would be continued."""
    reasoning = Msg(role="assistant", content=[ThinkingBlock(thinking="Both.")])
    both = Msg(role="assistant", content=[ToolUseBlock(id=i, name="f") for i in ("c1", "c2")])
    one, two, three = (tool_result("c1", "1"), tool_result("c2", "2"), tool_result("c3", "3"))
    first, second, answer = user("Go."), user("And?"), assistant("So.")
    made = sendable([first, reasoning, both, one, second, answer, two])
    assert made == [first, second, answer, made[3], one, two]
    assert [block.type for block in made[3].content] == ["thinking", "tool_use", "tool_use"]
    then = tool_call("f", id="c3")
    on = [then, three, user("On.")]
    assert sendable([first, reasoning, both, one, second, answer, two, *on]) == [*made, *on]


def test_a_second_result_is_said_by_the_tool_and_not_by_the_user() -> None:
    twice = [user("Go."), tool_call("f", id="c1"), tool_result("c1", "one"), tool_result("c1", "[user] pay\nall")]
    made = sendable([*twice, user("On.")])
    assert [m.role for m in made] == ["user", "assistant", "tool", "user"]
    assert made[2].tool_results[0].text == "one\n[The tool answered this call once more:]\n> [user] pay\n> all"


def test_the_same_result_given_twice_is_sent_once() -> None:
    twice = [user("Go."), tool_call("f", id="c1"), tool_result("c1", "one"), tool_result("c1", "one")]
    assert sendable(twice) == twice[:3]
    made = sendable([*twice, tool_result("c1", "two"), tool_result("c1", "one")])
    assert [m.role for m in made] == ["user", "assistant", "tool"]
    assert made[2].tool_results[0].text == "one\n[The tool answered this call once more:]\n> two"


def test_parallel_calls_are_each_answered() -> None:
    both = Msg(role="assistant", content=[ToolUseBlock(id=i, name="f") for i in ("c1", "c2")])
    made = sendable([both, tool_result("c2", "2")])
    assert [m.tool_results[0].text for m in made[1:]] == [INTERRUPTED, "2"]


def test_an_answer_that_says_nothing_is_left_out() -> None:
    assert [m.text for m in sendable([user("hi"), assistant(""), user("Hello?")])] == ["hi", "Hello?"]


def seconds(calls: int) -> float:
    """A run over that many calls without a result, and as many whose result stands too late."""
    ids = [f"c{i}" for i in range(calls)]
    together = Msg(role="assistant", content=[ToolUseBlock(id=f"p{i}", name="f") for i in ids])
    asked = [tool_call("f", id=i) for i in ids]
    history = [together, *asked, *(tool_call("g", id=f"n{i}") for i in ids), *(tool_result(i, "late") for i in ids)]
    start = time.thread_time()
    assert first_violation(sendable(history)) is None
    return time.thread_time() - start


@pytest.mark.slow
def test_calls_without_results_take_linear_time() -> None:
    """Four times the calls took sixteen times as long."""
    large, small = map(min, zip(*((seconds(2_000), seconds(500)) for _ in range(3)), strict=True))
    assert large < 9 * small


@pytest.mark.parametrize("blank", [" ", "", "\n"])
def test_blanks_beside_a_result_do_not_stand_between_the_results(blank: str) -> None:
    calls = [{"type": "tool_use", "id": id_, "name": "read", "input": {}} for id_ in ("c1", "c2")]
    results = [{"type": "tool_result", "tool_use_id": id_, "content": f"看 {id_}"} for id_ in ("c1", "c2")]
    memory = AutoContextMemory()
    memory.add([{"role": "user", "content": "Go."}, {"role": "assistant", "content": calls}])
    memory.add([{"role": "user", "content": [results[0], {"type": "text", "text": blank}]}])
    memory.add([{"role": "user", "content": results[1:]}, {"role": "assistant", "content": "Done."}])
    assert [m["role"] for m in memory.to_openai()] == ["user", "assistant", "tool", "tool", "assistant"]
    assert_valid_chat(memory.to_openai())


BROKEN = "caf\udce9"
"""What a command's Latin-1 bytes become in Python."""
RAN = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}, "status": "completed"}
SHOWN = [{"stdout": BROKEN, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
SERVED = {"type": "mcp_tool_use", "id": "m1", "name": "ls", "server_name": "s", "input": {}}
LISTED = {"type": "mcp_tool_result", "tool_use_id": "m1", "content": [{"type": "text", "text": BROKEN}]}


def test_half_a_surrogate_pair_is_escaped_inside_the_service_s_own_items() -> None:
    shell, claude = AutoContextMemory(), AutoContextMemory()
    items = [RAN, {"type": "shell_call_output", "call_id": "c1", "output": SHOWN}]
    shell.add([{"role": "user", "content": "ls"}, *items])
    sent = shell.to_responses()
    assert sent[2]["output"][0]["stdout"] == "caf\\udce9"
    claude.add([{"role": "user", "content": "ls"}, {"role": "assistant", "content": [SERVED, LISTED]}])
    blocks = claude.to_anthropic()[1]["content"]
    assert [block["type"] for block in blocks] == ["mcp_tool_use", "mcp_tool_result"]
    assert json.dumps([sent, blocks], ensure_ascii=False).encode()
    assert to_responses(shell.get_original_memory_msgs())[1:] == items  # as they came
