"""Wrong words and wrong files: one error that names what was meant, and the way out."""

import contextlib
import gzip
import json
import lzma
import re
import shlex
import sqlite3
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autocontext import AutoContextMemory
from autocontext.cli import file_kinds
from tests.cli.terminal import chat, run, write

LINE = json.dumps({"messages": chat(1)}).encode()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["repley", "x"], "autocontext: error: no command 'repley'; did you mean 'replay'?"),
        (["zzz"], "autocontext: error: no command 'zzz'; it has demo, replay, "),
        (["replay", "--windw", "4000", "x"], "autocontext replay: error: no option --windw; did you mean '--window'?"),
        (["show", "a.db", "s", "--usr=ann"], "autocontext show: error: no option --usr; did you mean '--user'?"),
        (["search", "a.db", "42", "lock"], "autocontext search: error: too many arguments: lock; quote one that"),
        (["report", "a.db", "s", "--window", "0"], "autocontext report: error: argument --window: window must be"),
        (["--foo"], "autocontext: error: no option --foo; COMMAND is missing"),
    ],
)
def test_the_nearest_word_is_named(arguments: list[str], problem: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith(problem)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (gzip.compress(LINE), "a gzip file; unpack it first: gunzip -k "),
        (lzma.compress(LINE), "an xz file; unpack it first: unxz -k "),
        (b"PK\x03\x04rest", "a zip file"),
        (b"%PDF-1.7\n", "a PDF"),
        (bytes(range(256)) * 8, "binary data"),
        ('{"messages": []}'.encode("utf-16"), "text in UTF-16; save it as UTF-8"),
        (json.dumps([{"messages": chat(1)}], indent=1).encode(), "one JSON document over several lines"),
        (json.dumps({"messages": chat(1)}, indent="\t").encode(), "one JSON document over several lines"),
        (b"id,text\n1,hello\n2,you\n", "comma-separated values"),
        (b"id\ttext\n1\thello\n", "tab-separated values"),
        (b"<html><body>", "HTML or XML"),
        (b"# A title\n\nand text\n", "plain text"),
    ],
)
def test_a_file_of_another_kind_is_one_error(tmp_path: Path, content: bytes, kind: str) -> None:
    file = write(tmp_path / "chats.jsonl", [content])
    Path(file).write_bytes(content)
    others = [["show", file], ["prune", file], ["bench", "facts", file]] if kind == "plain text" else []
    for command in (["replay", file], *others):
        done = run(*command)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert f"{file}: not JSON lines; it looks like {kind}" in done.err
    done = run("inspect", file)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert f"{file}: not a database of this library; it looks like " in done.err
    assert Path(file).read_bytes() == content


KINDS: dict[str, object] = {
    "one message a line; put each": {"role": "user", "content": "hi"},
    "a Claude Code transcript": {"type": "user", "uuid": "1", "sessionId": "x", "message": {"role": "user"}},
    "a Codex session": {"timestamp": "2026-11-26T09:12:00Z", "type": "response_item", "payload": {}},
    "prompt and completion pairs": {"prompt": "x", "completion": "y"},
    "instruction and output pairs": {"instruction": "x", "input": "", "output": "y"},
    'conversations of "from" and "value"': {"conversations": [{"from": "human", "value": "x"}]},
    "requests of a batch": {"custom_id": "1", "method": "POST", "body": {"messages": chat(1)}},
    'objects without "messages"': {"foo": 1},
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_lines_of_another_kind_are_one_error(tmp_path: Path, kind: str) -> None:
    file = write(tmp_path / "my chats.jsonl", [KINDS[kind]] * 12 + [{"messages": chat(1)}])
    for command in ("replay", "prune", "show"):
        done = run(command, file)
        assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
        assert f"{file}: no conversations; it looks like {kind}" in done.err
    short = write(tmp_path / "short.jsonl", [{"type": "summary"}, KINDS[kind], KINDS[kind]])
    assert f"{short}: no conversations; it looks like {kind}" in run("replay", short).err


@pytest.mark.sampled
@pytest.mark.parametrize("other", [{"messages": chat(1)}, {"messages": "hi"}, [], b"{x", None])
def test_a_few_lines_of_another_kind_are_named_one_by_one(tmp_path: Path, other: object) -> None:
    wrong = [{"foo": n} for n in range(4)]
    lines = wrong[:1] if other is None else [*wrong, other, *wrong]
    file = write(tmp_path / "chats.jsonl", lines)
    done = run("prune", file)
    assert done.code == 1
    named = [line.split(": ")[0] for line in done.err.splitlines()]
    good = isinstance(other, dict) and isinstance(other.get("messages"), list)
    assert named == [f"{file}:{n}" for n in range(1, len(lines) + 1) if not (good and n == 5)]


@pytest.mark.slow
def test_a_database_is_told_from_conversations(tmp_path: Path) -> None:
    file = str(tmp_path / "agent.db")
    with AutoContextMemory.open(file, session_id="42", user_id="ann") as memory:
        memory.add({"role": "user", "content": "hello"})
    for command in ("replay", "prune", "show"):
        assert f"SESSION is missing; `autocontext inspect {file}` lists the sessions" in run(command, file).err
    assert run("inspect", file).code == 0
    assert f"a SQLite database; `autocontext inspect {file}` lists its sessions" in run("bench", "facts", file).err


@given(st.lists(st.sampled_from([LINE, b"[]", b"{", b"[1", b"", b"x", b'{"a": 1}']), max_size=6))
@example([b"x", LINE])
def test_json_lines_are_json_lines_even_with_broken_ones(lines: list[bytes]) -> None:
    if any(line[:1] in (b"{", b"[") for line in lines) or not any(lines):
        assert file_kinds.not_json_lines(b"\n".join(lines)) == ""
    else:
        assert file_kinds.not_json_lines(b"\n".join(lines)) == "plain text"


@given(st.binary(max_size=200))
def test_any_head_has_an_answer(head: bytes) -> None:
    assert "FILE" not in file_kinds.not_json_lines(head).replace(" FILE", "")
    assert bool(file_kinds.not_a_database(head)) == (head != b"" and not head.startswith(b"SQLite format 3\0"))


@pytest.mark.slow
def test_a_wrong_database_is_not_made_one(tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    for command, problem in (
        (["inspect", str(empty)], "empty.db: an empty file, not a database"),
        (["stats", str(tmp_path)], ": a directory; give the database file in it"),
        (["copy", str(empty), str(empty)], "TO is DB itself"),
    ):
        done = run(*command)
        assert (done.code, problem in done.err, empty.read_bytes()) == (2, True, b""), command


@pytest.mark.slow
def test_what_a_refusal_advises_works(tmp_path: Path) -> None:
    """In a folder whose name a shell would take apart: each command that an error names is run as it stands."""
    folder = tmp_path / "two words"
    folder.mkdir()
    database, exported, chats = (str(folder / name) for name in ("agent.db", "42.jsonl", "chats.jsonl"))
    with AutoContextMemory.open(database, session_id="42") as memory:
        memory.add([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hi."}])
    assert run("export", database, "42", "-o", exported).code == 0
    assert run("export", database, "42", "--openai", "-o", chats).code == 0
    (folder / "pretty.json").write_text('{\n  "messages": []\n}\n')
    for refused in (["inspect", chats], ["inspect", exported], ["replay", exported], ["replay", database]):
        done = run(*refused)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        [advised] = re.findall(r"`autocontext (.+)`", done.err)
        words = [{"agent.db": database, "SESSION": f"new {len(refused[1])}"}.get(w, w) for w in shlex.split(advised)]
        words[-1] += f" of {refused[0]}" if words[0] == "import" else ""
        assert run(*words).code == 0, (refused, words)
    assert "`" not in run("inspect", str(folder / "pretty.json")).err


@pytest.mark.slow
def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    file, chats = tmp_path / "shop.db", write(tmp_path / "chats.jsonl", [LINE])
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE customers (name TEXT)")
    before = file.read_bytes()
    for command in (
        ["inspect", str(file)],
        ["show", str(file), "42"],
        ["replay", str(file), "42"],
        ["import", str(file), chats, "42", "--openai"],
        ["copy", str(file), str(tmp_path / "to.db")],
    ):
        done = run(*command)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert (
            "shop.db: a database of another program (with the tables customers); give one of this library" in done.err
        )
    assert file.read_bytes() == before
    assert not (tmp_path / "to.db").exists()


@pytest.mark.slow
def test_what_is_no_export_is_refused_with_the_reason(tmp_path: Path) -> None:
    for content, problem in (
        (b"", "it has no entries"),
        (b"SQLite format 3\0\xfb", "it is not UTF-8"),
        (LINE, ":1: not a line of an exported session: `autocontext import --openai` reads OpenAI chat messages"),
        (b'{"type": "chat"}', "entry: 'type' must be one of 'added', "),
    ):
        file = tmp_path / "exported.jsonl"
        file.write_bytes(content)
        done = run("import", str(tmp_path / "agent.db"), str(file), "42")
        assert (done.code, problem in done.err) == (2, True), done.err


@pytest.mark.slow
def test_debug_may_stand_before_the_command(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.db")
    for arguments in (("--debug", "inspect", missing), ("inspect", missing, "--debug")):
        assert "Traceback (most recent call last):" in run(*arguments).err


@pytest.mark.slow
def test_every_command_names_the_other_users(tmp_path: Path) -> None:
    file = str(tmp_path / "agent.db")
    for user in ("ann", "bob"):
        with AutoContextMemory.open(file, session_id="42", user_id=user) as memory:
            memory.add({"role": "user", "content": "hello"})
    to = str(tmp_path / "to.db")
    for command in (
        ["inspect", file, "42"], ["show", file, "42"], ["report", file, "42"], ["export", file, "42"],
        ["purge", file, "42", "--yes"], ["reload", file, "m1", "--session", "42"], ["reload", file, "c_000000000000"],
        ["undo", file, "5f3c"], ["copy", file, to, "--user", "cat"], ["inspect", file, "--user", "cat"],
        ["search", file, "hello"],
    ):  # fmt: skip
        done = run(*command)
        assert done.code == (1 if command[0] == "search" else 2), command
        assert "; --user can be 'ann', 'bob'" in " ".join((done.err + done.out).split()), command
