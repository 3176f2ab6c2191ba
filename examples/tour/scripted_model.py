"""Plays the model of the tour: a chat completions service on this machine that decides by what its context says.

It knows nothing but the messages of each request. So what it does well, it does because the context has what it takes.
"""

import itertools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = dict[str, Any]
OLD = "return round(net * 1.19, 2)"
NEW = "return tax.gross(net, country)"
SLIP = "return tax.gross(net)"
"""What it writes at first where a function has no country."""


def decide(messages: list[Message]) -> Message:
    """The next call or the answer."""
    question = next(_text(m) for m in reversed(messages) if m["role"] == "user" and not _is_note(m))
    last = messages[-1]
    if "first error" in question:
        return _recall(messages)
    name, arguments = _call_of(messages, last["tool_call_id"]) if last["role"] == "tool" else ("", {})
    result, path = _text(last), str(arguments.get("path", ""))
    if name == "todo":
        first = result.split()[0]
        return _says("All modules use tax.gross(); shop/legacy is as it was.") if first == "none" else _reads(first)
    if name == "read_file":
        slips = "country" not in result
        return _calls(
            f"{path} has the flat rate. I replace it by tax.gross, which knows each country's rate.",
            "edit_file", path=path, old=OLD, new=SLIP if slips else NEW,
        )  # fmt: skip
    if name == "edit_file":
        return _calls("", "run_tests", path=path)
    if name == "run_tests" and "exit code 0" not in result:
        reason = 'the doctest passes no country, so I give it the default of the shop, "DE"'
        return _calls(
            f"{path} fails because {reason}.", "edit_file", path=path, old=SLIP, new='return tax.gross(net, "DE")'
        )
    # The tests passed, a call was interrupted, or nothing was done yet: what is left to do?
    return _calls("", "todo")


def _recall(messages: list[Message]) -> Message:
    """Reload the oldest calls that the note only counts, until a test has failed, and quote the original."""
    last, begin = messages[-1], 0
    if last["role"] == "tool":
        if error := re.search(r"TypeError: [^\n]*", _text(last)):
            rule = next(s for m in messages for s in re.findall(r"[^\n.]*legacy[^\n.]*\.", _text(m)))
            return _says(f'It was "{error[0]}". About legacy you said: "{rule.strip()}"')
        _, arguments = _call_of(messages, last["tool_call_id"])
        begin = int(re.findall(r"\d+", arguments["working_context_offload_uuid"])[-1]) + 1
    counted = (re.search(r"\bm(\d+)-m\d+: \d+ more calls", _text(m)) for m in messages)
    begin = begin or next(int(found[1]) for found in counted if found)
    return _calls("", "context_reload", working_context_offload_uuid=f"m{begin}-m{begin + 9}")


def _reads(path: str) -> Message:
    return _calls("", "read_file", path=path)


def _says(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _calls(says: str, name: str, **arguments: str) -> Message:
    call = {"id": f"call_{next(_IDS)}", "type": "function"}
    call["function"] = {"name": name, "arguments": json.dumps(arguments)}  # type: ignore[assignment]
    return {"role": "assistant", "content": says or None, "tool_calls": [call]}


_IDS = itertools.count(1)


def _text(message: Message) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(str(part.get("text", "")) for part in content)


def _is_note(message: Message) -> bool:
    return "earlier messages" in _text(message)


def _call_of(messages: list[Message], id_: str) -> tuple[str, dict[str, Any]]:
    """Name and arguments of the newest call with an id."""
    calls = [call for m in messages for call in m.get("tool_calls") or () if call["id"] == id_]
    return calls[-1]["function"]["name"], json.loads(calls[-1]["function"]["arguments"])


class _Service(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        choice = {"index": 0, "finish_reason": "stop", "message": decide(request["messages"])}
        reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice]}
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def served() -> Iterator[str]:
    """The base URL of the service while the block runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
