"""Sessions of 1,000, 10,000 and 100,000 messages: append, open and bytes on disk, beside other libraries' stores.

The last 50 messages are saved one at a time, what is before them in parts of 1,000 (the peers: in one call). On SQLite
each is durable before the next (synchronous=FULL). langgraph's checkpointers take part up to 1,000.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from autocontext import AutoContextMemory
from autocontext.history.entries import Added
from autocontext.stores import SqliteSessionStore, SqlSessionStore
from autocontext.stores.sqlite_database import SqliteDatabase
from benchmarks.measure import Row, run
from benchmarks.peers import versions
from benchmarks.storage import ADDED, POSTGRESQL, S, messages, on_disk, payload, peers, saved, server

LENGTHS, LAST = (1_000, 10_000, 100_000), 50


def lengths() -> Iterator[Row]:
    """The rows of this library, each above those of the peers on the same engine."""
    ours: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        ours["SQLite"] = {}
        for length in LENGTHS:
            store = SqliteSessionStore(SqliteDatabase(path, power_safe=True))
            ours["SQLite"] |= _length(store, length)
            store.scrub()
            ours["SQLite"][f"bytes {length}"] = on_disk(path) / payload(length)
            store.close()
            path.unlink()
    if (store := server()) is not None:
        ours["PostgreSQL"] = {}
        for length in LENGTHS:
            ours["PostgreSQL"] |= _length(store, length)
            store.delete(S)
        store.close()
    theirs_of = peers(
        "lengths", max(LENGTHS), lengths=LENGTHS, last=LAST, postgresql=POSTGRESQL if "PostgreSQL" in ours else ""
    )
    names = {"append": ("save a message at {}", 1e6, "us"), "read": ("open {} messages and read every one", 1e3, "ms"),
             "bytes": ("bytes on disk per byte of text, {} messages", 1, "x")}  # fmt: skip
    for what, (name, factor, unit) in names.items():
        for length in LENGTHS:
            key = f"{what} {length}"
            for engine, figures in ours.items():
                if key not in figures:
                    continue
                yield Row(f"{engine}: {name.format(f'{length:,}')}", figures[key] * factor, unit)
                for peer, theirs in theirs_of.items():
                    if key in theirs and peer.endswith(engine):
                        ratio = theirs[key] / figures[key]
                        yield Row(f"  {peer}", theirs[key] * factor, unit, "this library", ratio)


def _length(store: SqlSessionStore | SqliteSessionStore, length: int) -> dict[str, float]:
    """Seconds to save one of the last messages, and to open the session and read every message of it."""
    entries = [Added(message=m) for m in messages(length)]
    for after in range(0, length - LAST, ADDED):
        store.append(S, entries[after : min(after + ADDED, length - LAST)], after=after)
    append = saved(store, entries[length - LAST :], length - LAST)
    begun = time.perf_counter()
    assert len(AutoContextMemory(store=store, session_id=S.session_id, user_id=S.user_id).messages) == length
    return {f"append {length}": append, f"read {length}": time.perf_counter() - begun}


if __name__ == "__main__":
    sys.exit(run("lengths", [lengths], versions("storage")))
