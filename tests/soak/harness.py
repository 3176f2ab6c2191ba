"""Runs workers on one database, kills some of them, and compares what they acknowledged with what is stored."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autocontext import AutoContext
from autocontext.testing import assert_valid_chat
from tests.soak.interrupted import PARTS, opened
from tests.soak.worker import CONFIG, LONGEST, SESSIONS, USERS

ROOT = Path(__file__).parents[2]
_ROUNDS = 10
"""How often a slow machine begins again."""
_OF_PSYCOPG = re.compile(
    r"Exception ignored in: <generator object BasePipeline\._exit_gen .*\n(?:.*\n)*?psycopg\.OperationalError: .* NULL"
)
"""psycopg prints it where an interrupt ended a batch of statements and its connection was closed."""


@dataclass
class Findings:
    """What a run showed. It went well when `problems` is empty."""

    problems: list[str] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    growth: list[float] = field(default_factory=list)
    """Memory of each process that lived long: at its end, as a multiple of that after its first tenth."""


def soak(
    url: str, folder: Path, *, processes: int, threads: int, seconds: float, seed: int = 0, additions: int = 100
) -> Findings:
    """Let `processes` with so many `threads` work for so many `seconds`; every few seconds one is killed and replaced.

    The first process is not killed: its memory is looked at. A machine that is too slow for more than so many
    `additions` works for longer.
    """
    findings, chance = Findings(), random.Random(seed)
    AutoContext.open(url, config=CONFIG).close()  # the tables
    for _ in range(_ROUNDS):
        _work(url, folder, findings, chance, processes=processes, threads=threads, seconds=seconds)
        if findings.problems or sum(fact["kind"] == "add done" for fact in _facts(folder)) > additions:
            break
    _read_journals(folder, findings)
    said = Said()
    for fact in sorted(_facts(folder), key=lambda f: f["at"]):
        said.take(fact)
    with AutoContext.open(url, config=CONFIG) as context:
        _compare(context, said, findings)
    return findings


def _work(
    url: str, folder: Path, findings: Findings, chance: random.Random, *, processes: int, threads: int, seconds: float
) -> None:
    started = time.monotonic()

    def start(number: int) -> subprocess.Popen[bytes]:
        left = max(2.0, started + seconds - time.monotonic())
        arguments = [url, str(folder), str(threads), str(number + 100 * findings.kills), f"{left:.1f}"]
        with (folder / f"stderr{number}.txt").open("ab") as errors:
            return subprocess.Popen([sys.executable, "-m", "tests.soak.worker", *arguments], cwd=ROOT, stderr=errors)

    running = [start(n) for n in range(processes)]
    while time.monotonic() - started < seconds - 3:
        time.sleep(chance.uniform(1.0, 4.0))
        victim = chance.randrange(1, processes) if processes > 1 else 0
        if victim:
            running[victim].send_signal(signal.SIGKILL)
            running[victim].wait()
            findings.kills += 1
            running[victim] = start(victim)
    for n, process in enumerate(running):
        try:
            if process.wait(timeout=3 * LONGEST):
                findings.problems.append(f"process {n} ended with {process.returncode}")
        except subprocess.TimeoutExpired:
            process.kill()
            findings.problems.append(f"process {n} did not end")


def interrupt(
    url: str, folder: Path, *, seconds: float, encrypted: bool = False, parts: Iterable[str] = PARTS, seed: int = 0
) -> Findings:
    """Let one process work for so many seconds, interrupted by a signal in each operation."""
    findings = Findings()
    command = [sys.executable, "-m", "tests.soak.interrupted", url, str(folder), str(seed), f"{seconds:.1f}"]
    with (folder / "stderr0.txt").open("ab") as errors:
        done = subprocess.run([*command, str(int(encrypted)), *parts], cwd=ROOT, stderr=errors, check=False)
    if done.returncode:
        findings.problems.append(f"the process ended with {done.returncode}")
    _read_journals(folder, findings)
    said = Said()
    for fact in _facts(folder):
        said.take(fact)
    with opened(url, encrypted=encrypted) as context:
        _compare(context, said, findings)
    return findings


def _facts(folder: Path) -> Iterator[dict[str, Any]]:
    for path in folder.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            if line.endswith("}"):  # the last line of a process that was killed may be cut
                yield json.loads(line)


def _read_journals(folder: Path, findings: Findings) -> None:
    for fact in _facts(folder):
        findings.operations[fact["kind"]] += 1
        if fact["kind"] == "violation":
            findings.problems.append(f"{fact['what']} {fact.get('facts', '')}")
        elif fact["kind"] == "refused":
            findings.refusals[f"{fact['operation']}: {fact['error'].partition(':')[0]}"] += 1
    for path in folder.glob("p*.jsonl"):
        sizes = (
            [f["bytes"] for line in path.read_text().splitlines() if (f := json.loads(line))["kind"] == "memory"]
            if path.stem[1:].isdigit()
            else []
        )
        if len(sizes) > 20:
            findings.growth.append(max(sizes[-5:]) / max(sizes[: len(sizes) // 10 + 1]))
    for path in folder.glob("stderr*.txt"):
        if text := _OF_PSYCOPG.sub("", path.read_text()).strip():
            findings.problems.append(f"stderr: {text[-3_000:]}")


@dataclass
class Said:
    """What the journals say was done, with times: begin and end of each, an end of 0 where none was written."""

    added: dict[tuple[str, str], dict[str, list[int]]] = field(default_factory=dict)
    """Per session, the messages by id."""
    deleted: dict[tuple[str, str], list[list[int]]] = field(default_factory=dict)
    """Per session, its deletions."""
    remembered: dict[str, dict[str, bool]] = field(default_factory=lambda: {user: {} for user in USERS})
    """Per user, the contents of memories, and whether they were acknowledged."""

    def take(self, fact: dict[str, Any]) -> None:
        """Take a line of a journal; lines come in the order of their times."""
        session: Any = tuple(fact.get("session", ()))
        match fact["kind"]:
            case "add begins":
                self.added.setdefault(session, {}).update({id_: [fact["at"], 0] for id_ in fact["ids"]})
            case "add done":
                for id_ in fact["ids"]:
                    self.added[session][id_][1] = fact["at"]
            case "delete begins":
                self.deleted.setdefault(session, []).append([fact["at"], 0])
            case "delete done":
                next(d for d in self.deleted[session] if not d[1])[1] = fact["at"]
            case "remember begins":
                self.remembered[fact["user"]].setdefault(fact["content"], False)
            case "remember done":
                self.remembered[fact["user"]][fact["content"]] = True


def _compare(context: AutoContext, said: Said, findings: Findings) -> None:
    """Everything acknowledged is there once, what was deleted is not, and nothing is there that nobody added."""
    for user in USERS:
        for session in (f"s{n}" for n in range(SESSIONS)):
            memory = context.session(session, user_id=user).memory
            try:
                assert_valid_chat(memory.messages)
            except AssertionError as e:
                findings.problems.append(f"{user}/{session}: {e}")
            ids = Counter(m.id for m in memory.get_original_memory_msgs())
            key = user, session
            findings.problems += _compared(f"{user}/{session}", ids, said.added.get(key, {}), said.deleted.get(key, []))
        contents = Counter(m.content for m in context.memories.all(user_id=user))
        remembered = said.remembered[user]
        unknown = [c for c in contents if c not in remembered]
        lost = [c for c, done in remembered.items() if done and c not in contents]
        if unknown or lost or max(contents.values(), default=1) > 1:
            findings.problems.append(f"memories of {user}: {len(unknown)} unknown, {len(lost)} lost, or some twice")


def _compared(session: str, ids: Counter[str], added: dict[str, list[int]], deleted: list[list[int]]) -> Iterator[str]:
    for id_ in [i for i in ids if i not in added][:3]:
        yield f"{session}: {id_} is there and nobody added it"
    for id_ in [i for i, n in ids.items() if n > 1][:3]:
        yield f"{session}: {id_} is there {ids[id_]} times"
    for id_, (began, done) in added.items():
        may_be_gone = any(not end or end >= began for _, end in deleted)
        if done and id_ not in ids and not may_be_gone:
            yield f"{session}: {id_} was acknowledged and is lost"
        if done and id_ in ids and any(end and done < begin for begin, end in deleted):
            yield f"{session}: {id_} was deleted and is there again"
