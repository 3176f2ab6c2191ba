"""What was read in answers for one note is kept for the next, and read again when it would be read otherwise."""

import gc
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.messages import Msg
from autocontext.notes import deeds, shown, speech
from autocontext.notes.rated import MOST_READINGS, Rated
from autocontext.notes.shown import InView
from autocontext.notes.work import Occurrences, WorkLedger
from autocontext.testing import conversation, tool_exchange, tool_result, user
from tests.conversations import histories
from tests.notes.desks import calls, use
from tests.notes.pages import page


@pytest.mark.sampled
@given(histories(max_moves=8), st.integers(300, 3_000))
def test_a_note_is_the_same_whatever_was_noted_before(messages: list[Msg], budget: int) -> None:
    ledger = WorkLedger()
    for number, msg in enumerate(messages, 1):
        ledger.append(msg)
        assert page(ledger, budget, len) == page(WorkLedger.of(messages[:number]), budget, len)


SECTIONS = ("alpha", "beta", "gamma", "delta")


def looked_at(paths: Iterable[str]) -> list[Msg]:
    """Files that are read one after the other, with more to say than a note has room for."""
    made: list[Msg] = []
    for i, path in enumerate(paths):
        lines = "\n".join(f"The section about {name} sets timeout_{name} for the file {path}" for name in SECTIONS)
        made += [calls("", use(f"r{i}", "read_file", path=path)), tool_result(f"r{i}", lines)]
    return made


def short(ledger: WorkLedger) -> str:
    return page(ledger, 420, len)


def test_an_answer_is_read_again_when_a_value_in_it_was_used() -> None:
    ledger = WorkLedger.of(looked_at(["a.py", "b.py", "c.py"]))
    assert "delta" not in short(ledger)
    for words in (
        "Look at timeout_delta.",
        "Set timeout_delta.",
        "And timeout_gamma.",
        "Use timeout_delta everywhere.",
    ):
        ledger.append(user(words))
        assert '-> "The section about delta' in short(ledger)
        assert short(ledger) == short(WorkLedger.of(ledger.messages))


def test_an_answer_is_read_again_when_values_were_dropped() -> None:
    messages = [*looked_at(["a.py", "b.py", "c.py"]), user("Look at timeout_delta.")]
    ledger, other = WorkLedger.of(messages), WorkLedger.of(messages)
    assert '-> "The section about delta' in short(ledger)
    ledger.values = {f"name_{i}": Occurrences(9, True, 1) for i in range(5_000)} | ledger.values
    ledger.append(user("Go on."))
    ledger.trim()
    assert "timeout_delta" not in ledger.values
    other.append(user("Go on."))
    other.values = ledger.values
    assert short(ledger) == short(other)
    assert '-> "The section about delta' not in short(ledger)


def test_of_very_many_values_those_go_that_were_taken_up_least_and_longest_ago() -> None:
    ledger = WorkLedger.of([user("Go on.")] * 100)
    often = {f"often_{i}": Occurrences(4, True, 1) for i in range(600)}
    once = {f"once_{i}": Occurrences(2, True, 50) for i in range(600)}
    heard = {f"heard_{i}": Occurrences(0, False, 90) for i in range(600)}
    long_ago = {f"long_ago_{i}": Occurrences(0, False, 60) for i in range(2_400)}
    ledger.values = {**long_ago, **heard, **once, **often}
    ledger.trim()
    assert ledger.values.keys() == {*often, *once, *heard}
    ledger.values = {**{f"new_{i}": Occurrences(0, False, 100) for i in range(1_200)}, **often, **once, **long_ago}
    ledger.trim()
    assert {*often, *once} <= ledger.values.keys()
    ledger.values = {**{f"new_{i}": Occurrences(0, False, 100) for i in range(2_400)}, **often, **once}
    ledger.trim()
    assert {*often, *once} <= ledger.values.keys()


def test_an_answer_is_read_again_when_another_call_stands_beside_its_own() -> None:
    def found(i: int, *lines: str) -> list[Msg]:
        return [calls("", use(f"r{i}", "search", query=f"q{i}")), tool_result(f"r{i}", "\n".join(lines))]

    frame = "The index was written by version 3.2 for src/main.py and src/other.py"
    ledger = WorkLedger.of([*found(0, frame, "Red."), *found(1, frame, "Blue.")])
    assert frame not in short(ledger)
    for msg in found(2, "Green."):
        ledger.append(msg)
    assert f'm3 search q1 -> "{frame[:20]}' in short(ledger)  # what not all answers say is no frame
    assert short(ledger) == short(WorkLedger.of(ledger.messages))


def calls_of(name: str, module: Any, monkeypatch: pytest.MonkeyPatch, during: Callable[[], object]) -> int:
    """How often a function is called."""
    found = 0
    function: Any = getattr(module, name)

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal found
        found += 1
        return function(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, counted)
        during()
    return found


@pytest.mark.parametrize(("module", "reads"), [(deeds, "telling"), (speech, "_remark")])
def test_a_pass_reads_what_is_new(module: Any, reads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = AutoContextMemory(AutoContextConfig(msg_threshold=60, last_keep=6))
    found: list[int] = []
    for msg in conversation(rounds=120, tools_per_round=2, chars=200):
        memory.add_message(msg)
        before = memory.usage.passes
        read = calls_of(reads, module, monkeypatch, memory.get_messages)
        found += [read] * (memory.usage.passes - before)
    later = found[10:]
    assert len(later) > 20
    assert 0 < max(later) <= 2 * min(later)


def test_readings_are_bounded() -> None:
    rated, ledger = Rated(), WorkLedger()

    def read(key: int) -> object:
        return rated.of(key, (), ledger.used, lambda used: [used("x")])

    first = [read(key) for key in range(MOST_READINGS)]
    assert read(1) is first[1]
    assert read(MOST_READINGS) is not None
    assert read(1) is first[1]
    assert read(0) is not first[0]
    rated.used_again(["y"])
    assert read(2) is first[2]
    rated.used_again(["x"])
    assert read(2) is not first[2]
    again = read(2)
    rated.used_again(f"y{i}" for i in range(100))
    assert read(2) is again
    for _ in range(1_000):  # the list of these changes, too
        rated.used_again(f"y{i}" for i in range(100))
    assert read(2) is not again


def test_what_is_kept_of_answers_is_in_proportion_to_them() -> None:
    answers = ["\n".join(" ".join(f"name_{n}_{i}_{k}" for k in range(6)) for i in range(60)) for n in range(60)]
    messages = [m for n, text in enumerate(answers) for m in tool_exchange("read_file", {"path": f"{n}.py"}, text)]
    ledger = WorkLedger.of(messages)
    tracemalloc.start()
    try:
        page(ledger, 30_000)
        ledger._memo.clear()
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
        ledger.rated = Rated()
        kept -= tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0 < kept < 4 * len("".join(answers))


def test_answers_are_kept_by_their_ledger_alone() -> None:
    """They may be erased; a cache of the module would hold them as long as the process lives."""
    messages = [tool_exchange("read_file", {"path": f"{n}.py"}, f"Nothing was said by {n}.") for n in range(40)]
    ledger = WorkLedger.of(m for exchange in messages for m in exchange)
    assert "more calls" in page(ledger, 900)
    own = [value for value in vars(deeds).values() if getattr(value, "__module__", "") == deeds.__name__]
    held = gc.get_referents(*own)
    assert not [text for text in map(ledger.result_of, ledger.calls) if any(text is other for other in held)]


def test_a_message_in_view_is_read_once_in_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [user(f"Use port {8_000 + i} for src/module_{i}.py.") for i in range(9)]
    found: list[Msg] = []
    facts: Any = shown._facts

    def counted(m: Msg) -> Any:
        found.append(m)
        return facts(m)

    monkeypatch.setattr(shown, "_facts", counted)
    before = InView(messages)
    before.without(0, 3, "")
    assert found == messages[3:]
    new = user("Use port 1.")
    beside = InView([*messages[:2], new, *messages[4:]], before).without(2, 2, "")
    assert found[6:] == [*messages[:2], new]
    assert beside.has(("sentence", "Use port 8008 for src/module_8.py."))
    assert not beside.has(("sentence", "Use port 8003 for src/module_3.py."))
