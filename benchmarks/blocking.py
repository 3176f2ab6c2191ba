"""How long the event loop is blocked while a 1 MB message is added, counted and compressed, or by any coroutine.

Usage: `python benchmarks/blocking.py [--json]`. A ticker sleeps for a millisecond again and again; the figure is its
longest delay while `aget_messages` runs. Beside it stands what counting the same text in the event loop would take.
Exit code 1 when a message cannot be retrieved or a context is invalid.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator

from measure import ROOT, Row, percentile, promises, run

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.testing import ScriptedModel, conversation, tool_exchange
from autocontext.tokens import get_counter

sys.path.insert(0, str(ROOT))
from tests.faults.coroutines import NAMES, Desk, call_of

SIZE = 1_000_000
RUNS = 9
GOAL_MS = 20.0
TICK = 0.001
WINDOW = 64 * 1024

_LOG_LINE = "2026-01-01 12:00:{:02} ERROR worker-{} /srv/app/jobs/run_{}.py:{} job {:08x} failed: exit code {}\n"
LOG = "".join(_LOG_LINE.format(n % 60, n % 7, n % 13, n, n * 2654435761 % 2**32, n % 5) for n in range(SIZE // 80))
CHINESE = "工作进程在第三十二行失败，退出代码为一，请检查配置文件里的超时设置。" * (SIZE // 99)
BLANKS = " " * SIZE
TEXTS = {"log lines": LOG, "Chinese prose": CHINESE, "one run of blanks": BLANKS}


def history(text: str) -> list[Msg]:
    """Ten rounds, the last of which read a file of 1 MB."""
    messages = conversation(rounds=10, tools_per_round=2, chars=400)
    return [
        *messages,
        Msg(role="user", content="Read it."),
        *tool_exchange("read_file", {"path": "/var/log/app"}, text),
    ]


async def _held(work: Callable[[], object]) -> float:
    """Longest delay of a ticker, in seconds, while `work` (which returns an awaitable) is awaited."""
    longest, stop = 0.0, False

    async def tick() -> None:
        nonlocal longest
        while not stop:
            begun = time.perf_counter()
            await asyncio.sleep(TICK)
            longest = max(longest, time.perf_counter() - begun - TICK)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(5 * TICK)
    longest = 0.0
    await work()  # type: ignore[misc]  # measured from the first step on, so it is made here
    await asyncio.sleep(5 * TICK)
    stop = True
    await ticking
    return longest


async def _turn(messages: list[Msg], *, background: bool) -> tuple[AutoContextMemory, float]:
    config = AutoContextConfig.for_window(WINDOW, background=background)
    memory = AutoContextMemory(config, ScriptedModel("What it came to.", latency=0.01))

    async def work() -> None:
        memory.add_messages(messages)
        await memory.aget_messages()
        await memory.acompress_if_needed(force=True)  # waits for a pass in the background

    return memory, await _held(work)


def turns() -> Iterator[Row]:
    """Adding the message, then the turn that compresses it."""
    get_counter("o200k_base").count_text("the vocabulary is loaded once per process")
    for name, text in TEXTS.items():
        messages = history(text)
        for background in (False, True):
            runs = [asyncio.run(_turn(messages, background=background)) for _ in range(RUNS)]
            delays = [seconds for _, seconds in runs]
            memory = runs[-1][0]
            alone = _in_the_loop(text)
            yield Row(
                f"loop held, 1 MB of {name}{', background' if background else ''}",
                percentile(delays, 50) * 1e3,
                "ms",
                "counting in the loop",
                percentile(delays, 50) / alone,
                GOAL_MS,
                **promises(memory, messages),
                more={"max ms": round(max(delays) * 1e3, 1)},
            )


def _in_the_loop(text: str) -> float:
    counter = get_counter("o200k_base")
    begun = time.perf_counter()
    counter.count_text(text)
    return time.perf_counter() - begun


LOCKED = 0.2
"""Seconds for which another thread holds the memory."""


def coroutines() -> Iterator[Row]:
    """The worst of all public coroutines, each on parts just opened, while another thread holds the memory."""
    held: dict[str, float] = {}
    for name in NAMES:
        asyncio.run(_beside_a_thread(name))  # imports what it needs
        held[name] = percentile([asyncio.run(_beside_a_thread(name)) for _ in range(3)], 50)
    worst = max(held, key=lambda name: held[name])
    yield Row(
        f"loop held by any of {len(NAMES)} coroutines while another thread holds the memory",
        held[worst] * 1e3,
        "ms",
        "the time it is held",
        held[worst] / LOCKED,
        GOAL_MS,
        more={"worst": worst},
    )


async def _beside_a_thread(name: str) -> float:
    desk = Desk()
    taken = threading.Event()

    def hold() -> None:
        with desk.memory._lock:  # noqa: SLF001 (no public call holds it as long as a slow store does)
            taken.set()
            time.sleep(LOCKED)

    async def work() -> None:
        # Made here: what is opened to make it is the caller's own.
        await coroutine

    coroutine = call_of(name)(desk)
    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    held = await _held(work)
    thread.join()
    desk.close()
    return held


def idle() -> Iterator[Row]:
    """The same ticker next to a thread that computes in pure Python, as a baseline."""

    async def work() -> None:
        def spin() -> None:
            until = time.perf_counter() + 0.3
            while time.perf_counter() < until:
                pass

        thread = threading.Thread(target=spin)
        thread.start()
        await asyncio.sleep(0.35)
        thread.join()

    delays = [asyncio.run(_held(work)) for _ in range(RUNS)]
    yield Row("loop held by a thread that computes", percentile(delays, 50) * 1e3, "ms", goal=GOAL_MS)


if __name__ == "__main__":
    sys.exit(run("blocking", [idle, turns, coroutines]))
