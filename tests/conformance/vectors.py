"""The recorded cases of the reference as values: 103 one-pass vectors and 48 scripted quirks."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autocontext import Msg, Plan, SubTask

DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True)
class Vector:
    """One compression pass: what goes in and what the reference made of it."""

    name: str
    config: dict[str, Any]
    messages: tuple[Msg, ...]
    plan: Plan | None
    reply: str
    expect: dict[str, Any]


@dataclass(frozen=True)
class Quirk:
    """A scripted case in which the reference goes wrong; `config` has this library's field names."""

    name: str
    config: dict[str, Any]
    messages: tuple[Msg, ...]
    script: tuple[dict[str, Any], ...]


def expand(value: Any) -> Any:
    """The value with every {"repeat": [s, n]} inside written out."""
    if isinstance(value, list):
        return [expand(v) for v in value]
    if isinstance(value, dict):
        if set(value) == {"repeat"}:
            text, times = value["repeat"]
            return text * times
        return {k: expand(v) for k, v in value.items()}
    return value


def _block(data: dict[str, Any]) -> dict[str, Any]:
    """A content block in this library's shape: the reference's media blocks carry a bare `url`."""
    if "url" in data:
        data = {**{k: v for k, v in data.items() if k != "url"}, "source": {"type": "url", "url": data["url"]}}
    if isinstance(data.get("output"), list):
        data = {**data, "output": [_block(b) for b in data["output"]]}
    return data


def message(data: dict[str, Any]) -> Msg:
    """One recorded message."""
    return Msg(**{**data, "content": [_block(b) for b in data["content"]]})


def _plan(data: dict[str, Any] | None) -> Plan | None:
    if data is None:
        return None
    return Plan(**{**data, "subtasks": [SubTask(**task) for task in data["subtasks"]]})


def _lines(file: str) -> list[dict[str, Any]]:
    text = (DATA / file).read_text(encoding="utf-8")
    return [expand(json.loads(line)) for line in text.splitlines()]


def vectors() -> list[Vector]:
    """All of conformance_dev.jsonl and conformance_more.jsonl."""
    return [
        Vector(
            name=v["name"],
            config=v["config"],
            messages=tuple(map(message, v["messages"])),
            plan=_plan(v["plan"]),
            reply="SUMMARY" if v["reply"] is None else v["reply"],
            expect=v["expect"],
        )
        for v in _lines("conformance_dev.jsonl") + _lines("conformance_more.jsonl")
    ]


def quirks() -> dict[str, Quirk]:
    """All of reference_quirks.jsonl, by the short number that starts the name."""
    found = {}
    for v in _lines("reference_quirks.jsonl"):
        config = {re.sub("[A-Z]", lambda m: "_" + m[0].lower(), k): value for k, value in v["config"].items()}
        found[v["name"].split("-")[0]] = Quirk(
            v["name"], config, tuple(map(message, v["messages"])), tuple(v["script"])
        )
    return found
