"""A complete ReAct agent on plain OpenAI messages: your tools, the reload tool, a session that survives the process.

Offline, against a scripted model:   python examples/react_agent.py
With a real one:                     OPENAI_API_KEY=sk-... python examples/react_agent.py
(and OPENAI_BASE_URL, OPENAI_MODEL for any compatible service; needs the extra `openai`)
"""

import itertools
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autocontext import AutoContextConfig, AutoContextMemory, Msg, ToolResultBlock
from autocontext.adapters.openai_chat import from_openai
from autocontext.stores import SqliteSessionStore
from autocontext.tools import INSTRUCTIONS

Message = dict[str, Any]
Complete = Callable[[list[Message], list[Message]], Any]
MAX_STEPS = 60


class ReactAgent:
    """Thinks, calls tools, reads what they say, until it answers. `complete(messages, tools)` asks the model."""

    def __init__(
        self, complete: Complete, memory: AutoContextMemory, tools: Mapping[str, tuple[Message, Any]], system: str
    ) -> None:
        self.complete, self.memory = complete, memory
        self.system = {"role": "system", "content": f"{system}\n\n{INSTRUCTIONS}"}
        own = memory.tools() if memory.config.steering else memory.tools("reload")
        self.functions = {name: function for name, (_, function) in tools.items()} | {tool.name: tool for tool in own}
        self.schemas = [schema for schema, _ in tools.values()] + [tool.schema() for tool in own]
        memory.set_overhead(self.system["content"], *self.schemas)  # sent with each request, so it counts

    def ask(self, question: str | list[Message]) -> str:
        """Answer one question (a text, or a list of OpenAI content parts)."""
        self.memory.add_messages(from_openai([{"role": "user", "content": question}]))
        for _ in range(MAX_STEPS):
            # Compresses when it has to; a call that a crash has left without a result is answered.
            [reply] = from_openai([self.complete([self.system, *self.memory.to_openai()], self.schemas)])
            self.memory.add_message(reply)
            if not reply.tool_uses:
                return reply.text
            for use in reply.tool_uses:
                result = ToolResultBlock(id=use.id, name=use.name, output=self.call(use.name, use.input))
                self.memory.add_message(Msg(role="tool", content=[result]))
        return "I stopped after too many steps."

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What the tool says; an error is a result as well, so that the model can act on it."""
        try:
            return str(self.functions[name](**arguments))
        except Exception as e:  # noqa: BLE001 (whatever a tool raises)
            return f"Error: {type(e).__name__}: {e}"


# ----------------------------------------------------------------------------------------------- a tool, two models
def read_log(day: int) -> str:
    """The log of one day: about 20 KB, with one line that matters."""
    lines = [f"day {day} {n // 60:02}:{n % 60:02} request handled, nothing unusual to report" for n in range(350)]
    return "\n".join([*lines[:200], f"day {day} ALERT disk {day * 37 % 100} failed", *lines[200:]])


SCHEMA = {"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]}
TOOLS = {"read_log": ({"type": "function", "function": {"name": "read_log", "parameters": SCHEMA}}, read_log)}
DAYS = itertools.count(1)


def scripted(messages: list[Message], _tools: list[Message]) -> Message:
    """Plays the model: reads 12 days, then looks the third one up again, whose log is long out of view."""
    questions = [m["content"] for m in messages if m["role"] == "user" and m["content"].startswith("Which")]
    result = messages[-1]["content"] if messages[-1]["role"] == "tool" else ""
    if "third" not in questions[-1]:
        day = next(DAYS)
        return _call("read_log", {"day": day}) if day <= 12 else {"role": "assistant", "content": "Disks failed daily."}
    if match := re.search(r"day 3 ALERT disk (\d+)", result):
        return {"role": "assistant", "content": f"On the third day disk {match[1]} failed."}
    # The question is m1; its calls and logs are the messages up to m25, which marks in the context name.
    return _call("context_reload", {"working_context_offload_uuid": "m2-m25", "query": "day 3 ALERT disk"})


def _call(name: str, arguments: Message) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{os.urandom(8).hex()}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def real(messages: list[Message], tools: list[Message]) -> Any:
    from openai import OpenAI  # noqa: PLC0415 (an extra, for this function only)

    model = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
    asked: Any = {"model": model, "messages": messages, "tools": tools}
    return OpenAI().chat.completions.create(**asked).choices[0].message


def main() -> None:
    complete = real if os.environ.get("OPENAI_API_KEY") else scripted
    with tempfile.TemporaryDirectory() as directory:
        questions = ["Which disks failed on days 1 to 12? Read the logs.", "Which disk failed on the third day?"]
        for question in questions:  # each with a new memory, as a new process would: the file holds the session
            store = SqliteSessionStore(Path(directory) / "agent.db")
            memory = AutoContextMemory(AutoContextConfig.for_window(16_000), store=store, session_id="logs")
            agent = ReactAgent(complete, memory, TOOLS, "You look after a server.")
            print(f"{question}\n  {agent.ask(question)}\n  {memory.token_count} tokens in view of", end=" ")
            print(f"{len(memory.get_original_memory_msgs())} messages, {len(memory.get_offload_context())} offloads")


if __name__ == "__main__":
    main()
