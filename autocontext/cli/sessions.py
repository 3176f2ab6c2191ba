"""Commands on stored sessions: reload, search, undo, export, import, import-java, copy, purge, stats."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autocontext import AutoContextError, ContextOffloadTool
from autocontext.cli import stored
from autocontext.cli.layout import Column, harmless
from autocontext.cli.screen import Screen
from autocontext.content.store import DatabaseContentStore
from autocontext.stores import SessionKey

_HANDLES = "of a CONTEXT_OFFLOAD mark; a handle like c_9f3a12be7d41; with --session, numbers like m41, m12-m19 or m1,m7"
Run = Callable[[Screen, argparse.Namespace], bool]


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Declare the commands."""

    def command(name: str, run: Run, help_: str, *, user: bool = True) -> argparse.ArgumentParser:
        description = f"{help_[:1].upper()}{help_[1:]}."
        parser: argparse.ArgumentParser = commands.add_parser(
            name, parents=[parent], help=help_, description=description
        )
        stored.add_database(parser)
        if user:
            stored.add_user(parser)
        parser.set_defaults(command=run, name=name)
        return parser

    parser = command("reload", reload, "show the originals behind an offload UUID, a content handle or numbers")
    parser.add_argument("uuid", metavar="UUID", help=_HANDLES)
    parser.add_argument("--session", metavar="S", help="look in this session only")
    parser.add_argument("--query", metavar="TEXT", help="only the passages that match")
    parser.add_argument("--json", action="store_true", help="the messages as JSON lines, just as they were added")

    parser = command("search", search, "find messages in stored sessions, also those out of view")
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("--session", metavar="S", help="look in this session only")
    parser.add_argument("--limit", type=int, default=10, metavar="N")

    parser = command("undo", undo, "put back into the view what a compression replaced")
    parser.add_argument("uuid", metavar="UUID")
    parser.add_argument("--session", metavar="S", help="look in this session only")

    parser = command("export", export, "write a session as JSON lines")
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")

    parser = command("import", import_, "make a session of exported JSON lines")
    parser.add_argument("file", metavar="FILE.jsonl", help="- reads standard input")
    parser.add_argument("session", metavar="SESSION")

    parser = command("import-java", import_java, "take over a session saved by AgentScope-Java")
    parser.add_argument("directory", metavar="DIRECTORY", help="the session's folder")
    parser.add_argument("session", metavar="SESSION", nargs="?", help="its id here (default: the folder's name)")

    parser = command("copy", copy, "copy everything to another database; with --user, the sessions of that user")
    parser.add_argument("to", metavar="TO", help="a database file, or a postgresql:// URL")
    parser.set_defaults(user=None)

    parser = command("purge", purge, "drop a session, or those that have expired")
    parser.add_argument("session", metavar="SESSION", nargs="?", help="leave it out to drop what has expired")
    parser.add_argument("--yes", action="store_true", help="do not ask before a session is dropped")

    command("stats", stats, "sizes of what is stored", user=False)


def reload(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Print what is behind a handle."""
    with stored.opened(arguments.db) as store:
        if arguments.uuid.startswith("c_"):
            page = DatabaseContentStore(store.database).read(arguments.uuid, namespace=f"user:{arguments.user}")
            if page is None:
                raise AutoContextError(f"nothing is stored under {arguments.uuid!r} for user {arguments.user!r}")
            print(page.text)
            return True
        memory = stored.holder(store, arguments.user, arguments.session, arguments.uuid)
        if arguments.json:
            for msg in memory.reload(arguments.uuid):
                print(msg.model_dump_json())
            return True
        tool, offset = ContextOffloadTool(memory), 0
        if arguments.query:
            print(tool(arguments.uuid, query=arguments.query))
            return True
        while True:
            head, _, text = tool(arguments.uuid, offset).partition("\n")
            if not offset:
                screen.line((harmless(head.partition("; showing")[0]) + "]", "dim"))
            sys.stdout.write(text)
            offset += len(text)
            if "continue with offset" not in head:
                print()
                return True


def search(screen: Screen, arguments: argparse.Namespace) -> bool:
    """One hit a line, best first."""
    with stored.opened(arguments.db) as store:
        hits = store.search(arguments.text, user_id=arguments.user, session_id=arguments.session, limit=arguments.limit)
        for hit in hits:
            place = f"{hit.session.session_id} {hit.sequence} "
            screen.line((harmless(place), "cyan"), harmless(" ".join(hit.snippet.split())))
        if not hits:
            screen.text(f"No message of user {arguments.user!r} matches {arguments.text!r}.")
    return bool(hits)


def undo(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Undo one compression."""
    with stored.opened(arguments.db) as store:
        memory = stored.holder(store, arguments.user, arguments.session, arguments.uuid)
        uuid = memory.handle(arguments.uuid)
        if not uuid:
            raise AutoContextError(f"{arguments.uuid}: only a compression can be undone; give its UUID")
        before = len(memory.messages)
        if not memory.undo(uuid):
            raise AutoContextError(f"{uuid}: its note is out of view; undo the later compression that holds it first")
        screen.line(f"undone: {before:,} messages in view became {len(memory.messages):,}")
    return True


def export(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Write a session's log."""
    with stored.opened(arguments.db) as store:
        info = stored.known(store, arguments.user, arguments.session)
        lines = store.export_jsonl(info.key, arguments.output or sys.stdout)
        if arguments.output:
            screen.line(f"{lines:,} entries written to {arguments.output}")
    return True


def import_(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Make a session of a file."""
    with stored.opened(arguments.db, make=True) as store:
        source = sys.stdin if arguments.file == "-" else arguments.file
        lines = store.import_jsonl(SessionKey(arguments.user, arguments.session), source)
        screen.line(f"{lines:,} entries read into session {arguments.session}")
    return True


def import_java(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Make a session of one that AgentScope-Java has saved."""
    from autocontext.stores import import_agentscope_java  # noqa: PLC0415 (nobody else needs it)

    session = arguments.session or Path(arguments.directory).resolve().name
    with stored.opened(arguments.db, make=True) as store:
        if store.read(SessionKey(arguments.user, session), until=1):
            raise AutoContextError(f"session {session!r} exists already; give another name after the folder")
        memory = import_agentscope_java(arguments.directory, store=store, session_id=session, user_id=arguments.user)
        originals, uuids = len(memory.get_original_memory_msgs()), len(memory.get_offload_context())
        screen.line(f"{originals:,} messages, {len(memory.messages):,} of them in view, {uuids:,} offload entries read")
        screen.line(f"into session {session}")
    return True


def copy(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Copy sessions between databases."""
    from autocontext.stores.copying import Progress, copy_sessions  # noqa: PLC0415

    def tell(progress: Progress) -> None:
        place = f"session {progress.done} of {progress.total}: {progress.session.session_id}"
        screen.progress(place, progress.done / progress.total)

    with stored.opened(arguments.db) as source, stored.opened(arguments.to, make=True) as target:
        entries = copy_sessions(source, target, user_id=arguments.user, progress=tell)
        screen.done()
        screen.line(
            f"{len(source.sessions(arguments.user)):,} sessions are in {arguments.to}; {entries:,} entries copied"
        )
    return True


def purge(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Drop one session, or the expired ones."""
    with stored.opened(arguments.db) as store:
        if arguments.session is None:
            screen.line(f"{store.purge_expired():,} expired sessions dropped")
            return True
        info = stored.known(store, arguments.user, arguments.session)
        if not arguments.yes:
            if not sys.stdin.isatty():
                raise AutoContextError("purge drops a session for good: confirm with --yes")
            print(
                f"Drop session {stored.key_of(info)} with {info.entries:,} entries for good? [y/N] ", end="", flush=True
            )
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                screen.line("nothing was dropped")
                return False
        store.delete(info.key)
        screen.line(f"session {stored.key_of(info)} dropped")
    return True


def stats(screen: Screen, arguments: argparse.Namespace) -> bool:
    """How much there is of what."""
    with stored.opened(arguments.db) as store:
        infos = store.sessions()
        content = DatabaseContentStore(store.database).stats(None)
        rows = [
            ["users", f"{len({i.user_id for i in infos}):,}"],
            ["sessions", f"{len(infos):,}"],
            ["log entries", f"{sum(i.entries for i in infos):,}"],
            ["contents", f"{content.contents:,}"],
            ["bytes of contents", f"{content.payload_bytes:,}"],
            ["bytes of them stored", f"{content.stored_bytes:,}"],
        ]
    if "://" not in arguments.db:
        rows.append(["bytes of the file", f"{Path(arguments.db).stat().st_size:,}"])
    screen.table([Column("what", right=False), Column("how much")], rows)
    return True
