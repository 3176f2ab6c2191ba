"""`memoize`: the decorator, the parameters of a call by name, and the version of a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from autocontext.cache.canonical import CacheKey, canonical
from autocontext.cache.namespace import call_key
from autocontext.cache.options import CacheOptions, check_names
from autocontext.errors import ConfigError
from autocontext.stores.records import text_hash


def memoized(
    get: Callable[..., Any], aget: Callable[..., Any], fn: Callable[..., Any], name: str | None, options: CacheOptions
) -> Callable[..., Any]:
    """Wrap a function with `get`, or an asynchronous one with `aget`.

    Raises ConfigError for what is not a function, for generators, and without a name or a version.
    """
    if not callable(fn):
        raise ConfigError(f"memoize: only functions can be decorated (got {type(fn).__name__})")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise ConfigError("memoize: a generator can be read only once; return a list instead")
    task = name or _task_name(fn)
    arguments = Arguments(fn)
    if not arguments.open_ended and options["normalizer"] is None:
        check_names(options, arguments.names, task)
    if options["version"] is None:
        options = {**options, "version": version_of(fn)}

    wrapper: Any
    if inspect.iscoroutinefunction(fn):

        async def acall(*args: Any, **kwargs: Any) -> Any:
            params = arguments(args, kwargs)
            return await aget(task, params, lambda: functools.partial(fn, *args, **kwargs), options)

        wrapper = acall
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            params = arguments(args, kwargs)
            return get(task, params, lambda: functools.partial(fn, *args, **kwargs), options)

        wrapper = call

    def cache_key(*args: Any, **kwargs: Any) -> CacheKey:
        return call_key(task, arguments(args, kwargs), options)

    if not isinstance(fn, functools.partial):
        functools.update_wrapper(wrapper, fn)
    wrapper.cache_key = cache_key
    decorated: Callable[..., Any] = wrapper
    return decorated


class Arguments:
    """Turns the arguments of a call into parameters by name, so that all spellings of a call share a key."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        while isinstance(fn, functools.partial):
            self._args, self._kwargs = (*fn.args, *self._args), {**fn.keywords, **self._kwargs}
            fn = fn.func
        if inspect.ismethod(fn):
            # The object is an argument like any other: the results of two objects differ.
            self._args, fn = (fn.__self__, *self._args), fn.__func__
        self._signature = inspect.signature(fn)
        kinds = {parameter.kind: name for name, parameter in self._signature.parameters.items()}
        self._var_keyword = kinds.get(inspect.Parameter.VAR_KEYWORD)
        self.names = tuple(self._signature.parameters)
        self.open_ended = self._var_keyword is not None
        """Whether the function takes names that its signature does not list."""

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters by name with defaults filled in, those of `**kwargs` included. Raises TypeError."""
        bound = self._signature.bind(*self._args, *args, **{**self._kwargs, **kwargs})
        bound.apply_defaults()
        params = dict(bound.arguments)
        if self._var_keyword is not None:
            for name, value in params.pop(self._var_keyword).items():
                # A positional-only parameter may have the same name.
                params[f"**{name}" if name in params else name] = value
        return params


def version_of(fn: Callable[..., Any]) -> str:
    """A hash of a function's qualified name and source, and of the text and numbers it takes from enclosing functions.

    A function in C counts by name. Functions that `fn` calls do not count. Raises ConfigError without a source.
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = inspect.unwrap(fn)
    fn = getattr(fn, "__func__", fn)
    if not inspect.isroutine(fn) and not inspect.isclass(fn):
        fn = type(fn)  # an object with __call__
    name = _task_name(fn)
    if inspect.isbuiltin(fn) or inspect.ismethoddescriptor(fn):
        return name
    try:
        # Under `python -c`, Python 3.13 returns the program's text for a function made by `exec`.
        made_by_exec = getattr(getattr(fn, "__code__", None), "co_filename", None) == "<string>"
        source = "" if made_by_exec else inspect.getsource(fn)
    except (OSError, TypeError):
        source = ""
    if not source:
        raise ConfigError(
            f"memoize: {name} has no source to tell its versions apart; give it one, e.g. memoize(version=1), "
            "and change it with the function"
        )
    text = "\0".join((name, source, canonical(_enclosed_values(fn))))
    return text_hash(text)[:16]


def call_with(fn: Callable[..., Any], params: Mapping[str, Any], prefix: str | None) -> Callable[[], Any]:
    """The call `fn(**params)`, without the parameters whose names begin with `prefix`.

    Raises ConfigError when the function does not take them.
    """
    arguments = {name: value for name, value in params.items() if prefix is None or not name.startswith(prefix)}
    try:
        inspect.signature(fn).bind(**arguments)
    except ValueError:
        pass  # some functions in C have no signature
    except TypeError as error:
        names = ", ".join(arguments)
        kept_back = "" if len(arguments) == len(params) else (
            f"; names that begin with {prefix!r} are not passed on (per_call=None passes them)"
        )  # fmt: skip
        raise ConfigError(
            f"get_or_compute calls fn({', '.join(f'{name}=...' for name in arguments)}): {error}{kept_back}. "
            f"Let fn take these parameters, or wrap it: lambda {names or '**params'}: fn(...)"
        ) from None
    return functools.partial(fn, **arguments)


def _task_name(fn: Callable[..., Any]) -> str:
    """The function's module and qualified name."""
    name = getattr(fn, "__qualname__", "")
    if not name:
        raise ConfigError(f"memoize: give {type(fn).__name__} objects a name=, they have none of their own")
    return f"{getattr(fn, '__module__', '')}.{name}"


def _enclosed_values(fn: Any) -> dict[str, Any]:
    """Texts, numbers and None from enclosing functions, which tell apart the functions that one factory makes."""
    values: dict[str, Any] = {}
    if not inspect.isfunction(fn):
        return values
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
            if value is None or isinstance(value, str | bytes | int | float):
                canonical(value)
                values[name] = value
        except ValueError:
            continue  # not assigned yet, or NaN
    return values
