"""Renews leases, in a thread, while functions compute."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from autocontext.cache import leases
from autocontext.cache.namespace import CacheNamespace
from autocontext.errors import StoreError
from autocontext.flows.forking import fork_lock
from autocontext.stores.database import Database

_PER_LEASE = 3
"""Renewals per lease time: two of them may fail."""


class Renewing:
    """The leases of one cache. Its thread runs while there are computations, and up to a third of a lease longer."""

    def __init__(self, namespace: CacheNamespace, database: Database) -> None:
        self._namespace, self._database = namespace, database
        self._lock = fork_lock()
        self._holders: set[str] = set()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._pid = os.getpid()

    @contextmanager
    def kept(self, holder: str) -> Iterator[None]:
        """Renew the lease of a computation as long as this block runs."""
        if self._namespace.lease is None or not holder:
            yield
            return
        with self._lock:
            if self._pid != os.getpid():
                # After a fork these computations, and the thread, are in the other process.
                self._holders, self._thread, self._pid = set(), None, os.getpid()
            self._holders.add(holder)
            if self._thread is None:
                self._wake.clear()
                self._thread = threading.Thread(target=self._work, name="autocontext leases", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._holders.discard(holder)

    def stop(self) -> None:
        """Let the thread end now if there is nothing to renew."""
        self._wake.set()

    def _work(self) -> None:
        length = self._namespace.lease or 0
        while True:
            self._wake.wait(length / 1000 / _PER_LEASE)
            with self._lock:
                self._wake.clear()
                holders = frozenset(self._holders)
                if not holders:
                    self._thread = None
                    return
            with suppress(StoreError):  # the next attempt may do
                self._database.write(partial(leases.renew, self._namespace, holders))
