"""The command line: run a demo, look into stored sessions, measure.

Exit codes: 0 success; 1 a check failed or some input could not be read; 2 nothing was done (wrong arguments, missing
file, no key); 130 interrupted; 141 the reader closed the pipe. An error is one line on stderr; `--debug` adds the
traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TextIO

from autocontext import AutoContextError, __version__
from autocontext.cli import bench, demo, inspect, mcp, prune, replay, report, sessions, show
from autocontext.cli.arguments import Commands, Parser, Run
from autocontext.cli.screen import Screen, open_screen
from autocontext.cli.streams import shown_safely

DONE, PARTLY, NOTHING_DONE, INTERRUPTED, CLOSED = 0, 1, 2, 130, 141

_ABOUT = """\
Keeps an LLM agent's context small and loses nothing. Try it on a real conversation, or on yours.
"""
_EXAMPLES = """\
examples:
  autocontext demo                                 offline, no key, a few seconds
  autocontext demo --window 8000                   the same with half the window
  autocontext replay chats.jsonl                   your own conversations, no model needed
  autocontext replay chats.jsonl --model openai:gpt-4.1-mini    with notes by a model (OPENAI_API_KEY)
  autocontext inspect agent.db 42 --user u1        what the model of a stored session sees
  autocontext show agent.db 42 --user u1 --context the same as text, exactly as it is sent
  autocontext report agent.db 42 --user u1         the same as one HTML page, with the whole history
  autocontext search agent.db "connection refused" --user u1
  autocontext bench facts labelled.jsonl           recall of the ranker on your labelled data

exit codes: 0 success; 1 a check failed, a line could not be read, or a search found nothing; 2 wrong arguments, or no
such file, session or handle; 130 interrupted; 141 the reader closed the pipe, as `| head` does
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; `argv` (default: `sys.argv[1:]`) are the arguments."""
    sys.stdout, sys.stderr = sys.stdout or _null_stream(), sys.stderr or _null_stream()
    for stream in (sys.stdout, sys.stderr):
        # Escape characters that the terminal cannot encode.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    with shown_safely():
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    parser, commands = _parser()
    # Not as the parser's defaults: those would overwrite a --debug before COMMAND.
    arguments, surplus = parser.parse_known_args(argv, argparse.Namespace(command=None, debug=False))
    command: Run | None = arguments.command
    if surplus and command is not None:
        commands.refuse(arguments.name, surplus)
    if surplus:
        parser.error(f"no option {surplus[0]}; COMMAND is missing")
    if command is None:
        parser.print_help()
        return NOTHING_DONE
    return _run(command, arguments)


def _run(command: Run, arguments: argparse.Namespace) -> int:
    screen = open_screen(debug=arguments.debug)
    try:
        # An event loop has a handler of its own.
        with contextlib.nullcontext() if command is mcp.run else screen.interrupts.noted():
            partly = command(screen, arguments) is False
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _end(screen, "interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader, e.g. `head`, has closed the pipe
        return CLOSED
    except (AutoContextError, OSError) as e:
        return _fail(screen, arguments, _error_text(e))
    except Exception as e:  # noqa: BLE001 (a bug is reported like other errors: one line, and a traceback with --debug)
        if screen.interrupts.came:
            return _end(screen, "interrupted", INTERRUPTED)
        return _fail(screen, arguments, f"internal error, {type(e).__name__}: {e} (run with --debug for the traceback)")
    return PARTLY if partly else DONE


def _error_text(error: Exception) -> str:
    """The error's message, with the file name of an OSError."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _fail(screen: Screen, arguments: argparse.Namespace, problem: str) -> int:
    code = _end(screen, f"autocontext {arguments.name}: {problem}", NOTHING_DONE)
    if arguments.debug:
        traceback.print_exc()
    return code


def _end(screen: Screen, problem: str, code: int) -> int:
    """Report why the command ends, and return its exit code."""
    with contextlib.suppress(OSError):  # an unwritable stdout must not hide the problem
        sys.stdout.flush()
    screen.complain(problem)
    return code


def _null_stream() -> TextIO:
    """A replacement for a stream that the caller has closed."""
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 (stays open until the process ends)


def _parser() -> tuple[argparse.ArgumentParser, Commands]:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
    )
    plain = argparse.RawDescriptionHelpFormatter
    parser = Parser("autocontext", description=_ABOUT, epilog=_EXAMPLES, formatter_class=plain, parents=[common])
    parser.add_argument("--version", action="version", version=f"autocontext {__version__}")
    commands = Commands(parser, common)
    for module in (demo, replay, bench, inspect, show, report, sessions, prune, mcp):
        module.add(commands)
    return parser, commands
