"""The agent's plan for summaries, and the plan tools, whose calls are left out of transcripts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from autocontext.errors import ConfigError, short
from autocontext.messages import ContentBlock, Msg, ToolUseBlock, Value

PLAN_TOOLS = frozenset(
    {
        "create_plan", "update_plan_info", "revise_current_plan", "update_subtask_state", "finish_subtask",
        "view_subtasks", "get_subtask_count", "finish_plan", "view_historical_plans", "recover_historical_plan",
    }
)  # fmt: skip


class SubTask(Value):
    """One step of a plan; state is todo, in_progress, done or abandoned."""

    name: str
    description: str = ""
    expected_outcome: str = ""
    state: str = "todo"


class Plan(Value):
    """The agent's goal and its steps."""

    name: str
    description: str = ""
    expected_outcome: str = ""
    subtasks: tuple[SubTask, ...] = ()


_LISTED_STATES = {"pending": "todo", "in_progress": "in_progress", "completed": "done"}


def plan_of(name: str, steps: Iterable[tuple[str, str]]) -> Plan:
    """A framework's list of steps, each with its state, as a plan."""
    tasks = (SubTask(name=step, state=_LISTED_STATES.get(state, "todo")) for step, state in steps)
    return Plan(name=name, subtasks=tuple(tasks))


@runtime_checkable
class PlanLike(Protocol):
    """Any plan object; each pass reads it again, so it may change in place."""

    @property
    def name(self) -> str:
        """The plan's name."""

    @property
    def description(self) -> str:
        """The goal."""

    @property
    def expected_outcome(self) -> str:
        """How to know that it is reached."""

    @property
    def subtasks(self) -> Iterable[object]:
        """Steps with a `name` and a `state`, as attributes or as keys of a dict."""


def check_plan(field: str, value: object) -> None:
    """Raise ConfigError unless a value is None or has a plan's attributes.

    One whose attributes raise passes, too: that costs only a summary.
    """
    try:
        good = value is None or isinstance(value, PlanLike)
    except Exception:  # noqa: BLE001 (looking for an attribute reads it, and it may be any object's)
        return
    if not good:
        raise ConfigError(f"{field}: {short(value)} is not a plan; write Plan(name=..., subtasks=...)")


def plan_hint(plan: PlanLike | None) -> str:
    """The `<plan_aware_hint>` block that ends a prompt: goal, sub-tasks in progress, done/total, expected outcome."""
    if plan is None:
        return ""
    tasks = _subtasks_of(plan)
    active = [name for name, state in tasks if state == "in_progress"]
    lines = [f"Goal: {plan.description or plan.name}"]
    if active:
        lines.append("In progress: " + "; ".join(active))
    if tasks:
        lines.append(f"Done: {sum(state == 'done' for _, state in tasks)} of {len(tasks)}")
    if plan.expected_outcome:
        lines.append(f"Expected outcome: {plan.expected_outcome}")
    body = "\n".join(lines)
    return f"<plan_aware_hint>\nKeep above all what serves this plan.\n{body}\n</plan_aware_hint>"


def is_plan_block(block: ContentBlock) -> bool:
    """Whether a block is a call or a result of a plan tool."""
    # Two comparisons instead of `in`, so that mypy knows that the block has a name.
    return (block.type == "tool_use" or block.type == "tool_result") and block.name in PLAN_TOOLS  # noqa: PLR1714


_PLAN_LISTS = ("todos", "subtasks", "steps", "plan", "tasks", "items", "task_list", "todo_list")
"""Arguments for the whole list of steps in other frameworks' plan tools."""
_OF_ANYTHING = frozenset({"tasks", "items"})
"""Lists that are a plan's only where the tool is named like a plan: an order has items, too, that are open or done."""
_NAMED_LIKE_A_PLAN = re.compile(
    r"(?:(?<![a-zA-Z])(?i:plan|to[_-]?do|task|step|checklist)|(?<=[a-z])(?:Plan|To[Dd]o|Task|Step|Checklist))"
    r"(?:s|ner|ning)?(?![a-z])"
)
_DIGITS = re.compile(r"\s*[0-9]{1,9}\s*")
_CLOSED = frozenset({"done", "completed", "complete", "finished", "abandoned", "canceled", "cancelled", "skipped"})
_STATES = _CLOSED | {
    "todo", "pending", "open", "not_started", "not-started", "planned", "in_progress", "in-progress", "in progress",
    "active", "running", "blocked", "failed",
}  # fmt: skip
"""States of steps; other lists, such as an order's items, have none of these."""


def is_plan_call(block: ToolUseBlock) -> bool:
    """Whether a call makes or changes a plan: one of `PLAN_TOOLS`, or a tool with a list of steps with states."""
    return block.name in PLAN_TOOLS or lists_steps(block)


def lists_steps(call: ToolUseBlock) -> bool:
    """Whether a call lists the steps of a plan, each with its state."""
    return any(_state(_state_of(step)) in _STATES for step in _steps_of(call) if _state_of(step))


def _steps_of(call: ToolUseBlock) -> Sequence[Mapping[str, Any]]:
    """The steps in a call's arguments, if any."""
    if call.input.keys().isdisjoint(_PLAN_LISTS):  # nearly all calls
        return ()
    for key in _PLAN_LISTS:
        if key in _OF_ANYTHING and not _NAMED_LIKE_A_PLAN.search(call.name):
            continue
        steps = call.input.get(key)
        if isinstance(steps, list | tuple) and steps and all(isinstance(s, dict) and _step_name(s) for s in steps):
            return steps
    return ()


def _state_of(step: Mapping[str, Any]) -> object:
    return step.get("state") or step.get("status")


def _step_name(step: Mapping[str, Any]) -> str:
    keys = ("name", "content", "title", "step", "description", "task")
    return next((" ".join(str(step[k]).split()) for k in keys if step.get(k)), "")


def _state(value: object) -> str:
    """A state in lower case, also from an enum's "State.DONE"."""
    return str(value or "todo").rsplit(".", 1)[-1].lower()


def _subtasks_of(plan: PlanLike) -> list[tuple[str, str]]:
    """Name and state of each subtask, which may be a dict."""
    return [
        (_step_name(t), _state(_state_of(t)))
        if isinstance(t, Mapping)
        else (str(getattr(t, "name", "")), _state(getattr(t, "state", "")))
        for t in plan.subtasks or ()
    ]


def current_plan(plan: PlanLike | None, calls: Iterable[ToolUseBlock]) -> tuple[str, list[tuple[str, str]]]:
    """Name and steps (name, state) of the attached plan, otherwise of the one that the plan tools have made."""
    return (plan.name, _subtasks_of(plan)) if plan is not None else _plan_of(calls)


def is_open(state: str) -> bool:
    """Whether a step in this state is still to be done; one that failed is."""
    return state not in _CLOSED


def _plan_of(calls: Iterable[ToolUseBlock]) -> tuple[str, list[tuple[str, str]]]:
    """Name and steps of the plan that these calls made."""
    name, steps = "", list[tuple[str, str]]()
    for call in calls:
        arguments = call.input
        if items := _steps_of(call):
            steps = [(_step_name(s), _state(_state_of(s))) for s in items]
            name = str(arguments.get("name") or name)
        elif call.name in ("finish_plan", "recover_historical_plan"):
            name, steps = "", []
        elif (at := _place(arguments.get("subtask_idx"))) is not None:
            _revise(steps, at, call)
        elif arguments.get("name"):
            name = str(arguments["name"])
    return name, steps


def _place(value: object) -> int | None:
    """The index of a step; some models pass it as a text."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _revise(steps: list[tuple[str, str]], at: int, call: ToolUseBlock) -> None:
    """Apply a call that changes one step."""
    arguments, exists = call.input, 0 <= at < len(steps)
    action, given = arguments.get("action"), arguments.get("subtask")
    subtask = given if isinstance(given, dict) else {}
    new = _step_name(subtask), _state(subtask.get("state"))
    if call.name != "revise_current_plan":
        if exists:
            steps[at] = steps[at][0], "done" if call.name == "finish_subtask" else _state(arguments.get("state"))
    elif action == "delete":
        del steps[at : at + exists]
    elif new[0] and action == "add":
        steps.insert(max(0, at), new)
    elif new[0] and exists:
        steps[at] = new


def plan_line(messages: Iterable[Msg]) -> str:
    """The fixed line of a note about the plan tools that were called, with counts above 1; or ""."""
    names = [b.name for m in messages for b in m.content if b.type == "tool_use" and b.name in PLAN_TOOLS]
    if not names:
        return ""
    calls = Counter(names)
    return "[plan: " + ", ".join(name if n == 1 else f"{name} x{n}" for name, n in sorted(calls.items())) + "]"
