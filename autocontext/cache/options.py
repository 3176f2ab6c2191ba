"""The options of `get_or_compute` and `memoize`, and their checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias, TypedDict

from autocontext.cache.canonical import Names, names_in
from autocontext.cache.canonical_numbers import rounded
from autocontext.errors import ConfigError, did_you_mean, short
from autocontext.stores.checks import LONGEST, check_texts, check_whole, is_number

Seconds: TypeAlias = float | timedelta
Normalizer: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any]]


class CacheOptions(TypedDict, total=False):
    """The keyword arguments of `get_or_compute` and `memoize`."""

    ttl: Seconds | None
    """Seconds a result lives. None means the cache's `default_ttl`, `math.inf` means for ever."""
    tags: Iterable[str] | str
    """Names under which results are invalidated together."""
    version: Any
    """Part of the key: a new version does not find the results of the old one."""
    ignore: Names
    """Parameters that are neither in the key nor stored, such as credentials, connections, loggers."""
    hashed: Names
    """Parameters that are part of the key, but of which only a hash is stored."""
    quantize: Mapping[str, Any] | None
    """Parameter name to step: the key uses the nearest multiple of the step. The function gets the exact value."""
    normalizer: Normalizer | None
    """Takes the parameters and returns those that form the key, for instance with numbers for words."""
    float_digits: int | None
    """Significant digits of floats in the key. None keeps them all."""
    stale_while_revalidate: Seconds | None
    """Seconds after expiry in which callers still get the old result while one recomputes it in the background."""
    early_beta: float | None
    """Recompute in the background at a random time before expiry, the earlier the longer it takes. 1.0 is a good value.

    The rule: Vattani, Chierichetti, Lowenstein, Optimal Probabilistic Cache Stampede Prevention, VLDB 2015.
    """
    cache_exceptions: tuple[type[Exception], ...]
    """Exceptions to store, and to raise on a hit. Others are never stored."""
    exception_ttl: Seconds
    """Seconds a stored exception lives."""
    cache_none: bool
    """Whether to store None as a result. Otherwise a function that returns None is called each time."""
    per_call: str | None
    """A prefix: parameters and result fields that start with it belong to one call and are not stored."""


DEFAULTS: CacheOptions = {
    "ttl": None, "tags": (), "version": None, "ignore": (), "hashed": (), "quantize": None, "normalizer": None,
    "float_digits": None, "stale_while_revalidate": None, "early_beta": None, "cache_exceptions": (),
    "exception_ttl": 60.0, "cache_none": False, "per_call": None,
}  # fmt: skip


def check_names(options: CacheOptions, names: Iterable[str], task: str) -> None:
    """Raise ConfigError when `ignore`, `hashed` or `quantize` name a parameter that the function does not have."""
    known = frozenset(names)
    for field in ("ignore", "hashed", "quantize"):
        if unknown := sorted(set(options[field] or ()) - known):
            raise ConfigError(f"{field}: {task} has no parameter {unknown[0]!r}; it has {', '.join(sorted(known))}")


def check_options(options: CacheOptions) -> None:
    """Raise ConfigError that names a wrong value, TypeError for a wrong name."""
    if unknown := sorted(options.keys() - DEFAULTS.keys()):
        raise TypeError(f"there is no option {unknown[0]!r}; {did_you_mean(unknown[0], DEFAULTS)}")
    for field in ("ttl", "stale_while_revalidate", "exception_ttl"):
        length = options[field]
        if length is not None:
            seconds(length, field)
    beta, digits, kinds = options["early_beta"], options["float_digits"], options["cache_exceptions"]
    if beta is not None and not (isinstance(beta, int | float) and beta > 0):
        raise ConfigError(f"early_beta must be a number above 0, or None (got {beta!r})")
    check_whole("float_digits", digits, 1, none="all of them")
    if not isinstance(kinds, tuple) or not all(
        isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds
    ):
        raise ConfigError(f"cache_exceptions must be a tuple of exception classes (got {kinds!r})")
    options["ignore"], options["hashed"] = names_in(options["ignore"], "ignore"), names_in(options["hashed"], "hashed")
    names_in(options["quantize"] or (), "quantize")
    for step in dict(options["quantize"] or ()).values():
        rounded(0, step)
    if not (options["normalizer"] is None or callable(options["normalizer"])):
        raise ConfigError(f"normalizer must be a function of the parameters (got {short(options['normalizer'])})")
    check_texts(per_call=options["per_call"])
    if options["tags"]:
        options["tags"] = tag_list(options["tags"])


def seconds(length: Seconds, field: str) -> float:
    """A length of time in seconds. Raises ConfigError unless it is above 0."""
    value = length.total_seconds() if isinstance(length, timedelta) else length
    if not is_number(value) or value <= 0:
        raise ConfigError(f"{field} must be more than 0 seconds (got {length!r})")
    return float(value) if value <= LONGEST else math.inf


def tag_list(tags: Iterable[str] | str) -> list[str]:
    """Tags in order, each once; a single text is one tag. Raises ConfigError."""
    names = [tags] if isinstance(tags, str) else list(tags) if isinstance(tags, Iterable) else [tags]
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigError("tags: each tag must be a text that is not empty")
    return sorted(set(names))
