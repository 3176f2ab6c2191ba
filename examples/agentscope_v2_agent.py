"""An AgentScope 2 agent whose requests stay small: AutoContextMiddleware in Agent.

Offline, against a scripted model:   python examples/agentscope_v2_agent.py
With a real one:                     OPENAI_API_KEY=sk-... python examples/agentscope_v2_agent.py
Needs the extra `agentscope`.
"""

import asyncio
import itertools
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from agentscope.agent import Agent
from agentscope.credential import CredentialBase, OpenAICredential
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, TextBlock, ToolCallBlock, UserMsg
from agentscope.model import ChatModelBase, ChatResponse, OpenAIChatModel
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

from autocontext.adapters.agentscope_v2 import AutoContextMiddleware

DAYS = itertools.count(1)
QUESTIONS = ("Which disks failed on days 1 to 12? Read the logs.", "Which disk failed on the third day?")


def log(day: int) -> str:
    """The log of one day: about 20 KB, with one line that matters."""
    lines = [f"day {day} {n // 60:02}:{n % 60:02} request handled, nothing unusual to report" for n in range(350)]
    return "\n".join([*lines[:200], f"day {day} ALERT disk {day * 37 % 100} failed", *lines[200:]])


def read_log(day: int) -> str:
    """Read the log of one day."""
    return log(day)


class ScriptedChatModel(ChatModelBase):
    """Plays the model: reads twelve logs; asked for the third day, it looks it up with context_reload."""

    formatter = OpenAIChatFormatter()

    async def _call_api(self, _model_name: str, messages: list[Msg], **_: Any) -> ChatResponse:
        form = await self.formatter.format(messages)
        last = str(form[-1]["content"])
        if QUESTIONS[1] not in str(form):
            day = next(DAYS)
            return _call("read_log", {"day": day}) if day <= 12 else _say("A disk failed every day.")
        if form[-1]["role"] == "tool" and (match := re.search(r"day 3 ALERT disk (\d+)", last)):
            return _say(f"On the third day disk {match[1]} failed.")
        # The question is m1; its calls and logs are the messages up to m25, which marks in the context name.
        return _call("context_reload", {"working_context_offload_uuid": "m2-m25", "query": "day 3 ALERT disk"})


def _say(text: str) -> ChatResponse:
    return ChatResponse(content=[TextBlock(text=text)], is_last=True)


def _call(name: str, arguments: dict[str, Any]) -> ChatResponse:
    block = ToolCallBlock(id=f"call_{os.urandom(8).hex()}", name=name, input=json.dumps(arguments))
    return ChatResponse(content=[block], is_last=True)


def chat_model() -> ChatModelBase:
    """The scripted model, or a real one when there is a key."""
    if key := os.environ.get("OPENAI_API_KEY"):
        return OpenAIChatModel(OpenAICredential(api_key=key), os.environ.get("OPENAI_MODEL", "gpt-5-mini"))
    return ScriptedChatModel(CredentialBase(), "scripted", ChatModelBase.Parameters(), stream=False)


async def main() -> None:
    allow = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="It only reads.")
    with tempfile.TemporaryDirectory() as directory:
        for question in QUESTIONS:  # each with a new agent, as a new process would: the file holds the session
            middleware = AutoContextMiddleware.open(Path(directory) / "agent.db", window="16k")
            agent = Agent(
                name="agent",
                system_prompt="You look after a server.",
                model=chat_model(),
                toolkit=Toolkit(tools=[FunctionTool(read_log, permission=allow)]),
                middlewares=[middleware],
                state=AgentState(session_id="logs"),
            )
            answer = await agent.reply(UserMsg("user", question))
            memory = middleware.memory("logs")
            print(f"{question}\n  {answer.get_text_content()}\n  {memory.token_count} tokens in view of", end=" ")
            print(f"{len(memory.get_original_memory_msgs())} messages, {len(memory.get_offload_context())} offloads")
            middleware.close()


if __name__ == "__main__":
    asyncio.run(main())
