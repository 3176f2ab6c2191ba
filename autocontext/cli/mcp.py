"""`autocontext mcp`: serve one session of a database to any MCP client, on standard input and output."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autocontext.cli.screen import Screen
from autocontext.errors import ConfigError
from autocontext.stores import SessionInfo

if TYPE_CHECKING:
    from autocontext.suite import AutoContext


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "mcp",
        parents=[parent],
        help="serve a session's tools to an MCP client",
        description="An MCP server on standard input and output with the tools context_reload, content_search, "
        "memory_search and memory_add, for one session and one user of a database (needs the extra `mcp`).",
    )
    parser.set_defaults(command=run, name="mcp")
    parser.add_argument(
        "--db", default="agent.db", metavar="DB", help="a file or postgresql:// URL (default: agent.db)"
    )
    parser.add_argument("--session", metavar="ID", help="the session (default: the one that was written to last)")
    parser.add_argument(
        "--user", default="", metavar="ID", help="whose session; with it the tools for memories are offered"
    )


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Serve until the client is gone. Raises ConfigError when no session is named and there is none."""
    from autocontext.adapters.mcp_server import serve  # noqa: PLC0415 (an extra)
    from autocontext.suite import AutoContext  # noqa: PLC0415 (databases: only this command needs them)

    url = arguments.db
    if arguments.session is None and "://" not in url and not Path(url).exists():
        raise ConfigError(f"--db: there is no file {url!r}; name the agent's database, or a --session to begin one")
    with AutoContext.open(url) as context:
        session = arguments.session or _latest(context, arguments.user)
        screen.complain(f"autocontext mcp: session {session!r} of user {arguments.user!r} in {url}")
        asyncio.run(serve(context, session, arguments.user))
    return True


def _latest(context: AutoContext, user: str) -> str:
    infos: list[SessionInfo] = context.sessions.sessions(user)
    if not infos:
        raise ConfigError(f"--session: user {user!r} has no session in this database; name one to begin it")
    return infos[0].session_id
