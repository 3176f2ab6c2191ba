"""The CPU time to search what was said, beside a scan of all messages and a bare SQLite FTS5 table of the texts.

The scan reads the session and looks for the words in each text. FTS5 holds nothing but the texts, without stems,
snippets, users or erasing; for Chinese it uses `trigram`, which finds no word of two characters. LIKE goes through a
plain table of the texts.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from autocontext import Msg
from autocontext.history.entries import Added
from autocontext.stores import SessionKey, SqliteSessionStore
from autocontext.stores.search_index import searchable
from benchmarks.measure import ROOT, Row, run
from benchmarks.storage import TEXTS, server

COUNT, LARGE, AGAIN = 10_000, 1_000_000, 7
S = SessionKey("user", "session")


def english() -> list[str]:
    """Texts of real conversations."""
    return [TEXTS[i % len(TEXTS)][1] for i in range(COUNT)]


def chinese() -> list[str]:
    """Sentences of a real conversation, shuffled, 140 characters each with numbers of their own."""
    text = (ROOT / "tests" / "data" / "handover_zh.jsonl").read_text(encoding="utf-8")
    sentences = re.findall(r"[\u4e00-\u9fff，、0-9a-z]{6,60}", text)
    rng = random.Random(7)
    return [("。".join(rng.choices(sentences, k=12)) + str(i))[-140:] for i in range(COUNT)]


def large() -> list[str]:
    """Ten texts of a million characters, with words that they hold thousands of times."""
    whole = "\n".join(text for _, text in TEXTS)
    return [(whole[i * 5000 :] + whole)[:LARGE] for i in range(10)]


def cpu(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def least(work: Callable[[], object]) -> float:
    return min(cpu(work) for _ in range(AGAIN))


def searched(texts: list[str], query: str, what: str, *, tokenizer: str, first: float, again: float) -> Iterator[Row]:
    """Rows for one kind of texts; `first` and `again` are goals in seconds."""
    entries = [Added(message=Msg(role="user", content=text)) for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteSessionStore(Path(folder) / "a.db")
        store.append(S, entries, after=0)
        search = partial(store.search, query, user_id=S.user_id)
        scanned = cpu(partial(_scan, store, query))
        table = sqlite3.connect(Path(folder) / "fts.db", isolation_level=None)
        fill = partial(_fts, table, texts, tokenizer)
        made = cpu(fill)
        taken = cpu(search)
        yield Row(
            f"first search, {what}", taken, "s", goal=first, more={"us a message": round(taken / len(texts) * 1e6)}
        )
        yield Row("  a scan", scanned, "s", "this library", scanned / taken)
        yield Row(f"  filling FTS5 ({tokenizer})", made, "s", "this library", made / taken)
        taken = least(search)
        yield Row(f"next search, {what}", taken * 1e3, "ms", goal=again * 1e3)
        for name, work in (
            ("a scan", partial(_scan, store, query)),
            ("LIKE", lambda: table.execute("SELECT i FROM plain WHERE text LIKE ?", (f"%{query}%",)).fetchall()),
            (f"FTS5 ({tokenizer})", partial(_ranked, table, query)),
        ):
            there = least(work)
            yield Row(f"  {name}", there * 1e3, "ms", "this library", there / taken)
        times = []
        for i in range(AGAIN):
            store.append(S, entries[:1], after=len(entries) + i)
            times.append(cpu(search))
        yield Row(f"search after one more message, {what}", min(times) * 1e3, "ms")
        table.close()
        store.close()


def _scan(store: SqliteSessionStore, query: str) -> list[int]:
    wanted = query.lower().split()
    texts = (searchable(entry.message).lower() for entry in store.read(S) if isinstance(entry, Added))
    return [i for i, text in enumerate(texts) if all(word in text for word in wanted)]


def _fts(table: sqlite3.Connection, texts: list[str], tokenizer: str) -> None:
    table.execute("CREATE TABLE plain (i INTEGER PRIMARY KEY, text TEXT)")
    table.execute("BEGIN")
    table.executemany("INSERT INTO plain VALUES (?, ?)", enumerate(texts))
    table.execute(f"CREATE VIRTUAL TABLE fts USING fts5(text, content='', tokenize='{tokenizer}')")
    table.executemany("INSERT INTO fts (rowid, text) VALUES (?, ?)", enumerate(texts))
    table.execute("COMMIT")


def _ranked(table: sqlite3.Connection, query: str) -> list[tuple[int]]:
    words = " ".join(json.dumps(word, ensure_ascii=False) for word in query.split())
    return table.execute("SELECT rowid FROM fts WHERE fts MATCH ? ORDER BY bm25(fts) LIMIT 10", (words,)).fetchall()


def sqlite() -> Iterator[Row]:
    rows = partial(searched, first=0.3, again=0.05)
    yield from rows(english(), "permission denied", "10,000 messages", tokenizer="unicode61")
    yield from rows(chinese(), "配置文件", "10,000 Chinese messages", tokenizer="trigram")
    yield from searched(large(), "error", "a frequent word in 10 x 1 MB", tokenizer="unicode61", first=1.0, again=0.05)


def postgresql() -> Iterator[Row]:
    store = server()
    if store is None:
        return
    user = f"search benchmark {time.time_ns()}"
    key = SessionKey(user, "session")
    try:
        for texts, query, what in (
            (english(), "permission denied", "10,000 messages"),
            (chinese(), "配置文件", "10,000 Chinese messages"),
        ):
            store.append(key, [Added(message=Msg(role="user", content=text)) for text in texts], after=0)
            for name, goal, work in (("first", 0.3, cpu), ("next", 0.05, least)):
                begun = time.perf_counter()
                taken = work(partial(store.search, query, user_id=user))
                more = {"s with the server": round(time.perf_counter() - begun, 2)} if work is cpu else {}
                yield Row(f"PostgreSQL: {name} search, {what}", taken * 1e3, "ms", goal=goal * 1e3, more=more)
            store.delete(key)
    finally:
        store.delete(key)
        store.close()


if __name__ == "__main__":
    sys.exit(run("search", [sqlite, postgresql], f"sqlite {sqlite3.sqlite_version}"))
