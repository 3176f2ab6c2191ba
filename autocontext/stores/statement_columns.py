"""Finds the column of each parameter and each result of a statement.

Understands the SQL of this library's statements only. `encrypted_database` refuses a text whose column is not found.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

_NAME = r"(?:(\w+)\.)?(\w+)"
_PARAM = re.compile(r":(\w+)")
_COMPARED = re.compile(rf"{_NAME} ?(?:=|<>|<=|>=|<|>) ?:(\w+)")
_PREFIX = re.compile(rf"substr\({_NAME}, 1, :\w+\) = :(\w+)")
_ONE_OF = re.compile(rf"{_NAME} IN \((:[^()]*)\)")
_AFTER = re.compile(r"\(([\w, ]+)\) > \((:[\w, :]+)\)")
_INSERT = re.compile(r"INSERT INTO (\w+) \(([^)]*)\) VALUES \((.*?)\)(?: ON | RETURNING |$)")
_TABLE = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE) (autocontext_\w+)(?: (?:AS )?(?!WHERE\b|SET\b|ON\b|ORDER\b|GROUP\b)(\w+)\b)?"
)
_RETURNED = re.compile(r"\bRETURNING (.*)$")
_SELECTED = re.compile(r"^\(?(?:WITH .*\) ?)?SELECT (?:DISTINCT )?(.*)$")
_PLAIN = re.compile(rf"^(?:(?:MIN|MAX)\()?{_NAME}\)?$")


class Column(NamedTuple):
    """A column; `tables` are those it may belong to."""

    tables: tuple[str, ...]
    name: str


class Columns(NamedTuple):
    """The columns of one statement."""

    tables: tuple[str, ...]
    params: dict[str, tuple[Column, ...]]
    """The columns of every parameter; () if they are unknown."""
    results: tuple[Column | None, ...]
    """None for computed values."""
    prefixes: frozenset[str]
    """Parameters that are compared with the beginning of a column."""


_Column: TypeAlias = Callable[[str, str], Column]
"""From a qualifier ("" for none) and a name."""


@functools.lru_cache(maxsize=512)
def columns_of(sql: str) -> Columns:
    """The columns of a statement's parameters and results."""
    sql = " ".join(sql.split())
    aliases: dict[str, str] = {}
    for table, alias in _TABLE.findall(sql):
        aliases[table] = table
        if alias:
            aliases[alias] = table
    tables = tuple(dict.fromkeys(aliases.values()))

    def column(qualifier: str, name: str) -> Column:
        return Column((aliases[qualifier],) if qualifier in aliases else tables, name)

    params: dict[str, list[Column]] = {name: [] for name in _PARAM.findall(sql)}
    for name, found in _params(sql, column):
        params[name].append(found)
    results = tuple(_result(item, column) for item in _results(sql))
    prefixes = frozenset(match[3] for match in _PREFIX.finditer(sql))
    return Columns(tables, {name: tuple(dict.fromkeys(found)) for name, found in params.items()}, results, prefixes)


def _params(sql: str, column: _Column) -> Iterator[tuple[str, Column]]:
    for pattern in (_COMPARED, _PREFIX):
        for qualifier, name, param in pattern.findall(sql):
            yield param, column(qualifier, name)
    for qualifier, name, listed in _ONE_OF.findall(sql):
        for param in listed.split(","):
            yield param.strip(" :"), column(qualifier, name)
    for names, listed in _AFTER.findall(sql):
        for name, param in zip(names.split(","), listed.split(","), strict=True):
            yield param.strip(" :"), column("", name.strip())
    if match := _INSERT.search(sql):
        for name, value in zip(split(match[2]), split(match[3]), strict=True):
            if value.startswith(":"):
                yield value[1:], Column((match[1],), name)


def _results(sql: str) -> list[str]:
    if match := _RETURNED.search(sql):
        return split(match[1])
    if match := _SELECTED.match(sql):
        return split(_until_from(match[1]))
    return []


def _result(item: str, column: _Column) -> Column | None:
    if item.startswith("(SELECT "):
        inner = split(_until_from(item[len("(SELECT ") : -1]))
        return _result(inner[0], column) if len(inner) == 1 else None
    match = _PLAIN.match(item)
    return column(match[1] or "", match[2]) if match and not match[2].isdigit() else None


def _until_from(text: str) -> str:
    """The list of results: everything before the first FROM outside brackets."""
    for match in re.finditer(r" FROM ", text):
        before = text[: match.start()]
        if before.count("(") == before.count(")"):
            return before
    return text


def split(text: str) -> list[str]:
    """The items of a list, split at commas outside brackets."""
    items, depth, start = [], 0, 0
    for i, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            items.append(text[start:i].strip())
            start = i + 1
    return [*items, text[start:].strip()]
