"""What a function's call means to the cache: its parameters by name with defaults filled in, and its version."""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

from autocontext.canonical import canonical
from autocontext.errors import ConfigError, UncacheableError


def task_name(fn: Callable[..., Any]) -> str:
    """The function's module and qualified name. Raises ConfigError when it has none, as a partial has."""
    target = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(target, "__qualname__", "")
    if not name or isinstance(fn, functools.partial):
        raise ConfigError(f"memoize: give {type(fn).__name__} objects a name=, they have none of their own")
    return f"{getattr(target, '__module__', '')}.{name}"


class Arguments:
    """Turns the arguments of a call into parameters by name, so that all spellings of one call are the same."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._before: tuple[Any, ...] = ()
        self._given: dict[str, Any] = {}
        while isinstance(fn, functools.partial):
            self._before, self._given = (*fn.args, *self._before), {**fn.keywords, **self._given}
            fn = fn.func
        if inspect.ismethod(fn):
            # The object counts like any argument: another one is another call.
            self._before, fn = (fn.__self__, *self._before), fn.__func__
        self._signature = inspect.signature(fn)
        kinds = {parameter.kind: name for name, parameter in self._signature.parameters.items()}
        self._others = kinds.get(inspect.Parameter.VAR_KEYWORD)
        self.open_ended = self._others is not None
        """Whether the function takes names that its signature does not list."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(self._signature.parameters)

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters by name, defaults filled in; what `**kwargs` takes stands beside them. TypeError as in a call."""
        bound = self._signature.bind(*self._before, *args, **{**self._given, **kwargs})
        bound.apply_defaults()
        params = dict(bound.arguments)
        if self._others is not None:
            for name, value in params.pop(self._others).items():
                # A name may be taken by a positional-only parameter.
                params[f"**{name}" if name in params else name] = value
        return params


def version_of(fn: Callable[..., Any]) -> str:
    """A hash of the function's source and of the plain values that it has from around it.

    Other functions that it calls are not looked at: a change in them needs a new `version=`.
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    plain = inspect.unwrap(fn)
    plain = getattr(plain, "__func__", plain)
    code = getattr(plain, "__code__", None)
    if code is None:
        return ""
    try:
        source = inspect.getsource(plain)
    except (OSError, TypeError):
        source = _instructions(code)
    text = f"{source}\0{canonical(_surroundings(plain, code))}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def calling(fn: Callable[..., Any], params: Mapping[str, Any], prefix: str | None) -> Callable[[], Any]:
    """The function with these parameters: by name if it takes them, else none at all, else all as one mapping.

    Those that begin with `prefix` belong to one call, and the result to many: it gets them only if it insists.
    """
    fewer = {name: value for name, value in params.items() if prefix is None or not name.startswith(prefix)}
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return functools.partial(fn, **fewer)
    for args, kwargs in (((), fewer), ((), params), ((), {}), ((fewer,), {})):
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        return functools.partial(fn, *args, **kwargs)
    raise ConfigError(
        f"fn takes {signature}, which are not the parameters {', '.join(params)}: wrap it as lambda: fn(...)"
    )


def _surroundings(fn: Any, code: types.CodeType) -> dict[str, Any]:
    """Plain values of enclosing functions. What the function sets itself is its state, not a part of what it is."""
    sets = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_DEREF"}
    found = {}
    for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
        if name not in sets and (value is None or isinstance(value, str | bytes | int | float)):
            try:
                canonical(value)
            except UncacheableError:
                continue
            found[name] = value
    return found


def _instructions(code: types.CodeType) -> str:
    """What a function without source does, and with what; no addresses, which differ from process to process."""
    parts = [
        f"{step.opname} {'' if inspect.iscode(step.argval) else step.argval!r}" for step in dis.get_instructions(code)
    ]
    return "\n".join([*parts, *(_instructions(inner) for inner in code.co_consts if inspect.iscode(inner))])
