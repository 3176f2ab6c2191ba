"""`show`: the context as text, of a stored session and of a conversation in a file."""

import json
from pathlib import Path

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.adapters.openai_chat import from_openai
from autocontext.cli.show import before_last_reply, shortened
from autocontext.messages import is_note
from autocontext.stores import SqliteSessionStore
from autocontext.testing import assistant, conversation, tool_exchange, user
from autocontext.text.rendering import transcript
from tests.cli.terminal import chat, on_terminal, run, without_escapes, write

USER = ("--user", "ann")
WINDOW = 2_000


@pytest.fixture(scope="module")
def stored_db(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a session that was compressed, and a large result that is in view."""
    path = str(tmp_path_factory.mktemp("db") / "agent.db")
    store = SqliteSessionStore(path)
    memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW), store=store, session_id="long", user_id="ann")
    memory.add_messages([*conversation(rounds=8, chars=900), user("Now \x1b[31mthe log.")])
    memory.get_messages()
    lines = "\n".join(f"line {n} of the log" for n in range(100))
    memory.add_messages(tool_exchange("read_log", {"path": "a.log", "pages": [1, 2]}, lines))
    store.close()
    return path


def in_view(db: str) -> list[Msg]:
    store = SqliteSessionStore(db)
    messages = AutoContextMemory(store=store, session_id="long", user_id="ann").messages
    store.close()
    return messages


def rows(out: str) -> list[str]:
    """The lines as they are compared: ends of lines apart."""
    return [line.rstrip() for line in out.splitlines()]


def titles(out: str) -> list[str]:
    return [line.strip("─ ") for line in out.splitlines() if line.startswith("── ")]


@pytest.mark.slow
def test_one_line_for_each_message(stored_db: str) -> None:
    done = run("show", stored_db, "long", *USER)
    assert (done.code, done.err) == (0, "")
    view = in_view(stored_db)
    lines = done.out.splitlines()[-len(view) :]
    assert all(m.role in line.split()[:2] for line, m in zip(lines, view, strict=True))
    # A note has no number; what is in short has the one of its original.
    assert {line[:6].isspace() for line, m in zip(lines, view, strict=True) if is_note(m)} == {True}
    assert not any(line[:6].isspace() for line, m in zip(lines, view, strict=True) if m.origin is None)


def test_context_is_every_message_in_order_with_calls_and_arguments(stored_db: str) -> None:
    done = run("show", stored_db, "long", "--context", "--full", *USER)
    assert (done.code, done.err) == (0, "")
    expected = [
        line.rstrip().replace("\x1b", "?")
        for m in in_view(stored_db)
        for line in transcript(m).removeprefix(f"[{m.role}] ").splitlines()
    ]
    left = iter(rows(done.out))
    assert [line for line in expected if line not in left] == []  # all of them, in this order
    assert '{"path": "a.log", "pages": [1, 2]}' in done.out
    assert [title.split()[0].rstrip(",") for title in titles(done.out)[1:]] == [m.role for m in in_view(stored_db)]


@pytest.mark.slow
def test_titles_name_the_numbers_under_which_messages_are_reloaded(stored_db: str) -> None:
    done = run("show", stored_db, "long", "--context", *USER)
    note = next(m for m in in_view(stored_db) if is_note(m))
    store = SqliteSessionStore(stored_db)
    memory = AutoContextMemory(store=store, session_id="long", user_id="ann")
    for title in titles(done.out)[1:]:
        number = title.split(",")[0].split()[-1] if " of m" not in title else ""
        if number:
            own = memory.get_original_memory_msgs()[int(number[1:]) - 1]
            assert transcript(own).removeprefix(f"[{own.role}] ").splitlines()[0][:40].replace("\x1b", "?") in done.out
    (span,) = [title.split("note of ")[1].split(", ")[0] for title in titles(done.out) if "note of" in title]
    assert note.origin is not None
    assert memory.reload(span) == memory.reload(note.origin.uuid)
    store.close()


@pytest.mark.slow
def test_long_messages_are_cut_and_notes_are_not(stored_db: str) -> None:
    done = run("show", stored_db, "long", "--context", *USER)
    assert "line 0 of the log" in done.out
    assert "line 99 of the log" in done.out
    assert "line 50 of the log" not in done.out
    assert "--full shows them" in done.out
    note = next(m for m in in_view(stored_db) if is_note(m))
    assert all(line.rstrip() in rows(done.out) for line in note.text.splitlines())


@pytest.mark.slow
def test_a_foreign_text_cannot_steer_the_terminal(stored_db: str) -> None:
    assert "\x1b" not in run("show", stored_db, "long", "--context", *USER).out
    output = on_terminal("show", stored_db, "long", "--context", *USER).out
    assert "Now ?[31mthe log." in without_escapes(output)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("long", "--user", "bob"), "user 'bob' has no session 'long'; --user can be 'ann'"),
        (("lang", *USER), "user 'ann' has no session 'lang'; its sessions: 'long'"),
        (USER, "SESSION is missing"),
        (("long", *USER, "--id", "x"), "--id selects a conversation in a file"),
    ],
)
def test_what_is_missing_is_reported(stored_db: str, arguments: tuple[str, ...], message: str) -> None:
    done = run("show", stored_db, *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert run("show", "no.db", "long").err == "autocontext show: no.db: no such database file\n"


@pytest.mark.slow
def test_a_conversation_is_replayed_up_to_its_last_reply(tmp_path: Path) -> None:
    messages = chat()
    file = write(
        tmp_path / "chats.jsonl", [{"id": "first", "messages": chat(2)}, {"id": "second", "messages": messages}]
    )
    done = run("show", file, "--window", str(WINDOW), "--id", "second", "--full")
    assert (done.code, done.err) == (0, "")
    memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW))
    expected = before_last_reply(memory, from_openai(messages))
    last = max(i for i, m in enumerate(messages) if m["role"] == "assistant")
    assert len(memory.get_original_memory_msgs()) == last
    assert memory.token_count <= WINDOW
    shown = len(titles(done.out)) - 1
    assert f"{shown} messages in view of {last}, " in done.out
    assert abs(shown - len(expected)) <= 2  # drawn ids take a few tokens more or less
    assert transcript(expected[-1]).splitlines()[0] in done.out
    assert "second, window 2,000" in done.out


@pytest.mark.slow
def test_the_first_conversation_unless_one_is_named(tmp_path: Path) -> None:
    file = write(
        tmp_path / "chats.jsonl", [{"id": "first", "messages": chat(2)}, {"id": "second", "messages": chat(3)}]
    )
    assert titles(run("show", file).out)[0] == "first, window 16,000"
    assert titles(run("show", "-", stdin=json.dumps(chat(2)).encode()).out)[0] == "line 1, window 16,000"
    done = run("show", file, "--id", "third")
    assert (done.code, done.out) == (2, "")
    assert (
        done.err == f"autocontext show: {file}: no conversation has the id 'third'; choose one of 'first', 'second'\n"
    )
    assert run("show", file, "session").err.endswith("is a file of conversations; select one with --id\n")


@pytest.mark.slow
def test_broken_lines_are_named_and_the_exit_code_says_so(tmp_path: Path) -> None:
    file = write(tmp_path / "chats.jsonl", [b"{", chat(2)])
    done = run("show", file)
    assert done.code == 1
    assert done.err.startswith(f"{file}:1: not JSON")
    assert titles(done.out)[0].startswith("line 2")
    empty = run("show", write(tmp_path / "empty.jsonl", []))
    assert (empty.code, empty.err.endswith("contains no conversation\n")) == (2, True)


def test_without_a_reply_the_whole_conversation_is_shown() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW))
    assert before_last_reply(memory, [user("Hello?"), user("Anybody?")]) == memory.get_original_memory_msgs()
    assert len(before_last_reply(AutoContextMemory(), [user("Hi."), assistant("Hi."), user("And?")])) == 1


@pytest.mark.parametrize("text", ["", "short", "x" * 50_000, "\n" * 5_000, "word " * 20_000])
def test_shortened_texts_are_short(text: str) -> None:
    cut = shortened(text)
    assert len(cut) <= 2_500
    assert cut.count("\n") <= 50
    assert cut == text or len(cut) < len(text)
