"""AutoContext with a key: nothing that was said is readable in any part; wrong keys, rotation, tampering."""

import itertools
import secrets

import pytest

from tests.extras import need

need("crypto")

from autocontext import AutoContext, AutoContextConfig, Msg
from autocontext.content import PrunePolicy
from autocontext.errors import ConfigError, StoreCorruptError, StoreError
from autocontext.optimizer.states import StateStore
from autocontext.stores import EncryptedSessionStore, SqliteSessionStore
from autocontext.stores.database import Database, Statement
from autocontext.stores.opening import open_database
from autocontext.stores.places import PLACE, PLACES
from autocontext.testing import tool_exchange
from tests.stores.homes import home

OLD, NEW = secrets.token_bytes(32), secrets.token_bytes(32)
SECRET = "swordfish"
CONFIG = AutoContextConfig.for_window(8_000)


def said(what):
    return f"{SECRET}-{what}"


def opened(where, key=OLD, **options):
    return AutoContext.open(
        where, key=key, config=CONFIG, prune=PrunePolicy(keep_last=1, large_tool_chars=500), **options
    )


def fill(ac):
    """Plant a secret in every part, as users do."""
    session = ac.session("s", user_id="ann")
    call, result = tool_exchange("login", {"password": said("argument")}, (said("result") + "\n") * 900)
    session.add([Msg(role="user", content=said("question")), call, result, Msg(role="assistant", content="ok")])
    session.add([Msg(role="user", content=said("again")), Msg(role="assistant", content="well")])
    session.prepare(said("query"))
    session.call_tool(
        lambda name: said("small"), {"name": said("parameter")}, name=said("tool"), cacheable=True, tags=[said("tag")]
    )
    session.call_tool(lambda name: said("large") * 9_000, {"name": "x"}, name="big", cacheable=True)
    session.save()
    ac.content.put(
        said("content"),
        key=said("key"),
        name=said("name"),
        path=said("path"),
        summary=said("summary"),
        namespace="user:ann",
    )
    ac.content.put(said("plain content"), name=said("plain"), namespace="user:ann")
    ac.cache.set(said("chosen"), said("value"))
    ac.memories.add(
        said("memory"), user_id="ann", category=said("category"), tags=[said("tag")], context={"in": said("context")},
        source=said("source"), source_error=said("error"), metadata={"more": said("metadata")},
    )  # fmt: skip
    document = {"facts": [], "user": {"workContext": {"summary": said("section")}}}
    ac.memories.import_json(document, user_id="ann")
    return session


def everything(ac):
    """What every part gives back."""
    session = ac.session("s", user_id="ann")
    return {
        "messages": [m.to_dict() for m in session.memory.get_original_memory_msgs()],
        "search": [h.snippet for h in ac.sessions.search(SECRET, user_id="ann")],
        "state": session.state().to_dict(),
        "content": ac.content.read(said("key"), namespace="user:ann").text,
        "name": [i.ref for i in ac.content.find(said("plain"), namespace="user:ann")],
        "keys": ac.content.keys(namespace="user:ann"),
        "passages": sorted(h.text for h in ac.content.search(said("content"), namespace="user:ann")),
        "cached": ac.cache.get(said("chosen")),
        "small": ac.cache_of("ann").get_or_compute(said("tool"), {"name": said("parameter")}, lambda name: "computed"),
        "large": ac.cache_of("ann").get_or_compute("big", {"name": "x"}, lambda name: "computed"),
        "memories": [(m.content, m.category, m.tags, m.context, m.source, m.source_error, dict(m.metadata))
                     for m in ac.memories.all(user_id="ann")],
        "tags": ac.memories.stats(user_id="ann").top_tags,
        "document": ac.memories.document(user_id="ann"),
    }  # fmt: skip


def stored(where):
    """All bytes of the files, and all values of all tables."""
    db = open_database(where)
    try:
        rows, parts = [], db.read(db.parts)
        for place in [place for place in PLACES if place.part in parts]:
            columns = ", ".join(sorted(place.columns))
            rows += db.read(lambda c=columns, t=place.table: (yield Statement(f"SELECT {c} FROM {t}")))
    finally:
        db.close()
    text = b"".join(v if isinstance(v, bytes) else str(v).encode() for row in rows for v in row)
    return text, rows


@pytest.fixture(params=["file", "postgresql"])
def where(request, tmp_path):
    with home(request.param, tmp_path) as place:
        yield place


@pytest.mark.sampled
def test_row_11_nothing_that_was_said_is_in_any_table_or_file(where, tmp_path):
    with opened(where) as ac:
        fill(ac)
        before = everything(ac)
    text, rows = stored(where)
    assert len(rows) > 30
    assert SECRET.encode() not in text
    assert SECRET.encode() not in b"".join(f.read_bytes() for f in tmp_path.iterdir())
    with opened(where) as ac:
        assert everything(ac) == before
    assert SECRET in str(before)
    assert before["cached"] == said("value")
    assert (before["small"], before["large"]) == (said("small"), said("large") * 9_000)
    assert [m[0] for m in before["memories"]] == [said("memory")]


def test_row_11_without_a_key_the_same_is_readable(tmp_path):
    """The test above looks at the right places."""
    with AutoContext.open(tmp_path / "a.db", config=CONFIG) as ac:
        fill(ac)
        everything(ac)
    text, _ = stored(tmp_path / "a.db")
    for what in (
        "key",
        "name",
        "summary",
        "chosen",
        "memory",
        "category",
        "tag",
        "context",
        "source",
        "error",
        "metadata",
        "section",
        "tool",
        "parameter",
    ):
        assert said(what).encode() in text, what


def test_row_11_a_wrong_or_missing_key_is_one_clear_error(where):
    with opened(where) as ac:
        fill(ac)
    with pytest.raises(StoreError, match="key 'key' is not the one that it is encrypted with"):
        opened(where, NEW)
    with pytest.raises(StoreError, match="is encrypted with key 'key': pass it"):
        opened(where, {"other": NEW})
    for part in (AutoContext.open, StateStore, SqliteSessionStore if "://" not in where else AutoContext.open):
        with pytest.raises(StoreError, match=r"is encrypted: open it with its key, AutoContext.open\(..., key=...\)"):
            part(where)
    with pytest.raises(ConfigError, match="must be 32 random bytes"):
        opened(where, b"short")
    with pytest.raises(ConfigError, match="key must be 32 random bytes"):
        opened(where, "text")


def test_row_11_what_is_not_encrypted_is_not_mixed_with_what_is(where):
    with AutoContext.open(where) as ac:
        fill(ac)
    with pytest.raises(StoreError, match=r"holds .* that are not encrypted: open it without a key"):
        opened(where)
    with AutoContext.open(where) as ac:
        assert everything(ac)


@pytest.mark.sampled
def test_row_11_rotation_works_over_all_parts(where):
    with opened(where, {"2025": OLD}) as ac:
        fill(ac)
        before = everything(ac)
    with opened(where, {"2025": OLD, "2026": NEW}, current="2026") as ac:
        assert ac.rotate() > 15
        assert ac.rotate() == 0
        assert everything(ac) == before
    with opened(where, {"2026": NEW}) as ac:
        assert everything(ac) == before
        ac.memories.add(said("later"), user_id="ann")
    with pytest.raises(StoreError, match="is encrypted with key '2026'"):
        opened(where, {"2025": OLD})
    with AutoContext.open(":memory:") as ac, pytest.raises(ConfigError, match="is not encrypted"):
        ac.rotate()


def test_row_11_what_was_put_in_its_place_is_refused(tmp_path):
    where = tmp_path / "a.db"
    with opened(where) as ac:
        fill(ac)
        ac.memories.add(said("of bob"), user_id="bob")
        ac.memories.add(said("second"), user_id="ann")

    def change(sql):
        db = open_database(where)
        db.write(lambda: (yield Statement(sql)))
        db.close()

    change(
        "UPDATE autocontext_memories SET content = (SELECT content FROM autocontext_memories WHERE user_id = 'bob') "
        "WHERE user_id = 'ann'"
    )
    with opened(where) as ac, pytest.raises(StoreCorruptError, match="was changed or moved"):
        ac.memories.all(user_id="ann")
    change("UPDATE autocontext_memories SET content = 'planted' WHERE user_id = 'ann'")
    with opened(where) as ac, pytest.raises(StoreError, match="it is not encrypted"):
        ac.memories.all(user_id="ann")


def test_row_11_an_encrypted_database_takes_sessions_through_its_store_only(tmp_path):
    with opened(tmp_path / "a.db") as ac:
        assert isinstance(ac.sessions, EncryptedSessionStore)
        with pytest.raises(ConfigError, match=r"its sessions are in AutoContext\.sessions"):
            SqliteSessionStore(ac.database)
        with pytest.raises(ConfigError, match="is open with its key already"):
            opened(ac.database)
        again = AutoContext.open(ac.database)
        again.session("s").add(Msg(role="user", content=said("here")))
    assert SECRET.encode() not in stored(tmp_path / "a.db")[0]


def test_row_11_a_prefix_is_refused_where_keys_are_encrypted(tmp_path):
    with (
        opened(tmp_path / "a.db") as ac,
        pytest.raises(ConfigError, match="nothing is found by the beginning of its key"),
    ):
        ac.cache.invalidate(prefix="a")


def test_row_11_what_a_database_holds_is_copied_behind_a_key_and_back(tmp_path):
    names = ["plain.db", "encrypted.db", "back.db"]
    with AutoContext.open(tmp_path / names[0], config=CONFIG) as ac:
        fill(ac)
        before = everything(ac)
    for source, to in itertools.pairwise(names):
        keys = [OLD if name == "encrypted.db" else None for name in (source, to)]
        with opened(tmp_path / source, keys[0]) as old, opened(tmp_path / to, keys[1]) as new:
            old.copy_to(new)
            assert without_order(everything(new)) == without_order(before)
    assert SECRET.encode() not in stored(tmp_path / "encrypted.db")[0]


def without_order(parts):
    return {**parts, "keys": sorted(parts["keys"]), "search": sorted(parts["search"])}


class Meddling(Database):
    """Lets somebody else write just before the first row is sealed again."""

    reads_encrypted = True

    def __init__(self, database, meddle):
        self._database, self._meddle = database, meddle
        self.name, self.dialect = database.name, database.dialect

    def _run(self, work, *, writes):
        if writes:
            meddle, self._meddle = self._meddle, lambda: None
            meddle()
        return self._database._run(work, writes=writes)

    close = aclose = None


def test_row_11_what_is_written_while_keys_are_rotated_stays_and_is_sealed_too(where):
    with opened(where, {"2025": OLD}) as ac:
        memory = ac.memories.add("first words", user_id="ann")
        with opened(where, {"2025": OLD, "2026": NEW}, current="2026") as new:
            beneath = new.database._beneath
            new.database._beneath = Meddling(
                beneath, lambda: ac.memories.update(memory.id, user_id="ann", content="later words")
            )
            assert new.database._rotate_table(PLACE["autocontext_memories"]) == 1
            new.database._beneath = beneath
            assert new.memories.get(memory.id, user_id="ann").content == "later words"
            new.rotate()
    with opened(where, {"2026": NEW}) as ac:
        assert ac.memories.get(memory.id, user_id="ann").content == "later words"
