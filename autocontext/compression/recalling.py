"""Looks up what a new message of the user names, and long pauses before new messages, once for each."""

from __future__ import annotations

from collections.abc import Iterator

from autocontext.compression.accounting import edited
from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig
from autocontext.events import RECALLED
from autocontext.history.edits import apply
from autocontext.history.entries import Edited
from autocontext.history.log import Log
from autocontext.history.proposals import build
from autocontext.history.redacting import Redaction
from autocontext.messages import is_note, is_user_turn
from autocontext.text.gaps import gap

SHARE = 0.03
"""Most of a window that recalled lines take."""


class Recaller:
    """What one memory has looked up. Use it under the memory's lock."""

    def __init__(self) -> None:
        self._looked: frozenset[str] = frozenset()
        """The messages at the end of the view that were looked up."""

    def forget(self) -> None:
        """Begin anew: ids and numbers may mean other messages now."""
        self._looked = frozenset()

    def due(self, log: Log, config: AutoContextConfig) -> bool:
        """Whether a message of the user is new, or one of the model after a long pause."""
        if not config.show_gaps and not (config.recall and log.replaced):
            return False
        return any(id_ not in self._looked for id_ in _new(log, config))

    def entry(self, log: Log, token_sum: TokenSum, config: AutoContextConfig) -> Edited | None:
        """The entry that puts recalled lines into the view; None if nothing old is named."""
        turns = frozenset(_new(log, config))
        new, self._looked = turns - self._looked, turns
        new = frozenset(id_ for id_ in new if not _was_recalled(log, id_))
        names = config.recall and bool(log.replaced)
        pauses = {id_: words for id_ in new if (words := _pause(log, id_))} if config.show_gaps else {}
        if not new or not (names or pauses):
            return None
        from autocontext.strategies.recall import Recall  # noqa: PLC0415 (only who needs it pays for it)

        def room() -> int:
            # What is left under the trigger: a recall must not bring about a pass.
            return min(int(config.max_token * SHARE), config.token_trigger - 1 - token_sum.total())

        view = log.view(token_sum.count)
        count = token_sum.counter.count
        redaction = Redaction(config.redact)
        recall = Recall(log, new, room, count=count, redaction=redaction, names=names, pauses=pauses)
        edits = [build(p, [], strategy=Recall.name, redact=redaction.text) for p in recall.propose(view)]
        if not edits:  # nothing was counted until here
            return None
        done = apply(view, edits, count, spare=room())
        return edited(view, done.edits, count, config.max_token) if done.edits else None


def _new(log: Log, config: AutoContextConfig) -> Iterator[str]:
    """The messages of the user after the last one of the model, or else that one, if it came after a long pause."""
    said = False
    for id_, m in zip(reversed(log.view_ids), reversed(log.view_messages), strict=True):
        if m.role == "assistant" and not is_note(m):
            if config.show_gaps and not said and _pause(log, id_):
                yield id_
            return
        if is_user_turn(m):
            said = True
            yield id_


def _pause(log: Log, id_: str) -> str:
    """How long after the message before it one came, and when; "" without a long pause.

    What the caller removed does not count. A message of the model tells of the results before it, too: no line may
    stand between a call and its result.
    """
    own, place = log.messages[id_], log.place.get(id_, 0)
    while place:
        place -= 1
        if _was_removed(log, log.original[place]):
            continue
        before = log.originals[place]
        words = gap(before.timestamp, own.timestamp)
        if words or before.role != "tool" or is_user_turn(own):
            return words
    return ""


def _was_removed(log: Log, id_: str) -> bool:
    """Whether the caller removed this original: it is neither in view, nor behind a note, nor taken back by a list."""
    if id_ in log.taken_back or id_ in log.view_ids:
        return False
    return log.place[id_] + 1 not in log.numbers(log.view_ids)


def _was_recalled(log: Log, id_: str) -> bool:
    """Whether lines came before this message once, and were put away by `undo`."""
    return any(e.event_type == RECALLED and e.next_message_id == id_ for e in reversed(log.events))
