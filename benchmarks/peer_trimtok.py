"""trimtok as a policy: it makes the result of each call smaller as it arrives, by rules, and drops nothing later.

Its plugin's hooks are called as an agent does, each with a second instead of 50 ms: nothing depends on the machine.
What does not fit is over the window. Its tool `trimtok_retrieve` brings back what was left out.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import trimtok
from chat import Chat, Tokens, content_text

REQUIRES = ("trimtok>=4.2.5",)
POLICIES = {"trimtok": "Trimtok"}

_folder = tempfile.TemporaryDirectory(prefix="trimtok-")
os.environ["TRIMTOK_DATA_DIR"] = _folder.name
_settings = {"guard_ms": 1000.0, "audit_enabled": False, "usage_enabled": False}
_hooks: dict[str, Callable[..., Any]] = {}
_plugin = {"get_config": _settings.get, "register_hook": _hooks.__setitem__}
trimtok.register(SimpleNamespace(**_plugin, register_tool=lambda handler, **_: _hooks.update(retrieve=handler)))


class Trimtok:
    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count, self._session = window, count, str(id(self))
        self.messages: list[Chat] = []
        self._calls: dict[str, Chat] = {}
        _hooks["on_session_start"](session_id=self._session)

    def step(self, new: list[Chat]) -> list[Chat]:
        for message in new:
            self.messages.append(self._smaller(message) if message["role"] == "tool" else message)
            self._calls |= {call["id"]: call["function"] for call in message.get("tool_calls") or ()}
            if message["role"] == "assistant":
                _hooks["post_llm_call"](session_id=self._session)
        return list(self.messages)

    def _smaller(self, message: Chat) -> Chat:
        call, text = self._calls.get(message["tool_call_id"], {"name": "tool"}), content_text(message)
        given, at = call.get("arguments"), {"session_id": self._session, "turn_id": message["tool_call_id"]}
        if re.search("bash|shell|terminal|exec", call["name"], re.IGNORECASE):
            smaller = _hooks["transform_terminal_output"](command=given, output=text, **at)
        else:
            smaller = _hooks["transform_tool_result"](tool_name=call["name"], args=given, result=text, **at)
        return message if smaller is None else {**message, "content": smaller}

    def reachable(self) -> Iterator[str]:
        """The originals behind the references."""
        for reference in dict.fromkeys(re.findall(r"#[0-9A-Za-z]+", "\n".join(map(content_text, self.messages)))):
            yield json.loads(_hooks["retrieve"]({"hash": reference})).get("original_content") or ""
