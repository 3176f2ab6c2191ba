"""A user asks to read 45 logs of 18 KB, each with one finding: what is left in the end."""

import re

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, ModelRequest, Msg
from autocontext.messages import is_note
from autocontext.testing import ScriptedModel, tool_result, user
from tests.invariants import check, reach, recount
from tests.notes.desks import calls, use
from tests.notes.test_truth import check_note

LOGS = 45
WORDS = [
    "amber",
    "basil",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "haven",
    "ivory",
    "jolly",
    "kayak",
    "lemon",
    "maple",
    "noble",
    "ocean",
    "pearl",
    "quilt",
    "raven",
]
FINDING = re.compile(r"finding \d\d: [^\n]*")


def finding(i: int) -> str:
    return f"finding {i:02}: the {WORDS[i % len(WORDS)]} pump loses {3 * i + 1} bar at valve {i + 100}"


def log(i: int) -> str:
    """18 KB of lines that all look alike, with the finding somewhere in them."""
    lines = [
        f"2026-03-{i % 28 + 1:02} 10:{n % 60:02}:00 INFO {WORDS[(n + i) % len(WORDS)]} worker {n} is fine"
        for n in range(345)
    ]
    lines.insert(37 * i % 340, finding(i))
    return "\n".join(lines)


def findings_seen(request: ModelRequest) -> str:
    """A model that hands on exactly the findings in front of it."""
    return "\n".join(dict.fromkeys(FINDING.findall(request.prompt))) or "Nothing was found."


def read_all(window: int, model: ScriptedModel | None, logs: int = LOGS) -> tuple[AutoContextMemory, list[Msg]]:
    memory = AutoContextMemory(AutoContextConfig.for_window(window, model_retries=0), model)
    added = [user(f"Please read all {logs} logs and tell me every finding.")]
    memory.add_messages(added)
    for i in range(logs):
        pair = [
            calls("", use(f"c{i}", "read_log", path=f"logs/{i:02}.log")),
            tool_result(f"c{i}", log(i), name="read_log"),
        ]
        for msg in pair:
            memory.add_message(msg)
            added.append(msg)
        memory.get_messages()
        assert memory.token_count <= window
    return memory, added


def shown(memory: AutoContextMemory) -> str:
    return "\n".join(text for m in memory.messages for text in (m.text, *(r.text for r in m.tool_results)))


@pytest.fixture(scope="module")
def with_model() -> tuple[AutoContextMemory, list[Msg]]:
    return read_all(16_000, ScriptedModel(findings_seen))


@pytest.fixture(scope="module")
def without_model() -> tuple[AutoContextMemory, list[Msg]]:
    return read_all(16_000, None)


@pytest.mark.slow
def test_of_a_few_logs_every_finding_stands_in_the_last_context() -> None:
    memory, _ = read_all(16_000, None, logs=9)
    assert memory.get_compression_events()
    text = shown(memory)
    assert [i for i in range(9) if finding(i) not in text] == []


@pytest.mark.slow
def test_all_findings_of_a_model_stand_in_the_last_context(with_model: tuple[AutoContextMemory, list[Msg]]) -> None:
    text = shown(with_model[0])
    assert [i for i in range(LOGS) if finding(i) not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("run", ["with_model", "without_model"])
def test_every_original_comes_back_by_its_number(run: str, request: pytest.FixtureRequest) -> None:
    memory, added = request.getfixturevalue(run)
    for number, msg in enumerate(added, 1):
        assert msg in memory.reload(f"m{number}")
    assert {m.id for m in added} <= {m.id for m in reach(memory, memory.messages)}
    check(memory)
    assert memory.token_count == recount(memory) <= 16_000


@pytest.mark.slow
def test_without_a_model_counts_are_right_and_all_calls_are_told_of(
    without_model: tuple[AutoContextMemory, list[Msg]],
) -> None:
    memory, added = without_model
    notes = [m for m in memory.messages if is_note(m)]
    assert notes
    for note in notes:
        check_note(memory, added, note)
    visible = {u.input["path"] for m in memory.messages for u in m.tool_uses}
    named = " ".join(note.text for note in notes)
    told = visible | {f"logs/{i:02}.log" for i in range(LOGS) if f"{i:02}.log" in named}
    counted = sum(int(n) for n in re.findall(r"(\d+) more call", named))
    assert len(told) + counted >= LOGS
    assert "no result" not in named


@pytest.mark.slow
def test_without_a_model_what_stands_out_is_found(without_model: tuple[AutoContextMemory, list[Msg]]) -> None:
    """Lines that no other line of a log is like are quoted first."""
    text = shown(without_model[0])
    assert sum(finding(i) in text for i in range(LOGS)) >= 38


@pytest.mark.slow
def test_a_large_window_is_used_before_anything_is_dropped() -> None:
    memory, added = read_all(128_000, ScriptedModel(findings_seen))
    text = shown(memory)
    assert [i for i in range(LOGS) if finding(i) not in text] == []
    verbatim = {m.id for m in memory.messages} & {m.id for m in added}
    assert memory.token_count > 128_000 * 0.6
    assert len(verbatim) >= 10
