"""The model behind the pages' programs: a local server that the OpenAI client of a page talks to without knowing.

A page's program gives it one tool with one whole number, `read_log(day)` for example: the model calls it for 1 to 45,
one at a time, and then answers with the newest lines that say ALERT. Where the page gives it the tools that steer the
context, it puts the first logs away after the tenth, and writes a note.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tests.fakes.http_server import Reply
from tests.fakes.openai_server import FakeOpenAI, Turn

LAST = 45
WINDOW = 16_000
_STEERS = 10
_STEERING: tuple[tuple[str, dict[str, object]], ...] = (
    ("context_archive", {"messages": "m2-m19", "reason": "days 1 to 9 are read"}),
    ("context_note", {"text": "decision: all alerts so far are one incident, INC-4411"}),
)


def _reply(turn: Turn) -> Reply:
    functions = [t["function"] for t in turn.body.get("tools") or ()]
    tools = [function for function in functions if not function["name"].startswith("context_")]
    if not tools:
        return Reply(text="Nothing to read.")
    newest: dict[str, object] = next(
        (m for m in reversed(turn.messages) if str(m.get("tool_call_id", "")).startswith("call_")), {}
    )
    done = int(m[0]) if (m := re.search(r"\d+", str(newest.get("content")))) else 0
    if done == _STEERS and turn.messages[-1] is newest and "context_archive" in turn.tools:
        return Reply(
            text=None, tool_calls=[_call(f"steer_{i}", name, given) for i, (name, given) in enumerate(_STEERING)]
        )
    if done >= LAST:
        alert = re.findall(r".*ALERT.*", str(newest["content"]))
        return Reply(text=f"{done} logs read, the newest alert: {alert[-1] if alert else 'none'}")
    [name] = [tool["name"] for tool in tools]
    [argument] = tools[0]["parameters"]["properties"]
    return Reply(text=None, tool_calls=[_call(f"call_{done + 1}", name, {argument: done + 1})])


def _call(id_: str, name: str, arguments: dict[str, object]) -> dict[str, object]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


@contextmanager
def page_server() -> Iterator[None]:
    """The server, with the environment variables that the OpenAI client reads."""
    with FakeOpenAI(window=WINDOW, default=_reply) as service:
        os.environ.update(OPENAI_BASE_URL=service.base_url, OPENAI_API_KEY="test-key")
        yield
        if service.refused:
            raise AssertionError(f"the service refused {len(service.refused)} requests: {service.refused[0]}")
