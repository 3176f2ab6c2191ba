"""A PostgreSQL server of our own that may be killed, and a proxy that cuts connections where it hurts."""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

Change = Callable[[bytes], bytes]
PROGRAMS = Path("/usr/lib/postgresql/15/bin")
_PATIENT = 240
"""Seconds after which a server that does not start or stop counts as hung."""


def can_run_a_server() -> bool:
    return os.geteuid() == 0 and (PROGRAMS / "initdb").exists() and shutil.which("runuser") is not None


def _free_port() -> int:
    """A port that stays free while its server is down, too: the system gives connections none below 32,768."""
    while True:
        port = random.SystemRandom().randrange(12_000, 32_000)
        with suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port


class Server:
    """A cluster in a folder that belongs to the user postgres."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._run("initdb", "-A", "trust", "-U", "postgres", "-N", "-D", self.data)
        self.port = _free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.data}"
        self._run("pg_ctl", "start", "-w", "-t", _PATIENT, "-D", self.data, "-o", options, "-l", self.data / "log")

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` is a crash: nothing is written out, the next start recovers from the write-ahead log."""
        self._run("pg_ctl", "stop", "-t", _PATIENT, "-m", mode, "-D", self.data)

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
    server = Server(home)
    server.start()
    try:
        yield server
    finally:
        with suppress(subprocess.CalledProcessError):
            server.stop()


def pgbouncer() -> str | None:
    """The path of PgBouncer, where it is installed and may be run, as another user than root."""
    found = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    return found if os.geteuid() == 0 and shutil.which("setpriv") else None


@contextmanager
def pooled(url: str, sessions: int = 2) -> Iterator[str]:
    """The URL of a schema through PgBouncer, which gives each transaction one of a few sessions there."""
    address, schema = urlsplit(url), url.rpartition("%3D")[2]  # it takes no options from its clients
    with tempfile.TemporaryDirectory() as folder:
        shutil.chown(folder, "postgres")
        port = _free_port()
        Path(folder, "users").write_text('"postgres" ""\n', encoding="utf-8")
        Path(folder, "ini").write_text(
            f"[databases]\n* = host={address.hostname} port={address.port or 5432} "
            f"connect_query='SET search_path TO {schema}'\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {folder}/users\npool_mode = transaction\n"
            f"max_client_conn = 1000\ndefault_pool_size = {sessions}\n",
            encoding="utf-8",
        )
        command = ["setpriv", "--reuid=postgres", "--clear-groups", pgbouncer(), "-q", f"{folder}/ini"]
        running = subprocess.Popen([str(part) for part in command], stderr=subprocess.DEVNULL)
        try:
            _wait_for(port, running)
            yield f"postgresql://postgres@127.0.0.1:{port}{address.path}"
        finally:
            running.kill()
            running.wait()


def _wait_for(port: int, program: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENT
    while time.monotonic() < until and program.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError(f"{program.args!r} did not start")


class Proxy:
    """Passes messages between clients and a server, until it is told to cut; counts what clients wait for.

    `cut_after_commit`: how many times what commits reaches the server and its answer does not reach the client;
    `cut_before_commit`: how many times the connection breaks before the server hears of it. What commits is a COMMIT,
    and a statement that changes something outside of BEGIN and COMMIT.

    The URL must say so (`through`): encryption would begin with messages of another form.
    """

    def __init__(self, port: int) -> None:
        self.cut_after_commit = self.cut_before_commit = self.cuts = 0
        self.turns = 0
        """How many times clients have asked and waited: the round trips."""
        self.asked: list[str] = []
        """The statements of clients, each time they are parsed."""
        self.commits = self.prepared = 0
        """How many times something was to be made lasting; how many statements were given a name, for later."""
        self._conversations: list[Conversation] = []
        self._forwards = threading.Event()
        self._forwards.set()
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def through(self, url: str) -> str:
        """The URL of the server's database, by way of this proxy."""
        place = f"@127.0.0.1:{self.port}/"
        url = re.sub(r"@[^/@]+/", place, url)
        return f"{url}{'&' if '?' in url else '?'}sslmode=disable&gssencmode=disable"

    def stop_forwarding(self) -> None:
        """Take what comes and pass nothing on, as a network that is half open; what connects meets the same."""
        self._forwards.clear()

    def lose_answers(self) -> None:
        """Keep the answers to those who are connected now."""
        for conversation in self._conversations:
            conversation.losing = True

    def forward_again(self) -> None:
        """Pass on, also what has come meanwhile."""
        self._forwards.set()

    def cut_all(self) -> None:
        """Break every connection there is."""
        for end in list(self._open):
            self._close(end)
        self.cuts += 1

    def close(self) -> None:
        self._listener.close()
        self.cut_all()
        self._forwards.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self._open |= {client, server}
                conversation = self._conversation()
                self._conversations.append(conversation)
                changes = _Messages(conversation.question, starts=True), _Messages(conversation.reply)
                for ends in ((client, server, changes[0]), (server, client, changes[1])):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _conversation(self) -> Conversation:
        return Conversation(self)

    def _pass_on(self, from_: socket.socket, to: socket.socket, change: Change) -> None:
        with suppress(OSError, Cut):
            while data := from_.recv(65536):
                self._forwards.wait()
                to.sendall(change(data))
        self._close(from_)
        self._close(to)

    def _close(self, end: socket.socket) -> None:
        self._open.discard(end)
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


class Cut(Exception):
    """The connection is to break here."""


_CHANGES = re.compile(r"(?:WITH\b.*)?\b(?:INSERT|UPDATE|DELETE)\b", re.DOTALL)


class Conversation:
    """One connection through a Proxy: what becomes of each message, by its kind."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._waiting = self._dropping = self._begun = self.losing = False
        self._prepared: dict[bytes, str] = {}
        """The statements that the client has sent, by the name it gave them."""

    def question(self, kind: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
        """What the server hears instead of a client's message."""
        if kind != b"X" and not self._waiting:  # nobody waits for the answer to a farewell
            self._waiting = True
            self._proxy.turns += 1
        if self._commits(kind, body):
            return self.commit(kind, body)
        return [(kind, body)]

    def commit(self, kind: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
        """What the server hears instead of what commits."""
        self._proxy.commits += 1
        if self._proxy.cut_before_commit:
            self._proxy.cut_before_commit -= 1
            self._proxy.cuts += 1
            raise Cut
        if self._proxy.cut_after_commit:
            self._proxy.cut_after_commit -= 1
            self._proxy.cuts += 1
            self._dropping = True
        return [(kind, body)]

    def reply(self, kind: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
        """What the client hears instead of a server's message."""
        self._waiting = False
        if self._dropping:
            if kind == b"Z":  # ready for what comes next, so it has committed
                raise Cut
            return []
        return [] if self.losing else [(kind, body)]

    def _commits(self, kind: bytes, body: bytes) -> bool:
        if kind == b"P":
            name, sql, _ = body.split(b"\0", 2)
            self._prepared[name] = sql.decode()
            self._proxy.prepared += name != b""
            self._proxy.asked.append(sql.decode())
        elif kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            return not self._begun and _CHANGES.match(self._prepared[name]) is not None
        elif kind == b"Q":
            sql = body[:-1].decode()
            self._proxy.asked.append(sql)
            if sql.startswith(("BEGIN", "COMMIT", "ROLLBACK")):
                self._begun = sql.startswith("BEGIN") and not sql.endswith("COMMIT")
            return sql.endswith("COMMIT")
        return False


class Disguise(Proxy):
    """PostgreSQL in the words of CockroachDB: its version, its errors when something commits.

    `refuse_commits`: how many times what commits is rolled back and answered with 40001; `doubt_commits`: how many
    times it goes through and is answered with 40003.
    """

    def __init__(self, port: int) -> None:
        self.refuse_commits = self.doubt_commits = 0
        super().__init__(port)

    def _conversation(self) -> Conversation:
        return _Disguised(self)


class _Disguised(Conversation):
    # Texts: CockroachDB documentation, "Transaction Retry Error Reference" and "Common Errors".
    VERSION = b"CockroachDB CCL v24.3.5 (x86_64-pc-linux-gnu, built 2025/02/05 20:50:11, go1.22.8)"
    REFUSED = (
        b"40001",
        b"restart transaction: TransactionRetryWithProtoRefreshError: retry txn",
    )
    DOUBTED = (b"40003", b"result is ambiguous: error=ba: EndTxn(commit) RPC error: connection lost [exhausted]")

    def __init__(self, disguise: Disguise) -> None:
        super().__init__(disguise)
        self._disguise = disguise
        self._error: tuple[bytes, bytes] | None = None
        """The answer to what commits, while that is under way."""

    def commit(self, kind: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
        if self._disguise.refuse_commits:
            self._disguise.refuse_commits -= 1
            self._error = self.REFUSED
            # A statement by itself: one that the server does not know.
            return [(kind, b"ROLLBACK\0" if kind == b"Q" else b"\0nothing\0" + bytes(6))]
        if self._disguise.doubt_commits:
            self._disguise.doubt_commits -= 1
            self._error = self.DOUBTED
        return super().commit(kind, body)

    def reply(self, kind: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
        if kind == b"S" and body.startswith(b"server_version\0"):
            return [(b"S", b"server_version\x0013.0.0\0"), (b"S", b"crdb_version\0" + self.VERSION + b"\0")]
        if kind == b"D" and body[:2] == b"\0\1" and body[6:].startswith(b"PostgreSQL "):
            return [(b"D", b"\0\1" + len(self.VERSION).to_bytes(4, "big") + self.VERSION)]
        if kind in b"CE" and self._error is not None:
            (state, text), self._error = self._error, None
            return [(b"E", b"SERROR\0VERROR\0C" + state + b"\0M" + text + b"\0\0")]
        return super().reply(kind, body)


class _Messages:
    """Cuts a stream into PostgreSQL's messages and puts together what becomes of them.

    Format: PostgreSQL documentation, "Frontend/Backend Protocol", "Message Formats".
    """

    def __init__(self, change: Callable[[bytes, bytes], list[tuple[bytes, bytes]]], *, starts: bool = False) -> None:
        self._change, self._starts, self._rest = change, starts, b""

    def __call__(self, data: bytes) -> bytes:
        self._rest += data
        out = b""
        while True:
            kind = 0 if self._starts else 1  # a client's first message has no byte that says its kind
            if len(self._rest) < kind + 4:
                return out
            end = kind + int.from_bytes(self._rest[kind : kind + 4], "big")
            if len(self._rest) < end:
                return out
            message, self._rest = self._rest[:end], self._rest[end:]
            if self._starts:
                self._starts, out = False, out + message
                continue
            for letter, body in self._change(message[:1], message[5:]):
                out += letter + (len(body) + 4).to_bytes(4, "big") + body
