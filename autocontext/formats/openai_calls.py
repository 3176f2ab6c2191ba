"""Tool calls of OpenAI chat messages as blocks, and back, without loss: also the exact text of their arguments.

What a block has no field for stands in its hints, as for parts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from autocontext.errors import InvalidMessage
from autocontext.formats.objects import object_at, put_back, read_at, rest, text_at
from autocontext.formats.openai_parts import hints, remember
from autocontext.messages import ToolUseBlock, freeze

_STYLES: dict[str, dict[str, Any]] = {
    "spaced": {"ensure_ascii": False},
    "compact": {"ensure_ascii": False, "separators": (",", ":")},
    "ascii": {},
    "ascii_compact": {"separators": (",", ":")},
}
"""The ways in which models commonly lay out arguments; the first is the one that needs no hint."""


def read_call(call: Mapping[str, Any]) -> ToolUseBlock:
    """An entry of `tool_calls` as a block, its arguments parsed."""
    kind = call.get("type", "function")
    if kind not in ("function", "custom"):
        raise InvalidMessage(f"type: must be 'function' or 'custom', not {kind!r}")
    body, call_id = object_at(call, kind), text_at(call, "id")
    more = {"extra": rest(call, ("id", "type", kind)), "untyped": "type" not in call}
    return read_at(kind, partial(read_function, body, call_id, custom=kind == "custom", **more))


def read_function(body: Mapping[str, Any], call_id: str, *, custom: bool = False, **more: Any) -> ToolUseBlock:
    """The inner object of a call as a block: `function`, `custom`, or a legacy `function_call`; `more` are hints."""
    name = text_at(body, "name")
    key = "input" if custom else "arguments"
    raw = text_at(body, key)
    value, form = ({"input": raw}, {"custom": True}) if custom else _read_arguments(raw)
    known = remember(inner=rest(body, ("name", key)), **form, **more)
    return ToolUseBlock(id=call_id, name=name, input=value, metadata=known)


def write_call(block: ToolUseBlock) -> dict[str, Any]:
    """The entry of `tool_calls` that stands for a block."""
    known = hints(block)
    kind = "custom" if known.get("custom") else "function"
    call = {"id": block.id} if known.get("untyped") else {"id": block.id, "type": kind}
    return put_back({**call, kind: write_function(block)}, known.get("extra"))


def write_function(block: ToolUseBlock) -> dict[str, Any]:
    """The inner object of a call."""
    known = hints(block)
    key = "input" if known.get("custom") else "arguments"
    return put_back({"name": block.name, key: _write_arguments(block, key)}, known.get("inner"))


def _dumps(value: Mapping[str, Any], style: str) -> str:
    text = json.dumps(value, **_STYLES[style])
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: only its escape can be sent
        return json.dumps(value, **{**_STYLES[style], "ensure_ascii": True})
    return text


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("JSON has no such number")
    return value


def _parse(raw: str) -> dict[str, Any] | None:
    """The object that a text of arguments says; None when it is not one that can be kept as a value."""
    if not raw.strip():
        return {}  # how models call a tool that takes nothing
    try:
        value = freeze(json.loads(raw, parse_float=_finite, parse_constant=_finite))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read_arguments(raw: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments as a value and the hints that give back this very text."""
    value = _parse(raw)
    if value is None:  # kept as text, where models, previews and token counts see it
        return {"arguments": raw}, {"text": True}
    for style in _STYLES:
        if _dumps(value, style) == raw:
            return value, {} if style == "spaced" else {"style": style}
    return value, {"raw": raw}


def _write_arguments(block: ToolUseBlock, key: str) -> str:
    known = hints(block)
    if (known.get("custom") or known.get("text")) and set(block.input) == {key} and isinstance(block.input[key], str):
        return str(block.input[key])
    raw = known.get("raw")
    # As text: Python takes 1, 1.0 and True for equal. Sorted: stores may reorder keys.
    if isinstance(raw, str) and json.dumps(_parse(raw), sort_keys=True) == json.dumps(block.input, sort_keys=True):
        return raw
    style = known.get("style")
    return _dumps(block.input, style if style in _STYLES else "spaced")
