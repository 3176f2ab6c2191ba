"""A PostgreSQL server of our own that may be killed, and a proxy that cuts connections where it hurts."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = Path("/usr/lib/postgresql/15/bin")


def can_run_a_server() -> bool:
    return os.geteuid() == 0 and (PROGRAMS / "initdb").exists() and shutil.which("runuser") is not None


class Server:
    """A cluster in a folder that belongs to the user postgres."""

    def __init__(self, folder: Path, port: int) -> None:
        self.data, self.port = folder / "data", port
        self.url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self._run("initdb", "-A", "trust", "-U", "postgres", "-N", "-D", self.data)

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.data}"
        self._run("pg_ctl", "start", "-w", "-D", self.data, "-o", options, "-l", self.data / "log")

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` is a crash: nothing is written out, the next start recovers from the write-ahead log."""
        self._run("pg_ctl", "stop", "-m", mode, "-D", self.data)

    def _run(self, program: str, *arguments: object) -> None:
        command = ["runuser", "-u", "postgres", "--", PROGRAMS / program, *arguments]
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, cwd="/")


@contextmanager
def own_server() -> Iterator[Server]:
    """A running server in a folder of its own; those of pytest are closed to the user postgres each time one starts."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.chown(folder, "postgres")
        with _running(Path(folder)) as server:
            yield server


@contextmanager
def _running(home: Path) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(home, port)
    server.start()
    try:
        yield server
    finally:
        with suppress(subprocess.CalledProcessError):
            server.stop()


class Proxy:
    """Passes bytes between clients and a server, until it is told to cut.

    `cut_after_commit`: how many times a COMMIT reaches the server and its answer does not reach the client;
    `cut_before_commit`: how many times the connection breaks before the server hears of it.
    """

    def __init__(self, port: int) -> None:
        self.cut_after_commit = self.cut_before_commit = self.cuts = 0
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_all(self) -> None:
        """Break every connection there is."""
        for end in list(self._open):
            self._close(end)
        self.cuts += 1

    def close(self) -> None:
        self._listener.close()
        self.cut_all()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self._open |= {client, server}
                dropping = threading.Event()
                for ends in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass_on, args=(*ends, dropping), daemon=True).start()

    def _pass_on(self, from_: socket.socket, to: socket.socket, asking: bool, dropping: threading.Event) -> None:
        with suppress(OSError):
            while data := from_.recv(65536):
                if asking and b"COMMIT\0" in data:  # not the READ COMMITTED of a BEGIN
                    if self.cut_before_commit:
                        self.cut_before_commit -= 1
                        self.cuts += 1
                        break
                    if self.cut_after_commit:
                        self.cut_after_commit -= 1
                        self.cuts += 1
                        dropping.set()
                elif not asking and dropping.is_set():
                    break  # the server has answered, so it has committed
                to.sendall(data)
        self._close(from_)
        self._close(to)

    def _close(self, end: socket.socket) -> None:
        self._open.discard(end)
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
