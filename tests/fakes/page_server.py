"""The model behind the pages' programs: a local server that the OpenAI client of a page talks to without knowing.

A page's program gives it one tool with one whole number, `read_log(day)` for example: the model calls it for 1 to 45,
one at a time, and then answers with the newest lines that say ALERT.
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


def _reply(turn: Turn) -> Reply:
    newest = turn.messages[-1]
    tools = [t["function"] for t in turn.body.get("tools") or () if t["function"]["name"] != "context_reload"]
    if not tools:
        return Reply(text="Nothing to read.")
    done = int(m[0]) if newest["role"] == "tool" and (m := re.search(r"\d+", str(newest["content"]))) else 0
    if done >= LAST:
        alert = re.findall(r".*ALERT.*", str(newest["content"]))
        return Reply(text=f"{done} logs read, the newest alert: {alert[-1] if alert else 'none'}")
    [name] = [tool["name"] for tool in tools]
    [argument] = tools[0]["parameters"]["properties"]
    function = {"name": name, "arguments": json.dumps({argument: done + 1})}
    return Reply(text=None, tool_calls=[{"id": f"call_{done + 1}", "type": "function", "function": function}])


@contextmanager
def page_server() -> Iterator[None]:
    """The server, with the environment variables that the OpenAI client reads."""
    with FakeOpenAI(window=WINDOW, default=_reply) as service:
        os.environ.update(OPENAI_BASE_URL=service.base_url, OPENAI_API_KEY="test-key")
        yield
        if service.refused:
            raise AssertionError(f"the service refused {len(service.refused)} requests: {service.refused[0]}")
