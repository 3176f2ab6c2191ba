"""Puts lines that a new message of the user names, and that are out of view, right before it; and long pauses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest

from autocontext.events import RECALLED
from autocontext.history.log import Log
from autocontext.history.proposals import Proposal, build
from autocontext.history.redacting import Redaction
from autocontext.history.view import View
from autocontext.messages import Msg, is_recall, is_user_turn
from autocontext.notes.mentions import MOST_LINES, Line, lines_with, mentions, rare_tokens

_LOOK_AGAIN = "Look up again what may have changed meanwhile."
_HEADING = "Earlier lines with what the next message names:"

_MOST_NAMED = 2 * MOST_LINES
"""Rare tokens of a message; one with more is a paste, which brings its own lines."""


@dataclass
class Recall:
    """Proposes a note before each of some messages of the user, for rare tokens that only originals out of view have.

    It replaces nothing, so no message before it changes. A note has at most five lines, and all together take at most
    `room()` tokens, which is asked only where there is something to show.
    """

    name = "recall"

    log: Log
    turns: Collection[str]
    room: Callable[[], int]
    count: Callable[[Msg], int]
    redaction: Redaction
    names: bool
    """Whether to look for what the messages name."""
    pauses: Mapping[str, str]
    """How long after the message before them some came."""
    used: int = 0

    def propose(self, view: View) -> list[Proposal]:
        """At most one note per message."""
        proposals: list[Proposal] = []
        for at, id_ in enumerate(view.ids):
            if id_ in self.turns and not (at and is_recall(view.messages[at - 1])):
                proposals += self._note(view, at)
        return proposals

    def _note(self, view: View, at: int) -> Iterator[Proposal]:
        """The note before one message, with as many lines as fit."""
        lines = self._lines(view, at) if self.names and is_user_turn(view.messages[at]) else []
        later = self.pauses.get(view.ids[at], "")
        while lines or later:
            shown = sorted(lines)
            texts = [f"{later}. {_LOOK_AGAIN}"] if later else []
            texts += [_HEADING, *(line.shown() for line in shown)] if shown else []
            places = [line.number - 1 for line in shown] + ([self.log.place[view.ids[at]] - 1] if later else [])
            ids = tuple(dict.fromkeys(self.log.original[place] for place in places))
            note = Proposal(view.span(at, at + 1), "\n".join(texts), event_type=RECALLED, kind="recall", recalls=ids)
            tokens = self.count(build(note, []).messages[0])
            if tokens <= self.room() - self.used:
                self.used += tokens
                yield note
                return
            if not lines:
                return
            lines.pop()

    def _lines(self, view: View, at: int) -> list[Line]:
        """The lines to show, those that say most first; not those that the message repeats."""
        said = view.messages[at].text
        tokens = rare_tokens(said)
        if not tokens or len(tokens) > _MOST_NAMED:
            return []
        shown = "\n".join(text for i, m in enumerate(view.messages) if i != at for text in m.texts()).lower()
        behind = self.log.held(id_ for id_ in view.ids if id_ in self.log.replaced)
        own = self.log.numbers([view.ids[at]])  # it may have been shortened itself
        unseen = [token for token in tokens if token.lower() not in shown]
        found = mentions(unseen, self.log, [n for n in behind if n not in own]) if unseen else {}
        per_token = []
        for token, numbers in found.items():
            # In the order in which they say most: the first, then the newest.
            telling = dict.fromkeys((*numbers[-1:], *numbers[:MOST_LINES]))
            originals = {n: self.redaction.message(self.log.originals[n - 1]) for n in telling}
            per_token.append(lines_with(token, originals))
        lines: dict[str, Line] = {}
        for line in chain.from_iterable(zip_longest(*per_token)):
            if line is None or len(lines) >= MOST_LINES:
                continue
            if any(part.strip() not in said for part in line.text.split("…")):
                lines.setdefault(line.text.strip(), line)
        return list(lines.values())
