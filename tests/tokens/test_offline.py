"""Counting needs no network: not when it is refused, not when it swallows every request, not when it is there."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import autocontext

PACKAGE = Path(autocontext.__file__).parent

COUNT = """
from autocontext.messages import Msg
from autocontext.tokens import get_counter
for name in ("gpt-4o", "gpt-4", "qwen-max"):
    print(get_counter(name).count_text("hello world"), get_counter(name).count(Msg(role="user", content="hello world")))
"""
COUNTED = "2 6\n2 6\n2 6\n"

REFUSE = """
import socket
def refuse(*args, **kwargs):
    raise OSError("network refused")
socket.socket.connect = socket.socket.connect_ex = socket.create_connection = socket.getaddrinfo = refuse
"""

DOWNLOAD = """
import urllib.request
try:
    urllib.request.urlopen("http://openaipublic.blob.core.windows.net/", timeout=0.5)
except OSError as e:
    print("failed")
"""


def run(code, directory, **env):
    """The output of a fresh interpreter that has no cache of downloads anywhere."""
    forget = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", "NO_PROXY", "no_proxy")
    clean = {k: v for k, v in os.environ.items() if k not in forget}
    clean |= {"TMPDIR": str(directory), "HOME": str(directory), "PYTHONPATH": str(PACKAGE.parent), **env}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class SilentProxy:
    """Accepts every connection and never answers; counts them."""

    def __enter__(self):
        self.connections, self.clients, self.own = [], [], []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()
        for connection in self.connections + self.own:
            connection.close()

    def _accept(self):
        while True:
            try:
                connection, client = self._server.accept()
            except OSError:
                return
            self.connections.append(connection)
            self.clients.append(client)

    def until_now(self):
        """How many connections were made; one more takes its turn behind them and stays open."""
        own = socket.create_connection(self._server.getsockname())
        self.own.append(own)
        until = time.monotonic() + 60
        while own.getsockname() not in self.clients and time.monotonic() < until:
            time.sleep(0.01)
        return self.clients.index(own.getsockname())

    @property
    def env(self):
        address = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        names = ("http_proxy", "https_proxy", "all_proxy")
        return dict.fromkeys([*names, *map(str.upper, names)], address)


@pytest.mark.slow
def test_counting_with_the_network_refused(tmp_path):
    assert run(REFUSE + DOWNLOAD, tmp_path) == "failed\n"  # the refusal works
    assert run(REFUSE + COUNT, tmp_path) == COUNTED


@pytest.mark.slow
def test_counting_behind_a_proxy_that_never_answers(tmp_path):
    with SilentProxy() as proxy:
        assert run(DOWNLOAD, tmp_path, **proxy.env) == "failed\n"
        assert proxy.until_now() == 1  # the trap works
        assert run(COUNT, tmp_path, **proxy.env) == COUNTED
        assert proxy.until_now() == 1 + 1  # the second one is that of `until_now`


@pytest.mark.slow
def test_nothing_is_written_or_loaded_before_the_first_count(tmp_path):
    code = """
import sys
from autocontext.messages import Msg
from autocontext.tokens import get_counter
counter = get_counter("gpt-4o")
print(counter.bound(Msg(role="user", content="hello world")), "tiktoken" in sys.modules)
print(counter.count_text(""), "tiktoken" in sys.modules)
print(counter.count_text("hello world"), "tiktoken" in sys.modules)
"""
    assert run(code, tmp_path) == "15 False\n0 False\n2 True\n"
    assert list(tmp_path.iterdir()) == []
