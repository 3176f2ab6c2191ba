"""Histories that services would refuse, made fit to send: for what a crash, a timeout or a trimmed list leaves behind.

`sendable` is for requests only. What it repairs stays as it is in the memory, where nothing is ever dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from functools import partial
from math import isfinite
from operator import itemgetter
from typing import Any

from pydantic import BaseModel

from autocontext.formats.call_ids import with_own_ids
from autocontext.messages import (
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    as_messages,
    is_tool_message,
    leads_on,
)
from autocontext.text.chat_rules import first_violation, says
from autocontext.text.quoting import quotation
from autocontext.text.rendering import one_line

INTERRUPTED = (
    "Error: The process ended before a result, or the turn was cancelled. This call may have taken effect: check that "
    "before you repeat it."
)
"""What the model reads as the result of a call that has none."""


def sendable(messages: Iterable[Msg]) -> list[Msg]:
    r"""The same messages where strict services take them; otherwise repaired copies.

    A call without a result is answered by `INTERRUPTED`, and a result that stands too late is moved behind its call; if
    an answer stands between the two, the call is moved to its result. A second one is quoted below the first, or left
    out if it says the same. One whose call is gone is quoted in a user's message that says whose words they are. Of
    several calls with one id in a message, each gets its own, and their results in their order. A tool's message
    without a result is the user's, as in `to_openai`. Reasoning that was added by itself stands in the message it led
    to; an assistant message that says nothing is left out. Half a surrogate pair, NaN and infinity, which no JSON body
    can carry, are written as `\ud800`, "nan" and "inf".
    """
    msgs = [m if _fits_json(m) else as_json(m) for m in as_messages(messages)]
    if first_violation(msgs) is None:
        return msgs
    return [msg for _, msg in sorted(_placed(with_own_ids(_with_reasoning(msgs))), key=itemgetter(0))]


def _with_reasoning(msgs: list[Msg]) -> list[Msg]:
    """Reasoning alone goes to the assistant's message right behind it: services take neither without the other."""
    joined: list[Msg] = []
    for msg in msgs:
        if joined and leads_on(joined[-1], msg):
            joined[-1] = msg.model_copy(update={"content": (*joined[-1].content, *msg.content)})
        else:
            joined.append(msg)
    return joined


def _fits_json(value: Any) -> bool:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
        return True
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, BaseModel):
        value = vars(value)
    if isinstance(value, dict):
        return all(_fits_json(key) and _fits_json(inner) for key, inner in value.items())
    return not isinstance(value, list | tuple) or all(map(_fits_json, value))


def as_json(value: Any) -> Any:
    """A value as JSON can hold it, of which each text is one that can be sent."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, BaseModel):
        return type(value).model_validate(as_json(vars(value)))
    if isinstance(value, dict):
        return {as_json(key): as_json(inner) for key, inner in value.items()}
    return [as_json(inner) for inner in value] if isinstance(value, list | tuple) else value


def _placed(msgs: list[Msg]) -> Iterator[tuple[int, Msg]]:
    """What is sent of each message, with the index at which it goes."""
    results = _Results(msgs)
    answers = [i for i, msg in enumerate(msgs) if msg.role == "assistant" and not is_tool_message(msg) and _says(msg)]
    for at, msg in enumerate(msgs):
        said = tuple(b for b in msg.content if not isinstance(b, ToolResultBlock))
        if msg.tool_uses:
            firsts = [results.take(use.id, at) for use in msg.tool_uses]
            last = max(first[0] if first else at for first in firsts)
            # Results moved before an answer might leave it as the end of a request: services refuse or continue it.
            place = at if bisect_right(answers, at) == bisect_right(answers, last) else last
            is_plain = len(said) == len(msg.content) and msg.role == "assistant"
            yield place, msg if is_plain else _with(msg, "assistant", said)
            for use, first in zip(msg.tool_uses, firsts, strict=True):
                later = [msgs[i].content[k] for i, k in iter(partial(results.take, use.id, at), None)]
                yield place, _with_later(_result(msgs, at, use, first), later)
            continue
        for number, block in enumerate(msg.content):
            if isinstance(block, ToolResultBlock) and (at, number) not in results.taken:
                yield at, _orphan(msg, number, block)
        if not msg.tool_results and msg.role != "tool":
            if msg.role != "assistant" or _says(msg):
                yield at, msg
        elif any(says(b) if msg.tool_results else not isinstance(b, ThinkingBlock) for b in said):
            yield at, _with(msg, "user", said)


class _Results:
    """Where the results of calls stand, as pairs of a message's and a block's index; each is taken once."""

    def __init__(self, msgs: list[Msg]) -> None:
        self.taken: set[tuple[int, int]] = set()
        self._waiting: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
        self._uses: dict[str, list[int]] = defaultdict(list)
        for at, msg in enumerate(msgs):
            for use in msg.tool_uses:
                self._uses[use.id].append(at)
            for number, block in enumerate(msg.content):
                if isinstance(block, ToolResultBlock):
                    self._waiting[block.id].append((at, number))

    def take(self, call_id: str, at: int) -> tuple[int, int] | None:
        """The first result of a call in message `at`, wherever it stands behind it before the id is used again.

        Calls are asked for in their order.
        """
        waiting, uses = self._waiting[call_id], self._uses[call_id]
        while waiting and waiting[0][0] <= at:
            waiting.popleft()
        again = bisect_right(uses, at)
        if not waiting or (again < len(uses) and waiting[0][0] > uses[again]):
            return None
        place = waiting.popleft()
        self.taken.add(place)
        return place


def _result(msgs: list[Msg], at: int, use: ToolUseBlock, place: tuple[int, int] | None) -> Msg:
    if place is None:
        interrupted = ToolResultBlock(id=use.id, name=use.name, output=INTERRUPTED, is_error=True)
        return Msg(id=f"{msgs[at].id}.{use.id}", role="tool", content=(interrupted,), timestamp=msgs[at].timestamp)
    msg, number = msgs[place[0]], place[1]
    if msg.role == "tool" and len(msg.content) == 1:
        return msg
    return _with(msg, "tool", (msg.content[number],), number)


def _with_later(result: Msg, later: list[Any]) -> Msg:
    """A result with what else the tool said of the same call later: services take one result of a call."""
    block = result.tool_results[0]
    texts = [
        TextBlock(text=f"[The tool answered this call once more:]\n{quotation(other.text)}")
        for other in later
        if (other.output, other.is_error) != (block.output, block.is_error)  # the same, given twice
    ]
    if not texts:
        return result
    first = (TextBlock(text=block.output),) if isinstance(block.output, str) else tuple(block.output)
    return _with(result, "tool", (block.model_copy(update={"output": (*first, *texts)}),))


def _orphan(msg: Msg, number: int, block: ToolResultBlock) -> Msg:
    """A result without a call: services take it from the user only, so it says that the user did not write it."""
    tool = one_line(block.name).replace("]", ")") or "called before"
    text = f"[What the tool {tool} said in an earlier part that is not shown; not the user's words:]\n"
    text = f"{text}{quotation(block.text)}\n[The end of what the tool said]"
    return _with(msg, "user", (TextBlock(text=text),), number)


def _with(msg: Msg, role: str, content: tuple[object, ...], number: int = 0) -> Msg:
    own = f"{msg.id}.{number}" if number else msg.id
    return Msg(id=own, role=role, content=content, timestamp=msg.timestamp, metadata=msg.metadata)  # type: ignore[arg-type]  # checked by the model


def _says(msg: Msg) -> bool:
    return any(map(says, msg.content))
