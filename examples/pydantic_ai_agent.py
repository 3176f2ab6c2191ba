"""A pydantic-ai agent whose requests stay small: AutoContextCapability, one conversation id, no message history.

Offline, against a scripted model:   python examples/pydantic_ai_agent.py
With a real one:                     OPENAI_API_KEY=sk-... python examples/pydantic_ai_agent.py
Needs the extra `pydantic-ai` (and `pip install 'pydantic-ai-slim[openai]'` for a real model).
"""

import asyncio
import itertools
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from autocontext.adapters.pydantic_ai import AutoContextCapability

DAYS = itertools.count(1)


def read_log(day: int) -> str:
    """Read the log of one day."""
    lines = [f"day {day} {n // 60:02}:{n % 60:02} request handled, nothing unusual to report" for n in range(350)]
    return "\n".join([*lines[:200], f"day {day} ALERT disk {day * 37 % 100} failed", *lines[200:]])


def scripted(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Plays the model: reads twelve logs; asked for the third day, it looks it up with context_reload."""
    parts = [part for message in messages for part in message.parts]
    questions = [str(part.content) for part in parts if isinstance(part, UserPromptPart)]
    question = next(text for text in reversed(questions) if text.startswith("Which"))
    last = parts[-1]
    if "third" not in question:
        day = next(DAYS)
        return _call("read_log", {"day": day}) if day <= 12 else _say("A disk failed every day.")
    result = str(last.content) if isinstance(last, ToolReturnPart) else ""
    if match := re.search(r"day 3 ALERT disk (\d+)", result):
        return _say(f"On the third day disk {match[1]} failed.")
    # The question is m1; its calls and logs are the messages up to m25, which marks in the context name.
    return _call("context_reload", {"working_context_offload_uuid": "m2-m25", "query": "day 3 ALERT disk"})


def _call(name: str, args: dict[str, Any]) -> ModelResponse:
    return ModelResponse([ToolCallPart(name, args)])


def _say(text: str) -> ModelResponse:
    return ModelResponse([TextPart(text)])


def chat_model() -> Any:
    """The scripted model, or the name of a real one when there is a key."""
    if not os.environ.get("OPENAI_API_KEY"):
        return FunctionModel(scripted)
    return f"openai:{os.environ.get('OPENAI_MODEL', 'gpt-5-mini')}"


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        capability = AutoContextCapability.open(Path(directory) / "agent.db", window="16k")
        agent = Agent(
            chat_model(), instructions="You look after a server.", tools=[read_log], capabilities=[capability]
        )
        questions = ("Which disks failed on days 1 to 12? Read the logs.", "Which disk failed on the third day?")
        for question in questions:
            result = await agent.run(question, conversation_id="logs")
            memory = capability.memory("logs")
            print(f"{question}\n  {result.output}\n  {memory.token_count} tokens in view of", end=" ")
            print(f"{len(memory.get_original_memory_msgs())} messages, {len(memory.get_offload_context())} offloads")
        capability.close()


if __name__ == "__main__":
    asyncio.run(main())
