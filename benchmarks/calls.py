r"""Calls of a conversation with their results: what each is about, what it changed, and whether it failed.

The *label* of a call is the first line of its telling argument (a path, URL, query, record, command or name), else of
its first argument that is a text or a whole number, else the tool's name. A text *names* a call when it holds the first
24 characters of the label, or of the last part of a label that is a path; fewer than 3 characters name nothing.

*Changed* is what a call wrote that did not fail: the path given to a tool whose name says that it changes things; what
a shell command redirects to, edits in place, moves, removes or makes; or the record that such a tool was given.

Independent of how the library itself reads calls, on purpose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chat import Chat, content_text
from texts import squeeze

_LABEL = 24
_LEAST_NAME = 3
_TELLING = (
    "path", "file_path", "filepath", "file_name", "filename", "file", "url", "query", "order_id", "reservation_id",
    "line_id", "customer_id", "user_id", "product_id", "id", "flight_number", "command", "cmd", "code", "expression",
    "name",
)  # fmt: skip
_PATHS = ("path", "file_path", "filename", "file_name")
_COMMANDS = ("command", "cmd")
_RECORDS = ("order_id", "reservation_id", "line_id", "bill_id", "user_id", "customer_id", "id")

_CHANGING_TOOL = re.compile(
    "edit|write|create|insert|replace|append|delete|remove|patch|modify|update|cancel|book_|return_|exchange|send_|"
    "refuel|enable|disable|resume|suspend|grant|pay_|move",
    re.IGNORECASE,
)
# Editors that are one tool with a path and a command, whatever the tool is called.
_READING = {"view", "undo_edit", "read", "list"}
_WRITING = {"create", "str_replace", "insert"}

_HERE_DOCUMENT = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?.*?^\s*\1\s*$", re.DOTALL | re.MULTILINE)
_REDIRECTED = re.compile(r"(?<![<>0-9&-])>{1,2}\s*([\w./~-]+)")
_EDITED_IN_PLACE = re.compile(r"\bsed\s+(?:-\w+\s+)*-i\S*\s+(?:'[^']*'|\"[^\"]*\"|\S+)\s+([\w./~-]+)")
_WRITTEN = re.compile(
    r"(?:^|[;&|]\s*)(?:tee(?:\s+-a)?|rm(?:\s+-\w+)*|touch|mkdir(?:\s+-p)?|mv\s+\S+|cp(?:\s+-\w+)*\s+\S+)"
    r"\s+([\w./~-]+)",
    re.MULTILINE,
)

_EXIT_CODE = re.compile(
    r"<returncode>(-?\d+)</returncode>|exit(?:ed with)?(?: code| status)[: ]+(-?\d+)"
    r"|finished with exit code (-?\d+)",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"^(?:Traceback|Error\b|ERROR\b|error:|fatal:|FAILED|.*\b(?:[A-Z]\w+(?:Error|Exception)):"
    r"|.*: (?:command not found|No such file or directory|Permission denied))",
    re.MULTILINE,
)
_ERROR_LINE = re.compile(r"error|exception|failed|not found|no such|denied|invalid|fatal", re.IGNORECASE)


@dataclass(eq=False)
class Call:
    """One call; its result is None until it has arrived."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str | None = None

    @classmethod
    def of(cls, call: Chat) -> Call:
        """A call of a chat message; arguments that are not a JSON object are wrapped in one."""
        function = call["function"]
        raw = function.get("arguments") or ""
        try:
            data = json.loads(raw)
        except ValueError:
            data = {"_raw": raw}
        return cls(call["id"], function.get("name") or "", data if isinstance(data, dict) else {"_": data})

    @cached_property
    def label(self) -> str:
        """What it is about, on one line."""
        texts = {key: str(v).strip() for key, v in self.arguments.items() if isinstance(v, str | int)}
        for key in (*_TELLING, *texts):
            if texts.get(key):
                return squeeze(texts[key].splitlines()[0])
        return self.name

    @cached_property
    def _names(self) -> list[str]:
        last_part = self.label.rstrip("/").rpartition("/")[2] if " " not in self.label else ""
        return [name[:_LABEL] for name in (self.label, last_part) if len(name) >= _LEAST_NAME]

    def named_in(self, text: str) -> bool:
        """Whether a text names it."""
        return any(name in text for name in self._names)

    def changed(self) -> list[str]:
        """What it changed: paths as they were written, or the record."""
        if self.result is None or self.failed():
            return []
        command = next((self.arguments[k] for k in _COMMANDS if isinstance(self.arguments.get(k), str)), "")
        path = next((str(self.arguments[k]) for k in _PATHS if self.arguments.get(k)), "")
        changing = bool(_CHANGING_TOOL.search(self.name))
        if path:
            return [path] if command in _WRITING or (changing and command not in _READING) else []
        if command:
            return written_by(command)
        records = [str(self.arguments[k]) for k in _RECORDS if self.arguments.get(k)]
        return records[:1] if changing else []

    def failed(self) -> bool:
        """Whether its result tells of a failure: by an exit code, else by how its first and last lines begin."""
        result = self.result or ""
        if code := _EXIT_CODE.search(result):
            return any(group not in (None, "0") for group in code.groups())
        # "The file ... has been edited" and what follows is a view of the file, which may well speak of errors.
        match = _FAILED.search(result[:4000]) or _FAILED.search(result[-2000:])
        return bool(match) and not result.startswith("The file")

    def error_line(self) -> str:
        """The last line of its result that speaks of an error, at most 200 characters of it."""
        lines = [line.strip() for line in (self.result or "").splitlines() if _ERROR_LINE.search(line)]
        return lines[-1][:200] if lines else ""


def written_by(command: str) -> list[str]:
    """The files that a shell command writes; here-documents are not commands."""
    before_documents = [line.partition("<<")[0] for line in command.splitlines() if "<<" in line]
    targets: dict[str, None] = {}
    for text in (_HERE_DOCUMENT.sub("", command), *before_documents):
        for pattern in (_REDIRECTED, _EDITED_IN_PLACE, _WRITTEN):
            targets |= dict.fromkeys(pattern.findall(text))
    return [t for t in targets if len(t) >= _LEAST_NAME and not t.startswith(("/dev/", "-")) and not t.isdigit()]


class Calls:
    """The calls of a conversation so far, in order."""

    def __init__(self, messages: Iterable[Chat] = ()) -> None:
        self.all: list[Call] = []
        self.by_id: dict[str, Call] = {}
        for message in messages:
            self.add(message)

    def __iter__(self) -> Iterator[Call]:
        return iter(self.all)

    def add(self, message: Chat) -> None:
        """Take in the calls of a message, or the result it is."""
        for chat_call in message.get("tool_calls") or ():
            call = self.by_id[chat_call["id"]] = Call.of(chat_call)
            self.all.append(call)
        answered = self.by_id.get(message.get("tool_call_id") or "")
        if message["role"] == "tool" and answered is not None and answered.result is None:
            answered.result = content_text(message)

    def of(self, message: Chat) -> list[Call]:
        """The call that a message answers, or the calls that it makes."""
        ids = [message.get("tool_call_id") or "", *(call["id"] for call in message.get("tool_calls") or ())]
        return [self.by_id[id_] for id_ in ids if id_ in self.by_id]

    def latest(self) -> list[Call]:
        """Of the calls with a result the last one for each tool and label, the newest last."""
        calls: dict[tuple[str, str], Call] = {}
        for call in self.all:
            if call.result is not None:
                calls.pop((call.name, call.label), None)
                calls[call.name, call.label] = call
        return list(calls.values())

    def changes(self) -> dict[str, list[Call]]:
        """What was changed, with the calls that did it; what was changed last is last."""
        calls: dict[str, list[Call]] = {}
        for call in self.all:
            for target in call.changed():
                calls[target] = [*calls.pop(target, ()), call]
        return calls
