"""`memoize`: the decorator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from autocontext.cache.canonical import CacheKey
from autocontext.cache.namespace import call_key
from autocontext.cache.options import CacheOptions, check_names
from autocontext.cache.versions import Arguments, kept_version, task_name
from autocontext.errors import ConfigError


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
    task = name or task_name(fn)
    arguments = Arguments(fn)
    if not arguments.open_ended and options["normalizer"] is None:
        check_names(options, arguments.names, task)
    version = None if options["version"] is not None else kept_version(fn, named=name is not None)

    @functools.cache
    def chosen() -> CacheOptions:
        return options if version is None else {**options, "version": version()}

    def asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return task, arguments(args, kwargs), lambda: functools.partial(fn, *args, **kwargs), chosen()

    def call(*args: Any, **kwargs: Any) -> Any:
        return get(*asked(args, kwargs))

    async def acall(*args: Any, **kwargs: Any) -> Any:
        return await aget(*asked(args, kwargs))

    wrapper: Any = acall if inspect.iscoroutinefunction(fn) else call

    def cache_key(*args: Any, **kwargs: Any) -> CacheKey:
        return call_key(task, arguments(args, kwargs), chosen())

    if not isinstance(fn, functools.partial):
        functools.update_wrapper(wrapper, fn)
    wrapper.cache_key = cache_key
    return wrapper  # type: ignore[no-any-return]


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
