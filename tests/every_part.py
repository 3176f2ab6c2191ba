"""Instances of every type of part that an SDK has, made from its own types: TypedDicts, dataclasses, pydantic's models.

for part in instances(ChatCompletionMessageParam):
    memory.add(part)

Of each member of a union: the smallest instance, and full ones in which every union inside takes each of its members.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, get_args, get_origin

import typing_extensions
from pydantic import AnyUrl, BaseModel

Named = Callable[[str, str], Any]
"""A value for a field by its owner's and its own name; None for any of its type, OMIT to leave it out."""
OMIT = object()

_WRAPPERS = (typing.Required, typing.NotRequired, typing.Annotated, typing_extensions.ReadOnly, typing.ClassVar)
_FILES = (typing.IO, os.PathLike)
"""Open files and paths, which the SDKs read before they send."""
_UNIONS = (typing.Union, types.UnionType)
_MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_PLAIN: Mapping[Any, Any] = {
    str: "x",
    int: 1,
    float: 1.5,
    bool: True,
    bytes: b"hi",
    type(None): None,
    datetime: _MOMENT,
    AnyUrl: AnyUrl("https://example.org/a.png"),
}
_ANYTHING = {"a": [1, 1.5, True, None, "看", {}]}
_KINDS = ("type", "kind", "part_kind")
"""Fields of which each word is another kind of part."""
_DEEPEST = 7
"""JSON schemas and the like hold each other without an end."""


class Field(NamedTuple):
    """A field of an object."""

    annotation: Any
    needed: bool


def instances(annotation: Any, named: Named = lambda _owner, _name: None) -> Iterator[Any]:
    """The smallest instance of each member, then full ones; no value twice."""
    seen: list[Any] = []
    for member in members(annotation):
        for value in (_smallest(member, named, 0), *_full(member, named, 0)):
            if not any(type(value) is type(other) and value == other for other in seen):
                seen.append(value)
                yield value


def members(annotation: Any) -> list[Any]:
    """The types that a union, also one of unions, consists of."""
    annotation = _bare(annotation)
    if get_origin(annotation) in _UNIONS:
        arguments = [one for one in get_args(annotation) if (get_origin(one) or one) not in _FILES]
        found = [one for argument in arguments for one in members(argument)]
        return [one for i, one in enumerate(found) if one not in found[:i]]
    return [annotation]


def name_of(instance: Any) -> str:
    """A short name for a test's parameter."""
    kind = instance.get("type") or instance.get("role") if isinstance(instance, Mapping) else type(instance).__name__
    return str(kind)


def _bare(annotation: Any) -> Any:
    while True:
        if get_origin(annotation) in _WRAPPERS:
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "__value__"):  # a TypeAliasType, of typing or of typing_extensions
            annotation = annotation.__value__
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        else:
            return annotation


def _fields(kind: Any) -> dict[str, Field] | None:
    """The fields of an object's type; None for what is no object with fields."""
    if typing_extensions.is_typeddict(kind):
        found = typing_extensions.get_type_hints(kind, include_extras=True)
        return {n: Field(t, n in kind.__required_keys__ or get_origin(t) is typing.Required) for n, t in found.items()}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {n: Field(f.annotation, f.is_required()) for n, f in kind.model_fields.items()}
    if dataclasses.is_dataclass(own := get_origin(kind) or kind):
        found = typing_extensions.get_type_hints(own, include_extras=True)
        given = dict(zip(getattr(own, "__parameters__", ()), get_args(kind), strict=False))
        empty = dataclasses.MISSING
        return {
            f.name: Field(given.get(found[f.name], found[f.name]), f.default is empty and f.default_factory is empty)
            for f in dataclasses.fields(own)
            if f.init
        }
    if inspect.ismethod(kind) or inspect.isfunction(kind):
        found = typing_extensions.get_type_hints(kind, include_extras=True)
        return {
            n: Field(found.get(n, Any), p.default is p.empty)
            for n, p in inspect.signature(kind).parameters.items()
            if p.kind is not p.VAR_KEYWORD
        }
    return None


def _make(kind: Any, values: dict[str, Any]) -> Any:
    values = {name: value for name, value in values.items() if value is not OMIT}
    if typing_extensions.is_typeddict(kind):
        return {"from" if name == "from_" else name: value for name, value in values.items()}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        aliases = {name: field.alias or name for name, field in kind.model_fields.items()}
        return kind.model_validate({aliases[name]: value for name, value in values.items()})
    return kind(**values)


def _smallest(annotation: Any, named: Named, depth: int) -> Any:
    kind = _bare(annotation)
    fields = _fields(kind)
    if fields is not None:
        needed = {n: f for n, f in fields.items() if f.needed}
        values = {n: named(kind.__name__, n) for n in needed}
        return _make(
            kind,
            {
                n: _smallest(f.annotation, named, depth + 1) if values[n] is None else values[n]
                for n, f in needed.items()
            },
        )
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is typing.Literal:
        return arguments[0]
    if origin in _UNIONS:
        return _smallest(next((a for a in arguments if a is not type(None)), arguments[0]), named, depth)
    if _is_list(origin):
        return _collection(origin)([_smallest(arguments[0], named, depth + 1)] if depth < _DEEPEST else [])
    if _is_mapping(origin):
        return {"a": _smallest(arguments[1], named, depth + 1)} if depth < _DEEPEST else {}
    return _simple(kind)


def _full(annotation: Any, named: Named, depth: int) -> list[Any]:
    """All fields set; one instance more for each further member of a union inside."""
    kind = _bare(annotation)
    origin, arguments = get_origin(kind), get_args(kind)
    if (fields := _fields(kind)) is not None:
        found = _full_objects(kind, fields, named, depth)
    elif origin is typing.Literal:
        found = [arguments[0]]
    elif origin in _UNIONS:
        found = [v for a in members(kind) if a is not type(None) for v in _full(a, named, depth)]
    elif _is_list(origin):
        inner = [[value] for value in _full(arguments[0], named, depth + 1)] if depth < _DEEPEST else [[]]
        found = [_collection(origin)(one) for one in inner]
    elif _is_mapping(origin):
        found = [{"a": value} for value in _full(arguments[1], named, depth + 1)] if depth < _DEEPEST else [{}]
    else:
        found = [_simple(kind)]
    return found


def _full_objects(kind: Any, fields: Mapping[str, Field], named: Named, depth: int) -> list[Any]:
    if depth >= _DEEPEST:
        return [_smallest(kind, named, depth)]
    choices = {
        n: [own] if (own := named(kind.__name__, n)) is not None else _choices(n, f.annotation, named, depth + 1)
        for n, f in fields.items()
    }
    first = {n: values[0] for n, values in choices.items() if values}
    others = [{**first, n: value} for n, values in choices.items() for value in values[1:]]
    return [_make(kind, values) for values in (first, *others)]


def _choices(name: str, annotation: Any, named: Named, depth: int) -> list[Any]:
    kind = _bare(annotation)
    words = get_origin(kind) is typing.Literal and name in _KINDS
    return list(get_args(kind)) if words else _full(kind, named, depth)


def _simple(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in (Any, object) or isinstance(kind, typing.TypeVar | typing.ForwardRef | str):  # the last: JSON in JSON
        return _ANYTHING
    raise TypeError(f"no instance of {kind!r} is known")


def _collection(origin: Any) -> Any:
    return origin if origin in (tuple, set, frozenset) else list


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, collections.abc.Mapping)


def _is_list(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, collections.abc.Iterable) and not _is_mapping(origin)
