"""What the reader of a note sees beside it, so that the note does not repeat it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Literal

from autocontext.history.cached import cached_property
from autocontext.messages import Msg, ToolUseBlock, is_user_turn, said_in, words_of_user
from autocontext.notes.notes import note_of
from autocontext.notes.sentences import of_user
from autocontext.plan import is_plan_call
from autocontext.text.rendering import one_line

Fact = tuple[Literal["sentence", "note", "plan"], str]
"""A sentence of the user, a note of the agent, or what a call makes of a plan."""


class InView:
    """What stands in messages in view; each is read once for all notes of a pass, when the first of them needs it."""

    def __init__(self, messages: Iterable[Msg], earlier: InView | None = None) -> None:
        """`earlier`: what was in view before an edit; its messages need not be read again."""
        self._messages = tuple(messages)
        read = earlier.read if earlier is not None else {}
        self.read: dict[int, frozenset[Fact]] = {id(m): read[id(m)] for m in self._messages if id(m) in read}
        """By identity of a message, its facts."""
        self._unread = list(range(len(self._messages)))
        self.places: dict[Fact, list[int]] = {}
        """By fact, where those of the messages that were read are which have it."""

    @cached_property
    def texts(self) -> tuple[str, list[int]]:
        """All texts, each ended by a newline, and where those of each message begin."""
        texts = ["".join(f"{text}\n" for text in m.texts()) for m in self._messages]
        return "".join(texts), [0, *accumulate(map(len, texts))]

    def without(self, start: int, stop: int, beginning: str) -> Shown:
        """What is in view beside a note that replaces the messages [start, stop) and begins with this text."""
        outside = [i for i in self._unread if not start <= i < stop]
        self._unread = [i for i in self._unread if start <= i < stop]
        for i in outside:
            m = self._messages[i]
            if id(m) not in self.read:
                self.read[id(m)] = frozenset(_facts(m))
            for fact in self.read[id(m)]:
                self.places.setdefault(fact, []).append(i)
        return Shown(self, start, stop, beginning)


class Shown:
    """What the reader of a note sees beside it: see `InView.without`."""

    def __init__(self, view: InView, start: int, stop: int, beginning: str) -> None:
        self._view, self._start, self._stop, self._beginning = view, start, stop, beginning

    def has(self, fact: Fact) -> bool:
        """Whether one of the messages has this fact."""
        return any(not self._start <= i < self._stop for i in self._view.places.get(fact, ()))

    def says(self, text: str) -> bool:
        """Whether one of the texts has this one in it."""
        whole, begins = self._view.texts
        before = whole.find(text, 0, begins[self._start]) >= 0
        return before or whole.find(text, begins[self._stop]) >= 0 or text in self._beginning


NOTHING_SHOWN = InView(()).without(0, 0, "")


def plan_fact(use: ToolUseBlock) -> Fact:
    """What a call makes of a plan: its id says nothing, as services use ids again."""
    return "plan", f"{use.name} {json.dumps(use.input, sort_keys=True)}"


def _facts(m: Msg) -> Iterator[Fact]:
    if is_user_turn(m) or said_in(m):
        # Sentences, as a message may be shown in part.
        words = words_of_user(m)
        yield from (("sentence", one_line(words[s.start : s.stop])) for s in of_user(words))
    for use in m.tool_uses:
        if is_plan_call(use):
            yield plan_fact(use)
        if note := note_of(use):
            yield "note", note
