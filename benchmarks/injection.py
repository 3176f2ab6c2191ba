"""The costs and guarantees of memory injection: its acceptance table.

Usage: `python benchmarks/injection.py [--json | --markdown]`. Counts and estimates beside each other, the original's
example, the budget over random memories (AUTOCONTEXT_CASES sets how many; 10,000 take about ten minutes, 500 without
it), and the time of a block. Facts that were left out are looked up by a fresh process: retrievable must be 100.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import ROOT, Row, each, invalid, run

from autocontext.memories import (
    EstimateCounter,
    MemoryInjector,
    MemoryStore,
    RelevanceRanker,
    default_ranker,
    format_memory_for_injection,
)
from autocontext.testing import system, user
from autocontext.tokens import get_counter

CASES = int(os.environ.get("AUTOCONTEXT_CASES", "500"))
EXACT = get_counter("cl100k_base")
SAMPLES = {
    "the original's sentence": "This is a test string to count tokens accurately using tiktoken.",
    "code": "for (const [k, v] of Object.entries(x)) { out.push(`${k}=${v}`); } // y",
    "Chinese": "用户喜欢在早上喝绿茶，不喜欢喝咖啡和酒。",
    "Japanese": "ユーザーは毎朝コーヒーを飲みます。",
}
WORDS = "user prefers tests docker 测试 用户 テスト naïve 😀 <|endoftext|> </memory> f(x)=1 on Fridays with tea"
EXAMPLE = {
    "pytest": "Prefers pytest for testing",
    "hints": "Likes type hints in Python",
    "expert": "Expert in Python",
    "docker": "Uses Docker for deployment",
}
IMPORT = """
import sys, time
import pydantic
begun = time.process_time()
import autocontext.memories
print((time.process_time() - begun) * 1000, any(m in sys.modules for m in ("sklearn", "numpy")))
"""
FRESH = """
import sys
from autocontext.memories import MemoryStore
store = MemoryStore(sys.argv[1])
ids = sys.stdin.read().split()
print(sum(store.get(i, user_id="ann") is not None for i in ids) / max(1, len(ids)) * 100)
"""


def counting() -> Iterator[Row]:
    """B004-a and -b: the estimate and the exact count."""
    for name, text in SAMPLES.items():
        exact = EXACT.count_text(text)
        estimate = EstimateCounter().count_text(text)
        yield Row(
            f"tokens of {name}", exact, "", beside="the estimate", ratio=exact / estimate, more={"estimate": estimate}
        )


def example() -> Iterator[Row]:
    """B004-c: the place of the fact about Docker among four, and how similar it is."""
    facts = [{"id": k, "content": c, "category": "context", "confidence": 0.9} for k, c in EXAMPLE.items()]
    for query in ("How do I write Python tests?", "Python tests?", "Which types does pytest use?"):
        text = format_memory_for_injection({"facts": facts}, 2000, query)
        yield Row(f"place of Docker: {query}", text.count("\n- ", 0, text.index("Docker")), "of 4")


def random_facts(dice: random.Random, count: int) -> dict[str, Any]:
    """A document of random facts."""
    words = WORDS.split()
    lengths = [3, 8, 8, 15, 30]
    return {
        "facts": [
            {
                "id": f"f{i}",
                "content": f"{' '.join(dice.choices(words, k=dice.choice(lengths)))} {i}",
                "category": dice.choice(["preference", "context", "correction"]),
                "confidence": dice.random(),
            }
            for i in range(count)
        ]
    }


def budget() -> Iterator[Row]:
    """B004-e: blocks over their budget (0 allowed), and how much of it is used where facts abound."""
    dice, over, used = random.Random(1), 0, []
    for _ in range(CASES):
        data, most = random_facts(dice, dice.choice([0, 5, 60, 250])), round(100 * 80 ** dice.random())
        tokens = EXACT.count_text(format_memory_for_injection(data, most, dice.choice([None, "tests 测试"])))
        over += tokens > most
        if sum(EXACT.count_text(f["content"]) for f in data["facts"]) > most:
            used.append(tokens / most)
    yield Row(f"over budget, of {CASES:,} random memories", over, "", goal=0)
    yield Row("mean share of the budget used", 100 * statistics.mean(used), "%", more={"cases": len(used)})


def latency() -> Iterator[Row]:
    """B004-f: one warm block, and the import."""
    dice = random.Random(1)
    contexts = [f"how do I write tests on Fridays {n}" for n in range(10)]
    for count, goal in ((100, 1.0), (1000, 5.0)):
        data = random_facts(dice, count)
        ranker = default_ranker()
        for fact in data["facts"]:
            ranker.update(fact["id"], fact["content"])

        def rank(ranker: RelevanceRanker = ranker) -> None:
            for context in contexts:
                ranker.scores(context)

        def block(data: dict[str, Any] = data) -> None:
            for context in contexts:
                format_memory_for_injection(data, 2000, context)

        block()
        ranking, whole = (each(work, times=1, repeat=7) / len(contexts) for work in (rank, block))
        yield Row(f"ranking {count:,} facts", ranking * 1000, "ms", goal=goal)
        yield Row(f"a block of 2,000 tokens out of {count:,} facts", whole * 1000, "ms")
    runs = [
        subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True, cwd=ROOT)
        for _ in range(5)
    ]
    times = [float(r.stdout.split()[0]) for r in runs]
    heavy = any(r.stdout.split()[1] == "True" for r in runs)
    yield Row(
        "import autocontext.memories beyond pydantic, processor time",
        min(times),
        "ms",
        goal=150,
        more={"numpy or sklearn": heavy},
    )


def reachable() -> Iterator[Row]:
    """A fresh process finds the facts left out of a block; the request is valid, the conversation unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memories.db"
        with MemoryStore(path) as store:
            store.import_json(random_facts(random.Random(2), 400), user_id="ann")
            injector = MemoryInjector(store, user_id="ann", max_tokens=1000)
            messages = [system("Be kind."), user("How do I write tests on Fridays?")]
            sent, report = injector.inject(messages)
        dropped = "\n".join(d.id for d in report.dropped)
        fresh = [sys.executable, "-c", FRESH, str(path)]
        retrievable = float(
            subprocess.run(fresh, input=dropped, capture_output=True, text=True, check=True, cwd=ROOT).stdout
        )
        more = {"selected": len(report.selected), "dropped": len(report.dropped), "bytes on disk": path.stat().st_size}
        yield Row(
            "tokens of an injected block",
            report.tokens,
            "",
            goal=1000,
            retrievable=retrievable,
            invalid=invalid(sent),
            more=more,
        )


if __name__ == "__main__":
    sys.exit(run("injection", [counting, example, budget, latency, reachable]))
