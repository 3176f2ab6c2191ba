"""Values against the shapes that strict services take: what fits is kept, what does not is left out or refused.

A shape is a type, a pattern, a set of words, None, `[shape]`, a tuple of shapes (any of them), ANY, Fields or Kinds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from autocontext.errors import InvalidMessage, did_you_mean, short
from autocontext.formats.objects import kind_of

ANY: Final = object()
"""The shape of whatever the service itself has written, and takes back."""
_NEAR = 0.75
_LISTED = 12
_NOUNS: Final[Mapping[Any, str]] = {str: "a string", bool: "true or false", dict: "an object", list: "a list"}
_SHAPES: Final[Mapping[str, Any]] = {"": ANY, **{kind.__name__: kind for kind in _NOUNS}}
"""By their names in `fields`."""


@dataclass(frozen=True)
class Fields:
    """An object with these fields; the `silent` ones stand in replies only, and are left out without a word."""

    shapes: Mapping[str, Any]
    needed: Collection[str]
    silent: Collection[str]
    hint: str
    """What to write instead, when a field is missing."""


@dataclass(frozen=True)
class Kinds:
    """An object whose `type` says which fields it has; `usual` is the type of one without."""

    by_type: Mapping[str, Fields]
    usual: str = ""


def fields(words: str, *, silent: str = "", hint: str = "", **shapes: Any) -> Fields:
    """Fields by their names and shapes, "text!:str name:str", those with ! needed; ANY without a shape."""
    named = [word.partition(":") for word in words.split()]
    needed = [name.rstrip("!") for name, _, _ in named if name.endswith("!")]
    given = {"type": str, **shapes}
    shape = {name.rstrip("!"): given.get(name.rstrip("!"), _SHAPES[kind]) for name, _, kind in named}
    return Fields(shape, needed, silent.split(), hint)


@dataclass
class Fitting:
    """One request or one message on its way through the shapes."""

    repair: bool = False
    """Whether optional fields of a wrong kind are left out; otherwise they are refused, like misspelt ones."""
    known: frozenset[str] = frozenset()
    """Fields and types that pass although no table has them: an SDK's own object had them."""
    unsent: dict[str, None] = field(default_factory=dict)
    """The fields that were left out, by where they stood."""

    def fit(self, value: Any, shape: Any, at: str) -> Any:
        """The value, or a copy without what no service takes. Raises InvalidMessage: where, and what is allowed."""
        if isinstance(shape, Kinds | Fields):
            if not isinstance(value, Mapping):
                raise InvalidMessage(f"{at}: must be an object, not {kind_of(value)}")
            return self._kind(value, shape, at) if isinstance(shape, Kinds) else self._object(value, shape, at)
        if isinstance(shape, list):
            if not isinstance(value, list | tuple):
                raise InvalidMessage(f"{at}: must be a list, not {kind_of(value)}")
            return [self.fit(v, shape[0], f"{at}[{i}]") for i, v in enumerate(value)]
        if isinstance(shape, tuple):
            return self._any_of(value, shape, at)
        if not _is(value, shape):
            raise InvalidMessage(f"{at}: {_wanted(value, shape)}")
        return value

    def _any_of(self, value: Any, shapes: Iterable[Any], at: str) -> Any:
        problem: InvalidMessage | None = None
        for shape in shapes:
            try:
                return self.fit(value, shape, at)
            except InvalidMessage as e:
                # What is wrong inside says more than that the whole is none of these.
                if problem is None or isinstance(shape, list | Fields | Kinds) == isinstance(value, list | dict):
                    problem = e
        raise problem or InvalidMessage(f"{at}: is not taken")

    def _kind(self, value: Mapping[str, Any], shape: Kinds, at: str) -> Any:
        kind = value.get("type", shape.usual)
        if kind is None and shape.usual:  # as the SDKs dump what is not there
            kind = shape.usual
        if not isinstance(kind, str) or kind not in shape.by_type:
            if isinstance(kind, str) and kind in self.known:
                return value
            raise InvalidMessage(f"{at}.type: {_unknown(kind, shape.by_type)}")
        return self._object(value, shape.by_type[kind], at)

    def _object(self, value: Mapping[str, Any], shape: Fields, at: str) -> Any:
        fitted: dict[str, Any] = {}
        for key, inner in value.items():
            place = f"{at}.{key}" if at else str(key)
            if key in shape.shapes:
                self._field(fitted, key, inner, shape, place)
            elif key in self.known:
                fitted[key] = inner
            elif key not in shape.silent:
                self._unknown_field(key, shape.shapes.keys() - value, place)
        for key in shape.needed:
            if key not in fitted:
                place = f"{at}.{key}" if at else key
                raise InvalidMessage(f"{place}: is missing{shape.hint}")
        return fitted

    def _field(self, fitted: dict[str, Any], key: str, value: Any, shape: Fields, at: str) -> None:
        own = shape.shapes[key]
        needed = key in shape.needed
        if value is None and not needed and not _is(None, own):
            return  # as the SDKs dump what is not there
        try:
            fitted[key] = self.fit(value, own, at)
        except InvalidMessage:
            if needed or (not self.repair and not (isinstance(own, re.Pattern) and isinstance(value, str))):
                raise
            self.unsent[at] = None

    def _unknown_field(self, key: Any, free: Collection[str], at: str) -> None:
        meant = did_you_mean(str(key), free, otherwise="", likeness=_NEAR)
        if meant and not self.repair:
            raise InvalidMessage(f"{at}: no provider takes this field; {meant}")
        self.unsent[at] = None


def _is(value: Any, shape: Any) -> bool:
    if shape is ANY or shape is None:
        return shape is ANY or value is None
    if isinstance(shape, tuple):
        return any(_is(value, one) for one in shape)
    if isinstance(shape, re.Pattern):
        return isinstance(value, str) and shape.fullmatch(value) is not None
    if isinstance(shape, frozenset):
        return isinstance(value, str) and value in shape
    return isinstance(shape, type) and isinstance(value, shape)


def _wanted(value: Any, shape: Any) -> str:
    if isinstance(shape, frozenset):
        return f"must be one of {', '.join(sorted(shape))}, not {short(value)}"
    if isinstance(shape, re.Pattern) and isinstance(value, str):
        return f"must match {shape.pattern}, not {short(value)}"
    return f"must be {_NOUNS.get(shape, 'a string')}, not {kind_of(value)}"


def _unknown(kind: Any, known: Iterable[str]) -> str:
    """The nearest type in words; a newer one than these tables is taken as the SDK's own object."""
    names = sorted(known)
    listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    hint = did_you_mean(str(kind), names, otherwise=f"it is one of {listed}")
    return f"{short(kind)} is not known here; {hint} (an SDK's own object is taken with any type)"
