"""The column of each parameter and each result of a statement.

A parameter has the name of its column (or `:ns` for the namespace), with a number behind it where there are several
(`:mark_0`), or with `_prefix` where the column is compared by its beginning. `encrypted_database` refuses a text under
any other name.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from autocontext.stores.places import PLACE, Place

_PARAM = re.compile(r":((\w+?)(?:_\d+|(_prefix))?)\b")
_TABLE = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE) (autocontext_\w+)(?: (?:AS )?(?!WHERE\b|SET\b|ON\b|ORDER\b|GROUP\b)(\w+)\b)?"
)
_RETURNED = re.compile(r"\bRETURNING (.*)$")
_SELECTED = re.compile(r"^(?:WITH .*\) )?SELECT (?:DISTINCT )?(.*?)(?: FROM |$)")  # no result has a FROM of its own
_PLAIN = re.compile(r"^(?:(?:MIN|MAX)\()?(?:(\w+)\.)?(\w+)\)?$")


class Column(NamedTuple):
    """A column, and the table that has it; for a parameter, None where that does not tell how the column is kept."""

    name: str
    place: Place | None
    is_prefix: bool = False
    """Whether a parameter is compared with the beginning of the column."""


class Columns(NamedTuple):
    """The columns of one statement."""

    params: dict[str, Column]
    results: tuple[Column | None, ...]
    """None for computed values."""


@functools.lru_cache(maxsize=512)
def columns_of(sql: str) -> Columns | None:
    """The columns of a statement's parameters and results; None for one that has no table of `places`."""
    sql = " ".join(sql.split())
    tables: dict[str, Place] = {}
    for table, alias in _TABLE.findall(sql):
        if table in PLACE:
            tables |= dict.fromkeys((table, alias or table), PLACE[table])
    if not tables:
        return None
    params = {}
    for param, name, prefix in _PARAM.findall(sql):
        column = "namespace" if name == "ns" else name
        places = _having(column, tables)
        ways = {(column in place.texts, column in place.names) for place in places}
        params[param] = Column(column, places[0] if len(ways) == 1 else None, bool(prefix))
    listed = _RETURNED.search(sql) or _SELECTED.match(sql)
    return Columns(params, tuple(_result(item, tables) for item in (split(listed[1]) if listed else ())))


def _having(column: str, tables: dict[str, Place]) -> list[Place]:
    return [place for place in tables.values() if column in place.columns]


def _result(item: str, tables: dict[str, Place]) -> Column | None:
    match = _PLAIN.match(item)
    alias, column = (match[1], match[2]) if match else ("", "")
    places = _having(column, {alias: tables[alias]} if alias in tables else tables)
    return Column(column, places[0]) if places else None


def split(text: str) -> list[str]:
    """The items of a list, split at commas outside brackets."""
    items, depth, start = [], 0, 0
    for i, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            items.append(text[start:i].strip())
            start = i + 1
    return [*items, text[start:].strip()]
