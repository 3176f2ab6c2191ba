"""A Python that has the package imported: each command is a fork of it, which saves the second an import takes.

A fork is a process of its own, with streams, arguments and environment of its own.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(arguments: tuple[str, ...], env: dict[str, str], stdin_bytes: bytes) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr of `python -W error -m autocontext`, with UTF-8 streams."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(stdin_bytes)
        stdin.seek(0)
        request = json.dumps({"argv": ["autocontext", *arguments], "env": env}).encode()
        socket.send_fds(_started(), [request], [stdin.fileno(), out.fileno(), err.fileno()])
        code = int(_started().recv(100) or b"-1")
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


@functools.cache
def _started() -> socket.socket:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here.settimeout(300)
    with there:
        command = [sys.executable, "-W", "error", "-m", "tests.cli.started", str(there.fileno())]
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=[there.fileno()])

    def end() -> None:
        here.close()
        process.wait(timeout=60)

    atexit.register(end)
    return here


def _serve(channel: socket.socket) -> bool:
    """Fork for each request; true in a fork, which is to run the command, and false at the end."""
    while True:
        asked, streams, _, _ = socket.recv_fds(channel, 1_000_000, 3)
        if not asked:
            return False
        child = os.fork()
        if not child:
            channel.close()
            _become(json.loads(asked), streams)
            return True
        for stream in streams:
            os.close(stream)
        channel.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _become(asked: dict[str, object], streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked["env"])  # type: ignore[call-overload]
    sys.argv[:] = asked["argv"]  # type: ignore[call-overload]
    sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


if __name__ == "__main__":
    import rich.console
    import rich.table  # noqa: F401

    import autocontext.cli
    from autocontext.testing import user
    from autocontext.tokens import get_counter

    with suppress(ImportError):
        import psycopg  # noqa: F401
    get_counter("o200k_base").count(user("The vocabulary is read once."))
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        forked = _serve(channel)
    if forked:
        sys.exit(autocontext.cli.main())
