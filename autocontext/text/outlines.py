"""What each piece of a text stands under: its heading, key, function, table, item, and the file or record it is in."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

from autocontext.text import lines
from autocontext.text.pieces import LONG_LINE, Piece
from autocontext.text.reformatting import TABLE
from autocontext.text.signs import ERROR

_VERDICT = re.compile(r"(?:[^\w\s\"'(){}\[\];=<>]{1,3} ?)?[^\W\d_]{2,20}(?: [^\W\d_]{1,20})?[.!:]?")
_LONGEST_CASE = 4
"""A line of one or two words, and lines above it in its paragraph: if it says that something failed, they say what."""
_BRACKETS = re.compile(r"[{}\[\]]{1,3},?")
ITEM = re.compile(r"\s*(\d{1,3})[.)]\s")
"""The beginning of an item of a numbered list."""
_DEEPEST = 40
"""Blanks before a line of a printed string."""
_FIRST_FIELD = re.compile(r"([^\W\d][\w -]{0,30}): {0,20}\S")
"""The first line of a header or record behind an empty line, of which several begin alike: "From: ann@example.org"."""
_FOLDER = re.compile(r"[^\s:]{1,200}:$")
"""What `ls` prints above the files of a folder."""
_OF_HEADS = 0.4
"""Share of the heads of a kind that the same line has at least, if it ends each file."""
_LEAST_FRAME, _OF_FILES = 3, 0.6
"""Files with the same line, and their share, from which on it says little of each: a menu, a footer, a header."""
_FENCE = ("```", "~~~")
"""What begins and ends a text of a file."""
_OPENS = (":", "：", "{", ":\\n", "{\\n")
"""What a line ends with under which those belong that are indented deeper, also in a printed string."""
_SHORT_RULE = re.compile(r"\|(?:-\|)+")
"""The rule below the head of a table of `text.reformatting`."""


def parents(text: str, found: Sequence[Piece]) -> list[int]:
    """For each piece the one that names what it belongs to; -1 for none.

    That is its key, the first field of its record, the first line of its item in a list, or of its function, or its
    heading. Without them a field or line would stand under the name of another record or function.
    """
    items = _verdicts(found) | _outlined(found, has_keys=TABLE in text) | _rows(text, found) | _items(found)
    parents: list[int] = []
    blocks: list[tuple[int, int]] = []
    """Indentation of the open blocks of lines, and what names them."""
    field = -1
    """Where the line that is being read begins, if it is a field of indented JSON."""
    for i, piece in enumerate(found):
        parent, indent = items.get(i, -1), piece.indent
        if not i or "\n" in piece.gap:
            field = i if indent is not None else -1
        if piece.opened is not None and text[piece.opened] == "{":
            parent = bisect_right(found, piece.opened, 0, i, key=attrgetter("start")) - 1
        elif 0 <= field < i:  # a part of its long text
            parent = field
        elif indent is None:
            blocks.clear()
        else:
            while blocks and blocks[-1][0] > indent:
                blocks.pop()
            bare = _BRACKETS.fullmatch(piece.said)
            if not bare and (not blocks or blocks[-1][0] < indent):
                named = i > 0 and not _BRACKETS.fullmatch(found[i - 1].said)
                blocks.append((indent, i - 1 if named else i))
            if not bare and blocks[-1][1] != i:
                parent = blocks[-1][1]
            if bare and blocks and blocks[-1][0] == indent:
                blocks.pop()  # another record begins
        parents.append(parent)
    return parents


def is_within_line(found: Sequence[Piece], i: int) -> bool:
    """Whether no line ends right before a piece, also no line of a printed string."""
    gap = found[i].gap
    return i > 0 and "\n" not in gap and not (not gap and found[i - 1].said.endswith("\\n"))


def _line(found: Sequence[Piece], i: int) -> str:
    """A piece with the blanks before it in its line, also where the lines are those of a printed string."""
    piece = found[i]
    printed = i > 0 and found[i - 1].said.endswith("\\n") and piece.gap == " " * min(len(piece.gap), _DEEPEST)
    return (piece.gap if printed else piece.blanks) + piece.said


def _unnumbered(line: str) -> tuple[str, bool]:
    """A line without the number that a tool put before it, and whether it had one."""
    number = lines.LINE_NUMBER.match(line)
    return (line[number.end() :], True) if number else (line, False)


def depth(found: Sequence[Piece], i: int) -> int:
    """How far a line is indented, behind the number that a tool put before it."""
    line, _ = _unnumbered(_line(found, i))
    return len(line) - len(line.lstrip())


def documents(found: Sequence[Piece]) -> tuple[dict[int, int], set[int]]:
    """By piece, the line that names the file or record it stands in, where a text prints several one below the other.

    Of the heads of records in a file, that of the file. And where lines stand that only begin or end a file.
    """
    kinds = [_head_of(found, i) for i in range(len(found))]
    of_files = [i for i, kind in enumerate(kinds) if kind and not kind.endswith(":")]
    # The same line stands below many files: "--- end of attachment ---".
    of_kind, times = Counter(kinds), Counter(found[i].said for i in of_files)
    ends = {i for i in of_files if times[found[i].said] >= max(_LEAST_FRAME, _OF_HEADS * of_kind[kinds[i]])}
    heads = Counter(kind for i, kind in enumerate(kinds) if kind and i not in ends)
    # What comes first is outside; records are inside of all files.
    levels = {kind: (kind.endswith(":"), k) for k, kind in enumerate(heads) if heads[kind] > 1}
    inside: dict[int, int] = {}
    open_: list[tuple[tuple[bool, int], int]] = []
    for i, kind in enumerate(kinds):
        level = levels.get(kind)
        while level is not None and open_ and open_[-1][0] >= level:
            open_.pop()
        if open_:
            inside[i] = open_[-1][1]
        if level is not None and i not in ends:
            open_.append((level, i))
    return inside, ends | {*inside.values()}.intersection(of_files)


def frames(found: Sequence[Piece], documents: Mapping[int, int]) -> set[int]:
    """Where lines stand that most of the files have; a bracket is none."""
    times = Counter(found[i].said for i in documents if sum(map(str.isalnum, found[i].said)) > 1)
    least = max(_LEAST_FRAME, _OF_FILES * len({*documents.values()}))
    return {i for i in documents if times[found[i].said] >= least}


def _head_of(found: Sequence[Piece], i: int) -> str:
    """What kind of file, or with a colon of record, a line may begin; "" for none."""
    line, below = found[i].said, found[i + 1] if i + 1 < len(found) else None
    above = found[i].gap if i and not lines.separates(found[i - 1].said) else "\n\n"
    number = lines.NUMBERED_LINE.match(line)
    if number and "\n" in above and line.startswith("[", number.end()):  # of a file with the numbers of its lines
        return lines.begins_document(line[number.end() :])
    if not above.endswith("\n"):  # within a line, or indented
        return ""
    if sign := lines.begins_document(line):
        return sign
    if above.count("\n") == 1:
        return ""
    if _FOLDER.fullmatch(line):
        return ":"
    field = _FIRST_FIELD.match(line)
    is_record = field and below is not None and below.gap == "\n" and _FIRST_FIELD.match(below.said)
    return f"{field[1]}:" if field and is_record else ""


def _outlined(found: Sequence[Piece], *, has_keys: bool) -> dict[int, int]:
    """By piece, what of the text's outline it is part of."""
    outline = _Outline(found, has_keys=has_keys)
    return {i: above for i in range(len(found)) if (above := outline.above(i)) >= 0}


class _Outline:
    """What is open at a piece: its headings, functions, classes, records and keys, and the line that names its file.

    A file is named in the line before its fence, or before its numbered lines, as search tools print parts of several:
    `src/pool.py`, below it the lines.
    """

    def __init__(self, found: Sequence[Piece], *, has_keys: bool) -> None:
        """`has_keys`: whether it is a text of `text.reformatting`, whose keys may look like those of JSON."""
        self._found, self._has_keys = found, has_keys
        self._above = -1
        """What the newest piece is part of."""
        self._headings: list[tuple[int, int]] = []
        """Level of each, and where it is."""
        self._blocks: list[tuple[int, int]] = []
        """Indentation of each function, class, record and key, and where it begins."""
        self._file = -1
        """The line that names the file; -1 for none."""
        self._fenced = False
        self._plain = -1
        """The newest piece that is no numbered line, and says something."""

    def above(self, i: int) -> int:
        """What a piece is part of, from the inside, or outside of functions its heading; -1 for nothing.

        To be asked in order.
        """
        line = _line(self._found, i)
        if line == self._found[i].said and is_within_line(self._found, i):
            self._above = self._blocks[-1][1] if self._blocks else self._above
            return self._above
        line, numbered = _unnumbered(line)
        self._read_file(i, line, numbered=numbered)
        body = line.lstrip()
        if not body:
            self._above = -1
            return -1
        level = 0 if numbered else lines.level_of(line)
        # An item of a list may stand right below its key, without any indentation.
        indent = len(line) - len(body) + body.startswith("- ")
        while (
            self._blocks and self._blocks[-1][0] >= indent and body[0] not in ")]}{"
        ):  # the end of a signature or body
            self._blocks.pop()
        if level:
            self._headings, self._blocks = [heading for heading in self._headings if heading[0] < level], []
        if self._blocks:
            self._above = self._blocks[-1][1]
        else:
            self._above = self._file if self._file >= 0 or not self._headings else self._headings[-1][1]
        if self._found[i].indent is None or (self._has_keys and line.endswith(":")):  # indented JSON has its own keys
            self._enter(i, line, indent, level)
        return self._above

    def _enter(self, i: int, line: str, indent: int, level: int) -> None:
        """What a line begins."""
        body = line.lstrip()
        in_record = self._blocks and lines.LIST_ITEM.match(self._found[self._blocks[-1][1]].said)
        if level > 1:
            self._headings.append((level, i))
        elif lines.DEFINES.match(body) or lines.LIST_ITEM.match(body):
            self._headings = self._headings if indent or lines.LIST_ITEM.match(body) else []
            self._blocks.append((indent, i))
        elif in_record and lines.NAMES.match(body):
            self._blocks.append((indent - 1, i))  # what follows in the record stands under it
        elif line.endswith(_OPENS):
            self._blocks.append((indent, i))

    def _read_file(self, i: int, line: str, *, numbered: bool) -> None:
        """Where a part of a file begins or ends, all blocks end."""
        before = self._file
        is_fence = not numbered and line.startswith(_FENCE)
        if is_fence:
            self._fenced = not self._fenced
            self._file = self._just_before(i) if self._fenced else -1
            self._plain = -1
        elif self._fenced:
            pass
        elif numbered and self._file < 0:
            self._file = self._just_before(i)
        elif not numbered and any(map(str.isalnum, line)):  # "--" stands between parts of the same file
            self._file, self._plain = -1, i
        if is_fence or self._file != before:
            self._blocks = []

    def _just_before(self, i: int) -> int:
        """The plain piece in the line before one; -1 if there is none."""
        return i - 1 if self._plain == i - 1 and self._found[i].gap.count("\n") == 1 else -1


def _rows(text: str, found: Sequence[Piece]) -> dict[int, int]:
    """By piece, the head of the table that it is a row of, with the line below it: it names the columns.

    Of a later part of a long row its first part, which names the record, unless that is too long to stay for it.
    """
    parents: dict[int, int] = {}
    head = row = -1
    bar = lines.ROW
    for i, piece in enumerate(found):
        above, line = piece.gap.count("\n") if i else 1, piece.said
        if not above:
            if head >= 0:
                parents[i] = row if len(found[row].said) <= LONG_LINE else head
            continue
        before, row = row, i
        ends = above > 1 or (bar not in line and not lines.separates(line))
        if ends and not line.startswith(lines.ROW):
            head = -1
        if head >= 0:
            parents[i] = head
        elif i and lines.names_columns(text[found[before].start : found[i - 1].stop], line):
            head, bar = i - 1, lines.ROW if lines.has_bars(line) else ""
            parents.update((part, part - 1) for part in range(before + 1, i))  # of a long head
            # A short rule costs little, and without it there is no table.
            if _SHORT_RULE.fullmatch(line):
                parents[i], head = head, i
    return parents


def _verdicts(found: Sequence[Piece]) -> dict[int, int]:
    """By line that only says that something failed, the first line of its paragraph: what has failed."""
    cases: dict[int, int] = {}
    first = 0
    for i, piece in enumerate(found):
        if i and piece.gap.count("\n") != 1:
            first = i
        if i > first and _VERDICT.fullmatch(piece.said):
            if i - first <= _LONGEST_CASE and ERROR.search(piece.said):
                cases[i] = first
            first = i + 1  # what follows is another case, also after one that passed
    return cases


def _items(found: Sequence[Piece]) -> dict[int, int]:
    """By piece, the first one of its item, where items of a numbered list have several lines: results of a search."""
    numbers = {
        i: int(item[1]) for i, piece in enumerate(found) if piece.opened is None and (item := ITEM.match(piece.said))
    }
    items: dict[int, int] = {}
    size = 0
    """Pieces of the longest item of the list so far."""
    for i, following in pairwise([*numbers, len(found)]):
        stop = following
        if numbers.get(following) == numbers[i] + 1:
            size = max(size, stop - i)
        else:  # the list's last item
            stop, size = min(stop, i + size), 0
        items.update(dict.fromkeys(range(i + 1, stop), i))
    return items
