"""The OpenAI Agents SDK's sessions and its filter that keep a history small, as policies.

`OpenAIResponsesCompactionSession` asks the service to compact at the end of a run, once there are ten items that are
no words of the user; the service keeps those and one encrypted item, in place of which a note stands here. In between,
a run grows. `openai-agents-context-compaction` is a session that shows the newest items when a run begins: 30, as in
its documentation. `ToolOutputTrimmer` is a filter before each call: of large results, but for those since the user's
last but one message, 200 characters stay.
Tuned: both sessions are called before each call of the model, as a loop of one's own may do, and by tokens: compacted
above 75 % of the window, and the newest items that fill the window.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx2
from agents import Agent, SQLiteSession
from agents.extensions import ToolOutputTrimmer
from agents.memory import OpenAIResponsesCompactionSession
from agents.run import CallModelData, ModelInputData
from chat import Chat, Tokens, content_text, visible_text
from openai import AsyncOpenAI
from openai_agents_context_compaction import LocalCompactionSession
from peer_notes import Notes
from running import run

REQUIRES = ("openai-agents>=0.24", "openai-agents-context-compaction>=0.3")
POLICIES = {
    "openai-agents CompactionSession": "Compaction",
    "openai-agents CompactionSession, tuned": "CompactionTuned",
    "openai-agents ToolOutputTrimmer": "Trimmed",
    "openai-agents-context-compaction": "Local",
    "openai-agents-context-compaction, tuned": "LocalTuned",
}

logging.getLogger("openai.agents").setLevel(logging.CRITICAL)
logging.getLogger("openai_agents_context_compaction").setLevel(logging.CRITICAL)
_TRIGGER = 0.75


def to_items(message: Chat) -> Iterator[dict[str, Any]]:
    """A message as items of the Responses API."""
    text = content_text(message)
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": text}
        return
    if text or not message.get("tool_calls"):
        yield {"role": message["role"], "content": text}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield {
            "type": "function_call",
            "call_id": call["id"],
            "name": function["name"],
            "arguments": function.get("arguments") or "{}",
        }


def to_chat(items: list[dict[str, Any]]) -> Iterator[Chat]:
    """Items in chat form; the calls behind one another and the text before them are one message."""
    now: Chat | None = None
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            now = now or {"role": "assistant", "content": ""}
            function = {"name": item["name"], "arguments": item["arguments"]}
            now.setdefault("tool_calls", []).append({"id": item["call_id"], "type": "function", "function": function})
            continue
        if now is not None:
            yield now
            now = None
        if kind == "function_call_output":
            yield {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
        elif kind == "compaction":
            yield {"role": "assistant", "content": item["encrypted_content"]}
        else:
            content = item["content"]
            text = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
            message = {"role": item["role"], "content": text}
            if item["role"] == "assistant":
                now = message
            else:
                yield message
    if now is not None:
        yield now


class Sessions:
    """A session that grows by the chat's messages."""

    every_call = False
    """Whether it is looked after before each call of the model, not only between runs."""

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count, self.notes = window, count, Notes(window, count)
        self._stored = SQLiteSession("replay", ":memory:")
        self._system: list[Chat] = []
        self._run: list[dict[str, Any]] = []
        """What the model is shown in this run."""

    async def begin(self) -> list[dict[str, Any]]:
        """The items of the session that the model is shown."""
        raise NotImplementedError

    async def end(self) -> None:
        """What happens after a run."""

    def step(self, new: list[Chat]) -> list[Chat]:
        self._system += [m for m in new if m["role"] == "system"]
        run(self._take(new))
        return [*self._system, *to_chat(self._run)]

    async def _take(self, new: list[Chat]) -> None:
        for message in new:
            if message["role"] == "system":
                continue
            items = list(to_items(message))
            await self._stored_in.add_items(items)
            self._run += items
            if message["role"] == "assistant" and not message.get("tool_calls"):
                await self.end()
                self._run = list(await self.begin())
        if self.every_call:
            await self.end()
            self._run = list(await self.begin())

    @property
    def _stored_in(self) -> Any:
        """The session that the items are added to."""
        return self._stored

    def room(self, share: float) -> int:
        """A share of the window, without the system messages."""
        return max(1, int(share * self.window) - self.count(self._system))

    @property
    def note_tokens(self) -> int:
        """What a paid model would have read."""
        return self.notes.read

    def __del__(self) -> None:
        self._stored.close()


class Compaction(Sessions):
    """The service's compaction, over the real client whose transport is this process."""

    def __init__(self, window: int, count: Tokens) -> None:
        super().__init__(window, count)
        transport = httpx2.MockTransport(self._service)
        client = AsyncOpenAI(
            api_key="none", base_url="http://127.0.0.1:9/v1", http_client=httpx2.AsyncClient(transport=transport)
        )
        self._session = OpenAIResponsesCompactionSession("replay", self._stored, client=client, **self.options())

    def options(self) -> dict[str, Any]:
        """What its user sets."""
        return {}

    @property
    def _stored_in(self) -> Any:
        return self._session

    async def begin(self) -> list[Any]:
        return await self._session.get_items()

    async def end(self) -> None:
        await self._session.run_compaction()

    def _service(self, request: httpx2.Request) -> httpx2.Response:
        """The compacted window: the user's messages as they are, and one item of which only the service knows more."""
        items = json.loads(request.content)["input"]
        said = [item for item in items if item.get("role") == "user"]
        note = self.notes.of(visible_text(chat) for chat in to_chat(items))
        for n, item in enumerate(said):
            text = item["content"] if isinstance(item["content"], str) else item["content"][0]["text"]
            content = [{"type": "input_text", "text": text}]
            said[n] = {
                "type": "message", "id": f"msg_{n}", "role": "user", "status": "completed", "content": content
            }  # fmt: skip
        output = [*said, {"type": "compaction", "id": "cmp_1", "encrypted_content": note}]
        read = self.count(to_chat(items))
        usage = {
            "input_tokens": read, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": read + 1,
        }  # fmt: skip
        body = {"id": "resp_1", "object": "response.compaction", "created_at": 1, "output": output, "usage": usage}
        return httpx2.Response(200, json=body)


class CompactionTuned(Compaction):
    """The same, by tokens and before each call."""

    every_call = True

    def options(self) -> dict[str, Any]:
        return {"should_trigger_compaction": self._full}

    def _full(self, history: dict[str, Any]) -> bool:
        return self.count(to_chat(history["session_items"])) > self.room(_TRIGGER)


class Trimmed(Sessions):
    """The whole session, older results trimmed."""

    async def begin(self) -> list[Any]:
        return list(await self._stored.get_items())

    def step(self, new: list[Chat]) -> list[Chat]:
        super().step(new)
        data = ModelInputData(input=list(self._run), instructions=None)
        trimmed = ToolOutputTrimmer()(CallModelData(model_data=data, agent=Agent("agent"), context=None))
        return [*self._system, *to_chat(list(trimmed.input))]


class Local(Sessions):
    """The newest 30 items when a run begins."""

    async def begin(self) -> list[Any]:
        return await LocalCompactionSession(self._stored, **self.options()).get_items()

    def options(self) -> dict[str, Any]:
        """Its limits."""
        return {"window_size": 30}


class LocalTuned(Local):
    """The newest items that the window holds, before each call."""

    every_call = True

    def options(self) -> dict[str, Any]:
        return {"token_budget": self.room(1.0), "token_counter": self.count.text}
