"""The user's request that is still open, which an agent goes on with after a crash, and what a request leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from autocontext.history.log import Log
from autocontext.messages import Msg, is_compressed, is_final_reply, is_note, is_reasoning, is_recall, is_user_turn


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

    A framework's list may have lost that one only, and services take reasoning with nothing else behind it.
    """
    for msg, following in zip_longest(messages, messages[1:]):
        place = log.place.get(msg.id) if is_reasoning(msg) else None
        led_to = log.original[place + 1 : place + 2] if place is not None else []
        if not led_to or (following is not None and log.stands_for(following.id, led_to)):
            yield msg
