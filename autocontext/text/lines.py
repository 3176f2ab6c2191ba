"""What a line is by its form: a heading, the head of a file, record or table, an import, a count."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from autocontext.caches import cached
from autocontext.text.signs import SUMMARY

_REMEMBERED = 8_192
"""Lines of which it is kept whether they name something."""
_NAME = re.compile(r"[A-Za-z0-9_.+:-]+")
"""An hour, an id or a word; a pattern that looks for the digit in it takes quadratic time."""
DIGITS = str.maketrans("", "", "0123456789")
"""For `str.translate`: leaves them out."""
_MOSTLY = 0.6
"""Share of pieces that are alike in a text in which the others tell more."""
_MOST_ALONE = 5
"""With more of them, it is no such text."""
LINE_NUMBER = re.compile(r"\s*(\d{1,7})(?:[\t:|→]|\s|$)")
"""The number that a tool puts before a line of a file."""
NUMBERED_LINE = re.compile(r"\s*\d{1,7}(?:[\t:|→]|$)")
"""Unlike `LINE_NUMBER` not "70 passed"."""
DEFINES = re.compile(
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
LIST_ITEM = re.compile(r"- \w[\w .-]{0,40}:(?:\s|\\|$)")
"""The first line of a record in a list of YAML."""
NAMES = re.compile(r"(?:\w{1,30}_)?(?:name|title|id|key|url): \S")
"""A line of such a record that says which one it is."""
_HEADING = re.compile(r"(#{1,6}) \S|\*\*[^*]{1,100}\*\*:?$")
"""A heading of Markdown, at the beginning of a line. With a single # it may be a comment, and only ends others."""
_BOLD, _SUMMARISING = 7, 8
"""Levels of a heading in bold type, below those with #, and of a line above a summary."""
_DOCUMENT = re.compile(
    r"(={2,}>|={2,}|-{3,}|\*{3,}|~{3,}|\+{3,}|:{3,}|/{3,}) ?(?!\s)[^=*~+:/>-]"
    r"|(?:-{1,3}(?=\[ ))?(\[)\[? ?[^\W\d][^\[\],]{0,80}\]{1,2}[-=*+]*$"
)
"""What stands above each of several files or records that were printed: "==> src/pool.py <==", "--- prod/billing.hcl",
"[staging]", "-[ RECORD 2 ]---"."""
_RULED = re.compile(r"[^\W\d](?:.{0,120}[^\s:=,|])? ([*=~-])\1{3,}$")
"""The same with its sign behind it: "TASK [restart] ******"; but "password: ******" is a value."""
_RULES = tuple(4 * sign for sign in "*=~-")
HEADLINE = r"[^#:]{3,60}(?::| [–—]) \S"
"""What a heading says beside what it is about: "Status: partly done", "Summary — all done"."""
STATEMENT = re.compile(
    r"\*\*[^*]{8,200}[.!。！]\*\*|\*\*[^*]{3,100} [–—] [^*]{3,100}\*\*|\*\*[^*]{3,100}\*\* ?[–—-] \S"
    rf"|\*\*[^*:]{{3,40}}:\*\* \S|#{{2,6}} {HEADLINE}"
)
"""At the beginning of a line of Markdown: a sentence or a result in bold type, or a heading that says one."""
ROW, _RULE = "|", "-=*_|+: "
"""What a row of a table begins with, and what a line that only separates consists of, such as that below its head."""
_COLUMNS = re.compile(r"[|+]|[-=]+[+| ]+[-=]")
"""What the rule below the head of a table begins with: `|--`, `+--`, `---+---`, `---  ---`."""
_LONGEST_COUNT = 200
MEASURE = re.compile(r"(?:<\w{1,20}>)?([^\W\d_][\w ./-]{1,40}[:=：]) ?[^\s\d]{0,3}\d\S{0,40}(?: \w{1,12})?")
"""What a tool has measured of its own work: "Wall time: 0.05 seconds"."""


def without_number(line: str) -> str:
    """A line without the number that a tool puts before it, and without the blanks around it."""
    number = LINE_NUMBER.match(line)
    return line[number.end() :].strip() if number else line.strip()


@cached(_REMEMBERED)
def defines(line: str) -> bool:
    """Whether a line begins a function or class, or names a record; a number that a tool put before it is no part.

    Cached, since each note of each pass rates the lines of results anew.
    """
    own = without_number(line)
    return any(pattern.match(own) for pattern in (DEFINES, LIST_ITEM, NAMES))


def begins_record(line: str) -> bool:
    """Whether a line begins a record in a list of YAML."""
    return LIST_ITEM.match(line.lstrip()) is not None


def begins_document(line: str) -> str:
    """The sign with which a line names what is printed below it, "===", "---" or "["; "" for any other line."""
    head = _DOCUMENT.match(line) or (line.endswith(_RULES) and _RULED.match(line))
    return head[head.lastindex or 0] if head else ""


def is_heading(line: str) -> bool:
    """Whether a line is a heading of Markdown with its signs."""
    return 0 < level_of(line) < _BOLD


def level_of(line: str) -> int:
    """Level of a heading, or of the line above a summary of its own; 0 for any other line."""
    head = _HEADING.match(line)
    if head is None:
        return _SUMMARISING if SUMMARY.fullmatch(line.rstrip()) else 0
    return len(head[1]) if head[1] else _BOLD


def separates(line: str) -> bool:
    """Whether a line only separates what stands above it from what stands below."""
    return not line.strip(_RULE)


def names_columns(line: str, below: str) -> bool:
    """Whether a line names the columns of a table, by the rule below it."""
    if not (_COLUMNS.match(below) and separates(below)):
        return False
    has_columns = ROW in line if has_bars(below) else len(line.split()) >= len(below.split())
    return has_columns and any(map(str.isalnum, line))


def has_bars(rule: str) -> bool:
    """Whether it is the rule of a table whose columns are parted by bars, and not by blanks."""
    return ROW in rule or "+" in rule


def sums_up(line: str) -> bool:
    """Whether the last line of what was printed says how much there was: it has a count, and is not the tool's own.

    That is a line of a file with its number, or what the tool has measured of its work ("duration_ms: 44").
    """
    counts = len(line) <= _LONGEST_COUNT and any(map(str.isdigit, line)) and any(map(str.isalpha, line))
    return counts and MEASURE.fullmatch(line) is None and NUMBERED_LINE.match(line) is None


def without_ids(line: str) -> str:
    """A line with a sign for each hour and id in it."""
    return _NAME.sub(_without_id, line)


def _without_id(name: re.Match[str]) -> str:
    """A sign for an hour or an id, anything else as it is: rows that differ in numbers are data."""
    is_id = any(map(str.isdecimal, name[0])) and not name[0].replace(".", "").isdecimal()
    return "#" if is_id else name[0]


def alone(lines: Sequence[str]) -> set[int]:
    """Where the few lines stand that are like no other, digits aside, if most are alike: one failure among passes."""
    shapes = [line.translate(DIGITS).strip() for line in lines]
    counts = Counter(shapes)
    if len(lines) - sum(n for n in counts.values() if n == 1) < _MOSTLY * len(lines):
        return set()
    found = {i for i, shape in enumerate(shapes) if counts[shape] == 1 and any(map(str.isalnum, lines[i]))}
    return found if len(found) <= _MOST_ALONE else set()
