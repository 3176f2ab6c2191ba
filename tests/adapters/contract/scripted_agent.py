"""The model behind the fake server: it plays an agent's part by what it is shown, and notes what it should not see.

A conversation is known by its system prompt ("You work on case NAME."), a task by the user's latest message:

    [task 1: read 40]       calls read_part for one part after the other, sometimes several at once, looks a part up
                            with context_reload on the way and at the end, then answers
    [task 2: recall 3]      finds part 3's secret with context_reload and says it
    [task 3: number 2]      asks context_reload for message "m2" and says what it gets
    [task 4: bare 2]        the same, but passes the number 2, as some models do
    [task 5: greet]         answers at once
    [task 7: work 30]       the same as read, but begins with a branch of its own and a server that it leaves running
    [task 6: steer]         condenses, reads two parts, sees, archives, notes, pins, searches, restores, then answers
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.fakes.http_server import Item, Reply
from tests.fakes.openai_server import Turn

CASE = re.compile(r"You work on case (\w+)\.")
TASK = re.compile(r"\A\[task (\d+): (\w+)(?: (\d+))?\]")
TAG = re.compile(r"CONTEXT_OFFLOAD: uuid=([0-9a-f-]{8,})|(\[m\d+: [\d,]+ of [\d,]+ characters left out\])")
SECRET = re.compile(r"secret of part (\d+) is (S-(\w+?)-\d+-\d+)")
BLOCK = re.compile(r"^(m\d+-m\d+) read_part\b", re.MULTILINE)
"""A read part in a status."""
DECISION = "decision: part 1 is settled, ticket INC-4411"
PART_CHARS = 20_000
COMMANDS = {"git checkout -b feat/queue-7714": "Switched to a new branch", "npm run dev > dev.log 2>&1 &": "[1] 4821"}
"""What "work" begins with, and the answers."""
PARALLEL = {4: 2, 11: 3, 25: 2}
"""Steps that call read_part more than once."""
RELOADS = (20, 40)
_WORDS = (
    "the", "gate", "river", "opened", "slowly", "when", "every", "second", "traveller", "asked", "for", "bread", "and",
    "light", "upon", "old", "roads",
)  # fmt: skip


def secret(case: str, part: int) -> str:
    """What only the text of this part says."""
    return f"S-{case}-{part}-{random.Random(f'{case}/{part}').randrange(10**6)}"


@cache
def part_text(case: str, part: int) -> str:
    """20 KB of prose with one secret in its middle."""
    rng = random.Random(f"text/{case}/{part}")
    lines: list[str] = []
    size = 0
    while size < PART_CHARS:
        lines.append(f"part {part} line {len(lines)}: " + " ".join(rng.choices(_WORDS, k=12)))
        size += len(lines[-1]) + 1
    lines.insert(len(lines) // 2, f"The secret of part {part} is {secret(case, part)}")
    return "\n".join(lines)


NOTHING: frozenset[int] = frozenset()
DIED = 9
"""The exit code of a process that ends inside the tool."""


def reader(
    case: str,
    *,
    failing: frozenset[int] = NOTHING,
    dying: frozenset[int] = NOTHING,
    waiting: frozenset[int] = NOTHING,
    outbox: str = os.devnull,
) -> Callable[[int], Any]:
    """The agent's one tool, as a plain function; it raises at parts that are to fail.

    At parts in `dying` it notes the part in the outbox and ends the process, as a machine that goes down right after a
    letter was sent. With `waiting` it is an asynchronous function, which notes such a part and does not return.
    """

    def read_part(number: int, command: str = "") -> str:
        """Read one part of the case.

        Args:
            number: The number of the part.
            command: Instead of reading, a command of the shell.
        """
        if command:
            return COMMANDS[command]
        if number in failing:
            raise RuntimeError(f"part {number} cannot be read")
        if number in dying:
            _note(outbox, number)
            os._exit(DIED)
        return part_text(case, number)

    async def wait_at_part(number: int, command: str = "") -> str:
        if number in waiting:
            _note(outbox, number)
            await asyncio.Event().wait()
        return read_part(number, command)

    if not waiting:
        return read_part
    wait_at_part.__name__, wait_at_part.__doc__ = read_part.__name__, read_part.__doc__
    return wait_at_part


def _note(outbox: str, number: int) -> None:
    with Path(outbox).open("a") as file:
        file.write(f"{number}\n")


@dataclass
class Progress:
    """How far one conversation is in its current task."""

    task: str = ""
    step: int = 0
    parts: int = 0
    tried: set[str] = field(default_factory=set)
    """What was reloaded in search of a part."""


@dataclass
class ScriptedAgent:
    """Answers a Turn; safe to use from several conversations at once."""

    trouble: dict[int, Item] = field(default_factory=dict)
    """What happens once instead of this step of a "read" task: Raw, Hang, Close, Cut, an empty Reply."""
    faults: list[str] = field(default_factory=list)
    """What must not be: another conversation's secrets, a missing tool, a reload that gave nothing."""
    reloaded: dict[str, list[int]] = field(default_factory=dict)
    """Per case, the parts whose secrets came back by context_reload."""
    turns: list[Turn] = field(default_factory=list)
    _progress: dict[str, Progress] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, turn: Turn) -> Item:
        with self._lock:
            self.turns.append(turn)
            return self._answer(turn)

    def _answer(self, turn: Turn) -> Item:
        case, task = _case(turn), _task(turn)
        self._look_around(turn, case)
        if task is None:
            self.faults.append(f"{case}: no task in view")
            return Reply(text="What shall I do?")
        mine = self._progress.setdefault(case, Progress())
        if mine.task != task[0]:
            # The parts go on where an interrupted task left them, so that every call is a new one.
            mine.task, mine.step = task[0], 0
        self._check_reload(turn, case)
        if task[2] in ("read", "work"):
            return self._read(turn, case, mine, int(task[3]))
        if task[2] == "recall":
            return self._recall(turn, case, mine, int(task[3]))
        if task[2] in ("number", "bare"):
            return self._numbered(turn, case, mine, f"m{task[3]}" if task[2] == "number" else int(task[3]))
        if task[2] == "steer":
            return self._steer(turn, case, mine)
        return Reply(text=f"Hello from {case}.")

    def _steer(self, turn: Turn, case: str, mine: Progress) -> Item:
        """Archives the first block of a read part that the status names, and puts it back at the end."""
        said = [said_in(m) for m in turn.messages if m["role"] == "tool"]
        blocks = BLOCK.findall("\n".join(text for text in said if "In view, oldest first" in text))
        first = blocks[0] if blocks else "m1"
        steps: list[tuple[str, dict[str, Any]]] = [
            ("context_condense", {"focus": "part 2"}),
            ("read_part", {"number": 1}),
            ("read_part", {"number": 2}),
            ("context_status", {}),
            ("context_archive", {"messages": first, "reason": "part 1 is read"}),
            ("context_note", {"text": DECISION}),
            ("context_pin", {"messages": "m1"}),
            ("context_search", {"query": "secret of part 1", "tool": "read_part", "limit": 3}),
            ("context_restore", {"messages": first}),
            ("context_restore", {"messages": "m999"}),
        ]
        if mine.step == len(steps):
            return Reply(text=f"Steered {case}.")
        name, arguments = steps[mine.step]
        mine.step += 1
        return Reply(text=None, finish="tool_calls", tool_calls=[_call(case, name, **arguments)])

    def _numbered(self, turn: Turn, case: str, mine: Progress, handle: str | int) -> Item:
        mine.step += 1
        if mine.step > 1:
            return Reply(text=said_in(turn.messages[-1]).partition("\n")[2])
        call = _call(case, "context_reload", working_context_offload_uuid=handle)
        return Reply(text=None, finish="tool_calls", tool_calls=[call])

    def _read(self, turn: Turn, case: str, mine: Progress, steps: int) -> Item:
        if trouble := self.trouble.pop(mine.step + 1, None):
            return trouble
        mine.step += 1
        if mine.step in RELOADS:
            return self._reload(turn, case, "secret")
        if mine.step > steps:
            return Reply(text=f"All parts of {case} are read.")
        first = mine.parts + 1
        mine.parts += PARALLEL.get(mine.step, 1)
        parts = range(first, mine.parts + 1)
        # Some models speak beside their calls.
        text = f"Reading part {first}." if mine.step % 3 == 0 else None
        command = [*COMMANDS][first - 1 : first] if "work" in mine.task else []
        more = {"command": command[0]} if command else {}
        calls = [_call(case, "read_part", number=n, **more) for n in parts]
        return Reply(text=text, finish="tool_calls", tool_calls=calls)

    def _recall(self, turn: Turn, case: str, mine: Progress, part: int) -> Item:
        """Tries one tag after the other, as a model does that does not know which holds the part."""
        wanted = secret(case, part)
        if mine.step and wanted in said_in(turn.messages[-1]):
            return Reply(text=f"It is {wanted}.")
        mine.step += 1
        return self._reload(turn, case, f"secret of part {part}", mine.tried)

    def _reload(self, turn: Turn, case: str, query: str, tried: set[str] | None = None) -> Item:
        tags = list(
            dict.fromkeys(t for m in reversed(turn.messages) for found in TAG.findall(said_in(m)) for t in found if t)
        )
        if tried is not None:
            tags = [tag for tag in tags if tag.partition(":")[0] not in tried]
            tried.update(tag.partition(":")[0] for tag in tags[:1])
        if not tags:
            self.faults.append(f"{case}: {len(tags)} tags in view, and none leads to {query!r}")
            return Reply(text="I do not know.")
        if "context_reload" not in turn.tools:
            self.faults.append(f"{case}: the request offers no context_reload")
        call = _call(case, "context_reload", working_context_offload_uuid=tags[0], query=query)
        return Reply(text=None, finish="tool_calls", tool_calls=[call])

    def _check_reload(self, turn: Turn, case: str) -> None:
        last = turn.messages[-1]
        asked = [c for m in turn.messages[-2:-1] for c in m.get("tool_calls") or ()]
        if last["role"] != "tool" or not any(c["function"]["name"] == "context_reload" for c in asked):
            return
        found = SECRET.findall(said_in(last))
        self.reloaded.setdefault(case, []).extend(
            int(part) for part, value, _ in found if value == secret(case, int(part))
        )
        if said_in(last).startswith("Error"):
            self.faults.append(f"{case}: context_reload said {said_in(last)[:200]!r}")

    def _look_around(self, turn: Turn, case: str) -> None:
        for message in turn.messages:
            self.faults += [
                f"{case} was shown {v}" for _, v, whose in SECRET.findall(said_in(message)) if whose != case
            ]
        system = " ".join(said_in(m) for m in turn.messages if m["role"] in ("system", "developer"))
        if "context_reload" not in system:
            self.faults.append(f"{case}: the system prompt does not explain context_reload")


def _case(turn: Turn) -> str:
    system = " ".join(said_in(m) for m in turn.messages if m["role"] in ("system", "developer"))
    found = CASE.findall(system)
    return found[0] if found else "unknown"


def _task(turn: Turn) -> re.Match[str] | None:
    said = (said_in(m) for m in reversed(turn.messages) if m["role"] == "user")
    return next((found for text in said if (found := TASK.match(text))), None)


def _call(case: str, name: str, **arguments: Any) -> dict[str, Any]:
    number = f"{random.getrandbits(64):016x}"
    function = {"name": name, "arguments": json.dumps(arguments, separators=(",", ":"))}
    return {"id": f"call_{case}_{number}", "type": "function", "function": function}


def said_in(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content)
    return content or ""
