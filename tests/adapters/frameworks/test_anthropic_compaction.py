"""Claude's two kinds of compaction with Anthropic's SDK, and compactions in the messages of frameworks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic.types.beta import BetaMessage, BetaMessageParam
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import TypeAdapter
from pydantic_ai import Agent
from pydantic_ai.messages import CompactionPart, ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.adapters.langchain_messages import from_langchain, to_langchain
from autocontext.adapters.pydantic_ai import AutoContextCapability
from autocontext.adapters.pydantic_ai_messages import from_pydantic_ai, to_pydantic_ai
from autocontext.messages import PINNED, compacted_by
from autocontext.testing import user
from tests.fakes.anthropic_server import ON_DEMAND, THRESHOLD, FakeAnthropic
from tests.fakes.sealing import seal

WORDS = "the lock in /srv/queue.py waits 30 s before it gives up; " * 10
MESSAGES: TypeAdapter[Any] = TypeAdapter(list[BetaMessageParam])
EDITS: Any = [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 300}}]


@pytest.fixture
def service() -> Iterator[FakeAnthropic]:
    with FakeAnthropic() as running:
        yield running


@pytest.fixture
def client(service: FakeAnthropic) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=service.base_url, api_key="test-key", max_retries=0) as made:
        yield made


def turn(client: anthropic.Anthropic, memory: AutoContextMemory, text: str, beta: str, **more: Any) -> BetaMessage:
    memory.add({"role": "user", "content": text})
    messages = memory.to_anthropic()
    MESSAGES.validate_python(messages)
    reply = client.beta.messages.create(model="m", max_tokens=99, messages=messages, betas=[beta], **more)
    memory.add(reply)
    return reply


@pytest.mark.parametrize("mode", ["keep", "instead"])
def test_threshold_compaction(client: anthropic.Anthropic, service: FakeAnthropic, mode: Any) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(1_000, provider_compaction=mode))
    asked = {"context_management": {"edits": EDITS}} if mode == "keep" else {}
    for n in range(9):
        turn(client, memory, f"{n}: {WORDS}", THRESHOLD, **asked)
    assert not service.refused
    first = service.requests[-1].body["messages"][0]["content"]
    assert ("compaction" in [block["type"] for block in first if isinstance(block, dict)]) is (mode == "keep")
    if mode == "keep":
        assert service.seen[-1][0].startswith("Summary of ")
        assert sum("Summary" in text for text in service.seen[-1]) == 1
        assert not any(event.event_type != "PROVIDER_COMPACTION" for event in memory.get_compression_events())
    assert len(memory.get_original_memory_msgs()) == 18


def test_compaction_on_demand(client: anthropic.Anthropic, service: FakeAnthropic) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(10_000))
    memory.add_message(user("Never push.", metadata={PINNED: True}))
    for n in range(2):
        for k in range(3):
            turn(client, memory, f"{n}{k}: {WORDS}", ON_DEMAND)
        reply = client.beta.messages.create(
            model="m",
            max_tokens=99,
            messages=memory.to_anthropic(),
            betas=[ON_DEMAND],
            compaction={"type": "summarize"},
        )
        assert reply.stop_reason == "compaction"
        memory.add(reply)
    turn(client, memory, "And now?", ON_DEMAND)
    assert not service.refused
    assert len(service.seen[-1]) == 3
    assert service.seen[-1][1:] == ["Never push.", "And now?"]
    assert len(memory.get_original_memory_msgs()) == 1 + 12 + 2 + 2


def test_the_service_refuses_what_the_memory_must_not_send(client: anthropic.Anthropic) -> None:
    good = {"type": "compaction", "content": "All.", "signature": seal("All.")}
    asked: Any = {"role": "user", "content": "Go."}
    wrong: dict[str, Any] = {
        "compaction_block_misplaced": [asked, {"role": "assistant", "content": [good]}, asked],
        "compaction_content_mismatch": [{"role": "assistant", "content": [{**good, "content": "None."}]}, asked],
        "compaction_signature_invalid": [{"role": "assistant", "content": [{**good, "signature": "x"}]}, asked],
        "compaction_block_ambiguous": [{"role": "assistant", "content": [good, good]}, asked],
    }
    for code, messages in wrong.items():
        with pytest.raises(anthropic.BadRequestError) as refused:
            client.beta.messages.create(model="m", max_tokens=9, messages=messages, betas=[ON_DEMAND])
        body: Any = refused.value.body
        assert body["error"]["details"]["error_code"] == code
    with pytest.raises(anthropic.BadRequestError, match="Extra inputs"):
        client.beta.messages.create(model="m", max_tokens=9, messages=[{**asked, "id": "msg_1"}])


def test_pydantic_ai_s_compaction_parts() -> None:
    readable = CompactionPart(content="Summary.", provider_name="anthropic")
    details = {"encrypted_content": "gAAA" * 100, "type": "compaction"}
    encrypted = CompactionPart(id="cmp_1", provider_name="openai", provider_details=details)
    asked = ModelRequest(parts=[UserPromptPart("Go.")])
    for part, by in ((readable, "anthropic"), (encrypted, "openai")):
        messages: list[ModelMessage] = [asked, ModelResponse(parts=[part, TextPart("Going.")])]
        msgs = from_pydantic_ai(messages)
        assert [compacted_by(m) for m in msgs] == ["", by]
        assert to_pydantic_ai(msgs) == messages
    summary = ModelResponse(parts=[CompactionPart(content="By an application.")])
    assert not compacted_by(from_pydantic_ai([summary])[0])


def test_an_agent_of_pydantic_ai_goes_on_from_a_compaction() -> None:
    seen: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        compaction = [CompactionPart(content="Summary.", provider_name="anthropic")] if len(seen) == 2 else []
        return ModelResponse(parts=[*compaction, TextPart(f"Answer {len(seen)}.")])

    capability = AutoContextCapability(config=AutoContextConfig.for_window(10_000))
    agent = Agent(FunctionModel(answer), capabilities=[capability])

    async def ask() -> None:
        for question in ("One?", "Two?", "Three?"):
            await agent.run(question, conversation_id="42")

    asyncio.run(ask())
    first, *rest = seen[-1]
    assert isinstance(first.parts[0], CompactionPart)
    assert [type(m) for m in rest] == [ModelRequest]
    assert len(capability.memory("42").get_original_memory_msgs()) == 6


def test_langchain_s_compaction_blocks() -> None:
    block = {"type": "compaction", "content": "Summary."}
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA" * 100}
    for part, by in ((block, "anthropic"), (item, "openai")):
        messages = [HumanMessage("Go.", id="1"), AIMessage([part, {"type": "text", "text": "Going."}], id="2")]
        msgs = from_langchain(messages)
        assert [compacted_by(m) for m in msgs] == ["", by]
        assert to_langchain(msgs) == messages
