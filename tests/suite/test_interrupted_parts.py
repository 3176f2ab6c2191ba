"""Contents, memories, saves, erases and rotations that are interrupted: all or nothing, and the next call works."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize

import pytest

from autocontext import AutoContext, AutoContextConfig, Msg, content
from autocontext.content.store import PagedContentStore
from tests.content.conftest import Clock
from tests.extras import need
from tests.faults.interrupts import interrupted_everywhere
from tests.suite.test_erasing import SECRET, found

OLD, NEW = secrets.token_bytes(32), secrets.token_bytes(32)
LONG = "a line of the file\n" * 2_000
FACTS = {"facts": [{"id": "f1", "content": "Likes tea"}], "user": {"workContext": {"summary": "Writes tests."}}}


class Desk:
    """Something in every part of a database in a file."""

    def __init__(self, key: Any = None, current: str | None = None) -> None:
        if key:
            need("crypto")
        folder = TemporaryDirectory()
        self.folder, self.key, self.current = Path(folder.name), key, current
        self.context = AutoContext(self.path, key={"old": OLD} if key else None, config=AutoContextConfig())
        self.context.content.put(LONG, key="old.txt", namespace="user:ann")
        self.context.content.put("expired", key="expired.txt", namespace="user:ann", ttl=1e-3)
        self.memory = self.context.memories.add("Prefers pytest", user_id="ann", tags=["testing"])
        self.session = self.context.session("s", user_id="ann")
        self.session.add([Msg(id="m", role="user", content=SECRET * 20), Msg(role="assistant", content="ok")])
        self.session.save()
        if key:
            self.context.close()
            self.context = AutoContext(self.path, key=key, current=current)
            self.session = self.context.session("s", user_id="ann")
        self._end = finalize(self, _closed, self.context, folder)

    @property
    def path(self) -> Path:
        return self.folder / "a.db"

    def seen(self, context: AutoContext) -> list[Any]:
        """What a caller is shown."""
        content = context.content
        keys = content.keys(namespace="user:ann")
        # How often a memory was found is counted in the database, and shown when the user's memories change.
        memories = [
            replace(memory, access_count=0, last_accessed=0)
            for memory in context.memories.all(user_id="ann", archived=True)
        ]
        return [
            keys, [content.read(key, namespace="user:ann") for key in keys], content.stats("user:ann").payload_bytes,
            memories, context.memories.document(user_id="ann"), context.sessions.read(self.session.memory.session),
        ]  # fmt: skip


def _closed(context: AutoContext, folder: Any) -> None:
    context.close()
    folder.cleanup()


CALLS: dict[str, Callable[[Desk], object]] = {
    "put": lambda d: d.context.content.put(LONG + "more", key="old.txt", namespace="user:ann"),
    "put again": lambda d: d.context.content.put(LONG, namespace="user:ann", ttl=60),
    "read": lambda d: d.context.content.read("old.txt", namespace="user:ann"),
    "search": lambda d: d.context.content.search("line", namespace="user:ann"),
    "delete": lambda d: d.context.content.delete("old.txt", namespace="user:ann"),
    "purge": lambda d: d.context.content.purge_expired(),
    "clear": lambda d: d.context.content.clear("user:ann"),
    "add": lambda d: d.context.memories.add("Likes tea", user_id="ann", tags=["tea"]),
    "add again": lambda d: d.context.memories.add("Prefers pytest", user_id="ann", tags=["tea"]),
    "update": lambda d: d.context.memories.update(d.memory.id, user_id="ann", content="Prefers unittest"),
    "remove": lambda d: d.context.memories.delete(d.memory.id, user_id="ann"),
    "remember": lambda d: d.context.memories.search("pytest", user_id="ann"),
    "import": lambda d: d.context.memories.import_json(FACTS, user_id="ann"),
    "save": lambda d: d.session.save(),
}


def goes_on(desk: Desk) -> None:
    """What this process shows is what the file holds; everything still works, and the same call succeeds."""
    with AutoContext(desk.path) as fresh:
        assert desk.seen(desk.context) == desk.seen(fresh)
        stored = fresh.content.stats("user:ann")
        assert stored.pages >= stored.contents
        desk.context.content.put("new", key="new.txt", namespace="user:ann")
        desk.context.memories.add("Something new", user_id="ann")
        fresh.memories.add("Something else", user_id="ann")
        desk.session.save()
        assert desk.seen(desk.context) == desk.seen(fresh)


@pytest.mark.sampled
@pytest.mark.parametrize("samples", [2, pytest.param(60, marks=pytest.mark.slow)], ids=["some", "many"])
@pytest.mark.parametrize("name", CALLS)
def test_an_interrupted_call_leaves_all_parts_whole(name: str, samples: int) -> None:
    def check(desk: Desk) -> None:
        goes_on(desk)
        CALLS[name](desk)
        goes_on(desk)

    assert interrupted_everywhere(Desk, CALLS[name], check, samples=samples)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True], ids=["erase", "delete"])
def test_an_interrupted_erase_is_completed_by_the_next(*, whole: bool) -> None:
    def erase(desk: Desk) -> None:
        if whole:
            desk.context.delete("s", user_id="ann")
        else:
            desk.context.erase("s", ["m"], user_id="ann")

    def check(desk: Desk) -> None:
        erase(desk)
        assert found(desk.context, desk.folder) == []
        with AutoContext(desk.path) as fresh:
            assert desk.seen(desk.context) == desk.seen(fresh)

    assert interrupted_everywhere(Desk, erase, check, samples=60)


@pytest.mark.parametrize("samples", [2, pytest.param(60, marks=pytest.mark.slow)], ids=["some", "many"])
def test_an_interrupted_rotation_leaves_everything_readable_and_is_completed_by_the_next(samples: int) -> None:
    keys = {"old": OLD, "new": NEW}

    def check(desk: Desk) -> None:
        with AutoContext(desk.path, key=keys, current="new") as fresh:
            before = desk.seen(fresh)
            assert desk.seen(desk.context) == before
        desk.context.rotate()
        with AutoContext(desk.path, key=NEW, current="new") as fresh:
            assert desk.seen(fresh) == before
            assert fresh.session("s", user_id="ann").state() is not None

    assert interrupted_everywhere(lambda: Desk(keys, "new"), lambda desk: desk.context.rotate(), check, samples=samples)


OBJECTS: dict[str, Callable[[PagedContentStore], object]] = {
    "put": lambda s: s.put(LONG + "more", key="old.txt"),
    "put again": lambda s: s.put(LONG),
    "delete": lambda s: s.delete("old.txt"),
    "purge": lambda s: s.purge_expired(),
    "clear": lambda s: s.clear(""),
}


@pytest.mark.parametrize("samples", [2, pytest.param(60, marks=pytest.mark.slow)], ids=["some", "many"])
@pytest.mark.parametrize("name", OBJECTS)
def test_an_interrupted_call_to_object_storage_leaves_nothing_unreadable(name: str, samples: int) -> None:
    need("cloud")

    def make() -> PagedContentStore:
        clock = Clock()
        store = content.ObjectContentStore("memory://", clock=clock)
        store.put(LONG, key="old.txt")
        store.put("kept", key="kept.txt")
        store.put("expired", key="expired.txt", ttl=1)
        clock.now += 2_000
        return store

    def check(store: PagedContentStore) -> None:
        for _ in range(2):
            assert all(store.read(key) is not None for key in store.keys(limit=9))
            assert name == "clear" or store.read("kept.txt") is not None
            OBJECTS[name](store)

    assert interrupted_everywhere(make, OBJECTS[name], check, samples=samples)
