"""Moto's S3 server on 127.0.0.1, in a process of its own: its dependencies warn, and warnings are errors here."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import obstore
from obstore.store import from_url

BUCKET = "bucket"
_SECONDS_TO_START = 60


@contextmanager
def running_s3() -> Iterator[dict[str, Any]]:
    """Options for obstore; one empty bucket is there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(port, process)
            yield _options(port)
        finally:
            process.terminate()


def _options(port: int) -> dict[str, Any]:
    endpoint = f"http://127.0.0.1:{port}"
    options = {
        "endpoint": endpoint, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test",
        "virtual_hosted_style_request": False, "client_options": {"allow_http": True},
    }  # fmt: skip
    _make_bucket(port)
    obstore.list(from_url(f"s3://{BUCKET}", **options)).collect()
    return options


def _make_bucket(port: int) -> None:
    from http.client import HTTPConnection

    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    # Moto takes any well-formed credentials.
    signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    connection.request("PUT", f"/{BUCKET}", headers={"Authorization": signed})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("moto's S3 server did not start; is the extra `test` installed?")
