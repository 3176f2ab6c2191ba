"""Excerpts: the pieces of a text that tell most, word for word and in order, with "…" for what lies between."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache, partial
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import ceil, log
from typing import NamedTuple

from autocontext.text import lines
from autocontext.text.outlines import ITEM, depth, documents, frames, is_within_line, parents
from autocontext.text.pieces import LONG_LINE, PIECE, Piece, pieces
from autocontext.text.reformatting import TABLE, reformatted
from autocontext.text.signs import ERROR, SUMMARY

_AT_ENDS = 2.0
"""Worth of the first and last piece beside their own."""
_ALONE = 4.0
"""Worth of a piece that is like no other in a text whose pieces are mostly alike, and of the first hit of a search."""
_OWN = 1.0
"""Worth of a field of the record itself beside its own."""
_OUTCOME = 100.0
"""Worth of the line that says what came of it, and of what a tool says below a file: it stays whatever else does."""
_COUNTS = 1.0
"""Worth of a last line with a count."""
_IN_SUMMARY, _LONGEST_SUMMARY = 2.0, 12
"""Worth of what a text sums itself up with, beside the rest, and most pieces of it."""
_OWN_FIELD = re.compile(r'"(?:[^"\\]|\\.){1,80}"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[^\[{"]+?),?[\s}]*')
_MOST_ALIKE, _LEAST_SHAPE = 3, 12
"""Lines that are shown of those that are alike but for hours and ids, and letters that such lines must share."""
_HEAD = 2
"""Words at the beginning of a line that show what kind of line it is."""
_COMMON = 0.05
"""Share of its worth that a line has among lines that all begin like it."""
_AROUND = (0.4, 0.2, 0.1)
"""Share of the worth of lines at these distances that a line has: it explains them."""
_NUMBERED, _LEAST_LINES = 0.8, 3
"""Share of the lines of a text, and fewest lines, that have such numbers, each one higher than the one before."""
_MOST_BELOW = 3
"""Lines below a file that are the tool's own words."""
_COUNT = re.compile(r"(?:^|\s)\d[\d.,]*\s[^\W\d_]")
"""In a line that names a file, what says more than a name: "=== 212 passed in 4.1s ==="."""
_LABEL = re.compile(r"[A-Z]\w{1,20}:$")
"""What a tool puts above its output."""
_ENDS_PIECE = ".!?;。！？；|"
"""What ends a sentence, or a cell of a table."""
_OPENING = (":", "(", "[", "{", "：", "（")
"""What a line ends with that is nothing without the next one."""
_LEAST_WORDS = 5
"""Words of a line of prose."""
_SHORT_GAP, _LONGEST_GAP = 80, 400
_OF_EXCERPT = 40
"""Characters between two pieces that stay, stay with them if there are so few, or so small a part of the excerpt: code
with holes misleads, and a long excerpt with many is hard to read."""
_SHORT_LINE = 25
"""Characters; so many for each piece of such a gap."""
_GAP = 3
"""Characters of the mark between two pieces."""
_OVERHEAD, _BESIDE = 80, 20
"""Characters that count for a piece beside its own, and for one next to another that stays: a block of lines reads
better than lines from everywhere."""
_MOST_ABOVE, _LEAST_ABOVE = 12, 3
"""Headings, keys, classes and functions that stand above a piece: without an outer one it would stand under another.
Where not all of them have room, the outermost go, down to so many."""


class Excerpt(NamedTuple):
    """What stays of a text."""

    text: str
    missing: int
    """Characters of the text that are not in it; of one that is reformatted, in proportion."""
    characters: int
    """Of the text."""
    reformatted: bool = False
    """Whether it is one of the shorter form of `text.reformatting`."""


def excerpt(text: str, characters: int, worth: Callable[[str], float], *, repeats: bool = True) -> Excerpt:
    """At most `characters` of a text: the pieces with the highest worth for their length, later ones before equal ones.

    A field of JSON brings along what names its record, a line of a list the first line of its item. A text that is not
    longer stays as it is. `worth` rates a piece. Without `repeats`, of lines that differ in hours and ids only a few
    are chosen.
    """
    if len(text) <= characters:
        return Excerpt(text, 0, len(text))
    return Excerpts(text, worth, repeats=repeats).of(characters)


class Excerpts:
    """The excerpts of one text, of any length; its pieces are found and rated once."""

    def __init__(
        self,
        text: str,
        worth: Callable[[str], float],
        *,
        repeats: bool = True,
        outcome: str = "",
        reformats: bool = True,
    ) -> None:
        """`worth` rates a piece. Without `repeats`, of lines that differ in hours and ids only a few are chosen.

        `outcome`: the line that says what came of it, with one blank where the text has several. `reformats`: whether
        they are those of the shorter form of the text, if it has one, and if there is room for a piece of that.
        """
        short = reformatted(text) if reformats else None
        self._reformatted = short is not None
        self._verbatim = partial(Excerpts, text, worth, repeats=repeats, outcome=outcome, reformats=False)
        self._characters = len(text)
        self._text = text = text if short is None else short
        self._found = found = pieces(text)
        self._parents = parents(text, found)
        said = [piece.said for piece in found]
        self._shown_as = [
            (said[above] if above >= 0 else "", line) for above, line in zip(self._parents, said, strict=True)
        ]
        """Each piece with what it stands under: once is enough."""
        files, marks = documents(found)
        for i, head in files.items():
            self._parents[i] = max(self._parents[i], head)
        framing, lonely, rate = frames(found, files), lines.alone(said), cache(worth)
        own = [rate(line) * rarity for line, rarity in zip(said, _rarity(said), strict=True)]
        in_rows = TABLE in text  # then a line says nothing of those around it
        self._worths = worths = [*own] if in_rows else _spread(own, found, framing)
        if found and not own[-1] and found[-1].is_plain and lines.sums_up(said[-1]):
            own[-1] = _COUNTS
            worths[-1] += _COUNTS
        outcomes = {i for i, line in enumerate(said) if outcome and " ".join(line.split()) == outcome}
        # What only announces what stands below it stays with that, and what only separates beside what it separates.
        dependent = (
            _announcing(said)
            | {i for i in marks if not (_COUNT.search(said[i]) or ERROR.search(said[i]))}
            | {i for i, line in enumerate(said) if lines.separates(line)}
        ) - outcomes
        telling = {i for i, worth in enumerate(own) if worth > 0}
        self._first = sorted((telling | lonely) - dependent)
        empty, below = _of_file(found)
        ends = {0, len(found) - 1} & telling - lonely
        if self._reformatted:
            ends.discard(0)  # its first field says less than what the text in it says
        for more, places in (
            (_OWN, [i for i in self._first if _is_own_field(found, i)]),
            (_IN_SUMMARY, telling.intersection(_summarised(said))),
            (_ALONE, [i for i in _first_items(found) if i in telling]),
            (_ALONE, lonely),
            (_AT_ENDS, ends),
            (_OUTCOME, outcomes.intersection(self._first)),
            (_OUTCOME, below),
        ):
            for i in places:
                worths[i] += more
        if self._reformatted:  # fields that say nothing
            fields = {i for i, line in enumerate(said) if not own[i] and any(map(str.isalpha, line))}
            empty |= fields - {*lonely, *outcomes, *below}
        empty |= set() if repeats else _repeats(said)
        for i in empty:
            worths[i] = 0.0
        self._beside_nothing = empty | dependent | framing
        """What is not shown because it stands beside something that is."""
        self._rooms = [len(p.said) + max(_GAP + len(p.blanks), len(p.gap) if i else 0) for i, p in enumerate(found)]
        self._openers = _openers(found)
        self._continued = {i for i in range(len(found)) if _goes_on(found, i)}
        """What is cut off the piece before it between words: who or what it is about stands there."""

    def of(self, characters: int) -> Excerpt:
        """The excerpt of at most so many characters."""
        if len(self._text) <= characters:
            return self._excerpt(self._text, 0)
        found, worths = self._found, self._worths
        # What says nothing by itself stays only beside what does.
        best = [(-worths[i] / (_OVERHEAD + len(found[i].said)), -i) for i in self._first if worths[i] > 0]
        heapify(best)
        left, chosen, tried, shown = characters - _GAP, set[int](), set[int](), set[tuple[str, str]]()
        while best and left > _GAP:
            i = -heappop(best)[1]
            if i in tried or self._shown_as[i] in shown:
                continue
            tried.add(i)
            above = [k for k in self._above(i) if k not in chosen]
            new = {i, *above, *((i + 1,) if i in self._openers else ())} - chosen
            while self._room(new) > left and len(above) > _LEAST_ABOVE:
                new.discard(above.pop())
            if not new or self._room(new) > left:
                continue
            # As far as there is room: a telling piece without whom it is about is better than none.
            whole = new | ({k - 1 for k in new if k in self._continued} - chosen)
            new = whole if self._room(whole) <= left else new
            bridged = new | self._between(new, chosen, characters)
            new = bridged if self._room(bridged) <= left else new
            chosen |= new
            shown.update(self._shown_as[k] for k in new)
            left -= self._room(new)
            for k in {k + step for k in new for step in (-1, 1)} - chosen:
                if 0 <= k < len(found) and k not in self._beside_nothing:
                    heappush(best, (-worths[k] / (_BESIDE + len(found[k].said)), -k))
        if not chosen:  # every piece is too long
            return self._verbatim().of(characters) if self._reformatted else self._excerpt("", len(self._text))
        return self._excerpt(*_in_order(self._text, found, sorted(chosen)))

    def _excerpt(self, text: str, missing: int) -> Excerpt:
        """`missing`: characters of what the excerpts are cut from; of the text as it was, the same share is."""
        share = missing / max(1, len(self._text))
        return Excerpt(text, ceil(share * self._characters), self._characters, self._reformatted)

    def _above(self, i: int) -> Iterator[int]:
        """What a piece is part of, from the inside."""
        for _ in range(_MOST_ABOVE):
            i = self._parents[i]
            if i < 0:
                return
            yield i

    def _between(self, new: Iterable[int], chosen: Container[int], characters: int) -> set[int]:
        """The few short pieces between new ones and those chosen before, unless they are fields that hold nothing.

        `characters`: of the whole excerpt.
        """
        found, between = self._found, set[int]()
        most = min(_LONGEST_GAP, max(_SHORT_GAP, characters // _OF_EXCERPT))
        for k in new:
            for step in (-1, 1):
                stop = next((j for j in range(k + step, k + step * (most // _SHORT_LINE + 2), step) if j in chosen), k)
                first, last = sorted((k, stop))
                inside = range(first + 1, last)
                few = found[last].start - found[first].stop <= most
                if few and all(self._worths[j] > 0 or not any(map(str.isalpha, found[j].said)) for j in inside):
                    between.update(inside)
        return between

    def _room(self, places: Iterable[int]) -> int:
        """Most characters that pieces take, with what stands before each."""
        return sum(self._rooms[k] for k in places)


def _is_own_field(found: Sequence[Piece], i: int) -> bool:
    """Whether a piece is a field with a short value of the record that a text is: its state, its total."""
    piece = found[i]
    short = piece.opened == found[0].start and len(piece.said) <= PIECE
    return short and _OWN_FIELD.fullmatch(piece.said) is not None


def _of_file(found: Sequence[Piece]) -> tuple[set[int], range]:
    """Of a text of which nearly all lines have numbers, as tools show a file; of another no lines.

    Where lines stand that have a number and nothing else with a letter or digit, and where the tool's own words stand
    below the file: that it was clipped, and how to go on.
    """
    heads = [lines.LINE_NUMBER.match(piece.said) for piece in found]
    numbers = [int(head[1]) if head else -1 for head in heads]
    follow = sum(1 for a, b in pairwise(numbers) if b == a + 1 > 0)
    if len(found) < _LEAST_LINES or follow < _NUMBERED * (len(found) - 1):
        return set(), range(0)
    empty = {i for i, head in enumerate(heads) if head and not any(map(str.isalnum, found[i].said[head.end() :]))}
    below = 1 + max(i for i, head in enumerate(heads) if head)
    stop = min(len(found), below + _MOST_BELOW)
    if below < stop and is_within_line(found, below):
        below -= 1  # they begin in the last line of the file
    return empty, range(below, stop)


def _repeats(said: Sequence[str]) -> set[int]:
    """Where lines stand that are like many others, hours and ids aside, but for the first ones and the last."""
    by_shape: dict[str, list[int]] = {}
    for i, line in enumerate(said):
        by_shape.setdefault(lines.without_ids(line), []).append(i)
    return {
        i
        for shape, places in by_shape.items()
        if len(places) > _MOST_ALIKE and sum(map(str.isalpha, shape)) >= _LEAST_SHAPE
        for i in places[_MOST_ALIKE - 1 : -1]
    }


def _rarity(said: Sequence[str]) -> list[float]:
    """How much it says that a line begins as it does, up to 1: of many that passed, those that failed tell most."""
    heads = [tuple(line.translate(lines.DIGITS).split(None, _HEAD)[:_HEAD]) for line in said]
    counts, most = Counter(heads), log(len(said) or 1)
    return [1 - (1 - _COMMON) * log(counts[head]) / most if most else 1.0 for head in heads]


def _spread(worths: list[float], found: Sequence[Piece], frames: Container[int]) -> list[float]:
    """The worth of each piece, and for lines of plain text a part of that of the lines around them.

    What is in `frames` says nothing of what stands beside it.
    """
    spread, most = list(worths), len(_AROUND)
    padded = [0.0] * most + worths + [0.0] * most
    for i, piece in enumerate(found):
        if i in frames:
            spread[i] *= _COMMON
        elif piece.is_plain:
            for step, share in enumerate(_AROUND, start=1):
                spread[i] += share * max(padded[most + i - step], padded[most + i + step], worths[i])
    return spread


def _announcing(said: Sequence[str]) -> set[int]:
    """Where headings and labels stand that have text below them, and heads of tables: what follows says something."""
    levels = [level if level > 1 else 0 for level in map(lines.level_of, said)]  # with a single # it may be a comment
    kinds = [line.partition(":")[0].translate(lines.DIGITS) for line in said]
    times = Counter(kind for kind, level in zip(kinds, levels, strict=True) if level)
    # "Challenge 1: …", "Challenge 2: …" are titles; "Status: done" says something.
    titles = {i for i, line in enumerate(said) if times[kinds[i]] > 1 or not lines.STATEMENT.match(line)}
    return {
        i
        for i, (line, below) in enumerate(pairwise(said))
        if (levels[i] and i in titles and not 0 < levels[i + 1] <= levels[i])
        or _LABEL.match(lines.without_number(line))
        or lines.names_columns(line, below)
        or (line.endswith(":") and below.startswith(lines.ROW))
    }


def _summarised(said: Sequence[str]) -> Iterator[int]:
    """Where a text's own summary stands: below a line that says so, up to the next heading or rule."""
    left = 0
    for i, line in enumerate(said):
        if SUMMARY.fullmatch(lines.without_number(line)):
            left = _LONGEST_SUMMARY
        elif lines.level_of(line) or lines.separates(line):
            left = 0
        elif left:
            left -= 1
            yield i


def _first_items(found: Sequence[Piece]) -> Iterator[int]:
    """Where the first hit of a search begins, with the line below it: lists of records come with the best one first."""
    in_list = False
    for i, piece in enumerate(found):
        item, listed = ITEM.match(piece.said), lines.LIST_ITEM.match(piece.said) is not None
        if (item and item[1] == "1") or (listed and not in_list):
            yield i
            yield i + 1
        in_list = in_list or listed


def _openers(found: Sequence[Piece]) -> set[int]:
    """Where lines stand that say nothing without the one below: `except OSError:`, `import (`, but no `def`.

    A sentence that goes on after a comma may say the opposite there.
    """
    return {
        i
        for i, (line, below) in enumerate(pairwise(piece.said for piece in found))
        if (line.endswith(_OPENING) and not lines.defines(line) and depth(found, i) < depth(found, i + 1))
        or (line.endswith(",") and len(line.split()) >= _LEAST_WORDS and below[0].islower())
    }


def _goes_on(found: Sequence[Piece], i: int) -> bool:
    """Whether a piece goes on with the sentence of the one before it."""
    before = found[i - 1]
    same = before.opened is None and found[i].opened is None and is_within_line(found, i)
    # A longer one could not be cut between words.
    return same and len(before.said) <= LONG_LINE and before.said[-1] not in _ENDS_PIECE


def _in_order(text: str, found: Sequence[Piece], chosen: Sequence[int]) -> tuple[str, int]:
    """The chosen pieces, word for word, with "…" for each gap, and how many characters are not in them."""
    parts: list[str] = []
    kept = stop = 0
    for before, i in zip([-1, *chosen], chosen, strict=False):
        piece = found[i]
        if i == before + 1:
            between = piece.gap if i else piece.blanks
            kept += len(between)
        else:
            mark = f"\n…\n{piece.blanks}" if "\n" in text[stop : piece.start] else " … "
            between = mark if parts else mark.lstrip()
        parts += [between, piece.said]
        kept += len(piece.said)
        stop = piece.stop
    if chosen[-1] < len(found) - 1:
        parts.append("\n…" if "\n" in text[stop:] else " …")
    return "".join(parts), len(text) - kept
