"""The evidence ledger: which values of the messages that left the view are worth a line of their own.

A value scores by who wrote it (what the user or the agent wrote weighs more than what a tool printed), in how many
messages it stands, and how long ago it was last seen. Of all its occurrences the one with the shortest surroundings is
quoted, so that the most values fit; lines are literal pieces of the originals. The weights were found by replaying
recorded conversations and measuring which values of later tool calls were still visible; all lie on plateaus.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from autocontext.entries import ASSISTANT, CALL, ERROR, TOOL, USER, Entry, Ranking, Seen, value_of, worths
from autocontext.messages import ContentBlock, Msg
from autocontext.occurrences import Lines, Texts
from autocontext.values import argument_values, errors_in, leaves, values_in

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

    Most that was quoted or seen in view in one turn is so in the next one. So these entries are kept beside the
    ranking: what is quoted is looked at in every turn, and what was seen in a text in view is not until that text goes.
    """

    def __init__(self) -> None:
        self.ids: dict[str, Sequence[str]] = {}
        """Values of each learned message, by its id."""
        self._shown: dict[int, ContentBlock] = {}
        """The blocks in view, by identity: they never change."""
        self._view, self._lines = Texts(), Lines()
        self._entries: dict[str, Entry] = {}
        self._ranking = Ranking()
        self._quoted: list[Entry] = []
        """Those whose lines were chosen in the turn before, or that such a line holds."""
        self._seen: dict[int, list[Entry]] = {}
        """Those that a text in view holds, by its number."""
        self._changed: dict[str, Entry] = {}
        """Entries that have to be ranked anew."""
        self._count: Callable[[str], int] | None = None
        self._turn = 0

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
            for entry in self._entries.values():
                entry.tokens = None
        self._look_at(shown)
        self._rank()
        self._lines.begin()
        chosen = self._chosen(now, budget, count)
        self._view.end()
        parts = self._lines.end()
        chosen = [seen for seen in {seen[3]: seen for seen in chosen}.values() if seen[3] not in parts]
        return _together_within(chosen, budget, whole or (lambda lines: count("\n".join(lines))))

    def _chosen(self, now: int, budget: int, count: Callable[[str], int]) -> list[Seen]:
        """Occurrences to quote, best first, while the budget lasts."""
        self._turn += 1
        turn, left = self._turn, budget
        asked, new, upcoming = self._view.asked, self._view.new, self._view.next
        quote, choose = self._lines.quote, self._lines.choose
        before = [entry for entry in self._quoted if entry.seen]
        quoted: list[Entry] = []
        looked_at: list[Entry] = []
        chosen: list[Seen] = []
        for entry in chain.from_iterable(self._best_first(before, now)):
            best = entry.best
            if best is None:
                continue
            if entry.not_before == asked and entry.rare not in new:
                entry.not_before = upcoming
            elif self._view.hold(entry):
                looked_at.append(entry)
                continue
            line = best[3]
            if not quote(entry, line):
                if entry.tokens is None:
                    entry.tokens = count(line) + 1
                left -= entry.tokens
                if left < 0:
                    break
                chosen.append(best)
                choose(line)
            entry.quoted = turn
            quoted.append(entry)
        self._quoted = quoted
        self._keep_apart(looked_at, before)
        return chosen

    def _best_first(self, before: list[Entry], now: int) -> Iterator[list[Entry]]:
        """The entries of the ranking and those in `before`, best first, some at a time."""
        kept, at = worths(before, now), 0
        for worth, entries in self._ranking.best_first(now):
            start, at = at, bisect_left(kept, (worth,), at)
            if start < at:
                yield [entry for _, _, entry in kept[start:at]]
            some = entries
            while at < len(kept) and kept[at][0] == worth:
                some = [*some, kept[at][2]]
                at += 1
            yield some if some is entries else sorted(some, key=value_of)
        yield [entry for _, _, entry in kept[at:]]

    def _keep_apart(self, in_view: Iterable[Entry], before: Iterable[Entry]) -> None:
        """Take from the ranking what need not be ranked before the next turn, and give back what is not quoted."""
        for entry in before:
            if entry.quoted != self._turn:
                entry.apart = False
                self._ranking.place(entry)
        for entry in in_view:
            self._seen.setdefault(entry.held_in, []).append(entry)
            entry.apart = True
            self._ranking.place(entry)
        for entry in self._quoted:
            if not entry.apart:
                entry.apart = True
                self._ranking.place(entry)

    def _look_at(self, shown: Iterable[Msg]) -> None:
        """From now on the view is these messages."""
        # By block: a fold that takes in the one before has most blocks in common with it.
        before, self._shown = self._shown, {id(block): block for m in shown for block in m.content}
        for key, block in self._shown.items():
            if key not in before:
                for text in _texts(block):
                    self._view.add(text)
        for key, block in before.items():
            if key not in self._shown:
                for text in _texts(block):
                    for entry in self._seen.pop(self._view.remove(text), ()):
                        entry.apart = False
                        if self._entries.get(entry.value) is entry:
                            self._changed[entry.value] = entry

    def _rank(self) -> None:
        for entry in self._changed.values():
            entry.weigh()
            self._ranking.place(entry)
        self._changed.clear()

    def _drop_the_worst(self) -> None:
        self._rank()
        now = max(entry.last for entry in self._entries.values())
        kept = sorted(self._entries.values(), key=lambda entry: (-entry.worth(now), entry.value))[:_AFTER_DROPPING]
        self._entries = {entry.value: entry for entry in kept}
        self._ranking, self._quoted, self._seen = Ranking(), [], {}
        for entry in kept:
            entry.ranked, entry.apart = None, False
            self._ranking.place(entry)
        self.ids = {id_: tuple(v for v in values if v in self._entries) for id_, values in self.ids.items()}


def _together_within(chosen: list[Seen], budget: int, whole: Callable[[list[str]], int]) -> list[str]:
    """The lines in their order in the log. Together they may take a few tokens more than apart: then the worst go."""
    while chosen:
        lines = [line for _, _, line in sorted([(-position, n, line) for _, position, n, line, _ in chosen])]
        excess = whole(lines) - budget
        if excess <= 0:
            return lines
        del chosen[-max(1, excess // 50) :]
    return []


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
