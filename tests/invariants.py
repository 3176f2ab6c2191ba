"""What holds of any memory at any time, worked out naively from what a user can see of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, ModelRequest, Msg
from autocontext.config import READ_ONCE, STRATEGIES
from autocontext.history.log import Log
from autocontext.messages import ToolResultBlock, ToolUseBlock, is_note, is_user_turn
from autocontext.testing import ScriptedModel
from autocontext.tokens import get_counter

_TAG = re.compile(r"<!-- CONTEXT_OFFLOAD: uuid=(\S+) -->")
_LEFT_OUT = re.compile(
    r"\[(m\d+): (?:reformatted, )?(?:nothing|[\d,]+ of [\d,]+ characters) left out\]"
    r"|\[the rest: (m\d+)\]|\[image (m\d+): [^\[\]\n]+, left out\]"
)
_MADE_UP = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|(?<=transcript id=..)[0-9a-f]{16}")
_PAGE = re.compile(r"\[(m\d+)(?:-m\d+)?: ")
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
    "roomy": _tiny(max_token=6_000, msg_threshold=12, last_keep=4, strategies=(READ_ONCE, *STRATEGIES)),
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
"""Without a model, every strategy proposes as much as it can."""
LONG = "many words that nobody needs to read again " * 20
"""Large according to EAGER."""


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
"""Ways a model can answer; each depends only on the question."""


def new_memory(config: str, model: str = "good", *, estimate: bool = False) -> AutoContextMemory:
    """A memory with one of the configurations and a scripted model.

    With `estimate`, tokens are estimated from lengths; exact counts vary slightly with the random UUIDs.
    """
    settings = CONFIGS[config].model_copy(update=ESTIMATE if estimate else {})
    return AutoContextMemory(settings, ScriptedModel(REPLIES[model]))


# ------------------------------------------------------------------------------------------------------- readings
def texts_of(msg: Msg) -> Iterable[str]:
    """Every text of a message that a reader sees."""
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
    """The UUIDs of the offload tags in a message's texts, and the number behind the marks of a short form, as a model
    reads them."""
    keys = [key for text in texts_of(msg) for key in _TAG.findall(text)]
    if keys or msg.origin is None:
        return keys
    return list(dict.fromkeys(n for text in texts_of(msg) for marks in _LEFT_OUT.findall(text) for n in marks if n))


def reach(memory: AutoContextMemory, messages: Iterable[Msg]) -> list[Msg]:
    """These messages and, recursively, all messages behind their tags."""
    expanded: list[Msg] = []
    todo, keys = list(messages), set()
    while todo:
        msg = todo.pop()
        expanded.append(msg)
        for key in handles(msg):
            if key not in keys:
                keys.add(key)
                todo += memory.reload(key)
    return expanded


def unreachable(memory: AutoContextMemory, originals: Iterable[Msg]) -> list[Msg]:
    """The originals that are neither in the view nor returned by reloading, byte for byte.

    The short form of a page that was reloaded by a number has that number: it leads to what the page showed.
    """
    available: dict[str, list[Msg]] = {}
    for m in reach(memory, memory.messages):
        available.setdefault(m.id, []).append(m)
    return [m for m in originals if m not in available.get(m.id, ()) and not _shows_what_is_there(memory, m)]


def _shows_what_is_there(memory: AutoContextMemory, page: Msg) -> bool:
    """Whether a message is a page of numbered originals, all of which can be reloaded."""
    numbers = [_PAGE.match(r.text) for r in page.tool_results if r.name == ContextOffloadTool.name]
    return bool(numbers) and all(n is not None and memory.reload(n[1]) for n in numbers)


def beyond_one_reload(memory: AutoContextMemory, originals: Iterable[Msg]) -> list[Msg]:
    """The originals that are neither in the view nor returned by reloading a tag in it."""
    view = memory.messages
    available: dict[str, list[Msg]] = {}
    keys = dict.fromkeys(key for m in view for key in handles(m))
    for m in [*view, *(reloaded for key in keys for reloaded in memory.reload(key))]:
        available.setdefault(m.id, []).append(m)
    return [m for m in originals if m not in available.get(m.id, ())]


def owed(messages: Iterable[Msg], *, coming: bool = False) -> tuple[Counter[str], Counter[str]]:
    """Per tool id, the number of unanswered calls and of results without a call.

    `coming`: only of those whose partner may still come: none before the user's last message that the model answered,
    or before the model's last one after which it has read a result.
    """
    messages = list(messages)
    replies = [i for i, m in enumerate(messages) if m.role == "assistant" and not is_note(m)]
    turns = [i for i, m in enumerate(messages) if is_user_turn(m) and replies and i < replies[-1]]
    read = [i for i, m in enumerate(messages) if m.tool_results and replies and i < replies[-1]]
    steps = [i for i in replies if read and i < read[-1]]
    start = max([*turns, *steps], default=0) if coming else 0
    waiting: dict[str, list[int]] = {}
    orphans: Counter[str] = Counter()
    for i, m in enumerate(messages):
        for result in m.tool_results:
            if waiting.get(result.id):
                waiting[result.id].pop()
            elif i >= start:
                orphans[result.id] += 1
        for use in m.tool_uses:
            waiting.setdefault(use.id, []).append(i)
    return +Counter({id_: sum(i >= start for i in places) for id_, places in waiting.items()}), orphans


def assert_pairs_kept(after: Iterable[Msg], before: Iterable[Msg]) -> None:
    """No call or result has lost its partner, and none is gone whose partner may still come."""
    before = list(before)
    for now, then, coming in zip(owed(after), owed(before), owed(before, coming=True), strict=True):
        assert coming <= now <= then


def recount(memory: AutoContextMemory) -> int:
    """The tokens of the view, recounted."""
    name = memory.config.token_counter
    counter = get_counter("o200k_base" if name == "auto" else name)
    return sum(counter.count(m) for m in memory.messages)


def without_accidents(memory: AutoContextMemory) -> str:
    """The whole state as text, without timestamps and with UUIDs and the marks of transcripts numbered."""
    numbers: dict[str, str] = {}
    text = json.dumps(_timeless(memory.state_dict()))
    return _MADE_UP.sub(lambda match: numbers.setdefault(match.group(), f"#{len(numbers)}"), text)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in _CLOCKS}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


# --------------------------------------------------------------------------------------------------------- checks
def check(memory: AutoContextMemory) -> None:
    """Check token sums, replay, unique ids, and the round trip of the state through JSON."""
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
    """Replaying the entries reproduces every reading of the log."""
    again = Log(log.entries)
    for reading in ("view_ids", "view_messages", "original", "messages", "offloads", "events", "taken_back"):
        assert getattr(again, reading) == getattr(log, reading), reading
