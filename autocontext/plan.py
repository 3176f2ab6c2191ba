"""The agent's plan, as far as a summary needs it, and the plan tools whose calls are kept out of transcripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from pydantic import Field

from autocontext.messages import ContentBlock, Msg, Value

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
    """What the agent is working towards."""

    name: str
    description: str = ""
    expected_outcome: str = ""
    subtasks: tuple[SubTask, ...] = Field(default=())


@runtime_checkable
class PlanLike(Protocol):
    """Any plan object: read anew at each pass, so it may change in place."""

    @property
    def name(self) -> str:
        """What the plan is called."""
        ...

    @property
    def description(self) -> str:
        """The goal."""
        ...

    @property
    def expected_outcome(self) -> str:
        """How to tell that it is reached."""
        ...

    @property
    def subtasks(self) -> Iterable[object]:
        """Steps with a `name` and a `state`."""
        ...


def plan_hint(plan: PlanLike | None) -> str:
    """The `<plan_aware_hint>` block that ends a prompt: goal, sub-tasks in progress, done/total, expected outcome."""
    if plan is None:
        return ""
    tasks = [(str(getattr(t, "name", "")), str(getattr(t, "state", ""))) for t in plan.subtasks or ()]
    tasks = [(name, state.rsplit(".", 1)[-1].lower()) for name, state in tasks]
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
    # Two comparisons, not `in`: only so does mypy know that the block has a name.
    return (block.type == "tool_use" or block.type == "tool_result") and block.name in PLAN_TOOLS  # noqa: PLR1714


def plan_line(messages: Iterable[Msg]) -> str:
    """The fixed line of a note that says which plan tools were called, and how often if more than once; or ""."""
    names = [b.name for m in messages for b in m.content if b.type == "tool_use" and b.name in PLAN_TOOLS]
    if not names:
        return ""
    calls = Counter(names)
    return "[plan: " + ", ".join(name if n == 1 else f"{name} x{n}" for name, n in sorted(calls.items())) + "]"
