"""Runs the command line as users do: in a process of its own, with pipes or on a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import autocontext
from autocontext.adapters.openai_chat import to_openai
from autocontext.testing import conversation
from tests.cli import started

ROOT = Path(autocontext.__file__).parent.parent
NO_RICH = """
import sys
class NoRich:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoRich())
"""
NO_NETWORK = """
import sys
def refuse(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise RuntimeError(f"network used: {event}")
sys.addaudithook(refuse)
"""
STEPS = ("reading the session", "replaying its log", "writing the page")
"""What `report` says where it takes long."""
# A shell starts background jobs with SIGINT ignored, which Python takes over.
HEARS_SIGINT = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
_MAIN = "import runpy; runpy.run_module('autocontext', run_name='__main__', alter_sys=True)"


class Done(NamedTuple):
    """What a finished run left."""

    code: int
    out: str
    err: str


def command(*arguments: str, prelude: str = "") -> list[str]:
    """The command line of a run; `prelude` is Python to be run before."""
    start = ["-c", prelude + _MAIN] if prelude else ["-m", "autocontext"]
    return [sys.executable, "-W", "error", *start, *arguments]


def environment(**env: str) -> dict[str, str]:
    dropped = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DASHSCOPE_API_KEY", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING")
    clean = {k: v for k, v in os.environ.items() if k not in dropped}
    usual = {"COLUMNS": "80", "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)}
    return {k: v for k, v in {**clean, **usual, **env}.items() if v != ""}


def run(*arguments: str, prelude: str = "", stdin: bytes = b"", **env: str) -> Done:
    """Run with pipes or files for input and output, in 80 columns and UTF-8 unless `env` says otherwise."""
    around = environment(**env)
    if prelude or any(name.startswith("PYTHON") for name in env):
        done = subprocess.run(
            command(*arguments, prelude=prelude),
            env=around, input=stdin, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        code, out, err = started.run(arguments, around, stdin)
    return Done(code, out.decode(), without_progress(err.decode()))


def without_progress(err: str) -> str:
    """What stands on stderr beside the lines in which a run of more than two seconds says how far it is."""
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if not re.match(r"\d+% ", line) and line.strip() not in STEPS)


def on_terminal(*arguments: str, prelude: str = "", columns: int = 80, **env: str) -> Done:
    """Run with stdout and stderr on one pseudo-terminal of that width; all of it ends up in `out`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        command(*arguments, prelude=prelude),
        env=environment(**{"COLUMNS": "", "TERM": "xterm-256color", **env}),
        stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    read = b""
    while True:
        try:
            part = os.read(master, 65_536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        read += part
    os.close(master)
    return Done(process.wait(timeout=300), read.decode().replace("\r\n", "\n"), "")


def without_escapes(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def chat(rounds: int = 12, chars: int = 900) -> list[dict[str, Any]]:
    """A made-up conversation in OpenAI chat form, several times larger than a window of 2,000 tokens."""
    return [{k: v for k, v in m.items() if k != "id"} for m in to_openai(conversation(rounds=rounds, chars=chars))]


def write(path: Path, lines: Iterable[Any]) -> str:
    """A file of these lines: bytes as they are, everything else as JSON."""
    path.write_bytes(b"".join((x if isinstance(x, bytes) else json.dumps(x).encode()) + b"\n" for x in lines))
    return str(path)
