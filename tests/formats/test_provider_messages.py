"""Provider's messages on their way into a memory."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextMemory
from tests.costs import python_calls

IDS = st.sampled_from(["a", "b", "c"])
TOOLS = st.sampled_from(["read", "write"])


def call(id_: str, tool: str) -> dict[str, Any]:
    function = {"name": tool, "arguments": "{}"}
    return {"role": "assistant", "tool_calls": [{"id": id_, "type": "function", "function": function}]}


def result(id_: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": "done"}


@given(st.lists(st.one_of(st.builds(call, IDS, TOOLS), st.builds(result, IDS)), max_size=12), st.data())
def test_a_result_has_the_tool_of_the_latest_call_before_it(
    messages: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Also if an id is used again, and however many messages are added at once."""
    memory, at = AutoContextMemory(), 0
    while at < len(messages):
        stop = data.draw(st.integers(at + 1, len(messages)))
        memory.add(messages[at:stop])
        at = stop
    names: dict[str, str] = {}
    for msg in memory.messages:
        for block in msg.tool_results:
            assert block.name == names.get(block.id, "")
        names.update((use.id, use.name) for use in msg.tool_uses)


def test_to_add_costs_the_same_in_a_long_session() -> None:
    def cost(calls: int) -> tuple[int, int]:
        memory = AutoContextMemory()
        for n in range(calls):
            memory.add([call(f"{n}", "read"), result(f"{n}")])
        call_alone = python_calls(lambda: memory.add(call("new", "read")))
        return call_alone, python_calls(lambda: memory.add(result("new")))

    assert cost(20) == cost(600)
