"""The model behind the pages' programs: local servers that the OpenAI and Anthropic clients of a page talk to unaware.

A page's program gives it one tool with one whole number, `read_log(day)` for example: the model calls it for 1 to 45,
one at a time, and then answers with the newest lines that say ALERT. Where the page gives it the tools that steer the
context, it puts the first logs away after the tenth, and writes a note. A tool that takes a text, such as
`ask_researcher(question)`, it calls once, and then passes on the first line of its result.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from autocontext.formats.anthropic_messages import from_anthropic
from autocontext.formats.openai_chat import to_openai
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.http_server import Reply
from tests.fakes.openai_server import FakeOpenAI, Turn

LAST = 45
WINDOW = 16_000
_STEERS = 10
_QUESTION = "Which disks failed?"
_STEERING: tuple[tuple[str, dict[str, object]], ...] = (
    ("context_archive", {"messages": "m2-m19", "reason": "days 1 to 9 are read"}),
    ("context_note", {"text": "decision: all alerts so far are one incident, INC-4411"}),
)


def _reply(turn: Turn, last: int) -> Reply:
    functions = [t.get("function", t) for t in turn.body.get("tools") or ()]  # the Responses API has no inner object
    tools = [function for function in functions if not function["name"].startswith("context_")]
    if not tools:
        return Reply(text="Nothing to read.")
    results = [m for m in reversed(turn.messages) if str(m.get("tool_call_id", "")).startswith("call_")]
    # The answer to a call that was interrupted names no day: the day before it was read last.
    newest: dict[str, object] = next((m for m in results if re.search(r"\d", str(m["content"]))), {})
    [parameters] = [tool["parameters"]["properties"] for tool in tools]
    [(argument, schema)] = parameters.items()
    if schema.get("type") == "string":
        if newest:
            return Reply(text=str(newest["content"]).splitlines()[0])
        return Reply(text=None, tool_calls=[_call("call_1", tools[0]["name"], {argument: _QUESTION})])
    done = int(m[0]) if (m := re.search(r"\d+", str(newest.get("content")))) else 0
    if done == _STEERS and turn.messages[-1] is newest and "context_archive" in turn.tools:
        return Reply(
            text=None, tool_calls=[_call(f"steer_{i}", name, given) for i, (name, given) in enumerate(_STEERING)]
        )
    if done >= last:
        alert = re.findall(r".*ALERT.*", str(newest["content"]))
        return Reply(text=f"{done} logs read, the newest alert: {alert[-1] if alert else 'none'}")
    return Reply(text=None, tool_calls=[_call(f"call_{done + 1}", tools[0]["name"], {argument: done + 1})])


def _call(id_: str, name: str, arguments: dict[str, object]) -> dict[str, object]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


class _Claude(FakeAnthropic):
    """The same model behind Claude's API."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self._last = last

    def _usual(self, body: Any) -> Reply:
        tools = [{"name": tool["name"], "parameters": tool["input_schema"]} for tool in body.get("tools") or ()]
        messages = to_openai(from_anthropic(body["messages"]))
        return _reply(Turn(messages, [tool["name"] for tool in tools], 0, {"tools": tools}), self._last)

    def answer(self, reply: Reply, body: Any) -> Any:
        message = super().answer(reply, body)
        if reply.tool_calls:
            calls = [{**call["function"], "id": call["id"]} for call in reply.tool_calls]
            message["content"] = [
                {"type": "tool_use", "id": c["id"], "name": c["name"], "input": json.loads(c["arguments"])}
                for c in calls
            ]
            message["stop_reason"] = "tool_use"
        return message


@contextmanager
def servers(last: int = LAST) -> Iterator[dict[str, str]]:
    """The servers, with the environment variables that the clients and the frameworks read; `last` is the last day."""
    with FakeOpenAI(window=WINDOW, default=lambda turn: _reply(turn, last)) as openai, _Claude(last) as claude:
        yield {
            "OPENAI_BASE_URL": openai.base_url, "OPENAI_API_KEY": "test-key",
            "ANTHROPIC_BASE_URL": claude.base_url, "ANTHROPIC_API_KEY": "test-key",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",  # traces would go to OpenAI's own address
        }  # fmt: skip
        if refused := [*openai.refused, *claude.refused]:
            raise AssertionError(f"the services refused {len(refused)} requests: {refused[0]}")


@contextmanager
def page_server() -> Iterator[None]:
    """The servers for a program in this very process."""
    with servers() as environment:
        os.environ.update(environment)
        yield
