"""The options of one kind of result: what counts for its key, how long it lives, who waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias, TypedDict

from autocontext.cache.canonical import Names, names_in
from autocontext.errors import ConfigError

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
    """Parameters that are neither in the key nor stored: credentials, connections, loggers."""
    hashed: Names
    """Parameters that count for the key; the database holds only a hash of their values."""
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
    """Exceptions to store, and to raise again on a hit. Others are never stored."""
    exception_ttl: Seconds
    """Seconds a stored exception lives."""
    cache_none: bool
    """Store None as a result. Otherwise a function that returns None is called each time."""
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
        listed = options[field] or ()
        if unknown := sorted(names_in(listed, field) - known):
            raise ConfigError(f"{field}: {task} has no parameter {unknown[0]!r}; it has {', '.join(sorted(known))}")
