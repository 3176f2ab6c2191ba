"""Chat messages in pydantic-ai's form and back, for the policies of libraries that build on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from chat import Chat, Tokens, content_text
from peer_notes import Notes
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from running import run

TRIGGER = 0.75
"""Of the window, as with langchain: system messages included, with room for the reply."""


class History:
    """A history of pydantic-ai's messages that grows by the chat's and is processed before each request."""

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count, self.notes = window, count, Notes(window, count)
        self.model = FunctionModel(self._answer)
        self.messages: list[ModelMessage] = []
        self._system: list[Chat] = []
        self._calls: dict[str, Chat] = {}

    def step(self, new: list[Chat]) -> list[Chat]:
        self._system += [m for m in new if m["role"] == "system"]
        self.messages += self._converted(new)
        self.messages = run(self.processed(self.messages))
        return [*self._system, *(chat for message in self.messages for chat in self._chat(message))]

    async def processed(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """What the next request holds, and the history from then on."""
        raise NotImplementedError

    def room(self, share: float = TRIGGER) -> int:
        """Tokens that the messages may have: a share of the window without the system messages."""
        return max(1, int(share * self.window) - self.count(self._system))

    def transcript(self, prompt: str) -> tuple[str, str]:
        """What a library asks its model, parted into the instruction and the texts to summarise."""
        raise NotImplementedError

    def _answer(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        prompt = "\n".join(
            str(part.content)
            for message in messages
            if isinstance(message, ModelRequest)
            for part in message.parts
            if isinstance(part, UserPromptPart)
        )
        instruction, text = self.transcript(prompt)
        return ModelResponse(parts=[TextPart(self.notes.of([text], instruction) or "-")])

    def tokens(self, messages: Sequence[ModelMessage]) -> int:
        """Counted as the benchmark counts."""
        return self.count(chat for message in messages for chat in self._chat(message))

    def _converted(self, new: Iterable[Chat]) -> Iterator[ModelMessage]:
        """Results of one turn, and what a user says then, are one request."""
        parts: list[Any] = []
        for message in new:
            text = content_text(message)
            if message["role"] == "assistant":
                if parts:
                    yield ModelRequest(parts=parts)
                    parts = []
                answer: list[Any] = [TextPart(text)] if text else []
                for call in message.get("tool_calls") or ():
                    self._calls[call["id"]] = call
                    function = call["function"]
                    arguments = function.get("arguments") or "{}"
                    answer.append(ToolCallPart(function["name"], arguments, tool_call_id=call["id"]))
                yield ModelResponse(parts=answer or [TextPart("")])
            elif message["role"] == "tool":
                id_ = message["tool_call_id"]
                name = message.get("name") or (self._calls[id_]["function"]["name"] if id_ in self._calls else "tool")
                parts.append(ToolReturnPart(name, text, tool_call_id=id_))
            elif message["role"] == "user":
                parts.append(UserPromptPart(text))
        if parts:
            yield ModelRequest(parts=parts)

    def _chat(self, message: ModelMessage) -> Iterator[Chat]:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    yield {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response_str()}
                elif isinstance(part, (UserPromptPart, CompactionPart, SystemPromptPart)):
                    role = "system" if isinstance(part, SystemPromptPart) else "user"
                    content = part.content
                    if not isinstance(content, str):
                        content = "\n".join(getattr(c, "content", str(c)) for c in content or ())
                    yield {"role": role, "content": content}
            return
        text = "\n".join(part.content for part in message.parts if isinstance(part, TextPart))
        calls = [self._call(part) for part in message.parts if isinstance(part, ToolCallPart)]
        yield {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}

    def _call(self, part: ToolCallPart) -> Chat:
        known = self._calls.get(part.tool_call_id)
        arguments = part.args if isinstance(part.args, str) else json.dumps(part.args or {}, ensure_ascii=False)
        if known and (known["function"].get("arguments") or "{}") == arguments:
            return known
        function = {"name": part.tool_name, "arguments": arguments}
        return {"id": part.tool_call_id, "type": "function", "function": function}

    @property
    def note_tokens(self) -> int:
        """What a paid model would have read."""
        return self.notes.read
