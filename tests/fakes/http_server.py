"""A scripted HTTP service on 127.0.0.1, the frame of the fake services.

    with FakeOpenAI() as service:
        service.script([Raw(429, {...}, {"Retry-After": "2"}), "the second answer"])
        ... real SDK against service.base_url ...
        service.requests[0].body

Script items are taken in order, one per valid request; when they are used up, `default` answers: an item, or a function
of the request's body that gives one. Requests that the service would refuse (path, key, shape) get its refusal and take
no item.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Reply:
    """A successful answer; what is None is left to the service's usual value."""

    text: str | None = "SUMMARY"
    finish: str = "stop"
    input_tokens: int = 11
    output_tokens: int = 7
    tool_calls: list[dict[str, Any]] | None = None
    message: dict[str, Any] = field(default_factory=dict)
    """Further keys of the message (refusal, reasoning_content, ...)."""


@dataclass
class Raw:
    """An answer as it goes over the wire: any status, any body."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Hang:
    """No answer for so many seconds (or until the server stops), then the default."""

    seconds: float = 30.0


@dataclass
class Close:
    """The connection is closed without an answer."""


@dataclass
class Cut:
    """A streamed reply whose connection breaks after so many events."""

    reply: Reply
    events: int = 2


@dataclass
class Streamed:
    """An answer as server-sent events; `broken`: the connection ends in the middle of it."""

    events: list[bytes]
    broken: bool = False


Item = str | Reply | Raw | Hang | Close | Cut


@dataclass
class Request:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: Any


class Refusal(Exception):
    """What the service answers to a request it does not accept."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


class FakeService:
    """A service on a port of its own; subclasses say what is valid and how answers look."""

    prefix = ""
    path = ""
    default: Item | Callable[[Any], Item] = "SUMMARY"

    def __init__(self, *, api_key: str = "test-key", default: Item | Callable[[Any], Item] | None = None) -> None:
        self.api_key = api_key
        if default is not None:
            self.default = default
        self.requests: list[Request] = []
        self._items: deque[Item] = deque()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = _Server(self)

    def script(self, items: Iterable[Item]) -> Self:
        with self._lock:
            self._items.extend(items)
        return self

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{self.prefix}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.close_connections()
        self._server.server_close()

    # what a subclass defines -----------------------------------------------------------------------------------
    def check(self, body: Any) -> None:
        """Raise Refusal for a request the service would not accept."""
        raise NotImplementedError

    def answer(self, reply: Reply, body: Any) -> Any:
        raise NotImplementedError

    def events(self, reply: Reply, body: Any) -> list[bytes]:
        """The answer as server-sent events, for a request that asks for a stream."""
        raise NotImplementedError

    def refusal(self, refusal: Refusal) -> Any:
        raise NotImplementedError

    # one request -----------------------------------------------------------------------------------------------
    def respond(self, request: Request) -> Raw | Streamed | None:
        """The answer to a request; None closes the connection."""
        with self._lock:
            self.requests.append(request)
        try:
            self._admit(request)
            self.check(request.body)
        except Refusal as refusal:
            return Raw(refusal.status, self.refusal(refusal))
        with self._lock:
            item = self._items.popleft() if self._items else None
        return self._carry_out(self._usual(request.body) if item is None else item, request.body)

    def _usual(self, body: Any) -> Item:
        return self.default(body) if callable(self.default) else self.default

    def _admit(self, request: Request) -> None:
        if request.path != self.prefix + self.path:
            raise Refusal(404, f"Unknown path {request.path}", "not_found")
        if request.headers.get("authorization") != f"Bearer {self.api_key}":
            key = request.headers.get("authorization", "").removeprefix("Bearer ")
            # Services quote the key they were sent, so that tests can see it does not come through.
            raise Refusal(401, f"Incorrect API key provided: {key}. See your account.", "invalid_api_key")
        if not isinstance(request.body, dict):
            raise Refusal(400, "The body is not a JSON object", "invalid_request")

    def _carry_out(self, item: Item, body: Any) -> Raw | Streamed | None:
        if isinstance(item, Hang):
            self._stopping.wait(item.seconds)
            item = self._usual(body)
        if isinstance(item, Close | Hang):
            return None
        if isinstance(item, Raw):
            return item
        if isinstance(item, Cut):
            return Streamed(self.events(item.reply, body)[: item.events], broken=True) if body.get("stream") else None
        reply = Reply(text=item) if isinstance(item, str) else item
        return Streamed(self.events(reply, body)) if body.get("stream") else Raw(200, self.answer(reply, body))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """Clients that may wait; by default it is five, and on a busy machine others wait for seconds to try again."""

    def __init__(self, service: FakeService) -> None:
        self.service = service
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """End the kept-alive connections, so that their threads end."""
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the client was faster

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A disconnected client (a timeout under test) is not a server error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.service.respond(Request(self.path, headers, body))
        if answer is None:
            self.close_connection = True
            return
        if isinstance(answer, Streamed):
            self._stream(answer)
            return
        payload = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", "x-request-id": "req-1", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _stream(self, answer: Streamed) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in answer.events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
        if answer.broken:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Silent: tests read `requests`."""
