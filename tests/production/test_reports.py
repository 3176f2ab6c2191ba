"""Invisible, irreversible, unaccounted: what a pass did, what it cost, and the way back."""

import asyncio
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import (
    AutoContextConfig,
    AutoContextMemory,
    CompressionReport,
    ModelReply,
    ModelRequest,
    Msg,
    Plan,
    SubTask,
    Usage,
)
from autocontext.stores import InMemorySessionStore
from autocontext.testing import ScriptedModel, assert_valid_chat, assistant, tool_exchange, user
from tests.conversations import histories
from tests.invariants import check, recount
from tests.production.agents import day, notes, rounds_only, small, with_reports

BILLED = ModelReply(text="In short.", usage=Usage(input_tokens=1_000, output_tokens=100, seconds=0.5))


# ---------------------------------------------------------------------------------------------------------- reports
def test_report_says_what_was_tried_what_it_gave_and_what_it_used() -> None:
    memory = AutoContextMemory(small(max_token=4_000), ScriptedModel(BILLED))
    memory.add_messages(day(30))
    messages, tokens = len(memory.messages), memory.token_count
    report = memory.compress_if_needed()
    assert report
    assert report.outcome == "applied"
    assert (report.messages_before, report.tokens_before) == (messages, tokens)
    assert (report.messages_after, report.tokens_after) == (len(memory.messages), memory.token_count)
    applied = {s.name: s.applied for s in report.strategies}
    assert applied == {"tool_runs": False, "large_messages_protected": True, "large_messages": True, "rounds": True}
    assert report.usage == Usage(
        input_tokens=1_000 * report.model_calls,
        output_tokens=100 * report.model_calls,
        seconds=0.5 * report.model_calls,
    )
    assert report.model_calls > 0
    assert (report.fallbacks, report.refused, report.cost) == (0, (), None)


def test_report_of_a_pass_that_was_not_needed_is_false_and_says_why() -> None:
    memory = AutoContextMemory(small(), ScriptedModel([], strict_script=True))
    report = memory.compress_if_needed()
    assert (bool(report), report.outcome, report.reason) == (False, "not_needed", "no threshold is reached")
    assert memory.usage.passes == 0


@pytest.mark.slow
@given(histories(max_moves=5), st.booleans())
def test_row_34_report_of_a_pass_that_was_not_needed_gives_tokens_not_their_bound(
    history: list[Msg], in_loop: bool
) -> None:
    memory = AutoContextMemory(AutoContextConfig(max_token=10**7), ScriptedModel([], strict_script=True))
    memory.add_messages(history)
    report = asyncio.run(memory.acompress_if_needed()) if in_loop else memory.compress_if_needed()
    assert report.outcome == "not_needed"
    assert report.tokens_before == report.tokens_after == recount(memory) == memory.token_count


@pytest.mark.parametrize("in_loop", [False, True], ids=["sync", "async"])
def test_row_34_reports_of_a_rest_and_of_a_busy_memory_give_tokens(in_loop: bool) -> None:
    busy: list[tuple[CompressionReport, int]] = []

    def reply(request: ModelRequest) -> str:
        memory.add_message(user("请把配置文件里的超时改成三十秒。" * 50))
        busy.append((memory.compress_if_needed(), recount(memory)))
        return "In short."

    memory = AutoContextMemory(rounds_only(msg_threshold=12, max_parallel_summaries=1), ScriptedModel(reply))
    memory.add_messages(day(5))
    asyncio.run(memory.acompress_if_needed()) if in_loop else memory.compress_if_needed()
    assert busy
    assert [(report.outcome, report.tokens_after) for report, _ in busy] == [("busy", tokens) for _, tokens in busy]
    memory.add_message(assistant("再把测试跑一遍。" * 30))
    report = memory.compress_if_needed()
    assert (report.outcome, report.tokens_after) == ("not_needed", recount(memory))


def test_report_of_a_forced_pass_that_changes_nothing_does_not_say_applied() -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel([], strict_script=True))
    memory.add_messages(day(1))
    report = memory.compress_if_needed(force=True)
    assert (bool(report), report.outcome) == (False, "not_needed")
    assert "under the target" in report.reason
    assert memory.usage.passes == 0


def test_a_forced_pass_that_changes_nothing_does_not_end_a_rest() -> None:
    memory = AutoContextMemory(rounds_only(msg_threshold=20, last_resort=False), ScriptedModel("In short."))
    memory.add_messages([user(f"Remember {n}.") for n in range(22)])
    assert memory.compress_if_needed().outcome == "partly"
    for _ in range(17):
        memory.delete_message(0)
    assert memory.compress_if_needed(force=True).outcome == "not_needed"
    memory.add_messages([user(f"And {n}.") for n in range(17)])
    report = memory.compress_if_needed()
    assert report.outcome == "not_needed"
    assert "hardly grown" in report.reason


def test_a_forced_pass_whose_calls_were_in_vain_counts_them() -> None:
    dense = ModelReply(text="1%a+" * 400, usage=BILLED.usage)
    memory = AutoContextMemory(rounds_only(), ScriptedModel(dense))
    memory.add_messages([user("Go."), *tool_exchange("t", {}, " " * 8_000, id="c"), assistant("Done."), *day(1)])
    report = memory.compress_if_needed(force=True)
    assert (report.outcome, report.model_calls) == ("not_needed", 1)
    assert (memory.usage.model_calls, memory.usage.input_tokens) == (1, 1_000)


def test_report_names_the_edits_that_were_refused() -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."))
    memory.add_messages([user("Ping?"), *tool_exchange("t", {}, "", id="c"), assistant("Pong."), *day(1)])
    report = memory.compress_if_needed(force=True)
    assert {r.reason for r in report.refused} == {"it would not make the context smaller"}
    assert all(r.strategy == "rounds" and r.ids for r in report.refused)


def test_report_is_json_for_whoever_keeps_it() -> None:
    memory = AutoContextMemory(rounds_only(prices={"input": 1.0}), ScriptedModel(BILLED))
    memory.add_messages(day(4))
    report = memory.compress_if_needed(force=True)
    assert CompressionReport.model_validate(json.loads(report.model_dump_json())) == report


def test_cost_is_reckoned_from_configured_prices_per_million_tokens() -> None:
    memory = AutoContextMemory(rounds_only(prices={"input": 0.4, "output": 1.6}), ScriptedModel(BILLED))
    memory.add_messages(day(4))
    report = memory.compress_if_needed(force=True)
    assert report.cost == pytest.approx(3 * (1_000 * 0.4 + 100 * 1.6) / 1_000_000)


def test_usage_adds_up_over_the_passes() -> None:
    memory = AutoContextMemory(rounds_only(prices={"input": 0.4, "output": 1.6}), ScriptedModel(BILLED))
    reports = with_reports(memory)
    for _ in range(3):
        memory.add_messages(day(4))
        memory.compress_if_needed(force=True)
    usage = memory.usage
    assert usage.passes == 3
    assert usage.model_calls == sum(r.model_calls for r in reports) == 11
    assert (usage.input_tokens, usage.output_tokens, usage.seconds) == (11_000, 1_100, 5.5)
    assert usage.cost == pytest.approx(sum(r.cost or 0 for r in reports))
    assert usage.tokens_saved == sum(r.tokens_before - r.tokens_after for r in reports)


# ------------------------------------------------------------------------------------------------------------- undo
def test_undo_puts_the_originals_back_byte_for_byte_and_once() -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."))
    memory.add_messages(added := day(4))
    memory.compress_if_needed(force=True)
    uuids = list(memory.get_offload_context())
    assert memory.messages != added
    assert [memory.undo(uuid) for uuid in uuids] == [True] * 3
    assert memory.messages == added
    assert [memory.undo(uuid) for uuid in uuids] == [False] * 3
    assert memory.undo("unknown") is False
    check(memory)


def test_undo_is_an_entry_like_any_other_and_outlives_the_process() -> None:
    store = InMemorySessionStore()
    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."), store=store, session_id="s")
    memory.add_messages(day(4))
    memory.compress_if_needed(force=True)
    memory.undo(next(iter(memory.get_offload_context())))
    again = AutoContextMemory(rounds_only(), store=store, session_id="s")
    assert again.messages == memory.messages
    assert len(notes(again)) == 2


# -------------------------------------------------------------------------------------------------------- listeners
@pytest.mark.parametrize("how", ["sync", "async"])
def test_listeners_hear_of_every_pass_and_a_failure_of_one_is_logged_not_raised(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(_: CompressionReport) -> None:
        raise RuntimeError("the dashboard is down")

    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."))
    memory.on_compression(failing)
    reports = with_reports(memory)
    memory.add_messages(day(4))
    with caplog.at_level(logging.ERROR, logger="autocontext"):
        if how == "sync":
            report = memory.compress_if_needed(force=True)
        else:
            report = asyncio.run(memory.acompress_if_needed(force=True))
    assert reports == [report]
    assert "the dashboard is down" in caplog.text


def test_listeners_that_were_taken_away_hear_nothing_more() -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."))
    reports: list[CompressionReport] = []
    stop = memory.on_compression(reports.append)
    memory.add_messages(day(4))
    memory.compress_if_needed(force=True)
    stop()
    memory.add_messages(day(4))
    memory.compress_if_needed(force=True)
    assert len(reports) == 1


def test_a_listener_is_taken_away_once_however_often_it_is_stopped() -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."))
    reports: list[CompressionReport] = []
    stop = memory.on_compression(reports.append)
    memory.on_compression(reports.append)
    stop()
    stop()
    memory.add_messages(day(4))
    memory.compress_if_needed(force=True)
    assert len(reports) == 1


def test_a_listener_may_use_the_memory() -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."))
    seen: list[int] = []
    memory.on_compression(lambda _: seen.append(len(memory.get_messages())))
    memory.add_messages(day(4))
    memory.compress_if_needed(force=True)
    assert seen == [len(memory.messages)]


# ------------------------------------------------------------------------------------------- reset loses the plan
class LivePlan:
    """A plan object of the agent's own, which changes in place."""

    name = "Repair the shop"
    description = "Repair the shop."
    expected_outcome = "Orders work."

    def __init__(self) -> None:
        self.subtasks = [SubTask(name="Find the error", state="in_progress"), SubTask(name="Fix it")]


def test_the_plan_is_read_live_at_each_pass_and_never_from_an_old_summary() -> None:
    model = ScriptedModel("In short.")
    plan = LivePlan()
    memory = AutoContextMemory(rounds_only(), model, plan=plan)
    memory.add_messages(day(2))
    memory.compress_if_needed(force=True)
    plan.subtasks = [SubTask(name="Find the error", state="done"), SubTask(name="Fix it", state="in_progress")]
    memory.add_messages(day(2))
    memory.compress_if_needed(force=True)
    first, last = model.requests[0].prompt, model.requests[-1].prompt
    assert "In progress: Find the error\nDone: 0 of 2" in first
    assert "In progress: Fix it\nDone: 1 of 2" in last
    assert "Find the error" not in last
    assert last.endswith("Expected outcome: Orders work.\n</plan_aware_hint>")
    memory.attach_plan_note(None)
    memory.add_messages(day(2))
    memory.compress_if_needed(force=True)
    assert "plan_aware_hint" not in model.requests[-1].prompt


def test_the_plan_survives_a_clear_and_a_load() -> None:
    model = ScriptedModel("In short.")
    memory = AutoContextMemory(rounds_only(), model, plan=Plan(name="Repair the shop"))
    memory.add_messages(day(2))
    memory.load_state_dict(memory.state_dict())
    memory.compress_if_needed(force=True)
    memory.clear()
    memory.add_messages(day(2))
    memory.compress_if_needed(force=True)
    assert ["Goal: Repair the shop" in r.prompt for r in model.requests] == [True, True]


def test_a_plan_object_that_fails_costs_the_summaries_not_the_turn() -> None:
    class Broken(LivePlan):
        @property
        def description(self) -> str:
            raise RuntimeError("the plan service is down")

    memory = AutoContextMemory(small(), ScriptedModel("In short."), plan=Broken())
    memory.add_messages([*day(20), user("And now?")])
    context = memory.get_messages()
    assert memory.token_count <= 2_000
    assert context[-1].text == "And now?"
    assert_valid_chat(context)
