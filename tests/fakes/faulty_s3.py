"""A proxy before an S3 server that spoils requests: refuses them, or answers wrongly, in part or not at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

Fault = Literal["refused", "done, then an error", "done, then cut", "done, then no answer"]
FAULTS: tuple[Fault, ...] = ("refused", "done, then an error", "done, then cut", "done, then no answer")


class FaultyS3(ThreadingHTTPServer):
    """Forwards requests; from number `at` on, `times` of them are spoiled."""

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urlsplit(endpoint).netloc
        self.fault: Fault = "refused"
        self.at, self.times, self.seen = 0, 1, 0
        self.lock = threading.Lock()
        self.ended = threading.Event()

    @property
    def endpoint(self) -> str:
        """For clients."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spoil(self, fault: Fault, at: int, times: int = 1) -> None:
        """Spoil requests from the `at`-th from now on; 0: none."""
        with self.lock:
            self.fault, self.at, self.times, self.seen = fault, at, times, 0

    def strikes(self) -> bool:
        """Count a request; whether it is spoiled."""
        with self.lock:
            self.seen += 1
            return self.at > 0 and self.at <= self.seen < self.at + self.times

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyS3

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.fault if self.server.strikes() else None
        if fault == "refused":
            self._send(503, {}, b"")
            return
        with closing(HTTPConnection(self.server.behind, timeout=60)) as behind:
            behind.request(self.command, self.path, body, dict(self.headers.items()))
            response = behind.getresponse()
            answer, headers = response.read(), dict(response.getheaders())
        if fault is None:
            self._send(response.status, headers, answer)
        elif fault == "done, then an error":
            self._send(500, {}, b"")
        elif fault == "done, then cut":
            self._send(
                response.status, {**headers, "Content-Length": str(len(answer) + 100)}, answer[: len(answer) // 2]
            )
            self.close_connection = True
        else:
            self.server.ended.wait(60)
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", headers.get("Content-Length", str(len(body))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


@contextmanager
def faulty(options: dict[str, Any], *, patience: int = 60) -> Iterator[tuple[FaultyS3, dict[str, Any]]]:
    """A proxy before the server of these options, and options for it: without retries.

    `patience` is what a client waits for each answer.
    """
    server = FaultyS3(options["endpoint"])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        client = {**options["client_options"], "timeout": f"{patience}s"}
        yield server, {**options, "endpoint": server.endpoint, "client_options": client, "retry_config": NO_RETRIES}
    finally:
        server.ended.set()
        server.shutdown()
        thread.join(60)
        server.server_close()


NO_RETRIES = {"max_retries": 0}
