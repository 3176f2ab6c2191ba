"""Object storage that fails at any request, before or after it has done it: nothing that was acknowledged is lost."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.extras import need

need("cloud")


from autocontext.content import ObjectContentStore
from autocontext.content import object_layout as layout
from autocontext.content.bucket import Bucket, List, Request
from autocontext.content.store import PagedContentStore
from autocontext.errors import StoreError
from tests.content.conftest import Clock
from tests.fakes.faulty_s3 import FAULTS, Fault, faulty

DAY = 25 * 3_600_000
"""Milliseconds after which purging takes unfinished work away."""
CALLS: dict[str, Callable[[PagedContentStore], object]] = {
    "put": lambda store: store.put("a new text", key="new.txt"),
    "put another": lambda store: store.put("another text", key="old.txt"),
    "put again": lambda store: store.put("the old text"),
    "delete": lambda store: store.delete("old.txt"),
    "delete by handle": lambda store: store.delete(ref_of(store)),
    "clear": lambda store: store.clear("gone"),
    "purge": lambda store: store.purge_expired(),
}
KEPT = {"kept.txt": "a text that stays", "shared.txt": "the old text of two"}


def ref_of(store: PagedContentStore) -> str:
    info = store.info("old.txt")
    return info.ref if info is not None else "c_000000000000"


def filled(store: PagedContentStore, clock: Clock) -> PagedContentStore:
    """Contents of which some share a beginning, are over, or are somebody else's."""
    for key, text in KEPT.items():
        store.put(text, key=key)
    store.put("the old text of two")
    store.put("the old text", key="old.txt")
    store.put("soon over", key="expired.txt", ttl=1)
    store.put("of another", key="other.txt", namespace="gone")
    clock.now += 2_000
    return store


def texts(store: PagedContentStore) -> dict[str, str]:
    """Every content that is listed, read whole."""
    found = {}
    for key in store.keys(limit=1_000):
        body = store.read_bytes(key)
        assert body is not None, f"{key} is listed and cannot be read"
        found[key] = body.decode()
    return found


class FailingBucket(Bucket):
    """A bucket in memory of which one request fails: before it is done, after it, or it is done twice."""

    FAULTS = ("before", "after", "twice")

    def __init__(self) -> None:
        super().__init__("memory://")
        self.spoil("before", 0)

    def spoil(self, fault: str, at: int) -> None:
        """Spoil the `at`-th request from now on; 0: none."""
        self.fault, self.at, self.seen = fault, at, 0

    def _do(self, request: Request) -> Any:
        self.seen += 1
        if self.seen != self.at:
            return super()._do(request)
        if self.fault != "before":
            super()._do(request)  # what it answers is lost
        if self.fault == "twice":  # as by a client that has heard no answer
            return super()._do(request)
        raise StoreError("the service does not answer")


@pytest.mark.sampled
@pytest.mark.parametrize("fault", FailingBucket.FAULTS)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_fails_at_any_request_loses_nothing_and_can_be_repeated(name: str, fault: str) -> None:
    call, expected, at = CALLS[name], None, 0
    while True:
        clock, bucket = Clock(), FailingBucket()
        store = filled(PagedObjects(bucket, clock), clock)
        before = texts(store)
        bucket.spoil(fault, at)
        failed = not succeeds(call, store)
        struck = bucket.seen >= at > 0
        bucket.spoil(fault, 0)
        after = texts(store)
        changing = {"old.txt", "new.txt"}
        assert {k: v for k, v in after.items() if k not in changing} == {
            k: v for k, v in before.items() if k not in changing
        }, at
        assert failed == (struck and fault != "twice"), at
        assert after.get("old.txt") in ("the old text", "another text", None), at
        if name in ("put", "put again", "purge", "clear") and "old.txt" in before:
            assert after["old.txt"] == "the old text", at
        if name == "put another":
            assert "old.txt" in after, at
        call(store)
        expected = expected if expected is not None else texts(store)
        assert texts(store) == expected, at
        clean(store, clock)
        assert texts(store) == expected, at
        if at and not struck:
            break
        at += 1
    assert at > 2


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_a_real_service_are_told_and_the_next_call_succeeds(fault: Fault, s3: dict[str, Any]) -> None:
    with faulty(s3, patience=5 if fault == "done, then no answer" else 60) as (server, options):
        for at in range(1, 4):
            store = ObjectContentStore(f"s3://bucket/{uuid.uuid4().hex}", **options)
            store.put("the old text", key="k")
            server.spoil(fault, at)
            # An answer without a body is whole wherever it is cut.
            with suppress(StoreError) if fault == "done, then cut" else pytest.raises(StoreError):
                store.put("the new text", key="k")
            server.spoil(fault, 0)
            assert store.read_bytes("k") in (b"the old text", b"the new text")
            store.put("the new text", key="k")
            assert store.read_bytes("k") == b"the new text"


@pytest.mark.slow
def test_a_service_that_is_asked_again_has_stored_it_once(s3: dict[str, Any]) -> None:
    """The client repeats a request that was done and not answered: the second time the object is there."""
    with faulty(s3) as (server, options):
        del options["retry_config"]
        store = ObjectContentStore(f"s3://bucket/{uuid.uuid4().hex}", **options)
        for at in range(1, 6):
            server.spoil("done, then an error", at)
            store.put(f"text {at}", key="k")
            server.spoil("refused", 0)
            assert store.read_bytes("k") == f"text {at}".encode()


class PagedObjects(ObjectContentStore):
    """A content store on a bucket that is given."""

    def __init__(self, bucket: Bucket, clock: Clock) -> None:
        super().__init__("memory://", clock=clock)
        self._bucket = bucket


def succeeds(call: Callable[[PagedContentStore], object], store: PagedContentStore) -> bool:
    try:
        call(store)
    except StoreError:
        return False
    return True


def clean(store: PagedContentStore, clock: Clock) -> None:
    """Purge a day later: what nobody holds is gone, and nothing else."""
    clock.now += DAY
    store.purge_expired()
    stats = store.stats()
    assert stats.keys == len(store.keys())
    infos = [info for key in store.keys(limit=9) if (info := store.info(key)) is not None]
    assert stats.contents == len({info.ref for info in infos} | held_alone(store))
    assert not [path for path in listed(store) if "/trash/" in path]


def held_alone(store: PagedContentStore) -> set[str]:
    """The handles that puts without a key hold."""
    return {path.split("/")[3] for path in listed(store) if "/holders/" in path and "/held@" in path}


def listed(store: PagedContentStore) -> list[str]:
    objects: Any = store
    found: list[str] = objects._bucket._do(List(layout.folder("")))
    return found
