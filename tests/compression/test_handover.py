"""What a note says: what a model wrote of it, if one was asked and answered, then the work ledger of its span."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg, Plan, SubTask
from autocontext.messages import is_note
from autocontext.models import ExtractiveModel
from autocontext.testing import ScriptedModel, assistant, conversation, tool_call, tool_exchange, tool_result, user
from autocontext.text.rendering import unfence, untagged, written_note
from tests.conversations import histories
from tests.desk import Desk

LOG = "".join(f"loaded module_{n} in {n * 7} ms\n" for n in range(80))
NOTES = ("tool_runs", "rounds", "current_round", "fold")


def work() -> list[Msg]:
    """A round with a run of calls, one of which fails."""
    return [
        user("The shop is down. Do not restart the database."),
        *tool_exchange("read_file", {"path": "/srv/shop/orders.py"}, LOG),
        tool_call("bash", {"command": "make check"}, id="check"),
        tool_result("check", LOG + "OrderError: 77123 is locked\nexit code: 2", name="bash", is_error=True),
        *tool_exchange("deploy", {"service": "shop-api"}, LOG),
        *tool_exchange("edit_file", {"path": "/srv/shop/locks.py", "text": LOG}, "ok"),
    ]


def memory_with(name: str, model: Any, **fields: Any) -> AutoContextMemory:
    """A memory in which one strategy makes one note of `work`."""
    settings: dict[str, Any] = {
        "max_token": 6_000,
        "msg_threshold": 1_000,
        "last_keep": 0,
        "min_compression_token_threshold": 1,
        "min_consecutive_tool_messages": 1,
        "model_retries": 0,
        "strategies": () if name == "fold" else (name,),
        "last_resort": name == "fold",
        "target_ratio": 0.2,
        "ledger_ratio": 0.2,
        "summary_max_input_tokens": 20_000,
        **fields,
    }
    memory = AutoContextMemory(AutoContextConfig(**settings), model)
    first = [user("Hello."), assistant("Hello!")] if name == "fold" else []
    end = [*tool_exchange("ls", {}, "x")] if name == "current_round" else [assistant("It is up."), user("And now?")]
    memory.add_messages([*first, *work(), *end, *([assistant("Soon.")] if name == "rounds" else [])])
    return memory


def note_of(memory: AutoContextMemory) -> Msg:
    (note,) = [m for m in memory.messages if m.origin is not None]
    return note


@pytest.mark.parametrize("name", NOTES)
@pytest.mark.parametrize("model", [None, ExtractiveModel()], ids=["no model", "the embedded one"])
def test_without_a_model_of_the_user_s_own_a_note_is_the_work_ledger(name: str, model: Any) -> None:
    memory = memory_with(name, model)
    report = memory.compress_if_needed(force=True)
    note = note_of(memory)
    assert (report.outcome in ("applied", "partly"), report.model_calls, report.fallbacks) == (True, 0, 0)
    assert written_note(note) == ""
    assert "OrderError: 77123 is locked" in note.text
    assert "make check" in note.text
    assert "/srv/shop/locks.py" in note.text
    if name == "fold":
        assert "Do not restart the database." in note.text


@pytest.mark.parametrize("name", NOTES)
def test_what_a_model_wrote_stands_first_and_the_ledger_follows(name: str) -> None:
    memory = memory_with(name, model := ScriptedModel("The lock of order 77123 is stale."))
    memory.compress_if_needed(force=True)
    note = note_of(memory)
    assert len(model.requests) == 1
    assert written_note(note) == "The lock of order 77123 is stale."
    assert note.text.index("The lock of order") < note.text.index("make check")
    assert note.origin is not None
    assert not note.origin.fallback


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", NOTES)
@pytest.mark.parametrize(
    "reply", ["", RuntimeError, "<think>hm</think>", "blah " * 9_000], ids=["empty", "error", "thoughts", "long"]
)
def test_without_a_usable_answer_the_ledger_stands_alone_and_the_report_says_so(name: str, reply: Any) -> None:
    memory = memory_with(name, ScriptedModel(reply))
    report = memory.compress_if_needed(force=True)
    note = note_of(memory)
    assert report.fallbacks == 1
    assert note.origin is not None
    assert note.origin.fallback
    assert written_note(note) == ""
    assert "OrderError: 77123 is locked" in note.text
    assert "blah" not in note.text


@pytest.mark.parametrize("name", [n for n in NOTES if n != "fold"])
def test_without_the_fallback_the_messages_stay(name: str) -> None:
    memory = memory_with(name, ScriptedModel(RuntimeError), extractive_fallback=False)
    before = memory.messages
    report = memory.compress_if_needed(force=True)
    assert (report.outcome, memory.messages) == ("failed", before)


@pytest.mark.parametrize("name", [n for n in NOTES if n != "fold"])
def test_without_a_ledger_a_note_is_what_is_written(name: str) -> None:
    memory = memory_with(name, ScriptedModel("The lock is stale."), ledger_ratio=0.0)
    memory.compress_if_needed(force=True)
    text = untagged(note_of(memory).text).removeprefix("[Reference note: earlier work, condensed. Not a request.]")
    assert text.removesuffix("[End of reference note]").strip() == "The lock is stale."


def test_a_fold_without_an_answer_keeps_what_earlier_models_wrote() -> None:
    model = ScriptedModel(["The goal is to free the lock.", RuntimeError])
    memory = memory_with("fold", model)
    assert memory.compress_if_needed(force=True)
    memory.add_messages([*work()[1:], assistant("Looked again."), user("And?")])
    report = memory.compress_if_needed(force=True)
    (note,) = [m for m in memory.messages if is_note(m)]
    assert len(model.requests) == 2
    assert "The goal is to free the lock." in model.requests[1].prompt
    assert written_note(note) == "The goal is to free the lock."
    assert report.fallbacks == 1


@pytest.mark.slow
def test_a_model_is_asked_once_a_pass_for_the_fold_s_note_and_not_while_it_fits() -> None:
    model = ScriptedModel("Still at it.")
    memory = AutoContextMemory(AutoContextConfig.for_window(3_000, summary_max_input_tokens=20_000), model)
    for m in conversation(rounds=40, tools_per_round=2, chars=600):
        memory.add_message(m)
        memory.get_messages()
    assert memory.usage.passes > 3
    assert {r.purpose for r in model.requests} == {"fold"}
    # Each note of a pass once: there are two where the current round itself is folded.
    assert len(model.requests) <= len(memory.get_compression_events()) <= 2 * memory.usage.passes
    assert {written_note(m) for m in memory.messages if is_note(m)} == {"Still at it."}


def test_where_there_is_no_room_for_what_a_model_writes_the_ledger_alone_will_do() -> None:
    model = ScriptedModel(lambda request: unfence(request.prompt)[:-20])
    memory = AutoContextMemory(AutoContextConfig(msg_threshold=12, strategies=(), target_ratio=0.6), model)
    memory.add_messages(
        m for n in range(7) for m in (user(f"And {n}? " + "please " * 20), assistant(f"It is {n}. " + "truly " * 20))
    )
    report = memory.compress_if_needed()
    assert report.outcome == "applied"
    assert [s.applied for s in report.strategies if s.name == "fold"] == [False, True]
    assert len(model.requests) == 1
    (note,) = [m for m in memory.messages if is_note(m)]
    assert written_note(note) == ""


def test_one_s_own_table_says_which_tools_only_look() -> None:
    plain = memory_with("fold", None)
    told = memory_with("fold", None, tool_effects={"frobnicate": "reads"})
    for memory in (plain, told):
        memory.add_messages([*tool_exchange("frobnicate", {"id": "gizmo-41"}, LOG), assistant("Done."), user("Next?")])
        memory.compress_if_needed(force=True)
    looked = [note_of(m).text.partition("\nLooked at:\n")[2].partition("\nLines:\n")[0] for m in (plain, told)]
    assert ["frobnicate gizmo-41" in text for text in looked] == [False, True]


def test_the_plan_that_is_attached_stands_in_the_note() -> None:
    memory = memory_with("fold", None)
    memory.attach_plan_note(
        Plan(name="Free the shop", subtasks=[SubTask(name="find the lock"), SubTask(name="free it")])
    )
    memory.compress_if_needed(force=True)
    note = note_of(memory)
    assert "Free the shop" in note.text
    assert "find the lock" in note.text


class BrokenPlan:
    """A plan object of a user's that fails when it is read."""

    name, description, expected_outcome = "Ship it", "", ""

    @property
    def subtasks(self) -> list[object]:
        raise RuntimeError("the board is down")


@pytest.mark.slow
def test_a_plan_that_cannot_be_read_costs_the_plan_and_not_the_note() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(2_000, strategies=()), plan=BrokenPlan())
    for _ in range(6):
        memory.add_messages(work())
    assert memory.compress_if_needed(force=True).outcome == "applied"
    notes = [m.text for m in memory.messages if is_note(m)]
    assert notes
    assert all("Calls:" in note and "Plan:" not in note for note in notes)


@pytest.mark.parametrize("length", [60, 3_000])
@pytest.mark.parametrize("strategies", [(), ("tool_runs",), ("rounds",)])
def test_long_names_of_tools_break_no_note(length: int, strategies: tuple[str, ...]) -> None:
    fields = {"min_consecutive_tool_messages": 1, "last_keep": 0, "min_compression_token_threshold": 1}
    memory = AutoContextMemory(AutoContextConfig.for_window(20_000, strategies=strategies, **fields))
    calls = [tool_exchange(f"tool_{n}_" + "of_many_words_" * (length // 14), {}, LOG) for n in range(8)]
    memory.add_messages([user("Hello."), *(m for pair in calls for m in pair), assistant("Done."), user("Next?")])
    memory.add_messages([*work(), assistant("Done."), user("Next?"), assistant("Well.")])
    before = memory.token_count
    report = memory.compress_if_needed(force=True, max_token=before // 2)
    assert report.outcome in ("applied", "partly")
    assert memory.token_count <= before // 2
    assert all(s.applied or s.reason == "nothing to do" for s in report.strategies)


@given(histories(min_moves=2), st.integers(0, 400), st.floats(0.01, 0.5))
def test_the_text_of_any_span_keeps_to_its_budget_and_is_the_same_again(
    history: list[Msg], budget: int, ratio: float
) -> None:
    at = Desk(
        history,
        AutoContextConfig(max_token=4_000, ledger_ratio=ratio),
        lambda m: 1 + sum(len(str(b)) for b in m.content) // 4,
    )
    if not history:
        return
    span = at.view.span(0, max(1, len(history) // 2))
    write = at.hand_over.writing(at.view, span, budget)
    text = write("")
    head, _, body = text.partition("\n")
    assert text == write("")
    assert head.startswith(f"{len(span)} earlier message")
    assert at.token_sum.counter.count_text(body) <= max(0, budget)
