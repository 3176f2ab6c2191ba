"""Encrypts the rows of a table with the current key, row by row, while others use the table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from autocontext.errors import StoreError
from autocontext.stores.database import Database, Row, Statement, Work
from autocontext.stores.moving import rows_after
from autocontext.stores.places import Place
from autocontext.stores.sealing import Keyring, Names


def bound_to(place: Place, column: str, values: Mapping[str, Any]) -> list[Any]:
    """What a text is bound to: its column, and the key of its row."""
    return [place.table, column, *(_value(place, name, values) for name in place.key)]


def owner_of(place: Place, values: Mapping[str, Any]) -> str:
    """The owner of a row."""
    return str(_value(place, place.owner, values))


def _value(place: Place, column: str, values: Mapping[str, Any]) -> Any:
    if column not in values:
        raise StoreError(f"a statement on {place.table} cannot be encrypted: its {column} is not known")
    return values[column]


def rotate_table(database: Database, place: Place, keys: Keyring, names: Names) -> int:
    """Encrypt the rows of a table that have another key; returns their number. Keeps what others write meanwhile."""
    done, missed, columns = 0, True, (*place.key, *place.texts)
    while missed:
        missed, after = False, None
        while rows := database.read(partial(rows_after, place.table, place.key, columns, after)):
            for row in rows:
                change = _sealed_again(place, row, keys, names, database.name)
                if change is not None:
                    swapped = database.write(partial(_swap, place, change))
                    done += swapped
                    missed |= not swapped  # somebody else has written to it: read it again
            after = rows[-1]
    return done


def _sealed_again(place: Place, row: Row, keys: Keyring, names: Names, name: str) -> dict[str, Any] | None:
    """The parameters of `_swap` for a row; None if it has the current key."""
    stored = dict(zip((*place.key, *place.texts), row, strict=True))
    texts = {column: stored[column] for column in place.texts if stored[column] is not None}
    if all(keys.key_of(value) == keys.current for value in texts.values()):
        return None
    values = dict(stored)
    for column in place.key:
        if column in place.names:
            values[column] = names.open(stored[column], column, owner_of(place, stored), name)
    change = {column: stored[column] for column in (*place.key, *texts)}
    for column, value in texts.items():
        bound = bound_to(place, column, values)
        change[f"new_{column}"] = keys.seal_value(keys.open_value(value, bound, where=f"{name}: {place.table}"), bound)
    return change


def _swap(place: Place, change: dict[str, Any]) -> Work[int]:
    """Replace the texts of a row unless somebody has changed it; returns the number of rows replaced."""
    texts = [column for column in place.texts if column in change]
    rows = yield Statement(
        f"UPDATE {place.table} SET {', '.join(f'{column} = :new_{column}' for column in texts)} "
        f"WHERE {' AND '.join(f'{column} = :{column}' for column in (*place.key, *texts))} RETURNING {place.key[0]}",
        change,
    )
    return len(rows)
