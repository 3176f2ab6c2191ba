"""This library's own costs per turn: adding, get_messages, planning a pass, importing, memory.

Usage: `python benchmarks/overhead.py [--json]`. Seeded; every figure stands beside a plain way to do the same that is
measured in the same run. Exit code 1 when a message cannot be retrieved or a context is invalid.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial

from measure import ROOT, Row, each, exponent, invalid, percentile, promises, run, seconds

from autocontext import AsyncChatModel, AutoContextConfig, AutoContextMemory, ChatModel, ModelReply, ModelRequest, Msg
from autocontext.models import ExtractiveModel
from autocontext.notes.page import PageRequest, render
from autocontext.notes.work import WorkLedger
from autocontext.testing import conversation
from autocontext.tokens import get_counter

SIZES = (100, 1_000, 10_000)
LONG = 50_000
BUDGET = 30.0
NEVER = AutoContextConfig(msg_threshold=10**9, max_token=10**9)
WORDS = ("the", "agent", "reads", "a", "file", "test", "error", "line", "value", "module", "path", "fails", "because")


def messages(count: int) -> list[Msg]:
    """Rounds of question, two tool exchanges and answer, about 200 characters each, exactly `count` messages."""
    return conversation(rounds=count // 6 + 1, tools_per_round=2, chars=200)[:count]


def filled(
    config: AutoContextConfig, msgs: list[Msg], model: ChatModel | AsyncChatModel | None = None
) -> AutoContextMemory:
    memory = AutoContextMemory(config, model)
    memory.add_messages(msgs)
    return memory


def adding() -> Iterator[Row]:
    """add_message without a store, at three sizes, compared with list.append."""
    for size in SIZES:
        msgs = messages(size)
        batch = msgs[-100:]

        def add(memory: AutoContextMemory, batch: list[Msg] = batch) -> None:
            for msg in batch:
                memory.add_message(msg)

        def append(plain: list[Msg], batch: list[Msg] = batch) -> None:
            for msg in batch:
                plain.append(msg)  # noqa: PERF402 (append is what is measured)

        ours = percentile([seconds(partial(add, filled(NEVER, msgs)), repeat=1) for _ in range(7)], 50) / 100
        plain = percentile([seconds(partial(append, list(msgs)), repeat=1) for _ in range(7)], 50) / 100
        memory = filled(NEVER, msgs)
        yield Row(
            f"add_message at {size:,} messages", ours * 1e6, "us", "list.append", ours / plain, 15.0,
            **promises(memory, msgs),
        )  # fmt: skip


def asking() -> Iterator[Row]:
    """get_messages without a pass, compared with copying a list; the trigger alone, compared with recounting.

    The trigger is what get_messages takes more than reading the view; the least of many turns, as noise only adds.
    """
    counter = get_counter("o200k_base")
    counter.count_text("load the vocabulary beforehand")
    for size in SIZES:
        msgs = messages(size)
        memory = filled(NEVER, msgs)
        ours, plain = each(memory.get_messages, times=200), each(lambda msgs=msgs: list(msgs), times=200)
        goal = 60.0 if size == SIZES[-1] else None
        yield Row(
            f"get_messages at {size:,} messages", ours * 1e6, "us", "list copy", ours / plain, goal,
            **promises(memory, msgs),
        )  # fmt: skip
        turns = [
            (each(memory.get_messages, times=20, repeat=1), each(partial(_read, memory), times=20, repeat=1))
            for _ in range(100)
        ]
        check = max(0.0, min(get for get, _ in turns) - min(read for _, read in turns))
        anew = seconds(lambda msgs=msgs: sum(map(counter.count, msgs)), repeat=1)
        yield Row(f"trigger check at {size:,} messages", check * 1e6, "us", "counting anew", check / anew, 3.0)


def _read(memory: AutoContextMemory) -> list[Msg]:
    return memory.messages


class Instant:
    """A model that takes no time, and remembers when it was first asked."""

    def __init__(self) -> None:
        self.first = 0.0

    async def acomplete(self, _: ModelRequest) -> ModelReply:
        self.first = self.first or time.perf_counter()
        return ModelReply(text="SUMMARY")


def planning() -> Iterator[Row]:
    """A pass over n messages with a model that takes no time; tokens counted beforehand.

    Planning ends when the model is first asked; the whole pass also builds, checks and applies the edits.
    """
    config = AutoContextConfig(msg_threshold=1, max_token=1_000, min_compression_token_threshold=0, last_keep=10)
    times = []
    for size in SIZES:
        msgs = messages(size)
        plans, wholes = [], []
        for _ in range(3):
            model = Instant()
            memory = filled(config, msgs, model)
            assert memory.token_count > config.token_trigger
            gc.collect()
            begun = time.perf_counter()
            asyncio.run(memory.acompress_if_needed(force=True))
            wholes.append(time.perf_counter() - begun)
            plans.append(model.first - begun)
        times.append(percentile(wholes, 50))
        goal = 150.0 if size == SIZES[-1] else None
        beside = promises(memory, msgs)
        yield Row(f"planning a pass over {size:,} messages", percentile(plans, 50) * 1e3, "ms", goal=goal, **beside)
        yield Row(f"the whole pass over {size:,} messages", times[-1] * 1e3, "ms", **beside)
    yield Row("growth exponent of a pass", exponent(SIZES, times), "")


def ledgers() -> Iterator[Row]:
    """The work ledger: built from a whole history, updated by one message, rendered for a 4,000-token window."""
    msgs = messages(SIZES[-1])
    whole = seconds(lambda: WorkLedger.of(msgs), repeat=3)
    yield Row(f"work ledger of {SIZES[-1]:,} messages", whole, "s", goal=1.0)
    few = msgs[:600]
    one = seconds(lambda: [WorkLedger.of((msg,)) for msg in few], repeat=3) / len(few)
    yield Row("work ledger of one message", one * 1e6, "us", goal=100.0)
    ledger, count = WorkLedger.of(msgs), get_counter("o200k_base").count_text
    rendered = seconds(lambda: render(ledger, PageRequest(1_840, count)), repeat=3)
    yield Row("a note of 1,840 tokens rendered", rendered * 1e3, "ms")


def living() -> Iterator[Row]:
    """10,000 adds with get_messages after each and a trigger of 200 messages; stops after BUDGET seconds.

    The defaults otherwise, without a model. Other work on the machine adds less to the processor time beside it.
    """
    config = AutoContextConfig(msg_threshold=200)
    memory, msgs = AutoContextMemory(config), messages(SIZES[-1])
    get_counter("o200k_base").count_text("load the vocabulary beforehand")
    used = time.process_time()
    sizes: list[int] = []
    times: list[float] = []
    begun = time.perf_counter()
    for n, msg in enumerate(msgs, 1):
        memory.add_message(msg)
        memory.get_messages()
        spent = time.perf_counter() - begun
        if n in (625, 1_250, 2_500, 5_000, SIZES[-1]):
            sizes.append(n)
            times.append(spent)
        if spent > BUDGET:
            break
    more: dict[str, float] = {"processor s": round(time.process_time() - used, 2), "passes": memory.usage.passes}
    if n < SIZES[-1]:
        more["given up at"] = n
    added = msgs[:n]
    beside = {**promises(memory, added), "invalid": _broken(config, added[:1_000])}
    yield Row(f"{SIZES[-1]:,} adds with a trigger of 200", spent, "s", goal=2.0, **beside, more=more)
    yield Row("growth exponent of adds with a trigger", exponent(sizes, times), "")


def growing() -> Iterator[Row]:
    """A long conversation in one window: adding all of it, its first pass, and loading its state; processor time."""
    msgs = messages(LONG)
    counter = get_counter("o200k_base")
    counter.count_text("load the vocabulary beforehand")
    memory = AutoContextMemory(AutoContextConfig.for_window(16_000))
    added = _processor(lambda: memory.add_messages(msgs))
    counted = _processor(lambda: [counter.count(msg) for msg in msgs])
    first = _processor(memory.get_messages)
    state = json.dumps(memory.state_dict())
    loaded = _processor(lambda: AutoContextMemory(memory.config).load_state_dict(json.loads(state)))
    parsed = _processor(lambda: json.loads(state))
    what = f"{LONG:,} messages in a window of 16,000"
    yield Row(
        f"{what}: adding all", added, "s", "counting their tokens", added / counted, 2.0, **promises(memory, msgs)
    )
    yield Row(f"{what}: the first pass", first, "s", "counting their tokens", first / counted, 4.0)
    yield Row(f"{what}: loading the state", loaded, "s", "json.loads", loaded / parsed, 2.0)


def _processor(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _broken(config: AutoContextConfig, msgs: list[Msg]) -> int:
    """The same once more, untimed: contexts a strict API would refuse, looked at where an agent calls its model."""
    memory, broken = AutoContextMemory(config), 0
    for n, msg in enumerate(msgs):
        memory.add_message(msg)
        context = memory.get_messages()
        if n % 10 == 0 and not msg.tool_uses:
            broken += invalid(context)
    return broken


def importing() -> Iterator[Row]:
    """A process that imports the library, compared with one that imports pydantic's BaseModel, alternating.

    Processor time, the least of many runs, as noise only adds. Byte code is cached, as after any installation. What
    importing puts off until it is used stands in the second figure.
    """
    first = "from autocontext import *; m = AutoContextMemory(); m.add_message(Msg(role='user', content='hi'))"
    programs = {
        "nothing": "pass",
        "pydantic": "from pydantic import BaseModel",
        "autocontext": "import autocontext",
        "first message": f"{first}; m.get_messages()",
    }
    with tempfile.TemporaryDirectory() as cache:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = cache
        seconds_by_name: dict[str, list[float]] = {name: [] for name in programs}
        for turn in range(16):
            for name, code in programs.items():
                before = _children()
                subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)
                if turn:
                    seconds_by_name[name].append(_children() - before)
    least = {name: min(times) for name, times in seconds_by_name.items()}
    more = {f"{name} ms": round(value * 1e3) for name, value in least.items()}
    for name, of, goal in (
        ("autocontext", "import autocontext", 120.0),
        ("first message", "... and a first message", None),
    ):
        difference, ratio = least[name] - least["pydantic"], least[name] / least["pydantic"]
        yield Row(f"{of}, more than pydantic", difference * 1e3, "ms", "importing pydantic", ratio, goal, more=more)


def _children() -> float:
    """Processor seconds of the processes started so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


_TURNS = """
import json, time
from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.tokens import get_counter
from autocontext.tokens.vocabularies import encoding
memory = AutoContextMemory(AutoContextConfig(max_token=128_000, msg_threshold=100))
msgs = [Msg(role="user", content=f"{n:02d} " + "word " * 100) for n in range(40)]
count = get_counter("o200k_base").count
used = time.process_time()
for msg in msgs:
    memory.add_message(msg)
    memory.get_messages()
    if CALL:
        count(msg)
print(json.dumps([time.process_time() - used, encoding.cache_info().misses]))
"""


def beginning() -> Iterator[Row]:
    """The first 40 turns of a process, 5,000 tokens in a window of 128,000, compared with counting each message."""
    found: dict[bool, list[list[float]]] = {False: [], True: []}
    for _ in range(5):
        for counts, runs in found.items():
            command = [sys.executable, "-c", _TURNS.replace("CALL", str(counts))]
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
            runs.append(json.loads(done.stdout))
    ours, plain = (min(spent for spent, _ in found[counts]) for counts in (False, True))
    more = {"vocabularies loaded": found[False][0][1], "when counting": found[True][0][1]}
    yield Row("the first 40 turns", ours * 1e3, "ms", "counting each message, too", ours / plain, more=more)


_HOLD = """
import json, resource, tracemalloc
from autocontext import AutoContextConfig, AutoContextMemory, Msg
memory = AutoContextMemory(AutoContextConfig(msg_threshold=10**9, max_token=10**9))
memory.add_message(Msg(role="user", content="warm"))
memory.get_messages()
rss = lambda: int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6
traced, before = {traced}, rss()
if traced:
    tracemalloc.start()
for n in range(10_000):
    memory.add_message(Msg(role="user", content=f"{{n:06d}} " + "x" * 493))
context = memory.get_messages()
print(json.dumps(tracemalloc.get_traced_memory()[0] / 1e6 if traced else rss() - before))
"""


_EACH = """
import gc, json, tempfile, tracemalloc, uuid
from datetime import datetime, UTC
from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.stores import SqliteSessionStore
from autocontext.testing import tool_call, tool_result
N = 10_000
def calls():
    for n in range(N // 2):
        yield tool_call("read_file", {"path": f"src/module_{n}.py"}, id=f"call_{n:06d}")
        yield tool_result(f"call_{n:06d}", f"{n:06d} " + "x" * 293, name="read_file")
def texts():
    return (Msg(role="user", content=f"{n:06d} " + "x" * 293) for n in range(N))
def dicts():
    for n in range(N):
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        yield {"role": "user", "content": f"{n:06d} " + "x" * 293, "id": uuid.uuid4().hex, "timestamp": at}
def traced(make):
    gc.collect()
    tracemalloc.start()
    kept = make()
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] / N
    tracemalloc.stop()
    return size
def memory(msgs, **store):
    memory = AutoContextMemory(AutoContextConfig(msg_threshold=10**9, max_token=10**9), **store)
    memory.add_messages(msgs)
    return memory
with tempfile.TemporaryDirectory() as folder:
    at = {"store": SqliteSessionStore(folder + "/a.db"), "session_id": "s"}
    memory(texts(), **at)
    print(json.dumps([traced(lambda: memory(texts())), traced(lambda: memory(calls())),
        traced(lambda: memory((), **at)), traced(lambda: list(dicts()))]))
"""


def holding() -> Iterator[Row]:
    """What 10,000 messages of 500 characters take, in a process of their own; 5 MB of it is the text itself.

    Then what one of 300 characters takes (the call and result of a tool: the mean of both), compared with a dict.
    """
    done = subprocess.run([sys.executable, "-c", _EACH], check=True, capture_output=True, text=True, cwd=ROOT)
    *sizes, plain = json.loads(done.stdout)
    for name, size in zip(("a message of 300 characters", "a call or result", "opened"), sizes, strict=True):
        yield Row(f"{name}, tracemalloc", size, "bytes", "a dict", size / plain, 1_500.0)
    for name, traced in (("resident", False), ("tracemalloc", True)):
        command = [sys.executable, "-c", _HOLD.format(traced=traced)]
        size = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
        yield Row(f"10,000 messages of 500 characters, {name}", size, "MB", "their text", size / 5, 60.0)


def extracting() -> Iterator[Row]:
    """The embedded summariser on 100 KB of prose and log lines."""
    rng = random.Random(7)
    lines: list[str] = []
    while sum(map(len, lines)) < 100_000:
        sentence = " ".join(rng.choices(WORDS, k=12))
        lines.append(f"{sentence.capitalize()} src/m{rng.randrange(90)}.py:{rng.randrange(500)}.\n")
    request = ModelRequest(system="", prompt="".join(lines), purpose="tool_run", max_output_tokens=500)
    model = ExtractiveModel()
    elapsed = seconds(lambda: model.complete(request), repeat=5)
    yield Row("ExtractiveModel on 100 KB", elapsed * 1e3, "ms", goal=300.0)


if __name__ == "__main__":
    sys.exit(
        run("overhead", [adding, asking, planning, ledgers, living, growing, importing, beginning, holding, extracting])
    )
