"""What was read in messages for one note is kept for the next."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.messages import Msg
from autocontext.notes import deeds, shown, speech
from autocontext.notes.shown import InView
from autocontext.notes.work import WorkLedger
from autocontext.testing import conversation, tool_exchange, user
from tests.conversations import histories
from tests.notes.pages import page


@pytest.mark.sampled
@given(histories(max_moves=8), st.integers(300, 3_000))
def test_a_note_is_the_same_whatever_was_noted_before(messages: list[Msg], budget: int) -> None:
    ledger = WorkLedger()
    for number, msg in enumerate(messages, 1):
        ledger.append(msg)
        assert page(ledger, budget, len) == page(WorkLedger.of(messages[:number]), budget, len)


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
    ledger = WorkLedger()

    def read(key: int) -> object:
        return ledger.read(key, lambda: [key])

    first = [read(key) for key in range(8_000)]
    assert read(1) is first[1]
    assert read(8_000) == [8_000]
    assert read(1) is first[1]
    assert read(0) is not first[0]


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
        ledger._readings.clear()
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
