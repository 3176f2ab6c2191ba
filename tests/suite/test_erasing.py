"""Erasing: after it, what was said is in no table, file or export of any part, encrypted or not."""

import asyncio
import os
import secrets
import stat
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from autocontext import AutoContext, AutoContextConfig, Msg, TextBlock
from autocontext.cache import ResultCache
from autocontext.cli import main
from autocontext.content import PrunePolicy, SqlContentStore, placeholders, prune_messages
from autocontext.content.records import REF
from autocontext.errors import ConfigError, SessionGone, StoreCorruptError
from autocontext.history.entries import dump_entry
from autocontext.memories import MemoryStore
from autocontext.sessions import restore_state_messages
from autocontext.stores import SessionKey, SqliteSessionStore
from autocontext.stores.database import Statement
from autocontext.stores.places import PLACES
from autocontext.stores.private_files import write_private
from autocontext.stores.records import from_bytes
from autocontext.testing import tool_exchange
from tests.extras import need
from tests.stores.homes import home

KEY = secrets.token_bytes(32)
SECRET = "swordfish"
CONFIG = AutoContextConfig.for_window(8_000)
S = SessionKey("ann", "s")


@pytest.fixture(params=["file", "postgresql"])
def where(request, tmp_path):
    with home(request.param, tmp_path) as place:
        yield place


def opened(where, key=None):
    if key:
        need("crypto")
    policy = PrunePolicy(keep_last=1, large_tool_chars=500)
    return AutoContext.open(where, key=key, config=CONFIG, prune=policy)


def said(what):
    return f"{SECRET}-{what}-" + f"{SECRET} " * 3


def found(ac, folder):
    """The tables where the secret can be read with the key, and the files that hold it."""
    tables = []
    for place in PLACES:
        if (
            place.part in ac.database.read(ac.database.parts)
            and (place.part, ac.database.reads_encrypted) not in SEALED
        ):
            columns = ", ".join(sorted(place.columns))
            rows = ac.database.read(partial(selected, columns, place.table))
            if any(SECRET in readable(value) for row in rows for value in row):
                tables.append(place.table)
    logs = "".join(dump_entry(entry) for info in ac.sessions.sessions() for entry in ac.sessions.read(info.key))
    files = [f.name for f in folder.iterdir() if f.is_file() and SECRET.encode() in f.read_bytes()]
    return tables + files + ["log"] * (SECRET in logs)


SEALED = [("sessions", True), ("encryption", True)]
"""Read through the store of sessions; there is nothing to read."""


def selected(columns, table):
    return (yield Statement(f"SELECT {columns} FROM {table}"))


def readable(value):
    if not isinstance(value, bytes):
        return str(value)
    for unpack in (zlib.decompress, lambda body: to_json(from_bytes(body))):
        with suppress(zlib.error, StoreCorruptError):
            return unpack(value).decode("utf-8", "replace")
    return value.decode("utf-8", "replace")


def to_json(entry):
    return dump_entry(entry).encode()


def talk(ac, session_id="s", secret=said):
    """A session whose secret goes everywhere: pruned, answered by a cached tool, summarised, searched, saved."""
    session = ac.session(session_id, user_id="ann")
    call, result = tool_exchange("login", {"password": secret("argument")}, (secret("result") + "\n") * 400)
    told = Msg(role="user", content=secret("question"))
    session.add([told, call, result, Msg(role="assistant", content="ok"), Msg(role="user", content="go on")])
    session.prepare()
    use = Msg.model_validate(tool_exchange("big", {"name": secret("name")}, "")[0].to_dict())
    session.add(use)
    answer = session.call_tool(
        lambda name: secret("large") * 900, {"name": secret("name")}, use.tool_uses[0].id, name="big", cacheable=True
    )
    small = Msg.model_validate(tool_exchange("small", {"x": secret("x")}, "")[0].to_dict())
    session.add(small)
    short = session.call_tool(
        lambda x: secret("small"), {"x": secret("x")}, small.tool_uses[0].id, name="small", cacheable=True
    )
    session.add([Msg(role="assistant", content="well"), Msg(role="user", content="and now")])
    ac.sessions.search(SECRET, user_id="ann")
    for _ in range(3):
        session.save()
        session.add([Msg(role="user", content="more"), Msg(role="assistant", content="yes")])
    return session, [m.id for m in (told, call, result, use, answer, small, short)]


@pytest.mark.sampled
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_row_04_an_erased_message_is_in_no_part_any_more(where, key, tmp_path):
    with opened(where, key) as ac:
        session, ids = talk(ac)
        others = [m for m in session.memory.get_original_memory_msgs() if m.id not in ids]
        before = found(ac, tmp_path)
        assert {"autocontext_states", "autocontext_content_page", "autocontext_cache"} <= set(before)
        assert ac.erase("s", [*ids, "unknown"], user_id="ann") == len(ids)
        assert found(ac, tmp_path) == []
        again = ac.session("s", user_id="ann")
        assert [m for m in again.memory.get_original_memory_msgs() if m.id not in ids] == others
        again.save()
        assert found(ac, tmp_path) == []


@pytest.mark.sampled
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_row_04_a_deleted_session_is_in_no_part_any_more(where, key, tmp_path):
    with opened(where, key) as ac:
        talk(ac)
        kept = "harmless-{}".format
        other, _ = talk(ac, "other", kept)
        assert ac.delete("s", user_id="ann")
        assert found(ac, tmp_path) == []
        assert not ac.delete("s", user_id="ann")
        [handle] = {m.tool_results[0].metadata["pruned"]["ref"] for m in other.memory.messages
                    if m.tool_results and "pruned" in m.tool_results[0].metadata}  # fmt: skip
        assert ac.content.read(handle, namespace="user:ann").text == kept("large") * 900


@pytest.mark.parametrize("erase", ["erase", "redact", "delete"])
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_row_04_what_was_made_of_a_log_goes_with_it(where, key, erase, tmp_path):
    """`sessions` alone reaches everything that is a session's own."""
    with opened(where, key) as ac:
        session = ac.session("s", user_id="ann")
        session.add([Msg(id="m", role="user", content=said("question")), Msg(role="assistant", content="ok")])
        session.save()
        ac.sessions.search(SECRET, user_id="ann")
        assert found(ac, tmp_path)
        if erase == "delete":
            ac.sessions.delete(S)
            ac.sessions.scrub()
        else:
            getattr(ac.sessions, erase)(S, ["m"])
        assert found(ac, tmp_path) == []


def test_row_04_what_two_sessions_have_stays_for_the_other(tmp_path):
    with opened(tmp_path / "a.db") as ac:
        talk(ac)
        other, _ = talk(ac, "other")
        handles = {m.tool_results[0].metadata["pruned"]["ref"] for m in other.memory.messages
                   if m.tool_results and "pruned" in m.tool_results[0].metadata}  # fmt: skip
        assert ac.delete("s", user_id="ann")
        assert all(ac.content.read(handle, namespace="user:ann") for handle in handles)
        assert ac.delete("other", user_id="ann")
        assert not any(ac.content.read(handle, namespace="user:ann") for handle in handles)
        assert found(ac, tmp_path) == []


def test_row_04_a_session_that_was_open_does_not_write_it_back(where, tmp_path):
    with opened(where) as ac, opened(where) as elsewhere:
        session, ids = talk(ac)
        never_saved = ac.session("s", user_id="ann")
        elsewhere.erase("s", ids, user_id="ann")
        for stale in (session, never_saved):
            stale.prepare()
            stale.save()
        assert found(ac, tmp_path) == []
        fresh = ac.session("s", user_id="ann")
        fresh.save()
        elsewhere.delete("s", user_id="ann")
        for stale in (session, fresh):
            with pytest.raises(SessionGone):
                stale.save()
        assert fresh.state() is None
        assert found(ac, tmp_path) == []


def test_row_04_a_save_at_the_moment_of_an_erasure_does_not_bring_it_back(where, tmp_path):
    with opened(where) as ac:
        for n in range(4):
            session = ac.session(f"s{n}", user_id="ann")
            session.add([Msg(id="m", role="user", content=said("question")), Msg(role="assistant", content="ok")])
            ready = threading.Barrier(2)

            def save(session=session, ready=ready):
                ready.wait(60)
                for _ in range(5):
                    session.save()

            with ThreadPoolExecutor() as pool:
                saving = pool.submit(save)
                ready.wait(60)
                ac.sessions.erase(SessionKey("ann", f"s{n}"), ["m"])
                saving.result(60)
        assert found(ac, tmp_path) == []


def in_contents(db):
    store = SqlContentStore(db)
    info = store.put(said("content") * 3_000, key=said("key"), name=said("name"), summary=said("summary"))
    return lambda: store.delete(info.ref)


def in_expired_contents(db):
    now = [1_000]
    store = SqlContentStore(db, clock=lambda: now[0])
    store.put(said("content"), ttl=1)
    now[0] = 10_000
    return store.purge_expired


def in_cache(db):
    cache = ResultCache(db, namespace="n")
    cache.get_or_compute("f", {"name": said("argument")}, lambda name: said("value") * 5_000, tags=[said("tag")])
    cache.set(said("key"), said("value"))

    def fail():
        raise ValueError(said("error"))

    with pytest.raises(ValueError, match=SECRET):
        cache.get_or_compute("fails", {}, fail, cache_exceptions=(ValueError,))
    return cache.clear


def in_memories(db):
    store = MemoryStore(db)
    memory = store.add(said("memory"), user_id="ann", tags=[said("tag")], context={"in": said("context")})
    store.update(memory.id, user_id="ann", content=said("changed"))
    store.import_json({"facts": [], "user": {"workContext": {"summary": said("section")}}}, user_id="ann")
    return lambda: store.clear(user_id="ann")


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
@pytest.mark.parametrize("plant", [in_contents, in_expired_contents, in_cache, in_memories])
def test_row_04_what_a_part_deletes_is_gone_from_tables_and_files(where, key, plant, tmp_path):
    with opened(where, key) as ac:
        remove = plant(ac.database)
        assert found(ac, tmp_path)
        remove()
        ac.scrub()
        assert found(ac, tmp_path) == []


def test_row_11_every_file_that_is_written_is_its_owners_only(tmp_path):
    before = os.umask(0)
    try:
        store = SqliteSessionStore(tmp_path / "agent.db")
        store.export_jsonl(_filled(store), tmp_path / "log.jsonl")
        (tmp_path / "old.jsonl").write_text("readable by all")
        store.export_jsonl(S, tmp_path / "old.jsonl")
        cache = ResultCache(tmp_path / "agent.db", namespace="n")
        cache.set("k", "v")
        cache.export_json(tmp_path / "cache.json")
        MemoryStore(tmp_path / "agent.db").export_json(tmp_path / "memory.json", user_id="ann")
        assert main(["report", str(tmp_path / "agent.db"), "s", "--user", "ann", "-o", str(tmp_path / "r.html")]) == 0
        assert main(["export", str(tmp_path / "agent.db"), "s", "--user", "ann", "-o", str(tmp_path / "x.jsonl")]) == 0
    finally:
        os.umask(before)
    modes = {f.name: stat.S_IMODE(f.stat().st_mode) for f in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}, modes
    assert {"log.jsonl", "old.jsonl", "cache.json", "memory.json", "r.html", "x.jsonl", "agent.db-wal"} <= modes.keys()


@pytest.mark.parametrize(
    "write",
    [
        lambda db, to: SqliteSessionStore(db).export_jsonl(S, to),
        lambda db, to: MemoryStore(db).export_json(to, user_id="ann"),
        lambda db, to: ResultCache(db, namespace="n").export_json(to),
        *(
            lambda db, to, words=words: main([words[0], str(db), "s", "--user", "ann", *words[1:], "-o", str(to)])
            for words in (["export"], ["export", "--openai"], ["report"])
        ),
    ],
    ids=["sessions", "memories", "cache", "export", "export --openai", "report"],
)
def test_no_export_replaces_a_database(write, tmp_path, capsys):
    for name in ("agent.db", "other.db"):
        with SqliteSessionStore(tmp_path / name) as store:
            _filled(store)
    (tmp_path / "link").symlink_to(tmp_path / "other.db")
    for name in ("agent.db", "link"):
        try:
            said = capsys.readouterr().err if write(tmp_path / "agent.db", tmp_path / name) == 2 else ""
        except ConfigError as e:
            said = str(e)
        assert f"{name} is a SQLite database" in said
    for name in ("agent.db", "other.db"):
        with SqliteSessionStore(tmp_path / name) as store:
            assert len(store.read(S)) == 1


def _filled(store):
    ac = AutoContext(store.database)
    ac.session("s", user_id="ann").add(Msg(role="user", content="hello"))
    return S


def test_row_04_the_command_line_deletes_a_session_from_all_parts(tmp_path):
    with opened(tmp_path / "a.db") as ac:
        talk(ac)
    assert main(["purge", str(tmp_path / "a.db"), "s", "--user", "ann", "--yes"]) == 0
    with opened(tmp_path / "a.db") as ac:
        assert found(ac, tmp_path) == []


def test_row_11_contents_in_a_folder_are_their_owners_only(tmp_path):
    need("cloud")
    from autocontext.content import ObjectContentStore

    store = ObjectContentStore(tmp_path)
    store.put("hello")
    [folder] = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)  # as earlier releases left it
    assert ObjectContentStore(tmp_path.as_uri()).stats().contents == 1
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_row_11_a_pipe_is_written_to_and_a_link_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_private(tmp_path / "link", "text\n")
    assert (tmp_path / "target").read_text() == "text\n"
    assert (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")  # one of our own: a mistake here must not replace a device of the machine
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_private(tmp_path / "pipe", "through")
    assert os.read(reading, 100) == b"through"
    os.close(reading)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    with pytest.raises(OSError, match="No such file"):
        write_private(tmp_path / "missing" / "file", "text")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["link", "pipe", "target"]


# ---------------------------------------------------------------------------------------------- how copies are found
@pytest.fixture
def ac(tmp_path):
    with opened(tmp_path / "a.db") as context:
        yield context


def conversation(ac, *messages):
    session = ac.session("s", user_id="ann")
    session.add([*messages, Msg(role="user", content="go on")])
    return session


def kept(ac, info):
    return ac.content.read(info.ref, namespace="user:ann") is not None


def test_row_04_a_content_that_is_the_message_or_a_long_part_of_it_goes(ac):
    told = Msg(id="m", role="user", content="short one")
    long = Msg(id="n", role="user", content="before " + "x" * 300 + " after")
    conversation(ac, told, long)
    contents = [ac.content.put(text, namespace="user:ann") for text in ("short one", "short", "x" * 300, "x" * 100)]
    ac.erase("s", ["unknown"], user_id="ann")
    assert [kept(ac, info) for info in contents] == [True] * 4
    ac.erase("s", ["m"], user_id="ann")
    assert [kept(ac, info) for info in contents] == [False, True, True, True]
    ac.erase("s", ["n"], user_id="ann")
    assert [kept(ac, info) for info in contents] == [False, True, False, True]


LONG = "".join(f"line {i} of the log\n" for i in range(400))
NAMING = {
    "a call": lambda ref: tool_exchange("context_reload", {"ref": ref, "query": "line 7"}, "")[0],
    "a page": lambda ref: tool_exchange("context_reload", {}, f"[{ref}: t, 9 characters; showing 0-4]\nline")[1],
    "a question": lambda ref: Msg(role="user", content=f"My card is 4111. Look at {ref} from the other chat."),
    "a quote": lambda ref: Msg(role="user", content=f"What is {placeholders.whole('t', 9, ref)} good for?"),
    "a list": lambda ref: Msg(role="system", content=f"Files: log.txt ({ref})."),
    "a thought": lambda ref: Msg.model_validate(
        {"role": "assistant", "content": [{"type": "thinking", "thinking": f'I call context_reload("{ref}").'}]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("place", ["s", "other"])
@pytest.mark.parametrize("naming", NAMING)
def test_a_content_that_an_erased_message_only_names_stays(ac, naming, place):
    session, use = conversation(ac), Msg.model_validate(tool_exchange("t", {}, "")[0].to_dict())
    session.add(use)
    [block] = session.call_tool(lambda: LONG, name="t", call_id=use.tool_uses[0].id).tool_results
    named = NAMING[naming](block.metadata["pruned"]["ref"])
    other = ac.session(place, user_id="ann")
    other.add([named, Msg(role="user", content="go on")])
    ac.erase(place, [named.id], user_id="ann")
    assert ac.content.read(block.metadata["pruned"]["ref"], namespace="user:ann").text == LONG
    if place == "other":
        ac.delete(place, user_id="ann")
        assert ac.content.read(block.metadata["pruned"]["ref"], namespace="user:ann").text == LONG


def pruned(ac, ask, answer, **policy):
    policy = PrunePolicy(large_tool_chars=500, recent_tool_keep_chars=100, **policy)
    messages = [ask, answer, Msg(role="user", content="go on")]
    return prune_messages(messages, store=ac.content, namespace="user:ann", policy=policy).messages[1]


def unmarked(msg):
    return Msg.model_validate(msg.to_dict() | {"content": [b | {"metadata": {}} for b in msg.to_dict()["content"]]})


def in_parts(name, output):
    ask, answer = tool_exchange(name, {}, "")
    block = answer.tool_results[0].model_copy(update={"output": (TextBlock(text="see"), TextBlock(text=output))})
    return ask, answer.model_copy(update={"content": (block,)})


RESTS = {
    "the beginning": lambda ac: pruned(ac, *tool_exchange("t", {}, LONG)),
    "nothing": lambda ac: pruned(ac, *tool_exchange("t", {}, LONG), keep_last=0),
    "a part": lambda ac: pruned(ac, *in_parts("t", LONG)),
    "the beginning without its mark": lambda ac: unmarked(pruned(ac, *tool_exchange("t", {}, LONG))),
    "nothing without its mark": lambda ac: unmarked(pruned(ac, *tool_exchange("t", {}, LONG), keep_last=0)),
}
"""A message that shows so much of a text, whose rest is in the content store."""


@pytest.mark.parametrize("place", ["s", "other"])
@pytest.mark.parametrize("shown", RESTS)
def test_a_rest_goes_with_the_last_message_that_has_it(ac, shown, place):
    one, two = (RESTS[shown](ac) for _ in range(2))
    for id_, msg in (("s", one), (place, two)):
        session = ac.session(id_, user_id="ann")
        call = Msg.model_validate(tool_exchange("t", {}, "")[0].to_dict())
        use = call.tool_uses[0].model_copy(update={"id": msg.tool_results[0].id})
        session.add([call.model_copy(update={"content": (use,)}), msg, Msg(role="user", content="go on")])
    [ref] = REF.findall(str(one.to_dict()["content"]))[:1]
    ac.erase("s", [one.id], user_id="ann")
    assert ac.content.read(ref, namespace="user:ann").text == LONG
    ac.erase(place, [two.id], user_id="ann")
    assert not ac.content.has(ref, namespace="user:ann")


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("how", ["erase", "delete", "clear"])
def test_an_open_session_shows_no_handle_of_a_content_that_is_gone(where, how, mode):
    one, two = LONG[:3_000], LONG[3_000:7_000]
    with opened(where) as ac:
        sessions = []
        for id_ in ("s", "other"):
            sessions.append(ac.session(id_, user_id="ann"))
            messages = [
                Msg(role="user", content="read"),
                *tool_exchange("t", {}, one),
                *tool_exchange("u", {}, two),
            ]
            sessions[-1].add([*messages, Msg(role="assistant", content="ok"), Msg(role="user", content="go on")])

        def shown(session):
            prepared = asyncio.run(session.aprepare()) if mode == "async" else session.prepare()
            texts = [m.tool_results[0].text for m in prepared.messages if m.tool_results]
            handles = REF.findall(str(texts))
            assert len(handles) == 2
            return [page and page.text for page in (ac.content.read(ref, namespace="user:ann") for ref in handles)]

        assert [shown(session) for session in sessions] == [[one, two]] * 2
        result = next(m for m in sessions[0].memory.messages if m.tool_results)
        if how == "erase":
            ac.erase("s", [result.id], user_id="ann")
        elif how == "delete":
            [info] = ac.content.find("t", namespace="user:ann")
            ac.content.delete(info.ref, namespace="user:ann")
        else:
            ac.content.clear("user:ann")
        assert shown(sessions[1]) == [one, two]


@pytest.mark.parametrize("whole", [False, True], ids=["messages", "session"])
def test_what_a_user_has_put_under_a_key_stays(where, whole, tmp_path):
    with opened(where) as ac:
        for key, text in (("report.csv", LONG), ("policy.txt", "Refunds within 3 days."), (None, "put without a key")):
            ac.content.put(text, key=key, namespace="user:ann")
        session = conversation(
            ac, Msg(role="system", content=f"Files: {ac.content.info('report.csv', namespace='user:ann').ref}")
        )
        for text in ("Refunds within 3 days.", LONG, "put without a key"):
            use = Msg.model_validate(tool_exchange("read", {}, "")[0].to_dict())
            session.add(use)
            session.call_tool(lambda text=text: text, call_id=use.tool_uses[0].id, name="read")
        session.prepare()
        if whole:
            ac.delete("s", user_id="ann")
        else:
            ac.erase("s", [m.id for m in session.memory.messages], user_id="ann")
        assert ac.content.keys(namespace="user:ann") == ["policy.txt", "report.csv"]
        assert ac.content.stats("user:ann").contents == 2
        for key in ("policy.txt", "report.csv"):
            assert ac.content.delete(key, namespace="user:ann")
        assert ac.content.stats("user:ann").contents == 0, "the puts of the session hold them no longer"


def test_a_content_that_is_damaged_goes_as_well(ac, tmp_path):
    ac.content.put(said("told") * 100, namespace="user:ann")
    conversation(ac, Msg(id="m", role="user", content=said("told") * 100))

    def damage():
        yield Statement("UPDATE autocontext_content SET chars = chars + 1")

    ac.database.write(damage)
    ac.erase("s", ["m"], user_id="ann")
    assert found(ac, tmp_path) == []


def test_a_damaged_session_keeps_no_message_of_another_from_being_erased(ac):
    ac.content.put(said("told") * 100, namespace="user:ann")
    conversation(ac, Msg(id="m", role="user", content=said("told") * 100))
    ac.session("other", user_id="ann").memory.add_message(Msg(role="user", content="harmless"))

    def damage():
        yield Statement("UPDATE autocontext_entries SET body = :body WHERE session_id = 'other'", {"body": b"\0"})

    ac.database.write(damage)
    with pytest.raises(StoreCorruptError):
        ac.sessions.read(SessionKey("ann", "other"))
    assert ac.erase("s", ["m"], user_id="ann") == 1
    assert ac.content.stats("user:ann").contents == 0


def test_row_04_a_content_whose_time_is_over_goes_as_well(ac, tmp_path):
    info = ac.content.put(said("late"), namespace="user:ann", ttl=0.001)
    conversation(ac, Msg(id="m", role="user", content=f"look at {info.ref}"))
    time.sleep(0.01)
    ac.erase("s", ["m"], user_id="ann")
    assert found(ac, tmp_path) == []


def test_row_04_a_cached_result_goes_with_the_call_or_with_what_it_said(ac):
    cache = ac.cache_of("ann")

    calls = [
        ("by call", {"b": [1, "x"], "a": 2}),
        ("by text", {"n": 1}),
        ("by error", {"n": 2}),
        ("by handle", {"n": 3}),
    ]
    cache.get_or_compute(*calls[0], lambda a, b: {"never": "said"})
    cache.get_or_compute(*calls[1], lambda n: {"total": 12})
    with pytest.raises(ValueError, match="no such user"):
        cache.get_or_compute(*calls[2], fails, cache_exceptions=(ValueError,))
    info = ac.content.put("y" * 5_000, namespace="user:ann")
    cache.get_or_compute(*calls[3], lambda n: "y" * 5_000)
    ask, answer = tool_exchange("by call", {"a": 2, "b": [1, "x"]}, "something else")
    conversation(
        ac, ask, answer, *tool_exchange("t", {}, '{"total": 12}'),
        *tool_exchange("t", {}, "Error: ValueError: no such user"),
        *tool_exchange("t", {}, placeholders.rest("yyy", 5_000, info.ref)),
    )  # fmt: skip
    results = [m for m in ac.session("s", user_id="ann").memory.messages if m.role == "tool"]
    assert stored_keys(cache) == {"by call", "by text", "by error", "by handle"}
    for erased, left in [
        (answer, {"by call", "by text", "by error", "by handle"}),
        (ask, {"by text", "by error", "by handle"}),
        (results[1], {"by error", "by handle"}),
        (results[2], {"by handle"}),
        (results[3], set()),
    ]:
        ac.erase("s", [erased.id], user_id="ann")
        assert stored_keys(cache) == left


def stored_keys(cache):
    tasks = set()
    cache.discard(lambda entry: tasks.add(entry.task))
    return tasks


def fails(n):
    raise ValueError("no such user")


def test_a_summary_of_summaries_goes_with_a_message_that_the_first_quotes(ac, tmp_path):
    before, told = Msg(role="user", content="harmless"), Msg(id="m", role="user", content=said("told"))
    session = ac.session("s", user_id="ann")
    for turn in range(60):
        question = [before] * (turn == 0) or [told] * (turn == 20) or [Msg(role="user", content=f"question {turn}")]
        session.add([*question, Msg(role="assistant", content=f"answer {turn}")])
        session.save()
        if turn == 19:
            earlier = contents(ac)
    assert len(contents(ac)) > len(earlier) + 3 > 3
    ac.erase("s", ["m"], user_id="ann")
    assert found(ac, tmp_path) == []
    assert earlier <= contents(ac)
    session.save()
    restored = restore_state_messages(session.state().messages, store=ac.content, namespace="user:ann")
    assert restored == session.memory.get_original_memory_msgs()


def test_a_mark_without_a_handle_takes_no_summary_along(ac):
    session = ac.session("s", user_id="ann")
    for turn in range(20):
        session.add([Msg(role="user", content=f"question {turn}"), Msg(role="assistant", content=f"answer {turn}")])
        session.save()
    before = contents(ac)
    assert before
    told = Msg(id="m", role="user", content=(TextBlock(text="so", metadata={"pruned": {}}),))
    session.add([told, Msg(role="assistant", content="ok")])
    ac.erase("s", ["m"], user_id="ann")
    assert contents(ac) == before


def contents(ac):
    return {info.ref for info in ac.content.find("messages", namespace="user:ann")}


@pytest.mark.parametrize("way", ["by number", "by handle", "by handle, further on", "by a summary's handle"])
def test_what_the_agent_has_reloaded_of_it_goes_too(where, way, tmp_path):
    with opened(where) as ac:
        session = ac.session("s", user_id="ann")
        kept = ac.content.put("harmless line\n" * 200, namespace="user:ann")
        call, result = tool_exchange("login", {}, "".join(f"{SECRET} {i}\n" for i in range(300)))
        told = Msg(role="user", content=said("told"))
        session.add([told, call, result, Msg(role="assistant", content="ok")])
        for turn in range(12):
            session.add([Msg(role="user", content=f"question {turn}"), Msg(role="assistant", content="yes")])
            session.save()
        reload = session.tools()[0]
        if way == "by number":
            arguments = {"working_context_offload_uuid": "m3"}
        elif way == "by a summary's handle":
            handle = next(m.metadata["_content_ref"] for m in session.state().messages if "_content_ref" in m.metadata)
            arguments = {"working_context_offload_uuid": handle}
        else:
            [handle] = {b.metadata["pruned"]["ref"] for m in session.prepare().messages for b in m.tool_results}
            arguments = {"working_context_offload_uuid": handle, "offset": 2_000 * way.endswith("on"), "limit": 2_000}

        def read(**arguments):
            use = Msg.model_validate(tool_exchange(reload.name, arguments, "")[0].to_dict())
            session.add(use)
            return session.call_tool(reload.call, arguments, use.tool_uses[0].id, name=reload.name)

        other = read(working_context_offload_uuid=kept.ref)
        assert SECRET in read(**arguments).tool_results[0].text
        session.add([Msg(role="assistant", content="well"), Msg(role="user", content="go on")])
        for _ in range(3):
            session.save()
            session.add([Msg(role="user", content="more"), Msg(role="assistant", content="yes")])
        assert ac.erase("s", [told.id, result.id], user_id="ann") == 2
        assert found(ac, tmp_path) == []
        assert other in ac.session("s", user_id="ann").memory.get_original_memory_msgs()
        assert ac.content.has(kept.ref, namespace="user:ann")
