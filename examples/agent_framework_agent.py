"""An agent-framework agent whose requests stay small: AutoContextCompaction among its context providers.

Offline, against a scripted model:   python examples/agent_framework_agent.py
With a real one:                     OPENAI_API_KEY=sk-... python examples/agent_framework_agent.py
Needs the extra `agent-framework` (and `pip install agent-framework-openai` for a real model).
"""

import asyncio
import itertools
import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)

from autocontext.adapters.agent_framework import AutoContextCompaction

DAYS = itertools.count(1)
QUESTIONS = ("Which disks failed on days 1 to 12? Read the logs.", "Which disk failed on the third day?")


def log(day: int) -> str:
    """The log of one day: about 20 KB, with one line that matters."""
    lines = [f"day {day} {n // 60:02}:{n % 60:02} request handled, nothing unusual to report" for n in range(350)]
    return "\n".join([*lines[:200], f"day {day} ALERT disk {day * 37 % 100} failed", *lines[200:]])


@tool(approval_mode="never_require")
def read_log(day: int) -> str:
    """Read the log of one day."""
    return log(day)


class ScriptedChatClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Plays the model: reads twelve logs; asked for the third day, it looks it up with context_reload."""

    async def _inner_get_response(self, *, messages: Sequence[Message], **_: Any) -> ChatResponse[Any]:
        context = json.dumps([m.to_dict() for m in messages])
        last = json.dumps(messages[-1].to_dict())
        if QUESTIONS[1] not in context:
            day = next(DAYS)
            return _call("read_log", {"day": day}) if day <= 12 else _say("A disk failed every day.")
        if messages[-1].role == "tool" and (match := re.search(r"day 3 ALERT disk (\d+)", last)):
            return _say(f"On the third day disk {match[1]} failed.")
        # The question is m1; its calls and logs are the messages up to m25, which marks in the context name.
        return _call("context_reload", {"working_context_offload_uuid": "m2-m25", "query": "day 3 ALERT disk"})


def _say(text: str) -> ChatResponse[Any]:
    return ChatResponse(messages=[Message("assistant", [text])])


def _call(name: str, arguments: dict[str, Any]) -> ChatResponse[Any]:
    call = Content.from_function_call(f"call_{os.urandom(8).hex()}", name, arguments=arguments)
    return ChatResponse(messages=[Message("assistant", [call])])


def chat_client() -> Any:
    """The scripted model, or a real one when there is a key."""
    if not os.environ.get("OPENAI_API_KEY"):
        return ScriptedChatClient()
    from agent_framework.openai import OpenAIChatCompletionClient  # noqa: PLC0415 (for a real model only)

    return OpenAIChatCompletionClient(model=os.environ.get("OPENAI_MODEL", "gpt-5-mini"))


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        for question in QUESTIONS:  # each with a new agent, as a new process would: the file holds the session
            compaction = AutoContextCompaction.open(Path(directory) / "agent.db", window="16k")
            prompt = "You look after a server."
            agent = Agent(chat_client(), prompt, tools=[read_log], context_providers=[compaction])
            response = await agent.run(question, session=agent.create_session(session_id="logs"))
            memory = compaction.memory("logs")
            print(f"{question}\n  {response.messages[-1].text}\n  {memory.token_count} tokens in view of", end=" ")
            print(f"{len(memory.get_original_memory_msgs())} messages, {len(memory.get_offload_context())} offloads")
            compaction.close()


if __name__ == "__main__":
    asyncio.run(main())
