"""What is particular to object storage; the contract itself is tested with the other stores."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

from tests.extras import need

need("cloud")

import obstore
import pytest
from obstore.store import from_url

import autocontext.content
from autocontext.content import ObjectContentStore, prune_messages, restore_messages
from autocontext.errors import StoreCorruptError, StoreError
from tests.content.test_features import files


@pytest.fixture
def store(tmp_path: Path) -> ObjectContentStore:
    return ObjectContentStore(tmp_path.as_uri())


def objects(folder: Path, kind: str) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and f"/{kind}/" in str(p))


@pytest.mark.parametrize("name", ["store", "two words", "100%", "税"])
def test_a_folder_is_named_by_its_path_or_its_url(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    ref = ObjectContentStore(folder).put("a text").ref
    for url in (str(folder), folder.as_uri()):
        assert ObjectContentStore(url).read_bytes(ref) == b"a text"


def test_two_contents_with_one_beginning_of_the_hash(store: ObjectContentStore, tmp_path: Path) -> None:
    ref = store.put("mine").ref
    path = objects(tmp_path, "content")[0]
    head = path.read_bytes()
    sha256 = store.info(ref).sha256  # type: ignore[union-attr]
    path.write_bytes(head.replace(sha256.encode(), b"0" * 64))
    longer = store.put("mine")
    assert longer.ref == f"c_{sha256[:16]}"
    page = store.read(longer.ref)
    assert page is not None
    assert page.text == "mine"
    assert store.put("mine").ref == longer.ref
    with pytest.raises(StoreCorruptError, match="hash differs"):
        store.read_bytes(ref)


def test_a_damaged_object_is_an_error_naming_the_content(store: ObjectContentStore, tmp_path: Path) -> None:
    ref = store.put("text " * 20_000).ref
    path = objects(tmp_path, "content")[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(StoreCorruptError, match=f"{ref}: its object is cut short"):
        store.read(ref)
    path.write_bytes(b"something else")
    with pytest.raises(StoreCorruptError, match="this library did not write the object"):
        store.read(ref)
    path.write_bytes(whole[:8] + b"!" + whole[9:])
    with pytest.raises(StoreCorruptError, match="its head cannot be read"):
        store.read(ref)
    path.write_bytes(whole[:40])
    with pytest.raises(StoreCorruptError, match="its head cannot be read"):
        store.read(ref)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_a_long_content_is_read_in_stretches(kind: str, tmp_path: Path, s3: dict[str, Any]) -> None:
    store = ObjectContentStore("s3://bucket/long", **s3) if kind == "s3" else ObjectContentStore(tmp_path.as_uri())
    text = "".join(f"{i * 7919 % 1_000_003} " for i in range(300_000))
    store.put(text, key="long")
    for at in (0, 100_000, len(text) - 5_000):
        page = store.read("long", at, 5_000)
        assert page is not None
        assert page.text == text[at : at + 5_000]
    assert store.read_bytes("long") == text.encode()
    page = asyncio.run(store.aread("long", 100_000, 5_000))
    assert page is not None
    assert page.text == text[100_000:105_000]


def test_only_its_own_folder_is_ever_cleared(store: ObjectContentStore, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("of somebody else")
    (tmp_path / "other" / "content").mkdir(parents=True)
    (tmp_path / "other" / "content" / "c_000000000000").write_text("of somebody else")
    store.put("mine", key="k")
    assert store.purge_expired() == 0
    store.clear()
    assert not store.has("k")
    assert store.stats(None).contents == 0
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 2


def test_what_a_crash_has_left_is_purged(store: ObjectContentStore, tmp_path: Path) -> None:
    store.put("written, but nothing names it yet", key="k")
    for path in objects(tmp_path, "holders") + objects(tmp_path, "names"):
        path.unlink()
    assert store.stats().contents == 1
    assert store.purge_expired() == 1
    assert store.stats().contents == 0


def test_a_content_deleted_by_another_process_is_written_again(store: ObjectContentStore, tmp_path: Path) -> None:
    ref = store.put("text", key="a").ref
    objects(tmp_path, "content")[0].unlink()
    assert store.read(ref) is None
    assert store.put("text", key="b").ref == ref
    page = store.read("a")
    assert page is not None
    assert page.text == "text"


def test_pruning_into_a_bucket(s3: dict[str, Any]) -> None:
    store = ObjectContentStore("s3://bucket/pruned", **s3)
    messages = files(text=lambda i: f"{i}" * 5_000)
    result = prune_messages(messages, store=store)
    assert result.chars_after <= 2_738
    assert restore_messages(result.messages, store=ObjectContentStore("s3://bucket/pruned", **s3)) == messages


def test_a_service_that_refuses_or_is_away_is_a_store_error(s3: dict[str, Any]) -> None:
    with pytest.raises(StoreError, match="no-such-bucket"):
        ObjectContentStore("s3://no-such-bucket", **s3).put("x")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        away = {**s3, "endpoint": f"http://127.0.0.1:{closed.getsockname()[1]}", "retry_config": {"max_retries": 0}}
        with pytest.raises(StoreError, match="s3://bucket"):
            ObjectContentStore("s3://bucket", **away).put("x")
        with pytest.raises(StoreError, match="s3://bucket"):
            asyncio.run(ObjectContentStore("s3://bucket", **away).aput("x"))
    with pytest.raises(StoreError, match="cannot be opened"):
        ObjectContentStore("gopher://old")


def test_a_folder_that_is_missing_is_to_be_created(tmp_path: Path) -> None:
    for folder in (tmp_path / "new" / "place", (tmp_path / "new" / "a place").as_uri()):
        with pytest.raises(StoreError, match=r"no such folder; create it first, or pass mkdir=True$"):
            ObjectContentStore(folder)
        info = ObjectContentStore(folder, mkdir=True).put("x")
        assert ObjectContentStore(folder).read_bytes(info.ref) == b"x"


def test_the_put_of_a_content_is_conditional(s3: dict[str, Any]) -> None:
    """The service itself refuses to overwrite: two writers of one handle cannot mix."""
    bucket = from_url("s3://bucket/conditional", **s3)
    obstore.put(bucket, "x", b"first", mode="create")
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(bucket, "x", b"second", mode="create")


def test_the_package_has_no_other_late_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = autocontext.content.Nothing
