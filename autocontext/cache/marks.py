"""Marks of what a cached result says: the index by which erasing finds the results that come from a message.

A mark is a hash of a text, or of an argument or item with its name. Different texts may share one, so whoever looks
results up by their marks looks at the results themselves, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from autocontext.errors import StoreCorruptError
from autocontext.messages import texts_in

if TYPE_CHECKING:
    from autocontext.cache.namespace import CacheEntry

OWN = 8
"""Minimum length of a text that tells a result apart from others."""
_MOST = 64
"""Marks of one result; one that says more has none, and erasing looks at it each time."""


def marks_of(entry: CacheEntry) -> str | None:
    """The marks of a result as they are stored; None for one that has too many, or cannot be read."""
    try:
        value, arguments = entry.value(), loaded(entry.args) or {}
        marks = {_item_mark(entry.task, arguments), *map(text_mark, texts(entry, value))}
        if isinstance(value, dict) and value:
            marks.add(_item_mark("", value))
    except (StoreCorruptError, RecursionError):
        return None
    for text in texts_in([arguments, value]):
        if len(text) >= OWN:
            marks.add(text_mark(text))
            if len(marks) > _MOST:
                return None
    return " ".join(sorted(marks))


def text_mark(text: str) -> str:
    """The mark of a result with this text, whole or as a leaf."""
    return _mark("text", text)


def item_marks(of: str, items: Mapping[str, Any]) -> Iterator[str]:
    """The marks of all results of a task (or values: "") whose arguments (or items) are some of these, or none."""
    yield _mark("item", of)
    yield from (_mark("item", of, name, _plain(value)) for name, value in items.items())


def _item_mark(of: str, items: Mapping[str, Any]) -> str:
    """One of `item_marks`: that of the longest item, since short ones are frequent."""
    if not items:
        return _mark("item", of)
    return _mark("item", of, *max(((name, _plain(value)) for name, value in items.items()), key=lambda i: len(i[1])))


def texts(entry: CacheEntry, value: Any) -> Iterator[str]:
    """The texts that a message with this result may have."""
    yield value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if entry.kind == "error" and isinstance(value, dict):
        yield from (f"Error: {value['error'].rpartition('.')[2]}: {argument}" for argument in value["args"])


def loaded(text: str) -> Any:
    """The JSON object or list in a text; None for any other text."""
    try:
        return json.loads(text) if text[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def _plain(value: Any) -> str:
    """JSON in which values are the same that are equal in Python: 1, 1.0 and True; 0.0 and -0.0."""
    plain = json.loads(json.dumps(value, default=str), parse_int=_number, parse_float=_number)
    return json.dumps(_without_booleans(plain), sort_keys=True)


def _number(text: str) -> float:
    return float(text) + 0.0


def _without_booleans(value: Any) -> Any:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, dict):
        return {key: _without_booleans(item) for key, item in value.items()}
    return [_without_booleans(item) for item in value] if isinstance(value, list) else value


def _mark(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
