"""Searching sessions: in every store, in every script, what is out of view too, and never another user's."""

import time

import pytest
from hypothesis import given

from autocontext import AutoContextMemory, Msg
from autocontext.errors import InvalidMessage
from autocontext.history.entries import Added
from autocontext.stores import SessionKey
from autocontext.stores.database import Statement
from autocontext.stores.database_sessions import DatabaseSessionStore
from autocontext.stores.protocol import Version
from autocontext.stores.search import question, snippet
from autocontext.stores.search_index import FULL, LONGEST, segments
from autocontext.testing import conversation, tool_exchange
from tests.conversations import texts
from tests.stores.stores import KINDS, place, stored

U = SessionKey("u", "s")
TEXTS = (
    "The deployment of PostgreSQL on db-7.example.org failed: port 5432 was taken",
    "请把配置文件里的超时改成三十秒，退款政策也要更新。",
    "テストを三回実行してください。データベースの移行は明日です。",
    "데이터베이스 이전은 내일입니다",
    "Die Straßenbahn fährt über die Brücke",
    "we should write more unit tests for HttpServer",
    "nothing to see here",
    "税",
)


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    with stored(request.param, tmp_path) as opened:
        yield opened


def packed(*said):
    """The segment of session U that says this, as it is stored."""
    [(until, segment)] = segments(0, added(*said))
    return segment.packed(U, 0, until)


def added(*said):
    return [Added(message=Msg(id=f"m{i}", role="user", content=text)) for i, text in enumerate(said)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("deploying postgresql", 0), ("5432", 0), ("db-7.example.org", 0), ("POSTGRESQL", 0), ("example", 0),
        ("退款政策", 1), ("超时", 1), ("三十秒", 1), ("データベース", 2), ("移行", 2), ("이전", 3),
        ("nothing", 6), ("we should", 5), ("brücke", 4), ("test", 5), ("http server", 5), ("税", 7),
    ],
)  # fmt: skip
def test_what_was_said_is_found_in_every_script(tmp_path, query, first):
    with stored("in memory", tmp_path) as store:
        store.append(U, added(*TEXTS), after=0)
        assert store.search(query, user_id="u")[0].message_id == f"m{first}"


def test_every_session_of_many_is_found_in_whatever_order_a_database_has_them(store):
    keys = [SessionKey("u", f"{begin}{i}") for i in range(40) for begin in ("", "a", "A", "_", "é", "ß", "-z", "長")]
    for round_ in range(3):
        told = [i for i in range(len(keys)) if round_ == 0 or i % 97 == round_]
        for i in told:
            store.append(keys[i], added(f"round{round_} word{i}"), after=len(store.read(keys[i])))
        found = {hit.session for hit in store.search(f"round{round_}", user_id="u", limit=len(keys))}
        assert found == {keys[i] for i in told}
        for i in (0, 1, 2, 98, 195, 196, 319):
            assert [hit.session for hit in store.search(f"word{i}", user_id="u", limit=1)] == [keys[i]]


def test_all_stores_find_the_same(store, tmp_path):
    with stored("in memory", tmp_path) as other:
        for each in (store, other):
            each.append(U, added(*TEXTS), after=0)
            each.append(SessionKey("u", "t"), added("the tests of HttpServer", "デ"), after=0)
        for query in ("tests", "データ", "port 5432 failed", "秒", "the", ""):
            assert store.search(query, user_id="u") == other.search(query, user_id="u")
    [best, *_] = store.search("port", user_id="u")
    assert best[:3] == (U, "m0", 0)
    assert "port 5432" in best.snippet
    assert 0 < best.score < 1


@pytest.mark.parametrize("prefix", ["", "mcp__autocontext__"])
def test_earlier_searches_and_reloads_stand_behind_what_they_found(store, prefix):
    order = "The order A-7714 of Ms Adler goes by ship, since the plane was full and she agreed to wait for two weeks."
    msgs = [Msg(role="user", content=order)]
    for i, tool in enumerate(("context_search", "context_reload", "find_order", "context_search")):
        msgs += tool_exchange(f"{prefix}{tool}", {"query": "order A-7714"}, f"found: {order}", id=f"c{i}")
    store.append(U, [Added(message=m) for m in msgs], after=0)
    hits = store.search("order A-7714", user_id="u", limit=20)
    assert {h.number for h in hits} == set(range(1, 10))
    assert {h.number for h in hits[:3]} == {1, 6, 7}  # the call of another tool is no search of the past
    assert store.search("order A-7714", user_id="u", limit=3) == hits[:3]
    own = store.search("order A-7714", user_id="u", tool=f"{prefix}context_search")
    assert {h.number for h in own} == {2, 3, 8, 9}


def test_users_and_sessions_keep_apart(store):
    keys = [SessionKey(user, id_) for user in ("u", "v", "") for id_ in ("s", "t")]
    for n, key in enumerate(keys):
        store.append(key, added(*["filler"] * n, f"secret of {key}"), after=0)
    for n, key in enumerate(keys):
        assert [f.sequence for f in store.search("secret", user_id=key.user_id, session_id=key.session_id)] == [n]
        assert [f.session for f in store.search("secret", user_id=key.user_id, session_id=key.session_id)] == [key]
        assert {f.session.user_id for f in store.search("secret", user_id=key.user_id)} == {key.user_id}
    assert store.search("secret", user_id="w") == []
    assert store.search("secret", user_id="u", session_id="x") == []


def test_what_is_added_later_is_found_too(store):
    for i in range(6):
        store.append(U, added(*(f"marker{i} of batch {j}" for j in range(3))), after=3 * i)
        assert [f.sequence for f in store.search(f"marker{i}", user_id="u")] == [3 * i, 3 * i + 1, 3 * i + 2]


@pytest.mark.sampled
def test_what_compression_took_out_of_view_is_found(store):
    memory = AutoContextMemory(store=store, session_id="s", user_id="u")
    call = tool_exchange("read_file", {"path": "/etc/zanzibar.conf"}, "the xylophone setting is 11")
    memory.add_messages([*conversation(2), *call, *conversation(30)])
    assert memory.compress_if_needed(force=True)
    assert all("xylophone" not in m.text for m in memory.messages)
    [found] = store.search("xylophones", user_id="u")
    assert found.message_id == call[1].id
    assert store.search("zanzibar", user_id="u")[0].message_id == call[0].id
    memory.clear()
    assert store.search("xylophones", user_id="u") == []
    memory.load_state_dict(AutoContextMemory().state_dict())
    memory.offload("mine", [Msg(id="kept", role="user", content="my xylophone")])
    assert [f.message_id for f in store.search("xylophones", user_id="u")] == ["kept"]


def test_the_limit_holds_and_is_checked(store):
    store.append(U, added(*["again"] * 9), after=0)
    assert len(store.search("again", user_id="u", limit=4)) == 4
    for wrong in (0, -1, "5", None, 2.5, True):
        with pytest.raises(InvalidMessage, match="search: limit must be a whole number of at least 1"):
            store.search("again", user_id="u", limit=wrong)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite file", "postgresql"])
def test_a_long_history_is_indexed_in_segments_once(kind, tmp_path):
    count = 2 * LONGEST + FULL - 1
    with stored(kind, tmp_path) as store:
        store.append(U, added(*(f"number{i}" for i in range(count))), after=0)
        assert [f.sequence for f in store.search(f"number{count - 1}", user_id="u")] == [count - 1]

        def rows():
            return (yield Statement("SELECT start, until, body FROM autocontext_search ORDER BY start"))

        before = place(store).read(rows)
        assert [(start, until) for start, until, _ in before] == [
            (0, LONGEST), (LONGEST, 2 * LONGEST), (2 * LONGEST, count),
        ]  # fmt: skip
        for more in range(2):
            store.append(U, added(f"one{more} more"), after=count + more)
            assert store.search(f"one{more}", user_id="u")[0].number == count + more + 1
        after = place(store).read(rows)
        assert after[:2] == before[:2]
        # A segment that is long enough stays as it is.
        assert [(start, until) for start, until, _ in after[2:]] == [
            (2 * LONGEST, count + 1), (count + 1, count + 2),
        ]  # fmt: skip


def test_an_index_of_another_format_is_made_anew(tmp_path):
    import zlib

    with stored("sqlite file", tmp_path) as store:
        store.append(U, added("hello world"), after=0)
        old = zlib.compress(b"0 1 1 -1\n[]\n\n")

        def plant():
            yield Statement("INSERT INTO autocontext_search VALUES ('u', 's', 0, 1, :body)", {"body": old})

        place(store).write(plant)
        assert store.search("hello", user_id="u")


def test_a_slower_search_does_not_take_back_what_a_later_one_indexed(tmp_path):
    from autocontext.stores.search_statements import known, put

    with stored("sqlite file", tmp_path) as store:
        store.append(U, added("first", "second"), after=0)
        assert store.search("second", user_id="u")
        stale = [(0, 1, packed("first"))]
        [[row]] = place(store).read(lambda: known("u", [("", None)]))
        before = Version(*row[2:4])
        place(store).write(lambda: put(U, before, stale))
        assert place(store).read(lambda: known("u", [("", None)])) == [[row]]
        place(store).write(lambda: put(SessionKey("u", "gone"), before, stale))
        place(store).write(lambda: put(U, Version(before.identity, 7), [(0, 99, b"of another edition")]))
        assert store.search("second", user_id="u")


def test_row_07_an_index_of_a_deleted_session_does_not_fit_the_one_made_anew(tmp_path):
    from autocontext.stores.search_statements import known, put

    with stored("sqlite file", tmp_path) as store:
        store.append(U, added("a secret"), after=0)
        [[row]] = place(store).read(lambda: known("u", [("", None)]))
        before = Version(*row[2:4])
        store.delete(U)
        store.append(U, added("hello"), after=0)
        place(store).write(lambda: put(U, before, [(0, 1, packed("a secret"))]))
        assert store.search("secret", user_id="u") == []
        assert store.search("hello", user_id="u")


def test_an_index_that_another_process_makes_anew_meanwhile_is_completed(tmp_path):
    from autocontext.stores.indexing import SearchIndex
    from autocontext.stores.search_statements import forget

    with stored("sqlite file", tmp_path) as store:
        store.append(U, added("first"), after=0)
        assert store.search("first", user_id="u")
        store.append(SessionKey("u", "t"), added("second"), after=0)
        reads = []

        def read(spans):
            reads.append(spans)
            if len(reads) == 1:
                place(store).write(lambda: forget("u"))
            return [store.read(span.session, after=span.after, until=span.until) for span in spans]

        segments = SearchIndex(place(store), read).segments("u", None).segments
        assert sorted(key.session_id for key, _ in segments) == ["s", "t"]
        assert len(reads) == 2


def test_what_another_process_adds_between_two_reads_is_no_damage(tmp_path):
    from autocontext.stores.indexing import SearchIndex

    class Interrupted:
        """The database, in which somebody else adds and searches after the first read."""

        def __init__(self, store):
            self.store, self.reads = store, 0

        def read(self, work):
            rows = place(self.store).read(work)
            self.reads += 1
            if self.reads == 1:
                self.store.append(U, added("first", "later")[1:], after=1)
                assert self.store.search("later", user_id="u")
            return rows

    with stored("sqlite file", tmp_path) as store:
        store.append(U, added("first"), after=0)
        assert store.search("first", user_id="u")
        database = Interrupted(store)
        index = SearchIndex(database, lambda _: [])
        [(key, segment)] = index.segments("u", None).segments
        assert (key, segment.count, database.reads) == (U, 2, 2)


def test_the_shards_of_who_was_searched_last_are_kept_within_a_limit(tmp_path):
    from autocontext.stores.indexing import _MOST_OUTLINED, SearchIndex
    from autocontext.stores.outlines import Shard

    key = ("u", "s", 1, 0, 0, 2)
    large = Shard([key], {key: (2, 3, b"x" * (_MOST_OUTLINED // 6))})
    assert large.size == pytest.approx(_MOST_OUTLINED // 3, rel=0.01)
    with stored("sqlite file", tmp_path) as store:
        index = SearchIndex(store.database, lambda _: [])
    index._keep("a", [large, large, large])
    assert index._shards.get("a") == [large, large]
    index._keep("b", [large])
    assert (index._shards.get("a"), index._shards.get("b")) == (None, [large])
    index._keep("b", [large, large])
    index._shards.drop("b")
    assert index._shards._size == 0


def test_a_shard_finds_words_in_the_session_that_holds_them():
    from autocontext.stores.outlines import Shard

    keys = [("u", "a", 1, 0, 0, 2), ("u", "b", 2, 0, 0, 1), ("u", "b", 2, 0, 1, 2), ("u", "c", 3, 0, 0, 1)]
    keys += [("u", "d", 4, 0, 0, 1), ("u", "e", 5, 0, 0, 1)]
    outlines = {keys[i]: (i + 1, 10 * (i + 1), words) for i, words in ((0, b"one two"), (3, b"three one"), (4, b""))}
    shard = Shard(keys, outlines)
    looked_at = [keys[1], keys[2], keys[5]]  # several segments, or unknown words
    assert shard.holding([b"two"]) == ([*looked_at, keys[0]], 4 + 5, 40 + 50)
    found, *others = shard.holding([b"one"])
    assert (found[:3], {*found[3:]}, others) == (looked_at, {keys[0], keys[3]}, [5, 50])
    assert shard.holding([b"twothree", b"none"]) == (looked_at, 10, 100)
    assert shard.outlines == outlines
    more = shard.also({keys[5]: (7, 8, b"none")})
    assert more.holding([b"none"]) == ([keys[1], keys[2], keys[5]], 10, 100)
    assert more.outlines == {**outlines, keys[5]: (7, 8, b"none")}


DAMAGES = {
    "bytes": "UPDATE autocontext_search SET body = :zeros WHERE start = 0",
    "no bytes": "UPDATE autocontext_search SET body = :empty WHERE start = 0",
    "too far": "UPDATE autocontext_search SET until = until + 9",
    "moved": "UPDATE autocontext_search SET start = start + 1 WHERE session_id = 's'",
    "gap": "DELETE FROM autocontext_search WHERE start = 0",
    "another session's": "UPDATE autocontext_search SET session_id = 'x' WHERE session_id = 's'",
    "swapped": (
        "UPDATE autocontext_search SET body = (SELECT x.body FROM autocontext_search x WHERE x.session_id = 't') "
        "WHERE session_id = 's' AND start = 0"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite file", "postgresql"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_row_12_a_damaged_index_is_made_anew(kind, damage, tmp_path):
    with stored(kind, tmp_path) as store:
        store.append(U, added(*(f"number{i}" for i in range(LONGEST + 5))), after=0)
        store.append(SessionKey("u", "t"), added("number3 elsewhere"), after=0)
        before = store.search("number3", user_id="u")
        assert len(before) == 2

        def spoil():
            values = {"zeros": b"\0" * 50, "empty": b""}
            used = {name: value for name, value in values.items() if f":{name}" in DAMAGES[damage]}
            yield Statement("DELETE FROM autocontext_search WHERE session_id = 'x'")  # of the spoiling before
            yield Statement(DAMAGES[damage], used)

        for query in ("number3", f"number{LONGEST + 4}"):
            place(store).write(spoil)
            # A process that has the segments in memory does not notice.
            anew = DatabaseSessionStore(place(store))
            found = [f.sequence for f in anew.search(query, user_id="u") if f.session == U]
            assert found == [int(query[6:])]
        assert store.search("number3", user_id="u") == before


def test_an_index_that_sqlite_cannot_read_is_made_anew(tmp_path):
    with stored("sqlite file", tmp_path) as store:
        store.append(U, added("number1"), after=0)
        before = store.search("number1", user_id="u")

        def spoil():
            yield Statement("UPDATE autocontext_search SET body = CAST(x'ff41' AS TEXT)")  # no UTF-8

        def kinds():
            return (yield Statement("SELECT typeof(body) FROM autocontext_search"))

        place(store).write(spoil)
        assert DatabaseSessionStore(place(store)).search("number1", user_id="u") == before
        assert [*place(store).read(kinds)] == [("blob",)]


@given(texts(), texts(max_chars=50))
def test_a_snippet_is_short_and_of_the_text(query, text):
    shown = snippet(query, text)
    assert len(shown) <= 166
    assert shown.removeprefix("...").removesuffix("...") in " ".join(text.split())


def test_a_snippet_shows_where_the_words_stand():
    text = "filler " * 500 + "the needle is in the haystack" + " filler" * 500
    assert "needle is in the haystack" in snippet("needles haystack", text)
    assert snippet("needles", text)[:3] == "..." == snippet("needles", text)[-3:]


def test_row_22_a_snippet_looks_at_a_bounded_number_of_places():
    text = "the needle in its haystack, " * 40_000
    began = time.thread_time()
    for _ in range(12):
        assert "needle" in snippet("needle haystack " * 20, text)
    assert time.thread_time() - began < 10


def test_row_22_of_a_long_query_the_first_words_count():
    words = [f"word{n}" for n in range(500)]
    assert question(" ".join(words), 1).terms == words[:128]
