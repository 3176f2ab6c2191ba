"""Read once: the newest reading stays whole, an older one gives way to a line that names it, and nothing is lost."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.config import STRATEGIES
from autocontext.formats.openai_chat import from_openai
from autocontext.messages import COMPRESS_META, PINNED, ToolResultBlock
from autocontext.testing import (
    ScriptedModel,
    assert_valid_chat,
    assistant,
    tool_call,
    tool_exchange,
    tool_result,
    user,
)
from autocontext.text.rendering import untagged
from tests.conversations import histories
from tests.invariants import ESTIMATE, assert_pairs_kept, check, handles, recount, unreachable

REPLAY = Path(__file__).parent.parent / "data" / "replay_dev.jsonl"
ALONE = AutoContextConfig(strategies=("read_once",), last_resort=False, **ESTIMATE)
"""A forced pass of this one step."""


def text_of(name: str, version: int = 0) -> str:
    """A file of 30 lines, of which an edit changes one."""
    lines = [f"{n}: def {name}_{'abcdefghij'[n % 10]}{n // 10}(): return {name!r}" for n in range(30)]
    lines[version % 30] += f"  # changed {version} times" if version else ""
    return "\n".join(lines)


def compressed(*messages: Msg, config: AutoContextConfig = ALONE) -> AutoContextMemory:
    memory = AutoContextMemory(config)
    memory.add_messages(messages)
    memory.compress_if_needed(force=True)
    return memory


def shown(memory: AutoContextMemory) -> list[str]:
    """What the results in view say, without tags, long ones as "..."; notes in between as their second line."""
    lines = []
    for m in memory.messages:
        texts = [r.text for r in m.tool_results] or ([m.text] if m.origin else [])
        for text in map(untagged, texts):
            body = text.splitlines()[1] if m.origin and not m.tool_results else text
            lines.append(body if len(body) < 240 else "...")
    return lines


def read(path: str, text: str, **more: Any) -> tuple[Msg, Msg]:
    return tool_exchange("read_file", {"path": path, **more}, text)


def bash(command: str, text: str) -> tuple[Msg, Msg]:
    return tool_exchange("bash", {"command": command}, text)


A, A2, B = text_of("a"), text_of("a", 7), text_of("b")
EDIT = tool_exchange("edit_file", {"path": "src/a.py", "new": "x"}, "The file src/a.py has been edited.")
END = (assistant("I see."), user("Go on."))


# ---------------------------------------------------------------------------------------------------------- examples
def test_an_older_reading_names_the_newer_one() -> None:
    memory = compressed(user("Mend a."), *read("src/a.py", A), *EDIT, *read("./src/a.py", A2), *END)
    assert shown(memory) == ["read again below; different there", "The file src/a.py has been edited.", "..."]
    assert memory.reload("m3")[1].tool_results[0].text == A
    assert memory.reload(handles(memory.messages[2])[0])[0].tool_results[0].text == A
    assert_valid_chat(memory.messages)


@pytest.mark.parametrize(
    ("older", "newer", "line"),
    [
        (bash("cat a.py", A), bash("cat a.py", A), "called again below"),
        (
            tool_exchange("send_mail", {"to": "x"}, A),
            tool_exchange("send_mail", {"to": "x"}, A),
            "called again below",
        ),
        (read("a.py", A, offset=5, limit=9), read("a.py", A), "read again below"),
        (read("a.py", A, offset=5, limit=9), read("a.py", A, limit="9", offset="5"), "read again below"),
        (read("a.py", A), read("a.py", A, description="again"), "read again below"),
        (read("a.py", A), read("a.py", A2), "read again below; different there"),
        (bash("make", A), bash("make", A), "called again below"),
        (
            tool_exchange("get_order", {"id": 5}, A),
            tool_exchange("get_order", {"id": "5"}, A),
            "called again below",
        ),
        (
            tool_exchange("str_replace_editor", {"command": "view", "path": "/a.py"}, A),
            tool_exchange("str_replace_editor", {"command": "view", "path": "/a.py"}, A),
            "read again below",
        ),
    ],
)
def test_what_reads_the_same(older: tuple[Msg, Msg], newer: tuple[Msg, Msg], line: str) -> None:
    assert shown(compressed(user("?"), *older, *newer, *END)) == [line, "..."]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (read("a.py", A), read("b.py", A)),
        (read("a.py", A), read("a.py", "\n".join(A.splitlines()[:20]), limit=20)),
        (read("a.py", A, offset=1), read("a.py", B, offset=100)),
        (bash("cat a.py", A), bash("head -20 a.py", A)),
        (bash("cat a.py", A), bash("cat a.py | grep def", A)),
        (bash("make", A), bash("make", A2)),
        (bash("cat a.py", A), bash("cat a.py", A2)),
        (read("a.py", A), bash("cat a.py", A)),
        (tool_exchange("scroll_down", {}, A), tool_exchange("scroll_down", {}, A2)),
        (tool_exchange("read_output", {"id": 1}, A), tool_exchange("read_output", {"id": 1}, B)),
        (read("a.py", A), read("a.py", "Error: cannot read a.py\n" + "x" * 300)),
        (read("a.py", "short"), read("a.py", "short")),
    ],
)
def test_what_does_not_read_the_same(older: tuple[Msg, Msg], newer: tuple[Msg, Msg]) -> None:
    messages = [user("?"), *older, *newer, *END]
    assert compressed(*messages).messages == messages


def test_a_newer_reading_that_is_an_error_supersedes_nothing_but_an_older_good_one_does() -> None:
    failed = tool_call("read_file", {"path": "a.py"}, id="f"), tool_result("f", A + "\nlocked", is_error=True)
    memory = compressed(user("?"), *read("a.py", A), *read("a.py", A), *failed, *END)
    assert shown(memory) == ["read again below", "...", "..."]


def test_that_a_reading_has_failed_is_still_told_where_a_later_one_shows_the_same_and_more() -> None:
    failed = tool_call("read_file", {"path": "a.py"}, id="f"), tool_result("f", A, is_error=True)
    messages = [user("?"), *failed, *read("a.py", f"{A}\nend of file"), *END]
    assert compressed(*messages).messages == messages


@pytest.mark.parametrize("first_failed", [True, False])
def test_the_same_text_as_an_error_and_as_a_result_are_two_readings(first_failed: bool) -> None:
    failed = tool_call("read_file", {"path": "a.py"}, id="f"), tool_result("f", A, is_error=True)
    good = read("a.py", A)
    messages = [user("?"), *(failed if first_failed else good), *(good if first_failed else failed), *END]
    assert compressed(*messages).messages == messages


def test_pinned_protected_recent_and_unread_readings_stay() -> None:
    first, second, third = read("a.py", A), read("a.py", A), read("a.py", A)
    pinned = [m.model_copy(update={"metadata": {PINNED: True}}) for m in first]
    assert shown(compressed(user("?"), *pinned, *second, *END)) == ["...", "..."]
    protected = ALONE.model_copy(update={"protected_tools": frozenset({"read_file"})})
    assert shown(compressed(user("?"), *first, *second, *END, config=protected)) == ["...", "..."]
    recent = ALONE.model_copy(update={"keep_recent": 0.004})  # 524 tokens: two readings
    assert shown(compressed(user("?"), *first, *second, *third, config=recent)) == [
        "read again below",
        "...",
        "...",
    ]
    both = Msg(role="assistant", content=[*first[0].tool_uses, *second[0].tool_uses])
    assert shown(compressed(user("?"), both, first[1], second[1])) == ["...", "..."]
    assert shown(compressed(user("?"), both, first[1], second[1], *END)) == ["read again below", "..."]


def test_a_newer_reading_that_is_not_whole_in_view_supersedes_nothing() -> None:
    config = AutoContextConfig(strategies=("large_messages", "read_once"), large_payload_threshold=1_000, **ESTIMATE)
    memory = AutoContextMemory(config)
    memory.add_messages([user("?"), *read("a.py", A), *read("a.py", A), *END, assistant("Done."), user("And now?")])
    memory.compress_if_needed(force=True)
    assert all(text.endswith("...") for text in shown(memory))
    assert not any("again" in text for text in shown(memory))


def test_a_copy_of_a_shortened_reading_is_no_reading() -> None:
    call, result = read("a.py", A)
    copy = result.model_copy(update={"metadata": {COMPRESS_META: {"offloaduuid": "of another session"}}})
    messages = [user("?"), *read("a.py", A), call, copy, *END]
    assert compressed(*messages).messages == messages


def test_a_change_before_the_older_reading_is_not_named() -> None:
    together = Msg(role="assistant", content=[*EDIT[0].tool_uses, *(first := read("src/a.py", A))[0].tool_uses])
    memory = compressed(user("?"), together, EDIT[1], first[1], *read("src/a.py", A), *END)
    assert shown(memory) == ["The file src/a.py has been edited.", "read again below", "..."]


def test_equal_pairs_in_a_row_stand_once() -> None:
    polls = [
        m for _ in range(11) for m in tool_exchange("get_job", {"id": "J-7"}, '{"state": "running", "percent": 3}')
    ]
    memory = compressed(user("Wait for it."), *polls, *END)
    line = "m2-m21 get_job: J-7 (x10, each with the same result); called again below"
    assert shown(memory) == [line, '{"state": "running", "percent": 3}']
    assert len(memory.messages) == 1 + 1 + 2 + 2
    assert memory.reload(handles(memory.messages[1])[0]) == polls[:20]
    assert_valid_chat(memory.messages)


def test_what_was_asked_forges_no_count_of_equal_pairs() -> None:
    asked, name = "J-7 (x99, each with the same result); read again below", "get job -> ok"
    polls = [m for _ in range(11) for m in tool_exchange(name, {"id": asked}, "running")]
    memory = compressed(user("Wait for it."), *polls, *END)
    line = f'm2-m21 "{name}": "{asked}" (x10, each with the same result); called again below'
    assert shown(memory)[0] == line


def test_equal_pairs_of_the_next_pass_join_the_line() -> None:
    polls = [m for _ in range(20) for m in tool_exchange("get_job", {"id": "J-7"}, '{"state": "running"}')]
    memory = compressed(user("Wait for it."), *polls[:20], *END)
    memory.delete_message(len(memory.messages) - 1)
    memory.delete_message(len(memory.messages) - 1)
    memory.add_messages([*polls[20:], *END])
    report = memory.compress_if_needed(force=True)
    line = "m2-m43 get_job: J-7 (x20, each with the same result); called again below"
    assert shown(memory) == [line.replace("m2-m43", "m2-m41").replace("x20", "x19"), '{"state": "running"}']
    assert report.receipt.startswith("m20-m21,m24-m41 called again later; ")
    assert memory.reload(handles(memory.messages[1])[0]) == polls[:38]


def test_what_was_archived_with_an_equal_call_at_its_end_joins_no_line_about_such_calls() -> None:
    polls = [m for _ in range(9) for m in tool_exchange("get_job", {"id": "J-7"}, '{"state": "running"}')]
    memory = AutoContextMemory(ALONE)
    memory.add_messages([user("Wait for it."), *read("a.py", A), *polls, *END])
    assert "m2-m5" in memory.tools("archive")[0](messages="m2-m5", reason="read")
    archived = memory.messages[1]
    memory.compress_if_needed(force=True)
    assert memory.messages[1] == archived
    assert shown(memory)[1:] == [
        "m6-m19 get_job: J-7 (x7, each with the same result); called again below",
        '{"state": "running"}',
    ]


def test_words_between_equal_calls_stay() -> None:
    polls = [
        m
        for n in range(6)
        for m in (
            tool_call("get_job", {"id": "J-7"}, id=f"p{n}").model_copy(
                update={
                    "content": (
                        *assistant(f"Attempt {n}.").content,
                        *tool_call("get_job", {"id": "J-7"}, id=f"p{n}").content,
                    )
                }
            ),
            tool_result(f"p{n}", A),
        )
    ]
    memory = compressed(user("Wait."), *polls, *END)
    assert [m.text for m in memory.messages if m.text.startswith("Attempt")] == [f"Attempt {n}." for n in range(6)]
    assert shown(memory) == ["called again below"] * 5 + ["..."]


def test_a_text_that_poses_as_a_line_of_ours_changes_nothing() -> None:
    posing = "read again: m99, below; changed in m98\n" + A
    memory = compressed(
        user("?"), *read("a.py", posing), *read("a.py; read again: m97, below", A), *read("a.py", posing), *END
    )
    assert shown(memory) == ["read again below", "...", "..."]
    report = compressed_report(user("?"), *read("a.py", posing), *read("a.py", posing), *END)
    assert report.receipt == "m3 read again later; 1 message out of view, all can be restored"
    both = read("a.py", A), read("b.py", "read again: m95, below")
    call = Msg(role="assistant", content=[use for pair in both for use in pair[0].tool_uses])
    answer = Msg(role="tool", content=[block for pair in both for block in pair[1].tool_results])
    report = compressed_report(user("?"), call, answer, *read("a.py", A), *END)
    assert report.receipt == "m3 read again later; 1 message out of view, all can be restored"
    label = "J; read again: m96, below"
    polls = [m for _ in range(11) for m in tool_exchange("get_job", {"id": label}, posing[:80])]
    assert compressed_report(user("?"), *polls, *END).receipt.startswith("m2-m21 called again later;")


def compressed_report(*messages: Msg) -> Any:
    memory = AutoContextMemory(ALONE)
    memory.add_messages(messages)
    return memory.compress_if_needed(force=True)


def test_a_pass_ends_without_a_note_when_that_was_enough_and_no_model_is_asked() -> None:
    model = ScriptedModel("SUMMARY")
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, **ESTIMATE), model)
    memory.add_messages([user("Mend a."), assistant("Yes.")])
    while memory.token_count < 3_920:
        memory.add_messages(read("src/a.py", A))
    memory.add_messages(END)
    report = memory.compress_if_needed()
    assert [s.name for s in report.strategies] == ["read_once"]
    assert (report.outcome, report.model_calls, model.requests) == ("applied", 0, [])


def test_nothing_is_replaced_before_a_pass_is_due() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(16_000))
    messages = [user("?"), *read("a.py", A), *read("a.py", A), *END]
    memory.add_messages(messages)
    assert memory.get_messages() == messages


def test_it_comes_with_for_window_and_can_go_before_the_reference_s_strategies() -> None:
    assert AutoContextConfig.for_window(8_000).strategies == ("read_once", "shorten")
    assert AutoContextConfig(max_token=8_000).strategies == AutoContextConfig.agentscope_java().strategies == STRATEGIES
    config = AutoContextConfig(strategies=("read_once", *STRATEGIES), **ESTIMATE, last_resort=False)
    memory = AutoContextMemory(config)
    memory.add_messages([user("?"), *read("a.py", A), *read("a.py", A), *END])
    assert memory.compress_if_needed(force=True).strategies[0].applied


# -------------------------------------------------------------------------------------------------------- properties
@dataclass(frozen=True)
class Step:
    """One thing that the agent or the user does."""

    kind: str
    name: str
    times: int = 1


STEPS = st.builds(
    Step,
    st.sampled_from(("read", "read", "cat", "part", "fail", "pinned", "edit", "say", "order")),
    st.sampled_from(("a", "b")),
    st.sampled_from((1, 1, 1, 3)),
)


@dataclass(frozen=True)
class Told:
    """A reading as the naive oracle remembers it."""

    number: int
    thing: str
    part: str
    text: str
    good: bool
    stays: bool
    file: bool = True
    """Whether its call names the file: then most of the text is enough, otherwise the text must be equal."""


def play(steps: list[Step]) -> tuple[list[Msg], list[Told]]:
    """The conversation and its readings."""
    versions, messages, readings = {"a": 0, "b": 0}, [user("Begin.")], list[Told]()
    for step in (s for s in steps for _ in range(s.times)):
        text, path = text_of(step.name, versions[step.name]), f"src/{step.name}.py"
        number = len(messages) + 2
        if step.kind == "say":
            messages += [assistant("I see."), user("Go on.")]
        elif step.kind == "edit":
            versions[step.name] += 1
            messages += tool_exchange("edit_file", {"path": path, "n": number}, f"The file {path} has been edited.")
        elif step.kind == "order":
            messages += tool_exchange("get_order", {"id": f"W{step.name}7"}, text_of("order"))
            readings.append(Told(number, f"W{step.name}7", "", text_of("order"), good=True, stays=False, file=False))
        else:
            part = "1-20" if step.kind == "part" else ""
            text = "\n".join(text.splitlines()[:20]) if part else text
            call, result = bash(f"cat {path}", text) if step.kind == "cat" else read(path, text)
            if part:
                call, result = read(path, text, lines="1-20")
            if step.kind == "fail":
                result = result.model_copy(update={"content": (failed(result),)})
            if step.kind == "pinned":
                call, result = (m.model_copy(update={"metadata": {PINNED: True}}) for m in (call, result))
            messages += [call, result]
            is_file = step.kind != "cat"
            about = path if is_file else f"cat {path}"
            readings.append(Told(number, about, part, text, step.kind != "fail", step.kind == "pinned", is_file))
    return [*messages, assistant("Done."), user("Thanks.")], readings


def failed(result: Msg) -> ToolResultBlock:
    return result.tool_results[0].model_copy(update={"is_error": True})


def supersedes(new: Told, old: Told) -> bool:
    """Whether a later reading of the same thing shows what an older one showed."""
    if new.number <= old.number or new.thing != old.thing or new.part not in ("", old.part) or new.good != old.good:
        return False
    return new.text == old.text or (new.good and old.file)  # an edit changes one line of many


def expected(readings: list[Told]) -> set[int]:
    """What a naive reader finds superseded by readings that stay."""
    old_ones: set[int] = set()
    for old in reversed(readings):
        newer = [new for new in readings if supersedes(new, old) and new.number not in old_ones]
        if newer and not old.stays:
            old_ones.add(old.number)
    return old_ones


@given(st.lists(STEPS, max_size=14))
def test_a_naive_reading_finds_the_same(steps: list[Step]) -> None:
    messages, readings = play(steps)
    memory = compressed(*messages)
    stated = {n for n, line in enumerate_lines(memory) if "again below" in line}
    in_notes = [untagged(m.text).splitlines()[1] for m in memory.messages if m.origin and not m.tool_results]
    spans = [re.match(r"m(\d+)-m(\d+) ", line) for line in in_notes]
    folded = {n for s in spans if s for n in range(int(s[1]) + 1, int(s[2]) + 1, 2)}
    assert (stated | folded, stated & folded) == (expected(readings), set())
    whole = {m.tool_results[0].text for m in memory.messages if m.tool_results and m.origin is None}
    assert {newest.text for newest in readings if newest.number not in expected(readings)} <= whole


def enumerate_lines(memory: AutoContextMemory) -> list[tuple[int, str]]:
    """The number and the text of each shortened result in view."""
    log = memory._log
    pairs = zip(log.view_ids, log.view_messages, strict=True)
    return [
        (next(iter(log.numbers([id_]))), untagged(m.tool_results[0].text))
        for id_, m in pairs
        if m.origin and m.tool_results
    ]


@given(st.one_of(histories(), st.lists(STEPS, max_size=14).map(lambda steps: play(steps)[0])))
def test_nothing_is_lost_pairs_stay_and_a_second_pass_finds_nothing(history: list[Msg]) -> None:
    memory = AutoContextMemory(ALONE)
    memory.add_messages(history)
    tokens = memory.token_count
    report = memory.compress_if_needed(force=True)
    view = memory.messages
    assert memory.token_count == recount(memory) <= tokens
    assert bool(report) == (memory.token_count < tokens) == bool(report.receipt)
    assert report.model_calls == 0
    assert_pairs_kept(view, history)
    assert unreachable(memory, history) == []
    assert [m for m in view if not m.origin] == [m for m in history if m in view]
    check(memory)
    again = memory.compress_if_needed(force=True)
    assert (bool(again), memory.messages) == (False, view)
    for key in list(memory.get_offload_context()):
        assert memory.undo(key)
    assert memory.messages == history


# --------------------------------------------------------------------------------------------- recorded conversations
def recorded(part: str) -> list[dict[str, Any]]:
    with REPLAY.open(encoding="utf-8") as lines:
        return next(json.loads(line)["messages"] for line in lines if part in line[:200])


@pytest.mark.parametrize(
    ("part", "window", "receipt"),
    [
        ("ponylang__ponyc", 32_000, "m12,m16 read again later"),
        ("ic_ctf_multiturn", 4_000, "m5 called again later"),
    ],
)
def test_recorded_conversations(part: str, window: int, receipt: str) -> None:
    """A file viewed three times, a script printed three times."""
    memory = AutoContextMemory(AutoContextConfig.for_window(window, **ESTIMATE))
    receipts: list[str] = []
    memory.on_compression(lambda report: receipts.append(report.receipt))
    messages = from_openai(recorded(part))
    for m in messages:
        memory.add_message(m)
        if m.role != "assistant":
            assert_valid_chat(memory.get_messages())
    memory.compress_if_needed(force=True)
    assert any(receipt in line for line in receipts), receipts
    assert unreachable(memory, messages) == []
