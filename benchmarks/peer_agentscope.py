"""AgentScope 2's context compression as a policy, with its defaults.

Above 80 % of the window a summary takes the place of everything but the newest tenth.
Tuned: above 90 %, the most that it allows, and half of the window stays.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from agentscope.agent import Agent, ContextConfig, InjectionConfig
from agentscope.credential import OpenAICredential
from agentscope.message import AssistantMsg, TextBlock, ToolCallBlock, ToolResultBlock, UserMsg
from agentscope.model import OpenAIChatModel, StructuredResponse
from chat import Chat, Tokens, content_text
from peer_notes import Notes
from running import run

REQUIRES = ("agentscope>=2.0.11,<3",)
POLICIES = {
    "agentscope 2": "AgentScope2",
    "agentscope 2, tuned": "AgentScope2Tuned",
}

logging.getLogger("as").setLevel(logging.CRITICAL)


def text_of(block: Any) -> str:
    """What a model reads of a block."""
    if block.type == "text":
        return str(block.text)
    if block.type == "tool_call":
        return f"{block.name} {block.input}"
    if block.type == "tool_result":
        return block.output if isinstance(block.output, str) else "\n".join(part.text for part in block.output)
    hint = getattr(block, "hint", "")
    return hint if isinstance(hint, str) else ""


class Summariser(OpenAIChatModel):
    """Counts as the benchmark counts, writes summaries in this process, and refuses what is longer than the window."""

    notes: Notes
    count: Tokens

    async def count_tokens(self, messages: Sequence[Any], tools: Any = None) -> int:  # noqa: ARG002 (its contract)
        return sum(4 + sum(self.count.text(text_of(block)) for block in m.content) for m in messages)

    async def generate_structured_output(self, messages: Sequence[Any], structured_model: Any, **_: Any) -> Any:
        if await self.count_tokens(messages) > self.context_size:
            raise RuntimeError("longer than the window")
        # The first message is the system prompt, the last one asks for the summary.
        note = self.notes.of(text_of(block) for m in messages[1:-1] for block in m.content)
        # From 2.0.10 on it is a JSON schema; an error here would be taken for a model's, and truncation done instead.
        known = structured_model["properties"] if isinstance(structured_model, dict) else structured_model.model_fields
        fields = dict.fromkeys(known, "-")
        return StructuredResponse(content={**fields, "important_discoveries": note})


class AgentScope2:
    """An agent's state that grows by the chat's messages and is compressed as before a call of its model."""

    ratios: dict[str, float] = {}  # noqa: RUF012 (read only)

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count = window, count
        self.notes = Notes(window, count)
        self.refused = 0
        """Summaries that were longer than the window."""
        self._system: list[Chat] = []
        self.agent: Agent | None = None

    def step(self, new: list[Chat]) -> list[Chat]:
        self._system += [m for m in new if m["role"] == "system"]
        agent = self.agent = self.agent or self._make()
        for message in new:
            self._add(agent.state.context, message)
        try:
            run(agent.compress_context())
        except RuntimeError:
            self.refused += 1
        return list(self._context(agent))

    def _make(self) -> Agent:
        credential = OpenAICredential(api_key="none", base_url="http://127.0.0.1:9/v1")
        model = Summariser(credential=credential, model="none", stream=False, context_size=self.window)
        model.notes, model.count = self.notes, self.count
        prompt = "\n".join(map(content_text, self._system)) or "-"
        return Agent(
            name="agent", system_prompt=prompt, model=model, context_config=ContextConfig(**self.ratios),
            injection_config=InjectionConfig(inject_runtime_state=False),
        )  # fmt: skip

    @staticmethod
    def _add(context: list[Any], message: Chat) -> None:
        """A turn of the assistant, its calls and their results, is one message there."""
        text = content_text(message)
        if message["role"] == "user":
            context.append(UserMsg("user", text or " "))
            return
        if message["role"] == "system":
            return
        blocks: list[Any] = []
        if message["role"] == "tool":
            id_, name = message["tool_call_id"], message.get("name") or "tool"
            blocks.append(ToolResultBlock(id=id_, name=name, output=text, state="success"))
        else:
            blocks += [TextBlock(text=text)] if text else []
            for call in message.get("tool_calls") or ():
                function = call["function"]
                arguments = function.get("arguments") or "{}"
                blocks.append(ToolCallBlock(id=call["id"], name=function["name"], input=arguments, state="finished"))
        if context and context[-1].role == "assistant":
            context[-1].content = [*context[-1].content, *blocks]
        elif blocks:
            context.append(AssistantMsg("agent", blocks))

    def _context(self, agent: Agent) -> Iterator[Chat]:
        yield from self._system
        if summary := agent.state.summary:
            yield {"role": "user", "content": summary if isinstance(summary, str) else "\n".join(map(text_of, summary))}
        for message in agent.state.context:
            if message.role == "user":
                yield {"role": "user", "content": "\n".join(map(text_of, message.content))}
            else:
                yield from _turn(message.content)

    @property
    def note_tokens(self) -> int:
        """What a paid model would have read."""
        return self.notes.read


class AgentScope2Tuned(AgentScope2):
    """Later, and more stays."""

    ratios = {"trigger_ratio": 0.9, "reserve_ratio": 0.5}  # noqa: RUF012 (read only)


def _turn(blocks: Iterable[Any]) -> Iterator[Chat]:
    """The blocks of one message in chat form: an assistant message, its results, the next one."""
    now: Chat | None = None
    for block in blocks:
        if block.type == "tool_result":
            if now is not None:
                yield now
            now = None
            yield {"role": "tool", "tool_call_id": block.id, "content": text_of(block)}
            continue
        now = now or {"role": "assistant", "content": ""}
        if block.type == "text":
            now["content"] += block.text
        elif block.type == "tool_call":
            function = {"name": block.name, "arguments": block.input}
            now.setdefault("tool_calls", []).append({"id": block.id, "type": "function", "function": function})
    if now is not None:
        yield now
