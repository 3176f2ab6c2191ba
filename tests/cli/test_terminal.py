"""The same output on terminals of all kinds: with and without rich, narrow, ASCII only, closed early, interrupted."""

import argparse
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autocontext import cli
from autocontext.cli.screen import Screen
from tests.cli.terminal import (
    HEARS_SIGINT,
    NO_RICH,
    chat,
    command,
    environment,
    on_terminal,
    run,
    without_escapes,
    without_progress,
    write,
)

BUSY = {"id": "busy", "messages": chat(14, 1_500)}


@pytest.fixture
def file(tmp_path: Path) -> str:
    return write(tmp_path / "chats.jsonl", [BUSY, {"id": "small", "messages": chat(2)}])


def steady(out: str) -> str:
    """The output without what differs between runs: ids, times, and sizes that depend on ids."""
    out = re.sub(r"[0-9a-f]{64}", "HASH", out)
    return re.sub(r" *[\d,.]+", " N", re.sub(r"uuid [0-9a-f]{8}", "uuid", out))


def lines_of_terminal(out: str) -> list[str]:
    """What stands on the screen in the end: a progress line is written over by what follows it."""
    return [line.split("\r")[-1].rstrip() for line in without_escapes(out).split("\n")]


def words(lines: list[str]) -> list[str]:
    """The lines that are text, without the plots, which depend on ids too."""
    return [steady(line) for line in lines if "┤" not in line]


@pytest.mark.slow
def test_rich_on_a_terminal_colours_the_same_text(file: str) -> None:
    arguments = ("replay", file, "--window", "2k")
    coloured, plain = on_terminal(*arguments), run(*arguments)
    assert (coloured.code, plain.code) == (0, 0)
    assert "\x1b[32m" in coloured.out
    assert "\x1b" not in plain.out
    assert words(lines_of_terminal(coloured.out)) == words(plain.out.split("\n"))


@pytest.mark.slow
def test_terminal_without_rich_gets_plain_text(file: str) -> None:
    done = on_terminal("replay", file, "--window", "2k", prelude=NO_RICH)
    assert (done.code, "\x1b" in done.out, "Traceback" in done.out) == (0, False, False)
    assert "2 in all" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("prelude", ["", NO_RICH], ids=["rich", "plain"])
def test_progress_is_drawn_on_one_line_and_taken_away(file: str, prelude: str) -> None:
    done = on_terminal("replay", file, "--window", "2k", prelude=prelude, columns=60)
    drawn = [part for part in re.split("[\r\n]", without_escapes(done.out)) if "% line 1 " in part]
    assert drawn
    assert max(map(len, drawn)) < 60
    assert not [line for line in lines_of_terminal(done.out) if "message 1" in line]


@pytest.mark.slow
def test_dumb_terminal_gets_no_escapes(file: str) -> None:
    assert "\x1b" not in on_terminal("replay", file, TERM="dumb").out


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 57, 300])
def test_lines_fit_the_terminal(file: str, columns: int) -> None:
    done = run("replay", file, "--window", "2k", COLUMNS=str(columns))
    longest = max(len(line) for line in done.out.splitlines() if "chats.jsonl" not in line)
    assert (done.code, longest <= min(100, max(40, columns))) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "shift_jis"])
def test_terminal_that_cannot_show_blocks(tmp_path: Path, encoding: str) -> None:
    file = write(tmp_path / "chats.jsonl", [{**BUSY, "id": "漢字 busy"}, b"nothing"])
    started = command("replay", file, "--window", "2k")
    environ = environment(PYTHONIOENCODING=encoding)
    done = subprocess.run(started, env=environ, capture_output=True, timeout=300, check=False)
    out, err = done.stdout.decode(encoding), done.stderr.decode(encoding)
    assert (done.returncode, "Traceback" in err) == (1, False)
    assert set(out) <= {*map(chr, range(32, 127)), "\n", *"漢字"}
    assert re.search(r"^ 2,000 \|#", out, re.MULTILINE)
    assert re.search(r"^ok originals intact ", out, re.MULTILINE)


@pytest.mark.slow
def test_reader_that_has_enough(file: str) -> None:
    started = command("replay", file, "--window", "2k")
    with subprocess.Popen(started, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert without_progress(process.stderr.read().decode()) == ""
    assert process.returncode == 141  # as a shell says of a program that a closed pipe ended


@pytest.mark.slow
def test_full_disk(file: str) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        started = command("replay", file)
        done = subprocess.run(started, env=environment(), stdout=full, stderr=subprocess.PIPE, timeout=300, check=False)
    assert done.returncode == 2
    assert without_progress(done.stderr.decode()) == "autocontext replay: No space left on device\n"


@pytest.mark.slow
def test_closed_streams(file: str) -> None:
    shell = ["sh", "-c", '"$@" >&- 2>&-', "sh", *command("replay", file)]
    assert subprocess.run(shell, env=environment(), timeout=300, check=False).returncode == 0


@pytest.mark.slow
def test_interrupt_shows_what_is_done_and_ends_with_130(file: str) -> None:
    process = subprocess.Popen(
        command("replay", "-", "--window", "2k", prelude=HEARS_SIGINT),
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert process.stdout is not None
        process.stdin.write(Path(file).read_bytes() + b"broken\n")
        process.stdin.flush()
        while b"stdin:3: not JSON" not in process.stderr.readline():
            assert process.poll() is None
        # Both conversations are done; it waits for more.
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read().decode(), process.stderr.read().decode()
    assert (process.returncode, err) == (130, "interrupted\n")
    assert "interrupted; so far" in out
    assert "2 in all" in out


@pytest.mark.slow
def test_interrupt_in_the_middle_of_the_demo() -> None:
    started = command("demo", prelude=HEARS_SIGINT)
    with subprocess.Popen(started, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"autocontext demo: ")  # it is under way
        process.send_signal(signal.SIGINT)
        assert process.stderr.read().splitlines()[-1:] == [b"interrupted"]
    assert process.returncode == 130


class Dying:
    """Gets Ctrl-C in its destructor, where Python prints the exception and goes on."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def lost(screen: Screen, _: argparse.Namespace) -> bool:
    Dying()
    screen.progress("and on it goes")
    return True


def turned_into_another_error(*_: object) -> bool:
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as e:
        raise ValueError(f"no serializer: {e}") from e
    return True


@pytest.mark.parametrize("command_", [lost, turned_into_another_error])
def test_an_interrupt_in_the_wrong_place_counts_all_the_same(
    command_: Callable[..., bool], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert cli._run(command_, argparse.Namespace(debug=False, name="x")) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted"
