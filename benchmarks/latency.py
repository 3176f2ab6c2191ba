"""How long a turn waits while a model that takes 200 ms per call summarises 16 finished rounds.

Usage: `python benchmarks/latency.py [--json]`. The clock runs from asking for the messages to having them; beside it
stand one call of the same model, and 16 calls in a row. In async code also the longest time for which the event loop
was held up. Exit code 1 when a message cannot be retrieved or a context is invalid.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator

from measure import Row, percentile, promises, run

from autocontext import AutoContextConfig, AutoContextMemory, ModelRequest, Msg
from autocontext.testing import ScriptedModel, conversation

ROUNDS = 16
LATENCY = 0.2
RUNS = 20
GOAL_MS = 260.0
CONFIG = AutoContextConfig(
    msg_threshold=50, min_compression_token_threshold=0, strategies=("rounds",), target_ratio=1.0
)
# The last finished round holds the latest reply and is no history yet.
HISTORY = conversation(rounds=ROUNDS + 1, tools_per_round=2, chars=800)
NEXT = Msg(role="user", content="And now?")
HEARTBEAT = 0.001


def fresh() -> tuple[AutoContextMemory, ScriptedModel]:
    """A memory that is due for a pass."""
    model = ScriptedModel("What the round came to.", latency=LATENCY)
    memory = AutoContextMemory(CONFIG, model)
    memory.add_messages([*HISTORY, NEXT])
    return memory, model


def check(memory: AutoContextMemory, model: ScriptedModel) -> None:
    """The run measured what it says: every round was summarised by the model."""
    assert len(memory.get_compression_events()) == ROUNDS, len(memory.get_compression_events())
    assert len(model.requests) == ROUNDS


def row(name: str, waits: list[float], memory: AutoContextMemory, **more: object) -> Row:
    p50 = percentile(waits, 50)
    more = {"p99 ms": round(percentile(waits, 99) * 1e3), "of 16 calls in a row": f"{p50 / in_a_row():.3f}", **more}
    return Row(
        name, p50 * 1e3, "ms", "one call", p50 / one_call(), GOAL_MS, **promises(memory, [*HISTORY, NEXT]), more=more
    )


_measured: dict[str, float] = {}


def one_call() -> float:
    """Seconds of one call of the model."""
    if "one" not in _measured:
        request = ModelRequest(system="", prompt="?", purpose="round_summary")
        model, begun = ScriptedModel("!", latency=LATENCY), time.perf_counter()
        model.complete(request)
        _measured["one"] = time.perf_counter() - begun
    return _measured["one"]


def in_a_row() -> float:
    """Seconds of 16 passes' worth of calls, one after the other, by the library itself with one place."""
    if "row" not in _measured:
        model = ScriptedModel("What the round came to.", latency=LATENCY)
        memory = AutoContextMemory(CONFIG.model_copy(update={"max_parallel_summaries": 1}), model)
        memory.add_messages([*HISTORY, NEXT])
        begun = time.perf_counter()
        memory.get_messages()
        _measured["row"] = time.perf_counter() - begun
        check(memory, model)
    return _measured["row"]


def sync() -> Iterator[Row]:
    """get_messages in sync code."""
    waits = []
    for _ in range(RUNS):
        memory, model = fresh()
        begun = time.perf_counter()
        memory.get_messages()
        waits.append(time.perf_counter() - begun)
        check(memory, model)
    yield row("a pass over 16 rounds, sync", waits, memory)


async def _one_async() -> tuple[AutoContextMemory, float, float]:
    memory, model = fresh()
    longest_delay, stop = 0.0, asyncio.Event()

    async def heartbeat() -> None:
        nonlocal longest_delay
        while not stop.is_set():
            begun = time.perf_counter()
            await asyncio.sleep(HEARTBEAT)
            longest_delay = max(longest_delay, time.perf_counter() - begun - HEARTBEAT)

    beating = asyncio.create_task(heartbeat())
    await asyncio.sleep(0)
    begun = time.perf_counter()
    await memory.aget_messages()
    wait = time.perf_counter() - begun
    stop.set()
    await beating
    check(memory, model)
    return memory, wait, longest_delay


def async_() -> Iterator[Row]:
    """aget_messages in async code, with the event loop's longest pause."""
    waits, pauses = [], []
    for _ in range(RUNS):
        memory, wait, longest_delay = asyncio.run(_one_async())
        waits.append(wait)
        pauses.append(longest_delay)
    more = {"loop held p50 ms": round(percentile(pauses, 50) * 1e3, 1), "p99": round(percentile(pauses, 99) * 1e3, 1)}
    yield row("a pass over 16 rounds, async", waits, memory, **more)


def no_pass() -> Iterator[Row]:
    """get_messages when no pass is due: what every other turn waits."""
    memory = AutoContextMemory(AutoContextConfig(), ScriptedModel("!", latency=LATENCY))
    memory.add_messages(HISTORY)
    waits = []
    for _ in range(1_000):
        begun = time.perf_counter()
        memory.get_messages()
        waits.append(time.perf_counter() - begun)
    more = {"p99 us": round(percentile(waits, 99) * 1e6, 1)}
    p50 = percentile(waits, 50)
    yield Row(
        "a turn without a pass", p50 * 1e6, "us", "one call", p50 / one_call(), **promises(memory, HISTORY), more=more
    )


if __name__ == "__main__":
    sys.exit(run("latency", [sync, async_, no_pass]))
