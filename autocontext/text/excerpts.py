"""Excerpts: the pieces of a text that tell most, word for word and in order, with "…" for what lies between."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import ceil, log
from typing import NamedTuple

from autocontext.caches import cached
from autocontext.text.reformatting import TABLE, reformatted
from autocontext.text.signs import ERROR, SUMMARY

_VERDICT = re.compile(r"(?:[^\w\s\"'(){}\[\];=<>]{1,3} ?)?[^\W\d_]{2,20}(?: [^\W\d_]{1,20})?[.!:]?")
_LONGEST_CASE = 4
"""A line of one or two words, and lines above it in its paragraph: if it says that something failed, they say what."""
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
_ESCAPED_BREAK = re.compile(r"(?<=[^\\]\\n)|(?<=[^\\]\\\\n)(?![a-z])")
"""The end of a line in a printed string, also of JSON printed within another; but "C:\\\\new" is a path."""
_WORD = re.compile(r"\s+")
_AT_ENDS = 2.0
"""Worth of the first and last piece beside their own."""
_ALONE = 4.0
"""Worth of a piece that is like no other in a text whose pieces are mostly alike, and of the first hit of a search."""
_MOSTLY = 0.6
"""Share of pieces that are alike in such a text."""
_MOST_ALONE = 5
"""With more of them, it is no such text."""
_LEAST_FIELD = 8
"""Characters of a field that is a piece by itself."""
_OWN = 1.0
"""Worth of a field of the record itself beside its own."""
_OWN_FIELD = re.compile(r'"(?:[^"\\]|\\.){1,80}"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[^\[{"]+?),?[\s}]*')
_ITEM = re.compile(r"\s*(\d{1,3})[.)]\s")
"""The beginning of an item of a numbered list."""
_NAME = re.compile(r"[A-Za-z0-9_.+:-]+")
"""An hour, an id or a word; a pattern that looks for the digit in it takes quadratic time."""
_MOST_ALIKE, _LEAST_SHAPE = 3, 12
"""Lines that are shown of those that are alike but for hours and ids, and letters that such lines must share."""
_DIGITS = str.maketrans("", "", "0123456789")
_HEAD = 2
"""Words at the beginning of a line that show what kind of line it is."""
_COMMON = 0.05
"""Share of its worth that a line has among lines that all begin like it."""
_SHORT_GAP, _LONGEST_GAP = 80, 400
_OF_EXCERPT = 40
"""Characters between two pieces that stay, stay with them if there are so few, or so small a part of the excerpt: code
with holes misleads, and a long excerpt with many is hard to read."""
_SHORT_LINE = 25
"""Characters; so many for each piece of such a gap."""
_LINE_NUMBER = re.compile(r"\s*(\d{1,7})(?:[\t:|→]|\s|$)")
"""The number that a tool puts before a line of a file."""
_NUMBERED, _LEAST_LINES = 0.8, 3
"""Share of the lines of a text, and fewest lines, that have such numbers, each one higher than the one before."""
_MOST_BELOW = 3
"""Lines below a file that are the tool's own words."""
_DEFINES = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|override|async|pub|data) ){0,5}"
    r"(?:def|class|func|function|fn|fun|interface|struct|enum|impl|trait|module|namespace|sub|proc)\b"
    r"|(?!(?:if|for|while|switch|catch|else|return|do|with|using|lock)\b)"
    r"[\w<>\[\],:&*.? ]{1,80}\([^;]{0,120}\)[^;]{0,40}\{$"
    r"|(?:export )?(?:const|let|var) [\w$]{1,80} = (?:async )?(?:function\b|\([^;]{0,120}\) ?=>|[\w$]{1,80} =>)"
)
"""A line that begins a function or class, in the usual ways of writing one."""
IMPORT = re.compile(
    r"(?:from [\w.]+ import"
    r"|import (?:static |type )?(?:[*{\"'@]|[\w.]+(?: as \w+)?(?:, ?[\w.]+)*;?\Z|[\w$, {}]{1,200} from )"
    r"|use [\w:]+::|using [\w.]+;|#\s?include\b"
    r"|package [\w.]+;?$|(?:const|let|var) .{1,80} = require\()"
)
"""A line that says where names come from, in the usual ways: what is done with them tells more."""
_LIST_ITEM = re.compile(r"- \w[\w .-]{0,40}:(?:\s|\\|$)")
"""The first line of a record in a list of YAML."""
_NAMES = re.compile(r"(?:\w{1,30}_)?(?:name|title|id|key|url): \S")
"""A line of such a record that says which one it is."""
_PRINTED_INDENT = re.compile(r"\\n( {0,40})$")
_HEADING = re.compile(r"(#{1,6}) \S|\*\*[^*]{1,100}\*\*:?$")
"""A heading of Markdown, at the beginning of a line. With a single # it may be a comment, and only ends others."""
_DOCUMENT = re.compile(
    r"(={2,}>|={2,}|-{3,}|\*{3,}|~{3,}|\+{3,}|:{3,}|/{3,}) ?(?!\s)[^=*~+:/>-]"
    r"|(?:-{1,3}(?=\[ ))?(\[)\[? ?[^\W\d][^\[\],]{0,80}\]{1,2}[-=*+]*$"
)
"""What stands above each of several files or records that were printed: "==> src/pool.py <==", "--- prod/billing.hcl",
"[staging]", "-[ RECORD 2 ]---"."""
_RULED = re.compile(r"[^\W\d](?:.{0,120}[^\s:=,|])? ([*=~-])\1{3,}$")
"""The same with its sign behind it: "TASK [restart] ******"; but "password: ******" is a value."""
_RULES = tuple(4 * sign for sign in "*=~-")
_COUNT = re.compile(r"(?:^|\s)\d[\d.,]*\s[^\W\d_]")
"""In such a line, what says more than a name: "=== 212 passed in 4.1s ==="."""
_OF_HEADS = 0.4
"""Share of the heads of a kind that the same line has at least, if it ends each file."""
_FIRST_FIELD = re.compile(r"([^\W\d][\w -]{0,30}): {0,20}\S")
"""The first line of a header or record behind an empty line, of which several begin alike: "From: ann@example.org"."""
_FOLDER = re.compile(r"[^\s:]{1,200}:$")
"""What `ls` prints above the files of a folder."""
_LEAST_DOCUMENTS = 2
_LEAST_FRAME, _OF_FILES = 3, 0.6
"""Files with the same line, and their share, from which on it says little of each: a menu, a footer, a header."""
_FENCE = ("```", "~~~")
"""What begins and ends a text of a file."""
HEADLINE = r"[^#:]{3,60}(?::| [–—]) \S"
"""What a heading says beside what it is about: "Status: partly done", "Summary — all done"."""
STATEMENT = re.compile(
    r"\*\*[^*]{8,200}[.!。！]\*\*|\*\*[^*]{3,100} [–—] [^*]{3,100}\*\*|\*\*[^*]{3,100}\*\* ?[–—-] \S"
    rf"|\*\*[^*:]{{3,40}}:\*\* \S|#{{2,6}} {HEADLINE}"
)
"""At the beginning of a line of Markdown: a sentence or a result in bold type, or a heading that says one."""
_ENDS_PIECE = ".!?;。！？；|"
"""What ends a sentence, or a cell of a table."""
_OPENING = (":", "(", "[", "{", "：", "（")
"""What a line ends with that is nothing without the next one."""
_IN_SUMMARY, _LONGEST_SUMMARY = 2.0, 12
"""Worth of what a text sums itself up with, beside the rest, and most pieces of it."""
_LEAST_WORDS = 5
"""Words of a line of prose."""
_OPENS = (":", "：", "{", ":\\n", "{\\n")
"""What a line ends with under which those belong that are indented deeper, also in a printed string."""
_LABEL = re.compile(r"[A-Z]\w{1,20}:$")
"""What a tool puts above its output."""
_ROW, _RULE = "|", "-=*_|+: "
"""What a row of a table begins with, and what a line that only separates consists of, such as that below its head."""
_COLUMNS = re.compile(r"[|+]|[-=]+[+| ]+[-=]")
"""What the rule below the head of a table begins with: `|--`, `+--`, `---+---`, `---  ---`."""
_SHORT_RULE = re.compile(r"\|(?:-\|)+")
"""That line in a table of `text.reformatting`."""
_BOLD, _SUMMARISING = 7, 8
"""Levels of a heading in bold type, below those with #, and of a line above a summary."""
_REMEMBERED = 8_192
"""Lines of which it is kept whether they name something."""
_TEXTS, _CACHED = 256, 20_000
"""Texts whose pieces are kept, since each pass asks for those in view, and characters of the longest of them."""
_GAP = 3
"""Characters of the mark between two pieces."""
_OVERHEAD, _BESIDE = 80, 20
"""Characters that count for a piece beside its own, and for one next to another that stays: a block of lines reads
better than lines from everywhere."""
_MOST_ABOVE, _LEAST_ABOVE = 12, 3
"""Headings, keys, classes and functions that stand above a piece: without an outer one it would stand under another.
Where not all of them have room, the outermost go, down to so many."""
_AROUND = (0.4, 0.2, 0.1)
"""Share of the worth of lines at these distances that a line has: it explains them."""


_OUTCOME = 100.0
"""Worth of the line that says what came of it, and of what a tool says below a file: it stays whatever else does."""
_COUNTS = 1.0
"""Worth of a last line with a count."""
_LONGEST_COUNT = 200
_NUMBERED_LINE = re.compile(r"\s*\d{1,7}(?:[\t:|→]|$)")
"""Unlike `_LINE_NUMBER` not "70 passed"."""
MEASURE = re.compile(r"(?:<\w{1,20}>)?([^\W\d_][\w ./-]{1,40}[:=：]) ?[^\s\d]{0,3}\d\S{0,40}(?: \w{1,12})?")
"""What a tool has measured of its own work: "Wall time: 0.05 seconds"."""


class Excerpt(NamedTuple):
    """What stays of a text."""

    text: str
    missing: int
    """Characters of the text that are not in it; of one that is reformatted, in proportion."""
    characters: int
    """Of the text."""
    reformatted: bool = False
    """Whether it is one of the shorter form of `text.reformatting`."""


class Piece(NamedTuple):
    """A stretch of a text without the white space around it."""

    start: int
    stop: int
    indent: int | None = None
    """Of a line of indented JSON: the blanks before it."""
    opened: int | None = None
    """Of a part of a long line of JSON: where the innermost list or object that it begins in was opened."""

    @property
    def is_plain(self) -> bool:
        """Whether it is no part of indented JSON, or of a long line of it."""
        return self.indent is None and self.opened is None


def without_number(line: str) -> str:
    """A line without the number that a tool puts before it, and without the blanks around it."""
    number = _LINE_NUMBER.match(line)
    return line[number.end() :].strip() if number else line.strip()


@cached(_REMEMBERED)
def defines(line: str) -> bool:
    """Whether a line begins a function or class, or names a record; a number that a tool put before it is no part.

    Cached, since each note of each pass rates the lines of results anew.
    """
    own = without_number(line)
    return any(pattern.match(own) for pattern in (_DEFINES, _LIST_ITEM, _NAMES))


def begins_record(line: str) -> bool:
    """Whether a line begins a record in a list of YAML."""
    return _LIST_ITEM.match(line.lstrip()) is not None


def begins_document(line: str) -> str:
    """The sign with which a line names what is printed below it, "===", "---" or "["; "" for any other line."""
    head = _DOCUMENT.match(line) or (line.endswith(_RULES) and _RULED.match(line))
    return head[head.lastindex or 0] if head else ""


def pieces(text: str) -> tuple[Piece, ...]:
    """The lines of a text; of long ones the records, fields or sentences."""
    return _cached_pieces(text) if len(text) <= _CACHED else _split(text)


def _split(text: str) -> tuple[Piece, ...]:
    found: list[Piece] = []
    start = 0
    for line in text.split("\n"):
        stop = start + len(line)
        if not line or line.isspace():
            pass
        elif len(line) <= _LONG_LINE:
            found.append(Piece(start, stop, _json_indent(line)))
        elif ends := _json_ends(line):
            starts = [(0, None), *ends]
            stops = [*(end for end, _ in ends), len(line)]
            for (a, opened), b in zip(starts, stops, strict=True):
                at = None if opened is None else start + opened
                found += [Piece(start + c, start + d, opened=at) for c, d in _parts(line, a, b)]
        else:
            first, *others = (Piece(start + a, start + b) for a, b in _parts(line, 0, len(line)))
            found += [first._replace(indent=_json_indent(line)), *others]
        start = stop + 1
    return tuple(piece for p in found if (piece := _trimmed(text, p)) is not None)


_cached_pieces = cached(_TEXTS)(_split)


def _json_indent(line: str) -> int | None:
    """The blanks before a line of indented JSON; None for any other line."""
    return len(line) - len(line.lstrip()) if _JSON_LINE.match(line) else None


def _trimmed(text: str, piece: Piece) -> Piece | None:
    body = text[piece.start : piece.stop]
    whole = body.strip()
    if not whole:
        return None
    begin = piece.start + body.index(whole[0])
    return piece._replace(start=begin, stop=begin + len(whole))


def _parents(text: str, found: Sequence[Piece]) -> list[int]:
    """For each piece the one that names what it belongs to; -1 for none.

    That is its key, the first field of its record, the first line of its item in a list, or of its function, or its
    heading. Without them a field or line would stand under the name of another record or function.
    """
    keys = _keys(text, found) if TABLE in text else {}
    items = _verdicts(text, found) | keys | _definitions(text, found) | _rows(text, found) | _items(text, found)
    parents: list[int] = []
    blocks: list[tuple[int, int]] = []
    """Indentation of the open blocks of lines, and what names them."""
    starts = [piece.start for piece in found]
    field = -1
    """Where the line that is being read begins, if it is a field of indented JSON."""
    for i, (start, stop, indent, opened) in enumerate(found):
        parent = items.get(i, -1)
        if not i or "\n" in text[found[i - 1].stop : start]:
            field = i if indent is not None else -1
        if opened is not None and text[opened] == "{":
            parent = bisect_right(starts, opened, 0, i) - 1
        elif 0 <= field < i:  # a part of its long text
            parent = field
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


def _documents(text: str, found: Sequence[Piece], said: Sequence[str]) -> tuple[dict[int, int], set[int]]:
    """By piece, the line that names the file or record it stands in, where a text prints several one below the other.

    Of the heads of records in a file, that of the file. And where lines stand that only begin or end a file.
    """
    kinds = [
        _head_of(
            piece,
            text[found[i - 1].stop : piece.start] if i and not _separates(said[i - 1]) else "\n\n",
            text,
            *said[i : i + 2],
        )
        for i, piece in enumerate(found)
    ]
    ends = _ends_of_files(kinds, said)
    times = Counter(kind for i, kind in enumerate(kinds) if kind and i not in ends)
    # What comes first is outside; records are inside of all files.
    levels = {kind: (kind.endswith(":"), k) for k, kind in enumerate(times) if times[kind] >= _LEAST_DOCUMENTS}
    documents: dict[int, int] = {}
    open_: list[tuple[tuple[bool, int], int]] = []
    for i in range(len(found)):
        level = levels.get(kinds[i])
        while level is not None and open_ and open_[-1][0] >= level:
            open_.pop()
        if open_:
            documents[i] = open_[-1][1]
        if level is not None and i not in ends:
            open_.append((level, i))
    of_files = {i for i, kind in enumerate(kinds) if kind and not kind.endswith(":")}
    return documents, of_files & (ends | {*documents.values()})


def _ends_of_files(kinds: Sequence[str], said: Sequence[str]) -> set[int]:
    """Where the same line stands below many files: "--- end of attachment ---"."""
    of_kind, times = Counter(kinds), Counter(said[i] for i, kind in enumerate(kinds) if kind)
    return {
        i
        for i, kind in enumerate(kinds)
        if kind and not kind.endswith(":") and times[said[i]] >= max(_LEAST_FRAME, _OF_HEADS * of_kind[kind])
    }


def _frames(said: Sequence[str], documents: Mapping[int, int]) -> set[int]:
    """Where lines stand that most of the files have; a bracket is none."""
    times = Counter(said[i] for i in documents if sum(map(str.isalnum, said[i])) > 1)
    least = max(_LEAST_FRAME, _OF_FILES * len({*documents.values()}))
    return {i for i in documents if times[said[i]] >= least}


def _head_of(piece: Piece, above: str, text: str, line: str, below: str = "") -> str:
    """What kind of file, or with a colon of record, a line may begin; "" for none. `above`: what ends there."""
    number = _NUMBERED_LINE.match(line) if "[" in line else None
    if number and "\n" in above and line.startswith("[", number.end()):  # of a file with the numbers of its lines
        return begins_document(line[number.end() :])
    if not above.endswith("\n"):  # within a line, or indented
        return ""
    if sign := begins_document(line):
        return sign
    if above.count("\n") == 1:
        return ""
    if _FOLDER.fullmatch(line):
        return ":"
    field = _FIRST_FIELD.match(line)
    is_record = field is not None and _FIRST_FIELD.match(below) and text.startswith(f"\n{below}", piece.stop)
    return f"{field[1]}:" if field is not None and is_record else ""


def _definitions(text: str, found: Sequence[Piece]) -> dict[int, int]:
    """By piece, the line that begins the innermost function or class which it is part of, by indentation.

    Or, outside of them, its heading.
    """
    parts: dict[int, int] = {}
    outline, files = _Outline(), _Files(text, found)
    for i, piece in enumerate(found):
        indentation = _indentation(text, piece.start)
        line = indentation + text[piece.start : piece.stop]
        if not (i and not indentation and _within_line(text, found[i - 1].stop, piece.start)):
            number = _LINE_NUMBER.match(line)
            if files.begins(i, line, numbered=number is not None):
                outline.blocks = []
            line = line[number.end() :] if number else line
            if not line.strip():
                continue
            level = 0 if number else _level_of(line)
            outline.leave(line, level)
            above = outline.above(files.name)
            record = outline.blocks and _LIST_ITEM.match(text, found[outline.blocks[-1][1]].start)
            if piece.indent is None:  # indented JSON has its own keys
                outline.enter(i, line, level, in_record=bool(record))
        elif not outline.blocks:
            above = parts.get(i - 1, -1)
        else:
            above = outline.blocks[-1][1]
        if above >= 0:
            parts[i] = above
    return parts


class _Outline:
    """The headings, functions, classes and records that are open at a line."""

    def __init__(self) -> None:
        self.headings: list[tuple[int, int]] = []
        """Level of each, and where it is."""
        self.blocks: list[tuple[int, int]] = []
        """Indentation of each function, class, record and key, and where it begins."""
        self.indent = 0
        """Of the line; an item of a list may stand right below its key, without any."""

    def above(self, file: int) -> int:
        """What a line is part of, from the inside; -1 for nothing. `file`: what names its file."""
        if self.blocks:
            return self.blocks[-1][1]
        return file if file >= 0 or not self.headings else self.headings[-1][1]

    def leave(self, line: str, level: int) -> None:
        """What a line ends by its indentation, or as a heading of a level."""
        body = line.lstrip()
        self.indent = indent = len(line) - len(body) + body.startswith("- ")
        while self.blocks and self.blocks[-1][0] >= indent and body[0] not in ")]}{":  # the end of a signature or body
            self.blocks.pop()
        if level:
            self.headings, self.blocks = [open_ for open_ in self.headings if open_[0] < level], []

    def enter(self, i: int, line: str, level: int, *, in_record: bool) -> None:
        """What a line begins."""
        body, indent = line.lstrip(), self.indent
        if level > 1:
            self.headings.append((level, i))
        elif _DEFINES.match(body) or _LIST_ITEM.match(body):
            self.headings = self.headings if indent or _LIST_ITEM.match(body) else []
            self.blocks.append((indent, i))
        elif in_record and _NAMES.match(body):
            self.blocks.append((indent - 1, i))  # what follows in the record stands under it
        elif line.endswith(_OPENS):
            self.blocks.append((indent, i))


class _Files:
    """Which line names the file that a piece is part of: the one before its fence, or before its numbered lines.

    So search tools print parts of several files: `src/pool.py`, below it the lines.
    """

    def __init__(self, text: str, found: Sequence[Piece]) -> None:
        self._text, self._found = text, found
        self.name = -1
        """Of the piece that `begins` was last asked about; -1 for none."""
        self._fenced = False
        self._plain = -1
        """The newest piece that is no numbered line, and says something."""

    def begins(self, at: int, line: str, *, numbered: bool) -> bool:
        """Whether a piece begins or ends the part of a file; to be asked in order."""
        before = self.name
        if line.startswith(_FENCE):
            self._fenced = not self._fenced
            self.name = self._just_before(at) if self._fenced else -1
            self._plain = -1
            return True
        if self._fenced:
            return False
        if numbered and self.name < 0:
            self.name = self._just_before(at)
        elif not numbered and any(map(str.isalnum, line)):  # "--" stands between parts of the same file
            self.name, self._plain = -1, at
        return self.name != before

    def _just_before(self, at: int) -> int:
        """The plain piece in the line before one; -1 if there is none."""
        if self._plain < 0 or self._plain != at - 1:
            return -1
        between = self._text[self._found[at - 1].stop : self._found[at].start]
        return at - 1 if between.count("\n") == 1 else -1


def _within_line(text: str, stop: int, start: int) -> bool:
    """Whether no line ends between two pieces, also no line of a printed string."""
    return "\n" not in text[stop:start] and not text.startswith("\\n", start - 2)


def _indentation(text: str, start: int) -> str:
    """The blanks before a piece in its line, also where the lines are those of a printed string."""
    printed = _PRINTED_INDENT.search(text, max(0, start - _LONG_LINE), start)
    return printed[1] if printed else _indent(text, start)


def _rows(text: str, found: Sequence[Piece]) -> dict[int, int]:
    """By piece, the head of the table that it is a row of, with the line below it: it names the columns.

    Of a later part of a long row its first part, which names the record, unless that is too long to stay for it.
    """
    parents: dict[int, int] = {}
    head = row = -1
    bar = _ROW
    for i, piece in enumerate(found):
        above = text.count("\n", found[i - 1].stop, piece.start) if i else 1
        if not above:
            if head >= 0:
                parents[i] = row if found[row].stop - found[row].start <= _LONG_LINE else head
            continue
        before, row = row, i
        if head >= 0 and not text.startswith(_ROW, piece.start):
            line = text[piece.start : piece.stop]
            head = -1 if above > 1 or (bar not in line and not _separates(line)) else head
        if head >= 0:
            parents[i] = head
        elif i and text[piece.start] in _RULE:
            line = text[piece.start : piece.stop]
            if not _names_columns(text[found[before].start : found[i - 1].stop], line):
                continue
            head, bar = i - 1, _ROW if _has_bars(line) else ""
            parents.update((part, part - 1) for part in range(before + 1, i))  # of a long head
            # A short rule costs little, and without it there is no table.
            if _SHORT_RULE.fullmatch(line):
                parents[i], head = head, i
    return parents


def _names_columns(line: str, below: str) -> bool:
    """Whether a line names the columns of a table, by the rule below it."""
    if not (_COLUMNS.match(below) and _separates(below)):
        return False
    has_columns = _ROW in line if _has_bars(below) else len(line.split()) >= len(below.split())
    return has_columns and any(map(str.isalnum, line))


def _has_bars(rule: str) -> bool:
    """Whether it is the rule of a table whose columns are parted by bars, and not by blanks."""
    return _ROW in rule or "+" in rule


def _keys(text: str, found: Sequence[Piece]) -> dict[int, int]:
    """By piece of a reformatted record, the key that it stands under, by indentation."""
    parents: dict[int, int] = {}
    keys: list[tuple[int, int]] = []
    for i, piece in enumerate(found):
        indent = len(_indent(text, piece.start))
        while keys and keys[-1][0] >= indent:
            keys.pop()
        if keys:
            parents[i] = keys[-1][1]
        if text.startswith(":", piece.stop - 1):
            keys.append((indent, i))
    return parents


def _verdicts(text: str, found: Sequence[Piece]) -> dict[int, int]:
    """By line that only says that something failed, the first line of its paragraph: what has failed."""
    cases: dict[int, int] = {}
    first = 0
    for i, (start, stop, *_) in enumerate(found):
        if i and text.count("\n", found[i - 1].stop, start) != 1:
            first = i
        if i > first and _VERDICT.fullmatch(text, start, stop):
            if i - first <= _LONGEST_CASE and ERROR.search(text[start:stop]):
                cases[i] = first
            first = i + 1  # what follows is another case, also after one that passed
    return cases


def _separates(line: str) -> bool:
    """Whether a line only separates what stands above it from what stands below."""
    return not line.strip(_RULE)


def is_heading(line: str) -> bool:
    """Whether a line is a heading of Markdown with its signs."""
    return 0 < _level_of(line) < _BOLD


def _level_of(line: str) -> int:
    """Level of a heading, or of the line above a summary of its own; 0 for any other line."""
    head = _HEADING.match(line)
    if head is None:
        return _SUMMARISING if SUMMARY.fullmatch(line.rstrip()) else 0
    return len(head[1]) if head[1] else _BOLD


def _announcing(said: Sequence[str]) -> frozenset[int]:
    """Where headings and labels stand that have text below them, and heads of tables: what follows says something."""
    levels = [level if (level := _level_of(line)) > 1 else 0 for line in said]  # with a single # it may be a comment
    # "Challenge 1: …", "Challenge 2: …" are titles; "Status: done" says something.
    kinds = [
        line.partition(":")[0].translate(_DIGITS) if level else "" for line, level in zip(said, levels, strict=True)
    ]
    times = Counter(kinds)
    return frozenset(
        i
        for i, (line, below) in enumerate(pairwise(said))
        if (levels[i] and not 0 < levels[i + 1] <= levels[i] and (times[kinds[i]] > 1 or not STATEMENT.match(line)))
        or _LABEL.match(without_number(line))
        or _names_columns(line, below)
        or (line.endswith(":") and below.startswith(_ROW))
    )


def _summarised(said: Sequence[str]) -> Iterator[int]:
    """Where a text's own summary stands: below a line that says so, up to the next heading or rule."""
    left = 0
    for i, line in enumerate(said):
        if SUMMARY.fullmatch(without_number(line)):
            left = _LONGEST_SUMMARY
        elif _level_of(line) or _separates(line):
            left = 0
        elif left:
            left -= 1
            yield i


def _first_items(text: str, found: Sequence[Piece]) -> Iterator[int]:
    """Where the first hit of a search begins, with the line below it: lists of records come with the best one first."""
    in_list = False
    for i, (start, stop, *_) in enumerate(found):
        item = _ITEM.match(text, start, stop)
        begins = item is not None and item[1] == "1"
        listed = _LIST_ITEM.match(text, start, stop) is not None
        if begins or (listed and not in_list):
            yield i
            if i + 1 < len(found):
                yield i + 1
        in_list = in_list or listed


def _openers(text: str, found: Sequence[Piece], said: Sequence[str]) -> set[int]:
    """Where lines stand that say nothing without the one below: `except OSError:`, `import (`, but no `def`.

    A sentence that goes on after a comma may say the opposite there.
    """
    return {
        i
        for i, (line, (above, below)) in enumerate(zip(said, pairwise(found), strict=False))
        if (line.endswith(_OPENING) and not defines(line) and _depth(text, above) < _depth(text, below))
        or (line.endswith(",") and len(line.split()) >= _LEAST_WORDS and text[below.start].islower())
    }


def _depth(text: str, piece: Piece) -> int:
    """How far a line is indented, behind the number that a tool put before it."""
    line = _indentation(text, piece.start) + text[piece.start : piece.stop]
    number = _LINE_NUMBER.match(line)
    line = line[number.end() :] if number else line
    return len(line) - len(line.lstrip())


def _items(text: str, found: Sequence[Piece]) -> dict[int, int]:
    """By piece, the first one of its item, where items of a numbered list have several lines: results of a search."""
    heads: list[tuple[int, int]] = []
    for i, piece in enumerate(found):
        if piece.opened is None and (item := _ITEM.match(text, piece.start, piece.stop)):
            heads.append((i, int(item[1])))
    items: dict[int, int] = {}
    size = 0
    """Pieces of the longest item of the list so far."""
    for k, (i, number) in enumerate(heads):
        stop, following = heads[k + 1] if k + 1 < len(heads) else (len(found), 0)
        if following != number + 1:  # the list's last item
            stop, size = min(stop, i + size), 0
        else:
            size = max(size, stop - i)
        items.update(dict.fromkeys(range(i + 1, stop), i))
    return items


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
    return _joined(commas, own=int(line.lstrip().startswith("{")))


def _joined(commas: list[tuple[int, int, int | None]], *, own: int) -> list[tuple[int, int | None]]:
    """Ends of pieces: at each comma of depth `own`, else at the outermost one near where a piece has a certain size."""
    ends: list[tuple[int, int | None]] = []
    start, best = 0, None
    for comma in commas:
        end, depth, _ = comma
        is_own = depth == own and end - start >= _LEAST_FIELD
        if best is None or is_own or depth <= best[1]:
            best = comma
        if is_own or end - start >= _PIECE:
            ends.append((best[0], best[2]))
            start, best = best[0], None
    return ends


def _parts(line: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """A stretch of a line, cut where it is long: behind lines of a printed string, sentences, or words.

    A part that is still long is cut in the next way. No short rest is cut off.
    """
    cuts = [start, stop]
    for pattern in (_ESCAPED_BREAK, _SENTENCE, _WORD):
        least = 1 if pattern is _ESCAPED_BREAK else _PIECE
        long = [(a, b) for a, b in pairwise(cuts) if b - a > _LONG_LINE]
        cuts = sorted({*cuts, *(end for a, b in long for end in _ends(pattern, line, a, b, least))})
    return pairwise(cuts)


def _ends(pattern: re.Pattern[str], line: str, start: int, stop: int, least: int) -> Iterator[int]:
    """Where a pattern ends in a part of a line, with at least so many characters before it."""
    for gap in pattern.finditer(line, start, stop):
        if gap.end() - start >= least and stop - gap.end() >= _LEAST_REST:
            yield gap.end()
            start = gap.end()


def alone(lines: Sequence[str]) -> set[int]:
    """Where the few lines stand that are like no other, digits aside, if most are alike: one failure among passes."""
    if len(lines) <= 1:
        return set()
    shapes = [line.translate(_DIGITS).strip() for line in lines]
    counts = Counter(shapes)
    alike = sum(n for n in counts.values() if n > 1)
    if alike < _MOSTLY * len(shapes):
        return set()
    found = {i for i, shape in enumerate(shapes) if counts[shape] == 1 and any(map(str.isalnum, lines[i]))}
    return found if len(found) <= _MOST_ALONE else set()


def sums_up(line: str) -> bool:
    """Whether the last line of what was printed says how much there was: it has a count, and is not the tool's own.

    That is a line of a file with its number, or what the tool has measured of its work ("duration_ms: 44").
    """
    counts = len(line) <= _LONGEST_COUNT and any(map(str.isdigit, line)) and any(map(str.isalpha, line))
    return counts and MEASURE.fullmatch(line) is None and _NUMBERED_LINE.match(line) is None


def _is_own_field(text: str, piece: Piece) -> bool:
    """Whether a piece is a field with a short value of the record that a text is: its state, its total."""
    outermost = piece.opened is not None and not text[: piece.opened].strip()
    short = outermost and piece.stop - piece.start <= _PIECE
    return short and _OWN_FIELD.fullmatch(text, piece.start, piece.stop) is not None


class _Numbered(NamedTuple):
    """Of a text of which nearly all lines have numbers, as tools show a file."""

    empty: set[int]
    """Where lines stand that have a number and nothing else with a letter or digit."""
    below: range
    """Where the tool's own words stand below the file: that it was clipped, and how to go on."""

    @classmethod
    def of(cls, text: str, found: Sequence[Piece], said: Sequence[str]) -> _Numbered:
        """No lines, for another text."""
        heads = [_LINE_NUMBER.match(line) for line in said]
        numbers = [int(head[1]) if head else -1 for head in heads]
        follow = sum(1 for a, b in pairwise(numbers) if b == a + 1 > 0)
        if len(said) < _LEAST_LINES or follow < _NUMBERED * (len(said) - 1):
            return cls(set(), range(0))
        empty = {i for i, head in enumerate(heads) if head and not any(map(str.isalnum, said[i][head.end() :]))}
        below = 1 + max(i for i, head in enumerate(heads) if head)
        stop = min(len(said), below + _MOST_BELOW)
        if below < stop and _within_line(text, found[below - 1].stop, found[below].start):
            below -= 1  # they begin in the last line of the file
        return cls(empty, range(below, stop))


def _repeats(said: Sequence[str]) -> set[int]:
    """Where lines stand that are like many others, hours and ids aside, but for the first ones and the last."""
    by_shape: dict[str, list[int]] = {}
    for i, line in enumerate(said):
        by_shape.setdefault(without_ids(line), []).append(i)
    return {
        i
        for shape, places in by_shape.items()
        if len(places) > _MOST_ALIKE and sum(map(str.isalpha, shape)) >= _LEAST_SHAPE
        for i in places[_MOST_ALIKE - 1 : -1]
    }


def without_ids(line: str) -> str:
    """A line with a sign for each hour and id in it."""
    return _NAME.sub(_without_id, line)


def _without_id(name: re.Match[str]) -> str:
    """A sign for an hour or an id, anything else as it is: rows that differ in numbers are data."""
    is_id = any(map(str.isdecimal, name[0])) and not name[0].replace(".", "").isdecimal()
    return "#" if is_id else name[0]


def _rarity(lines: Sequence[str]) -> list[float]:
    """How much it says that a line begins as it does, up to 1: of many that passed, those that failed tell most."""
    heads = [tuple(line.translate(_DIGITS).split(None, _HEAD)[:_HEAD]) for line in lines]
    counts, most = Counter(heads), log(len(lines) or 1)
    return [1 - (1 - _COMMON) * log(counts[head]) / most if most else 1.0 for head in heads]


def _spread(worths: list[float], found: Sequence[Piece], frames: Container[int]) -> list[float]:
    """The worth of each piece, and for lines of plain text a part of that of the lines around them.

    What is in `frames` says nothing of what stands beside it.
    """
    spread, most = list(worths), len(_AROUND)
    padded = [0.0] * most + worths + [0.0] * most
    for i, piece in enumerate(found, start=most):
        if i - most in frames:
            spread[i - most] *= _COMMON
        elif piece.is_plain:
            own = padded[i]
            for step, share in enumerate(_AROUND, start=1):
                spread[i - most] += share * max(padded[i - step], padded[i + step], own)
    return spread


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
        self._said = said = [text[p.start : p.stop] for p in found]
        self._parents = parents = _parents(text, found)
        self._names = [said[parent] if parent >= 0 else "" for parent in parents]
        documents, marks = _documents(text, found, said)
        for i, head in documents.items():
            parents[i] = max(parents[i], head)
        frames = _frames(said, documents)
        lonely, rarity = alone(said), _rarity(said)
        worth_of = {piece: worth(piece) for piece in dict.fromkeys(said)}
        own = [worth_of[line] * rarity[i] for i, line in enumerate(said)]
        in_rows = TABLE in text  # then a line says nothing of those around it
        self._worths = [*own] if in_rows else _spread(own, found, frames)
        if found and not own[-1] and found[-1].is_plain and sums_up(said[-1]):
            own[-1] = _COUNTS
            self._worths[-1] += _COUNTS
        # What only announces what stands below it stays with that, and what only separates beside what it separates.
        dependent = (
            _announcing(said)
            | {i for i in marks if not (_COUNT.search(said[i]) or ERROR.search(said[i]))}
            | {i for i, line in enumerate(said) if _separates(line)}
        )
        outcomes = {i for i, line in enumerate(said) if outcome and " ".join(line.split()) == outcome}
        dependent -= outcomes
        self._first = [i for i, worth in enumerate(own) if (worth > 0 or i in lonely) and i not in dependent]
        for i in self._first:
            self._worths[i] += _OWN * _is_own_field(text, found[i])
        for i in _summarised(said):
            self._worths[i] += _IN_SUMMARY * (own[i] > 0)
        for i in _first_items(text, found):
            self._worths[i] += _ALONE * (own[i] > 0)
        for i in {0, len(found) - 1, *lonely} if found else ():
            of_record = self._reformatted and not i  # its first field says less than what the text in it says
            self._worths[i] += _ALONE if i in lonely else _AT_ENDS * (own[i] > 0 and not of_record)
        for i in outcomes.intersection(self._first):
            self._worths[i] += _OUTCOME
        numbered = _Numbered.of(text, found, said)
        for i in numbered.below:
            self._worths[i] += _OUTCOME
        fields = {
            i for i, worth in enumerate(own) if self._reformatted and not worth and any(map(str.isalpha, said[i]))
        }
        worthless = fields - {*lonely, *outcomes, *numbered.below}
        self._empty = numbered.empty | worthless | (set() if repeats else _repeats(said))
        for i in self._empty:
            self._worths[i] = 0.0
        self._beside_nothing = self._empty | dependent | frames
        """What is not shown because it stands beside something that is."""
        self._openers = _openers(text, found, said)
        self._continued = {i for i in range(1, len(found)) if _goes_on(text, found[i - 1], found[i])}
        """What is cut off the piece before it between words: who or what it is about stands there."""

    def of(self, characters: int) -> Excerpt:
        """The excerpt of at most so many characters."""
        if len(self._text) <= characters:
            return self._excerpt(self._text, 0)
        found, said, names, worths = self._found, self._said, self._names, self._worths
        # What says nothing by itself stays only beside what does.
        best = [(-worths[i] / (_OVERHEAD + len(said[i])), -i) for i in self._first if worths[i] > 0]
        heapify(best)
        left, chosen, tried, shown = characters - _GAP, set[int](), set[int](), set[tuple[str, str]]()
        while best and left > _GAP:
            i = -heappop(best)[1]
            if i in tried or (names[i], said[i]) in shown:  # once is enough
                continue
            tried.add(i)
            above = [k for k in self._above(i) if k not in chosen]
            new = {i, *above, *((i + 1,) if i in self._openers else ())} - chosen
            size = sum(map(self._room, new))
            while size > left and len(above) > _LEAST_ABOVE:
                new.discard(outer := above.pop())
                size -= self._room(outer)
            if not new or size > left:
                continue
            # As far as there is room: a telling piece without whom it is about is better than none.
            whole = new | ({k - 1 for k in new if k in self._continued} - chosen)
            new = whole if sum(map(self._room, whole)) <= left else new
            bridged = new | self._between(new, chosen, characters)
            new = bridged if sum(map(self._room, bridged)) <= left else new
            chosen |= new
            shown.update((names[k], said[k]) for k in new)
            left -= sum(map(self._room, new))
            for k in {k + step for k in new for step in (-1, 1)} - chosen:
                if 0 <= k < len(found) and k not in self._beside_nothing:
                    heappush(best, (-worths[k] / (_BESIDE + len(said[k])), -k))
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
                if last - first <= 1 or found[last].start - found[first].stop > most:
                    continue
                inside = range(first + 1, last)
                if all(self._worths[j] > 0 or not any(map(str.isalpha, self._said[j])) for j in inside):
                    between.update(inside)
        return between

    def _room(self, k: int) -> int:
        """Most characters that a piece takes, with what stands before it."""
        piece = self._found[k]
        between = piece.start - self._found[k - 1].stop if k else 0
        return len(self._said[k]) + max(_GAP + len(_indent(self._text, piece.start)), between)


def excerpt(text: str, characters: int, worth: Callable[[str], float], *, repeats: bool = True) -> Excerpt:
    """At most `characters` of a text: the pieces with the highest worth for their length, later ones before equal ones.

    A field of JSON brings along what names its record, a line of a list the first line of its item. A text that is not
    longer stays as it is. `worth` rates a piece. Without `repeats`, of lines that differ in hours and ids only a few
    are chosen.
    """
    if len(text) <= characters:
        return Excerpt(text, 0, len(text))
    return Excerpts(text, worth, repeats=repeats).of(characters)


def _goes_on(text: str, before: Piece, piece: Piece) -> bool:
    """Whether a piece goes on with the sentence of the one before it."""
    same = before.opened is None and piece.opened is None and _within_line(text, before.stop, piece.start)
    words = before.stop - before.start <= _LONG_LINE  # a longer one could not be cut between words
    return same and words and text[before.stop - 1] not in _ENDS_PIECE


def _indent(text: str, start: int) -> str:
    """The white space before a piece in its line; "" where something else precedes it."""
    first = max(0, start - _LONG_LINE)  # what a long line begins with is far away, and no indentation
    at = text.rfind("\n", first, start)
    before = text[max(at + 1, first) : start]
    return "" if before.strip() or (at < 0 < first) else before


def _in_order(text: str, found: Sequence[Piece], chosen: list[int]) -> tuple[str, int]:
    """The chosen pieces, word for word, with "…" for each gap, and how many characters are not in them."""
    parts: list[str] = []
    kept = 0
    for before, i in zip([-1, *chosen], chosen, strict=False):
        start, stop = found[i].start, found[i].stop
        between = text[found[before].stop : start] if before >= 0 else ""
        if i == before + 1:
            between = between or _indent(text, start)
            parts.append(between)
            kept += len(between)
        elif before < 0:
            parts.append(f"…\n{_indent(text, start)}" if "\n" in text[:start] else "… ")
        else:
            parts.append(f"\n…\n{_indent(text, start)}" if "\n" in between else " … ")
        parts.append(text[start:stop])
        kept += stop - start
    if chosen[-1] < len(found) - 1:
        parts.append("\n…" if "\n" in text[found[chosen[-1]].stop :] else " …")
    return "".join(parts), len(text) - kept
