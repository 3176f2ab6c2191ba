"""The calls of a history: what each was about, what it changed, what came of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from autocontext.ledger.effects import (
    COMMAND_KEYS,
    PATH_KEYS,
    Change,
    Effect,
    changes_of,
    command_line,
    effect_of,
    path_of,
)
from autocontext.ledger.outcomes import Outcome
from autocontext.messages import ToolUseBlock, leaves
from autocontext.text.rendering import one_line

_TELLING = ("url", "query", "order_id", "reservation_id", "line_id", "customer_id", "user_id", "product_id", "id",
            "flight_number", "code", "expression", "name", "pattern", "question")  # fmt: skip
"""Arguments that say best what a call is about, where it names no file and no command."""
_MOST_LEAVES = 20
_LONGEST = 160
"""Characters of a label."""
_HEAD = 24
"""Characters of the beginning of a label that are kept in any case."""
_TAIL = 16
"""Characters of its end that are worth showing."""
_MOST_TEXT = 40_000
"""Characters of arguments that tell equal calls from different ones."""


Key: TypeAlias = tuple[str, str, str, int]
Shape: TypeAlias = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call with what its result told."""

    number: int
    """Of the message that holds the call."""
    name: str
    label: str
    """What it is about: a file, a command's first line, or its telling arguments."""
    digest: int
    """Equal for equal arguments."""
    effect: Effect | None
    detail: str = ""
    """What else is short beside a file: an editor's command, lines, a pattern."""
    changes: tuple[Change, ...] = ()
    """What it changes if it succeeds."""
    result: int = 0
    """Number of the message with its result; 0 while there is none."""
    outcome: Outcome | None = None

    key: Key = ("", "", "", 0)
    """Equal for calls of the same tool that do the same to the same thing: they share a line."""

    @property
    def failed(self) -> bool:
        """Whether its result says that it failed."""
        return self.outcome is not None and self.outcome.failed


def call_of(use: ToolUseBlock, number: int, table: Mapping[str, Effect]) -> Call:
    """What a call block says; its result is still to come."""
    arguments = use.input
    effect = effect_of(use.name, arguments, table)
    text = repr(dict(arguments))[:_MOST_TEXT]
    path = path_of(arguments)
    label = path or label_of(arguments)
    name = _short(use.name, 60) or "call"
    digest = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    # A label that leaves out some of the arguments may stand for different calls.
    partial = not path and not all(" ".join(str(v).split()) in label for v in arguments.values())
    return Call(
        number=number,
        name=name,
        label=label,
        digest=digest,
        effect=effect,
        detail=_short(", ".join(_details(arguments)), 60) if path else "",
        changes=tuple(changes_of(use.name, arguments, effect)),
        key=(name, label, effect or "", digest if partial else 0),
    )


def shape_of(use: ToolUseBlock) -> Shape:
    """Which kind of call it is: the tool, an editor's own command, the names of the arguments."""
    command = use.input.get("command") if path_of(use.input) else None
    return use.name, command if isinstance(command, str) else "", tuple(use.input)


def label_of(arguments: Mapping[str, Any]) -> str:
    """A command's first line, or the telling arguments and what else is short, on one line; "" without any."""
    if command := command_line(arguments):
        lines = [line for line in command[:4_000].splitlines() if line.strip()]
        more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
        return _short(lines[0], _LONGEST) + more if lines else ""
    texts = [(k, str(v).strip()) for k, v in arguments.items() if isinstance(v, str | int | float) and str(v).strip()]
    telling = [v for key in _TELLING for k, v in texts if k == key][:1]
    rest = [v for k, v in texts if [v] != telling]
    first = telling or rest[:1] or [held_in(v) for v in list(arguments.values())[:1]]
    others = [v for v in rest if v not in first and len(v) <= 60 and "\n" not in v]
    return _short(", ".join([*(x.split("\n", 1)[0] for x in first), *others]), _LONGEST)


def held_in(value: Any) -> str:
    """What a list or object holds as one line, for calls whose arguments are nothing else."""
    return ", ".join(islice(leaves(value), _MOST_LEAVES))


def _details(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Short arguments beside a file: an editor's command, lines, a pattern."""
    for key, value in arguments.items():
        if key in PATH_KEYS or isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int | float) or (key in COMMAND_KEYS and isinstance(value, str) and len(value) <= 20):
            yield f"{value}" if key in COMMAND_KEYS else f"{key} {value}"
        elif isinstance(value, list | tuple) and len(value) <= 3 and all(isinstance(v, int) for v in value):
            yield "-".join(map(str, value))
        elif key in ("pattern", "regex", "symbol", "class_name", "function_name") and isinstance(value, str):
            yield value[:60]


def _short(text: str, longest: int) -> str:
    """A text on one line, cut between words."""
    return shortened(one_line(text[: 4 * longest]), longest)


def label_in(label: str, longest: int) -> str:
    """A label in at most about `longest` characters: of a path its end, of anything else its beginning and its end."""
    if len(label) <= longest:
        return label
    if " " not in label and "/" in label:
        at = label.find("/", len(label) - longest)
        return "…" + label[at if at >= 0 else len(label) - longest :]
    head, tail = max(_HEAD, longest * 5 // 8), ""
    if label.startswith("cd ") and "&& " in label[:-1]:
        # What is run says more than where: its beginning, after that of the whole.
        tail = label[max(head, label.index("&& ") + 3) :][: max(_TAIL, longest - head - 1)]
    elif longest - head > _TAIL:
        tail = label[len(label) - longest + head + 1 :]
    return f"{label[:head].rstrip()}…{tail.strip()}"


def shortened(text: str, longest: int, least: int = 0) -> str:
    """A line cut between words, with "…" where cut; never below `least` characters where it has them."""
    if len(text) <= longest:
        return text
    at = text.rfind(" ", max(least, longest // 2), longest)
    if at < 0:
        at = longest - 1
        while at > max(least, longest // 2) and text[at].isalnum() and text[at - 1].isalnum():
            at -= 1
    return text[:at].rstrip() + "…"
