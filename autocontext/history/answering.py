"""Which message answers a tool call, which calls wait for one, and whether an answer is there.

By the originals: a note in view tells of a call, but has no call ids.
"""

from __future__ import annotations

from autocontext.history.log import Log
from autocontext.messages import Msg


class Answering:
    """Finds answers in a log that grows. It reads each message once, and old ones only as far back as it must."""

    def __init__(self) -> None:
        self._place: dict[str, int] = {}
        """The log's `place`: another one means that ids may mean other messages."""
        self._newest: dict[str, str | None] = {}
        """By call id, what the messages read say last: the id of the answer, or None for a call without one."""
        self._first = self._end = 0
        """The originals that were read: from one place up to another."""

    def answer(self, log: Log, call_id: str) -> Msg | None:
        """The original that answers the newest call of this id; None without one, or if the call has no answer."""
        if self._place is not log.place:
            self._newest, self._first, self._end = {}, len(log.original), len(log.original)
            self._place = log.place
        while self._end < len(log.original):
            self._newest.update(_said(log, self._end))
            self._end += 1
        while call_id not in self._newest and self._first:
            for id_, answer in _said(log, self._first - 1).items():
                self._newest.setdefault(id_, answer)  # an id may be used again: a newer message has said it already
            self._first -= 1
        found = self._newest.get(call_id)
        return None if found is None else log.messages[found]


def _said(log: Log, place: int) -> dict[str, str | None]:
    """What one original says of calls, by their ids: an answer comes before a call in the same message."""
    id_ = log.original[place]
    msg = log.messages[id_]
    return {**dict.fromkeys((r.id for r in msg.tool_results), id_), **dict.fromkeys(u.id for u in msg.tool_uses)}


def open_calls(log: Log) -> dict[str, int]:
    """The calls in view without an answer there, by id, with the number of the message that makes each."""
    waiting: dict[str, str] = {}
    for id_, msg in log.in_view:
        for result in msg.tool_results:
            waiting.pop(result.id, None)
        waiting.update((use.id, id_) for use in msg.tool_uses)
    # By its number a call is known also when a pass has made its message shorter.
    return {call: next(iter(log.numbers([id_])), 0) for call, id_ in waiting.items()}


def is_waiting(log: Log) -> bool:
    """Whether a call of the newest message with calls has no answer in view."""
    answered = set[str]()
    for msg in reversed(log.view_messages):
        if msg.tool_uses:
            return any(use.id not in answered for use in msg.tool_uses)
        answered.update(result.id for result in msg.tool_results)
    return False


def holds(log: Log, msg: Msg) -> bool:
    """Whether this very message was added, and is in view or behind a note in view."""
    return log.messages.get(msg.id) == msg and not {*log.numbers([msg.id])}.isdisjoint(log.numbers(log.view_ids))
