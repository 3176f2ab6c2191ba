"""`inspect --watch` on a terminal: drawn over in one go, given back at the end."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from autocontext import AutoContextMemory, Msg
from autocontext.stores import SqliteSessionStore
from tests.cli.terminal import HEARS_SIGINT, NO_RICH, command, environment, without_escapes

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


class Terminal:
    """A program on a pseudo-terminal of 80 x 24, and all it has written."""

    def __init__(self, *arguments: str, prelude: str = "") -> None:
        self.out = ""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            command(*arguments, prelude=HEARS_SIGINT + prelude),
            env=environment(COLUMNS="", TERM="xterm-256color"), stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
        )  # fmt: skip
        os.close(slave)

    def until(self, text: str) -> None:
        end = time.monotonic() + 180
        while text not in without_escapes(self.out):
            assert time.monotonic() < end, self.out
            if select.select([self._master], [], [], 0.2)[0]:
                self.out += os.read(self._master, 65_536).decode(errors="replace")

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        try:
            while part := os.read(self._master, 65_536):
                self.out += part.decode(errors="replace")
        except OSError:  # the other end is closed
            pass
        os.close(self._master)
        return self.process.wait(timeout=180)


@pytest.mark.slow
@pytest.mark.parametrize("rich", [True, False])
def test_watching_shows_what_is_added_meanwhile(tmp_path: Path, rich: bool) -> None:
    db = str(tmp_path / "agent.db")
    store = SqliteSessionStore(db)
    memory = AutoContextMemory(store=store, session_id="s")
    memory.add_messages(Msg(role="user", content=f"question number {i}") for i in range(40))
    terminal = Terminal("inspect", db, "s", "--watch", prelude="" if rich else NO_RICH)
    terminal.until("question number 39")
    memory.add_message(Msg(role="assistant", content="an answer at last"))
    terminal.until("an answer at last")
    store.close()
    assert terminal.interrupt() == 130
    out = terminal.out
    assert "interrupted" in without_escapes(out)
    assert (out.count(ENTER), out.count(LEAVE)) == ((1, 1) if rich else (0, 0))
    if rich:
        shown = out[out.index(ENTER) : out.index(LEAVE)]
        assert "\x1b[2J" not in shown.partition("question")[2], "clearing the terminal first is what flickers"
        assert "more lines" in shown
        frames = re.split(r"\x1b\[H", shown)
        assert max(frame.count("\n") for frame in frames) < 24
