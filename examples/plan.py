"""A plan that steers the summaries: each request to the summarising model ends with what the agent is working towards.

Usage: python examples/plan.py
"""

from autocontext import AutoContextConfig, AutoContextMemory, Msg, Plan, SubTask, ToolResultBlock, ToolUseBlock
from autocontext.testing import ScriptedModel

PLAN = Plan(
    name="Move to Python 3.13",
    description="Make the service run on Python 3.13.",
    expected_outcome="All tests pass on 3.13.",
    subtasks=(
        SubTask(name="Replace cgi", state="done"),
        SubTask(name="Update the Docker image", state="in_progress"),
        SubTask(name="Run the tests", state="todo"),
    ),
)


def exchange(number: int, tool: str, **arguments: str) -> list[Msg]:
    """A tool call and its result."""
    result = ToolResultBlock(id=f"call_{number}", name=tool, output=f"{tool} went well, step {number}. " * 20)
    return [
        Msg(role="assistant", content=[ToolUseBlock(id=f"call_{number}", name=tool, input=arguments)]),
        Msg(role="tool", content=[result]),
    ]


def main() -> None:
    model = ScriptedModel("Replaced cgi by urllib in a.py; the image is being updated.")
    config = AutoContextConfig(msg_threshold=10, last_keep=2, min_compression_token_threshold=0)
    memory = AutoContextMemory(config, model, plan=PLAN)
    memory.add_message(Msg(role="user", content="Move the service to Python 3.13."))
    memory.add_messages(exchange(0, "create_plan", name=PLAN.name))
    for number in range(1, 6):
        memory.add_messages(exchange(number, "edit_file", path=f"{number}.py"))
    memory.add_messages(exchange(6, "finish_subtask", name="Replace cgi"))
    memory.add_message(Msg(role="assistant", content="cgi is gone."))
    memory.add_message(Msg(role="user", content="Go on."))

    report = memory.compress_if_needed()
    asked = model.requests[0].prompt
    hint = asked[asked.index("<plan_aware_hint>") :]
    print(hint)
    assert report
    assert "Update the Docker image" in hint
    # Plan tools are not summarised: the note says only which were called.
    assert "create_plan" not in asked.replace(hint, "")
    note = next(msg.text for msg in memory.messages if "[plan:" in msg.text)
    print(note)
    assert "[plan: create_plan, finish_subtask]" in note


if __name__ == "__main__":
    main()
