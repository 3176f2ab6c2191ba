"""An AgentScope 1 agent whose requests stay small: AutoContextAgentScopeMemory, attached in one line.

Offline, against a scripted model:   python examples/agentscope_v1_agent.py
With a real one:                     OPENAI_API_KEY=sk-... python examples/agentscope_v1_agent.py
Needs the extra `agentscope1`, in an environment of its own.
"""

import asyncio
import itertools
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, TextBlock, ToolUseBlock
from agentscope.model import ChatModelBase, ChatResponse, OpenAIChatModel
from agentscope.tool import Toolkit, ToolResponse

from autocontext.adapters.agentscope_v1 import AutoContextAgentScopeMemory

DAYS = itertools.count(1)
QUESTIONS = ("Which disks failed on days 1 to 12? Read the logs.", "Which disk failed on the third day?")


def log(day: int) -> str:
    """The log of one day: about 20 KB, with one line that matters."""
    lines = [f"day {day} {n // 60:02}:{n % 60:02} request handled, nothing unusual to report" for n in range(350)]
    return "\n".join([*lines[:200], f"day {day} ALERT disk {day * 37 % 100} failed", *lines[200:]])


def read_log(day: int) -> ToolResponse:
    """Read the log of one day.

    Args:
        day (int): The day, from 1 on.

    """
    return ToolResponse(content=[TextBlock(type="text", text=log(day))])


class ScriptedChatModel(ChatModelBase):
    """Plays the model: reads twelve logs; asked for the third day, it looks it up with context_reload."""

    async def __call__(self, messages: list[dict[str, Any]], **_: Any) -> ChatResponse:
        """Answer messages in OpenAI's form."""
        last = str(messages[-1]["content"])
        if QUESTIONS[1] not in str(messages):
            day = next(DAYS)
            return _call("read_log", {"day": day}) if day <= 12 else _say("A disk failed every day.")
        if messages[-1]["role"] == "tool" and (match := re.search(r"day 3 ALERT disk (\d+)", last)):
            return _say(f"On the third day disk {match[1]} failed.")
        # The question is m1; its calls and logs are the messages up to m25, which marks in the context name.
        return _call("context_reload", {"working_context_offload_uuid": "m2-m25", "query": "day 3 ALERT disk"})


def _say(text: str) -> ChatResponse:
    return ChatResponse(content=[TextBlock(type="text", text=text)])


def _call(name: str, arguments: dict[str, Any]) -> ChatResponse:
    return ChatResponse(
        content=[ToolUseBlock(type="tool_use", id=f"call_{os.urandom(8).hex()}", name=name, input=arguments)]
    )


def chat_model() -> ChatModelBase:
    """The scripted model, or a real one when there is a key."""
    key = os.environ.get("OPENAI_API_KEY")
    return (
        OpenAIChatModel(os.environ.get("OPENAI_MODEL", "gpt-5-mini"), api_key=key)
        if key
        else ScriptedChatModel("scripted", stream=False)
    )


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        for question in QUESTIONS:  # each with a new agent, as a new process would: the file holds the session
            toolkit = Toolkit()
            toolkit.register_tool_function(read_log)
            prompt = "You look after a server."
            agent = ReActAgent("agent", prompt, chat_model(), OpenAIChatFormatter(), toolkit, max_iters=50)
            agent.set_console_output_enabled(enabled=False)
            attached = AutoContextAgentScopeMemory.open(Path(directory) / "agent.db", window="16k", session_id="logs")
            memory = attached.attach(agent).memory
            answer = await agent(Msg("user", question, "user"))
            print(f"{question}\n  {answer.get_text_content()}\n  {memory.token_count} tokens in view of", end=" ")
            print(f"{len(memory.get_original_memory_msgs())} messages, {len(memory.get_offload_context())} offloads")
            attached.close()


if __name__ == "__main__":
    asyncio.run(main())
