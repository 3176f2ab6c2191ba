"""A turn's cost, compared with other libraries: the check when nothing is due, and a due pass.

Usage: `python benchmarks/turn.py [--json | --markdown]`. The check: what stands between a new message and the messages
to send, at 100, 1,000 and 10,000 messages of about 500 characters, half of them calls and results; every trigger is
out of reach. The pass: 16 finished rounds and a model that takes 200 ms a call. Each environment of peers measures this
library too, so that a ratio is of one process. Exit code 1 when a message of this library cannot be retrieved or a
context is invalid.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import peers
from measure import Row, each, exponent, percentile, promises, run, seconds

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.adapters.openai_chat import to_openai
from autocontext.testing import ScriptedModel, conversation

SIZES = (100, 1_000, 10_000)
LATENCY, ROUNDS = 0.2, 16
ENOUGH = 10**9
"""A window in tokens, or a number of messages, that no conversation here reaches."""
Check = Callable[[], object]
"""One turn's check, on a memory that already holds the conversation."""
OURS = "autocontext"


def messages(count: int) -> list[Msg]:
    """Questions, calls, results and answers of about 500 characters, exactly `count` messages."""
    return conversation(rounds=count // 4 + 1, tools_per_round=1, chars=500)[:count]


def ours(size: int) -> tuple[Check, dict[str, Any]]:
    """get_messages, and the two promises of what it gives."""
    memory, msgs = AutoContextMemory(AutoContextConfig(msg_threshold=ENOUGH, max_token=ENOUGH)), messages(size)
    memory.add_messages(msgs)
    return memory.get_messages, promises(memory, msgs)


def ours_due() -> tuple[float, dict[str, Any]]:
    """Seconds of a pass over 16 rounds, and what it came to."""
    config = AutoContextConfig(
        msg_threshold=50, min_compression_token_threshold=0, strategies=("rounds",), target_ratio=1.0
    )
    # The last finished round holds the latest reply and is no history yet.
    history = [*conversation(rounds=ROUNDS + 1, tools_per_round=2, chars=800), Msg(role="user", content="And now?")]
    times = []
    for _ in range(3):
        model = ScriptedModel("What the round came to.", latency=LATENCY)
        memory = AutoContextMemory(config, model)
        memory.add_messages(history)
        times.append(seconds(lambda memory=memory: asyncio.run(memory.aget_messages()), repeat=1))
    more = {"calls": len(model.requests), "messages left": len(memory.messages), "of": len(history)}
    return percentile(times, 50), {**promises(memory, history), "more": more}


def peer_checks() -> dict[str, Callable[[list[dict[str, Any]]], Check]]:
    """What this interpreter has, by name: a conversation in chat form to a check."""
    if peers.here("agentscope1"):
        from turn_agentscope1 import CHECKS
    elif peers.here("frameworks"):
        from turn_frameworks import CHECKS
    else:
        return {}
    return dict(CHECKS)


def checking(sizes: tuple[int, ...] = SIZES) -> Iterator[Row]:
    """The check at each size, ours first."""
    for size in sizes:
        check, kept = ours(size)
        base = each_of(check, size)
        yield Row(f"check at {size:,} messages: {OURS}", base * 1e6, "us", **kept)
        chat = to_openai(messages(size))
        for name, check_of in peer_checks().items():
            elapsed = each_of(check_of(chat), size)
            yield Row(f"check at {size:,} messages: {name}", elapsed * 1e6, "us", OURS, elapsed / base)


def each_of(check: Check, size: int) -> float:
    """Median seconds; the first call, which may prepare things, is not counted.

    What is async is timed inside one event loop: starting a loop is no part of a turn.
    """
    repeat = 7 if size < SIZES[-1] else 3
    if inspect.iscoroutinefunction(check):
        return asyncio.run(_awaited(check, repeat))
    check()
    return each(check, times=1, repeat=repeat)


async def _awaited(check: Callable[[], Awaitable[object]], repeat: int) -> float:
    await check()
    times = []
    for _ in range(repeat):
        begun = time.perf_counter()
        await check()
        times.append(time.perf_counter() - begun)
    return percentile(times, 50)


def passing() -> Iterator[Row]:
    """A due pass with a slow model."""
    elapsed, kept = ours_due()
    yield Row(f"a pass over {ROUNDS} rounds: {OURS}", elapsed * 1e3, "ms", **kept)
    if not peers.here("agentscope1") and peers.here("frameworks"):
        from turn_frameworks import PASSES

        chat = to_openai(conversation(rounds=ROUNDS + 1, tools_per_round=2, chars=800))
        for name, run in PASSES.items():
            theirs, more = run(chat, LATENCY)
            yield Row(f"a pass over {ROUNDS} rounds: {name}", theirs * 1e3, "ms", OURS, theirs / elapsed, more=more)


def growing(rows: list[Row]) -> Iterator[Row]:
    """The growth exponents of the checks that were measured at every size."""
    by_name: dict[str, list[float]] = {}
    for row in rows:
        if row.name.startswith("check"):
            by_name.setdefault(row.name.partition(": ")[2], []).append(row.value)
    for name, values in by_name.items():
        if len(values) == len(SIZES):
            yield Row(f"growth exponent of the check: {name}", exponent(SIZES, values), "")


def beside(environment: str) -> Iterator[Row]:
    """The rows of an environment with peers; only theirs, unless it is the first."""
    for row in peers.rows_from(environment, "turn.py"):
        if environment == "frameworks" or not row["name"].endswith(f": {OURS}"):
            yield Row(**row)


def everything() -> Iterator[Row]:
    """All environments' rows; without any, this library alone."""
    rows = [row for environment in ("frameworks", "agentscope1") for row in beside(environment)]
    yield from rows or own()


def own() -> Iterator[Row]:
    """What this interpreter has."""
    rows = [*checking(), *passing()]
    yield from [*rows, *growing(rows)]


def present() -> str:
    """The peers' versions."""
    versions = []
    for name in peers.packages("frameworks"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(versions)


if __name__ == "__main__":
    if peers.here("frameworks") or peers.here("agentscope1"):
        sys.exit(run("turn", [own], present()))
    sys.exit(run("turn", [everything], ", ".join(filter(None, map(peers.versions, ("frameworks", "agentscope1"))))))
