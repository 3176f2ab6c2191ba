"""Moto's S3 server on 127.0.0.1, in a process of its own: its dependencies warn, and warnings are errors here."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any

import obstore
from obstore.store import from_url

BUCKET = "bucket"
_SECONDS_TO_START = 240
_PORTS = 3
"""How many ports are tried: while the server starts, another program may take the one that was free."""


@contextmanager
def running_s3() -> Iterator[dict[str, Any]]:
    """Options for obstore; one empty bucket is there."""
    for _ in range(_PORTS):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                if _bucket_is_made(port, process):
                    yield _options(port)
                    return
            finally:
                process.terminate()
    raise AssertionError("moto's S3 server did not start; is the extra `test-all` installed?")


def _options(port: int) -> dict[str, Any]:
    endpoint = f"http://127.0.0.1:{port}"
    options = {
        "endpoint": endpoint, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test",
        "virtual_hosted_style_request": False, "client_options": {"allow_http": True},
    }  # fmt: skip
    obstore.list(from_url(f"s3://{BUCKET}", **options)).collect()
    return options


def _bucket_is_made(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Wait for the server; False if it ends, as it does when somebody else has taken the port meanwhile."""
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError, HTTPException), closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            # Moto takes any well-formed credentials.
            signed = "Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
            connection.request("PUT", f"/{BUCKET}", headers={"Authorization": f"AWS4-HMAC-SHA256 {signed}"})
            if connection.getresponse().status == HTTPStatus.OK:
                return True
        time.sleep(0.05)
    return False
