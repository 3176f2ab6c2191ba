"""Excerpts: the pieces of a text that tell most, word for word and in order, with "…" for what lies between."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple

_LONG_LINE = 200
"""Characters; a longer line is cut into records, fields or sentences."""
_PIECE = 120
"""Characters that a piece of a long line has if it can be cut there at all."""
_LEAST_REST = 40
"""Characters of the last piece of a line that is cut between sentences or words."""
_JSON = re.compile(r'"(?:[^"\\]|\\.?)*+"?|[\[\]{},]')
"""A string, also one without its end, a bracket or a comma."""
_JSON_LINE = re.compile(r'\s*(?:"(?:[^"\\]|\\.){1,80}"\s*:|[{}\[\]]{1,3},?\s*$)')
"""A line of indented JSON: a field, or brackets."""
_BRACKETS = re.compile(r"[{}\[\]]{1,3},?")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])")
_WORD = re.compile(r"\s+")
_AT_ENDS = 2.0
"""Worth of the first and last piece beside their own."""
_ALONE = 4.0
"""Worth of a piece that is like no other in a text whose pieces are mostly alike."""
_MOSTLY = 0.6
"""Share of pieces that are alike in such a text."""
_MOST_ALONE = 5
"""With more of them, it is no such text."""
_DIGITS = str.maketrans("", "", "0123456789")
_HEAD = 2
"""Words at the beginning of a line that show what kind of line it is."""
_GAP = 3
"""Characters of the mark between two pieces."""
_OVERHEAD = 80
"""Characters that count for every piece beside its own: a few long pieces read better than many short ones."""


class Excerpt(NamedTuple):
    """What stays of a text."""

    text: str
    missing: int
    """Characters of the text that are not in it."""


class Piece(NamedTuple):
    """A stretch of a text without the white space around it."""

    start: int
    stop: int
    indent: int | None = None
    """Of a line of indented JSON: the blanks before it."""
    opened: int | None = None
    """Of a part of a long line of JSON: where the innermost list or object that it begins in was opened."""


def pieces(text: str) -> list[Piece]:
    """The lines of a text; of long ones the records, fields or sentences."""
    found: list[Piece] = []
    start = 0
    for line in text.split("\n"):
        stop = start + len(line)
        if len(line) <= _LONG_LINE:
            indent = len(line) - len(line.lstrip()) if _JSON_LINE.match(line) else None
            found.append(Piece(start, stop, indent))
        elif ends := _json_ends(line):
            starts = [(0, None), *ends]
            stops = [*(end for end, _ in ends), len(line)]
            for (a, opened), b in zip(starts, stops, strict=True):
                found.append(Piece(start + a, start + b, opened=None if opened is None else start + opened))
        else:
            cuts = [start, *(start + end for end in _sentence_ends(line)), stop]
            found += [Piece(a, b) for a, b in pairwise(cuts)]
        start = stop + 1
    return [piece for p in found if (piece := _trimmed(text, p)) is not None]


def _trimmed(text: str, piece: Piece) -> Piece | None:
    body = text[piece.start : piece.stop]
    whole = body.strip()
    if not whole:
        return None
    begin = piece.start + body.index(whole[0])
    return piece._replace(start=begin, stop=begin + len(whole))


def _parents(text: str, found: Sequence[Piece]) -> list[int]:
    """For each piece the one that names what it belongs to: its key, or the first field of its record; -1 for none.

    A field without them would stand under the name of another record.
    """
    parents: list[int] = []
    blocks: list[tuple[int, int]] = []
    """Indentation of the open blocks of lines, and what names them."""
    starts = [piece.start for piece in found]
    for i, (start, stop, indent, opened) in enumerate(found):
        parent = -1
        if opened is not None and text[opened] == "{":
            parent = bisect_right(starts, opened, 0, i) - 1
        elif indent is None:
            blocks.clear()
        else:
            while blocks and blocks[-1][0] > indent:
                blocks.pop()
            bare = _BRACKETS.fullmatch(text, start, stop) is not None
            if not bare and (not blocks or blocks[-1][0] < indent):
                named = i > 0 and _BRACKETS.fullmatch(text, found[i - 1].start, found[i - 1].stop) is None
                blocks.append((indent, i - 1 if named else i))
            if not bare and blocks[-1][1] != i:
                parent = blocks[-1][1]
            if bare and blocks and blocks[-1][0] == indent:
                blocks.pop()  # another record begins
        parents.append(parent)
    return parents


def _json_ends(line: str) -> list[tuple[int, int | None]]:
    """Where a line of JSON may be cut: behind commas outside of strings, the outermost first.

    With each the place of the innermost bracket that is open there.
    """
    if line.lstrip()[:1] not in ("{", "["):
        return []
    commas: list[tuple[int, int, int | None]] = []
    brackets: list[int] = []
    for token in _JSON.finditer(line):
        sign = token.group()
        if sign in ("{", "["):
            brackets.append(token.start())
        elif sign in ("}", "]"):
            del brackets[-1:]
        elif sign == ",":
            commas.append((token.end(), len(brackets), brackets[-1] if brackets else None))
    return _joined(commas)


def _joined(commas: list[tuple[int, int, int | None]]) -> list[tuple[int, int | None]]:
    """Ends of pieces of at least a certain size: at the outermost comma where one is near."""
    ends: list[tuple[int, int | None]] = []
    start, best = 0, None
    for comma in commas:
        end, depth, _ = comma
        if end - start < _PIECE:
            best = comma if best is None or depth <= best[1] else best
            continue
        if best is None or depth <= best[1]:
            best = comma
        ends.append((best[0], best[2]))
        start, best = best[0], None
    return ends


def _sentence_ends(line: str) -> list[int]:
    """Where a line of prose may be cut: behind sentences, otherwise between words. No short rest is cut off."""
    ends: list[int] = []
    start = 0
    for pattern in (_SENTENCE, _WORD):
        for gap in pattern.finditer(line):
            if gap.end() - start >= _PIECE and len(line) - gap.end() >= _LEAST_REST:
                ends.append(gap.end())
                start = gap.end()
        if ends:
            break
        start = 0
    return ends


def alone(lines: Sequence[str]) -> set[int]:
    """Where the few lines stand that are like no other, digits aside, if most are alike: one failure among passes."""
    shapes = [line.translate(_DIGITS).strip() for line in lines]
    counts = Counter(shapes)
    alike = sum(n for n in counts.values() if n > 1)
    if alike < _MOSTLY * len(shapes):
        return set()
    found = {i for i, shape in enumerate(shapes) if counts[shape] == 1 and any(map(str.isalnum, lines[i]))}
    return found if len(found) <= _MOST_ALONE else set()


def _rarity(lines: Sequence[str]) -> list[float]:
    """How much it says that a line begins as it does, from 0 to 1: of many that passed, those that failed tell most."""
    heads = [tuple(line.translate(_DIGITS).split(None, _HEAD)[:_HEAD]) for line in lines]
    counts, most = Counter(heads), log(len(lines) or 1)
    return [1 - log(counts[head]) / most if most else 1.0 for head in heads]


def excerpt(text: str, characters: int, worth: Callable[[str], float]) -> Excerpt:
    """At most `characters` of a text: the pieces with the highest worth for their length, later ones before equal ones.

    A field of JSON brings along what names its record. A text that is not longer stays as it is. `worth` rates a piece.
    """
    if len(text) <= characters:
        return Excerpt(text, 0)
    found = pieces(text)
    last = len(found) - 1
    said = [text[p.start : p.stop] for p in found]
    lonely, parents, rarity = alone(said), _parents(text, found), _rarity(said)
    rated = [
        (
            (worth(said[i]) * rarity[i] + _AT_ENDS * (i in (0, last)) + _ALONE * (i in lonely))
            / (_OVERHEAD + len(said[i])),
            i,
        )
        for i in range(len(found))
    ]
    left, chosen, shown = characters - _GAP, set[int](), set[str]()
    for _, i in sorted(rated, reverse=True):
        if said[i] in shown and parents[i] < 0:  # once is enough
            continue
        named = parents[i]
        of_line = named >= 0 and found[named].indent is not None
        new = {i, named, parents[named] if of_line else -1} - chosen - {-1}
        room = sum(len(said[k]) + max(_GAP, found[k].start - found[k - 1].stop if k else 0) for k in new)
        if new and room <= left:
            chosen |= new
            shown.update(said[k] for k in new)
            left -= room
    if not chosen:  # every piece is too long
        return Excerpt("", len(text))
    return _in_order(text, found, sorted(chosen))


def _in_order(text: str, found: list[Piece], chosen: list[int]) -> Excerpt:
    """The chosen pieces, word for word, with "…" for each gap."""
    parts: list[str] = []
    kept = 0
    for before, i in zip([-1, *chosen], chosen, strict=False):
        start, stop = found[i].start, found[i].stop
        between = text[found[before].stop : start] if before >= 0 else ""
        if i == before + 1:
            parts.append(between)
            kept += len(between)
        elif before < 0:
            parts.append("…\n" if "\n" in text[:start] else "… ")
        else:
            parts.append("\n…\n" if "\n" in between else " … ")
        parts.append(text[start:stop])
        kept += stop - start
    if chosen[-1] < len(found) - 1:
        parts.append("\n…" if "\n" in text[found[chosen[-1]].stop :] else " …")
    return Excerpt("".join(parts), len(text) - kept)
