"""The evidence ledger: which values of the messages that left the view are worth a line of their own.

A value scores by who wrote it (what the user or the agent wrote weighs more than what a tool printed), in how many
messages it stands, and how long ago it was last seen. Of all its occurrences the one with the shortest surroundings is
quoted, so that the most values fit; lines are literal pieces of the originals. The weights were found by replaying
recorded conversations and measuring which values of later tool calls were still visible; all lie on plateaus.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autocontext.messages import Msg, TextBlock, ToolResultBlock, ToolUseBlock
from autocontext.values import argument_values, errors_in, leaves, occurs, values_in, words

MOST_VALUES = 20_000
"""Distinct values that are kept."""
_AFTER_DROPPING = 15_000
"""Distinct values that are left when the worst had to go."""
_OF_ONE_MESSAGE = 2_000
"""Values that one message may add, so that a listing does not drive out everything else."""

_CALL, _USER, _ASSISTANT, _TOOL, _ERROR = range(5)
# Error lines are long, and the names in them count for themselves.
_WEIGHTS = (4.0, 3.0, 2.0, 1.0, 0.5)
_HALF_LIFE = 40
"""Messages after which a value not seen again has lost half of its weight."""
_FLOOR = 0.1
"""Share of its weight that a value keeps for ever."""
_SHORT_NUMBER = 0.6
"""Factor for numbers of up to four digits: line numbers and sizes are mostly about states that are gone."""
_PHRASE = 0.5
"""Factor for quoted phrases that no call has used."""


class _Seen(NamedTuple):
    """One message's best occurrence of a value."""

    kind: int
    position: int
    order: int
    snippet: str


@dataclass
class _Entry:
    """A value with its occurrences by message id, and what follows from them."""

    value: str
    seen: dict[str, _Seen] = field(default_factory=dict)
    messages: list[int] = field(default_factory=lambda: [0] * len(_WEIGHTS))
    last: int = -1
    best: _Seen | None = None
    weight: float | None = None
    tokens: int | None = None

    def add(self, id_: str, seen: _Seen) -> None:
        self.seen[id_] = seen
        self.messages[seen.kind] += 1
        self.last = max(self.last, seen.position)
        if self.best is None or _preference(seen) < _preference(self.best):
            self.best, self.tokens = seen, None
        self.weight = None

    def remove(self, id_: str) -> None:
        gone = self.seen.pop(id_)
        self.messages[gone.kind] -= 1
        self.last = max((s.position for s in self.seen.values()), default=-1)
        if gone is self.best:
            self.best, self.tokens = min(self.seen.values(), key=_preference, default=None), None
        self.weight = None

    def _weight(self) -> float:
        # The root: the fourth message that holds a value says less than the second.
        weight = sum(w * math.sqrt(n) for w, n in zip(_WEIGHTS, self.messages, strict=True) if n)
        if len(self.value) < 5 and self.value.isdigit():
            weight *= _SHORT_NUMBER
        if " " in self.value and not self.messages[_CALL] and not self.messages[_ERROR]:
            weight *= _PHRASE
        return weight

    def score(self, now: int) -> float:
        if self.weight is None:
            self.weight = self._weight()
        return self.weight * (1 / (1 + max(0, now - self.last) / _HALF_LIFE) + _FLOOR)


def _preference(seen: _Seen) -> tuple[int, int, int, str]:
    return len(seen.snippet), -seen.position, seen.order, seen.snippet


class _Shown:
    """Whether a value occurs in the messages in view; costs what has come and gone since it was last asked."""

    def __init__(self) -> None:
        self._messages: dict[int, tuple[Msg, list[tuple[frozenset[str], str]]]] = {}
        """By identity, with the words of each text: messages never change."""
        self._by_word: dict[str, dict[tuple[int, int], str]] = {}

    def look_at(self, messages: Iterable[Msg]) -> None:
        """From now on the view is these messages."""
        now = {id(m): m for m in messages}
        for key in [key for key in self._messages if key not in now]:
            for n, (bag, _) in enumerate(self._messages.pop(key)[1]):
                for word in bag:
                    del self._by_word[word][key, n]
                    if not self._by_word[word]:
                        del self._by_word[word]
        for key, m in now.items():
            if key not in self._messages:
                found = [(frozenset(words(text)), text) for _, text in _texts(m)]
                self._messages[key] = (m, found)
                for n, (bag, text) in enumerate(found):
                    for word in bag:
                        self._by_word.setdefault(word, {})[key, n] = text

    def hold(self, value: str) -> bool:
        found = [self._by_word.get(word, {}) for word in words(value)]
        return bool(found) and any(occurs(value, text) for text in min(found, key=len).values())


class _Texts:
    """Whether a value occurs in any of some texts; asked often, so that words are looked up before texts."""

    def __init__(self) -> None:
        self._by_word: dict[str, list[str]] = {}

    def add(self, text: str) -> None:
        for word in set(words(text)):
            self._by_word.setdefault(word, []).append(text)

    def hold(self, value: str) -> bool:
        found = [self._by_word.get(word, ()) for word in words(value)]
        return bool(found) and any(occurs(value, text) for text in min(found, key=len))


class Evidence:
    """The values of the messages that left the view. Deterministic; does no I/O."""

    def __init__(self) -> None:
        self.ids: dict[str, Sequence[str]] = {}
        """Values of each learned message, by its id."""
        self._view = _Shown()
        self._entries: dict[str, _Entry] = {}
        self._count: Callable[[str], int] | None = None

    def learn(self, id_: str, msg: Msg, position: int) -> None:
        """Take in a message that left the view; `position` is its index in the original log. Once is enough."""
        if id_ in self.ids:
            return
        found = _found(msg, position)
        self.ids[id_] = tuple(found)
        for value, seen in found.items():
            entry = self._entries.get(value)
            if entry is None:
                entry = self._entries[value] = _Entry(value)
            entry.add(id_, seen)
        if len(self._entries) > MOST_VALUES:
            self._drop_the_worst()

    def forget(self, ids: Iterable[str]) -> None:
        """Take messages out again that are back in the view; unknown ids are ignored."""
        for id_ in ids:
            for value in self.ids.pop(id_, ()):
                entry = self._entries[value]
                entry.remove(id_)
                if not entry.seen:
                    del self._entries[value]

    def lines(self, shown: Iterable[Msg], now: int, budget: int, count: Callable[[str], int]) -> list[str]:
        """The best lines whose text, joined by newlines, has at most `budget` tokens by `count`, oldest first.

        `now` is the number of messages so far. No line's value occurs in `shown`, no line is a part of another one.
        """
        if self._count != count:
            self._count = count
            for entry in self._entries.values():
                entry.tokens = None
        self._view.look_at(shown)
        chosen: list[_Seen] = []
        quoted, left = _Texts(), budget
        for entry in self._ranked(now):
            if entry.best is None or self._view.hold(entry.value) or quoted.hold(entry.value):
                continue
            if entry.tokens is None:
                entry.tokens = count(entry.best.snippet) + 1
            left -= entry.tokens
            if left < 0:
                break
            chosen.append(entry.best)
            quoted.add(entry.best.snippet)
        return _joined_within(_distinct(chosen), budget, count)

    def _ranked(self, now: int) -> list[_Entry]:
        return sorted(self._entries.values(), key=lambda entry: (-entry.score(now), entry.value))

    def _drop_the_worst(self) -> None:
        now = max(entry.last for entry in self._entries.values())
        self._entries = {entry.value: entry for entry in self._ranked(now)[:_AFTER_DROPPING]}
        self.ids = {id_: tuple(v for v in values if v in self._entries) for id_, values in self.ids.items()}


def _joined_within(chosen: list[_Seen], budget: int, count: Callable[[str], int]) -> list[str]:
    """The lines in their order in the log. Joined they may take a few tokens more than apart: then the worst go."""
    while chosen:
        lines = [s.snippet for s in sorted(chosen, key=lambda s: (s.position, s.order, s.snippet))]
        excess = count("\n".join(lines)) - budget
        if excess <= 0:
            return lines
        del chosen[-max(1, excess // 50) :]
    return []


def _distinct(chosen: list[_Seen]) -> list[_Seen]:
    """Without lines that are part of another line."""
    chosen = list({s.snippet: s for s in chosen}.values())
    everything = "\n".join(s.snippet for s in chosen)
    kept, at = [], 0
    for seen in chosen:
        after = at + len(seen.snippet)
        if everything.find(seen.snippet, 0, at) < 0 and everything.find(seen.snippet, after) < 0:
            kept.append(seen)
        at = after + 1
    return kept


def _texts(msg: Msg) -> Iterator[tuple[int, str]]:
    """Each text of a message with who wrote it; reasoning is left out, it is no evidence."""
    for block in msg.content:
        if isinstance(block, TextBlock):
            yield {"user": _USER, "assistant": _ASSISTANT}.get(msg.role, _TOOL), block.text
        elif isinstance(block, ToolUseBlock):
            for text in leaves(block.input):
                yield _CALL, text
        elif isinstance(block, ToolResultBlock):
            yield _TOOL, block.text


def _found(msg: Msg, position: int) -> dict[str, _Seen]:
    """The values of one message: the weightiest writer and the shortest surroundings of each."""
    found: dict[str, _Seen] = {}

    def put(kind: int, value: str, snippet: str) -> None:
        old = found.get(value)
        if old is None:
            found[value] = _Seen(kind, position, len(found), snippet)
        elif kind < old.kind or len(snippet) < len(old.snippet):
            shorter = snippet if len(snippet) < len(old.snippet) else old.snippet
            found[value] = _Seen(min(kind, old.kind), position, old.order, shorter)

    for kind, text in _texts(msg):
        for value, snippet in argument_values(text) if kind == _CALL else values_in(text):
            put(kind, value, snippet)
        if kind == _TOOL:
            for line in errors_in(text):
                put(_ERROR, line, line)
    if len(found) > _OF_ONE_MESSAGE:
        half = _OF_ONE_MESSAGE // 2
        values = list(found)
        return {v: found[v] for v in values[:half] + values[-half:]}
    return found
