"""Results in fewer characters and with nothing left out: lists of records as tables, in which each key stands once.

Of an answer of the Model Context Protocol, what the tool said without what wraps it; a text of several lines in a
record stands below its key line by line, as in YAML.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from autocontext.caches import cached
from autocontext.text.normal_forms import is_hidden
from autocontext.text.protocol_results import python_record, said

_LONGEST = 1_000_000
"""Characters of a text that is read."""
_WORTHWHILE = 0.8
"""A text that is hardly shorter stays as its tool wrote it."""
_FILLED = 0.7
"""Share of a table's cells that have a value at least."""
_MOST_LEVELS = 20
"""Of records and lists within each other."""
_REMEMBERED = 256
"""Texts whose form is kept: each pass asks for those in view."""
TABLE = "|-|"
"""What stands below the head of a table."""
_LEAST_LINES = 3
"""Lines from which on a text stands below its key."""
_HAS_TEXT = re.compile(r"(?::|-) (?:\||<<)[-+]?$", re.MULTILINE)
"""What stands before such a text, by how it ends: `|` with one end of a line, `|-` without, `|+` with several.

With `<<` it goes on to the end of the whole.
"""
_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}|\\[bf]")
"""How JSON writes what is invisible."""
_INLINE = 120
"""Characters of a record or list in a list or record that stands in one line."""
_MOST_NAMES = 4
"""Of records within each other, whose names together head a column."""
_BARE_KEY = re.compile(r"[\w-]+")
_OTHER_VALUE = re.compile(r"""-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|NaN|-?Infinity|<<[-+]?|[-"'#>|{[].*""")
"""Texts that would read as something else than a text without quotes."""
_ENDS_VALUE = re.compile(r"[][{},]|:\s|:$")
"""What would end a text in a record or list that stands in one line."""

_Json: TypeAlias = Any


class _Number(str):
    """A number as it stands in the text: "1.50" is no 1.5."""

    __slots__ = ()


@cached(_REMEMBERED)
def reformatted(text: str) -> str | None:
    """The same in a shorter form; None if there is none."""
    opened = said(text)
    # What its escapes stood for must not come into a request: half of an emoji cannot be encoded.
    plain = _seen(opened.text) if opened.whole else None
    words = text if plain is None else plain
    lines = in_lines(words)
    is_better = lines is not None and (len(lines) <= _WORTHWHILE * len(words) or _HAS_TEXT.search(lines))
    told = lines if lines is not None and is_better else words
    if told == text or len(told) > len(text):
        return None
    return f"isError: true\n{told}" if opened.is_error and words == plain else told


def in_lines(text: str) -> str | None:
    """The records of a JSON text, with each key of a table said once, and texts of several lines line by line.

    Also of a record as Python prints it. None for what has neither, says a key twice, or has very many levels. Every
    key and value stands there; a cell without one was absent. A text is in quotes where it would read as something else
    without them. "|" within a cell has a backslash before it.
    """
    if text.lstrip()[:1] not in ("{", "[") or len(text) > _LONGEST:
        return None
    try:
        printed = python_record(text)
        value = _read(text) if printed is None else _as_json(printed)
        last = _longest_text(value)
        rest = {key: own for key, own in value.items() if key != last} if last is not None else value
        parts = [*_lines(rest, _table(rest), "")]
        if last is not None:  # it goes on to the end: its lines begin where they began, as headings and numbers do
            body, how = _body(value[last])
            parts += [f"{_key(last)}: <<{how}", body]
        told = "\n".join(parts)
    except (TypeError, ValueError, RecursionError):
        return None
    return told if TABLE in told or _HAS_TEXT.search(told) else None


def _read(text: str) -> _Json:
    return json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_Number, object_pairs_hook=_record)


def _as_json(value: Any) -> _Json:
    """What Python prints, as JSON would have it. Raises TypeError for what JSON does not know."""
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _as_json(own) for key, own in value.items()}
    if isinstance(value, list):
        return [*map(_as_json, value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _Number(repr(value))
    if value is None or isinstance(value, str | bool):
        return value
    raise TypeError(type(value).__name__)


def _record(pairs: Sequence[tuple[str, _Json]]) -> dict[str, _Json]:
    """A record of JSON; one that says a key twice has no table."""
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a key is said twice")
    return record


def _lines(value: _Json, table: Sequence[Sequence[str]], indent: str) -> Iterator[str]:
    """A record or list, or its table if it has one, over as many lines as it takes."""
    if len(indent) > _MOST_LEVELS:
        raise ValueError("too many levels")
    if table:
        yield from (f"{indent}|{'|'.join(cells)}|" for cells in table)
    elif isinstance(value, dict):
        for key, own in value.items():
            yield from _with_head(f"{indent}{_key(key)}:", own, indent)
    else:
        for own in value:
            yield from _with_head(f"{indent}-", own, indent)


def _with_head(head: str, value: _Json, indent: str) -> Iterator[str]:
    """A value behind its key or the sign of an item, or below it where it is long."""
    if isinstance(value, str) and _has_lines(value):
        body, how = _body(value)
        yield f"{head} |{how}"
        yield from (f"{indent} {line}" for line in body.split("\n"))
        return
    table = _table(value)
    inline = "" if table else _inline(value)
    if inline and (len(inline) <= _INLINE or not isinstance(value, dict | list)):
        yield f"{head} {inline}"
    else:
        yield head
        yield from _lines(value, table, f"{indent} ")


def _longest_text(value: _Json) -> str | None:
    """The field of a record that has the longest text of several lines; None for no record, or without one."""
    texts = {key: own for key, own in value.items() if isinstance(own, str)} if isinstance(value, dict) else {}
    longest = max(texts, key=lambda key: len(texts[key]), default=None)
    return longest if longest is not None and _has_lines(texts[longest]) else None


def _body(text: str) -> tuple[str, str]:
    """A text without its last end of a line, and the sign for how many it has."""
    body = text.removesuffix("\n")
    return _seen(body) or "", "-" if body == text else "+" if body.endswith("\n") or not body else ""


def _has_lines(text: str) -> bool:
    """Whether a text stands below its key, line by line."""
    return text.count("\n") >= _LEAST_LINES - 1 and _seen(text) is not None


def _seen(text: str) -> str | None:
    """A text with what is invisible in it escaped; None if such an escape could be one that the text has."""
    hidden = [*filter(is_hidden, {*text})]
    if "\\" in text and (hidden or any(is_hidden(json.loads(f'"{found}"')) for found in {*_ESCAPE.findall(text)})):
        return None
    return _escaped(text, hidden)


def _escaped(text: str, signs: Collection[str]) -> str:
    """A text with these characters as JSON escapes them."""
    return text.translate({ord(sign): json.dumps(sign)[1:-1] for sign in signs}) if signs else text


def _table(value: _Json) -> list[list[str]]:
    """The head and rows of a list of records, or of records by their keys; [] for what is no table."""
    keys, records = ([*value], [*value.values()]) if isinstance(value, dict) else ([], value)
    if not isinstance(records, list) or len(records) < 2:
        return []
    if not all(isinstance(record, dict) and record for record in records):
        return []
    for levels in (_MOST_NAMES, 1):
        rows = [_flat(record, levels) for record in records]
        columns = [*dict.fromkeys(column for row in rows for column in row)]
        if sum(map(len, rows)) >= _FILLED * len(columns) * len(rows):
            break
    else:
        return []
    first = [[_inline(key)] for key in keys] or [[] for _ in records]
    cells = [
        [*own, *(_inline(row[c]) if c in row else "" for c in columns)] for own, row in zip(first, rows, strict=True)
    ]
    head = [*([""] if keys else ()), *(".".join(map(_key, path)) for path in columns)]
    return [[cell.replace("|", r"\|") for cell in row] for row in (head, ["-"] * len(head), *cells)]


def _flat(record: Mapping[str, _Json], levels: int) -> dict[tuple[str, ...], _Json]:
    """A record's values by their paths; of records in it, those whose keys are plain names, some levels deep."""
    flat: dict[tuple[str, ...], _Json] = {}
    for key, value in record.items():
        plain = levels > 1 and isinstance(value, dict) and value and all(map(_BARE_KEY.fullmatch, (key, *value)))
        if plain:
            flat.update({(key, *path): own for path, own in _flat(value, levels - 1).items()})
        else:
            flat[(key,)] = value
    return flat


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quoted(key)


def _inline(value: _Json, *, within: bool = False) -> str:
    """A value in one line: a number as it was, a text in quotes where it would read as something else without.

    `within`: it stands in a record or list in that line.
    """
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {_inline(own, within=True)}" for key, own in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(own, within=True) for own in value) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    plain = value and value == value.strip() and value.isprintable() and "\\" not in value
    bare = plain and not _OTHER_VALUE.fullmatch(value)
    return value if bare and not (within and _ENDS_VALUE.search(value)) else _quoted(value)


def _quoted(text: str) -> str:
    """A text in quotes; what is invisible in it is escaped."""
    told = json.dumps(text, ensure_ascii=False)
    hidden = {sign for sign in {*told} if is_hidden(sign) or unicodedata.category(sign) in ("Zl", "Zp", "Co", "Cn")}
    return _escaped(told, hidden)
