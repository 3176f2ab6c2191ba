"""What may be said about one kind of result: how it is keyed, how long it lives, who waits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias, TypedDict

from autocontext.canonical import CacheKey, Names, canonical_key, names_in
from autocontext.errors import ConfigError

Seconds: TypeAlias = float | timedelta
Normalizer: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any]]


class CallOptions(TypedDict, total=False):
    """The keyword arguments of `get_or_compute` and `memoize`, for type checkers; `Options` says what they mean."""

    ttl: Seconds | None
    tags: Iterable[str] | str
    version: Any
    ignore: Names
    redact: Names
    quantize: Mapping[str, Any] | None
    normalizer: Normalizer | None
    float_digits: int | None
    stale_while_revalidate: Seconds | None
    early_beta: float | None
    cache_exceptions: tuple[type[Exception], ...]
    exception_ttl: Seconds
    cache_none: bool
    per_call: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one kind of result is cached. Raises ConfigError naming the option that cannot be."""

    ttl: Seconds | None = None
    """Seconds a result lives; None is the cache's default_ttl, math.inf for ever."""
    tags: Iterable[str] | str = ()
    """Names under which results are invalidated together."""
    version: Any = None
    """Part of the key: another version computes anew."""
    ignore: Names = ()
    """Parameters that are neither in the key nor stored: credentials, connections, loggers."""
    redact: Names = ()
    """Parameters that count for the key, and of which only a hash is stored."""
    quantize: Mapping[str, Any] | None = None
    """Parameter to step: its number is rounded to a multiple of it for the key. The function gets it as it was."""
    normalizer: Normalizer | None = None
    """Makes the parameters that form the key out of those given, for instance numbers out of words."""
    float_digits: int | None = None
    """Significant digits of floats that count; None counts them all."""
    stale_while_revalidate: Seconds | None = None
    """Seconds after its end in which a result is still given, while one caller computes it anew in the background."""
    early_beta: float | None = None
    """Compute anew in the background before the end, at random, the earlier the longer it takes; 1.0 is a good value.

    The rule: Vattani, Chierichetti, Lowenstein, Optimal Probabilistic Cache Stampede Prevention, VLDB 2015.
    """
    cache_exceptions: tuple[type[Exception], ...] = ()
    """Exceptions that are results too, and raised again on a hit; any other is never stored."""
    exception_ttl: Seconds = 60.0
    """Seconds such an exception lives."""
    cache_none: bool = False
    """Whether None is a result; otherwise it is returned and computed anew the next time."""
    per_call: str | None = None
    """Fields of the result that begin with this belong to one call: they are not stored, each call gets its own."""

    def __post_init__(self) -> None:
        if self.ttl is not None:
            seconds(self.ttl, "ttl")
        if self.cache_exceptions:
            seconds(self.exception_ttl, "exception_ttl")
            _check_exceptions(self.cache_exceptions)
        if self.stale_while_revalidate is not None:
            seconds(self.stale_while_revalidate, "stale_while_revalidate")
        if self.early_beta is not None and not (isinstance(self.early_beta, int | float) and self.early_beta > 0):
            raise ConfigError(f"early_beta must be a number above 0, or None (got {self.early_beta!r})")
        if self.float_digits is not None and not (isinstance(self.float_digits, int) and self.float_digits > 0):
            raise ConfigError(f"float_digits must be a whole number above 0, or None (got {self.float_digits!r})")
        if self.tags:
            tags_of(self.tags)

    def key(self, task: str, params: Mapping[str, Any]) -> CacheKey:
        """The key of a call, without what belongs to this call only. Raises UncacheableError, ConfigError."""
        if self.per_call is not None and any(str(name).startswith(self.per_call) for name in params):
            params = {name: value for name, value in params.items() if not str(name).startswith(self.per_call)}
        if self.normalizer is not None:
            params = self.normalizer(dict(params))
        return canonical_key(
            task,
            params,
            ignore=self.ignore,
            quantize=self.quantize,
            version=self.version,
            redact=self.redact,
            float_digits=self.float_digits,
        )

    def check_names(self, known: Iterable[str], task: str) -> None:
        """Raise ConfigError when `ignore`, `redact` or `quantize` name a parameter that the function does not have."""
        names = frozenset(known)
        for field, given in (("ignore", self.ignore), ("redact", self.redact), ("quantize", self.quantize or ())):
            if unknown := sorted(names_in(given, field) - names):
                raise ConfigError(f"{field}: {task} has no parameter {unknown[0]!r}, it has {', '.join(sorted(names))}")


def seconds(value: Seconds, field: str) -> float:
    """A length of time as seconds. Raises ConfigError unless it is above 0."""
    length = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(length, bool) or not isinstance(length, int | float) or math.isnan(length) or length <= 0:
        raise ConfigError(f"{field} must be more than 0 seconds (got {value!r})")
    return float(length)


def tags_of(tags: Iterable[str] | str) -> list[str]:
    """Tags in order, each once; a single text is one tag. Raises ConfigError."""
    found = {tags} if isinstance(tags, str) else set(tags)
    if not all(isinstance(tag, str) and tag for tag in found):
        raise ConfigError("tags: each tag is a text that is not empty")
    return sorted(found)


def _check_exceptions(kinds: tuple[type[Exception], ...]) -> None:
    given = kinds if isinstance(kinds, tuple) else (kinds,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in given) or given != kinds:
        raise ConfigError(f"cache_exceptions: a tuple of exception classes (got {kinds!r})")
