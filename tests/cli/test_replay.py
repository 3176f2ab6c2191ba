"""Replaying files of one's own: what is read, what is refused, and what is said about it."""

import json
import re
from pathlib import Path

import pytest

from autocontext.adapters.openai_chat import from_openai
from autocontext.tokens import get_counter
from tests.cli.terminal import chat, run, write

GOOD = {"id": "good", "messages": chat(3)}


def row(out: str, title: str) -> list[str]:
    """The cells of a conversation's row."""
    (line,) = [line for line in out.splitlines() if line.startswith(f"{title} ")]
    return line[len(title) :].split()


@pytest.mark.slow
def test_one_row_per_conversation_and_a_total(tmp_path: Path) -> None:
    long, short = chat(12), chat(2)
    file = write(tmp_path / "chats.jsonl", [{"id": "long", "messages": long}, short, b"", b"   "])
    done = run("replay", file, "--window", "2k")
    sizes = [sum(map(get_counter("o200k_base").count, from_openai(messages))) for messages in (long, short)]
    calls = [sum(m["role"] == "assistant" for m in messages) for messages in (long, short)]
    assert (done.code, done.err) == (0, "")
    first, second, total = row(done.out, "long"), row(done.out, "line 2"), row(done.out, "2 in all")
    assert first[:3] == [str(len(long)), str(calls[0]), f"{sizes[0]:,}"]
    assert second[:3] == [str(len(short)), str(calls[1]), f"{sizes[1]:,}"]
    assert total[:3] == [str(len(long) + len(short)), str(sum(calls)), f"{sum(sizes):,}"]
    assert int(first[3].replace(",", "")) <= 2_000 < sizes[0]
    assert [r[-1] for r in (first, second, total)] == ["✓"] * 3
    assert "reloaded and compared with what was added: " in done.out


@pytest.mark.slow
def test_standard_input_and_limit() -> None:
    lines = [json.dumps({"id": f"chat{n}", "messages": chat(2)}) for n in range(3)]
    done = run("replay", "-", "--limit", "2", stdin="\n".join(lines).encode())
    assert done.code == 0
    assert ("chat1 " in done.out, "chat2 " in done.out, "2 in all" in done.out) == (True, False, True)


@pytest.mark.slow
def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n" + json.dumps(GOOD).encode() + b"\r\n")
    done = run("replay", str(path))
    assert (done.code, done.err, "2 in all" in done.out) == (0, "", True)


BROKEN = {
    "not JSON": (b'{"messages": [', "not JSON: "),
    "not UTF-8": (b"[\xff]", "not UTF-8: byte 2 is 0xff"),
    "a number": (7, 'neither {"messages": [...]} nor a list'),
    "messages is text": ({"messages": "hi"}, 'neither {"messages": [...]} nor a list'),
    "no messages": ({"turns": []}, 'an object without "messages"'),
    "empty": ([], "a conversation without messages"),
    "one message": ({"role": "user", "content": "hi"}, "a single message; put the whole conversation on one line"),
    "unknown role": ([{"role": "wizard", "content": "hi"}], "messages[0].role: must be one of"),
    "no role": ([{"role": "user", "content": "hi"}, {"content": "hi"}], "messages[1].role: is missing"),
    "deep": (b"[" * 100_000, "not readable as JSON: "),
    "long number": (b"[" + b"1" * 5_000 + b"]", "not readable as JSON: "),
}


@pytest.mark.slow
def test_broken_lines_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    lines = [GOOD, *(content for content, _ in BROKEN.values()), GOOD]
    file = write(tmp_path / "chats.jsonl", lines)
    done = run("replay", file)
    assert done.code == 1
    complaints = done.err.splitlines()
    for number, (complaint, (_, reason)) in enumerate(zip(complaints, BROKEN.values(), strict=False), 2):
        assert complaint.startswith(f"{file}:{number}: {reason}")
    assert complaints[-1] == f"{file}: {len(BROKEN)} lines left out, 2 conversations replayed"
    assert len(complaints) == len(BROKEN) + 1
    assert row(done.out, "2 in all")[-1] == "✓"


@pytest.mark.slow
def test_file_of_broken_lines_only(tmp_path: Path) -> None:
    done = run("replay", write(tmp_path / "chats.jsonl", [b"{x"] * 60))
    assert (done.code, done.out) == (1, "")
    assert len(done.err.splitlines()) == 51
    assert done.err.endswith("60 lines left out (10 of them not listed), 0 conversations replayed\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["replay", "/nowhere/chats.jsonl"], "autocontext replay: /nowhere/chats.jsonl: No such file or directory"),
        (["replay", "/"], "autocontext replay: /: Is a directory"),
        (["replay", "/dev/null"], "autocontext replay: /dev/null: contains no conversation"),
        (["replay", "x", "--model", "gtp-4.1"], "autocontext replay: --model gtp-4.1: 'gtp-4.1' is no name of a model"),
        (["replay", "x", "--model", "openai:"], "autocontext replay: --model openai:: write openai:NAME"),
        (["replay", "x", "--model", "openai:gpt-4o"], "autocontext replay: OpenAIChatModel has no API key"),
    ],
)
def test_nothing_can_be_done(arguments: list[str], problem: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert done.err.startswith(problem)
    assert "Traceback" in run(*arguments, "--debug").err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["demo", "--window", "499"], "argument --window: window must be at least 500 tokens (got 499)"),
        (["demo", "--window", "-1"], "argument --window: '-1' is not a number of tokens"),
        (["demo", "--window", "many"], "argument --window: 'many' is not a number of tokens; write 16000 or 16k"),
        (["demo", "--window", "1" * 5_000], "is not a number of tokens"),
        (["replay", "x", "--limit", "0"], "argument --limit: '0' is not a whole number of at least 1"),
        (["replay"], "the following arguments are required: FILE.jsonl"),
        (["play"], "no command 'play'; did you mean 'replay'?"),
    ],
)
def test_wrong_arguments(arguments: list[str], problem: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out, "Traceback" in done.err) == (2, "", False)
    assert problem in done.err.splitlines()[-1]


@pytest.mark.slow
def test_help_and_version() -> None:
    nothing, help_, version = run(), run("--help"), run("--version")
    assert (nothing.code, help_.code, version.code) == (2, 0, 0)
    assert nothing.out == help_.out
    assert re.fullmatch(r"autocontext \d+\.\d+\.\d+\S*\n", version.out)
    assert "exit codes:" in help_.out
    assert "--limit N" in run("replay", "--help").out
    assert "(default: the most recent of --user)" in " ".join(run("mcp", "--help").out.split())


@pytest.mark.slow
def test_context_over_the_window_is_said_and_fails(tmp_path: Path) -> None:
    long = {"role": "system", "content": "word " * 3_000}
    chat_ = [long, {"role": "user", "content": "hello"}, {"role": "assistant", "content": "ok"}]
    file = write(tmp_path / "chats.jsonl", [{"id": "too long", "messages": chat_}, GOOD])
    done = run("replay", file, "--window", "2k")
    assert done.code == 1
    assert done.err.startswith(f"{file}:1: 1 of 1 contexts over the window: ")
    assert "the largest part is the system message" in done.err
    assert row(done.out, "too long")[-1] == "✗"
    assert re.search(r"^✗ +largest context sent .* 1 of \d+ over the window$", done.out, re.MULTILINE)


@pytest.mark.slow
def test_conversation_that_came_broken_is_said_to_be(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    broken = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "assistant", "content": "forgot it"},
    ]
    done = run("replay", write(tmp_path / "chats.jsonl", [{"id": "broken", "messages": broken}]))
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert ":1: 1 of 2 contexts invalid, because the conversation itself is: messages[1]: " in done.err
    assert row(done.out, "broken")[-2:] == ["was", "broken"]
    assert "1  of 2, by strict chat rules; 1 came broken" in done.out


def test_foreign_texts_cannot_steer_the_terminal(tmp_path: Path) -> None:
    title = "\x1b]0;pwned\x07\x1b[2J[red]漢字\ud800\n" * 3
    file = write(tmp_path / "chats.jsonl", [{"id": title, "messages": chat(2)}, [{"role": "\x1b[31m"}]])
    done = run("replay", file)
    assert done.code == 1
    assert not {c for c in done.out + done.err if not c.isprintable()} - {"\n"}


@pytest.mark.slow
def test_conversation_without_an_assistant(tmp_path: Path) -> None:
    done = run("replay", write(tmp_path / "chats.jsonl", [[{"role": "user", "content": "hi"}]]))
    assert done.code == 0
    assert row(done.out, "line 1")[:2] == ["1", "1"]
    assert "Nothing was compressed" in done.out


@pytest.mark.slow
def test_ids_that_are_used_twice(tmp_path: Path) -> None:
    twice = [{**m, "id": f"m{i % 7}"} for i, m in enumerate(chat(24))]
    done = run("replay", write(tmp_path / "chats.jsonl", [twice]), "--window", "6k")
    assert (done.code, done.err) == (0, "")
    assert "3 of 3 items identical" in done.out
