"""The user's request that is still open, which an agent goes on with after a crash, and what a request leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_not
from typing import Any

from autocontext.history.log import Log
from autocontext.messages import (
    RESPONSES_HINTS,
    Msg,
    is_compressed,
    is_final_reply,
    is_note,
    is_reasoning,
    is_recall,
    is_user_turn,
)

_HOLD_ITEMS = ("item", "kind", "whole")
"""What blocks remember of items of the Responses API: see `formats.openai_responses`."""
_LONGEST_OUTPUT = 64
"""Messages before one in which its reasoning is looked for: the parts of an output and the results among them."""


def open_request(log: Log) -> Msg | None:
    """What the user said last, as it was said, if no answer follows it in view; else None.

    Nor is it open if a run has ended since, whatever it ended with, unless its end was taken back.
    """
    request = _unanswered(log, log.view_messages)
    if request is None or log.place.get(request.id, log.ended) >= log.ended:
        return request
    return None if log.ended in log.held(log.view_ids) else request


def _unanswered(log: Log, messages: Sequence[Msg]) -> Msg | None:
    for msg in reversed(messages):
        if _is_answer(msg):
            return None
        if is_recall(msg):
            continue
        behind = log.originals_of(msg.origin.uuid) if msg.origin is not None else []
        if is_user_turn(msg):
            return next((m for m in reversed(behind) if is_user_turn(m)), msg)
        # A note may stand for the request and for what the agent did about it.
        if is_note(msg) and any(is_user_turn(m) or _is_answer(m) for m in behind):
            return _unanswered(log, [m for m in behind if not is_compressed(m)])
    return None


def _is_answer(msg: Msg) -> bool:
    """Whether the agent has ended its turn here, with more than thoughts and blanks."""
    return is_final_reply(msg) and any(
        b.text.strip() if b.type == "text" else b.type != "thinking" for b in msg.content
    )


def without_lost_reasoning(log: Log, messages: Sequence[Msg]) -> Iterator[Msg]:
    """The messages of a request; without reasoning that was added by itself and whose next message is not in them.

    A framework's list may have lost that one only, and services take reasoning with nothing else behind it. Output
    whose reasoning is not in them has no ids: by those the service knows which reasoning it demands.
    """
    kept = [msg for at, msg in enumerate(messages) if not is_reasoning(msg) or _leads_to_next(log, messages, at)]
    thought = log.numbers(msg.id for msg in kept if _thinks(msg))
    for msg in kept:
        bare = msg if msg.role != "assistant" or _thinks(msg) else _without_ids(msg)
        before = None if bare is msg else _thought_before(log, msg)
        yield msg if before is None or before in thought else bare


def _leads_to_next(log: Log, messages: Sequence[Msg], at: int) -> bool:
    """Whether reasoning that was added by itself has behind it what it led to, or may still lead to something."""
    place = log.place.get(messages[at].id, len(log.original))
    behind = (log.original[i] for i in range(place + 1, len(log.original)))
    led_to = next((id_ for id_ in behind if not is_reasoning(log.messages[id_])), None)
    if led_to is None:
        return True
    following = next((messages[i] for i in range(at + 1, len(messages)) if not is_reasoning(messages[i])), None)
    return following is not None and following.role == "assistant" and log.stands_for(following.id, [led_to])


def _thinks(msg: Msg) -> bool:
    return any(block.type == "thinking" for block in msg.content)


def _thought_before(log: Log, output: Msg) -> int | None:
    """The number of the reasoning that stands before an original; None without any, as then it needs none."""
    number = next(iter(log.numbers([output.id])), 1)
    for n in range(number - 1, max(0, number - 1 - _LONGEST_OUTPUT), -1):
        msg = log.messages[log.original[n - 1]]
        before = log.messages[log.original[n - 2]] if n > 1 else None
        if is_user_turn(msg) and not (before is not None and is_reasoning(before)):
            return None  # the reasoning of an earlier turn is not its own, unless nothing came of it there
        if _thinks(msg):
            return log.place.get(msg.id, n - 1) + 1  # the first of copies that have one id
    return None


def _without_ids(msg: Msg) -> Msg:
    """The message without the ids that the service gave to the items of its output; itself if it has none."""
    content = [_without_id(block) for block in msg.content]
    return msg.model_copy(update={"content": tuple(content)}) if any(map(is_not, content, msg.content)) else msg


def _without_id(block: Any) -> Any:
    known = block.metadata.get(RESPONSES_HINTS)
    items = [(key, item) for key, item in known.items() if key in _HOLD_ITEMS] if isinstance(known, dict) else []
    bare = {key: {k: v for k, v in item.items() if k != "id"} for key, item in items if "id" in item}
    if not bare:
        return block
    return block.model_copy(update={"metadata": {**block.metadata, RESPONSES_HINTS: {**known, **bare}}})
