"""Writers of one content store in object storage at once: requests of several operations in any order, and crashes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.extras import need

need("cloud")

from autocontext import flows
from autocontext.content import object_layout as layout
from autocontext.content.bucket import Bucket, List
from autocontext.content.contents import FOREVER, Metadata, Upload
from autocontext.content.objects import Objects
from autocontext.content.paging import packed, unpack
from tests.profiles import share

OPERATIONS = Objects()
START = 1_800_000_000_000
TEXTS = ["shared", "one", "two"]
KEYS = ["a", "b"]


class Job(NamedTuple):
    """An operation that goes on request by request."""

    kind: str
    text: str = ""
    key: str | None = None

    def flow(self) -> Generator[Any, Any, Any]:
        """Its requests."""
        if self.kind == "put":
            content = packed(self.text)
            metadata = Metadata("", "", "text", "")
            return OPERATIONS.put(Upload("", self.key, content, content.pages(), metadata, START, FOREVER))
        if self.kind == "delete":
            return OPERATIONS.delete("", str(self.key), START)
        if self.kind == "delete by handle":
            return OPERATIONS.delete("", handle(self.text), START)
        if self.kind == "clear":
            return OPERATIONS.clear("", START)
        return OPERATIONS.purge(START)


class Store:
    """A bucket in memory, and operations that nobody interrupts."""

    def __init__(self) -> None:
        self.bucket = Bucket("memory:///")

    def run(self, flow: Generator[Any, Any, Any]) -> Any:
        return flows.run(flow, self.bucket._do)

    def put(self, text: str, key: str | None, *, until: int = FOREVER) -> str:
        content = packed(text)
        upload = Upload("", key, content, content.pages(), Metadata("", "", "text", ""), START - 10, until)
        return str(self.run(OPERATIONS.put(upload)))

    def read(self, name: str) -> str | None:
        pages = self.run(OPERATIONS.read("", name, 0, None, START))
        return None if pages is None else unpack(name, pages.bodies)

    def objects(self, kind: str) -> list[str]:
        """Paths of one kind."""
        paths = self.run(_listed())
        return [path for path in paths if f"/{kind}/" in path]


def _listed() -> Generator[Any, Any, Any]:
    return (yield List(layout.ROOT))


def handle(text: str) -> str:
    """Of a text."""
    return f"c_{packed(text).sha256[:12]}"


def run_together(
    store: Store, jobs: Sequence[Job], order: Sequence[int], crash_after: dict[int, int], *, watched: bool = True
) -> list[bool]:
    """Give the jobs their requests in an order; those in `crash_after` stop after so many. Which came to an end.

    `watched`: after each request what nobody deletes can be read.
    """
    running = {i: (job.flow(), None) for i, job in enumerate(jobs)}
    done = [False] * len(jobs)
    made = [0] * len(jobs)
    turns = iter(order)
    while running:
        i = sorted(running)[next(turns, 0) % len(running)]
        flow, answer = running.pop(i)
        if crash_after.get(i) == made[i]:
            continue
        try:
            request = flow.send(answer)
        except StopIteration:
            done[i] = True
        else:
            running[i] = (flow, store.bucket._do(request))
            made[i] += 1
        if not watched:
            continue
        assert store.read("staying") == "shared", "lost for a moment at least"
        for job in (job for job, ended in zip(jobs, done, strict=True) if ended and job.kind == "put" and not job.key):
            assert store.read(handle(job.text)) == job.text
    return done


JOBS = st.one_of(
    st.builds(Job, st.just("put"), st.sampled_from(TEXTS), st.sampled_from([*KEYS, None])),
    st.builds(Job, st.just("delete"), key=st.sampled_from(KEYS)),
    st.builds(Job, st.just("purge")),
)


@pytest.mark.slow
@settings(max_examples=share(400))
@given(
    st.lists(JOBS, min_size=2, max_size=3),
    st.lists(st.integers(0, 2), max_size=60),
    st.dictionaries(st.integers(0, 2), st.integers(0, 12), max_size=1),
)
@example([Job("delete", key="a"), Job("put", "shared", "b")], [0, 0, 0], {})
def test_row_02_any_order_of_requests_and_crashes(
    jobs: list[Job], order: list[int], crash_after: dict[int, int]
) -> None:
    store = Store()
    store.put("shared", "staying")
    store.put("shared", "a")
    store.put("one", "b", until=START - 1)
    done = run_together(store, jobs, order, crash_after)
    for key in KEYS:
        changes = [(job, ended) for job, ended in zip(jobs, done, strict=True) if job.key == key]
        if changes and all(job.kind == "put" for job, _ in changes) and any(ended for _, ended in changes):
            assert store.read(key) in [job.text for job, _ in changes]
    for hours in (25, 50):
        store.run(OPERATIONS.purge(START + hours * 3_600_000))
    assert store.read("staying") == "shared"
    keys = ["staying", *(key for key in KEYS if store.read(key) is not None)]
    held = {job.text for job, ended in zip(jobs, done, strict=True) if job.kind == "put" and not job.key and ended}
    contents = {store.read(key) for key in keys} | held
    if not crash_after:
        assert len(store.objects("content")) == len(contents)
        assert len(store.objects("names")) == len(keys)
        assert len(store.objects("holders")) == len(keys) + len(held)
    assert store.objects("trash") == []


@settings(max_examples=share(200))
@given(
    st.lists(
        JOBS | st.builds(Job, st.just("delete by handle"), st.sampled_from(TEXTS)) | st.builds(Job, st.just("clear")),
        min_size=2,
        max_size=3,
    ),
    st.lists(st.integers(0, 2), max_size=60),
)
@example([Job("put", "shared", "a"), Job("clear")], [0, 0, 0, 0, 1])
def test_row_03_what_is_put_while_others_delete_everything_is_whole_or_gone(jobs: list[Job], order: list[int]) -> None:
    store = Store()
    store.put("shared", "a")
    store.put("one", None)
    run_together(store, jobs, order, {}, watched=False)
    for hours in (25, 50):
        store.run(OPERATIONS.purge(START + hours * 3_600_000))
    keys = store.run(OPERATIONS.keys("", START, 100))
    assert all(store.read(key) for key in keys)
    assert len(store.objects("names")) == len(keys)
    assert {path.rsplit("/", 1)[1] for path in store.objects("content")} == {
        path.rsplit("/", 2)[1] for path in store.objects("holders")
    }
    assert store.objects("trash") == []
