"""Commands on a database: what they show, what they change, and how they refuse."""

import json
import math
import re
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest

from autocontext import AutoContext, AutoContextConfig, AutoContextMemory, Msg
from autocontext.formats.openai_chat import to_openai
from autocontext.stores import SessionKey, SqliteSessionStore
from autocontext.testing import conversation, tool_exchange
from tests.cli.terminal import HEARS_SIGINT, chat, command, environment, on_terminal, run, without_escapes, write
from tests.stores.homes import own_schema

USER = ("--user", "ann")
IMPATIENT = "from autocontext.stores import SqliteDatabase; SqliteDatabase.__init__.__kwdefaults__['patience'] = 1; "


@pytest.fixture(scope="module")
def stored_db(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a compressed session of one user and a short one of another."""
    path = str(tmp_path_factory.mktemp("db") / "agent.db")
    store = SqliteSessionStore(path)
    memory = AutoContextMemory(
        AutoContextConfig(msg_threshold=10, last_keep=2), store=store, session_id="long", user_id="ann"
    )
    for msg in conversation(rounds=8, chars=900):
        memory.add_message(msg)
    assert memory.compress_if_needed(force=True)
    time.sleep(0.01)  # sessions are listed by the millisecond of their last entry
    other = AutoContextMemory(store=store, session_id="short", user_id="bob")
    other.add_message(Msg(role="user", content="The password of the staging server is swordfish."))
    store.close()
    return path


@pytest.fixture
def db(stored_db: str, tmp_path: Path) -> str:
    """A copy that a test may change."""
    copy = tmp_path / "copy.db"
    copy.write_bytes(Path(stored_db).read_bytes())
    return str(copy)


def memory_in(db: str, session: str = "long", user: str = "ann") -> AutoContextMemory:
    store = SqliteSessionStore(db)
    memory = AutoContextMemory(store=store, session_id=session, user_id=user)
    store.close()
    return memory


def uuid_in(db: str) -> str:
    return next(m.origin.uuid for m in memory_in(db).messages if m.origin is not None)


@pytest.mark.slow
def test_inspect_lists_sessions(stored_db: str) -> None:
    done = run("inspect", stored_db)
    assert (done.code, done.err) == (0, "")
    assert [line.split()[:2] for line in done.out.splitlines()[1:]] == [["short", "bob"], ["long", "ann"]]


@pytest.mark.slow
def test_inspect_shows_each_message_and_each_compression(stored_db: str) -> None:
    memory = memory_in(stored_db)
    done = run("inspect", stored_db, "long", *USER)
    assert (done.code, done.err) == (0, "")
    assert f"{len(memory.messages)} messages in view of {len(memory.get_original_memory_msgs())}" in done.out
    assert f"{memory.token_count:,} tokens" in done.out
    numbers = {m.id: f"m{n}" for n, m in enumerate(memory.get_original_memory_msgs(), 1)}
    shown = done.out.partition("what the model sees")[2].splitlines()[1:]
    assert len(shown) > len(memory.messages)
    for msg, line in zip(memory.messages, shown, strict=False):
        assert msg.role in line.split()[:2]
        assert msg.origin is not None or line.split()[0] == numbers[msg.id]
    times = re.findall(r" \d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", done.out)
    assert len(times) == len(memory.get_compression_events()) > 0
    for uuid in {m.origin.uuid for m in memory.messages if m.origin is not None}:
        assert uuid[:8] in done.out


@pytest.mark.slow
def test_inspect_gives_messages_in_short_their_number(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    with AutoContextMemory.open(path, session_id="42", window=4_000) as memory:
        memory.add_messages(conversation(rounds=1, tools_per_round=5, chars=5_000)[:-1])
        memory.get_messages()
        originals = memory.get_original_memory_msgs()
        kinds = {m.origin.kind for m in memory.messages if m.origin is not None}
    assert kinds >= {"stub"}
    shown = run("inspect", path, "42").out.partition("what the model sees")[2].splitlines()[1:]
    for msg, line in zip(memory.messages, shown, strict=False):
        number = next((f"m{n}" for n, m in enumerate(originals, 1) if m.id == msg.id), None)
        if msg.origin is not None:
            behind = memory.reload(msg.origin.uuid)
            number = f"m{originals.index(behind[0]) + 1}" if msg.origin.kind == "stub" else None
        assert line.split()[: 2 if number else 1] == [*filter(None, [number]), msg.role]


@pytest.mark.slow
def test_inspect_says_what_the_agent_repeats_after_a_pass(db: str) -> None:
    assert (
        "after a pass" not in run("inspect", db, "long", *USER).out + run("inspect", db, "short", "--user", "bob").out
    )
    store = SqliteSessionStore(db)
    memory = AutoContextMemory(store=store, session_id="long", user_id="ann")
    call = next(use for m in memory.get_original_memory_msgs() for use in m.tool_uses)
    memory.add_messages([m for _ in range(2) for m in tool_exchange(call.name, call.input, "again")])
    store.close()
    out = " ".join(run("inspect", db, "long", *USER).out.split())
    assert "2 of 2 calls within ten after a pass repeat an earlier one; 0 of 10 before." in out


@pytest.mark.slow
def test_inspect_full_shows_whole_messages(stored_db: str) -> None:
    done = run("inspect", stored_db, "long", "--full", *USER)
    for text in (b.text for m in memory_in(stored_db).messages for b in m.content if b.type == "text"):
        for line in text.splitlines():
            assert line in done.out


@pytest.mark.slow
def test_inspect_diff_shows_what_gave_way_to_what(stored_db: str) -> None:
    uuid = uuid_in(stored_db)
    done = run("inspect", stored_db, "long", "--diff", uuid[:8], *USER)
    assert (done.code, done.err) == (0, "")
    gone = [line for line in done.out.splitlines() if line.startswith("-") and not line.startswith("---")]
    come = [line for line in done.out.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert gone
    assert come
    assert not {line[1:] for line in gone} & {line[1:] for line in come}
    assert uuid in done.out


@pytest.mark.slow
def test_inspect_watch_shows_what_is_added_meanwhile(db: str) -> None:
    with subprocess.Popen(
        command("inspect", db, "long", "--watch", *USER, prelude=HEARS_SIGINT),
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        out = ""
        while "what was compressed" not in out:
            line = process.stdout.readline()
            assert line, f"it ended after {out}"
            out += line
        store = SqliteSessionStore(db)
        memory = AutoContextMemory(store=store, session_id="long", user_id="ann")
        memory.add_message(Msg(role="user", content="a question nobody has asked before"))
        store.close()
        while "a question nobody has asked before" not in out:
            line = process.stdout.readline()
            assert line, f"it ended after {out}"
            out += line
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert err == "interrupted\n"


@pytest.mark.slow
def test_reload_gives_the_originals(stored_db: str) -> None:
    uuid = uuid_in(stored_db)
    originals = memory_in(stored_db).reload(uuid)
    whole = run("reload", stored_db, uuid, *USER)
    assert (whole.code, whole.err) == (0, "")
    for msg in originals:
        assert msg.text in whole.out
    lines = run("reload", stored_db, uuid[:8], "--json", *USER).out.splitlines()
    assert [Msg.model_validate_json(line) for line in lines] == originals
    word = next(m.text for m in originals if m.text).split()[0]
    found = run("reload", stored_db, uuid, "--query", word, "--session", "long", *USER)
    assert f"passages for {word!r}" in found.out


@pytest.mark.slow
def test_any_text_and_number_is_printed_as_json_and_found(tmp_path: Path) -> None:
    db, file = str(tmp_path / "agent.db"), tmp_path / "42.jsonl"
    with AutoContextMemory.open(db, session_id="42") as memory:
        memory.add_message(Msg(role="user", content="端口 cut in the middle \ud83d", metadata={"\udc00": "\ud83d x"}))
        memory.add_message(Msg(role="user", content="ok", metadata={"score": math.nan, "of": math.inf}))
        memory.offload("mine", Msg(role="user", content="an offloaded pineapple"))
        said = memory.messages
    done = run("reload", db, "m1-m2", "--session", "42", "--json")
    assert (done.code, done.err) == (0, "")
    assert [repr(Msg.model_validate(json.loads(line))) for line in done.out.splitlines()] == [*map(repr, said)]
    assert run("search", db, "pineapple").out == "42 an offloaded pineapple\n"
    assert run("search", db, "middle").out.startswith("42 m1 端口")
    for way in ([], ["-o", str(file)]):
        done = run("export", db, "42", "--openai", *way)
        assert (done.code, done.err) == (0, "")
        exported = json.loads(file.read_text(encoding="utf-8") if way else done.out)
        assert [m["content"] for m in exported["messages"]] == [m.text for m in said]
    assert run("import", db, str(file), "again", "--openai").code == 0


@pytest.mark.slow
def test_reload_takes_numbers_within_a_session(stored_db: str) -> None:
    originals = memory_in(stored_db).numbered("m2-m4")
    lines = run("reload", stored_db, "m2-m4", "--json", "--session", "long", *USER).out.splitlines()
    assert [Msg.model_validate_json(line) for line in lines] == list(originals.values())
    assert run("reload", stored_db, "m2", "--session", "long", *USER).out.startswith("[m2")
    for arguments, told in (
        (("reload", stored_db, "m2", *USER), "nothing is stored under 'm2'"),
        (("reload", stored_db, "m99999", "--session", "long", *USER), "nothing is stored under 'm99999'"),
        (("undo", stored_db, "m2", "--session", "long", *USER), "m2: not a compression"),
    ):
        done = run(*arguments)
        assert (done.code, done.out) == (2, "")
        assert told in done.err


@pytest.mark.slow
def test_a_users_uuid_is_nothing_to_another(stored_db: str) -> None:
    done = run("reload", stored_db, uuid_in(stored_db), "--user", "bob")
    assert (done.code, done.out) == (2, "")
    assert "nothing is stored under" in done.err
    assert "in any session of user 'bob'" in done.err


@pytest.mark.slow
def test_search_finds_messages_of_one_user_only(stored_db: str) -> None:
    done = run("search", stored_db, "swordfish", "--user", "bob")
    assert done.code == 0
    assert done.out.startswith("short m1 The password")
    other = run("search", stored_db, "swordfish", *USER)
    assert other.code == 1
    assert "No message of user 'ann' matches" in other.out


@pytest.mark.slow
def test_undo_puts_the_originals_back(db: str) -> None:
    uuid = uuid_in(db)
    before = memory_in(db)
    done = run("undo", db, uuid, *USER)
    assert (done.code, done.err) == (0, "")
    after = memory_in(db)
    assert f"{len(before.messages)} messages in view became {len(after.messages)}" in done.out
    assert all(m.origin is None or m.origin.uuid != uuid for m in after.messages)
    again = run("undo", db, uuid, *USER)
    assert again.code == 2
    assert "its note is no longer in view" in again.err


@pytest.mark.slow
def test_undo_of_what_a_later_pass_replaced_names_that_one(tmp_path: Path) -> None:
    db = str(tmp_path / "agent.db")
    with AutoContextMemory.open(db, session_id="42", window="2k") as memory:
        for msg in conversation(rounds=24, chars=900):
            memory.add_message(msg)
            memory.get_messages()
        replaced = next(uuid for uuid in memory.get_offload_context() if memory.replaced_by(uuid))
        later = memory.replaced_by(replaced)
    done = run("undo", db, replaced)
    assert (done.code, done.out) == (2, "")
    assert f"its note is no longer in view; first undo {later}, which replaced it" in done.err
    assert run("undo", db, later).code == 0


@pytest.mark.slow
def test_replay_prune_and_show_take_a_stored_session(db: str, tmp_path: Path) -> None:
    """They say the same of a session as of its export."""
    file = str(tmp_path / "chat.jsonl")
    assert run("export", db, "long", "--openai", "-o", file, *USER).code == 0
    before = memory_in(db).state_dict()
    for name, *options in (["replay", "--window", "2000"], ["prune"]):
        stored_, exported = run(name, db, "long", *USER, *options), run(name, file, *options)
        assert (stored_.code, stored_.err) == (exported.code, exported.err) == (0, "")
        rows = [
            [line.split() for line in done.out.splitlines() if line.startswith(("long ", "1 in all"))]
            for done in (stored_, exported)
        ]
        assert len(rows[0]) == 2
        for cells in zip(*map(chain.from_iterable, rows), strict=True):
            shares = [float(cell.removesuffix("%")) for cell in cells if cell.endswith("%")]
            # Tokens of UUIDs differ a little from run to run, and one share may be rounded up, the other down.
            assert abs(shares[0] - shares[1]) <= 1 if len(shares) == 2 else len({*cells}) == 1
        assert "its sessions: 'long'" in run(name, db, "lang", *USER).err
        assert "a file of conversations has no sessions; leave long out" in run(name, file, "long").err
    shown = run("show", db, "long", *USER)
    assert (shown.code, shown.err) == (0, "")
    assert memory_in(db).state_dict() == before


@pytest.mark.slow
def test_export_and_import_are_a_round_trip(db: str, tmp_path: Path) -> None:
    file = str(tmp_path / "long.jsonl")
    assert run("export", db, "long", "-o", file, *USER).code == 0
    assert run("export", db, "long", *USER).out == Path(file).read_text()
    other = str(tmp_path / "other.db")
    assert run("import", other, file, "again", "--user", "eve").code == 0
    assert memory_in(other, "again", "eve").state_dict() == memory_in(db).state_dict()
    second = run("import", other, file, "again", "--user", "eve")
    assert second.code == 2
    assert "exists already" in second.err


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_programs_read_is_utf_8_whatever_the_locale(encoding: str, tmp_path: Path) -> None:
    db = str(tmp_path / "agent.db")
    with AutoContextMemory.open(db, session_id="42", window="4k") as memory:
        memory.add({"role": "user", "content": "The café in München is open 🎉"})
    there = {"PYTHONUTF8": "0", "PYTHONIOENCODING": encoding}
    exported = run("export", db, "42", **there).out
    other = str(tmp_path / "other.db")
    assert run("import", other, "-", "42", stdin=exported.encode(), **there).code == 0
    assert run("reload", other, "m1", "--session", "42", "--json").out.count("München is open 🎉") == 1
    for read in (["reload", db, "m1", "--session", "42", "--json"], ["export", db, "42", "--openai"]):
        assert "München is open 🎉" in json.dumps(json.loads(run(*read, **there).out), ensure_ascii=False)


@pytest.mark.slow
def test_openai_messages_go_out_and_come_back(db: str, tmp_path: Path) -> None:
    file, other = str(tmp_path / "chat.jsonl"), str(tmp_path / "other.db")
    done = run("export", db, "long", "--openai", "-o", file, *USER)
    assert (done.code, done.err) == (0, "")
    assert run("export", db, "long", "--openai", *USER).out == Path(file).read_text()
    record = json.loads(Path(file).read_text())
    assert record == {"id": "long", "messages": to_openai(memory_in(db).get_original_memory_msgs())}
    assert (
        f"{len(record['messages'])} messages read into session again"
        in run("import", other, file, "again", "--openai").out
    )
    assert to_openai(memory_in(other, "again", "").get_original_memory_msgs()) == record["messages"]
    assert run("replay", file, "--window", "2000").code == 0
    second = run("import", other, file, "again", "--openai")
    assert second.code == 2
    assert "exists already" in second.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 conversations"),
        ('[{"role": "user", "content": "a"}]\n[{"role": "user", "content": "b"}]\n', "2 conversations"),
        ('{"id": "x"}\n', ":1: "),
        ("hello\n", "not JSON"),
    ],
)
def test_what_is_no_conversation_is_not_imported(text: str, said: str, db: str, tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text(text)
    done = run("import", db, str(file), "again", "--openai")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    store = SqliteSessionStore(db)
    assert store.read(SessionKey("", "again")) == []
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        '[{"role": "user", "content": "a"}]\n',
        '{"messages": [{"role": "user", "content": "a"}]}\n',
        '{"role": "user", "content": "a"}\n{"role": "assistant", "content": "b"}\n',
        '[\n  {"role": "user", "content": "a"}\n]\n',
    ],
)
def test_messages_in_place_of_an_export_name_the_way_out(text: str, tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text(text)
    done = run("import", str(tmp_path / "new.db"), str(file), "again")
    assert (done.code, done.out) == (2, "")
    assert "`autocontext import --openai` reads" in done.err
    assert len(done.err.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == [file]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["import"], ["import", "--openai"], ["import-java"]])
def test_an_import_that_fails_leaves_no_database(arguments: list[str], tmp_path: Path) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_text('{"id": "x"}\n')
    done = run(arguments[0], str(tmp_path / "new.db"), str(file), "again", *arguments[1:])
    assert (done.code, done.out) == (2, "")
    assert sorted(tmp_path.iterdir()) == [file]


@pytest.mark.slow
def test_a_damaged_line_is_named_and_nothing_is_imported(db: str, tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    run("export", db, "long", "-o", str(file), *USER)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], lines[2][:-9], *lines[3:]]))
    done = run("import", db, str(file), "again")
    assert (done.code, done.out) == (2, "")
    assert f"{file}:3: " in done.err
    assert len(done.err.splitlines()) == 1
    store = SqliteSessionStore(db)
    assert store.read(SessionKey("", "again")) == []
    store.close()


@pytest.mark.slow
def test_copy_moves_all_sessions_to_postgresql(stored_db: str) -> None:
    with own_schema() as url:
        done = run("copy", stored_db, url)
        assert (done.code, done.err) == (0, "")
        listed = run("inspect", url).out
        assert "long" in listed
        assert "short" in listed
        assert run("inspect", url, "long", *USER).out == run("inspect", stored_db, "long", *USER).out


@pytest.mark.slow
def test_copy_from_postgresql_can_be_run_again_and_tells_no_password(stored_db: str, tmp_path: Path) -> None:
    with own_schema() as plain:
        url = plain.replace("postgres@", "postgres:hunter2@")
        assert url != plain
        file = str(tmp_path / "agent.db")
        for command, code, told in (
            (("copy", stored_db, url), 0, " sessions are in postgresql://postgres:***@"),
            (("copy", url, file), 0, " sessions are in "),
            (("copy", url, file), 0, " sessions are in "),
            (("copy", file, url), 0, " sessions are in "),
            (("copy", url, url.replace("postgresql:", "postgres:")), 2, "TO is DB itself"),
            (("copy", url, str(tmp_path)), 2, "a directory"),
            (("copy", str(tmp_path / "no.db"), url), 2, "no such database file"),
            (("copy", str(tmp_path / "no.db"), file), 2, "no such database file"),
            (("show", url), 2, "`autocontext inspect DB` lists the sessions"),
        ):
            done = run(*command)
            assert (done.code, told in done.out + done.err) == (code, True), (command, done)
            assert "hunter2" not in done.out + done.err


@pytest.mark.slow
def test_copy_takes_along_what_messages_lead_to(tmp_path: Path) -> None:
    file, to, of_ann = (str(tmp_path / name) for name in ("agent.db", "copy.db", "ann.db"))
    with AutoContext.open(file) as context:
        session = context.session("42", user_id="ann")
        session.add(Msg(role="user", content="hello"))
        session.save()
        context.memories.add("likes tea", user_id="ann")
        context.cache_of("ann").set("answer", 42)
        ref = context.content.put("a page\n" * 900, namespace=context.namespace("ann")).ref
    assert run("copy", file, to).code == run("copy", file, to).code == 0
    with AutoContext.open(to) as context:
        assert context.session("42", user_id="ann").state().messages[0].text == "hello"
        assert [memory.content for memory in context.memories.all(user_id="ann")] == ["likes tea"]
        assert context.cache_of("ann").get("answer") == 42
    assert run("reload", to, ref, *USER).out.startswith("a page\n")
    assert run("copy", file, of_ann, *USER).out.startswith("1 session is in ")
    assert "nothing is stored" in run("reload", of_ann, ref, *USER).err


@pytest.mark.slow
def test_purge_asks_first(db: str) -> None:
    refused = run("purge", db, "long", *USER)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert run("purge", db, "long", "--yes", *USER).out == "session ann/long deleted\n"
    assert "has no session 'long'" in run("inspect", db, "long", *USER).err
    assert run("purge", db).out == "0 expired sessions deleted\n"


@pytest.mark.slow
def test_purge_beside_a_reader_says_what_is_left_and_how_to_remove_it(db: str) -> None:
    with closing(sqlite3.connect(db)) as server, closing(sqlite3.connect(db)) as reader:
        server.execute("SELECT count(*) FROM autocontext_entries")  # keeps the write-ahead file
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM autocontext_entries").fetchone()
        done = run("purge", db, "short", "--yes", "--user", "bob", prelude=IMPATIENT)
        assert (done.code, done.out) == (1, "")
        assert "session bob/short deleted, but" in done.err
        assert "run `autocontext purge`" in done.err
        assert "has no session" in run("inspect", db, "short", "--user", "bob").err
        again = run("purge", db, prelude=IMPATIENT)
        assert (again.code, again.out) == (1, "0 expired sessions deleted\n")
        assert "run `autocontext purge`" in again.err
        reader.rollback()
        assert run("purge", db).code == 0
        assert not any(b"swordfish" in file.read_bytes() for file in Path(db).parent.glob("copy.db*"))


@pytest.mark.slow
def test_purge_beside_a_reader_deletes_sub_agents_sessions_and_the_session(db: str) -> None:
    with closing(SqliteSessionStore(db)) as store:
        memory = AutoContextMemory(store=store, session_id="long", user_id="ann")
        memory.child("reader").add_message(Msg(role="user", content="deep"))
    with closing(sqlite3.connect(db)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM autocontext_entries").fetchone()
        done = run("purge", db, "long", "--yes", *USER, prelude=IMPATIENT)
        assert "session ann/long deleted, and 1 sub-agents' sessions, but" in done.err
    with closing(SqliteSessionStore(db)) as store:
        assert [info.user_id for info in store.sessions()] == ["bob"]


@pytest.mark.slow
def test_purge_takes_sub_agents_along_and_says_so(db: str) -> None:
    with closing(SqliteSessionStore(db)) as store:
        memory = AutoContextMemory(store=store, session_id="long", user_id="ann")
        memory.child("researcher").child("reader").add_message(Msg(role="user", content="deep"))
        memory.child("reviewer").add_message(Msg(role="user", content="hello"))
    assert "[user] deep" in run("reload", db, "researcher/reader/m1", "--session", "long", *USER).out
    assert run("purge", db, "long", "--yes", *USER).out == "session ann/long deleted, and 2 sub-agents' sessions\n"
    with closing(SqliteSessionStore(db)) as store:
        assert [info.user_id for info in store.sessions()] == ["bob"]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["inspect", "DB", "--diff", "5f3c09e1"], "SESSION is missing"),
        (["inspect", "DB", "--watch"], "SESSION is missing"),
        (["inspect", "DB", "--full"], "SESSION is missing"),
        (["reload", "DB", "m1", "--session", "long", *USER, "--json", "--query", "x"], "leave one out"),
        (["reload", "DB", "c_9f3a12be7d41", *USER, "--json"], "leave them out"),
        (["reload", "DB", "c_9f3a12be7d41", *USER, "--query", "x"], "leave them out"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(arguments: list[str], said: str, stored_db: str) -> None:
    done = run(*(stored_db if word == "DB" else word for word in arguments))
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.slow
def test_a_closed_pipe_is_not_a_search_without_hits(tmp_path: Path) -> None:
    db = str(tmp_path / "agent.db")
    with AutoContextMemory.open(db, session_id="42") as memory:
        memory.add_messages(Msg(role="user", content=f"disk {n} {'is full ' * 40}") for n in range(400))
    with subprocess.Popen(
        command("search", db, "disk", "--limit", "400"), env=environment(), stdout=subprocess.PIPE
    ) as search:
        assert search.stdout is not None
        search.stdout.readline()
        search.stdout.close()
        assert search.wait(60) == 141


@pytest.mark.slow
def test_stats_count_everything(stored_db: str) -> None:
    rows = dict(line.rsplit(maxsplit=1) for line in run("stats", stored_db).out.splitlines())
    assert rows["users"] == rows["sessions"] == "2"
    assert int(rows["bytes of the file"].replace(",", "")) == Path(stored_db).stat().st_size


@pytest.mark.slow
def test_prune_compares_conversations(tmp_path: Path) -> None:
    file = write(tmp_path / "chats.jsonl", [{"id": "one", "messages": chat(6)}, b"nonsense"])
    done = run("prune", file)
    assert done.code == 1
    assert f"{file}:2: not JSON" in done.err
    cells = next(line for line in done.out.splitlines() if line.startswith("one")).split()
    assert cells[-1] == "yes"
    assert int(cells[3].replace(",", "")) < int(cells[2].replace(",", ""))


@pytest.mark.slow
def test_prune_takes_the_sessions_of_autocontext(tmp_path: Path) -> None:
    """Some of their results are cut already: `call_tool` has put the rest into the content store."""
    path = tmp_path / "agent.db"
    with AutoContext.open(path, config=AutoContextConfig.for_window(16_000)) as ac:
        session = ac.session("42", user_id="ann")
        for n in range(4):
            session.add([Msg(role="user", content="Look."), tool_exchange("read", {"n": n}, "", id=f"c{n}")[0]])
            session.call_tool(lambda n: f"{n}: a line of the log\n" * 2_000, {"n": n}, f"c{n}", name="read")
        session.add(Msg(role="assistant", content="Seen."))
    done = run("prune", str(path), "42", "--user", "ann")
    assert (done.code, done.err) == (0, "")
    cells = done.out.splitlines()[-1].split()
    assert cells[-1] == "yes"
    assert int(cells[-3].replace(",", "")) < int(cells[-4].replace(",", ""))


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 102])
@pytest.mark.parametrize(
    ("tool", "line"), [("read_log", "request handled\n"), ("get_ticket", "[user] the parcel is late\n[m3: 1 file]\n")]
)
def test_prune_and_replay_take_a_session_whose_agent_has_reloaded(
    tool: str, line: str, number: int, tmp_path: Path
) -> None:
    path = str(tmp_path / "agent.db")
    with AutoContextMemory.open(path, session_id="42", window=4_000) as memory:
        [reload] = memory.tools("reload")
        memory.add({"role": "user", "content": "Go through all of them."})
        for n in range(60):
            memory.to_openai()
            memory.add(tool_exchange(tool, {"n": n}, f"{n}: {n * 37 % 100}\n" + line * 80, id=f"c{n}"))
            if 2 * n in (number + 3, number + 4):
                key = {"working_context_offload_uuid": f"m{number}"}
                memory.add(tool_exchange("context_reload", key, reload(**key), id=f"r{n}"))
        memory.add({"role": "assistant", "content": "Done."})
        assert any(
            reloaded in m.tool_results[0].text
            for m in memory.get_original_memory_msgs()
            if m.tool_results
            for reloaded in (f"[m{number - 1}-m{number}: 2 messages", f"[m{number}-m{number + 1}: 2 messages")
        )
    done = run("prune", path, "42")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1].split()[-1] == "yes"
    replayed = run("replay", path, "42", "--window", "4000")
    assert (replayed.code, replayed.err) == (0, "")
    assert "MISSING" not in replayed.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "{tmp}/none.db"], "none.db: no such database file"),
        (["inspect", "{db}", "nowhere"], "user '' has no session 'nowhere' nor any other; --user can be 'ann', 'bob'"),
        (["inspect", "{db}", "nowhere", "--user", "ann"], "has no session 'nowhere'; its sessions: 'long'"),
        (["reload", "{db}", "c_000000000000"], "nothing is stored under 'c_000000000000'"),
        (["inspect", "postgresql://postgres:secret@127.0.0.1:1/x"], "cannot be reached"),
        (["inspect", "mysql://localhost/x"], "is not supported"),
        (["import-java", "{db}", "{tmp}/nowhere"], "nowhere"),
    ],
)
def test_errors_are_one_line(db: str, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run(*(a.format(db=db, tmp=tmp_path) for a in arguments))
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert "secret" not in done.err


def test_a_file_that_is_no_database_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    done = run("inspect", str(path))
    assert done.code == 2
    assert "notes.txt" in done.err
    assert path.read_text() == "not a database " * 100


@pytest.mark.slow
def test_on_a_narrow_terminal_everything_is_there(stored_db: str) -> None:
    done = on_terminal("inspect", stored_db, "long", *USER, columns=50)
    lines = [line.rstrip() for line in without_escapes(done.out).splitlines()]
    assert done.code == 0
    assert [line for line in lines if len(line) > 50] == []
    assert any("what was compressed" in line for line in lines)


@pytest.mark.slow
def test_messages_cannot_steer_the_terminal(tmp_path: Path) -> None:
    db = str(tmp_path / "a.db")
    store = SqliteSessionStore(db)
    AutoContextMemory(store=store, session_id="s\x1b[31m").add_message(Msg(role="user", content="\x1b[2J\x07gone"))
    store.close()
    assert "\x1b" not in json.dumps(run("inspect", db).out + run("inspect", db, "s\x1b[31m").out)


@pytest.mark.slow
def test_search_by_tool_and_time_names_message_numbers(tmp_path: Path) -> None:
    file = str(tmp_path / "agent.db")
    with AutoContextMemory.open(file, session_id="42") as memory:
        memory.add({"role": "user", "content": "Is there a lock?"})
        memory.add_messages(tool_exchange("read_log", {}, "lock timeout"))
    found = {tuple(line.split()[:2]) for line in run("search", file, "lock").out.splitlines()}
    assert found == {("42", "m3"), ("42", "m1")}
    assert run("search", file, "lock", "--tool", "read_log").out.startswith("42 m3 ")
    assert run("search", file, "lock", "--before", "2020-01-01").code == 1
    assert "after must be" in run("search", file, "lock", "--after", "soon").err
