"""The calls of a history: what each is about, what it changes, and its outcome."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from autocontext.ledger.effects import (
    COMMAND_KEYS,
    PATH_KEYS,
    Effect,
    ThingChange,
    changes_of,
    command_line,
    effect_of,
    files_of_patch,
    path_of,
)
from autocontext.ledger.outcomes import Outcome
from autocontext.messages import ToolUseBlock, leaves
from autocontext.plan import lists_steps
from autocontext.text.rendering import one_line

_MAIN_ARGUMENTS = (
    "url", "query", "order_id", "reservation_id", "line_id", "customer_id", "user_id", "product_id", "id",
    "flight_number", "code", "expression", "name", "pattern", "question",
)  # fmt: skip
"""Arguments that describe best a call without a file and a command."""
_REMARKS = frozenset({"description", "explanation", "justification", "thought", "timeout"})
"""Arguments that say why or how a command is run."""
_MOST_LEAVES = 20
_LONGEST = 160
"""Characters of a label."""
_HEAD = 24
"""A cut label keeps at least this many first characters."""
_TAIL = 16
"""Fewer last characters are not worth showing."""
_MOST_TEXT = 40_000
"""Characters of arguments that are compared to find equal calls."""


Key: TypeAlias = tuple[str, str, str, int]
Shape: TypeAlias = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call with its outcome."""

    number: int
    """Number of the message with the call."""
    name: str
    label: str
    """What it is about: a file, a command's first line, or its main arguments."""
    digest: int
    """Equal for equal arguments."""
    effect: Effect | None
    detail: str = ""
    """Further short arguments of a call with a file: an editor's command, lines, a pattern."""
    changes: tuple[ThingChange, ...] = ()
    """What it changes if it succeeds."""
    made: frozenset[str] = frozenset()
    """What it changed although it failed: an earlier command of its line did."""
    result: int = 0
    """Number of the message with its result; 0 without one."""
    outcome: Outcome | None = None

    key: Key = ("", "", "", 0)
    """Equal for calls of one tool that do the same to the same thing; they share a line."""

    @property
    def failed(self) -> bool:
        """Whether its result says that it failed."""
        return self.outcome is not None and self.outcome.failed


def call_of(use: ToolUseBlock, number: int, table: Mapping[str, Effect]) -> Call:
    """The Call for a block, without its result."""
    arguments = use.input
    effect = effect_of(use.name, arguments, table)
    text = repr(dict(arguments))[:_MOST_TEXT]
    path = path_of(arguments)
    is_plan = not path and lists_steps(arguments)  # the plan has a part of its own
    label = path or ("" if is_plan else label_of(arguments))
    name = _short_line(use.name, 60) or "call"
    digest = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    # Different calls may have the same label if it leaves out some of the arguments.
    partial = not path and not is_plan and not all(" ".join(str(v).split()) in label for v in arguments.values())
    return Call(
        number=number,
        name=name,
        label=label,
        digest=digest,
        effect=effect,
        detail=_short_line(", ".join(_details(arguments)), 60) if path else "",
        changes=tuple(changes_of(use.name, arguments, effect)),
        key=(name, label, effect or "", digest if partial else 0),
    )


def shape_of(use: ToolUseBlock) -> Shape:
    """The kind of a call: the tool, an editor's command, the names of the arguments."""
    command = use.input.get("command") if path_of(use.input) else None
    return use.name, command if isinstance(command, str) else "", tuple(use.input)


def label_of(arguments: Mapping[str, Any]) -> str:
    """A command's first line, or the main argument and other short ones, on one line; "" without any."""
    if command := command_line(arguments):
        lines = [line for line in command[:4_000].splitlines() if line.strip()]
        more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
        return _short_line(lines[0], _LONGEST) + more if lines else ""
    if patched := files_of_patch(arguments):
        return _short_line(", ".join(patched), _LONGEST)
    texts = [(k, str(v).strip()) for k, v in arguments.items() if isinstance(v, str | int | float) and str(v).strip()]
    main = [v for key in _MAIN_ARGUMENTS for k, v in texts if k == key][:1]
    rest = [v for k, v in texts if [v] != main]
    first = main or rest[:1] or [leaf_values(v) for v in list(arguments.values())[:1]]
    others = [v for v in rest if v not in first and len(v) <= 60 and "\n" not in v]
    return _short_line(", ".join([*(x.split("\n", 1)[0] for x in first), *others]), _LONGEST)


def facts_of(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments that may be needed again: not those that only explain a command, and not a plan's steps."""
    if lists_steps(arguments):
        return {}
    return {k: v for k, v in arguments.items() if k not in _REMARKS} if command_line(arguments) else arguments


def leaf_values(value: Any) -> str:
    """The values inside a list or object as one line."""
    return ", ".join(islice(leaves(value), _MOST_LEAVES))


def _details(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Short arguments of a call with a file: an editor's command, lines, a pattern."""
    for key, value in arguments.items():
        if key in PATH_KEYS or isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int | float) or (key in COMMAND_KEYS and isinstance(value, str) and len(value) <= 20):
            yield f"{value}" if key in COMMAND_KEYS else f"{key} {value}"
        elif isinstance(value, list | tuple) and len(value) <= 3 and all(isinstance(v, int) for v in value):
            yield "-".join(map(str, value))
        elif key in ("pattern", "regex", "symbol", "class_name", "function_name") and isinstance(value, str):
            yield value[:60]


def _short_line(text: str, longest: int) -> str:
    """A text on one line, cut between words."""
    return shorten(one_line(text[: 4 * longest]), longest)


def label_in(label: str, longest: int) -> str:
    """A label of at most about `longest` characters: the end of a path, otherwise beginning and end."""
    if len(label) <= longest:
        return label
    if " " not in label and "/" in label:
        at = label.find("/", len(label) - longest)
        return "…" + label[at if at >= 0 else len(label) - longest :]
    head, tail = max(_HEAD, longest * 5 // 8), ""
    if label.startswith("cd ") and "&& " in label[:-1]:
        # The command says more than its folder: show the beginning of both.
        tail = label[max(head, label.index("&& ") + 3) :][: max(_TAIL, longest - head - 1)]
    elif longest - head > _TAIL:
        tail = label[len(label) - longest + head + 1 :]
    return f"{label[:head].rstrip()}…{tail.strip()}"


def shorten(text: str, longest: int, least: int = 0) -> str:
    """A line cut between words to at most `longest` characters and at least `least`, with "…" if it was cut."""
    if len(text) <= longest:
        return text
    at = text.rfind(" ", max(least, longest // 2), longest)
    if at < 0:
        at = longest - 1
        while at > max(least, longest // 2) and text[at].isalnum() and text[at - 1].isalnum():
            at -= 1
    return text[:at].rstrip() + "…"
