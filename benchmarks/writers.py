"""64 writers on 16 processes save to one PostgreSQL through PgBouncer, in turns with as many that only INSERT.

Each writer goes from session to session of its own, one message an append. Afterwards every session is read back and
compared, message by message, with what its writer was told is stored. Server (a cluster of its own, with the defaults
of PostgreSQL), pooler and writers share this machine. `--seconds` says how long this library writes, 600 by default.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from autocontext import Msg
from autocontext.history.entries import Added
from autocontext.stores import SessionKey, SqlSessionStore
from benchmarks.measure import ROOT, Row, percentile, run
from benchmarks.storage import TEXTS
from tests.stores.servers import Server, can_run_a_server, own_server, pgbouncer, pooled

PROCESSES, THREADS, SESSION = 16, 4, 200
OURS, PLAIN = 30.0, 10.0
"""Seconds of a turn."""
_REST = 1.0
"""Seconds between turns: what is under way ends."""
_TABLE = "CREATE TABLE plain_messages (session TEXT, n INT, body TEXT, PRIMARY KEY (session, n))"
_INSERT = "INSERT INTO plain_messages VALUES (%s, %s, %s)"
_TICKS = os.sysconf("SC_CLK_TCK")


def _digest(said: hashlib._Hash, message: Msg) -> None:
    said.update(f"{message.id} {message.role} {message.text}\n".encode())


class _Writer:
    """One of the writers: its sessions, its times."""

    def __init__(self, name: str, store: SqlSessionStore, url: str) -> None:
        self.name, self.store = name, store
        self.plain = psycopg.connect(url, prepare_threshold=None)
        self.sessions: list[tuple[str, int, str]] = []
        """Name, messages and checksum of what the store has said is stored."""
        self.times: dict[str, list[int]] = {"ours": [], "plain": []}
        """Microseconds."""
        self._count, self._said = SESSION, hashlib.sha256()

    def ours(self, message: Msg) -> None:
        if self._count == SESSION:
            self.sessions.append((f"{self.name} {len(self.sessions)}", 0, ""))
            self._count, self._said = 0, hashlib.sha256()
        name = self.sessions[-1][0]
        self.store.append(SessionKey(self.name, name), [Added(message=message)], after=self._count)
        self._count += 1
        _digest(self._said, message)
        self.sessions[-1] = (name, self._count, self._said.hexdigest())

    def inserted(self, message: Msg) -> None:
        body = json.dumps({"role": message.role, "content": message.text})
        self.plain.execute(_INSERT, (self.name, len(self.times["plain"]), body))
        self.plain.commit()

    def work(self, turns: list[tuple[str, float, float]]) -> None:
        for way, begin, end in turns:
            save = self.ours if way == "ours" else self.inserted
            time.sleep(max(0.0, begin - time.time()))
            while time.time() < end:
                role, text = TEXTS[len(self.times[way]) % len(TEXTS)]
                message = Msg(role=role, content=text)
                begun = time.perf_counter()
                save(message)
                self.times[way].append(round((time.perf_counter() - begun) * 1e6))


def _write(url: str, process: str) -> None:
    """One of the processes, which is told the turns when all are there; its writers share a store."""
    store = SqlSessionStore(url)
    writers = [_Writer(f"{process}.{n}", store, url) for n in range(THREADS)]
    print("ready", flush=True)
    turns = json.loads(sys.stdin.readline())
    threads = [threading.Thread(target=writer.work, args=(turns,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps([{"sessions": writer.sessions, **writer.times} for writer in writers]))


def _turns(seconds: float) -> list[tuple[str, float, float]]:
    """When who writes: this library and INSERTs in turns."""
    turns, at = [], time.time() + _REST
    for _ in range(max(1, round(seconds / OURS))):
        for way, length in (("ours", min(OURS, seconds)), ("plain", PLAIN)):
            turns.append((way, at, at + length))
            at += length + _REST
    return turns


def _server_seconds(server: Server) -> float:
    """Seconds of CPU that the server's processes have used."""
    postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == postmaster:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def _watched(server: Server, turns: list[tuple[str, float, float]]) -> dict[str, float]:
    """The server's CPU in the turns of each way."""
    spent = {"ours": 0.0, "plain": 0.0}
    for way, begin, end in turns:
        time.sleep(max(0.0, begin - time.time()))
        before = _server_seconds(server)
        time.sleep(max(0.0, end + _REST / 2 - time.time()))
        spent[way] += _server_seconds(server) - before
    return spent


def _kept(url: str, writers: list[dict[str, list]]) -> tuple[int, int]:
    """How many sessions are as their writers left them, and of how many."""
    store = SqlSessionStore(url)
    same = told = 0
    for writer in writers:
        for name, count, checksum in writer["sessions"]:
            said, entries = hashlib.sha256(), store.read(SessionKey(name.split(" ")[0], name))
            for entry in entries:
                _digest(said, entry.message)
            told += 1
            same += (len(entries), said.hexdigest()) == (count, checksum)
    extra = len(store.sessions()) - told
    store.close()
    return same - abs(extra), told


def measured(seconds: float) -> Iterator[Row]:
    if not (can_run_a_server() and pgbouncer()):
        print("Left out: needs root, PostgreSQL and PgBouncer.", file=sys.stderr)
        return
    with own_server() as server, pooled(f"{server.url}?options=-csearch_path%3Dpublic", sessions=20) as url:
        SqlSessionStore(server.url).close()
        with psycopg.connect(server.url) as made:
            made.execute(_TABLE)
        command = [sys.executable, "-m", "benchmarks.writers", "--write", url]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
        processes = [subprocess.Popen([*command, str(n)], **pipes) for n in range(PROCESSES)]
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        turns = _turns(seconds)
        for process in processes:
            process.stdin.write(json.dumps(turns) + "\n")
            process.stdin.flush()
        cpu = _watched(server, turns)
        writers = [writer for process in processes for writer in json.loads(process.communicate()[0])]
        yield from _rows(writers, turns, cpu)
        same, told = _kept(server.url, writers)
        stored = sum(len(writer["ours"]) for writer in writers)
        yield Row("sessions that are as their writers left them", same, f"of {told:,}", retrievable=100 * same / told,
                  more={"messages": f"{stored:,}", "seconds": round(seconds)})  # fmt: skip


def _rows(
    writers: list[dict[str, list]], turns: list[tuple[str, float, float]], cpu: dict[str, float]
) -> Iterator[Row]:
    beside = "INSERT and COMMIT"
    times = {way: [t for writer in writers for t in writer[way]] for way in ("ours", "plain")}
    lasted = {way: sum(end - begin for w, begin, end in turns if w == way) for way in times}

    def row(name: str, unit: str, figure: Callable[[str], float], **more: object) -> Row:
        ours, plain = figure("ours"), figure("plain")
        more = {"INSERT": f"{plain:,.4g}", **more}
        return Row(f"{name}, {len(writers)} writers", ours, unit, beside, ours / plain, more=more)

    yield row("messages saved", "messages/s", lambda way: len(times[way]) / lasted[way])
    for percent in (50, 99):
        yield row(f"p{percent}", "ms", lambda way, percent=percent: percentile(times[way], percent) / 1000)
    yield row("longest", "ms", lambda way: max(times[way]) / 1000)
    counts = {way: [len(writer[way]) for writer in writers] for way in times}
    most, least = max(counts["ours"]), min(counts["ours"])
    yield row("the slowest writer's messages, of the fastest's", "x", lambda way: min(counts[way]) / max(counts[way]),
              least=f"{least:,}", most=f"{most:,}")  # fmt: skip
    yield row("CPU of the server for a message", "us", lambda way: cpu[way] / len(times[way]) * 1e6)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        _write(*sys.argv[2:])
    else:
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("--seconds", type=float, default=600.0)
        asked, sys.argv[1:] = parser.parse_known_args()
        sys.exit(run("writers", [lambda: measured(asked.seconds)]))
