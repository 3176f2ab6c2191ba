"""Stored texts, ids, file names and arguments that try to steer the terminal: every command shows them as escapes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autocontext import AutoContext, AutoContextConfig, AutoContextMemory, Msg, ToolResultBlock, ToolUseBlock, cli
from autocontext.cli.streams import escaped
from autocontext.stores import SqliteSessionStore
from tests.characters import of_each_category

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"
CONTROLS = "".join(map(chr, [*range(1, 32), 127, *range(128, 160)]))
SEQUENCES = (
    "\x1b]0;title\x07 \x1b[2J\x1b[H \x1b[8mhidden \x9b31m \x1bP1$r\x1b\\ \x1b]8;;http://evil\x07link\x1b[5n\x1b[c"
)
HOSTILE = f"seen {SEQUENCES}{CONTROLS}{BIDI}\r\nover\rwritten \x7f end"
NAME = f"x\x1b]0;title\x07\x1b[2J\x9b31m\r\u202e{BIDI[:12]}y"
"""An id, or the name of a file."""
OURS = re.compile(r"\x1b\[(?:0|1|2|3|[34][0-7]|9[0-7]|38;5;\d+)(?:;(?:0|1|2|3|[34][0-7]|9[0-7]))*m")
"""The colours that we write: none is like those of the texts above."""
REDRAWN = re.compile(r"\r[^\r\n\x1b]*(?=[\r\n]|$)|\x1b\[\?(?:25|1049)[hl]|\x1b\[[0-9;]*[HJKA]")


def messages() -> Iterator[Msg]:
    for n in range(8):
        yield Msg(role="user", content=f"{n} {HOSTILE}", name=NAME)
        call = ToolUseBlock(id=f"c{n}", name="look", input={"path": HOSTILE, NAME: 1})
        yield Msg(role="assistant", content=[call])
        yield Msg(role="tool", content=[ToolResultBlock(id=f"c{n}", name="look", output=f"{HOSTILE}\n" * 30)])
        yield Msg(role="assistant", content=HOSTILE + "\ud800")


class Place:
    """A database, files and folders full of such texts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db, self.session = str(folder / f"{NAME}.db"), f"s{NAME}"
        with SqliteSessionStore(self.db) as store:
            config = AutoContextConfig.for_window(2000)
            memory = AutoContextMemory(config, store=store, session_id=self.session, user_id=NAME)
            for message in messages():
                memory.add_message(message)
            memory.compress_if_needed(force=True)
            self.uuid = next(m.origin.uuid for m in memory.messages if m.origin is not None)
            self.exported = str(folder / f"{NAME}.jsonl")
            store.export_jsonl((NAME, self.session), self.exported)
        with AutoContext(self.db) as context:
            self.handle = context.content.put(HOSTILE, namespace=f"user:{NAME}", name=NAME).ref
        chat = [{"role": m.role, "content": m.text or "x"} for m in messages() if m.role != "tool"]
        lines = [{"id": NAME, "messages": chat}, {"id": NAME, "messages": [{"role": NAME, "content": HOSTILE}]}]
        self.chats = self._file("chats", *map(json.dumps, lines), f"{{{NAME}")
        facts = {"id": NAME, "facts": [{"id": "f", "content": HOSTILE}], "queries": []}
        facts["queries"] = [{"text": HOSTILE, "evidence": ["f"], "category": NAME}]
        self.facts = self._file("facts", json.dumps(facts), NAME)

    def _file(self, name: str, *lines: str) -> str:
        path = self.folder / f"{name}{NAME}.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        return str(path)


COMMANDS: dict[str, Callable[[Place], list[list[str]]]] = {
    "demo": lambda p: [["--window", NAME]],
    "replay": lambda p: [[p.chats, "--window", "2k"], [p.folder.name + NAME]],
    "bench": lambda p: [["facts", p.facts], ["facts", NAME]],
    "inspect": lambda p: [[p.db], [p.db, p.session, "--user", NAME, "--full"], [p.db, NAME, "--user", NAME]],
    "show": lambda p: [
        [p.db, p.session, "--user", NAME, "--context", "--full"],
        [p.chats, "--window", "2k", "--full"],
        [p.chats, "--id", f"{NAME}?"],
    ],
    "report": lambda p: [[p.db, p.session, "--user", NAME, "-o", str(p.folder / f"{NAME}.html")], [p.db, NAME]],
    "prune": lambda p: [[p.chats]],
    "mcp": lambda p: [["--db", p.db + NAME], ["--db", p.db, "--user", NAME + NAME]],
    "reload": lambda p: [
        [p.db, p.uuid, "--user", NAME],
        [p.db, p.uuid, "--user", NAME, "--json"],
        [p.db, p.uuid, "--user", NAME, "--query", "seen"],
        [p.db, "m1-m9", "--user", NAME, "--session", p.session],
        [p.db, p.handle, "--user", NAME],
        [p.db, NAME, "--user", NAME],
        [p.db, "c_1", "--user", "other"],
    ],
    "search": lambda p: [[p.db, "seen", "--user", NAME], [p.db, "seen", "--user", "x"], [p.db, NAME, "--user", NAME]],
    "undo": lambda p: [[p.db, NAME, "--user", NAME], [p.db, p.uuid, "--user", NAME]],
    "export": lambda p: [[p.db, p.session, "--user", NAME], [p.db, NAME, "--user", NAME, "-o", str(p.folder / NAME)]],
    "import": lambda p: [[p.db, p.exported, f"again{NAME}"], [p.db, p.chats, NAME], [p.db, NAME, NAME]],
    "import-java": lambda p: [[p.db, str(p.folder), NAME], [p.db, NAME]],
    "copy": lambda p: [[p.db, str(p.folder / f"to{NAME}.db")], [p.db, str(p.folder / "u.db"), "--user", NAME]],
    "stats": lambda p: [[p.db], [p.db + NAME]],
    "purge": lambda p: [[p.db, p.session, "--user", NAME], [p.db, p.session, "--user", NAME, "--yes"]],
}
WRONG = [[NAME], ["stats", "db", NAME], ["--debug", "stats", NAME], ["reload", "--" + NAME], []]


def on_terminal(arguments: list[str]) -> str:
    """What a terminal gets that is both stdout and stderr."""
    master, slave = os.openpty()
    got: list[bytes] = []

    def drain() -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(master, 65_536):
                got.append(part)

    reader = threading.Thread(target=drain)
    reader.start()
    with contextlib.ExitStack() as stack:
        terminal = stack.enter_context(open(slave, "w", encoding="utf-8"))  # noqa: PTH123 (a file descriptor)
        stack.enter_context(contextlib.redirect_stdout(terminal))
        stack.enter_context(contextlib.redirect_stderr(terminal))
        stack.enter_context(contextlib.suppress(SystemExit))  # wrong arguments
        cli.main(arguments)
    reader.join(240)
    os.close(master)
    return b"".join(got).decode().replace("\r\n", "\n")


def steering(out: str) -> set[str]:
    """The characters and sequences of an output that are not ours and could steer a terminal."""
    left = REDRAWN.sub("", OURS.sub("", out))
    return {ch for ch in left if escaped(ch) != ch} | {text for text in ("\rwritten", "\r\u202e") if text in out}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("hostile"))


def test_every_command_is_tried() -> None:
    _, commands = cli._parser()
    assert sorted(COMMANDS) == sorted(commands._subparsers.choices)


@pytest.mark.sampled
@pytest.mark.parametrize("rich", [True, False], ids=["rich", "plain"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_lets_a_text_steer_the_terminal(
    place: Place, name: str, rich: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color" if rich else "dumb")
    monkeypatch.chdir(tmp_path)
    if name == "purge":
        place = Place(tmp_path)
    for arguments in COMMANDS[name](place):
        out = on_terminal([name, *arguments])
        assert out
        assert steering(out) == set(), (arguments, out)
        assert "Traceback" not in out


@pytest.mark.sampled
@pytest.mark.parametrize("arguments", WRONG)
def test_nor_do_wrong_arguments(arguments: list[str]) -> None:
    assert steering(on_terminal(arguments)) == set()


def test_a_pipe_and_raw_get_the_characters_themselves(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    reload = ["reload", place.db, place.handle, "--user", NAME]
    assert cli.main(reload) == 0
    assert capsys.readouterr().out == HOSTILE + "\n"
    shown = on_terminal(reload)
    assert "seen \\x1b]0;title\\x07 \\x1b[2J\\x1b[H" in shown
    assert shown.count("\n") == HOSTILE.count("\n") + 1
    assert SEQUENCES in on_terminal([*reload, "--raw"])


def test_what_steers_is_escaped_and_the_rest_stays() -> None:
    every = of_each_category()
    kept = {"Cn", "Co", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi"}
    kept |= {"Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs"}
    assert all(escaped(every[category]) == every[category] for category in kept & every.keys())
    assert escaped("a\tb\nc\r\nd\u200d\u00a0") == "a\tb\nc\nd\u200d\u00a0"
    assert all(escaped(ch).startswith("\\") for ch in CONTROLS.replace("\t", "").replace("\n", "") + BIDI + "\0\ud800")


def streams() -> tuple[Any, Any]:
    return sys.stdout, sys.stderr


def test_the_streams_are_as_before_when_a_command_has_ended() -> None:
    before = streams()
    on_terminal(["stats", "nothing.db"])
    assert streams() == before
