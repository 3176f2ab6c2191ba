"""Who opened a database closes it: one contract over all parts that take one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from autocontext import AutoContext, Msg, stores
from autocontext.cache import ResultCache
from autocontext.content.store import DatabaseContentStore
from autocontext.errors import StoreError, StoreVersionError
from autocontext.memories import MemoryStore
from autocontext.optimizer.states import StateStore
from autocontext.stores import DatabaseSessionStore, SessionKey
from autocontext.stores.closing import DatabasePart
from autocontext.stores.database import Schema, Statement
from autocontext.stores.opening import open_database
from tests.extras import need
from tests.stores.homes import HOMES, database, home
from tests.stores.stores import KEY

SESSION = SessionKey("u", "s")
HELLO = Msg(role="user", content="hello")


class Part(NamedTuple):
    """How a part is opened on a URL or an open database, and a call of it that needs the database."""

    open: Callable[[Any], Any]
    use: Callable[[Any], object]
    ause: Callable[[Any], Awaitable[object]]


PARTS = {
    "sessions": Part(DatabaseSessionStore, lambda p: p.read(SESSION), lambda p: p.aread(SESSION)),
    "encrypted sessions": Part(
        lambda url: stores.EncryptedSessionStore(DatabaseSessionStore(url), KEY),
        lambda p: p.read(SESSION),
        lambda p: p.aread(SESSION),
    ),
    "search": Part(
        DatabaseSessionStore, lambda p: p.search("hello", user_id="u"), lambda p: p.asearch("hello", user_id="u")
    ),
    "contents": Part(DatabaseContentStore, lambda p: p.put("a text"), lambda p: p.aput("a text")),
    "cache": Part(lambda url: ResultCache(url, namespace="n"), lambda p: p.set("key", 1), lambda p: p.aset("key", 1)),
    "memories": Part(
        MemoryStore, lambda p: p.add("Likes tea", user_id="u"), lambda p: p.aadd("Likes tea", user_id="u")
    ),
    "saved states": Part(StateStore, lambda p: p.load(SESSION), lambda p: p.aload(SESSION)),
    "all of them": Part(
        AutoContext, lambda p: p.session("s", user_id="u").add(HELLO), lambda p: p.session("s", user_id="u").aadd(HELLO)
    ),
}


@pytest.fixture(params=PARTS)
def part(request):
    if request.param.startswith("encrypted"):
        need("crypto")
    return PARTS[request.param]


@pytest.fixture(params=HOMES)
def kind(request):
    return request.param


@pytest.fixture
def url(kind, tmp_path):
    with home(kind, tmp_path) as url:
        yield url


@pytest.fixture
def db(kind, tmp_path):
    with database(kind, tmp_path) as db:
        yield db


def test_a_part_leaves_a_database_open_that_it_was_given(part, db):
    one, other = part.open(db), part.open(db)
    part.use(one)
    one.close()
    one.close()
    part.use(other)
    # Closing a part on another's database ends nothing: parts are shared, as those of an AutoContext are.
    part.use(one)


def test_async_code_leaves_a_database_open_too(part, db):
    async def go():
        one, other = part.open(db), part.open(db)
        await part.ause(one)
        await one.aclose()
        await one.aclose()
        await part.ause(other)
        await db.aclose()

    asyncio.run(go())


def test_a_part_closes_the_database_that_it_has_opened(part, url):
    opened = part.open(url)
    part.use(opened)
    opened.close()
    with pytest.raises(StoreError, match="is closed; open the database again"):
        part.use(opened)


def test_async_code_closes_it_too(part, url):
    async def go():
        opened = part.open(url)
        await part.ause(opened)
        await opened.aclose()
        with pytest.raises(StoreError, match="is closed; open the database again"):
            await part.ause(opened)

    asyncio.run(go())


def test_closing_twice_is_fine(part, url):
    opened = part.open(url)
    part.use(opened)
    opened.close()
    opened.close()
    asyncio.run(opened.aclose())


def test_parts_say_that_their_owner_has_closed_the_database(part, db):
    shared = part.open(db)
    part.use(shared)
    db.close()
    with pytest.raises(StoreError, match="is closed; open the database again"):
        part.use(shared)


def test_parts_may_be_closed_after_their_database(part, db):
    shared = part.open(db)
    part.use(shared)
    db.close()
    shared.close()


def test_a_closed_file_can_be_opened_again(part, tmp_path):
    path = tmp_path / "agent.db"
    for url in (path, str(path)):
        opened = part.open(url)
        part.use(opened)
        opened.close()


def test_closing_one_part_of_an_autocontext_leaves_the_others(url):
    ac = AutoContext.open(url)
    ref = ac.content.put("a long text").ref
    for each in (ac.sessions, ac.content, ac.memories, ac.cache):
        each.close()
        page = ac.content.read(ref)
        assert page is not None
        assert page.text == "a long text"
    ac.close()
    for use in (
        lambda: ac.content.read(ref),
        lambda: ac.sessions.read(SESSION),
        lambda: ac.memories.stats(user_id="u"),
    ):
        with pytest.raises(StoreError, match="is closed"):
            use()


def test_an_autocontext_leaves_a_database_open_that_it_was_given(db):
    for ac in (AutoContext(db), AutoContext.open(db)):
        with ac:
            ac.sessions.read(SESSION)
    DatabaseSessionStore(db).read(SESSION)


def test_a_call_that_runs_while_the_database_is_closed_ends_well(tmp_path):
    db = open_database(tmp_path / "agent.db")

    def closing():
        [(one,)] = yield Statement("SELECT 1")
        db.close()
        [(two,)] = yield Statement("SELECT 2")
        return one, two

    assert db.read(closing) == (1, 2)
    with pytest.raises(StoreError, match="is closed"):
        db.read(closing)
    # SQLite removes its side files when the last connection is closed.
    assert [file.name for file in tmp_path.iterdir()] == ["agent.db"]


def test_a_part_that_cannot_be_opened_closes_what_it_has_opened(tmp_path):
    path = tmp_path / "agent.db"
    notes = Schema("notes", (("CREATE TABLE autocontext_notes (id TEXT PRIMARY KEY)",), ()))
    DatabasePart(path, notes).close()
    with pytest.raises(StoreVersionError):
        DatabasePart(path, notes._replace(versions=notes.versions[:1]))
    assert [file.name for file in tmp_path.iterdir()] == ["agent.db"]
