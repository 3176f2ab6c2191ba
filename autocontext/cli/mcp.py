"""`autocontext mcp`: serves one session of a database to an MCP client over standard input and output."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from autocontext.cli.arguments import Commands
from autocontext.cli.screen import Screen
from autocontext.config import AutoContextConfig
from autocontext.errors import ConfigError


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "mcp",
        run,
        "serve a session's tools to an MCP client",
        "Runs an MCP server on standard input and output for one session of a database, with the tools "
        "context_reload, content_search, memory_search and memory_add; --steering adds context_status, "
        "context_archive, context_restore, context_pin, context_note, context_condense and context_search. "
        "Needs the extra `mcp`. Example: autocontext mcp --db agent.db --session 42 --user ann",
    )
    parser.add_argument(
        "--db", default="agent.db", metavar="DB", help="a file or postgresql:// URL (default: agent.db)"
    )
    parser.add_argument("--session", metavar="ID", help="the session's id (default: the most recent of --user)")
    parser.add_argument("--user", default="", metavar="ID", help="the session's user; required for the memory tools")
    parser.add_argument(
        "--steering",
        metavar="WINDOW",
        help="offer the tools that steer the context, too, for an agent with this window (16k)",
    )


def run(screen: Screen, arguments: argparse.Namespace) -> None:
    """Serve until the client disconnects. Raises ConfigError if there is no session to serve."""
    from autocontext.adapters.mcp_server import serve  # noqa: PLC0415 (an extra)
    from autocontext.suite import AutoContext  # noqa: PLC0415 (only this command needs it)

    url = arguments.db
    if arguments.session is None and "://" not in url and not Path(url).exists():
        raise ConfigError(f"--db: no file {url!r}; give the agent's database, or --session ID to create one")
    window = arguments.steering
    config = None if window is None else AutoContextConfig.for_window(window, steering=True)
    with AutoContext.open(url, config=config) as context:
        session = arguments.session
        if not session:
            infos = context.sessions.sessions(arguments.user)
            if not infos:
                raise ConfigError(
                    f"--session: user {arguments.user!r} has no session in this database; give an id to create one"
                )
            session = infos[0].session_id
        size = len(context.session(session, user_id=arguments.user).memory.get_original_memory_msgs())
        screen.complain(f"autocontext mcp: session {session!r} of user {arguments.user!r} in {url}, messages: {size:,}")
        asyncio.run(serve(context, session, arguments.user))
