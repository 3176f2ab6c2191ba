"""The search index gives what a look through every text gives, of any script, and keeps nothing that was erased."""

import json
import tracemalloc
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from autocontext import AutoContextMemory, Msg
from autocontext.errors import InvalidMessage
from autocontext.history.entries import Added, Cleared, Offloaded
from autocontext.messages import TextBlock, ToolResultBlock, ToolUseBlock
from autocontext.stores import DatabaseSessionStore, InMemorySessionStore, SessionKey, SqliteSessionStore
from autocontext.stores.database import Statement
from autocontext.stores.indexing import SearchIndex
from autocontext.stores.search import find
from autocontext.stores.search_blocks import Block, BlockWriter
from autocontext.stores.search_index import FULL, LONGEST, Segment, milliseconds, segments
from autocontext.stores.search_statements import forget
from autocontext.text.stems import roots, stem
from autocontext.text.words import is_cjk, split, terms, terms_of_chunk
from tests.conversations import texts
from tests.costs import CountingDatabase
from tests.stores.homes import database
from tests.stores.stores import KINDS, place, stored

U = SessionKey("u", "s")
WORDS = (
    "tests", "testing", "Test", "HttpServer", "db-7.example.org", "node.js", "C++", ".net", "don't", "Ann's", "went",
    "Straße", "ΟΔΟΣ", "Brücke", "e\u0301te\u0301", "İstanbul", "ﬁle", "退款政策", "退款", "データベース", "ﾃﾞｰﾀ", "移行",
    "데이터베이스", "税", "々", "👩‍👩‍👧", "_private服务", "HTTP服务器", "v2.net配置", "it'服务", "\u0301", "١٢٣",
    "x" * 70, "\ud800", "，", "…", "wrote", "HAPPIES", "organisation's", "𠀀𠀁", "foo_bar", "a.b.c-d", "K8S", "#5432",
)  # fmt: skip
mixed = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from((" ", "", "\n", "，", "-", ".", "\u3000")))).map(
    lambda pieces: "".join(word + gap for word, gap in pieces)
)
anything = st.one_of(mixed, texts(max_chars=6_000))


def added(*said):
    return [Added(message=Msg(id=f"m{i}", role="user", content=text)) for i, text in enumerate(said)]


def looked_through(said, term):
    """How often each text holds a term; a single sign is found in every pair."""
    counts = {}
    for i, text in enumerate(said):
        found = Counter(terms(text))
        sign = is_cjk(term) and len(term) == 1
        if n := sum(n for t, n in found.items() if t == term or (sign and is_cjk(t) and term in t)):
            counts[i] = n
    return counts


def stored_again(segment, until):
    return Segment.unpacked(U, 0, until, segment.packed(U, 0, until))


@given(st.lists(anything, max_size=5), anything)
def test_an_index_holds_what_the_texts_hold(said, other):
    made = [segment for _, segment in segments(0, added(*said))]
    for segment in made:
        for index in (segment, stored_again(segment, len(said))):
            for term in {
                *terms(" ".join(said)),
                *terms(other),
                *(sign for text in said for sign in text if is_cjk(sign)),
            }:
                held, expected = index.holders(term), looked_through(said, term)
                assert held.keys() == expected.keys(), term
                if not is_cjk(term):
                    assert held == expected, term
            assert index.ids == [f"m{i}" for i in range(len(said))]
            assert index.messages.sequences == list(range(len(said)))


@given(anything)
def test_the_chunks_of_a_text_have_its_terms(text):
    apart = [term for runs, chunks in split(text) for run in runs for term in terms(run)]
    apart += [term for _, chunks in split(text) for chunk in chunks for term in terms_of_chunk(chunk)]
    assert Counter(apart) == Counter(terms(text))


@given(st.lists(anything, min_size=1, max_size=4), st.integers(0, 5))
def test_texts_go_on_in_further_blocks(said, most):
    writer, plain = BlockWriter(most), BlockWriter()
    assert [writer.add(text) for text in said] == [plain.add(text) for text in said]
    blocks = [Block(texts.__getitem__) for texts in writer.blocks()]
    [whole] = [Block(texts.__getitem__) for texts in plain.blocks()]
    for term in set(terms(" ".join(said))):
        assert sum((block.holders(term) for block in blocks), Counter()) == whole.holders(term)
        for block in (*blocks, whole):
            those = {i: n for i, n in block.holders(term).items() if i % 2}
            assert block.holders(term, range(1, len(said) + 1, 2)) == those
    assert [Counter(terms(text)) for text in whole.texts(1)] == [Counter(terms(text)) for text in said]


@pytest.mark.parametrize("forms", [9, 60, 3_600])
def test_a_word_with_many_forms_is_counted_in_each_text(forms):
    said = [" ".join(f"req.{i:x}g req.{i:x}g.req" for i in range(start, forms, 3)) for start in range(3)] + ["nothing"]
    [(_, segment)] = segments(0, added(*said))
    assert segment.holders("req") == looked_through(said, "req")
    block = block_of(said)
    assert block.holders("req", [2, 3]) == {2: block.holders("req")[2]}
    assert block.occurrences(stem("nothing")) == block.occurrences("\nnoth", piece=True) == 1
    assert block.occurrences("\nothi", piece=True) == 0
    assert block.occurrences("req") == block.occurrences("req", piece=True) == 2 * forms


ENDINGS = ("", "s", "es", "ies", "y", "ing", "ed", "er", "ly", "ation", "isation", "ize", "ically", "ments", "e", "'s")


@given(st.text(alphabet="abcdeghilnorstyz", min_size=1, max_size=8), st.lists(st.sampled_from(ENDINGS), max_size=3))
def test_every_word_holds_a_root_of_its_stem(word, endings):
    word += "".join(endings)
    assert any(root in word for root in roots(stem(word)))


def test_irregular_forms_hold_a_root_of_their_stem():
    for word in ("went", "children", "wives", "mommies", "bought", "k8s", "configs", "repositories", "ties", "toys"):
        assert any(root in word for root in roots(stem(word))), word


# ------------------------------------------------------------------------------------------------------------- filters
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
TOOLS = ("bash", "read_file", "")


@st.composite
def logs(draw):
    """A log of calls, results without names, texts, stored copies; emptied now and then."""
    entries, calls = [], []
    for i in range(draw(st.integers(1, 12))):
        said = draw(st.sampled_from(("lock timeout", "锁超时", "nothing")))
        at = {"id": f"m{i}", "timestamp": draw(st.sampled_from(((BEGAN + timedelta(hours=i)).isoformat(), "later")))}
        kind = draw(st.sampled_from(("text", "call", "result", "copy", "cleared")))
        if kind == "cleared":
            entries.append(Cleared())
        elif kind == "call":
            calls.append(draw(st.sampled_from(TOOLS[:2])))
            use = ToolUseBlock(id=f"c{len(calls)}", name=calls[-1], input={"text": said})
            entries.append(Added(message=Msg(role="assistant", content=[use], **at)))
        elif kind == "result" and calls:
            result = ToolResultBlock(id=f"c{len(calls)}", output=said)
            entries.append(Added(message=Msg(role="tool", content=[result], **at)))
        elif kind == "copy":
            entries.append(Offloaded(uuid=f"u{i}", messages=(Msg(role="user", content=said, **at),)))
        else:
            entries.append(Added(message=Msg(role="user", content=[TextBlock(text=said)], **at)))
    return entries


filters = st.fixed_dictionaries(
    {},
    optional={
        "tool": st.sampled_from(TOOLS[:2]),
        "after": st.integers(0, 12).map(lambda h: BEGAN + timedelta(hours=h)),
        "before": st.integers(0, 12).map(lambda h: (BEGAN + timedelta(hours=h)).isoformat()),
        "numbers": st.tuples(st.integers(0, 12), st.integers(0, 12)),
    },
)


def fitting(entries, word, wanted):
    """The ids and numbers of the messages that fit, by looking at all of them."""
    found, number, tools = {}, 0, {}
    for entry in entries:
        if isinstance(entry, Cleared):
            found, number = {}, 0
            continue
        for msg in [entry.message] if isinstance(entry, Added) else entry.messages:
            number += isinstance(entry, Added)
            tools.update((use.id, use.name) for use in msg.tool_uses)
            used = {use.name for use in msg.tool_uses} | {tools[result.id] for result in msg.tool_results}
            at = milliseconds(msg.timestamp)
            low, high = wanted.get("numbers", (-1, 99))
            own = number if isinstance(entry, Added) else None
            fits = (not word or word in (*msg.texts(), *(t for text in msg.texts() for t in text.split()))) and (
                "tool" not in wanted or wanted["tool"] in used
            )
            fits = fits and ("numbers" not in wanted or (own is not None and low <= own <= high))
            if "after" in wanted:
                fits = fits and at is not None and at >= wanted["after"].timestamp() * 1000
            if "before" in wanted:
                fits = fits and at is not None and at < datetime.fromisoformat(wanted["before"]).timestamp() * 1000
            if fits:
                found[msg.id] = own
    return found


@given(logs(), st.sampled_from(("lock", "锁超时", "")), filters, st.integers(0, 3))
def test_a_search_narrows_down_as_looking_at_every_message_does(entries, word, wanted, first):
    assume(word or wanted)
    expected = fitting(entries, word, wanted)
    in_parts = SqliteSessionStore(":memory:")
    for at in range(0, len(entries), first + 1):
        in_parts.append(U, entries[at : at + first + 1], after=at)
        in_parts.search(word, user_id="u")
    at_once = InMemorySessionStore()
    at_once.append(U, entries, after=0)
    results = [store.search(word, user_id="u", limit=99, **wanted) for store in (in_parts, at_once)]
    assert results[0] == results[1] == find({U: entries}, word, limit=99, **wanted)
    assert {found.message_id: found.number for found in results[0]} == expected
    in_parts.close()


def test_a_result_that_begins_a_segment_is_of_the_tool_that_was_called_before_it():
    call = Added(message=Msg(role="assistant", content=[ToolUseBlock(id="c", name="bash")]))
    result = Added(message=Msg(role="tool", content=[ToolResultBlock(id="c", output="done")]))
    entries, store = [*added(*["word"] * (FULL - 1)), call], SqliteSessionStore(":memory:")
    store.append(U, entries, after=0)
    for more in ([], [result]):
        entries += more
        store.append(U, more, after=FULL)
        in_store, in_log = store.search("", user_id="u", tool="bash"), find({U: entries}, "", tool="bash")
        assert [f.number for f in in_store] == [f.number for f in in_log] == list(range(len(entries), FULL - 1, -1))
    store.close()


def test_without_words_the_newest_messages_come_first():
    store = InMemorySessionStore()
    calls = [
        Added(message=Msg(id=f"m{i}", role="assistant", content=[ToolUseBlock(id=f"c{i}", name="bash")]))
        for i in range(9)
    ]
    store.append(U, calls, after=0)
    assert [f.number for f in store.search("", user_id="u", tool="bash", limit=3)] == [9, 8, 7]
    assert store.search("", user_id="u") == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"after": "yesterday"}, "after must be a datetime or an ISO 8601 text"),
        ({"before": 5}, "before must be a datetime"),
        ({"numbers": (1, 2, 3)}, "numbers must be the first and the last"),
        ({"numbers": "m1-m9"}, "numbers must be the first and the last"),
        ({"numbers": 5}, "numbers must be the first and the last"),
        ({"tool": ["bash"]}, "tool must be a text"),
        ({"toll": "bash"}, "there is no 'toll'; one can ask for tool, after, before, numbers"),
    ],
)
def test_wrong_arguments_are_named(wrong, message, tmp_path):
    for kind in ("in memory", "encrypted sqlite"):
        with stored(kind, tmp_path) as store, pytest.raises(InvalidMessage, match=message):
            store.search("x", user_id="u", **wrong)


class Watched(CountingDatabase):
    """Notes down how many rows of each table are read."""

    def __init__(self, url):
        self.rows = Counter()
        super().__init__(url)

    def count(self, sql, rows):
        for table in ("autocontext_entries", "autocontext_search", "autocontext_sessions"):
            self.rows[table] += len(rows) * (f"FROM {table}" in sql)


@pytest.mark.slow
def test_a_search_reads_only_the_messages_that_it_shows(tmp_path):
    store = SqliteSessionStore(database := Watched(tmp_path / "a.db"))
    count = LONGEST + 10
    store.append(U, added(*(f"number{i} again" for i in range(count))), after=0)
    store.search("again", user_id="u")
    for query, wanted in (("again", {}), ("again", {"numbers": (900, 905)}), ("", {"after": BEGAN})):
        database.rows.clear()
        assert len(store.search(query, user_id="u", limit=5, **wanted)) == 5
        assert database.rows["autocontext_entries"] == 5
    store.append(U, added("one more"), after=count)
    database.rows.clear()
    assert store.search("more", user_id="u")
    # Of what was there, the last segment, and a few messages before it for the names of tools.
    assert database.rows["autocontext_entries"] <= FULL + 1


# ---------------------------------------------------------------------------------------------------- what is not kept
def index_rows(store):
    def work():
        return (yield Statement("SELECT body FROM autocontext_search"))

    return [bytes(body) for (body,) in place(store).read(work)]


@pytest.mark.parametrize("kind", ["sqlite file", "postgresql"])
@pytest.mark.parametrize("way", ["erase", "delete"])
def test_no_page_of_the_index_holds_what_was_erased(kind, way, tmp_path):
    with stored(kind, tmp_path) as store:
        secret, others = "pässwort-hunter2 退款账户", [f"harmless {i} text {i * 7}" for i in range(50)]
        store.append(U, added(*others, secret), after=0)
        assert store.search("hunter2", user_id="u")
        assert store.search("账户", user_id="u")
        before = index_rows(store)
        if way == "erase":
            store.erase(U, ["m50"])
        else:
            store.delete(U)
            store.scrub()
        assert index_rows(store) == []
        if kind == "sqlite file":
            written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
            for body in before:
                assert not any(body[at : at + 24] in written for at in range(0, len(body) - 24, 97))
            assert b"hunter2" not in written
        assert store.search("hunter2", user_id="u") == store.search("账户", user_id="u") == []
        for body in index_rows(store):
            segment = Segment.unpacked(U, 0, 51, body)
            assert not any(segment.holders(term) for term in terms(secret))
            assert segment.holders("harmless").keys() == set(range(50))


@pytest.mark.parametrize("kind", ["encrypted sqlite", "encrypted postgresql"])
def test_an_encrypted_store_keeps_no_index(kind, tmp_path):
    with stored(kind, tmp_path) as store:
        store.append(U, added("hunter2 退款"), after=0)
        assert store.search("hunter2", user_id="u", numbers=(1, 1))[0].number == 1
        assert store.search("退款", user_id="u")
        assert index_rows(store) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_other_tenants_say_changes_no_score(kind, tmp_path):
    with stored(kind, tmp_path) as store:
        store.append(U, added("a rare word", "a common word", "common common"), after=0)
        before = store.search("rare common word", user_id="u")
        store.append(SessionKey("v", "s"), added(*["rare rare rare"] * 30), after=0)
        assert store.search("rare", user_id="v")
        assert store.search("rare common word", user_id="u") == before
        assert len(before) == 3


def test_numbers_are_those_of_the_memory(tmp_path):
    with stored("sqlite file", tmp_path) as store:
        memory = AutoContextMemory(store=store, user_id="u", session_id="s")
        memory.add_messages([Msg(role="user", content=f"word{i}") for i in range(5)])
        state = memory.state_dict()
        memory.clear()
        memory.add_message(Msg(role="user", content="anew"))
        assert store.search("anew", user_id="u")[0].number == 1
        memory.load_state_dict(state)
        memory.add_message(Msg(role="user", content="last"))
        for text in ("word3", "last"):
            [found] = store.search(text, user_id="u")
            assert memory.numbered(f"m{found.number}")[found.number].text == text


@pytest.mark.parametrize("kind", ["sqlite file", "encrypted sqlite"])
def test_of_messages_that_share_an_id_each_hit_shows_its_own(kind, tmp_path):
    texts = ("the cat sleeps", "端口 5432 已被占用", "port 6543 failed", "deploy finished")
    said = tuple(Msg(id="msg", role="user", content=text) for text in texts)
    with stored(kind, tmp_path) as store:
        memory = AutoContextMemory(store=store, user_id="u", session_id="s")
        memory.add_messages([*said, Msg(role="user", content="other words")])
        for loaded in (False, True):
            if loaded:  # one entry holds all of its messages
                memory.load_state_dict(memory.state_dict())
            for number, text in enumerate(texts, 1):
                [found] = store.search(text, user_id="u", limit=1)
                assert (found.number, found.snippet) == (number, text)
        memory.clear()
        memory.offload("mine", said)
        for text in texts:
            assert store.search(text, user_id="u", limit=1)[0].snippet == text


def test_segments_follow_each_other(tmp_path):
    made = list(segments(0, added(*["word"] * (2 * LONGEST + 3))))
    assert [until for until, _ in made] == [LONGEST, 2 * LONGEST, 2 * LONGEST + 3]
    large = list(segments(7, added(*["x" * 1_500_000] * 4)))
    assert [until for until, _ in large] == [9, 11]
    assert all(b > a for a, b in pairwise(until for until, _ in made))
    assert json.loads(json.dumps(made[0][1].messages.numbers))[:3] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_many_sessions_are_indexed_together_and_a_long_one_in_parts(kind, tmp_path):
    with database(kind, tmp_path) as db:
        store, writes = DatabaseSessionStore(db), []
        write = db.write
        db.write = lambda work: (writes.append(work), write(work))[1]
        for i in range(300):
            store.append(SessionKey("u", f"s{i}"), added(f"word{i} is here"), after=0)
        store.append(SessionKey("u", "long"), added(*["again and again"] * (2 * LONGEST + 1)), after=0)
        writes.clear()
        assert [hit.session.session_id for hit in store.search("word77", user_id="u")] == ["s77"]
        assert 3 <= len(writes) <= 6
        writes.clear()
        assert len(store.search("again", user_id="u", limit=20)) == 20
        assert writes == []


# ------------------------------------------------------------------------------------------------------ many sessions
@given(st.lists(st.lists(mixed, min_size=1, max_size=2), min_size=1, max_size=5), st.data())
def test_a_later_search_finds_what_the_first_one_finds(sessions, data):
    with SqliteSessionStore(":memory:") as store:
        for i, said in enumerate(sessions):
            store.append(SessionKey("u", f"s{i}"), added(*said), after=0)
        words = data.draw(st.lists(st.sampled_from(sorted(set(split_all(sessions))) or ["none"]), max_size=3))
        first = store.search(" ".join(words), user_id="u")
        assert store.search(" ".join(words), user_id="u") == first
        assert DatabaseSessionStore(place(store)).search(" ".join(words), user_id="u") == first


def split_all(sessions):
    return (word for said in sessions for text in said for word in terms(text))


def test_a_search_looks_only_at_sessions_with_its_words(tmp_path):
    store = SqliteSessionStore(database := Watched(tmp_path / "a.db"))
    for i, word in enumerate(("harbour", "港口城市", "ΟΔΟΣ", "straße", *["number"] * 30)):
        store.append(SessionKey("u", f"s{i}"), added(f"{word}{i} is here"), after=0)
    index = SearchIndex(database, lambda spans: [store.read(key, after=a, until=b) for key, a, b in spans])
    assert [key.session_id for key, _ in index.segments("u", None, ["harbour"]).segments] == ["s0"]
    assert database.rows["autocontext_search"] == 1
    for i, word in enumerate(("harbour0", "港口", "οδος2", "straße3", "number7")):
        [term] = terms(word)
        looked_at = [key for key, _ in index.segments("u", None, [term]).segments]
        assert looked_at == [SessionKey("u", f"s{i if i < 4 else 7}")]
    assert len(index.segments("u", None).segments) == 34
    store.append(SessionKey("u", "s3"), added("number7 again"), after=1)
    database.rows.clear()
    looked_at = {key.session_id for key, _ in index.segments("u", None, ["number7"]).segments}
    assert looked_at == {"s3", "s7"}
    assert database.rows["autocontext_search"] == 1


@pytest.mark.slow
def test_a_later_search_reads_only_sessions_near_those_that_have_changed(tmp_path):
    with SqliteSessionStore(database := Watched(tmp_path / "a.db")) as store:
        keys = [SessionKey("u", f"s{i}") for i in range(2_000)]
        for i, key in enumerate(keys):
            store.append(key, added(f"word{i} here"), after=0)
        assert store.search("word7", user_id="u")
        database.rows.clear()
        assert [hit.session for hit in store.search("word7", user_id="u")] == [keys[7]]
        assert database.rows["autocontext_sessions"] < 20
        store.append(keys[8], added("word8 here", "word7 once more")[1:], after=1)
        other = DatabaseSessionStore(Watched(tmp_path / "a.db"))
        other.delete(keys[9])
        other.append(keys[9], added("another word9"), after=0)
        assert other.erase(keys[10], [other.read(keys[10])[0].message.id])
        other.delete(keys[11])
        other.append(new := SessionKey("u", "new"), added("word7 is new"), after=0)
        database.rows.clear()
        assert {hit.session for hit in store.search("word7", user_id="u")} == {keys[7], keys[8], new}
        assert database.rows["autocontext_sessions"] < 20 + 2 * 4 * 256  # before and after they were indexed
        assert [hit.session for hit in store.search("another word9", user_id="u", limit=1)] == [keys[9]]
        assert not [hit for word in ("word10", "word11") for hit in store.search(word, user_id="u")]
        for key in keys[100:1_900]:
            other.delete(key)
        other.append(keys[500], added("word500 again"), after=0)
        for i, found in ((500, 1), (501, 0), (1_950, 1), (99, 1)):
            assert [hit.session for hit in store.search(f"word{i}", user_id="u")] == [keys[i]] * found


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(("append", "erase", "delete", "rebuild", "other")), st.integers(0, 3)), max_size=12
)


@given(OPERATIONS)
@example([("append", 0), ("append", 0), ("append", 1), ("erase", 0)])
@example([("append", 0), ("append", 1), ("delete", 0), ("other", 0), ("rebuild", 0), ("other", 1)])
def test_whatever_changes_a_later_search_finds_what_a_new_process_finds(operations):
    with SqliteSessionStore(":memory:") as store:
        other = DatabaseSessionStore(place(store))
        for step, (what, n) in enumerate(operations):
            key = SessionKey("u", f"s{n}")
            entries = other.read(key)
            if what in ("append", "other"):
                message = Msg(id=f"m{step}", role="user", content=f"word{step % 3} is said in {n}")
                (store if what == "append" else other).append(key, [Added(message=message)], after=len(entries))
            elif what == "erase" and entries:
                other.erase(key, [entries[0].message.id])
            elif what == "delete":
                other.delete(key)
            elif what == "rebuild":
                place(store).write(lambda: forget("u"))
            for word in ("word0", "word1", "said"):
                assert store.search(word, user_id="u") == DatabaseSessionStore(place(store)).search(word, user_id="u")


def test_a_short_beginning_of_a_longer_session_is_looked_at_for_its_numbers(tmp_path):
    with SqliteSessionStore(database := Watched(tmp_path / "a.db")) as store:
        same = {"timestamp": "2026-01-01T00:00:00.000+00:00"}
        texts = [*["a"] * FULL, "harbour"]
        entries = [Added(message=Msg(id=f"{i}", role="user", content=text, **same)) for i, text in enumerate(texts)]
        store.append(U, entries[:FULL], after=0)
        assert store.search("a", user_id="u")
        store.append(U, entries[FULL:], after=FULL)
        for _ in range(2):
            [found] = store.search("harbour", user_id="u")
            assert found.number == FULL + 1
        database.rows.clear()
        assert store.search("none", user_id="u") == []
        assert database.rows["autocontext_search"] == 0


# ------------------------------------------------------------------------------------------------------- large blocks
LONG = [f"Word{i}-of{i % 7}" for i in range(4_000)]


def block_of(said):
    writer = BlockWriter()
    for text in said:
        writer.add(text)
    [parts] = writer.blocks()
    return Block(parts.__getitem__)


@pytest.mark.parametrize("beginning", ["", "İstanbul "])  # in lower case it is longer
def test_of_a_long_vocabulary_each_word_is_found_in_its_text(beginning):
    block = block_of([beginning, *LONG])
    for i in range(0, len(LONG), 97):
        assert block.holders(f"word{i}") == block.containing(f"word{i}-") == {i + 1: 1}


def test_an_index_that_was_asked_takes_little_more_than_its_words_twice():
    block = block_of(LONG)
    tracemalloc.start()
    try:
        assert block.holders("word77")
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    places = 2 * 4 * len(LONG)
    assert size < 1.2 * sum(len(word) + 1 for word in LONG) + places + 10_000
