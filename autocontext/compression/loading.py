"""Loads a counter's vocabulary in a thread, before the first exact count needs it."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from autocontext.flows.forking import fork_lock
from autocontext.tokens import TokenCounter, VocabularyCounter

_threads: dict[tuple[int, str], threading.Thread] = {}
"""Those that load or have loaded, by process and vocabulary: a fork takes no thread along."""
_lock = fork_lock()


class Loading:
    """The vocabulary of one counter; a counter that has none, or one of the caller's own, is always ready."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter if isinstance(counter, VocabularyCounter) else None

    @property
    def ready(self) -> bool:
        """Whether counting need not wait. If loading failed, the next count raises its error."""
        thread = self._thread()
        return self._counter is None or (thread is not None and not thread.is_alive())

    def start(self) -> None:
        """Begin to load, unless that was done; in a daemon thread, so that the program can end meanwhile."""
        if self._counter is None or self._thread() is not None:
            return
        with _lock:
            if self._thread() is None:
                thread = threading.Thread(
                    target=_load, args=(self._counter,), name="autocontext-vocabulary", daemon=True
                )
                thread.start()
                _threads[os.getpid(), self._counter.name] = thread

    def wait(self) -> None:
        """Wait for the thread, if one was started."""
        if (thread := self._thread()) is not None:
            thread.join()

    def _thread(self) -> threading.Thread | None:
        return None if self._counter is None else _threads.get((os.getpid(), self._counter.name))


def _load(counter: VocabularyCounter) -> None:
    with suppress(Exception):  # the next count tries again and raises the error
        counter.load()
