"""What a process keeps at hand, within a limit of bytes or of values: those that were used last."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from autocontext.caches import register
from autocontext.flows.forking import fork_lock

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by their key: at most `most` of them, or of their bytes where each comes with its size."""

    def __init__(self, most: int, *, forgotten: bool = True) -> None:
        """`forgotten`: whether erasing any message empties it."""
        self._most = most
        self._lock = fork_lock()
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0
        if forgotten:
            register(self)

    def cache_clear(self) -> None:
        """Forget everything: some of it may be erased."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def get(self, key: K) -> V | None:
        """The value of a key, if it is kept."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: K, value: V, size: int = 1) -> None:
        """Keep a value of so many bytes; those that were not used for the longest time go."""
        with self._lock:
            self.drop(key)
            self._values[key] = value, size
            self._size += size
            while self._size > self._most:
                _, (_, gone) = self._values.popitem(last=False)
                self._size -= gone

    def drop(self, key: K) -> None:
        """Forget the value of a key."""
        with self._lock:
            if key in self._values:
                self._size -= self._values.pop(key)[1]
