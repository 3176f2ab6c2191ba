"""The contract of the content stores: identity by hash, keys, references, namespaces, time, async twins."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.content import SqliteContentStore
from autocontext.content.contents import basename, candidates
from autocontext.content.records import REF
from autocontext.content.store import DatabaseContentStore, PagedContentStore
from autocontext.errors import ConfigError, StoreError, StoreVersionError
from autocontext.stores.database import Database, Statement, Work, safe, unsafe
from tests.content.conftest import Clock


def read(store: PagedContentStore, name: str, namespace: str = "") -> str | None:
    page = store.read(name, namespace=namespace)
    return None if page is None else page.text


def test_the_same_content_has_one_handle_and_lies_there_once(store: PagedContentStore) -> None:
    one, two = store.put("same text"), store.put("same text", key="k")
    assert one.ref == two.ref
    assert REF.fullmatch(one.ref)
    assert one.ref == f"c_{one.sha256[:12]}"
    assert store.put(b"same text").ref == one.ref, "bytes that are UTF-8 are the text"
    assert store.put("same text").ref == one.ref
    assert store.stats().contents == store.stats().pages == 1
    assert store.stats().usage["duplicates"] == 2, "the last two wrote nothing"


def test_a_content_stays_as_long_as_anything_leads_to_it(store: PagedContentStore) -> None:
    ref = store.put("shared", key="a").ref
    store.put("shared", key="a")
    store.put("shared", key="b")
    assert store.delete("a")
    assert not store.delete("a")
    assert read(store, "b") == read(store, ref) == "shared"
    store.put("shared")
    assert store.delete("b")
    assert not store.has("b")
    assert read(store, ref) == "shared", "it was also put without a key"
    assert store.delete(ref)
    assert not store.has(ref)
    assert store.stats().pages == 0
    store.put("shared", key="c")
    assert store.delete(ref)
    assert not store.has("c"), "by its handle it goes with all its keys"


def test_a_key_lets_its_old_content_go(store: PagedContentStore) -> None:
    old = store.put("old", key="k").ref
    new = store.put("new", key="k").ref
    assert read(store, "k") == "new"
    assert store.has(new)
    assert not store.has(old)
    assert store.stats().contents == 1


def test_the_path_is_the_key_when_none_is_given(store: PagedContentStore) -> None:
    assert store.put("x", path="/a/b.txt").key == "/a/b.txt"
    assert read(store, "/a/b.txt") == "x"
    assert store.put("x", key="own", path="/a/b.txt").key == "own"
    assert store.put("x").key is None
    assert store.keys() == ["/a/b.txt", "own"]
    assert store.keys(limit=1) == ["/a/b.txt"]


def test_two_contents_with_one_beginning_of_the_hash_get_handles_of_their_own(
    database_store: DatabaseContentStore,
) -> None:
    store = database_store
    ref = store.put("mine").ref

    def disguise() -> Work[None]:
        yield Statement(
            "UPDATE autocontext_content SET sha256 = 'another', checksum = NULL WHERE ref = :ref", {"ref": ref}
        )

    store.database.write(disguise)
    longer = store.put("mine")
    assert longer.ref == f"c_{longer.sha256[:16]}"
    assert longer.ref.startswith(ref)
    assert store.put("mine", key="k").ref == longer.ref == store.put("mine").ref
    assert read(store, longer.ref) == "mine"
    assert store.stats().contents == 2
    assert [len(c) for c in candidates("f" * 64)] == [14, 18, 26, 66]


def test_bytes_come_back_as_they_were(store: PagedContentStore) -> None:
    raw = bytes(range(256)) * 300
    info = store.put(raw, key="raw", type="image/png")
    assert info.encoding == "base64"
    assert store.read_bytes("raw") == raw == store.read_bytes(info.ref)
    assert info.chars == len(read(store, "raw") or "")
    assert store.read_bytes("nothing") is None
    surrogate = "half \ud800 pair\x00"
    store.put(surrogate, key=surrogate, name=surrogate, summary=surrogate)
    found = store.info(surrogate)
    assert read(store, surrogate) == surrogate
    assert found is not None
    assert (found.key, found.name, found.summary) == (surrogate,) * 3
    assert read(store, store.put("").ref) == ""
    with pytest.raises(TypeError, match="takes str or bytes"):
        store.put({"a": 1})  # type: ignore[arg-type]


def test_nothing_crosses_namespaces(store: PagedContentStore) -> None:
    mine = store.put("tenant one secret", key="k", namespace="one")
    theirs = store.put("tenant one secret", key="k", namespace="two")
    assert mine.ref == theirs.ref
    for name in ("k", mine.ref):
        assert read(store, name) is None
        assert not store.has(name)
        assert store.summary(name) is None
        assert store.read_bytes(name) is None
    assert store.search("secret") == []
    assert store.find("k") == []
    assert store.keys() == []
    assert [h.key for h in store.search("secret", namespace="one")] == ["k"]
    assert not store.delete(mine.ref)
    assert store.delete(mine.ref, namespace="one")
    assert read(store, "k", "two") == "tenant one secret"
    store.put("other", namespace="one")
    store.clear("two")
    assert store.stats("two").contents == 0
    assert store.stats("one").contents == store.stats(None).contents == 1


def test_time_ends_keys_and_contents(store: PagedContentStore, clock: Clock) -> None:
    short = store.put("text", ttl=10)
    assert short.expires_at == clock.now + 10_000
    store.put("text", key="longer", ttl=100)
    store.put("kept", key="kept", ttl=1)
    store.put("kept", key="forever")
    clock.now += 50_000
    assert read(store, "longer") == read(store, short.ref) == "text"
    assert not store.has("kept")
    assert read(store, "forever") == "kept"
    assert store.purge_expired() == 0
    assert store.stats().keys == 2
    clock.now += 51_000
    assert not store.has("longer")
    assert not store.has(short.ref)
    assert store.search("text") == []
    assert store.purge_expired() == 1
    again = store.put("text")
    assert again.expires_at is None
    assert read(store, again.ref) == "text"
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ConfigError, match="ttl"):
            store.put("x", ttl=wrong)


@pytest.mark.sampled
def test_the_async_twins_do_the_same(store: PagedContentStore) -> None:
    async def all_of_it() -> None:
        info = await store.aput("needle in hay\n" * 3_000, key="/a/k.txt", summary="hay")
        assert (await store.aput("free")).ref == (await store.aput("free")).ref
        page = await store.aread("/a/k.txt", 0, 13)
        assert page is not None
        assert page.text == "needle in hay"
        assert page == store.read("/a/k.txt", 0, 13)
        assert (await store.aread(info.ref)) == store.read(info.ref)
        assert await store.aread("nothing") is None
        assert await store.aread_bytes("nothing") is None
        assert await store.aread_bytes("/a/k.txt") == store.read_bytes("/a/k.txt")
        assert await store.ainfo(info.ref) == store.info(info.ref)
        assert await store.ahas("/a/k.txt")
        assert await store.asummary("/a/k.txt") == "hay"
        assert await store.asummary("nothing") is None
        assert await store.afind("k.txt") == await store.afind("/a/k.txt") == store.find("k.txt")
        assert await store.akeys() == ["/a/k.txt"]
        assert await store.asearch("needle", limit=1) == store.search("needle", limit=1)
        assert (await store.astats()).contents == 2
        assert await store.adelete("/a/k.txt")
        assert await store.apurge_expired() == 0
        await store.aclear()
        assert (await store.astats(None)).contents == 0
        await store.aclose()

    asyncio.run(all_of_it())


@pytest.mark.sampled
def test_many_tasks_put_the_same_and_different_texts(store: PagedContentStore) -> None:
    async def race() -> list[str]:
        puts = (store.aput(f"text {i % 5} " * 400, key=f"k{i}") for i in range(20))
        found = [info.ref for info in await asyncio.gather(*puts)]
        assert len(set(found)) == 5
        assert (await store.astats()).contents == 5
        assert (await store.astats()).keys == 20
        await asyncio.gather(*(store.adelete(f"k{i}") for i in range(20)))
        assert (await store.astats()).contents == 0
        await store.aclose()
        return found

    asyncio.run(race())


@pytest.mark.sampled
def test_search_finds_a_passage_in_a_large_corpus(store: PagedContentStore) -> None:
    filler = "The quick brown fox jumps over the lazy dog while nothing happens at all. " * 1_500
    for i in range(12):
        store.put(f"{filler}file number {i}", key=f"f{i}")
    store.put(filler + "\nThe retry limit of the billing service is 17.\n" + filler, key="target")
    hits = store.search("billing retry limits", limit=3)
    assert hits[0].key == "target"
    assert "is 17" in hits[0].text
    text = read(store, "target") or ""
    assert text[hits[0].offset :].startswith(hits[0].text)
    assert store.search("billing", limit=0) == []


def test_one_database_holds_several_parts(tmp_path: Path) -> None:
    first = SqliteContentStore(tmp_path / "agent.db")
    shared = SqliteContentStore(first.database)
    first.put("x", key="k")
    assert shared.has("k")
    assert shared.database is first.database
    shared.close()
    assert read(first, "k") == "x", "a closed database opens again"


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    store = SqliteContentStore(tmp_path / "agent.db")

    def future() -> Work[None]:
        yield Statement("UPDATE autocontext_schema SET version = 99 WHERE part = 'contents'")

    store.database.write(future)
    with pytest.raises(StoreVersionError, match="99"):
        SqliteContentStore(tmp_path / "agent.db")
    with pytest.raises(StoreError):
        SqliteContentStore(tmp_path / "no" / "folder" / "agent.db")
    assert isinstance(store.database, Database)


@given(st.text(st.characters(), max_size=20), st.text(st.characters(), max_size=20))
def test_what_goes_into_text_columns_comes_back_and_stays_different(one: str, two: str) -> None:
    assert unsafe(safe(one)) == one
    assert (safe(one) == safe(two)) == (one == two)
    safe(one).encode()
    assert "\x00" not in safe(one)


def test_base_names() -> None:
    assert [basename(k) for k in ("/a/b.txt", "b.txt", "C:\\x\\b.txt", "/a/dir/", "")] == [
        "b.txt", "b.txt", "b.txt", "dir", "",
    ]  # fmt: skip


def test_putting_again_without_a_key_holds_a_content_once(store: PagedContentStore) -> None:
    for seconds in (10, 20, None, 30):
        store.put("0123456789", ttl=seconds)
    store.put("0123456789", key="k")
    store.put("0123456789", key="k")
    assert (store.stats().contents, store.stats().keys) == (1, 1)
    assert store.delete("k")
    assert store.stats().contents == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what a process writes")
def test_storing_writes_little_more_than_what_is_stored(tmp_path: Path) -> None:
    """Write-ahead file, database and checkpoint together, of texts that compress as tool output does."""
    dice = random.Random(11)
    words = [f"{dice.randrange(16**6):06x}" for _ in range(400)]
    texts = [" ".join(dice.choices(words, k=7_143)) for _ in range(40)]
    store = SqliteContentStore(tmp_path / "agent.db")
    before = _written()
    for i, text in enumerate(texts):
        store.put(text, key=f"file_{i}.txt")
    store.close()
    assert _written() - before <= 1.2 * sum(map(len, texts))


def _written() -> int:
    return int(Path("/proc/self/io").read_text().partition("wchar: ")[2].split()[0])
