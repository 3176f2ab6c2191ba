"""What a tool said, out of what wraps it: the Model Context Protocol's answer, a record of JSON, an element.

From the protocol agents often get `str(result)` of a client,
`meta=None content=[TextContent(type='text', text='...')] isError=False`, or
the protocol's JSON, `{"content": [{"type": "text", "text": "..."}], "isError": false}`, or its list alone, or one
within the other.
Formats: MCP specification 2025-06-18, "CallToolResult", and the `repr` of its Python SDK.
"""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections.abc import Iterator
from typing import Any, NamedTuple

from autocontext.caches import cached
from autocontext.messages import leaves

READ = 256
"""Answers that are kept as they were read: each pass looks at those in view, and each note tells them."""
_LONGEST = 1_000_000
"""Characters; a longer answer is not opened."""
_MOST_LEVELS = 4
"""Answers printed within answers that are opened."""
_PRINTED = re.compile(r"\s*(?:meta=\S{1,80} )?content=\[")
_ESCAPE = r"\\(?:[\\'\"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"
"""What `repr` writes; of any other escape Python would warn."""
_STRING = rf"(?:'(?:[^'\\\n]|{_ESCAPE})*+'|\"(?:[^\"\\\n]|{_ESCAPE})*+\")"
_TEXT = re.compile(rf"TextContent\(type='text', text=({_STRING})")
_BLOCK = rf"TextContent\(type='text', text={_STRING}(?:, (?:annotations|meta)=None)*\)"
_ONLY_TEXTS = re.compile(
    rf"\s*(?:meta=None )?content=\[{_BLOCK}(?:, {_BLOCK})*+\](?: structuredContent=None)? isError=(?:True|False)\s*"
)
_BLOCKS = re.compile(r'\s*\[\s*\{\s*"(?:type"\s*:\s*"text"|text"\s*:\s*")')
"""The list of blocks alone, as many clients pass it on."""
_ELEMENT = re.compile(r"\s*<([A-Za-z][\w-]{0,40})(?: [^<>\n]{0,200})?>\n?(.*)\n?</\1>\s*", re.DOTALL)
_MOST_OF_IT = 0.5
"""Share of a record's values that its texts of several lines take at least, if they are what a program printed."""
_PYTHON = re.compile(r"\s*\{'\w{1,40}': ")
_LONGEST_PYTHON = 200_000
"""Characters; reading what Python printed takes ten times as long as JSON."""
_NO_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\(?![\\'\"nrtxuU])")
"""A backslash that `repr` would not write so: Python would warn of it."""
EXIT_KEY = "(?:exit_?(?:code|status)|return_?code)"
"""The name of a field with an exit code, in any case."""
_EXIT_KEY = re.compile(EXIT_KEY, re.IGNORECASE)
WENT_WELL = ("success", "ok")
OUTPUT_KEYS = frozenset({"output", "stdout", "stderr"})
_MAY_WRAP = re.compile(rf"\\n|\\u000[aA]|[\"'](?:(?i:{EXIT_KEY})|success|ok)[\"']")
"""What a record around an output has: the end of a line, or how it ended. Most records need no reading so."""
RECORD_KEY = re.compile(r"(?:^|_)(?:id|number|ref|key|uuid)s?$|Id$")
"""A field that names a record."""
_LONGEST_KEY = 80
_FIELDS = {"content", "isError", "structuredContent", "_meta", "meta"}
"""Those of the protocol's record; one with others is something else."""
_IS_ERROR = re.compile(r"\bisError=True\b[^'\"]*\Z")


def parsed(text: str, longest: int = _LONGEST) -> Any:
    """The record or list that a text of so many characters is; None for any other text."""
    if len(text) > longest or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_exit_key(key: str) -> bool:
    """Whether a field of this name has an exit code."""
    return _EXIT_KEY.fullmatch(key) is not None


def exit_code(record: Any) -> int | None:
    """The exit code in the record of an output, also in its only part or in one beside the output."""
    if not isinstance(record, dict):
        return None
    parts = [part for part in record.values() if isinstance(part, dict)]
    told = (part for part in parts if OUTPUT_KEYS & (part.keys() if len(record) == 1 else record.keys()))
    codes = (code for part in (record, *told) for key, code in part.items() if type(code) is int and is_exit_key(key))
    return next(codes, None)


class Said(NamedTuple):
    """The words of a tool."""

    text: str
    is_error: bool
    """Whether the protocol marks them so."""
    whole: bool = True
    """Whether nothing else stood beside them."""


@cached(READ)
def said(text: str) -> Said:
    """The words inside an answer of the protocol, those of several blocks a line each; any other text as it is."""
    is_error, whole = False, True
    for _ in range(_MOST_LEVELS if len(text) <= _LONGEST else 0):
        inside = _printed(text) if _PRINTED.match(text) else _record(text)
        if inside is None:
            break
        text, is_error, whole = inside.text, is_error or inside.is_error, whole and inside.whole
    return Said(text, is_error, whole)


@cached(READ)
def printed(text: str) -> str:
    """What a program printed, out of a result that wraps it in a record or an element; any other text as `said` has it.

    Of a record with an exit code and several lines of output, these lines.
    """
    words = said(text).text
    if (element := _ELEMENT.fullmatch(words)) is not None:
        words = element[2]
    if not words.lstrip().startswith("{") or len(words) > _LONGEST or not _MAY_WRAP.search(words):
        return words
    try:
        record = python_record(words) or json.loads(words)
        texts = [text for text in _texts(record) if len(text.split(None, 1)) > 1]
    except (ValueError, RecursionError):
        return words
    long = sum(len(text) for text in texts if "\n" in text.strip())
    # A single line is what a program printed if nothing else stands beside it than how it ended.
    beside = [key for key, value in record.items() if value not in ("", None, [], *texts)]
    alone = len(texts) == 1 and bool(beside) and all(key in WENT_WELL or is_exit_key(key) for key in beside)
    is_output = alone or (long and long >= _MOST_OF_IT * sum(map(len, leaves(record))))
    if not is_output or any(record.get(key) is False for key in WENT_WELL):
        return words
    named = (found[0] for key in beside if (found := _field(key, words)))
    return "\n".join((*named, *texts))


def _field(key: str, text: str) -> re.Match[str] | None:
    """A field with an id or the like, as it stands in a record: the next call may need it."""
    pattern = rf"([\"']){re.escape(key)}\1\s*:\s*(?:{_STRING}|\"(?:[^\"\\]|\\.)*+\"|[\w.+-]+)"
    return re.search(pattern, text) if RECORD_KEY.search(key) and len(key) <= _LONGEST_KEY else None


def python_record(text: str) -> dict[str, Any] | None:
    """The record that a text is as Python prints it, `{'returncode': 0, 'stdout': '...'}`; None for any other text."""
    if not _PYTHON.match(text) or len(text) > _LONGEST_PYTHON or _NO_ESCAPE.search(text):
        return None
    try:
        value = literal_eval(text.strip())
        is_record = isinstance(value, dict) and repr(value) == text.strip() and _has_names(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if is_record else None


def _has_names(value: Any) -> bool:
    """Whether all fields in a value have names, as those of JSON do: Python's may have numbers."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_names(inside) for key, inside in value.items())
    return not isinstance(value, list | tuple) or all(map(_has_names, value))


def _texts(record: dict[str, Any]) -> Iterator[str]:
    """The texts of a record and of those in it, but not of a list: that is what was found."""
    for value in record.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from _texts(value)


def _printed(text: str) -> Said | None:
    try:
        blocks = [literal_eval(found[1]) for found in _TEXT.finditer(text)]
    except (ValueError, SyntaxError, MemoryError):
        return None
    if not blocks:
        return None
    return Said("\n".join(blocks), _IS_ERROR.search(text[-80:]) is not None, _ONLY_TEXTS.fullmatch(text) is not None)


def _record(text: str) -> Said | None:
    first = text.lstrip()[:1]
    if not ((first == "{" and '"content"' in text) or (first == "[" and _BLOCKS.match(text))):
        return None
    twice = list[int]()
    try:
        record: Any = json.loads(text, object_pairs_hook=lambda pairs: _noted(pairs, twice))
    except (ValueError, RecursionError):
        return None
    record = {"content": record} if isinstance(record, list) else record
    content = record.get("content")
    if not record.keys() <= _FIELDS:  # a message of a model, or a page
        return None
    blocks = content if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
    if not texts or len(texts) < len(blocks):
        return None
    beside = [value for name, value in record.items() if name not in ("content", "isError")]
    beside += [value for block in blocks for name, value in block.items() if name not in ("type", "text")]
    of_protocol = all(block.get("type") == "text" for block in blocks) and record.get("isError") in (None, True, False)
    whole = of_protocol and not twice and beside.count(None) == len(beside)
    if first == "[" and not whole:  # records of something else
        return None
    return Said("\n".join(texts), record.get("isError") is True, whole)


def _noted(pairs: list[tuple[str, Any]], twice: list[int]) -> dict[str, Any]:
    """A record of JSON; that it says a key twice is noted."""
    record = dict(pairs)
    if len(record) < len(pairs):
        twice.append(len(pairs))
    return record
