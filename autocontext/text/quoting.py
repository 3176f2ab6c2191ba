"""Quoting: in a text that is shown beside our own lines, none of its lines looks like one of ours."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

MARK = "> "
"""What stands before a quoted line that would look like ours."""
_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_CONTROLS = r"\0-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"
_BREAK, _OTHER = f"[{_BREAKS}]", f"[^{_BREAKS}]"
_HIDDEN = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\U000e0000-\U000e0fff"
)
"""What nobody sees within a word."""
_UNSEEN = (
    rf"{_CONTROLS}{_HIDDEN} \t\xa0\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u1680\u2000-\u200a\u202f\u205f\u2800"
    r"\u3000\ud800-\udfff\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
"""Blanks, the categories Cc (but for breaks), Cf and Cs, and what Unicode calls default-ignorable."""
_BLANK = f"[{_UNSEEN}]"
_WITHIN = re.compile(f"[{_HIDDEN}]")
_DISGUISE = re.compile(rf"[{_HIDDEN}\uff1c\uff21-\uff3d\uff41-\uff5a]")
"""The same, and letters and brackets of another width."""
_LINE = re.compile(rf"({_BREAK})({_OTHER}++)")
_ANY_BREAK = re.compile(rf"\r\n|{_BREAK}")
# Repetitions that cannot match in two ways are possessive ("*+"), so that none is tried again.
_END = rf"{_BLANK}*+(?={_BREAK}|\Z"
_BULLET = rf"[-*+#_~`\"'|\u2022{_UNSEEN}]{{0,8}}+"
_LISTED = rf"{_BULLET}(?:[0-9]{{1,3}}[.)]{_BULLET})?+"
"""What stands before a line that is in a list, a heading or bold in Markdown."""
_BOLD = r"[*_`\"']{0,4}+"
_ROLE = rf"{_BLANK}*+(?:user|assistant|system|developer|tool|function)(?:{_BLANK}[^\]{_BREAKS}]{{0,40}})?\]"
_HEADINGS = (
    "the user said|the agent (?:said|answered|noted)|plan|instructions read|where|started, no end seen|calls|done"
    "|looked at|lines|earlier lines with what the next message names"
)
_BRACKET = (
    rf"\[(?![{_BREAKS}\[\]{{\"'])(?:{_ROLE}"
    r"|(?:call|result|offset|session|earlier note|reference note|end of reference|context status)\b"
    r"|(?:what the tool|the tool answered|the end of what the tool)\b"
    r"|(?:the rest: |image |file )?(?:m[0-9]{1,15}|c_[0-9a-f]{1,64}|[0-9a-f]{8}[0-9a-f-]{0,56})[-:,\]]"
    rf"|(?:image|file): [^\[\]{_BREAKS}]{{1,200}}, left out\])"
)
"""Heads of transcripts, pages and passages, and marks."""
_NUMBERED = (
    rf"m[0-9]{{1,15}}(?:-m[0-9]{{1,15}})?(?:(?:{_BLANK}*+\([^(){_BREAKS}]{{1,60}}\)){{0,2}}{_BLANK}*+[:\uff1a]"
    rf"|{_BLANK}(?:{_OTHER}{{0,800}}->|{_OTHER}{{1,400}}:{_END}|> )"
    rf"|{_OTHER}{{1,400}}\(x[0-9]{{1,15}}, each with the same result\)))"
)
"""Lines about messages, calls, what several calls name, and equal calls."""
_OURS = (
    _BRACKET,
    r"<(?:/?transcript|!-- ?context_offload)\b",
    # Lines of notes: their first, others, and their headings.
    r"[0-9]{1,15} (?:earlier messages?\b|(?:hour|day)s? later, [0-9]{4}-)",
    _NUMBERED,
    r"(?:read|called) again(?:: m[0-9]| below)",
    r"\.\.\. and [0-9]{1,15} more steps?\b",
    rf"(?![\[<m]){_LISTED}(?:\[{_ROLE}|(?:{_HEADINGS}){_BOLD}{_BLANK}*+[:\uff1a]{_BOLD}{_END}|m[0-9]))",
)
_FIRSTS = r"(?=[-*+#_~`\"'|\u2022\[<.0-9MmRrTtPpIiWwSsCcDdLlEe])"
"""What these begin with: a quick test that rules out most lines."""
_SEQUENCE = (
    rf"(?:(?:(?<=[{_CONTROLS}])(?!(?i:{_BRACKET}))\[[0-?]{{0,32}}+[ -/]{{0,4}}+|(?<=\x9b)[0-9;]{{1,32}}+)[@-~]"
    r"|(?<=\x1b)(?:[()*+][0-9A-Z]|[=>78cM]|\][^\x07\x1b\n]{0,200}+(?:\x07|\x1b\\)))"
)
"""What a terminal does not show behind a control character: a colour, a set of characters, a title or a link."""


@cache
def _line() -> re.Pattern[str]:
    """The break and the blanks before a line like ours. Compiled at its first use, as that takes 10 ms."""
    blanks = rf"{_BLANK}*+(?:{_SEQUENCE}{_BLANK}*+)*+"
    return re.compile(rf"({_BREAK})({blanks}){_FIRSTS}(?=(?i:{'|'.join(_OURS)}))")


def quoted(text: str, *, at_start: bool = True) -> str:
    """The text with "> " before each line that looks like a head, a heading, a mark or a line of ours.

    Every other line stays as it is, and a text that is quoted twice is as if quoted once. `at_start` is False where the
    text follows words of ours on their line.
    """
    # The engine finds a break ten times as fast as "a break or the beginning".
    text = _line().sub(rf"\1{MARK}\2", f"\n{text}" if at_start else text)
    if not text.isascii() and _DISGUISE.search(text):
        text = _LINE.sub(_undisguised, text)
    return text[at_start:]


def _undisguised(line: re.Match[str]) -> str:
    """A line, with the mark before it if it looks like ours to a reader."""
    if not _DISGUISE.search(line[2]):
        return line[0]
    seen = unicodedata.normalize("NFKC", _WITHIN.sub("", line[2]))
    return f"{line[1]}{MARK if _line().match(chr(10) + seen) else ''}{line[2]}"


def quotation(text: str) -> str:
    """The text with "> " before each of its lines, where no line of it may look like a speaker's own."""
    return MARK + _ANY_BREAK.sub(rf"\g<0>{MARK}", text)
