"""A baseline that any library should beat: a stable prefix and a structured note.

When it is over the window, the context is cut to 85 % of it, two fifths of the window for the note: what the user said,
what was changed, a line for each call with its outcome, and whole lines of what is gone under the call they come from.
No model, and nothing can be brought back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from calls import Call, Calls
from chat import Chat, Remembered, Tokens, content_text, groups, shrunk, truncate, visible_text
from needs import mentioned
from texts import LONG_LINE, lines_with, sentences

_LOW, _NOTE, _FULL = 0.85, 0.40, 0.95
"""Shares of the window: after a cut, for the note, and the maximum for both."""
_LARGEST_FIRST = 0.42
"""Of the window; a first user message up to this size stays whole."""
_LEAST_RECENT = 0.15
_REQUESTS, _CHANGES, _CALLS = 0.25, 0.12, 0.30
"""Shares of the note; what one part leaves goes to the next, and the lines by source get the rest."""
_HEADINGS = 40
"""Tokens for the headings of the parts."""
_SOURCE = 12
"""Tokens for the line that names a source."""
_SOURCE_AGAIN = 25
"""Lines after which their source is named again."""
_PLACES = 3
"""Messages that a value is looked for in: the last ones that held it."""


class _Line(NamedTuple):
    at: int
    """Index of its source message."""
    text: str


class CaseFile:
    """A stable prefix with a case file of what is gone."""

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count = window, count
        self.messages: list[Chat] = []
        self.view: list[Chat] = []
        self.note: Chat | None = None
        self.calls = Calls()
        self._visible_text = Remembered(visible_text)
        self._score: defaultdict[str, float] = defaultdict(float)
        self._places: defaultdict[str, list[int]] = defaultdict(list)

    def step(self, new: list[Chat]) -> list[Chat]:
        """The context after these messages were added."""
        for message in new:
            self._learn(message)
        self.view += new
        if self.count(self.view) > self.window:
            self._cut()
        return list(self.view)

    def _learn(self, message: Chat) -> None:
        at = len(self.messages)
        self.messages.append(message)
        self.calls.add(message)
        if message["role"] == "system":
            return
        for value in mentioned(self._visible_text(message)):
            self._score[value] += 1.0 if message["role"] == "tool" else 3.0
            self._places[value] = [*self._places[value], at][-_PLACES:]

    # ------------------------------------------------------------------------------------------------------- cuts
    def _cut(self) -> None:
        kept, room = self._kept()
        self.note = {"role": "user", "content": "\n".join(self._written(kept, room))}
        at = next((i for i, m in enumerate(kept) if m["role"] == "user"), -1) + 1
        self.view = [*kept[:at], self.note, *kept[at:]]

    def _kept(self) -> tuple[list[Chat], int]:
        """The messages that stay, and the tokens that the note may have."""
        room = int(self.window * _NOTE)
        low = int(self.window * _LOW)
        rest = [m for m in self.view if m is not self.note]
        first = next((m for m in self.messages if m["role"] == "user"), None)
        if first is None or self.count.message(first) > _LARGEST_FIRST * self.window:
            return truncate(rest, low - room, self.count), room
        system = [m for m in rest if m["role"] == "system"]
        body = [m for m in rest if m["role"] != "system" and m is not first]
        left = low - room - self.count(system) - self.count.message(first)
        kept = [*system, first, *self._newest(body, max(left, int(_LEAST_RECENT * self.window)))]
        return kept, min(room, int(self.window * _FULL) - self.count(kept))

    def _newest(self, messages: Sequence[Chat], left: int) -> list[Chat]:
        """The newest whole groups that fit; the newest of all is shortened if it does not."""
        kept: list[Chat] = []
        for group in reversed(groups(messages)):
            size = self.count(group)
            if size > left:
                return kept or shrunk(group, left, self.count)
            left -= size
            kept = [*group, *kept]
        return kept

    # ------------------------------------------------------------------------------------------------------- note
    def _written(self, kept: Sequence[Chat], room: int) -> list[str]:
        """The lines of the note."""
        lines = ["[reference, earlier work condensed; not a request]"]
        there = {id(m) for m in kept}
        hidden = [i for i, m in enumerate(self.messages) if id(m) not in there and m["role"] != "system"]
        visible = {call["id"] for m in kept for call in m.get("tool_calls") or ()}
        parts = (
            ("Said by the user:", self._requests(hidden), _REQUESTS),
            ("Changed:", self._changes(visible), _CHANGES),
            ("Calls, newest last:", self._outcomes(visible), _CALLS),
        )
        left = 0
        for heading, newest_first, share in parts:
            fitting, left = self._that_fit(newest_first, left + int(room * share))
            lines += [heading, *reversed(fitting)] if fitting else []
        left += room - sum(int(room * share) for _, _, share in parts) - _HEADINGS
        picked = self._picked(hidden, "\n".join(map(self._visible_text, kept)), left)
        return [*lines, "Lines, by source:", *self._by_source(picked)] if picked else lines

    def _that_fit(self, lines: Iterable[str], budget: int) -> tuple[list[str], int]:
        """The lines before the first that does not fit, and what they leave of the budget."""
        fitting: list[str] = []
        for line in lines:
            size = self.count.text(line) + 1
            if size > budget:
                break
            budget -= size
            fitting.append(line)
        return fitting, budget

    def _requests(self, hidden: Sequence[int]) -> Iterable[str]:
        messages = [self.messages[i] for i in reversed(hidden)]
        texts = (content_text(m) for m in messages if m["role"] == "user")
        return (f"user: {sentence}" for text in texts for sentence in reversed(sentences(text)))

    def _changes(self, visible: set[str]) -> Iterable[str]:
        last = [(target, by[-1]) for target, by in self.calls.changes().items()]
        return (f"{target} changed by {call.name}" for target, call in reversed(last) if call.id not in visible)

    def _outcomes(self, visible: set[str]) -> Iterable[str]:
        return (_outcome(call) for call in reversed(self.calls.latest()) if call.id not in visible)

    def _picked(self, hidden: Iterable[int], visible: str, left: int) -> list[_Line]:
        """The shortest lines of the best values that are not shown yet, within the budget."""
        missing, picked, noted = set(hidden), [], ""
        sources: set[int] = set()
        for value in sorted(self._score, key=self._rank):
            if left <= 0:
                break
            if value in visible or value in noted:
                continue
            line = self._shortest(value, [i for i in self._places[value] if i in missing])
            if line is None:
                continue
            left -= self.count.text(line.text) + 1 + (0 if line.at in sources else _SOURCE)
            if left < 0:
                break
            sources.add(line.at)
            picked.append(line)
            noted += "\n" + line.text
        return picked

    def _rank(self, value: str) -> tuple[float, str]:
        """Frequent and recent values first; those of users and of calls count three times those of results."""
        return -self._score[value] * (0.5 + self._places[value][-1] / len(self.messages)), value

    def _shortest(self, value: str, places: Iterable[int]) -> _Line | None:
        lines = [
            _Line(i, _around(value, line.strip()))
            for i in places
            for line in lines_with(value, self._visible_text(self.messages[i]))
        ]
        return min(lines, key=lambda line: len(line.text), default=None)

    def _by_source(self, picked: Iterable[_Line]) -> Iterable[str]:
        """The lines in the order of the conversation, grouped by source."""
        texts: defaultdict[int, list[str]] = defaultdict(list)
        for line in picked:
            texts[line.at].append(line.text)
        for at in sorted(texts):
            message = self.messages[at]
            calls = self.calls.of(message)
            source = f"{calls[0].name} {calls[0].label[:48]}:" if calls else f"{message['role']}:"
            for n, text in enumerate(texts[at]):
                if n % _SOURCE_AGAIN == 0:
                    yield source
                yield text


def _outcome(call: Call) -> str:
    failure = f" -> failed: {call.error_line()[:60]}" if call.failed() else ""
    return f"{call.name} {call.label[:60]}{failure}"


def _around(value: str, line: str) -> str:
    """The line; a long one is cut around the value."""
    if len(line) <= LONG_LINE:
        return line
    start = max(0, line.find(value) - 30)
    return ("…" if start else "") + line[start : start + 90 + len(value)] + "…"
