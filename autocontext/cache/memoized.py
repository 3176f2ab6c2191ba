"""The decorator: a function whose calls are looked up before they are made."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

from autocontext.cache.computing import Computing
from autocontext.cache.functions import Arguments, task_name, version_of
from autocontext.cache.options import Options
from autocontext.canonical import CacheKey
from autocontext.errors import ConfigError


def memoized(computing: Computing, fn: Callable[..., Any], name: str | None, options: Options) -> Callable[..., Any]:
    """The function with its results kept; asynchronous if the function is."""
    if not callable(fn):
        raise ConfigError(f"memoize: only functions can be decorated (got {type(fn).__name__})")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise ConfigError("memoize: a generator's values pass once and cannot be kept; return a list instead")
    task = name or task_name(fn)
    arguments = Arguments(fn)
    if not arguments.open_ended and options.normalizer is None:
        options.check_names(arguments.names, task)
    if options.version is None:
        options = dataclasses.replace(options, version=version_of(fn))

    def key(*args: Any, **kwargs: Any) -> CacheKey:
        return options.key(task, arguments(args, kwargs))

    wrapper: Any
    if inspect.iscoroutinefunction(fn):

        async def acall(*args: Any, **kwargs: Any) -> Any:
            params = arguments(args, kwargs)
            return await computing.aget(task, params, lambda: functools.partial(fn, *args, **kwargs), options)

        wrapper = acall
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            params = arguments(args, kwargs)
            return computing.get(task, params, lambda: functools.partial(fn, *args, **kwargs), options)

        wrapper = call
    if not isinstance(fn, functools.partial):
        wrapper = functools.wraps(fn)(wrapper)
    wrapper.cache_key = key
    decorated: Callable[..., Any] = wrapper
    return decorated
