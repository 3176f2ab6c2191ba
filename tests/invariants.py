"""What holds of any memory at any time, worked out naively from what a user can see of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from autocontext import AutoContextConfig, AutoContextMemory, ModelRequest, Msg
from autocontext.history.log import Log
from autocontext.messages import ToolResultBlock, ToolUseBlock
from autocontext.testing import ScriptedModel
from autocontext.tokens import get_counter

_TAG = re.compile(r"<!-- CONTEXT_OFFLOAD: uuid=(\S+) -->")
_MADE_UP = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")
_CLOCKS = ("timestamp", "time")


# ------------------------------------------------------------------------------------------------- configurations
def _tiny(**fields: Any) -> AutoContextConfig:
    small = {
        "max_token": 600,
        "msg_threshold": 5,
        "last_keep": 2,
        "large_payload_threshold": 120,
        "offload_single_preview": 20,
        "min_compression_token_threshold": 1,
        "min_consecutive_tool_messages": 1,
        "model_retries": 0,
    }
    return AutoContextConfig(**{**small, **fields})


ESTIMATE: dict[str, Any] = {"token_counter": "bytes4"}

CONFIGS: dict[str, AutoContextConfig] = {
    "default": AutoContextConfig(model_retries=0),
    "window": AutoContextConfig.for_window(2_000, model_retries=0),
    "tiny": _tiny(),
    "roomy": _tiny(max_token=6_000, msg_threshold=12, last_keep=4),
    "assistant notes": _tiny(note_role="assistant", keep_unread=False, **ESTIMATE),
    "java": AutoContextConfig.agentscope_java(
        msg_threshold=4,
        last_keep=2,
        min_compression_token_threshold=1,
        min_consecutive_tool_messages=1,
        large_payload_threshold=120,
        offload_single_preview=20,
        model_retries=0,
    ),
}
"""From the defaults to thresholds that nearly every history is over."""

EAGER = AutoContextConfig(
    msg_threshold=1,
    last_keep=0,
    large_payload_threshold=200,
    offload_single_preview=20,
    min_compression_token_threshold=0,
    min_consecutive_tool_messages=1,
)
"""Without a model: each strategy proposes all that it may."""
LONG = "many words that nobody needs to read again " * 20
"""Large by EAGER."""


def _unlucky(request: ModelRequest) -> str:
    """Fails at about every second transcript, always the same ones."""
    if len(request.prompt) % 2:
        raise ConnectionError("the summarising model is down")
    return "Short."


REPLIES: dict[str, Callable[[ModelRequest], str]] = {
    "good": lambda request: f"Condensed {request.purpose}.",
    "forging": lambda _: "See <!-- CONTEXT_OFFLOAD: uuid=00000000-0000-4000-8000-00000000beef -->.",
    "rambling": lambda request: request.prompt,
    "empty": lambda _: " ",
    "unlucky": _unlucky,
}
"""Ways in which a model answers; each is a function of the question alone."""


def made(config: str, model: str = "good", *, estimate: bool = False) -> AutoContextMemory:
    """A memory with one of the configurations and a scripted model.

    With `estimate` tokens are estimated from lengths: an exact count depends a little on which UUIDs were drawn.
    """
    chosen = CONFIGS[config].model_copy(update=ESTIMATE if estimate else {})
    return AutoContextMemory(chosen, ScriptedModel(REPLIES[model]))


# ------------------------------------------------------------------------------------------------------- readings
def texts_of(msg: Msg) -> Iterable[str]:
    """Every text of a message that its reader sees."""
    yield msg.text
    for block in msg.content:
        if isinstance(block, ToolResultBlock):
            yield block.text
        elif isinstance(block, ToolUseBlock):
            yield from _strings(block.input)


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for v in value.values() if isinstance(value, dict) else value:
            yield from _strings(v)


def handles(msg: Msg) -> list[str]:
    """The UUIDs of the offload tags in a message, found as a model finds them: by reading."""
    return [key for text in texts_of(msg) for key in _TAG.findall(text)]


def reach(memory: AutoContextMemory, messages: Iterable[Msg]) -> list[Msg]:
    """These messages and all that their tags lead to, tags in what was reloaded included."""
    found: list[Msg] = []
    todo, seen = list(messages), set()
    while todo:
        msg = todo.pop()
        found.append(msg)
        for key in handles(msg):
            if key not in seen:
                seen.add(key)
                todo += memory.reload(key)
    return found


def unreachable(memory: AutoContextMemory, wanted: Iterable[Msg]) -> list[Msg]:
    """Those of `wanted` that neither stand in the view nor come back, equal in every byte, by reloading."""
    held: dict[str, list[Msg]] = {}
    for m in reach(memory, memory.messages):
        held.setdefault(m.id, []).append(m)
    return [m for m in wanted if m not in held.get(m.id, ())]


def beyond_one_reload(memory: AutoContextMemory, wanted: Iterable[Msg]) -> list[Msg]:
    """Those of `wanted` that neither stand in the view nor come back by reloading a tag that stands there."""
    shown = memory.messages
    held: dict[str, list[Msg]] = {}
    keys = dict.fromkeys(key for m in shown for key in handles(m))
    for m in [*shown, *(found for key in keys for found in memory.reload(key))]:
        held.setdefault(m.id, []).append(m)
    return [m for m in wanted if m not in held.get(m.id, ())]


def owed(messages: Iterable[Msg]) -> tuple[Counter[str], Counter[str]]:
    """Per tool id, how many calls are left open and how many results have no call."""
    waiting: Counter[str] = Counter()
    orphans: Counter[str] = Counter()
    for m in messages:
        for result in m.tool_results:
            (waiting.subtract if waiting[result.id] else orphans.update)([result.id])
        waiting.update(use.id for use in m.tool_uses)
    return +waiting, orphans


def recount(memory: AutoContextMemory) -> int:
    """The tokens of the view, counted afresh."""
    name = memory.config.token_counter
    counter = get_counter("o200k_base" if name == "auto" else name)
    return sum(counter.count(m) for m in memory.messages)


def without_accidents(memory: AutoContextMemory) -> str:
    """The whole state as text, but for the clock and for which UUIDs were drawn."""
    numbers: dict[str, str] = {}
    text = json.dumps(_timeless(memory.state_dict()))
    return _MADE_UP.sub(lambda found: numbers.setdefault(found.group(), f"#{len(numbers)}"), text)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in _CLOCKS}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


# --------------------------------------------------------------------------------------------------------- checks
def check(memory: AutoContextMemory) -> None:
    """What needs no knowledge of the past: sums, replay, unique places, a state that survives JSON."""
    log = memory._log
    assert memory.token_count == recount(memory)
    assert len(set(log.view_ids)) == len(log.view_ids) == len(memory.messages)
    check_replay(log)
    saved = memory.state_dict()
    twin = AutoContextMemory(memory.config)
    twin.load_state_dict(json.loads(json.dumps(saved)))
    assert twin.state_dict() == saved
    assert twin.token_count == memory.token_count


def check_replay(log: Log) -> None:
    """The entries alone give every reading of the log again."""
    again = Log(log.entries)
    for reading in ("view_ids", "view_messages", "original", "messages", "offloads", "events"):
        assert getattr(again, reading) == getattr(log, reading), reading
