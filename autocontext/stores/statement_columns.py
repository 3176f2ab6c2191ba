"""The column of each parameter and each result of a statement.

A parameter has the name of its column (or `:ns` for the namespace), with a number behind it where there are several
(`:mark_0`), or with `_prefix` where the column is compared by its beginning. `encrypted_database` refuses a text under
any other name.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

_PARAM = re.compile(r":((\w+?)(?:_\d+|(_prefix))?)\b")
_TABLE = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE) (autocontext_\w+)(?: (?:AS )?(?!WHERE\b|SET\b|ON\b|ORDER\b|GROUP\b)(\w+)\b)?"
)
_RETURNED = re.compile(r"\bRETURNING (.*)$")
_SELECTED = re.compile(r"^(?:WITH .*\) )?SELECT (?:DISTINCT )?(.*?)(?: FROM |$)")  # no result has a FROM of its own
_PLAIN = re.compile(r"^(?:(?:MIN|MAX)\()?(?:(\w+)\.)?(\w+)\)?$")


class Column(NamedTuple):
    """A column; `tables` are those it may belong to."""

    tables: tuple[str, ...]
    name: str


class Columns(NamedTuple):
    """The columns of one statement."""

    tables: tuple[str, ...]
    params: dict[str, str]
    """The names of the columns of the parameters."""
    results: tuple[Column | None, ...]
    """None for computed values."""
    prefixes: frozenset[str]
    """Parameters that are compared with the beginning of a column."""


@functools.lru_cache(maxsize=512)
def columns_of(sql: str) -> Columns:
    """The columns of a statement's parameters and results."""
    sql = " ".join(sql.split())
    aliases: dict[str, str] = {}
    for table, alias in _TABLE.findall(sql):
        aliases |= {table: table, alias or table: table}
    tables = tuple(dict.fromkeys(aliases.values()))
    found = _PARAM.findall(sql)
    listed = _RETURNED.search(sql) or _SELECTED.match(sql)
    results = tuple(_result(item, aliases, tables) for item in (split(listed[1]) if listed else ()))
    params = {param: "namespace" if name == "ns" else name for param, name, _ in found}
    return Columns(tables, params, results, frozenset(param for param, _, prefix in found if prefix))


def _result(item: str, aliases: dict[str, str], tables: tuple[str, ...]) -> Column | None:
    match = _PLAIN.match(item)
    if match is None or match[2].isdigit():
        return None
    return Column((aliases[match[1]],) if match[1] in aliases else tables, match[2])


def split(text: str) -> list[str]:
    """The items of a list, split at commas outside brackets."""
    items, depth, start = [], 0, 0
    for i, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            items.append(text[start:i].strip())
            start = i + 1
    return [*items, text[start:].strip()]
