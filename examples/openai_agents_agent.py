"""An agent of the OpenAI Agents SDK whose requests stay small: AutoContextSession and its filter.

Offline, against a scripted model:   python examples/openai_agents_agent.py
With a real one:                     OPENAI_API_KEY=sk-... python examples/openai_agents_agent.py
Needs the extra `openai-agents`.
"""

import asyncio
import itertools
import json
import os
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from autocontext.adapters.openai_agents import AutoContextSession

DAYS = itertools.count(1)


@function_tool
def read_log(day: int) -> str:
    """Read the log of one day."""
    lines = [f"day {day} {n // 60:02}:{n % 60:02} request handled, nothing unusual to report" for n in range(350)]
    return "\n".join([*lines[:200], f"day {day} ALERT disk {day * 37 % 100} failed", *lines[200:]])


class ScriptedModel(Model):
    """Plays the model: reads twelve logs; asked for the third day, it looks it up with context_reload."""

    async def get_response(self, system_instructions: str | None, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002, ARG002 (the base's form)
        """Answer by what is shown."""
        return ModelResponse(output=[self._answer(input)], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Not needed here."""
        raise NotImplementedError

    def _answer(self, items: list[dict[str, Any]]) -> Any:
        questions = [str(item["content"]) for item in items if item.get("role") == "user"]
        question = next(text for text in reversed(questions) if text.startswith("Which"))
        if "third" not in question:
            day = next(DAYS)
            return _call("read_log", {"day": day}) if day <= 12 else _say("A disk failed every day.")
        result = str(items[-1].get("output", ""))
        if match := re.search(r"day 3 ALERT disk (\d+)", result):
            return _say(f"On the third day disk {match[1]} failed.")
        # The question is m1; its calls and logs are the messages up to m25, which marks in the context name.
        return _call("context_reload", {"working_context_offload_uuid": "m2-m25", "query": "day 3 ALERT disk"})


def _call(name: str, arguments: dict[str, Any]) -> ResponseFunctionToolCall:
    call_id = f"call_{os.urandom(8).hex()}"
    return ResponseFunctionToolCall(
        type="function_call", call_id=call_id, name=name, arguments=json.dumps(arguments), id=f"fc_{call_id}"
    )


def _say(text: str) -> ResponseOutputMessage:
    content: list[Any] = [ResponseOutputText(type="output_text", text=text, annotations=[])]
    return ResponseOutputMessage(
        type="message", id=f"msg_{os.urandom(8).hex()}", role="assistant", status="completed", content=content
    )


async def main() -> None:
    real = bool(os.environ.get("OPENAI_API_KEY"))
    set_tracing_disabled(disabled=not real)
    with tempfile.TemporaryDirectory() as directory:
        session = AutoContextSession.open(Path(directory) / "agent.db", window="16k", session_id="logs")
        agent = Agent(
            name="watcher",
            instructions="You look after a server.",
            model=os.environ.get("OPENAI_MODEL", "gpt-5-mini") if real else ScriptedModel(),
            tools=[read_log],
        )
        questions = ("Which disks failed on days 1 to 12? Read the logs.", "Which disk failed on the third day?")
        for question in questions:
            result = await session.run(agent, question, max_turns=100)
            memory = session.memory
            print(f"{question}\n  {result.final_output}\n  {memory.token_count} tokens in view of", end=" ")
            print(f"{len(memory.get_original_memory_msgs())} messages, {len(memory.get_offload_context())} offloads")
        session.close()


if __name__ == "__main__":
    asyncio.run(main())
