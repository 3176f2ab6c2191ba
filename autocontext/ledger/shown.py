"""What the reader of a note sees beside it, so that the note does not repeat it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from typing import Literal

from autocontext.history.cached import cached_property
from autocontext.ledger.notes import note_of
from autocontext.ledger.sentences import of_user
from autocontext.ledger.values import known_values
from autocontext.messages import Msg, is_user_turn
from autocontext.text.rendering import one_line

Kind = Literal["value", "sentence", "note", "call"]
"""Of facts: a value, a sentence of the user, a note of the agent, the id of a call."""


class InView:
    """The facts and texts of messages in view, read once for all notes of a pass."""

    def __init__(self, messages: Iterable[Msg]) -> None:
        self._messages = tuple(messages)
        self.facts = [frozenset(_facts(m)) for m in self._messages]
        """Per message."""
        self.counts = Counter(chain.from_iterable(self.facts))
        """Per fact, the number of messages with it."""

    @cached_property
    def texts(self) -> tuple[str, list[int]]:
        """All texts, each ended by a newline, and where those of each message begin."""
        texts = ["".join(f"{text}\n" for text in m.texts()) for m in self._messages]
        return "".join(texts), [0, *accumulate(map(len, texts))]

    def without(self, start: int, stop: int, beginning: str) -> Shown:
        """What is in view beside a note that replaces the messages [start, stop) and begins with this text."""
        return Shown(self, start, stop, beginning)


class Shown:
    """What the reader of a note sees beside it: see `InView.without`."""

    def __init__(self, view: InView, start: int, stop: int, beginning: str) -> None:
        self._view, self._start, self._stop, self._beginning = view, start, stop, beginning
        self._replaced = Counter(chain.from_iterable(view.facts[start:stop]))
        self._values = known_values(beginning)

    def has(self, kind: Kind, text: str) -> bool:
        """Whether the reader sees this fact."""
        fact = kind, text
        return self._view.counts[fact] > self._replaced[fact] or (kind == "value" and text in self._values)

    def says(self, text: str) -> bool:
        """Whether one of the texts has this one in it."""
        whole, begins = self._view.texts
        before = whole.find(text, 0, begins[self._start]) >= 0
        return before or whole.find(text, begins[self._stop]) >= 0 or text in self._beginning


def _facts(m: Msg) -> Iterator[tuple[Kind, str]]:
    for text in m.texts():
        yield from (("value", value) for value in known_values(text))
    if is_user_turn(m):
        # Sentences, as a message may be shown in part.
        yield from (("sentence", one_line(m.text[s.start : s.stop])) for s in of_user(m.text))
    for use in m.tool_uses:
        yield "call", use.id
        if note := note_of(use):
            yield "note", note
