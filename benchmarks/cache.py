"""The result cache's time and space, compared with diskcache and with the original's JSON file.

Usage: `python benchmarks/cache.py [--json | --markdown]`. diskcache runs in an environment of its own (see
`peers`). Exit code 1 when a result was lost, or two
arguments share a key that must not, or the reverse.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measure import ROOT, Row, invalid, percentile, run
from peers import ENVIRONMENTS, python_with

from autocontext.cache import ResultCache, canonical_key
from autocontext.testing import assistant, tool_call, tool_result, user

sys.path.insert(0, str(ROOT))
from tests.cache.pairs import DIFFERENT, EQUAL

DISKCACHE = ENVIRONMENTS["diskcache"][0]
SERVER = "postgresql://postgres@127.0.0.1:5432/test"
VALUE = {"remaining": 8000, "rate": 6500, "predicted": 68000, "overshoot": True, "anomalies": []}
TIMES = 2000

_DISKCACHE = """
import json, random, sys, tempfile, time
from diskcache import Cache, JSONDisk
count, times, value = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
keys = [f"analyze_budget:50000:{i}:{i:016x}" for i in range(count)]
cache = Cache(tempfile.mkdtemp(), disk=JSONDisk)
with cache.transact():
    for key in keys: cache.set(key, value)
def p50(work):
    took = []
    for i in range(times):
        key = random.choice(keys); start = time.perf_counter(); work(key); took.append(time.perf_counter() - start)
    return sorted(took)[times // 2]
print(json.dumps([p50(cache.get), p50(lambda key: cache.set(key, value))]))
"""
_WRITER = """
import sys
from autocontext.cache import ResultCache
cache = ResultCache(sys.argv[1], namespace="shared")
sys.stdin.readline()
for i in range(100): assert cache.set(f"{sys.argv[2]}-{i}", {"i": i})
"""
_ASKER = """
import sys, threading, time
from autocontext.cache import ResultCache
cache = ResultCache(sys.argv[1], namespace="shared")
def fn():
    with open(sys.argv[2], "a") as log: log.write("x")
    time.sleep(0.1)
    return "result"
sys.stdin.readline()
threads = [threading.Thread(target=cache.get_or_compute, args=("t", {}, fn)) for _ in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def p50(work: Callable[[int], object], times: int = TIMES) -> float:
    """Median seconds of one call."""
    took = []
    for i in range(times):
        begun = time.perf_counter()
        work(i)
        took.append(time.perf_counter() - begun)
    return percentile(took, 50)


def diskcache(count: int) -> tuple[float, float] | None:
    """Median seconds of its get and set."""
    python = python_with("diskcache")
    if not python:
        return None
    arguments = [str(count), str(TIMES), json.dumps(VALUE)]
    done = subprocess.run([python, "-c", _DISKCACHE, *arguments], check=True, capture_output=True, text=True)
    got, put = json.loads(done.stdout)
    return got, put


def json_file(count: int) -> tuple[float, float]:
    """Median seconds of a get and a set of the original: the file is read, and written, as a whole."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.json"
        file.write_text(json.dumps({"tasks": {f"k{i}": VALUE for i in range(count)}}, indent=2))

        def put(i: int) -> None:
            tasks = json.loads(file.read_text())
            tasks["tasks"][f"k{i}"] = VALUE
            file.write_text(json.dumps(tasks, indent=2))

        return p50(lambda i: json.loads(file.read_text())["tasks"].get(f"k{i}"), 9), p50(put, 9)


def filled(cache: ResultCache, count: int) -> list[str]:
    keys = [f"analyze_budget:50000:{i}:{i:016x}" for i in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.json"
        file.write_text(json.dumps({"tasks": dict.fromkeys(keys, VALUE)}))
        assert cache.import_json(file) == count
    return keys


def measured(count: int) -> tuple[float, float, float, float]:
    """Median seconds of a get, a set and a hit of get_or_compute, and the percentage of results still there."""
    params = {"limit": 50000, "spent": 42000, "history": [5000, 7000, 8000, 6000]}
    with (
        tempfile.TemporaryDirectory() as folder,
        ResultCache(Path(folder) / "cache.db", namespace="bench", max_entries=2 * count) as cache,
    ):
        keys = filled(cache, count)
        got = p50(lambda _: cache.get(random.choice(keys)))
        put = p50(lambda _: cache.set(random.choice(keys), VALUE))
        hit = p50(lambda _: cache.get_or_compute("analyze_budget", params, lambda **_: VALUE))
        return got, put, hit, 100 * sum(cache.get(key) == VALUE for key in keys) / count


def speed() -> Iterator[Row]:
    """B002-b, and the same at 100,000 entries, with a limit that is kept by last use."""
    for count in (10_000, 100_000):
        beside = diskcache(count)
        original = json_file(count) if count == 10_000 else None
        got, put, hit, kept = measured(count)
        for i, (name, ours, goal) in enumerate((("get", got, 50.0), ("set", put, 300.0))):
            ratio = ours / beside[i] if beside else None
            more = {"one JSON file": f"{original[i] * 1e3:.1f} ms"} if original else {}
            yield Row(f"{name} at {count:,}", ours * 1e6, "us", DISKCACHE, ratio, goal, retrievable=kept, more=more)
        yield Row(f"get_or_compute, a hit, at {count:,}", hit * 1e6, "us", retrievable=kept)


def server() -> Iterator[Row]:
    """The same on a PostgreSQL server at hand."""
    try:
        cache = ResultCache(SERVER, namespace=("bench", str(time.time_ns())))
    except Exception as error:  # noqa: BLE001 (no server, or not the extra: the figure is left out)
        print(f"PostgreSQL: {error}", file=sys.stderr)
        return
    with cache:
        cache.set("k", VALUE)
        yield Row("get on PostgreSQL", p50(lambda _: cache.get("k"), 300) * 1e6, "us")
        yield Row("set on PostgreSQL", p50(lambda i: cache.set(f"k{i}", VALUE), 300) * 1e6, "us")
        cache.clear()


def together(program: str, arguments: list[list[str]]) -> int:
    """Run a program as several processes that begin at once; how many failed."""
    running = [
        subprocess.Popen([sys.executable, "-c", program, *args], stdin=subprocess.PIPE, text=True) for args in arguments
    ]
    time.sleep(3)  # all have imported
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        process.communicate()
    return sum(process.returncode != 0 for process in running)


def many_processes() -> Iterator[Row]:
    """B002-a: eight processes write a hundred results each; B002-c: four of fifty threads ask for one."""
    with tempfile.TemporaryDirectory() as folder:
        path, log = str(Path(folder) / "cache.db"), Path(folder) / "log"
        failed = together(_WRITER, [[path, str(i)] for i in range(8)])
        with ResultCache(path, namespace="shared") as cache:
            there = sum(cache.get(f"{p}-{i}") == {"i": i} for p in range(8) for i in range(100))
        yield Row(
            "8 processes x 100 sets, lost", 800 - there, "", goal=0, retrievable=there / 8, more={"failed": failed}
        )
        failed = together(_ASKER, [[path, str(log)]] * 4)
        computed = len(log.read_text())
        with ResultCache(path, namespace="shared") as cache:
            hit = p50(lambda _: cache.get_or_compute("t", {}, threading.Event))
        yield Row("4 processes x 50 threads, computations", computed, "", goal=1, more={"failed": failed})
        yield Row("a hit, of the 100 ms it saves", hit * 1e3, "ms", "computing", hit / 0.1, 1.0)


def conversation() -> Iterator[Row]:
    """A conversation whose tool results come from the cache through a new handle: same results, valid context."""
    calls = [tool_call("lookup", {"page": n}, id=f"c{n}") for n in range(100)]

    def look_up(page: int) -> dict[str, Any]:
        return {**VALUE, "page": page, "text": f"page {page} " + "of the report " * 20}

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.db"
        with ResultCache(path, namespace="bench") as cache:
            for n in range(100):
                cache.get_or_compute("lookup", {"page": n}, look_up)
        with ResultCache(path, namespace="bench") as cache:
            values = [cache.get_or_compute("lookup", {"page": n}, lambda **_: None) for n in range(100)]
    same = sum(value == look_up(n) for n, value in enumerate(values))
    results = [tool_result(f"c{n}", json.dumps(value), name="lookup") for n, value in enumerate(values)]
    talk = [user("Read it."), *(m for pair in zip(calls, results, strict=True) for m in pair), assistant("Read.")]
    yield Row(
        "100 calls answered by the cache, wrongly",
        100 - same,
        "",
        goal=0,
        retrievable=float(same),
        invalid=invalid(talk),
    )


def matrix() -> Iterator[Row]:
    """B002-d: pairs of arguments that must share a key, and pairs that must not."""

    def same(pair: tuple[Any, Any]) -> bool:
        one, other = (canonical_key("t", {"x": value}) for value in pair)
        return one == other and str(one) == str(other)

    wrong = [name for name, pair in EQUAL.items() if not same(pair)]
    wrong += [name for name, pair in DIFFERENT.items() if same(pair)]
    yield Row(
        f"{len(EQUAL) + len(DIFFERENT)} pairs of arguments, judged wrongly", len(wrong), "", goal=0,
        retrievable=0.0 if wrong else 100.0,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(run("cache", [matrix, conversation, speed, server, many_processes]))
