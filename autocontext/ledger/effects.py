"""What a tool call does: reads, changes or runs something, and which things it changes.

The verbs in a tool's name decide; `AutoContextConfig(tool_effects={"deploy": "changes"})` extends the table. `shell`
parses command lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from autocontext.ledger import shell
from autocontext.plan import PLAN_TOOLS, lists_steps
from autocontext.text.rendering import one_line

Effect: TypeAlias = Literal["reads", "changes", "runs"]

VERBS: Mapping[str, Effect] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "read", "view", "open", "cat", "get", "list", "ls", "find", "search", "grep", "glob",
                "fetch", "lookup", "look", "show", "describe", "query", "select", "browse", "visit",
                "check", "calculate", "count", "think", "scroll", "goto", "inspect", "status", "retrieve",
                "load", "download", "crawl", "ask", "analyze", "context", "reload",
            ),
            "reads",
        ),
        **dict.fromkeys(
            (
                "write", "edit", "create", "insert", "replace", "append", "delete", "remove", "patch",
                "modify", "change", "update", "cancel", "book", "return", "exchange", "send", "refuel", "enable",
                "disable", "resume", "suspend", "grant", "revoke", "pay", "refund", "charge", "move",
                "rename", "copy", "add", "set", "put", "post", "save", "upload", "apply", "commit", "push",
                "merge", "deploy", "reset", "restart", "toggle", "transfer", "assign", "approve", "reject",
                "reply", "publish", "schedule", "install", "uninstall", "register", "reserve", "order",
                "close", "undo", "clear", "archive", "restore", "start", "stop", "turn", "upsert", "fork",
                "share", "invite", "subscribe", "unsubscribe", "drop", "lock", "unlock", "block",
                "unblock", "activate", "deactivate", "confirm", "reschedule", "rebook", "renew", "extend", "escalate",
                "issue", "upgrade", "downgrade", "notify", "forward", "attach", "detach", "redeem", "void", "adjust",
                "terminate", "scale", "rollback", "accept", "decline",
            ),
            "changes",
        ),
        **dict.fromkeys(
            (
                "bash", "shell", "sh", "exec", "execute", "run", "terminal", "command", "cmd",
                "powershell", "console", "python", "ipython", "test", "submit",
            ),
            "runs",
        ),
    }
)  # fmt: skip
"""The effect of a tool by the first of these words in its name."""
_ACTIONS = {
    "write": "written", "edit": "edited", "create": "created", "insert": "edited", "replace": "edited",
    "append": "appended to", "delete": "deleted", "remove": "removed", "patch": "edited", "modify": "modified",
    "update": "updated", "cancel": "canceled", "book": "booked", "return": "returned", "exchange": "exchanged",
    "send": "sent", "move": "moved", "rename": "renamed", "copy": "copied", "add": "added", "save": "written",
    "undo": "edit undone", "upsert": "written", "put": "written", "push": "pushed",
}  # fmt: skip
"""What a successful call with this verb did to a file."""
PATH_KEYS = ("path", "file_path", "filepath", "file_name", "filename", "file", "target_file", "notebook_path", "uri",
             "filePath", "fileName", "absolute_path", "AbsolutePath", "relative_path", "TargetFile")  # fmt: skip
COMMAND_KEYS = ("command", "cmd", "script", "shell_command")
_RECORD_KEY = re.compile(r"(?:^|_)(?:id|number|ref|key|uuid)s?$|Id$")
_SOURCE_KEYS = ("source", "source_path", "src", "old_path", "from_path", "from")
_TARGET_KEYS = ("destination", "destination_path", "dest", "dst", "new_path", "to_path", "target", "to")
_LIST_KEYS = ("paths", "file_paths", "files", "path", "edits", "replacements", "changes")
"""Arguments that list several files, as names or as objects with a name."""
_ABOUT_KEYS = ("to", "recipient", "recipients", "email", "channel", "branch", "subject", "title", "name", "table")
"""Arguments that describe a change without a record; the first two are used."""
_LONGEST_ABOUT = 60
_CONTENT_KEY = re.compile(
    r"old|new|content|text|body|message|search|replace|insert|command|code|line|position|mode|type|summary|reason"
)
"""Arguments with what is written, or how."""
_SQL_KEYS = ("sql", "statement", "query")
_EDITOR_READS = frozenset({"view", "read", "list", "show", "search", "open"})
"""Values of an editor tool's `command` that change nothing."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONGEST_THING = 200
_MOST_FILES = 30
_OPEN_FILE = re.compile(r"^\(Open file: ([^\n]{1,300})\)$", re.MULTILINE)
"""What SWE-agent's shell says below each result."""
_RESULT_END = 1_000
"""Characters at the end of a result that are searched for it."""
_PATCH = ("*** Begin Patch", "diff --git", "--- ")


class ThingChange(NamedTuple):
    """One thing that one call changes."""

    thing: str
    """A path, the identifier of a record, or the subject of a message."""
    action: str
    """What was done to it, as words to follow its name."""


@lru_cache(maxsize=1024)
def verb_of(tool: str) -> str:
    """The verb in a tool's name, in lower case; "" if `VERBS` has none of its words.

    The first one, except that "order_status" asks for a status, and "search_replace" and "get_or_create" change
    something. What stands before "__" is a server's name.
    """
    name = tool[:_LONGEST_THING]
    server, _, own = name.rpartition("__")
    words: list[str] = [w.lower() for w in _WORDS.findall(own)]
    verbs = [w for w in words if w in VERBS]
    if not verbs:
        return verb_of(server) if server else ""
    if verbs[0] in ("order", "issue", "book") and len(verbs) > 1:
        return verbs[1]
    if VERBS[verbs[0]] == "reads":
        also = (b for a, b in pairwise(words) if b == "replace" or a in ("and", "or"))
        return next((w for w in also if VERBS.get(w) == "changes"), verbs[0])
    return verbs[0]


def effect_of(tool: str, arguments: Mapping[str, Any], table: Mapping[str, Effect] | None = None) -> Effect | None:
    """What a call does; None if unknown. `table` takes precedence: whole names, then words of names."""
    if table:
        if tool in table:
            return table[tool]
        for word in _WORDS.findall(tool):
            if word.lower() in table:
                return table[word.lower()]
    command = arguments.get("command")
    verb = verb_of(tool)
    effect = VERBS.get(verb)
    if isinstance(command, str) and any(key in arguments for key in PATH_KEYS):
        # An editor with its own commands: {"command": "view", "path": ...}.
        return "reads" if command in _EDITOR_READS else VERBS.get(verb_of(command), effect)
    if command_line(arguments) and (effect is None or verb in ("send", "start", "put")):
        return "runs"
    return "runs" if tool.endswith("stdin") else effect


def command_line(arguments: Mapping[str, Any]) -> str:
    """The command that a call runs in a shell; "" if it runs none."""
    if any(key in arguments for key in PATH_KEYS):
        return ""
    for key in COMMAND_KEYS:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list | tuple) and value and all(isinstance(word, str) for word in value):
            # A script for a shell is used unquoted: ["bash", "-lc", "..."].
            return value[-1] if len(value) == 3 and value[1] in ("-c", "-lc") else shlex.join(value)
    return ""


def path_of(arguments: Mapping[str, Any]) -> str:
    """The file that a call is about; "" if its arguments name none."""
    for key in PATH_KEYS:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            return " ".join(value.split())[:_LONGEST_THING]
    return ""


def changes_of(tool: str, arguments: Mapping[str, Any], effect: Effect | None) -> Sequence[ThingChange]:
    """The things that a call changes if it succeeds."""
    changes = _changes_of(tool, arguments, effect)
    # A thing without printable characters gets the tool's name.
    return [
        c if one_line(c.thing).strip() else ThingChange(one_line(tool).strip() or "call", c.action) for c in changes
    ]


def with_open_file(changes: Sequence[ThingChange], result: str) -> tuple[ThingChange, ...]:
    """The changes of a command with the full path of the file that the result says is open."""
    match = _OPEN_FILE.search(result, max(0, len(result) - _RESULT_END))
    path = " ".join(match[1].split()) if match else ""
    if path in ("", "n/a"):
        return tuple(changes)
    return tuple(
        c._replace(thing=path) if c.thing == shell.OPEN_FILE or path.endswith("/" + c.thing.removeprefix("./")) else c
        for c in changes
    )


def _changes_of(tool: str, arguments: Mapping[str, Any], effect: Effect | None) -> Sequence[ThingChange]:
    if effect != "changes":
        line = command_line(arguments) if effect == "runs" else ""
        found = shell.changes(line) if line else _by_statement(tool, arguments)
        return [ThingChange(thing, action) for thing, action in found]
    if tool in PLAN_TOOLS or lists_steps(arguments):
        return ()  # plans have a part of their own
    if files := _files(tool, arguments):
        action = _file_action(tool, arguments)
        return [ThingChange(path, action) for path in files]
    if changes := shell.patch_changes(_patch_in(arguments)):
        return [ThingChange(" ".join(thing.split()), action) for thing, action in changes]
    if records := _records(arguments):
        return [ThingChange(records[0], _record_action(tool, records[1:]))]
    about = _about(arguments)
    about = about or _first_texts(arguments)
    return [ThingChange(about[0], _record_action(tool, about[1:])) if about else ThingChange(tool, "done")]


def _patch_in(arguments: Mapping[str, Any]) -> str:
    return next((v for v in arguments.values() if isinstance(v, str) and v.lstrip().startswith(_PATCH)), "")


def files_of_patch(arguments: Mapping[str, Any]) -> list[str]:
    """The files in a patch among the arguments."""
    return [thing for thing, _ in shell.patch_changes(_patch_in(arguments))]


def _by_statement(tool: str, arguments: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """The tables that a call's SQL changes."""
    for key in _SQL_KEYS:
        text = arguments.get(key)
        # A web search for "create table in markdown" is no statement.
        if isinstance(text, str) and (key != "query" or re.search("quer|sql|database|db", tool, re.IGNORECASE)):
            return shell.sql_changes(text)
    return ()


def _files(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    """The files that a call changes, if its arguments name them."""
    if path := path_of(arguments):
        return [path]
    if verb_of(tool) in ("move", "rename", "copy"):
        return [path for key in _SOURCE_KEYS if (path := path_of({"path": arguments.get(key)}))][:1]
    lists = (v for key in _LIST_KEYS if isinstance(v := arguments.get(key), list | tuple))
    items = (item if isinstance(item, dict) else {"path": item} for values in lists for item in values)
    return list(dict.fromkeys(path for item in items if (path := path_of(item))))[:_MOST_FILES]


def _file_action(tool: str, arguments: Mapping[str, Any]) -> str:
    command = arguments.get("command")
    verb = verb_of(command) if isinstance(command, str) else ""
    target = next((v for k in _TARGET_KEYS if isinstance(v := arguments.get(k), str)), "")
    action = _ACTIONS.get(verb or verb_of(tool), f"changed by {tool}")
    return f"{action} to {target[:_LONGEST_THING]}" if target and action in ("moved", "renamed", "copied") else action


def _record_action(tool: str, others: Sequence[str]) -> str:
    return tool + (f" ({', '.join(others)})" if others else "")


def _about(arguments: Mapping[str, Any]) -> list[str]:
    """What a call without a record is about: a recipient, a subject, a title."""
    texts = [" ".join(v.split()) for key in _ABOUT_KEYS if isinstance(v := arguments.get(key), str)]
    return [text for text in texts if 0 < len(text) <= _LONGEST_ABOUT][:2]


def _first_texts(arguments: Mapping[str, Any]) -> list[str]:
    """The first two short texts among the arguments that are no content: {"train": "ICE 71", "seat": "window"}."""
    named = (v for k, v in arguments.items() if isinstance(v, str) and not _CONTENT_KEY.match(k))
    texts = [" ".join(value.split()) for value in named]
    return [text for text in texts if 1 < len(text) <= _LONGEST_ABOUT][:2]


def _records(arguments: Mapping[str, Any]) -> list[str]:
    """Identifiers in the arguments, the most specific first: {"customer_id": "C1", "line_id": "L2"} -> L2, C1."""
    records = [
        str(value).strip()[:_LONGEST_THING]
        for key, value in arguments.items()
        if isinstance(value, str | int)
        and not isinstance(value, bool)
        and _RECORD_KEY.search(key)
        and str(value).strip()
    ]
    broad = [v for k, v in arguments.items() if k in ("user_id", "customer_id", "account_id") and str(v) in records]
    special = [x for x in records if x not in map(str, broad)]
    return list(dict.fromkeys([*special, *map(str, broad)]))[:3] or _listed_records(arguments)


def _listed_records(arguments: Mapping[str, Any]) -> list[str]:
    """The first identifiers of a list: {"row_ids": [1, 2]}."""
    lists = (v for k, v in arguments.items() if isinstance(v, list | tuple) and _RECORD_KEY.search(k))
    records = (str(x).strip()[:_LONGEST_THING] for items in lists for x in items[:3] if isinstance(x, str | int))
    return [text for text in records if text][:3]
