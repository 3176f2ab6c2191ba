"""Every type of message, part and item that the installed SDKs know: taken, kept as it is, and sent."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.extras import need

need("openai")
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam, ResponseOutputItem
from openai.types.responses.response_input_item_param import ItemReference

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool
from autocontext.errors import InvalidMessage
from autocontext.formats.blocks import carried_text
from autocontext.formats.objects import without_objects
from autocontext.formats.openai_chat import from_openai, to_openai
from autocontext.formats.openai_responses import from_responses, to_responses
from tests.every_part import instances, members, name_of
from tests.kept_parts import Kept, check_kept


def _named(owner: str, name: str) -> Any:
    if (name == "image_url" and "InputImage" in owner) or (name == "url" and owner == "ImageURL"):
        return "https://e.org/a.png"
    if name == "arguments" and "Function" in owner:  # others go into requests as an object that holds them
        return "{}"
    if name == "id" and owner != "ItemReference":
        return "fc_1" if "Function" in owner else "msg_1" if "Message" in owner else None
    return None


def _chats() -> Iterable[Any]:
    for message in instances(ChatCompletionMessageParam, _named):
        if "tool_calls" in message and "function_call" in message:  # a message has one of them
            yield {k: v for k, v in message.items() if k != "tool_calls"}
            yield {k: v for k, v in message.items() if k != "function_call"}
        else:
            yield message


def _items() -> Iterable[Any]:
    for item in instances(ResponseInputItemParam, _named):
        # Only the output of a tool that has a name goes without a call.
        yield {**item, "name": "f"} if item == {"type": "function_call_output", "output": "x"} else item


CHATS, ITEMS = list(_chats()), list(_items())
OUTPUTS = list(instances(ResponseOutputItem, _named))
DUMPED = [output.model_dump(mode="json", by_alias=True) for output in OUTPUTS]
"""As programs store them: with a null for what is not there."""


def _before(part: Any) -> list[Any]:
    """The call that a result answers."""
    if part.get("role") == "function":
        return [{"role": "assistant", "content": "", "function_call": {"name": part["name"], "arguments": "{}"}}]
    function = {"name": "f", "arguments": "{}"}
    if part.get("role") == "tool":
        return [
            {
                "role": "assistant",
                "tool_calls": [{"id": part["tool_call_id"], "type": "function", "function": function}],
            }
        ]
    if (kind := str(part.get("type"))).endswith("_output") and part.get("call_id"):
        call = kind.removesuffix("_output").removesuffix("_call") + "_call"
        return [{**item, "call_id": part["call_id"]} for item in ITEMS if item.get("type") == call][:1]
    return []


ANSWERS: dict[Any, dict[str, Any]] = {
    "computer_call": {
        "type": "computer_call_output",
        "output": {"type": "computer_screenshot", "image_url": "https://e.org/a.png"},
    },
    "local_shell_call": {"type": "local_shell_call_output", "id": "x", "output": "{}"},
    "shell_call": {"type": "shell_call_output", "output": []},
    "tool_search_call": {"type": "tool_search_output", "tools": []},
}
"""Of calls that are sent as a text without their own kind of result, as it takes none that says what happened."""


def _output(item: Any) -> list[Any]:
    """The item; reasoning and some calls never stand alone."""
    if item.get("type") in ANSWERS and item.get("call_id"):
        return [item, {"call_id": item["call_id"], **ANSWERS[item["type"]]}]
    return [item, {"role": "assistant", "content": "Done."}] if item.get("type") == "reasoning" else [item]


SILENT = {"role": "assistant"}
"""It says nothing, and services refuse it."""
CHAT = Kept(
    from_openai,
    to_openai,
    AutoContextMemory.to_openai,
    _before,
    shown=lambda part, view: part in view or part == SILENT,
)
RESPONSES = Kept(from_responses, to_responses, AutoContextMemory.to_responses, _before, message=_output)


def test_the_types_are_walked() -> None:
    assert len(CHATS) >= 20
    assert {name_of(item) for item in ITEMS} > {
        "mcp_call",
        "shell_call_output",
        "additional_tools",
        "program",
        "message",
    }
    assert len({name_of(item) for item in ITEMS}) >= len(members(ResponseInputItemParam)) - 4
    assert ItemReference in members(ResponseInputItemParam)


@pytest.mark.parametrize(("kept", "parts"), [(CHAT, CHATS), (RESPONSES, ITEMS)], ids=["chat", "responses"])
def test_every_part_is_kept(kept: Kept, parts: list[Any], tmp_path: Path) -> None:
    check_kept(kept, parts, tmp_path / "a.db")


@pytest.mark.parametrize("parts", [CHATS, ITEMS, DUMPED], ids=["chat", "items", "dumped"])
def test_every_part_can_be_added(parts: list[Any]) -> None:
    for part in parts:
        memory = AutoContextMemory()
        memory.add(part)
        assert len(memory) == 1
        memory.to_openai(), memory.to_responses(), memory.to_anthropic()


def test_every_output_of_the_service_can_be_added_as_it_is() -> None:
    for output in OUTPUTS:
        memory = AutoContextMemory()
        item = without_objects(output)
        memory.add([*_before(item), output, *_output(item)[1:], {"role": "assistant", "content": "Done."}])
        view = memory.to_responses()
        # One that lacks what the request's type needs is told.
        assert item in view or {"role": "assistant", "content": carried_text(item, item["type"])} in view


def test_the_output_of_no_tool_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="call_id: is missing"):
        AutoContextMemory().add({"type": "function_call_output", "output": "x"})


def test_the_words_of_a_part_that_no_block_stands_for_are_counted_and_read() -> None:
    memory = AutoContextMemory()
    output = "The key is under the mat. " * 400
    call = {"type": "mcp_call", "id": "mcp_1", "name": "ask", "arguments": "{}", "server_label": "s", "output": output}
    memory.add(call)
    assert memory.token_count > 2_000
    assert output[:2_000] in ContextOffloadTool(memory)("m1")
    assert output in str(memory.to_anthropic())
    assert memory.to_responses() == [call]


def test_tools_that_a_request_adds_stay_in_view() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    tools = {"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]}
    memory.add([{"role": "user", "content": "Hello."}, tools])
    for _ in range(12):
        memory.add([{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "word " * 1_000}])
        assert tools in memory.to_responses()
    assert memory.get_compression_events()


def test_data_is_not_read_as_words() -> None:
    picture = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBORw0KGgo=" * 100}
    assert carried_text(picture, picture["type"]) == "[image_generation_call]\nresult: (1,200 characters of data)"
    assert carried_text({"type": "x", "a": {"b": [picture["result"], None, "c"]}, "e": None, "id": 1}, "x") == (
        '[x]\na: {"b": ["(1,200 characters of data)", null, "c"]}'
    )


def test_a_part_that_an_earlier_version_stored_is_still_that_part() -> None:
    part = {"type": "document_url", "document_url": "https://example.org/a.pdf"}
    [msg] = from_openai([{"role": "user", "content": [part]}])
    [block] = msg.content
    earlier = msg.model_copy(update={"content": (block.model_copy(update={"text": "[document_url]"}),)})
    assert to_openai([earlier]) == [{"role": "user", "content": [part]}]
