"""The evidence ledger: which values of the messages that left the view are worth a line of their own.

A value scores by who wrote it (what the user or the agent wrote weighs more than what a tool printed), in how many
messages it stands, and how long ago it was last seen. Of all its occurrences the one with the shortest surroundings is
quoted, so that the most values fit; lines are literal pieces of the originals. The weights were found by replaying
recorded conversations and measuring which values of later tool calls were still visible; all lie on plateaus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from autocontext.entries import ASSISTANT, CALL, ERROR, TOOL, USER, Entry, Ranking, Seen
from autocontext.messages import ContentBlock, Msg
from autocontext.occurrences import Line, Lines, Texts
from autocontext.values import argument_values, errors_in, leaves, occurs, values_in

MOST_VALUES = 20_000
"""Distinct values that are kept."""
_AFTER_DROPPING = 15_000
"""Distinct values that are left when the worst had to go."""
_OF_ONE_MESSAGE = 2_000
"""Values that one message may add, so that a listing does not drive out everything else."""

Found: TypeAlias = dict[str, Seen]
"""The values of one message."""
_BY_ROLE = {"user": USER, "assistant": ASSISTANT}


class Evidence:
    """The values of the messages that left the view. Deterministic; does no I/O.

    An entry is quoted by a chosen line, or shown by a text in view, or it waits for a change. Lines are chosen
    greedily, the best entry first; those chosen before stay until a better entry needs their room, so that asking again
    costs what has changed since.
    """

    def __init__(self) -> None:
        self.ids: dict[str, Sequence[str]] = {}
        """Values of each learned message, by its id."""
        self._entries: dict[str, Entry] = {}
        self._changed: dict[str, Entry] = {}
        """Entries that have to be ranked anew."""
        self._waiting, self._quoted = Ranking(), Ranking()
        """The entries that are neither quoted nor shown, and those whose lines are chosen."""
        self._lines = Lines()
        self._view = Texts()
        self._shown: dict[int, ContentBlock] = {}
        """The blocks in view, by identity: they never change."""
        self._seen: dict[int, list[Entry]] = {}
        """The entries that are shown, by the number of the text."""
        self._count: Callable[[str], int] | None = None

    def learn(self, id_: str, msg: Msg, position: int, found: Found | None = None) -> None:
        """Take in a message that left the view; `position` is its index in the original log. Once is enough.

        `found` is what `found_in` gave for it, where that is known already.
        """
        if id_ in self.ids:
            return
        if found is None:
            found = found_in(msg, position)
        self.ids[id_] = tuple(found)
        for value, seen in found.items():
            entry = self._entries.get(value)
            if entry is None:
                entry = self._entries[value] = Entry(value)
            entry.add(id_, seen)
            self._changed[value] = entry
        if len(self._entries) > MOST_VALUES:
            self._drop_the_worst()

    def forget(self, ids: Iterable[str]) -> None:
        """Take messages out again that are back in the view; unknown ids are ignored."""
        for id_ in ids:
            for value in self.ids.pop(id_, ()):
                entry = self._entries[value]
                entry.remove(id_)
                self._changed[value] = entry
                if not entry.seen:
                    del self._entries[value]
        self._rank()

    def lines(
        self,
        shown: Iterable[Msg],
        now: int,
        budget: int,
        count: Callable[[str], int],
        whole: Callable[[list[str]], int] | None = None,
    ) -> list[str]:
        """The best lines that have at most `budget` tokens together, oldest first.

        `now` is the number of messages so far; `count` gives the tokens of a text, `whole` those of all lines as they
        will stand, of which there must not be more (without it: joined by newlines). No line's value occurs in `shown`,
        no line is a part of another one.
        """
        if self._count != count:
            self._count = count
            self._shorten(self._lines.tokens, now)
            for entry in self._entries.values():
                entry.tokens = None
        self._look_at(shown)
        self._rank()
        self._shorten(self._lines.tokens - budget, now)
        while self._fill(budget, now, count):
            pass
        whole = whole or (lambda lines: count("\n".join(lines)))
        while lines := self._lines.visible():
            # Together they may take a few tokens more than apart.
            excess = whole(lines) - budget
            if excess <= 0:
                return lines
            self._shorten(excess, now)
        return []

    def _look_at(self, shown: Iterable[Msg]) -> None:
        """From now on the view is these messages."""
        # By block: a fold that takes in the one before has most blocks in common with it.
        before, self._shown = self._shown, {id(block): block for m in shown for block in m.content}
        new: set[str] = set()
        for key, block in self._shown.items():
            if key not in before:
                for text in _texts(block):
                    new |= self._view.add(text)
        for key, block in before.items():
            if key not in self._shown:
                for text in _texts(block):
                    for entry in self._seen.pop(self._view.remove(text), ()):
                        entry.shown_in = -1
                        self._place(entry)
        self._give_up(line for line in self._lines.quoting(new) if self._view.holding(line.entry) >= 0)

    def _rank(self) -> None:
        for entry in self._changed.values():
            entry.weigh()
            if entry.line is not None and entry.line.seen is not entry.best:
                self._leave_line(entry)
            self._place(entry)
        self._changed.clear()

    def _place(self, entry: Entry) -> None:
        """Rank the entry where it belongs now."""
        if entry.line is not None:
            ranking = self._quoted if entry.line.entry is entry else None
        else:
            ranking = self._waiting if entry.seen and entry.shown_in < 0 else None
        Ranking.place(entry, ranking)

    def _fill(self, budget: int, now: int, count: Callable[[str], int]) -> bool:
        """Choose lines for the best entries that wait, where there is room or in the place of worse ones.

        Whether other entries lost their lines by that: among these may be some that are better than what is left.
        """
        settled: list[Entry] = []
        lost: list[Entry] = []
        worst_first = self._quoted.worst_first(now)
        for worth, entry in self._waiting.best_first(now):
            if entry.best is None:
                continue  # never: what waits was seen
            entry.shown_in = self._view.holding(entry)
            if entry.shown_in >= 0:
                self._seen.setdefault(entry.shown_in, []).append(entry)
            elif line := self._better_line(entry, worth, now):
                line.held[entry.value] = entry
                entry.line = line
            else:
                if entry.tokens is None:
                    entry.tokens = count(entry.snippet) + 1
                gone = _worse(worst_first, self._lines.tokens + entry.tokens - budget, worth)
                if gone is None:
                    break
                entry.line = Line(entry, entry.best, entry.tokens)
                lost += self._removed(dict.fromkeys([*gone, *self._spared(entry.line, worth, now)]))
                self._lines.add(entry.line)
            settled.append(entry)
        for entry in chain(settled, lost):
            self._place(entry)
        return bool(lost)

    def _better_line(self, entry: Entry, worth: float, now: int) -> Line | None:
        """A line that quotes the entry's value already: its own, or that of an entry which is worth as much."""
        # That of a worse one may soon be given up, and its surroundings are longer.
        own, holding = entry.snippet, self._lines.holding(entry)
        return next((line for line in holding if line.text == own or line.entry.worth(now) >= worth), None)

    def _spared(self, new: Line, worth: float, now: int) -> list[Line]:
        """The lines of worse entries whose values occur in a new line."""
        found = self._lines.quoting(set(new.words))
        return [line for line in found if line.entry.worth(now) < worth and occurs(line.entry.value, new.text)]

    def _shorten(self, excess: int, now: int) -> None:
        """Give up the worst lines, which have so many tokens."""
        gone: list[Line] = []
        for _, entry in self._quoted.worst_first(now):
            if excess <= 0 or entry.line is None:
                break
            gone.append(entry.line)
            excess -= entry.line.tokens
        self._give_up(gone)

    def _give_up(self, lines: Iterable[Line]) -> None:
        for entry in self._removed(lines):
            self._place(entry)

    def _leave_line(self, entry: Entry) -> None:
        line = entry.line
        if line is not None and line.entry is entry:
            self._give_up([line])
        elif line is not None:
            del line.held[entry.value]
            entry.line = None

    def _removed(self, lines: Iterable[Line]) -> list[Entry]:
        """The entries that these lines held, which are chosen no longer."""
        found: list[Entry] = []
        for line in list(lines):
            self._lines.remove(line)
            found += [line.entry, *line.held.values()]
        for entry in found:
            entry.line = None
        return found

    def _drop_the_worst(self) -> None:
        self._rank()
        now = max(entry.last for entry in self._entries.values())
        best_first = sorted(self._entries.values(), key=lambda entry: (-entry.worth(now), entry.value))
        for entry in best_first[_AFTER_DROPPING:]:
            del self._entries[entry.value]
            entry.seen.clear()
            self._leave_line(entry)
            self._place(entry)
        self.ids = {id_: tuple(v for v in values if v in self._entries) for id_, values in self.ids.items()}


def _worse(worst_first: Iterator[tuple[float, Entry]], missing: int, worth: float) -> list[Line] | None:
    """Lines of entries that are worth less, which have `missing` tokens; None when there are not enough of them."""
    found: list[Line] = []
    while missing > 0:
        least, entry = next(worst_first, (worth, None))
        if entry is None or least >= worth:
            return None
        if entry.line is not None:
            found.append(entry.line)
            missing -= entry.line.tokens
    return found


def _texts(block: ContentBlock) -> Iterable[str]:
    """The texts of a block; reasoning is left out, it is no evidence."""
    if block.type == "text" or block.type == "tool_result":  # noqa: PLR1714 (only so does mypy know what it is)
        return (block.text,)
    return leaves(block.input) if block.type == "tool_use" else ()


def _kind(block: ContentBlock, role: str) -> int:
    """Who wrote the texts of a block."""
    if block.type == "text":
        return _BY_ROLE.get(role, TOOL)
    return CALL if block.type == "tool_use" else TOOL


def found_in(msg: Msg, position: int) -> Found:
    """The values of one message: the weightiest writer and the shortest surroundings of each."""
    found: Found = {}
    for block in msg.content:
        kind = _kind(block, msg.role)
        for text in _texts(block):
            for value, snippet in argument_values(text) if kind == CALL else values_in(text):
                _put(found, value, snippet, kind, position)
            if kind == TOOL:
                for line in errors_in(text):
                    _put(found, line, line, ERROR, position)
    if len(found) > _OF_ONE_MESSAGE:
        half = _OF_ONE_MESSAGE // 2
        values = list(found)
        return {v: found[v] for v in values[:half] + values[-half:]}
    return found


def _put(found: Found, value: str, snippet: str, kind: int, position: int) -> None:
    old = found.get(value)
    if old is None:
        found[value] = (len(snippet), -position, len(found), snippet, kind)
    elif kind < old[4] or len(snippet) < old[0]:
        shorter = snippet if len(snippet) < old[0] else old[3]
        found[value] = (len(shorter), -position, old[2], shorter, min(kind, old[4]))
