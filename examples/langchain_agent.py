"""A LangChain agent whose requests stay small: AutoContextMiddleware in create_agent.

Offline, against a scripted model:   python examples/langchain_agent.py
With a real one:                     OPENAI_API_KEY=sk-... python examples/langchain_agent.py
Needs the extra `langchain` (and `pip install langchain-openai` for a real model).
"""

import itertools
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from autocontext.adapters.langchain import AutoContextMiddleware

DAYS = itertools.count(1)


@tool
def read_log(day: int) -> str:
    """Read the log of one day."""
    lines = [f"day {day} {n // 60:02}:{n % 60:02} request handled, nothing unusual to report" for n in range(350)]
    return "\n".join([*lines[:200], f"day {day} ALERT disk {day * 37 % 100} failed", *lines[200:]])


class ScriptedChatModel(BaseChatModel):
    """Plays the model: reads twelve logs; asked for the third day, it looks it up with context_reload."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> "ScriptedChatModel":  # noqa: ARG002 (the base's form)
        """The script knows its tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        question = next(m.text for m in reversed(messages) if m.type == "human" and m.text.startswith("Which"))
        last = messages[-1]
        if "third" not in question:
            day = next(DAYS)
            return _call("read_log", {"day": day}) if day <= 12 else AIMessage("A disk failed every day.")
        if last.type == "tool" and (match := re.search(r"day 3 ALERT disk (\d+)", last.text)):
            return AIMessage(f"On the third day disk {match[1]} failed.")
        # The question is m1; its calls and logs are the messages up to m25, which marks in the context name.
        return _call("context_reload", {"working_context_offload_uuid": "m2-m25", "query": "day 3 ALERT disk"})


def _call(name: str, args: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call_{os.urandom(8).hex()}"}])


def chat_model() -> BaseChatModel:
    """The scripted model, or a real one when there is a key."""
    if not os.environ.get("OPENAI_API_KEY"):
        return ScriptedChatModel()
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 (for a real model only)

    return ChatOpenAI(model=os.environ.get("OPENAI_MODEL", "gpt-5-mini"))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        middleware = AutoContextMiddleware.open(Path(directory) / "agent.db", window="16k")
        agent = create_agent(
            chat_model(), [read_log], system_prompt="You look after a server.", middleware=[middleware]
        )
        thread: Any = {"configurable": {"thread_id": "logs"}, "recursion_limit": 100}
        questions = ("Which disks failed on days 1 to 12? Read the logs.", "Which disk failed on the third day?")
        for question in questions:
            state = agent.invoke({"messages": [{"role": "user", "content": question}]}, thread)
            memory = middleware.memory("logs")
            print(f"{question}\n  {state['messages'][-1].text}\n  {memory.token_count} tokens in view of", end=" ")
            print(f"{len(memory.get_original_memory_msgs())} messages, {len(memory.get_offload_context())} offloads")
        middleware.close()


if __name__ == "__main__":
    main()
