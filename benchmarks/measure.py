"""Shared by the benchmarks: timing, the two promises checked with every figure, machine, table and JSON output."""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from autocontext import AutoContextMemory, Msg
from autocontext.testing import assert_valid_chat

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Row:
    """A figure: name, value and unit, what it is compared with, and its goal."""

    name: str
    value: float
    unit: str
    beside: str = ""
    """Another way to do the same, measured in the same run."""
    ratio: float | None = None
    """This figure divided by the one it is compared with."""
    goal: float | None = None
    """The figure should not be larger than this."""
    retrievable: float | None = None
    """Percent of the added messages that are in view or behind a UUID, byte for byte; must be 100."""
    invalid: int | None = None
    """Contexts that a strict chat API would refuse; must be 0."""
    more: dict[str, Any] = field(default_factory=dict)


def seconds(work: Callable[[], object], *, repeat: int = 5) -> float:
    """Median time of `repeat` runs, with the garbage collector at rest as in timeit."""
    return percentile([_once(work) for _ in range(repeat)], 50)


def _once(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun
    finally:
        gc.enable()


def each(work: Callable[[], object], *, times: int, repeat: int = 5) -> float:
    """Median seconds of one call, over `repeat` batches of `times` calls."""

    def batch() -> None:
        for _ in range(times):
            work()

    return seconds(batch, repeat=repeat) / times


def percentile(values: Iterable[float], percent: float) -> float:
    """Nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Slope of log(time) over log(size), least squares: 1 is linear, 2 quadratic."""
    xs, ys = [math.log(n) for n in sizes], [math.log(t) for t in times]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sum((x - mx) ** 2 for x in xs)


def retrievable(memory: AutoContextMemory, added: Sequence[Msg]) -> float:
    """Percent of the added messages that are unchanged in the view or behind a reloadable UUID."""
    by_id = {m.id: m for m in memory.messages}
    for uuid in memory.get_offload_context():
        by_id |= {m.id: m for m in memory.reload(uuid)}
    same = sum(m.id in by_id and by_id[m.id].to_dict() == m.to_dict() for m in added)
    return 100 * same / len(added) if added else 100.0


def invalid(context: Iterable[Msg]) -> int:
    """1 when a strict chat API would refuse this context, else 0."""
    try:
        assert_valid_chat(list(context))
    except AssertionError:
        return 1
    return 0


def promises(memory: AutoContextMemory, added: Sequence[Msg]) -> dict[str, Any]:
    """The two promises of a figure, as columns."""
    return {"retrievable": retrievable(memory, added), "invalid": invalid(memory.messages)}


def machine() -> dict[str, str]:
    """Where and when: figures mean nothing without it."""
    names = ("pydantic", "tiktoken")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        **{name: version(name) for name in names},
    }


def last_line() -> str:
    """The text under every table."""
    return ", ".join(f"{key} {value}" for key, value in machine().items())


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def run(name: str, measurements: Sequence[Callable[[], Iterable[Row]]], beside: str = "", epilog: str = "") -> int:
    """Run a benchmark's measurements and print a table, JSON or Markdown; 1 when a promise is broken.

    `beside` are the versions of what was measured beside this library, for the last line; `epilog` ends the help.
    """
    parser = argparse.ArgumentParser(description=f"Benchmark: {name}.", epilog=epilog)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    form.add_argument("--markdown", action="store_true", help="the table for benchmarks/results")
    options = parser.parse_args()
    aside = options.json or options.markdown
    rows = []
    for measurement in measurements:
        for row in measurement():
            rows.append(row)
            print(_line(row), file=sys.stderr if aside else sys.stdout, flush=True)
    if options.json:
        print(json.dumps({"benchmark": name, "machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        if options.markdown:
            print("\n".join(markdown(rows)) + "\n")
        print(", ".join(filter(None, [last_line(), beside])))
    return int(any(row.invalid or row.retrievable not in (None, 100.0) for row in rows))


def markdown(rows: Iterable[Row]) -> Iterable[str]:
    """The lines of a table for the page."""
    yield "| what | figure | goal | compared, in the same run | retrievable | invalid | more |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        goal = "" if row.goal is None else f"{row.goal:g}{'' if row.value <= row.goal else ' **missed**'}"
        beside = "" if row.ratio is None else f"{row.ratio:.3g} x {row.beside}"
        kept = "" if row.retrievable is None else f"{row.retrievable:g} %"
        broken = "" if row.invalid is None else str(row.invalid)
        more = ", ".join(f"{key} {value}" for key, value in row.more.items())
        figure = f"{row.value:,.0f} {row.unit}" if row.value >= 100 else f"{row.value:.3g} {row.unit}".strip()
        yield f"| {row.name} | {figure} | {goal} | {beside} | {kept} | {broken} | {more} |"


def _line(row: Row) -> str:
    parts = [f"{row.name:<46} {row.value:>9.3f} {row.unit:<4}"]
    if row.goal is not None:
        parts.append(f"goal {row.goal:g}{'' if row.value <= row.goal else ' MISSED'}")
    if row.ratio is not None:
        parts.append(f"{row.ratio:.3g} x {row.beside}")
    if row.retrievable is not None:
        parts.append(f"retrievable {row.retrievable:g} %")
    if row.invalid is not None:
        parts.append(f"invalid {row.invalid}")
    return "  ".join([*parts, *(f"{key} {value}" for key, value in row.more.items())])
