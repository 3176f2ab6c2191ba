"""The results of pruning and the costs of the content store: the acceptance cases of the original's tables.

Usage: `python benchmarks/pruning.py [--json | --markdown]`. Seeded, no network, no model. After each case a FRESH
process gets the messages as they are sent and the database, reads every handle with the reload tool and nothing else,
and must come to the original texts byte for byte. Four figures stand beside each other always: characters sent,
bytes on disk, retrievable percent (100, or exit code 1) and broken tool pairs (0, or exit code 1).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import Row, percentile, run

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg
from autocontext.content import SqliteContentStore, prune_messages
from autocontext.content.pruning import chars_of
from autocontext.history.view import open_pairs
from autocontext.stores import SqliteSessionStore
from autocontext.testing import assistant, system, tool_call, tool_result, user

WORDS = ("the", "agent", "reads", "a", "file", "test", "error", "line", "value", "module", "path", "fails", "because")
_REF = re.compile(r'context_reload\("(c_[0-9a-f]{12,64})"\)\]\Z')
_HANDLE = re.compile(r'context_reload\("(c_[0-9a-f]{12,64})"|CONTEXT_OFFLOAD: uuid=([0-9A-Za-z-]+)')
_TOP = re.compile(r"; showing \d+-(\d+); continue with offset=\d+\]\n|; showing \d+-\d+; this is the end\]\n")


def prose(seed: int, chars: int) -> str:
    """Random text that compresses about as tool output does."""
    dice = random.Random(seed)
    words = dice.choices(WORDS, k=chars // 4)
    for at in range(0, len(words), 5):
        words[at] += str(dice.randrange(10_000))
    return " ".join(words)[:chars].ljust(chars, ".")


def chat(files: int, chars: int, pages: int = 1, *, distinct: bool = True, calls: bool = False) -> list[Msg]:
    """System prompt; per page a question, an announcement (with `calls`: a tool call) and `chars` characters."""
    messages = [system("You are a helpful assistant.")]
    for i in range(files):
        for p in range(pages):
            text = prose(i * 1_000 + p, chars) if distinct else "x" * chars
            says, call_id = f"I'll retrieve file_{i}.txt", f"call_{i}_{p}"
            messages.append(user(f"Get content from file_{i}.txt"))
            arguments = {"file_name": f"file_{i}.txt", "start_char": p * chars, "length": chars}
            messages.append(
                tool_call("get_file_content", arguments, id=call_id, text=says) if calls else assistant(says)
            )
            messages.append(tool_result(call_id, text, name="get_file_content"))
    return messages


# ---------------------------------------------------------------------------------------------------- fresh process
def sent_texts(messages: list[Msg]) -> list[str]:
    """What a model sees: texts and results, no metadata."""
    return [t for m in messages for t in ([m.text] if m.text else []) + [r.text for r in m.tool_results]]


def read_all(tool: ContextOffloadTool, handle: str) -> str:
    """Everything behind a handle, page by page."""
    got, offset = [], 0
    while True:
        page = tool(handle, offset=offset)
        top = _TOP.search(page)
        if top is None:
            raise SystemExit(f"{handle} cannot be read: {page[:200]}")
        got.append(page[top.end() :])
        if top.group(1) is None:
            return "".join(got)
        offset = int(top.group(1))


def reconstruct(database: str) -> None:
    """In the fresh process: hashes of the original texts, and everything that can be reached."""
    sent = json.load(sys.stdin)
    memory = AutoContextMemory(store=SqliteSessionStore(database), session_id="bench")
    tool = ContextOffloadTool(memory, content=SqliteContentStore(database))
    texts, reached, waiting = [], [], set()
    for text in sent:
        match = _REF.search(text)
        texts.append(read_all(tool, match.group(1)) if match else text)
        waiting |= {a or b for a, b in _HANDLE.findall(text)}
    handles: set[str] = set()
    while waiting:
        handle = waiting.pop()
        handles.add(handle)
        whole = read_all(tool, handle)
        reached.append(whole)
        waiting |= {a or b for a, b in _HANDLE.findall(whole)} - handles
    json.dump({"texts": [_digest(t) for t in texts], "reached": "\0".join([*texts, *reached])}, sys.stdout)


def retrievable(original: list[Msg], sent: list[Msg], database: Path, *, folded: bool = False) -> float:
    """Percent of the original texts that a fresh process gets to; in place, or with `folded` anywhere."""
    command = [sys.executable, __file__, "--reconstruct", str(database)]
    done = subprocess.run(command, input=json.dumps(sent_texts(sent)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    reply, texts = json.loads(done.stdout), sent_texts(original)
    if folded:
        return 100 * sum(text in reply["reached"] for text in texts) / len(texts)
    digests = [_digest(t) for t in texts]
    same = sum(a == b for a, b in zip(digests, reply["texts"], strict=False))
    return 100 * same / len(digests) if len(digests) == len(reply["texts"]) else 0.0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# ------------------------------------------------------------------------------------------------------------ cases
def pruned(name: str, messages: list[Msg], was: str, goal: int) -> dict[str, Any]:
    """One case: prune, close, reconstruct elsewhere."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.db"
        store = SqliteContentStore(path)
        begun = time.perf_counter()
        result = prune_messages(messages, store=store)
        spent = time.perf_counter() - begun
        store.close()
        return {
            "case": name, "chars_before": result.chars_before, "chars_after": result.chars_after, "goal": goal,
            "reduction": 100 * result.reduction, "average": [result.chars_before // len(messages),
            result.chars_after // len(messages)], "disk": path.stat().st_size,
            "retrievable": retrievable(messages, result.messages, path), "broken": broken(messages, result.messages),
            "ms": 1_000 * spent, "original": was,
        }  # fmt: skip


def folded(name: str, messages: list[Msg], was: str, goal: int) -> dict[str, Any]:
    """Compressed first, as a session does it: the oldest rounds go into notes, the rest is pruned."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.db"
        store = SqliteContentStore(path)
        memory = AutoContextMemory(
            AutoContextConfig.for_window(16_000), store=SqliteSessionStore(path), session_id="bench"
        )
        begun = time.perf_counter()
        for msg in messages:
            memory.add_message(msg)
            if msg.tool_results:
                memory.get_messages()
        result = prune_messages(memory.get_messages(), store=store)
        spent = time.perf_counter() - begun
        return {
            "case": name, "chars_before": chars_of(messages), "chars_after": result.chars_after, "goal": goal,
            "reduction": 100 * (1 - result.chars_after / chars_of(messages)), "average": [],
            "disk": sum(p.stat().st_size for p in Path(folder).iterdir()),
            "retrievable": retrievable(messages, result.messages, path, folded=True),
            "broken": broken(messages, result.messages), "ms": 1_000 * spent, "original": was,
        }  # fmt: skip


def broken(before: list[Msg], after: list[Msg]) -> int:
    """Calls without a result, results without a call, that there were not before."""
    old, new = open_pairs(before), open_pairs(after)
    return len(set(new.unanswered_calls) - set(old.unanswered_calls)) + len(
        set(new.orphan_results) - set(old.orphan_results)
    )


def storage() -> dict[str, Any]:
    """Storing 100 texts of 50 KB; reading random pages of 10,000 characters out of a text of 10 MB."""
    texts = [prose(i, 50_000) for i in range(100)]
    payload = sum(map(len, texts))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.db"
        store = SqliteContentStore(path)
        before, puts = written(), []
        for i, text in enumerate(texts):
            begun = time.perf_counter()
            store.put(text, key=f"file_{i}.txt")
            puts.append(time.perf_counter() - begun)
        disk = sum(p.stat().st_size for p in Path(folder).iterdir())
        store.close()
        out = written() - before
        plain = written_plainly(Path(folder) / "plain.db", texts)
        dense = [base64.b64encode(random.Random(i).randbytes(37_500)).decode() for i in range(100)]
        before = written()
        with contextlib.closing(SqliteContentStore(Path(folder) / "dense.db")) as other:
            for i, text in enumerate(dense):
                other.put(text, key=f"file_{i}.txt")
        out_dense = written() - before
        plain_dense = written_plainly(Path(folder) / "plain_dense.db", dense)
        store = SqliteContentStore(path)
        large = "".join(prose(1_000 + i, 100_000) for i in range(105))
        store.put(large, key="large")
        dice, reads = random.Random(7), []
        for _ in range(500):
            at = dice.randrange(len(large) - 10_000)
            begun = time.perf_counter()
            page = store.read("large", at, 10_000)
            reads.append(time.perf_counter() - begun)
            if page is None or page.text != large[at : at + 10_000]:
                raise SystemExit("a page is not what was stored")
        same = sum((store.read_bytes(f"file_{i}.txt") or b"").decode() == text for i, text in enumerate(texts))
        return {
            "payload": payload, "disk": disk, "written": out, "disk_ratio": disk / payload,
            "written_ratio": out / payload, "plain_ratio": plain / payload, "dense_ratio": out_dense / payload,
            "dense_plain_ratio": plain_dense / payload, "put_p50_ms": 1_000 * percentile(puts, 50),
            "put_p99_ms": 1_000 * percentile(puts, 99), "read_p50_us": 1e6 * percentile(reads, 50),
            "read_p99_us": 1e6 * percentile(reads, 99), "retrievable": float(same), "broken": 0,
        }  # fmt: skip


def written_plainly(path: Path, texts: list[str]) -> int:
    """Bytes that a plain table of these texts writes: a row each, compressed as a whole, in a commit of its own."""
    before = written()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as plain:
        plain.execute("PRAGMA journal_mode = WAL")
        plain.execute("PRAGMA synchronous = NORMAL")
        plain.execute("CREATE TABLE contents (key TEXT PRIMARY KEY, body BLOB NOT NULL)")
        for i, text in enumerate(texts):
            plain.execute("INSERT INTO contents VALUES (?, ?)", (f"file_{i}.txt", zlib.compress(text.encode(), 4)))
    return written() - before


def written() -> int:
    """Bytes that this process has written (Linux; 0 elsewhere): the write-ahead file and the database."""
    counted = Path("/proc/self/io")
    if not counted.exists():
        return 0
    return int(next(line for line in counted.read_text().splitlines() if line.startswith("wchar")).split()[1])


def killed(times: int = 10) -> int:
    """Items that were acknowledged by a process killed in the middle of writing and are not there: must be 0."""
    code = (
        "import sys\nfrom autocontext.content import SqliteContentStore\ns = SqliteContentStore(sys.argv[1])\ni = 0\n"
        "while True:\n    s.put((str(i) + ' ') * 10000, key=f'k{i}')\n    print(i, flush=True)\n    i += 1\n"
    )
    lost, dice = 0, random.Random(3)
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agent.db"
            with subprocess.Popen(
                [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
            ) as process:
                lines = [process.stdout.readline()]
                time.sleep(dice.random() * 0.2)
                process.send_signal(signal.SIGKILL)
                lines += process.stdout.readlines()
            store = SqliteContentStore(path)
            for i in (int(line) for line in lines if line.strip()):
                page = store.read(f"k{i}")
                lost += page is None or page.text != f"{i} " * 10_000
            store.close()
    return lost


def pruning() -> Iterator[Row]:
    """The original's cases: characters sent, of what there was."""
    for name, messages, was, goal in (
        ("a: 10 x 5,000 'x'", chat(10, 5_000, distinct=False), "50,538 to 2,738", 2_738),
        ("a: 10 x 5,000 distinct", chat(10, 5_000), "50,538 to 2,738", 2_738),
        ("a: the same with tool calls", chat(10, 5_000, calls=True), "50,538 to 2,738", 2_738),
        ("b: 100 x 50,000", chat(100, 50_000), "5,005,308 to 19,488", 50_000),
        ("c: 100 files in 500 pages", chat(100, 10_000, 5), "to 93,806", 50_000),
    ):
        yield case_row(pruned(name, messages, was, goal))
    pages = chat(100, 10_000, 5, calls=True)
    yield case_row(folded("c: compressed, then pruned", pages, "to 93,806", 50_000))


def case_row(case: dict[str, Any]) -> Row:
    """One case as a row."""
    more = {
        "before": f"{case['chars_before']:,}", "less": f"{case['reduction']:.2f} %", "on disk": f"{case['disk']:,}",
        "ms": round(case["ms"]), "the original": case["original"],
    }  # fmt: skip
    return Row(
        case["case"], case["chars_after"], "characters", "what there was", case["chars_after"] / case["chars_before"],
        case["goal"], retrievable=case["retrievable"], invalid=case["broken"], more=more,
    )  # fmt: skip


def storing() -> Iterator[Row]:
    """The store itself, and what a killed writer loses."""
    figures = storage()
    kept = {"retrievable": figures["retrievable"], "invalid": figures["broken"]}
    written, plain = figures["written_ratio"], figures["plain_ratio"]
    on_disk = {"on disk": f"{figures['disk_ratio']:.2f} x", "the original": "51 x"}
    yield Row(
        "d: bytes written for 100 x 50,000", written, "x payload", "a plain table", written / plain if plain else None,
        goal=1.2, **kept, more=on_disk,
    )  # fmt: skip
    written, plain = figures["dense_ratio"], figures["dense_plain_ratio"]
    yield Row(
        "d: the same, base64 of random bytes", written, "x payload", "a plain table", written / plain if plain else None
    )
    yield Row(
        "d: put, 99th percentile", figures["put_p99_ms"], "ms", goal=3, more={"p50": round(figures["put_p50_ms"], 2)}
    )
    more = {"p50": round(figures["read_p50_us"])}
    yield Row("d: 10,000 characters out of 10 MB, p99", figures["read_p99_us"], "us", goal=500, more=more)
    lost = killed()
    yield Row("lost after kill -9 while writing, 10 times", lost, "", goal=0, retrievable=0.0 if lost else 100.0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--reconstruct"]:
        reconstruct(sys.argv[2])
    else:
        sys.exit(run("pruning", [pruning, storing]))
