"""Every part that the installed frameworks know, through their adapters: taken, and given back as it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import agent_framework
import anthropic.types
import anthropic.types.beta
import langchain_core.messages.content as langchain
import pydantic_ai.messages as pydantic_ai
import pytest
from agents import TResponseInputItem
from agentscope import message as agentscope
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from autocontext import AutoContextMemory, Msg
from autocontext.adapters._agentscope_v2_messages import from_agentscope, to_agentscope
from autocontext.adapters.agent_framework import from_agent_framework, to_agent_framework
from autocontext.adapters.langchain_messages import from_langchain, to_langchain
from autocontext.adapters.openai_agents import AutoContextSession
from autocontext.adapters.pydantic_ai_messages import from_pydantic_ai, to_pydantic_ai
from autocontext.formats.anthropic_messages import from_anthropic, to_anthropic
from autocontext.formats.anthropic_rules import keep_marks
from autocontext.formats.objects import without_objects
from tests.every_part import OMIT, instances, members
from tests.kept_parts import Kept, check_kept

pytestmark = [
    pytest.mark.filterwarnings("ignore::agent_framework._feature_stage.ExperimentalWarning"),
    pytest.mark.filterwarnings("ignore:.*RetryPromptPart"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
URL = "https://example.org/a.png"


# -------------------------------------------------------------------------------------------------------- Anthropic
def _claude(part: Any) -> list[Any]:
    """The message that holds a part; thinking never stands alone."""
    [shown] = without_objects([part])
    kind = shown["type"]
    role = "user" if kind == "tool_result" or kind in _OF_USERS else "assistant"
    thinking = kind in ("thinking", "redacted_thinking")
    return [{"role": role, "content": [shown, *([{"type": "text", "text": "Done."}] if thinking else [])]}]


_OF_USERS = ("image", "document", "search_result", "container_upload")


def _claude_call(part: Any) -> list[Any]:
    [shown] = without_objects([part])
    if shown["type"] != "tool_result":
        return []
    return [{"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {}}]}]


def _in_claude_s_view(part: Any, view: list[Any]) -> bool:
    [shown] = deepcopy(without_objects([part]))
    keep_marks([shown], 2)  # the most that messages are sent with; a search result in a tool's result has three
    return any(shown in message["content"] for message in view if isinstance(message["content"], list))


CLAUDE = Kept(from_anthropic, to_anthropic, AutoContextMemory.to_anthropic, _claude_call, _claude, _in_claude_s_view)


def _claude_s() -> list[Any]:
    both = [anthropic.types.ContentBlockParam, anthropic.types.beta.BetaContentBlockParam, anthropic.types.ContentBlock]
    parts = [part for union in both for part in instances(union)]
    # Claude's API takes HTTPS addresses only; requests have a text for others.
    return [
        json.loads(json.dumps(p).replace('"url": "x"', f'"url": "{URL}"')) if isinstance(p, dict) else p for p in parts
    ]


def test_every_block_of_claude_is_kept(tmp_path: Path) -> None:
    parts = _claude_s()
    # A compaction takes all before it out of the view.
    check_kept(CLAUDE, [p for p in parts if without_objects([p])[0]["type"] != "compaction"], tmp_path / "a.db")


def test_every_block_of_claude_can_be_added() -> None:
    for part in _claude_s():
        memory = AutoContextMemory()
        memory.add([*_claude_call(part), *_claude(part)])
        view = memory.to_anthropic()
        [shown] = without_objects([part])
        # A text alone may be any provider's, and is sent as a text.
        assert _in_claude_s_view(part, view) or (
            shown["type"] == "text" and shown["text"] in [message["content"] for message in view]
        )
        memory.to_openai(), memory.to_responses()


# -------------------------------------------------------------------------------------------------- the frameworks
def requested(write: Callable[[list[Msg]], list[Any]]) -> Callable[[AutoContextMemory], list[Any]]:
    return lambda memory: write(memory.as_sent(memory.get_messages()))


def _langchain(make: Callable[[Any], BaseMessage], *calls: Any) -> Kept:
    call = AIMessage("", id="a", tool_calls=[{"name": "f", "args": {}, "id": c, "type": "tool_call"} for c in calls])
    before = [call] if calls else []
    done = {"type": "text", "text": "Done."}  # reasoning never stands alone
    return Kept(
        from_langchain,
        to_langchain,
        requested(to_langchain),
        before=lambda _part: before,
        message=lambda part: [make([part, done])],
    )


LANGCHAIN = {
    "user": _langchain(lambda content: HumanMessage(content, id="m")),
    "assistant": _langchain(lambda content: AIMessage(content, id="m")),
    "tool": _langchain(lambda content: ToolMessage(content, id="m", tool_call_id="c1", name="f"), "c1"),
}


@pytest.mark.parametrize("role", LANGCHAIN)
def test_every_block_of_langchain_is_kept(role: str, tmp_path: Path) -> None:
    parts = list(instances(langchain.ContentBlock))
    assert {part["type"] for part in parts} == langchain.KNOWN_BLOCK_TYPES
    check_kept(LANGCHAIN[role], parts, tmp_path / "a.db")


def test_a_message_of_a_class_of_one_s_own_is_one_of_its_base() -> None:
    class Question(HumanMessage):
        topic: str

    [msg] = from_langchain([Question("Why?", id="m", topic="x")])
    assert (msg.role, msg.text) == ("user", "Why?")
    assert to_langchain([msg]) == [HumanMessage("Why?", id="m", topic="x")]


def test_reasoning_of_langchain_is_thinking() -> None:
    own = {"type": "reasoning", "reasoning": "Hm."}
    of_responses = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
    [msg] = from_langchain([AIMessage([own, of_responses, {"type": "text", "text": "Yes."}])])
    assert [b.type for b in msg.content] == ["thinking", "thinking", "text"]
    assert msg.text == "Yes."


def _pydantic_ai(make: Callable[[Any], Any], before: Callable[[Any], list[Any]] = lambda _part: []) -> Kept:
    def dumped(message: Any) -> Any:
        return pydantic_ai.ModelMessagesTypeAdapter.dump_python([message], mode="json", warnings=False)

    return Kept(
        from_pydantic_ai,
        to_pydantic_ai,
        requested(to_pydantic_ai),
        before=before,
        message=lambda part: [make(part)],
        dumped=dumped,
    )


def _pydantic_ai_named(speaker: str) -> Callable[[str, str], Any]:
    kinds = ("ToolReturnPart", "NativeToolReturnPart", "ToolCallPart", "NativeToolCallPart")

    def named(owner: str, name: str) -> Any:
        if name == "tool_kind" and owner in kinds:
            return OMIT  # the kinds of parts that have one are parts of their own
        values = {"speaker": speaker, "url": URL, "start": 1, "end": 2, "timestamp": NOW, "tool_call_id": "c1"}
        return values.get(name)

    return named


def _called(part: Any) -> list[Any]:
    called = getattr(part, "tool_call_id", None)
    call = pydantic_ai.ToolCallPart("f", {}, tool_call_id=called or "")
    return [pydantic_ai.ModelResponse([call], timestamp=NOW)] if called else []


def _response(part: Any) -> Any:
    # Thinking never stands alone.
    return pydantic_ai.ModelResponse([part, pydantic_ai.TextPart("Done.")], timestamp=NOW)


def _return(content: Any) -> Any:
    return pydantic_ai.ModelRequest([pydantic_ai.ToolReturnPart("f", content, tool_call_id="c1", timestamp=NOW)])


def _prompt(content: Any) -> Any:
    return pydantic_ai.ModelRequest([pydantic_ai.UserPromptPart([content], timestamp=NOW)])


_A_CALL = pydantic_ai.ToolReturnPart("f", "", tool_call_id="c1")
PYDANTIC_AI = {
    "request": (pydantic_ai.ModelRequestPart, "user", _pydantic_ai(lambda p: pydantic_ai.ModelRequest([p]), _called)),
    "response": (pydantic_ai.ModelResponsePart, "assistant", _pydantic_ai(_response)),
    "prompt": (pydantic_ai.UserContent, "user", _pydantic_ai(_prompt)),
    "return": (pydantic_ai.UserContent, "user", _pydantic_ai(_return, lambda _part: _called(_A_CALL))),
    "returns": (pydantic_ai.UserContent, "user", _pydantic_ai(lambda p: _return([p]), lambda _part: _called(_A_CALL))),
}


@pytest.mark.parametrize("place", PYDANTIC_AI)
def test_every_part_of_pydantic_ai_is_kept(place: str, tmp_path: Path) -> None:
    union, speaker, kept = PYDANTIC_AI[place]
    parts = [p for p in instances(union, _pydantic_ai_named(speaker)) if type(p).__name__ != "RetryPromptPart"]
    assert len({type(p) for p in parts}) >= len(members(union)) - 1
    if place == "request":  # there it has no provider
        parts = [p for p in parts if not (isinstance(p, pydantic_ai.CompactionPart) and p.provider_name)]
    check_kept(kept, parts, tmp_path / "a.db")


def _agent_framework_parts() -> Iterable[Any]:
    content = agent_framework.Content
    text, image = content.from_text("x"), content.from_uri(URL, media_type="image/png")
    call = content.from_function_call("c9", "f", arguments={"a": 1})
    values = {"inputs": [text, image], "outputs": [text, image], "items": [text, image], "screenshot": image}
    values |= {"uri": URL, "function_call": call, "call_id": "c1"}
    makers = [getattr(content, n) for n in dir(content) if n.startswith("from_") and n != "from_dict"]
    for maker in makers:
        yield from instances(maker, lambda _owner, name: values.get(name))


def _agent_framework(role: str) -> Kept:
    def message(part: Any) -> list[Any]:
        done = agent_framework.Content.from_text("Done.")
        contents = [part] if role == "tool" else [part, done]  # thinking never stands alone
        return [agent_framework.Message(role, contents, message_id="m")]

    def before(part: Any) -> list[Any]:
        call = agent_framework.Content.from_function_call("c1", "f", arguments={})
        answers = part.type == "function_result"
        return [agent_framework.Message("assistant", [call], message_id="a")] if answers else []

    return Kept(
        from_agent_framework,
        to_agent_framework,
        requested(to_agent_framework),
        before=before,
        message=message,
        dumped=lambda m: m.to_dict(),
    )


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_every_content_of_agent_framework_is_kept(role: str, tmp_path: Path) -> None:
    parts = list(_agent_framework_parts())
    assert len({part.type for part in parts}) >= 26
    allowed = {"tool": lambda t: t == "function_result", "assistant": lambda t: t != "function_result"}
    check_kept(
        _agent_framework(role),
        [p for p in parts if allowed.get(role, lambda t: t not in ("function_result", "function_call"))(p.type)],
        tmp_path / "a.db",
    )


def _blocks(message: Any) -> Any:
    return [block.model_dump(mode="json") for block in message.content]


def _agentscope_call(block: Any) -> list[Any]:
    call = agentscope.ToolCallBlock(id=block.id, name="f", input="{}")
    return [agentscope.Msg(name="n", role="assistant", content=[call])] if block.type == "tool_result" else []


def test_every_block_of_agentscope_is_kept(tmp_path: Path) -> None:
    def shown(block: Any, view: list[Any]) -> bool:
        return any(block.model_dump(mode="json") in _blocks(message) for message in view)

    kept = Kept(
        from_agentscope,
        to_agentscope,
        requested(to_agentscope),
        before=_agentscope_call,
        message=lambda block: [agentscope.Msg(id="m", name="n", role="assistant", content=[block], created_at=STAMP)],
        shown=lambda block, view: block.type == "thinking" or shown(block, view),  # it never stands alone
        dumped=_blocks,
    )
    check_kept(kept, list(instances(agentscope.ContentBlock)), tmp_path / "a.db")


STAMP = NOW.isoformat()


# --------------------------------------------------------------------------------------------------- openai-agents
@pytest.mark.anyio
async def test_a_session_of_the_agents_sdk_holds_every_item() -> None:
    for item in instances(TResponseInputItem):
        session = AutoContextSession()
        await session.add_items([item])
        assert await session.get_items() == [item]
        assert await session.pop_item() == item
        assert await session.get_items() == []


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
