"""Commands on stored sessions: reload, search, undo, export, import, import-java, copy, purge, stats."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autocontext import AutoContextError, AutoContextMemory, ContextOffloadTool, Msg
from autocontext.cli import conversations, stored
from autocontext.cli.arguments import Commands, Run, positive
from autocontext.cli.layout import Column, printable
from autocontext.cli.proof import pages
from autocontext.cli.screen import Screen
from autocontext.cli.streams import as_utf8, terminal_of
from autocontext.content.store import DatabaseContentStore
from autocontext.errors import StoreError
from autocontext.formats.openai_chat import to_openai
from autocontext.stores import DatabaseSessionStore, SessionKey
from autocontext.stores.exported import load
from autocontext.stores.lifecycle import below
from autocontext.stores.private_files import write_private
from autocontext.stores.sql_url import parsed

_HANDLES = (
    "a UUID from a CONTEXT_OFFLOAD tag, a handle such as c_9f3a12be7d41, or with --session numbers such as m41, "
    "m12-m19 or m1,m7"
)


def add(commands: Commands) -> None:
    """Add the commands to the parser."""

    def command(name: str, run: Run, help_: str, *, user: bool = True) -> Callable[..., Any]:
        """Add a command; returns what adds an argument to it."""
        parser = commands.add(name, run, help_, f"{help_[:1].upper()}{help_[1:]}.")
        stored.add_database(parser)
        if user:
            stored.add_user(parser)
        return parser.add_argument

    argument = command(
        "reload", reload, "print the originals behind an offload UUID, a content handle or message numbers"
    )
    argument("uuid", metavar="HANDLE", help=_HANDLES)
    argument("--session", metavar="S", help="search only this session")
    argument("--query", metavar="TEXT", help="only the passages that match, e.g. 'connection refused'")
    argument("--json", action="store_true", help="the original messages as JSON lines")
    argument(
        "--raw", action="store_true", help="control characters as they are, also on a terminal (default: escapes there)"
    )

    argument = command("search", search, "find messages in stored sessions, including those out of view")
    argument("text", metavar="TEXT", help="words, e.g. 'lock timeout'; '' with a filter: the newest")
    argument("--session", metavar="S", help="search only this session")
    argument("--tool", metavar="T", help="only calls and results of this tool")
    argument("--after", metavar="TIME", help="only what was said after it, e.g. 2026-11-22T14:00")
    argument("--before", metavar="TIME", help="only what was said before it")
    argument("--limit", type=positive, default=10, metavar="N", help="maximum number of hits (default: 10)")

    argument = command("undo", undo, "put the messages that a compression replaced back into the view")
    argument("uuid", metavar="UUID", help="of the compression, as `inspect` lists it: its first 8 characters")
    argument("--session", metavar="S", help="search only this session")

    argument = command("export", export, "write a session as JSON lines")
    argument("session", metavar="SESSION", help="the session's id")
    argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")
    argument(
        "--openai", action="store_true", help="all originals as one line of OpenAI chat messages, without the notes"
    )

    argument = command("import", import_, "create a session from exported JSON lines")
    argument("file", metavar="FILE.jsonl", help="- reads standard input")
    argument("session", metavar="SESSION", help="the new session's id")
    argument("--openai", action="store_true", help="the file is one line of OpenAI chat messages")

    argument = command("import-java", import_java, "import a session saved by AgentScope-Java")
    argument("directory", metavar="DIRECTORY", help="the session's folder")
    argument("session", metavar="SESSION", nargs="?", help="the new session's id (default: the folder's name)")

    argument = command("copy", copy, "copy everything to another database", user=False)
    argument("to", metavar="TO", help="a database file, or a postgresql:// URL")
    argument("--user", metavar="U", help="only the sessions of this user, and no other parts")

    argument = command("purge", purge, "delete a session, or all expired sessions")
    argument("session", metavar="SESSION", nargs="?", help="the session's id (default: all expired sessions)")
    argument("--yes", action="store_true", help="delete without asking")

    command("stats", stats, "show how much is stored", user=False)


def reload(screen: Screen, arguments: argparse.Namespace) -> None:
    """Print the originals behind a handle."""
    out = terminal_of(sys.stdout) if arguments.raw else sys.stdout
    if arguments.json and arguments.query:
        raise AutoContextError("--json gives whole messages, --query passages of them; leave one out")
    with stored.open_sessions(arguments.db) as store:
        if arguments.uuid.startswith("c_"):
            if arguments.json or arguments.query:
                raise AutoContextError("a content is a text: --json and --query are for messages; leave them out")
            page = DatabaseContentStore(store.database).read(arguments.uuid, namespace=f"user:{arguments.user}")
            if page is None:
                raise AutoContextError(
                    f"nothing is stored under {arguments.uuid!r} for user {arguments.user!r}"
                    + stored.other_users(store, arguments.user)
                )
            print(page.text, file=out)
            return
        memory = stored.find_memory(store, arguments.user, arguments.session, arguments.uuid)
        if arguments.json:
            as_utf8(out).writelines(_json_line(msg.to_dict()) for msg in memory.reload(arguments.uuid))
            return
        tool = ContextOffloadTool(memory)
        if arguments.query:
            print(tool.page(arguments.uuid, query=arguments.query), file=out)
            return
        for number, (head, text) in enumerate(pages(tool, arguments.uuid)):
            if not number:
                screen.line((printable(head.partition("; showing")[0]) + "]", "dim"))
            out.write(text)
        print(file=out)


def _json_line(value: dict[str, Any]) -> str:
    """A value as a line of JSON; half a surrogate pair, which UTF-8 does not have, as its escape."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode() + "\n"


def search(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Print one hit per line, best first."""
    with stored.open_sessions(arguments.db) as store:
        hits = store.search(
            arguments.text, user_id=arguments.user, session_id=arguments.session, limit=arguments.limit,
            tool=arguments.tool, after=arguments.after, before=arguments.before,
        )  # fmt: skip
        for hit in hits:
            number = "" if hit.number is None else f"m{hit.number} "
            screen.line(
                (printable(f"{hit.session.session_id} {number}"), "cyan"), printable(" ".join(hit.snippet.split()))
            )
        if not hits:
            _no_hits(screen, store, arguments)
    return bool(hits)


def _no_hits(screen: Screen, store: DatabaseSessionStore, arguments: argparse.Namespace) -> None:
    """Say that nothing was found; for a user or a session without any message, what there is instead."""
    if arguments.session is not None:
        stored.session_info(store, arguments.user, arguments.session)
    guessed = not arguments.user or not store.sessions(arguments.user)
    others = stored.other_users(store, arguments.user) if guessed else ""
    options = {name: getattr(arguments, name) for name in ("session", "tool", "after", "before")}
    filters = "".join(f" --{name} {value}" for name, value in options.items() if value is not None)
    screen.text(f"No message of user {arguments.user!r} matches {arguments.text!r}{filters}{others}.")


def undo(screen: Screen, arguments: argparse.Namespace) -> None:
    """Undo one compression."""
    with stored.open_sessions(arguments.db) as store:
        memory = stored.find_memory(store, arguments.user, arguments.session, arguments.uuid)
        uuid = memory.handle(arguments.uuid)
        if not uuid:
            raise AutoContextError(f"{arguments.uuid}: not a compression; give the UUID of one")
        before = len(memory.messages)
        if not memory.undo(uuid):
            later = memory.replaced_by(uuid)
            first = f"; first undo {later}, which replaced it" if later else "; it was undone or removed"
            raise AutoContextError(f"{uuid}: its note is no longer in view{first}")
        screen.line(f"undone: {before:,} messages in view became {len(memory.messages):,}")


def export(screen: Screen, arguments: argparse.Namespace) -> None:
    """Write a session's log."""
    with stored.open_sessions(arguments.db) as store:
        info = stored.session_info(store, arguments.user, arguments.session)
        if arguments.openai:
            messages = to_openai(stored.open_memory(store, info).get_original_memory_msgs())
            line = _json_line({"id": info.session_id, "messages": messages})
            written = f"{len(messages):,} messages"
            if arguments.output:
                write_private(arguments.output, line)
            else:
                as_utf8(sys.stdout).write(line)
        else:
            written = f"{store.export_jsonl(info.key, arguments.output or as_utf8(sys.stdout)):,} entries"
        if arguments.output:
            screen.line(f"{written} written to {arguments.output}")


def import_(screen: Screen, arguments: argparse.Namespace) -> None:
    """Create a session from a file."""
    # Read before the database is opened: what cannot be read makes no file.
    messages = _one_conversation(arguments.file) if arguments.openai else []
    entries = [] if arguments.openai else load(as_utf8(sys.stdin) if arguments.file == "-" else arguments.file)
    with stored.open_sessions(arguments.db, create=True) as store:
        session = SessionKey(arguments.user, arguments.session)
        if store.read(session, until=1):
            raise AutoContextError(f"session {session.session_id!r} exists already; give another id")
        if arguments.openai:
            memory = AutoContextMemory(store=store, session_id=arguments.session, user_id=arguments.user)
            memory.add_messages(messages)
            read = f"{len(messages):,} messages"
        else:
            store.append(session, entries, after=0)
            read = f"{len(entries):,} entries"
        screen.line(f"{read} read into session {arguments.session}")


def _one_conversation(file: str) -> list[Msg]:
    """The messages of a file with one conversation, as `export --openai` writes it."""
    broken: list[str] = []
    found = list(conversations.read(file, broken.append))
    if broken:
        raise AutoContextError(broken[0])
    if len(found) != 1:
        raise AutoContextError(f"{file}: {len(found)} conversations; a session is one, on one line")
    return found[0].messages


def import_java(screen: Screen, arguments: argparse.Namespace) -> None:
    """Create a session from one that AgentScope-Java saved."""
    from autocontext.stores import import_agentscope_java  # noqa: PLC0415 (only this command needs it)

    import_agentscope_java(arguments.directory)  # before a file is made for nothing
    with stored.open_sessions(arguments.db, create=True) as store:
        memory = import_agentscope_java(
            arguments.directory, store=store, session_id=arguments.session, user_id=arguments.user
        )
        originals, uuids = len(memory.get_original_memory_msgs()), len(memory.get_offload_context())
        screen.line(f"{originals:,} messages, {len(memory.messages):,} of them in view, {uuids:,} offload entries read")
        screen.line(f"into session {memory.session.session_id}")


def copy(screen: Screen, arguments: argparse.Namespace) -> None:
    """Copy a database, or the sessions of a user."""
    from autocontext import AutoContext  # noqa: PLC0415 (only two commands need all parts)
    from autocontext.stores.copying import Progress, copy_sessions  # noqa: PLC0415

    def show_progress(progress: Progress) -> None:
        text = f"session {progress.done} of {progress.total}: {progress.session.session_id}"
        screen.progress(text, progress.done / progress.total)

    if _is_one_database(arguments.db, arguments.to):
        raise AutoContextError("TO is DB itself; give another database")
    with stored.open_sessions(arguments.db) as source, contextlib.ExitStack() as opened:
        infos = stored.sessions_of(source, arguments.user)  # before a file is made for nothing
        target = opened.enter_context(stored.open_sessions(arguments.to, create=True))
        if arguments.user is None:
            AutoContext(source.database).copy_to(AutoContext(target.database), progress=screen.progress)
            others = "with contents, cached results, memories and saved states"
        else:
            copy_sessions(source, target, user_id=arguments.user, progress=show_progress)
            others = "without contents, cached results, memories and saved states"
        screen.done()
        sessions = "1 session is" if len(infos) == 1 else f"{len(infos):,} sessions are"
        screen.line(f"{sessions} in {target.database.name}, {others}")


def _is_one_database(db: str, to: str) -> bool:
    """Whether two paths or URLs name the same database."""
    on_servers = ["://" in place for place in (db, to)]
    if all(on_servers):
        return parsed(db).options == parsed(to).options
    if any(on_servers):
        return False
    return db == to or (Path(db).exists() and Path(to).exists() and Path(db).samefile(to))


def purge(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Delete one session, or the expired ones."""
    from autocontext import AutoContext  # noqa: PLC0415 (only this command needs all parts)

    with stored.open_sessions(arguments.db) as store:
        if arguments.session is None:
            screen.line(f"{store.purge_expired():,} expired sessions deleted")
            try:
                store.scrub()  # also what an earlier purge could not take out of the files
            except StoreError as e:
                screen.complain(str(e))
                return False
            return True
        info = stored.session_info(store, arguments.user, arguments.session)
        children = len(below(store, info.key))
        theirs = f", and {children:,} sub-agents' sessions" if children else ""
        if not arguments.yes:
            if not sys.stdin.isatty():
                raise AutoContextError("purge deletes a session permanently; confirm with --yes")
            print(
                f"Permanently delete session {stored.session_name(info)} with {info.entries:,} entries{theirs}? [y/N] ",
                end="",
                flush=True,
            )
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                screen.line("nothing was deleted")
                return False
        deleted = f"session {stored.session_name(info)} deleted{theirs}"
        try:
            # Also the contents and cached results that were made of it; a database of sessions only has none.
            AutoContext(store.database).delete(info.session_id, user_id=info.user_id)
        except StoreError as e:
            if store.read(info.key, until=1):
                raise
            screen.complain(f"{deleted}, but {e}")
            return False
        screen.line(deleted)
    return True


def stats(screen: Screen, arguments: argparse.Namespace) -> None:
    """Show how much is stored."""
    with stored.open_sessions(arguments.db) as store:
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
