"""Quoting: in a text that is shown beside our own lines, none of its lines looks like one of ours."""

from __future__ import annotations

import re

MARK = "> "
"""What stands before a quoted line that would look like ours."""
_BREAK = r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]"
_BLANK = r"[ \t\xa0\u1680\u2000-\u200f\u202f\u205f\u2060\u3000\ufeff]"
_ANY_BREAK = re.compile(rf"\r\n|{_BREAK}")
_HEADINGS = (
    "the user said|the agent (?:said|answered|noted)|plan|instructions read|where|started, no end seen|calls|done"
    "|looked at|lines"
)
_OURS = (
    # Heads of transcripts, pages and passages.
    r"\[(?:user|assistant|system|developer|tool|function)(?: thinking)?\]",
    r"\[(?:call|result|offset|session|earlier note|reference note|end of reference|context status|what the tool)\b",
    r"\[(?:the rest: |image )?(?:m[0-9]{1,15}|c_[0-9a-f]{1,64}|[0-9a-f]{8}[0-9a-f-]{0,56})[-:,\]]",
    r"</?transcript\b",
    # Lines of notes: their first, their headings, and those about a message.
    r"[0-9]{1,15} earlier messages?\b",
    rf"(?:{_HEADINGS}):{_BLANK}*(?={_BREAK}|\Z)",
    r"m[0-9]{1,15}(?:-m[0-9]{1,15})?(?::| [^\n]{0,400}->)",
    r"(?:read|called) again(?:: m[0-9]| below)",
)
_LINE = re.compile(rf"(\A|{_BREAK})({_BLANK}*)(?={'|'.join(_OURS)})", re.IGNORECASE)


def quoted(text: str, *, at_start: bool = True) -> str:
    """The text with "> " before each line that looks like a head, a heading, a mark or a line of ours.

    Every other line stays as it is, and a text that is quoted twice is as if quoted once. `at_start` is False where the
    text follows words of ours on their line.
    """
    if not at_start and text.splitlines() in ([text], []):  # one line, as most texts: all of it follows our words
        return text
    if at_start:
        return _LINE.sub(rf"\1{MARK}\2", text)
    return _LINE.sub(lambda m: m[0] if not m.start() and not m[1] else f"{m[1]}{MARK}{m[2]}", text)


def quotation(text: str) -> str:
    """The text with "> " before each of its lines, where no line of it may look like a speaker's own."""
    return MARK + _ANY_BREAK.sub(rf"\g<0>{MARK}", text)
