"""The plan in a rendering: as plan tools have made it, or as it is attached."""

import re
from collections.abc import Iterable
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.messages import ToolUseBlock
from autocontext.notes.page import CALLS, PLAN
from autocontext.notes.work import WorkLedger
from autocontext.plan import Plan, PlanLike, SubTask, current_plan, is_plan_call
from autocontext.testing import tool_result, user
from tests.notes.desks import calls, use
from tests.notes.pages import page
from tests.notes.readings import parts_of
from tests.profiles import share


def plan_lines(plan: PlanLike | None, calls: Iterable[ToolUseBlock]) -> list[str]:
    """The current plan, its name and a line per subtask."""
    name, steps = current_plan(plan, calls)
    return [f"{name or 'Plan'}:", *(f"- {task}: {state}" for task, state in steps)] if name or steps else []


def lines(*uses: ToolUseBlock) -> list[str]:
    return plan_lines(None, uses)


CREATED = use(
    "p0",
    "create_plan",
    name="Port the parser",
    description="d",
    expected_outcome="e",
    subtasks=[{"name": "Read"}, {"name": "Write", "state": "todo"}, {"name": "Test"}],
)


def test_agentscope_plan_tools() -> None:
    assert lines(CREATED) == ["Port the parser:", "- Read: todo", "- Write: todo", "- Test: todo"]
    begun = (CREATED, use("p1", "update_subtask_state", subtask_idx=0, state="in_progress"))
    assert lines(*begun)[1] == "- Read: in_progress"
    done = (*begun, use("p2", "finish_subtask", subtask_idx=0, subtask_outcome="read"))
    assert lines(*done)[1:3] == ["- Read: done", "- Write: todo"]
    added = use("p3", "revise_current_plan", subtask_idx=1, action="add", subtask={"name": "Think"})
    assert lines(*done, added)[2:4] == ["- Think: todo", "- Write: todo"]
    revised = use(
        "p4", "revise_current_plan", subtask_idx=1, action="revise", subtask={"name": "Plan", "state": "done"}
    )
    assert lines(*done, added, revised)[2] == "- Plan: done"
    deleted = use("p5", "revise_current_plan", subtask_idx=2, action="delete")
    assert lines(*done, added, deleted)[1:] == ["- Read: done", "- Think: todo", "- Test: todo"]
    renamed = use("p6", "update_plan_info", name="Port it all")
    assert lines(*done, renamed)[0] == "Port it all:"
    assert lines(*done, use("p7", "finish_plan", state="done", outcome="ok")) == []


def test_places_beyond_the_plan_change_nothing() -> None:
    for at in (-1, 3, 99, True, "3", "first", "9" * 5_000, None):
        for name in ("update_subtask_state", "finish_subtask", "revise_current_plan"):
            assert lines(CREATED, use("x", name, subtask_idx=at, state="done", action="delete")) == lines(CREATED)


@pytest.mark.parametrize("at", ["0", " 0 "])
def test_a_place_may_be_a_text(at: str) -> None:
    assert lines(CREATED, use("p1", "finish_subtask", subtask_idx=at))[1] == "- Read: done"
    added = use("p2", "revise_current_plan", subtask_idx=at, action="add", subtask={"name": "Think"})
    assert lines(CREATED, added)[1:3] == ["- Think: todo", "- Read: todo"]


STEPS = (("Read", "completed"), ("Write", "in_progress"))
LISTS: dict[str, dict[str, Any]] = {
    tool: {**more, argument: [{key: step, "status": state} for step, state in STEPS]}
    for tool, argument, key, more in (
        ("TodoWrite", "todos", "content", {}),
        ("write_todos", "todos", "content", {}),
        ("update_plan", "plan", "step", {"explanation": "why"}),
        ("task_tracker", "task_list", "title", {"command": "plan"}),
        ("todo_list", "items", "description", {}),
        ("updateTasks", "tasks", "title", {}),
        ("set_to-do", "items", "name", {}),
        ("mcp__work__ToDo_write", "items", "name", {}),
        ("planner", "items", "task", {}),
    )
}
"""The tool, the argument with the list, and what names a step: Claude Code, LangChain, Codex, OpenHands, others."""


def test_lists_of_other_frameworks() -> None:
    for name, arguments in LISTS.items():
        call = use("t", name, **arguments)
        assert is_plan_call(call), name
        assert lines(call) == ["Plan:", "- Read: completed", "- Write: in_progress"], name


def test_lists_that_are_no_plans() -> None:
    for arguments in (
        {"items": [{"name": "pen", "quantity": 2}]},
        {"items": [{"name": "pen", "status": "delivered"}]},
        {"tasks": ["a", "b"]},
        {"steps": 3},
        {"todos": []},
        {"plan": "first this, then that"},
        {"subtasks": [{"name": ""}]},
    ):
        assert not is_plan_call(use("t", "create_order", **arguments)), arguments
    for name in ("update_orders", "post_to_mastodon", "list_planets", "order_items", "explain"):
        for argument in ("items", "tasks"):
            call = use("t", name, **{argument: [{"name": "Widget A-17", "status": "open"}]})
            assert not is_plan_call(call), name
            assert lines(CREATED, call) == lines(CREATED), name


def test_the_newest_list_counts_and_no_change_is_told_of_it() -> None:
    messages = [user("Go.")]
    for state in ("pending", "completed"):
        messages += [
            calls("", use(state, "TodoWrite", todos=[{"content": "Write the parser", "status": state}])),
            tool_result(state, "Todos have been modified"),
        ]
    parts = parts_of(page(WorkLedger.of(messages), 2_000, len))
    assert parts[PLAN] == ["> - Write the parser: completed"]
    assert CALLS not in parts


def test_a_list_that_was_refused_does_not_count() -> None:
    messages = [
        calls("", use("a", "TodoWrite", todos=[{"content": "Write", "status": "pending"}])),
        tool_result("a", "ok"),
        calls("", use("b", "TodoWrite", todos=[{"content": "Write", "status": "completed"}])),
        tool_result("b", "Error: status is unknown", is_error=True),
    ]
    text = page(WorkLedger.of(messages), 2_000, len)
    assert "- Write: pending" in text
    assert "- Write: completed" not in text


FAILURES = (
    "Error: the plan has open subtasks",
    '{"error": "no plan"}',
    "错误：没有这个计划",
    "Traceback (most recent call last):\nKeyError",
)


@pytest.mark.parametrize("output", FAILURES)
@pytest.mark.parametrize(
    "call",
    [
        use("x", "finish_plan"),
        use("x", "finish_subtask", subtask_idx=0),
        use("x", "create_plan", name="Rest", subtasks=[{"name": "Sleep"}]),
    ],
    ids=lambda call: call.name,
)
def test_a_call_that_failed_changes_no_plan(call: ToolUseBlock, output: str) -> None:
    """Many services mark no result as an error."""
    made = [user("Go."), calls("", CREATED), tool_result("p0", "ok")]
    failed = WorkLedger.of([*made, calls("", call), tool_result("x", output)])
    assert parts_of(page(failed, 2_000, len))[PLAN] == parts_of(page(WorkLedger.of(made), 2_000, len))[PLAN]
    done = WorkLedger.of([*made, calls("", call), tool_result("x", "ok")])
    assert parts_of(page(done, 2_000, len)).get(PLAN) != parts_of(page(failed, 2_000, len))[PLAN]


class State(Enum):
    DONE = "done"
    IN_PROGRESS = "in_progress"


def test_an_attached_plan_goes_before_what_tools_say() -> None:
    plan = Plan(name="Ship it", subtasks=(SubTask(name="Pack", state="done"), SubTask(name="Send")))
    expected = ["Ship it:", "- Pack: done", "- Send: todo"]
    assert plan_lines(plan, [CREATED]) == expected
    text = page(WorkLedger.of([calls("", CREATED), tool_result("p0", "ok")]), 2_000, len, plan=plan)
    assert [line.removeprefix("> ") for line in parts_of(text)[PLAN]] == expected


def test_any_object_with_a_name_and_subtasks_is_a_plan() -> None:
    tasks = [
        SimpleNamespace(name="Pack", state=State.DONE),
        SimpleNamespace(name="Send", state="SubTaskState.IN_PROGRESS"),
    ]
    plan = SimpleNamespace(name="Ship it", description="", expected_outcome="", subtasks=tasks)
    assert plan_lines(plan, []) == ["Ship it:", "- Pack: done", "- Send: in_progress"]
    plan.subtasks = [{"name": "Pack", "state": State.DONE}, {"title": "Send", "status": "in_progress"}]
    assert plan_lines(plan, []) == ["Ship it:", "- Pack: done", "- Send: in_progress"]
    assert plan_lines(SimpleNamespace(name="Idle", description="", expected_outcome="", subtasks=None), []) == ["Idle:"]


@pytest.mark.slow
def test_a_plan_stands_in_the_context_after_folds() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(3_000))
    memory.add_messages([user("Do it."), calls("", CREATED), tool_result("p0", "ok")])
    for i in range(80):
        memory.add_messages(
            [calls("", use(f"c{i}", "read_file", path=f"src/{i}.py")), tool_result(f"c{i}", f"line {i}\n" * 60)]
        )
        memory.get_messages()
    text = "\n".join(m.text for m in memory.messages)
    assert "Port the parser:" in text
    assert text.count("- Write: todo") == 1


def plan_calls() -> st.SearchStrategy[ToolUseBlock]:
    step = st.fixed_dictionaries(
        {"name": st.sampled_from(("Read", "Write"))}, optional={"state": st.sampled_from(("done", "todo"))}
    )
    names = (
        "create_plan",
        "revise_current_plan",
        "update_subtask_state",
        "finish_subtask",
        "finish_plan",
        "view_subtasks",
    )
    arguments = st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(("Ship", "")),
            "subtasks": st.lists(step, max_size=3),
            "subtask": st.one_of(step, st.just("text"), st.none()),
            "subtask_idx": st.one_of(st.integers(-2, 4), st.just("1")),
            "action": st.sampled_from(("add", "revise", "delete", "?")),
            "state": st.sampled_from(("done", "in_progress", 3)),
        },
    )
    return st.builds(
        lambda name, given_: ToolUseBlock(id="x", name=name, input=given_), st.sampled_from(names), arguments
    )


@given(st.lists(plan_calls(), max_size=8))
def test_any_plan_calls_make_lines(uses: list[ToolUseBlock]) -> None:
    made = plan_lines(None, uses)
    assert all(line.startswith("- ") and ": " in line for line in made[1:])
    assert not made or made[0].endswith(":")
    messages = [Msg(role="assistant", content=(u,)) for u in uses]
    assert page(WorkLedger.of(messages), 2_000, len) is not None


STATES = ("done", "completed", "cancelled", "todo", "in_progress", "blocked", "failed")
OPEN = {"todo", "in_progress", "blocked", "failed"}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    states = draw(st.lists(st.sampled_from(STATES), min_size=1, max_size=12))
    words = draw(st.integers(1, 12))
    steps = [SubTask(name=f"step{n} " + "word " * words, state=state) for n, state in enumerate(states)]
    return Plan(name=draw(st.sampled_from(("", "Ship it"))), subtasks=tuple(steps))


def busy(rules: int) -> list[Msg]:
    """A history in which rules, changes and calls compete for the room."""
    messages = [user(" ".join(f"Never touch file_{n}.py, whatever happens." for n in range(rules)))]
    for n in range(8):
        name = "edit_file" if n % 2 else "read_file"
        messages += [calls("", use(f"c{n}", name, path=f"src/{n}.py")), tool_result(f"c{n}", f"value_{n} = {n}\n" * 9)]
    return messages


@settings(max_examples=share(100))
@given(plans(), st.integers(0, 900), st.sampled_from((0, 1, 30)), st.booleans())
def test_every_open_step_is_in_the_note_or_counted_and_goes_after_the_closed_ones(
    plan: Plan, budget: int, rules: int, attached: bool
) -> None:
    messages = busy(rules)
    if not attached:
        steps = [{"name": s.name, "state": s.state} for s in plan.subtasks]
        messages += [calls("", use("p", "create_plan", name=plan.name, subtasks=steps)), tool_result("p", "ok")]
    text = page(WorkLedger.of(messages), budget, len, plan=plan if attached else None)
    assert len(text) <= budget
    lines = parts_of(text).get(PLAN, [])
    if budget >= len("Plan:\n... and 12 more steps (12 open)"):
        assert lines
    if not lines:
        return
    shown = {int(n) for line in lines for n in re.findall(r"^> - step(\d+)", line)}
    hidden = set(range(len(plan.subtasks))) - shown
    still_open = {n for n in hidden if plan.subtasks[n].state in OPEN}
    more = [line for line in lines if line.startswith("...")]
    if hidden:
        left_out = f"... and {len(hidden)} more step{'s' * (len(hidden) > 1)}"
        assert more == [left_out + (f" ({len(still_open)} open)" if still_open else "")]
        assert lines[-1] == more[0]
    else:
        assert more == []
    if still_open:
        assert not [n for n in shown if plan.subtasks[n].state not in OPEN], "closed steps go first"


def test_open_steps_stand_before_a_flood_of_rules() -> None:
    plan = Plan(name="", subtasks=(SubTask(name="a", state="done"), SubTask(name="b")))
    for budget in (150, 300, 600):
        text = page(WorkLedger.of(busy(rules=60)), budget, len, plan=plan)
        assert "> - b: todo" in parts_of(text)[PLAN]


def test_a_plan_note_that_is_condensed_again_keeps_its_open_steps() -> None:
    """Runs of tools become notes, and a later strategy of the same pass folds these."""
    steps = [{"name": "read all", "state": "done"}, {"name": "write the report", "state": "todo"}]
    memory = AutoContextMemory(AutoContextConfig(msg_threshold=12, last_keep=2, max_token=1_500, ledger_ratio=0.1))
    memory.add_messages([user("Do it."), calls("", use("p", "create_plan", name="", subtasks=steps))])
    memory.add_messages([tool_result("p", "ok")])
    for i in range(12):
        memory.add_messages(
            [calls("", use(f"c{i}", "read_file", path=f"src/{i}.py")), tool_result(f"c{i}", f"line {i}\n" * 40)]
        )
    memory.add_messages(
        [Msg(role="assistant", content="All read."), user("Go on."), Msg(role="assistant", content="?")]
    )
    memory.add_messages([user("Go on, please.")])
    memory.compress_if_needed()
    text = "\n".join(m.text for m in memory.messages)
    assert "- write the report: todo" in text


def test_a_note_has_no_older_plan_where_a_whole_list_is_in_view() -> None:
    def listed(id_: str, state: str) -> list[Msg]:
        steps = [{"content": "Read", "status": "completed"}, {"content": "Ausliefern", "status": state}]
        return [calls("", use(id_, "todo_write", todos=steps)), tool_result(id_, "ok")]

    first, newest = listed("a", "pending"), listed("b", "in_progress")
    ledger = WorkLedger.of([user("Go on."), *first, *newest])
    assert PLAN in page(ledger, shown=[])
    assert PLAN not in page(ledger, only={2, 3}, shown=newest)
