"""The tools one by one: what they answer, what they refuse in one sentence, and what they leave as it was."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, ModelRequest, Msg, ToolUseBlock
from autocontext.errors import ConfigError
from autocontext.messages import is_pinned
from autocontext.notes.notes import LONGEST_NOTE
from autocontext.steering import NAMES
from autocontext.testing import ScriptedModel, assert_valid_chat, assistant, tool_exchange, user

ROOT = Path(__file__).parents[2]
WINDOW = 8_000


def page(n: int, lines: int = 40) -> str:
    return "\n".join(f"line {i} of f{n}: lock_{n}_{i} = acquire(timeout={i})" for i in range(lines))


def history(files: int = 4) -> list[Msg]:
    """m1 system, m2 the task, then a call and its result for each file: m3-m4, m5-m6 ..."""
    read = [m for n in range(files) for m in tool_exchange("read_file", {"path": f"src/f{n}.py"}, page(n), id=f"c{n}")]
    return [Msg(role="system", content="You fix bugs."), user("Fix src/pool.py. Never delete tests."), *read]


@pytest.fixture
def memory() -> AutoContextMemory:
    memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW), ScriptedModel("Nothing."))
    memory.add_messages([*history(), assistant("I read four files."), user("Go on."), assistant("Yes.")])
    return memory


def ask(memory: AutoContextMemory, name: str, **arguments: Any) -> str:
    [tool] = memory.tools(name)
    return str(tool(**arguments))


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("archive", {"messages": "m99", "reason": ""}, "there is no m99: this conversation has m1 to m13."),
    ("archive", {"messages": "m14", "reason": ""}, "there is no m14: this conversation has m1 to m13."),
    ("archive", {"messages": "m0", "reason": ""}, "there is no m0: this conversation has m1 to m13."),
    ("archive", {"messages": "the logs", "reason": ""}, "'the logs' names no messages. Pass numbers such as"),
    ("archive", {"messages": "m1-m4", "reason": ""}, 'm1 is a system message and stays in view. Pass "m3-m4" instead.'),
    ("archive", {"messages": "m2", "reason": ""}, "m2 is what the user asked for and stays in view. Nothing else of"),
    ("archive", {"messages": "m9-m12", "reason": ""}, "m12 is what the user asked for and stays in view. Pass"),
    ("archive", {"messages": "m13", "reason": ""}, "m13 is part of the current step and stays in view. Nothing else"),
    ("archive", {"messages": "m11", "reason": ""}, "m11 stays in view: a note about it would be as long."),
    ("archive", {"messages": "m3"}, "reason: must be passed."),
    ("restore", {"messages": "m3"}, "m3 is in view, word for word; there is nothing to put back."),
    ("restore", {"messages": "m12345678901234567890"}, "there is no m12345678901234567890: this conversation has"),
    ("pin", {"messages": "m3-m10"}, "with m3-m10, "),
    ("pin", {"messages": "m3", "unpin": True}, "m3: nothing of that was pinned with this tool. Pinned: nothing."),
    ("note", {"text": " \n"}, "the note is empty. Pass what is to be remembered"),
    ("note", {"text": "x" * (LONGEST_NOTE + 1)}, "the note has 1,001 characters and may have 1,000: write several."),
    ("note", {"text": 7}, "text must be one text, and is of type int. Nothing was noted."),
    ("note", {"text": ["decision: keep the lock"]}, "text must be one text, and is of type list. Nothing was noted."),
    ("pin", {"messages": "m3", "unpin": "perhaps"}, "unpin must be true or false, and is 'perhaps'."),
    ("pin", {"messages": "m3", "unpin": 2}, "unpin must be true or false, and is '2'."),
    ("search", {"query": "lock", "all_sessions": {"a": 1}}, "all_sessions must be true or false, and is "),
    (
        "search",
        {"query": ""},
        "there is nothing to look for. Pass words as query, or a tool, messages, after or before.",
    ),
    ("search", {"query": "lock", "after": "yesterday"}, "search: after must be a datetime or an ISO 8601 text (got "),
    ("search", {"query": "lock", "all_sessions": True}, "only this conversation may be searched here."),
]


@pytest.mark.parametrize(("name", "arguments", "answer"), REFUSED)
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_refusal_is_one_clear_sentence_and_changes_nothing(
    memory: AutoContextMemory, name: str, arguments: dict[str, Any], answer: str, in_loop: bool
) -> None:
    before = memory.state_dict()
    [tool] = memory.tools(name)
    text = asyncio.run(tool.acall(**arguments)) if in_loop else tool(**arguments)
    assert text.startswith(f"Error: {answer}")
    assert len(text.splitlines()) == 1
    assert memory.state_dict() == before


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=30)
    | st.sampled_from(("m1", "m2-m4", "m3,m4")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = ("messages", "reason", "unpin", "text", "query", "tool", "after", "before", "limit", "all_sessions", "other")


@given(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(KEYS), values))
def test_whatever_a_model_passes_the_answer_is_a_text(name: str, arguments: dict[str, Any]) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW))
    memory.add_messages([*history(2), assistant("Read."), user("Go on."), assistant("Yes.")])
    originals = memory.get_original_memory_msgs()
    assert ask(memory, name, **arguments)
    assert memory.get_original_memory_msgs()[: len(originals)] == originals
    assert_valid_chat(memory.messages)


def test_a_number_longer_than_python_writes_is_refused(memory: AutoContextMemory) -> None:
    answer = ask(memory, "restore", messages=10**5_000)
    assert answer == "Error: there is no m1000000000000000: this conversation has m1 to m13."


def test_a_call_goes_with_its_result_and_an_open_call_stays(memory: AutoContextMemory) -> None:
    call = ToolUseBlock(id="now", name="context_archive", input={"messages": "m4"})
    memory.add_message(Msg(role="assistant", content=(call,)))
    assert ask(memory, "archive", messages="m13-m14", reason="").startswith("Error: m14 is a call without a result")
    text = ask(memory, "archive", messages="m4", reason="file 0 is read")
    assert text.startswith("Put away m3-m4: 2 messages, ")
    assert text.endswith("m3 went along: calls and their results stay together.")
    note = memory.messages[2].text
    assert "m3 read_file src/f0.py -> " in note
    assert "Put away by the agent: file 0 is read" in note


def test_without_a_reason_a_note_ends_with_what_was_done(memory: AutoContextMemory) -> None:
    ask(memory, "archive", messages="m3-m4", reason=" ")
    note = memory.messages[2].text
    assert note[: note.index("\n[End of")].rpartition("\n")[2].startswith('m3 read_file src/f0.py -> "')
    assert note[: note.index("\n[End of")].endswith('" …')


def test_the_way_out_names_nothing_that_is_put_away_already(memory: AutoContextMemory) -> None:
    assert ask(memory, "archive", messages="m3-m4", reason="").startswith("Put away")
    assert ask(memory, "archive", messages="m3-m6,m12", reason="") == (
        'Error: m12 is what the user asked for and stays in view. Pass "m5-m6" instead.'
    )


def test_what_is_pinned_stays_in_every_pass_until_it_is_unpinned(memory: AutoContextMemory) -> None:
    assert ask(memory, "pin", messages="m5").startswith("Pinned m5-m6: ")
    assert ask(memory, "archive", messages="m3-m6", reason="") == (
        'Error: m5 is pinned and stays in view. Pass "m3-m4" instead.'
    )
    memory.compress_if_needed(force=True, max_token=2_000)
    assert [m.id for m in memory.messages if is_pinned(m)] == [m.id for m in memory.reload("m5")]
    assert ask(memory, "pin", messages="m6", unpin=True) == "Unpinned m5-m6. Pinned: nothing."
    memory.compress_if_needed(force=True, max_token=1_000)
    assert not any(page(1) in text for m in memory.messages for text in m.texts())


@given(st.permutations([3, 5, 7, 9]), st.sampled_from([WINDOW, 5 * WINDOW]))
def test_at_most_a_quarter_of_the_window_is_pinned(order: list[int], window: int) -> None:
    """One exchange after the other: each is pinned as long as all that is pinned fits, what was pinned before too."""
    memory = AutoContextMemory(AutoContextConfig.for_window(window))
    memory.add_messages(history())
    originals, pinned = memory.get_original_memory_msgs(), 0
    for number in order:
        size = memory.count(originals[number - 1 : number + 1]) - memory.count([])
        answer = ask(memory, "pin", messages=f"m{number}")
        fits = pinned + size <= window // 4
        assert answer.startswith("Pinned" if fits else f"Error: with m{number}, {pinned + size:,} tokens would be")
        pinned += size if fits else 0
    assert pinned


YES = (True, "true", "True", " TRUE ", "'true'", "yes", "1", 1, 1.0, "on")
NO = (False, "false", "False", "no", "0", 0, 0.0, "off", "", "null", None)


@pytest.mark.parametrize("yes", [*YES, *NO])
def test_true_and_false_may_come_as_a_text_or_a_number(memory: AutoContextMemory, tmp_path: Path, yes: Any) -> None:
    true = any(yes is value for value in YES)
    ask(memory, "pin", messages="m3")
    ask(memory, "pin", messages="m3", unpin=yes)
    assert any(is_pinned(m) for m in memory.messages) is not true
    config = AutoContextConfig.for_window(WINDOW, search_scope="user")
    for session, words in (("old", "The lock timeout is 30 s."), ("new", "Which timeout?")):
        with AutoContextMemory.open(tmp_path / "a.db", session_id=session, user_id="ann", config=config) as other:
            other.add(user(words))
            found = ask(other, "search", query="timeout", all_sessions=yes)
            assert ("30 s" in found) is (true or session == "old")


@given(st.sets(st.sampled_from([3, 5, 7, 9]), min_size=1), st.sampled_from([3, 5, 7, 9]))
def test_what_is_restored_is_counted(away: set[int], back: int) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW))
    memory.add_messages([*history(), assistant("I read four files."), user("Go on."), assistant("Yes.")])
    ask(memory, "archive", messages=",".join(f"m{n}" for n in sorted(away)), reason="read")
    answer = ask(memory, "restore", messages=f"m{back}")
    if back in away:
        assert answer.endswith(f"The context has {memory.token_count:,} of {WINDOW:,} tokens now.")
    else:
        assert answer.startswith("Error: m")


@pytest.mark.parametrize(("spare", "refused"), [(0, True), (1, False)])
def test_what_would_be_condensed_again_at_once_is_not_restored(spare: int, refused: bool) -> None:
    """A pass is due when the trigger is reached, and not only when it is passed."""
    messages = [*history(), assistant("I read four files."), user("Go on."), assistant("Yes.")]
    full = AutoContextMemory(AutoContextConfig.for_window(WINDOW)).count(messages)
    memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW, max_token=full + spare, token_ratio=1.0))
    memory.add_messages(messages)
    assert ask(memory, "archive", messages="m3-m4", reason="read").startswith("Put away")
    assert ask(memory, "restore", messages="m3").startswith("Error: putting m3 back" if refused else "Put back")


def test_a_call_without_a_result_is_not_pinned(memory: AutoContextMemory) -> None:
    call = ToolUseBlock(id="now", name="context_pin", input={"messages": "m5-m14"})
    memory.add_message(Msg(role="assistant", content=(call,)))
    assert ask(memory, "pin", messages="m14") == (
        "Error: m14 is a call without a result: pin both when the result is there."
    )
    assert ask(memory, "pin", messages="m11-m14").startswith("Pinned m11-m13: ")
    assert memory.messages[-1] == memory.get_original_memory_msgs()[-1]


def test_what_a_pass_has_folded_is_restored_where_it_was(memory: AutoContextMemory) -> None:
    memory.compress_if_needed(force=True, max_token=500)
    assert ask(memory, "pin", messages="m3").startswith("Error: m3-m4 is not in view in full")
    assert ask(memory, "restore", messages="m3").startswith("Put back m3-")
    assert memory.messages[2:4] == memory.get_original_memory_msgs()[2:4]


def test_what_a_pass_has_shortened_is_restored_where_it_was(memory: AutoContextMemory) -> None:
    memory.compress_if_needed(force=True, max_token=2_000)
    assert "m4: " in memory.messages[3].tool_results[0].text
    assert ask(memory, "pin", messages="m4").startswith("Error: m4 is not in view in full")
    assert ask(memory, "restore", messages="m4").startswith("Put back m4")
    assert memory.messages[3] == memory.get_original_memory_msgs()[3]


def test_what_is_too_large_to_be_restored_is_read_in_part() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(3_000, strategies=()))
    memory.add_messages([*history(8), assistant("Read."), user("Go on.")])
    memory.compress_if_needed()
    before = memory.messages
    text = ask(memory, "restore", messages="m3")
    assert text.startswith("Error: putting m3 back means m3-m")
    assert 'Read it in part with context_reload("m3"), or put something else away first.' in text
    assert memory.messages == before


def test_the_status_names_what_takes_the_room_and_what_it_was_good_for(memory: AutoContextMemory) -> None:
    memory.add_messages(tool_exchange("bash", {"command": "grep lock_1_7 src/f1.py"}, "1 match", id="grep"))
    reload = {"working_context_offload_uuid": "m5"}
    memory.add_messages(tool_exchange("context_reload", reload, "[m5-m6: ...", id="r"))
    ask(memory, "archive", messages="m7-m10", reason="read")
    lines = ask(memory, "status").splitlines()
    assert lines[0] == (
        f"{memory.token_count:,} of 8,000 tokens are used ({memory.token_count * 100 // 8_000} %), 0 of them by "
        "instructions and tools."
    )
    assert 'Condensed: m7-m10; context_reload("m...") reads them.' in lines
    assert any(line.startswith("m5-m6 read_file src/f1.py: ") and "used 1x, reloaded 1x" in line for line in lines)
    assert any(line.startswith("m7-m10 note: ") and line.endswith("condensed") for line in lines)
    assert ask(memory, "status") == "\n".join(lines)  # looking changes nothing
    report = memory.compress_if_needed(force=True, max_token=2_000)
    assert f"Last pass: {report.receipt}" in ask(memory, "status").splitlines()


@given(st.integers(1, 24), st.integers(0, 500))
def test_the_figures_of_a_status_add_up(files: int, overhead: int) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(32_000))
    memory.add_messages(history(files))
    memory.set_overhead("word " * overhead)
    status = ask(memory, "status")
    used, trigger = memory.token_count, memory.config.token_trigger
    assert status.startswith(f"{used:,} of 32,000 tokens are used ({used * 100 // 32_000} %)")
    assert f"at {trigger:,} tokens at the latest, {trigger - used:,} from now" in status
    *_, blocks = status.partition("In view, oldest first (ages in messages):\n")
    lines = blocks.splitlines()
    assert len([line for line in lines if line.startswith("m")]) == min(16, 2 + files)
    told = [int(n.replace(",", "")) for n in re.findall(r": ([\d,]+) tokens?", blocks)]
    empty = AutoContextMemory(memory.config)
    empty.set_overhead("word " * overhead)
    assert sum(told) == used - empty.token_count


def test_the_search_finds_what_is_out_of_view_by_number_time_and_tool(memory: AutoContextMemory) -> None:
    memory.compress_if_needed(force=True, max_token=2_000)
    assert ask(memory, "search", query="lock_2_7", limit=1).splitlines()[1].startswith("m8 result of read_file, ")
    assert "m4 " in ask(memory, "search", query="acquire timeout", messages="m1-m4", limit=1)
    assert ask(memory, "search", query="acquire", tool="bash") == (
        "Nothing that was said matches 'acquire'. Try other words or filters."
    )
    assert ask(memory, "search", query="acquire", before="2001-01-01").startswith("Nothing that was said")
    assert ask(memory, "search", query="acquire", after="2001-01-01T10:00+02:00", limit="2").startswith("2 messages, ")
    newest = ask(memory, "search", tool="read_file", messages="m3-m6,m8").splitlines()
    assert [line.split(" ")[0] for line in newest[1:-1]] == ["m8", "m6", "m5", "m4", "m3"]


def test_other_conversations_of_the_user_are_searched_where_the_owner_allows_it(tmp_path: Path) -> None:
    config = AutoContextConfig.for_window(WINDOW, search_scope="user")
    for session, who, text in (
        ("old", "ann", "The lock timeout is 30 s."),
        ("other", "bob", "My lock timeout is 9 s."),
    ):
        with AutoContextMemory.open(tmp_path / "a.db", session_id=session, user_id=who, config=config) as memory:
            memory.add([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": text}])
    with AutoContextMemory.open(tmp_path / "a.db", session_id="new", user_id="ann", config=config) as memory:
        memory.add({"role": "user", "content": "Which lock timeout do we use?"})
        [tool] = memory.tools("search")
        assert "all_sessions" in json.dumps(tool.schema())
        assert "30 s" not in tool(query="lock timeout")
        found = tool(query="lock timeout", all_sessions=True)
        assert "[session old] m2 assistant, " in found
        assert "m1 user, " in found
        assert "9 s" not in found


def test_what_sub_agents_said_is_found_by_the_path_that_reads_it(tmp_path: Path) -> None:
    config = AutoContextConfig.for_window(WINDOW, search_scope="user")
    with AutoContextMemory.open(tmp_path / "a.db", session_id="42", user_id="ann", config=config) as memory:
        memory.add(user("Ask about the lock timeout."))
        researcher = memory.child("researcher")
        researcher.add(user("The lock timeout is 30 s."))
        researcher.child("reader").add([user("Hello"), user("The lock timeout was 9 s.")])
        found = ask(memory, "search", query="lock timeout", all_sessions=True)
        names = [line.split(" ")[0] for line in found.splitlines()[1:-1]]
        assert sorted(names) == ["m1", "researcher/m1", "researcher/reader/m2"]
        assert re.search(
            r'context_reload\("m..."\), one of a sub-agent with context_reload\("[a-z/]+/m..."\)\.$', found
        )
        assert "was 9 s" in ContextOffloadTool(memory)(names[names.index("researcher/reader/m2")])
        assert "[session 42] m1 user" in ask(researcher, "search", query="lock", all_sessions=True)


def test_a_search_shows_fifty_messages_at_most_and_finds_them_behind_those_that_it_leaves_out() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW))
    memory.add_messages([user(f"The lock of pool {n} hangs.") for n in range(60)])
    for n in range(40):  # say the words again, and are no hits
        memory.add_messages(tool_exchange("context_search", {"query": "lock pool"}, f"m{n} user: the lock", id=f"s{n}"))
    for asked, shown in ((9, 9), (50, 50), (500, 50)):
        lines = ask(memory, "search", query="lock pool", limit=asked).splitlines()
        assert lines[0] == f"{shown} messages, best first:"
        assert len(lines) == shown + 2


def test_other_conversations_are_those_of_a_user(tmp_path: Path) -> None:
    config = AutoContextConfig.for_window(WINDOW, search_scope="user")
    with AutoContextMemory.open(tmp_path / "a.db", session_id="42", config=config) as nobodys:
        nobodys.add(user("The lock hangs."))
        assert ask(nobodys, "search", query="lock", all_sessions=True).startswith("Error: only this conversation")


def test_the_tools_are_chosen_by_name(memory: AutoContextMemory) -> None:
    assert [tool.name for tool in memory.tools()] == ["context_reload", *NAMES]
    assert [tool.name for tool in memory.tools("search", "context_reload")] == ["context_search", "context_reload"]
    with pytest.raises(ConfigError, match="there is no tool 'serch'; did you mean 'search'"):
        memory.tools("serch")
    for tool in memory.tools():
        function = tool.schema()["function"]
        assert (function["name"], function["parameters"]["type"]) == (tool.name, "object")


def test_a_focus_is_what_notes_keep_and_what_the_model_is_told() -> None:
    prompts: list[str] = []

    def answer(request: ModelRequest) -> str:
        prompts.append(request.prompt)
        return "Read files."

    model = ScriptedModel(answer)
    shown: dict[str, str] = {}
    for focus in ("", "lock_3_17"):
        memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW), model)
        memory.add_messages([*history(8), assistant("Read."), user("Go on.")])
        memory.compress_if_needed(force=True, max_token=2_000, focus=focus)
        shown[focus] = "\n".join(m.text for m in memory.messages if m.origin is not None)
    assert "line 17 of f3: lock_3_17 = acquire(timeout=17)" in shown["lock_3_17"]
    assert "lock_3_17" not in shown[""]
    assert not any("what bears on this" in prompt for prompt in prompts[: len(prompts) // 2])
    assert prompts[-1].endswith("Keep first, and in most detail, what bears on this: lock_3_17")


KILLED = """
import os, signal, sys
from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.testing import assistant, user
from tests.steering.test_tools import ask, history
memory = AutoContextMemory.open(sys.argv[1], session_id="42", config=AutoContextConfig.for_window(8_000))
memory.add_messages([*history(), assistant("Read."), user("Go on."), assistant("Yes.")])
print(ask(memory, "archive", messages="m3-m4", reason="read"))
print(ask(memory, "pin", messages="m5"))
print(ask(memory, "note", text="decision: keep the lock"))
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_what_was_steered_survives_kill_9(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(file)], capture_output=True, text=True, cwd=ROOT, timeout=600, check=False
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert [line.split(" ")[0] for line in run.stdout.splitlines()] == ["Put", "Pinned", "Noted"]
    with AutoContextMemory.open(file, session_id="42", config=AutoContextConfig.for_window(WINDOW)) as memory:
        assert [m.id for m in memory.messages if is_pinned(m)] == [m.id for m in memory.reload("m5")]
        assert memory.messages[2].origin is not None
        assert ask(memory, "restore", messages="m3").startswith("Put back m3-m4 ")
        memory.add_messages([user("And now?")])
        memory.compress_if_needed(force=True, max_token=2_000)
        assert any("decision: keep the lock" in text for m in memory.messages for text in m.texts())
        assert_valid_chat(memory.messages)
