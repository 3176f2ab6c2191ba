"""What was read in messages for one note is kept for the next."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.history.runs import Runs
from autocontext.messages import Msg
from autocontext.notes import deeds, shown, speech
from autocontext.notes.shown import InView
from autocontext.notes.values import KEPT
from autocontext.notes.work import WorkLedger
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


@pytest.mark.slow
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

    first = [read(key) for key in range(KEPT)]
    assert read(1) is first[1]
    assert read(KEPT) == [KEPT]
    assert read(1) is first[1]
    assert read(0) is not first[0]


@pytest.mark.slow
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


def ticket(priority: str) -> str:
    return f"""The ticket was opened by Ann Lee in the north.
It is about the login page of the shop.
Its priority is {priority} for the team.
Nobody has been assigned to the ticket so far."""


def told_of_last(ledger: WorkLedger, last: int) -> str:
    """The line about the last of the calls up to a message."""
    found = deeds.Deeds(ledger, Runs([(1, last)]), 60)
    return found.line(found.groups[-1])


def kept_and_fresh(messages: list[Msg], read_at: int, last: int) -> tuple[str, str]:
    """The line of a ledger that was read at a message, and of one that was not."""
    kept = WorkLedger.of(messages[:read_at])
    told_of_last(kept, last)
    for msg in messages[read_at:]:
        kept.append(msg)
    return told_of_last(kept, last), told_of_last(WorkLedger.of(messages), last)


def test_a_late_result_changes_no_line_of_an_earlier_one() -> None:
    messages = [
        user("Look after the ticket."),
        calls("", use("a", "update_ticket", ticket_id="T-100", note="x")),
        calls("", use("b", "get_ticket", ticket_id="T-100")),
        tool_result("b", ticket("low")),
        *(user(f"And number {n}?") for n in range(130)),
        tool_result("a", ticket("high")),
    ]
    kept, fresh = kept_and_fresh(messages, 134, 4)
    assert kept == fresh


def test_an_answer_tells_the_same_however_many_calls_came_after_it() -> None:
    messages = [
        *tool_exchange("update_ticket", {"ticket_id": "T-100", "note": "x"}, ticket("low")),
        *tool_exchange("get_ticket", {"ticket_id": "T-100"}, ticket("high")),
    ]
    messages += [m for n in range(999) for m in tool_exchange("ping", {"host": f"h{n}"}, f"pong {n} from afar")]
    kept, fresh = kept_and_fresh(messages, 204, 4)
    assert kept == fresh


def test_calls_beside_one_are_its_neighbours_also_within_a_message() -> None:
    message = calls("", *(use(f"c{n}", "grep", pattern=f"k{n}") for n in range(12)))
    ledger = WorkLedger.of([message, *(tool_result(f"c{n}", f"found {n}") for n in range(12))])
    before, after = ledger.calls_beside(ledger.calls[6], 2)
    assert [call.label for call in (*before, *after)] == ["k4", "k5", "k7", "k8"]


def test_what_a_call_names_itself_is_not_used_by_others() -> None:
    ledger = WorkLedger.of(tool_exchange("read", {"path": "src/app_main.py"}, "src/app_main.py has 3 lines"))
    assert ledger.used_around(2, 1)(frozenset(["src/app_main.py"])) == 0.0
    late = [calls("", use("a", "read", path="src/app_main.py")), *(user("Wait.") for _ in range(200))]
    ledger = WorkLedger.of([*late, tool_result("a", "src/app_main.py has 3 lines"), user("Is src/app_main.py read?")])
    assert ledger.used_around(202, 1)(frozenset(["src/app_main.py"])) == 0.0
    assert ledger.used_around(202, 2)(frozenset(["src/app_main.py"])) > 0
