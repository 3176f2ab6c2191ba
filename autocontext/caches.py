"""Caches of this process that hold parts of messages: what erases messages empties them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

T = TypeVar("T")


class Cache(Protocol):
    """Computes again what it does not hold any more."""

    def cache_clear(self) -> None:
        """Forget everything."""


_caches: WeakSet[Cache] = WeakSet()


def register(cache: Cache) -> None:
    """Have a cache emptied by `forget_texts`, as long as it lives."""
    _caches.add(cache)


def cached(maxsize: int) -> Callable[[Callable[..., T]], _lru_cache_wrapper[T]]:
    """`functools.lru_cache` for a function of texts."""

    def decorate(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        wrapper = lru_cache(maxsize=maxsize)(function)
        register(wrapper)
        return wrapper

    return decorate


def forget_texts() -> None:
    """Empty all caches."""
    for cache in list(_caches):
        cache.cache_clear()
