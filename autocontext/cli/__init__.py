"""The command line: see it work, look into stored sessions, measure.

Exit codes: 0 all went well; 1 something did not hold or could not be read, the rest was done; 2 nothing could be done
(wrong arguments, missing file, no key); 130 interrupted. Errors are one line each on stderr, `--debug` adds the trace.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TextIO

from autocontext import AutoContextError, __version__
from autocontext.cli import benching, demo, inspecting, mcp, pruning, replay, reporting, sessions, showing
from autocontext.cli.screen import Screen, open_screen

DONE, PARTLY, NOTHING_DONE, INTERRUPTED = 0, 1, 2, 130

_ABOUT = """\
Memory that keeps an LLM agent's context small and loses nothing: see it work on a real conversation, or on yours.
"""
_EXAMPLES = """\
examples:
  autocontext demo                         offline, no key, a few seconds
  autocontext demo --window 8000           the same with half the window
  autocontext replay chats.jsonl           your own conversations, no model needed
  autocontext replay chats.jsonl --model openai:gpt-4.1-mini    notes by a model (OPENAI_API_KEY)
  autocontext bench facts labelled.jsonl   how much of what questions are about the ranker finds
  autocontext inspect agent.db 42 --user u1      what the model of a stored session sees
  autocontext show agent.db 42 --user u1 --context   the same as text, just as it is sent
  autocontext report agent.db 42 --user u1       the same as one HTML page, with its whole history
  autocontext search agent.db "connection refused" --user u1

exit codes: 0 all held, 1 something did not or could not be read, 2 wrong arguments or file, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` are the arguments after the program's name."""
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        # What people wrote must come out in some form on a terminal that cannot show it.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    parser = _parser()
    arguments = parser.parse_args(argv)
    command: Callable[[Screen, argparse.Namespace], bool] | None = arguments.command
    if command is None:
        parser.print_help()
        return NOTHING_DONE
    return _run(command, arguments)


def _run(command: Callable[[Screen, argparse.Namespace], bool], arguments: argparse.Namespace) -> int:
    screen = open_screen(debug=arguments.debug)
    try:
        held = command(screen, arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        _last_words(screen, "interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has enough
        return PARTLY
    except (AutoContextError, OSError) as e:
        return _explain(screen, arguments, _described(e))
    except Exception as e:  # noqa: BLE001 (a fault of this program is an error like others: one line, and the trace on request)
        return _explain(screen, arguments, f"internal error, {type(e).__name__}: {e} (--debug shows where)")
    return DONE if held else PARTLY


def _described(error: Exception) -> str:
    """The error in words, with the file that an OSError is about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _explain(screen: Screen, arguments: argparse.Namespace, problem: str) -> int:
    _last_words(screen, f"autocontext {arguments.name}: {problem}")
    if arguments.debug:
        traceback.print_exc()
    return NOTHING_DONE


def _last_words(screen: Screen, problem: str) -> None:
    with contextlib.suppress(OSError):  # that stdout cannot be written to must not hide the problem
        sys.stdout.flush()
    screen.complain(problem)


def _nowhere() -> TextIO:
    """In place of a stream that the caller has closed."""
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 (open as long as the process)


def _parser() -> argparse.ArgumentParser:
    everywhere = argparse.ArgumentParser(add_help=False)
    everywhere.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show the trace of an error, not only a line"
    )
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "autocontext", description=_ABOUT, epilog=_EXAMPLES, formatter_class=plain, parents=[everywhere]
    )
    parser.add_argument("--version", action="version", version=f"autocontext {__version__}")
    parser.set_defaults(command=None, debug=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for part in (demo, replay, benching, inspecting, showing, reporting, sessions, pruning, mcp):
        part.add(commands, everywhere)
    return parser
