"""The request types of an SDK as a strict service reads them: values of a type, and what is wrong with a value.

item = data.draw(values(ChatCompletionMessageParam))
assert fault(item, ChatCompletionMessageParam) is None
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, get_args, get_origin

import typing_extensions
from hypothesis import strategies as st

_WRAPPERS = (typing.Required, typing.NotRequired, typing_extensions.Annotated)
_TEXT = st.sampled_from(["hi", "c1", "c2", "look", "看", "a b"])
_JSON = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), _TEXT, st.dictionaries(_TEXT, _TEXT, max_size=2))
_PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    str: _TEXT,
    int: st.integers(0, 9),
    float: st.floats(0, 9),
    bool: st.booleans(),
    type(None): st.none(),
    object: _JSON,
    Any: _JSON,
}


def bare(annotation: Any) -> Any:
    """The type inside Required, NotRequired and Annotated."""
    while get_origin(annotation) in _WRAPPERS:
        annotation = get_args(annotation)[0]
    return annotation


@lru_cache
def hints(typed_dict: Any) -> dict[str, Any]:
    """The fields of a TypedDict with their types."""
    found = typing.get_type_hints(typed_dict, include_extras=True)
    return {"from" if name == "from_" else name: bare(t) for name, t in found.items()}


@lru_cache
def needed(typed_dict: Any) -> frozenset[str]:
    """The fields that a TypedDict must have."""
    found = typing.get_type_hints(typed_dict, include_extras=True)
    return frozenset(name for name, t in found.items() if get_origin(t) is typing.Required)


def members(annotation: Any) -> Iterator[Any]:
    """The TypedDicts of a union."""
    annotation = bare(annotation)
    if typing_extensions.is_typeddict(annotation):
        yield annotation
    elif get_origin(annotation) in (typing.Union, type(int | str)):
        for one in get_args(annotation):
            yield from members(one)


@lru_cache
def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a type: needed fields, and some of the others."""
    annotation = bare(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if typing_extensions.is_typeddict(annotation):
        always = {name: values(t) for name, t in hints(annotation).items() if name in needed(annotation)}
        maybe = {name: values(t) for name, t in hints(annotation).items() if name not in needed(annotation)}
        return st.fixed_dictionaries(always, optional=maybe)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin in (typing.Union, type(int | str)):
        return st.one_of([values(one) for one in arguments])
    if _is_list(origin):
        return st.lists(values(arguments[0]), max_size=2)
    return _PLAIN.get(annotation, st.dictionaries(_TEXT, _JSON, max_size=2))


def fault(value: Any, annotation: Any, more: frozenset[str] = frozenset(), at: str = "") -> str | None:  # noqa: PLR0911
    """What a strict service would say of a value; None if it is one of the type. `more` are fields it takes besides."""
    annotation = bare(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if typing_extensions.is_typeddict(annotation):
        return _object_fault(value, annotation, more, at)
    if origin is typing.Literal:
        return None if value in arguments else f"{at}: {value!r} is none of {arguments}"
    if origin in (typing.Union, type(int | str)):
        faults = [fault(value, one, more, at) for one in arguments]
        return None if None in faults else " | ".join(map(str, faults))
    if _is_list(origin):
        if not isinstance(value, list):
            return f"{at}: no list"
        return next((f for i, v in enumerate(value) if (f := fault(v, arguments[0], more, f"{at}[{i}]"))), None)
    if annotation in (object, Any):
        return None
    kind = origin or annotation
    if kind is float:
        kind = float | int
    return None if isinstance(value, kind) else f"{at}: {value!r} is no {kind}"


def _object_fault(value: Any, annotation: Any, more: frozenset[str], at: str) -> str | None:
    if not isinstance(value, dict):
        return f"{at}: no object"
    known = hints(annotation)
    if unknown := sorted(value.keys() - known.keys() - more):
        return f"{at}.{unknown[0]}: unknown field of {annotation.__name__}"
    if missing := sorted(needed(annotation) - value.keys()):
        return f"{at}.{missing[0]}: missing in {annotation.__name__}"
    return next((f for k, v in value.items() if k in known and (f := fault(v, known[k], more, f"{at}.{k}"))), None)


def _is_list(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Iterable) and not issubclass(origin, Mapping)


# ---------------------------------------------------------------------------------------------------------- mutations
def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        yield path
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _places(inner, (*path, i))


@st.composite
def mutated(draw: st.DrawFn, originals: st.SearchStrategy[Any]) -> Any:
    """Values with up to three changes: fields added, misspelt, missing, null, or of another kind."""
    value = draw(originals)
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(list(_places(value))))
        value = _changed(draw, value, path)
    return value


def _changed(draw: st.DrawFn, value: Any, path: tuple[Any, ...]) -> Any:
    if path:
        key, inner = path[0], _changed(draw, value[path[0]], path[1:])
        return {**value, key: inner} if isinstance(value, dict) else [*value[:key], inner, *value[key + 1 :]]
    odd = st.one_of(_JSON, st.just([]), st.just({}), st.just(""), st.lists(_TEXT, max_size=1))
    if not value or draw(st.booleans()):
        new = st.sampled_from(["created_at", "id", "type", "name", "url", "status", "tool_call", "x", "index", "audio"])
        return {**value, draw(new): draw(odd)}
    key = draw(st.sampled_from(sorted(value)))
    rest = {k: v for k, v in value.items() if k != key}
    change = draw(st.sampled_from(["misspelt", "missing", "null", "odd"]))
    if change == "missing":
        return rest
    if change == "misspelt":
        return {**rest, draw(st.sampled_from([key + "s", key[:-1], key.upper(), f"_{key}"])): value[key]}
    return {**value, key: None if change == "null" else draw(odd)}
