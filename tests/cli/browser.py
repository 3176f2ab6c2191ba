"""A real headless Chromium, spoken to through its DevTools protocol."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.extras import need

_PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
_KEYS = {"Enter": "\r", "Tab": "\t"}


def required() -> None:
    """Skip where there is no Chromium; fail where there must be one (CI sets AUTOCONTEXT_REQUIRE_CHROMIUM)."""
    if not _PROGRAM and not os.environ.get("AUTOCONTEXT_REQUIRE_CHROMIUM"):
        pytest.skip("no Chromium; apt-get install chromium, and set AUTOCONTEXT_REQUIRE_CHROMIUM=1 to insist on it")
    need("websocket-client")
    assert _PROGRAM, "AUTOCONTEXT_REQUIRE_CHROMIUM is set and there is no chromium"


class Browser:
    """One page at a time; `requests` are the addresses it has asked for, `errors` what its scripts complained of."""

    def __init__(self, port: int) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as listed:
            target = next(t for t in json.load(listed) if t["type"] == "page")
        import websocket

        self._socket = websocket.create_connection(target["webSocketDebuggerUrl"], timeout=180, suppress_origin=True)
        self._numbers = itertools.count(1)
        self.requests: list[str] = []
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its answer."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])

    def show(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a page and wait until it has drawn itself."""
        self.requests.clear()
        self.errors.clear()
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        self.resize(width, height)
        self.send("Page.navigate", url=page.resolve().as_uri())
        self.until("document.documentElement?.dataset.ready === 'yes'")

    def resize(self, width: int, height: int = 900) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def js(self, expression: str) -> Any:
        """What an expression comes to in the page."""
        done = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, condition: str) -> None:
        end = time.monotonic() + 180
        while not self.js(f"Boolean({condition})"):
            assert time.monotonic() < end, f"{condition} never held; {self.errors}"
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        """Type as on a keyboard: names of keys, or single characters."""
        for key in keys:
            text = _KEYS.get(key, key if len(key) == 1 else "")
            code = {"Enter": 13, "Tab": 9, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}.get(
                key, 0
            )
            event = {"key": key, "windowsVirtualKeyCode": code, "code": key if len(key) > 1 else ""}
            self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
            self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A Chromium of our own with a fresh profile."""
    options = [
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
        "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank",
    ]  # fmt: skip
    with subprocess.Popen([_PROGRAM, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            opened = Browser(_port(folder / "DevToolsActivePort", process))
            try:
                yield opened
            finally:
                opened.close()
        finally:
            process.terminate()


def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    """Where the browser listens: it writes that into its profile."""
    end = time.monotonic() + 180
    while not file.exists() or not file.read_text().strip():
        assert process.poll() is None, "Chromium did not start"
        assert time.monotonic() < end, "Chromium says nothing"
        time.sleep(0.05)
    return int(file.read_text().split()[0])
