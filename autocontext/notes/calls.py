"""The calls of a history: what each says of itself, and which part of a note it belongs to.

Nothing here judges: a label is made of the arguments, and the small tables of reading tools and programs only choose
between "calls" and "looked at". An unknown tool counts as doing.
"""

from __future__ import annotations

import json
import re
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, Literal, TypeAlias

from autocontext.caches import cached
from autocontext.messages import ToolUseBlock
from autocontext.notes.answers import Answer
from autocontext.notes.commands import LONGEST_COMMAND, places_of, starts
from autocontext.notes.pieces import LONG
from autocontext.notes.values import LONGEST_TEXT, LONGEST_VALUE
from autocontext.plan import is_plan_call, lists_steps
from autocontext.text.protocol_results import RECORD_KEY
from autocontext.text.rendering import LONGEST_NAME, one_line, start_of_word, tool_name

Effect: TypeAlias = Literal["reads", "changes", "runs"]

PATH_KEYS = ("path", "file_path", "filepath", "file_name", "filename", "file", "target_file", "notebook_path", "uri",
             "filePath", "fileName", "absolute_path", "AbsolutePath", "relative_path", "TargetFile")  # fmt: skip
COMMAND_KEYS = ("command", "cmd", "script", "shell_command")
_MAIN_ARGUMENTS = (
    "url", "query", "order_id", "reservation_id", "line_id", "customer_id", "user_id", "product_id", "id",
    "flight_number", "code", "expression", "name", "pattern", "question",
)  # fmt: skip
"""Arguments that describe best a call without a file and a command."""
REMARKS = frozenset({"description", "explanation", "justification", "thought", "timeout"})
"""Arguments that say why or how a command is run."""
_REPLACED_KEY = re.compile(r"old|search|find|before", re.IGNORECASE)
"""Arguments with the text that a call replaces."""
_REPLACING_KEY = re.compile(r"new|replace|after", re.IGNORECASE)
"""Arguments with the text that comes in its place, which may be empty."""
_READS = frozenset(
    {
        "read", "view", "open", "cat", "get", "list", "ls", "find", "search", "grep", "glob", "fetch", "lookup", "look",
        "show", "describe", "query", "select", "browse", "visit", "check", "calculate", "count", "think", "scroll",
        "inspect", "retrieve", "load", "crawl", "analyze", "status", "reload",
    }
)  # fmt: skip
"""First words of the names of tools that only look."""
_READING_PROGRAMS = frozenset(
    {
        "cat", "nl", "bat", "head", "tail", "less", "more", "grep", "egrep", "rg", "ls", "find", "wc", "tree", "stat",
        "file", "sort", "uniq", "cut", "column", "jq", "xxd", "strings", "cd", "echo", "pwd", "which", "ps", "df", "du",
        "id", "whoami", "uname", "date", "hostname", "printenv", "awk", "diff", "tr", "test", "[",
    }
)  # fmt: skip
"""Programs that only read, unless a redirection follows; with options below."""
_READING_COMMANDS = re.compile(r"sed -n |git (?:-C \S+ )?(?:log|show|diff|status|blame|grep)\b")
_SQL_KEYS = ("query", "sql", "statement")
_SQL_TOOLS = frozenset({"sql", "psql", "mysql", "sqlite", "postgres", "db", "database"})
"""Words of the names of tools whose queries are statements, whatever they begin with."""
_SQL_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_SQL_COMMENT = re.compile(r"--[^\n'\"]*(?=\n|$)|/\*[^'\"]*?\*/")
"""With a quote in it, it may be a part of a text."""
_SQL_READS = re.compile(r"\s*(?:select|with|values|show|explain|describe|table)\b", re.IGNORECASE)
_SQL_EVIDENCE = re.compile(
    r"\s*(?:(?:(?:explain|with)\b.*?\b)?select\s+(?:[\d('*]|.*\bfrom\b)"
    r"|insert\s+into\b|update\s+\S+\s+set\b|delete\s+from\b|merge\s+into\b"
    r"|(?:create|alter|drop|truncate)\s+(?:or\s+replace\s+)?(?:temp|table|view|index|schema|function|materialized|unique)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""What begins a statement, and no question in words that begins like one."""
_SQL_WRITES = re.compile(
    r"\b(?:insert|update|delete|merge|replace\s+into|into|create|alter|drop|truncate|grant|revoke|call|copy|lock|vacuum"
    r"|begin|commit|set|nextval|setval)\b",
    re.IGNORECASE,
)
"""What changes something, wherever it stands; a name in quotes does not."""
_READS_AT_END = frozenset({"search", "lookup"})
"""Last words of the names of such tools: web_search."""
_OF_LOOP = re.compile(
    r"(?:(?:do|then|else|if|while|until|!)\s+)*(?:for \w+ in .*|(?:done|fi|do|then|else)$)?", re.DOTALL
)
"""What a loop or a condition of a shell puts before a command."""
_XARGS = re.compile(r"xargs\s+(?:-[0rt]+\s+|-[nPLI]\s*\S+\s+)*")
"""What runs the command behind it on each line."""
_QUOTED = r"'[^'\n]*'|\"(?:[^\"\\\n]|\\.)*\""
_COMMAND = re.compile(rf"(?:{_QUOTED}|\\.|(?<=>)&|&(?=>)|[^;|&\n])+")
"""A command, up to what joins it to the next one outside of quotes."""
_IN_QUOTES = re.compile(rf"{_QUOTED}|\\.")
_AWK_DOES = re.compile(r"[>|]|system")
_WRITES = re.compile(
    r"(?<![0-9&>])>(?!&|\s?/dev/null)|<<|\s-(?:delete|exec\w*|ok)\b|\A(?:sed|sort)\b.*\s-(?:\w*[io]\b|-in-place|-output)"
)
_SUBSTITUTES = re.compile(r"'[^'\n]*'|(?P<command>\$\(|`)")
"""Runs another command for its output, outside of single quotes."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PATCH = ("*** Begin Patch", "diff --git", "--- ")
_PATCHED_FILE = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)(\S[^\n\t]{0,300})", re.MULTILINE)
_DULL = re.compile(
    r"\s*(?:#|//|/\*|\*|\"\"\"|'''|import\b|from \S+ import\b|use |package |<[?!]|-{3}|\W*$|\w{1,20}:\s*$)"
)
"""The beginning of a line that says little about a new text: a comment, an import, brackets, one word ("else:")."""

AROUND = 60
"""Messages of a stretch. What is told of a message depends on its stretch, the one before and the next one."""
MOST_CALLS = 1_000
"""One note tells of the newest calls, so its cost does not grow with the history."""
MOST_MESSAGES = 400
"""Newest messages among which answers to the user, and the end of something, are looked for."""
_LONGEST = 240
"""Characters of a label."""
_SHORT = 60
"""Characters of an argument that belongs to the label; a longer one is content."""
_TAG = re.compile(r"\s*</?[\w-]{1,60}>\s*")
_LINE_ENDS = ",;"
_LEAST_NEW = 2
"""Letters and digits of a line that shows what is written."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call and what came back."""

    number: int
    """Number of the message with the call."""
    name: str
    label: str
    """Its arguments in short: a file and short arguments, a command's first line, or its main arguments."""
    digest: int
    """What equal calls share: of the tool and its arguments."""
    looks: bool
    """Whether it only looks at something, as far as its name and its command tell."""
    plans: bool = False
    """Whether it makes or changes a plan, which has a part of its own."""
    thing: str = ""
    """The file or record that it names; "" if it names none."""
    new: str = ""
    """The first telling line of the text that it writes; "" if it writes none."""
    command: str = ""
    """The command that it runs in a shell; "" if it runs none."""
    places: tuple[tuple[str, str], ...] = ()
    """What it changes of where the agent is: the folder, the branch ..., with its words."""
    starts: bool = False
    """Whether what it starts goes on after its answer."""
    result: int = 0
    """Number of the message with its result; 0 without one."""
    block: int = 0
    """Index of the result in that message."""
    is_error: bool = False
    """Whether the result is marked as an error."""
    typed: bool = False
    """Whether it is a command in a text of the agent."""
    answer: Answer | None = None

    def __hash__(self) -> int:  # every note asks for it thousands of times; the dataclass's own hashes all fields
        return self.number ^ self.digest


def call_of(use: ToolUseBlock, number: int, table: Mapping[str, Effect]) -> Call:
    """The Call for a block, without its result."""
    arguments = use.input
    plans, command = is_plan_call(use), command_line(arguments)
    name = tool_name(_short_line(use.name, LONGEST_NAME)) or "call"
    return Call(
        number=number,
        name=name,
        label="" if plans else label_of(arguments),
        digest=zlib.crc32(name.encode("utf-8", "surrogatepass"), digest_of(arguments)),
        looks=looks(use.name, arguments, table),
        plans=plans,
        thing="" if plans else thing_of(arguments),
        new="" if plans else new_text(arguments),
        command=command,
        places=places_of(use.name, arguments, command),
        starts=starts(arguments, command),
    )


def digest_of(arguments: Mapping[str, Any]) -> int:
    """Equal for equal arguments, in whatever order."""
    text = repr(sorted(arguments.items(), key=itemgetter(0)))[:LONGEST_TEXT]
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


# --------------------------------------------------------------------------------------------------- what it is about
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
            return " ".join(value.split())[:LONGEST_VALUE]
    return ""


def thing_of(arguments: Mapping[str, Any]) -> str:
    """The file or record that a call names; "" if it names none."""
    if path := path_of(arguments) or next(iter(files_of_patch(arguments)), ""):
        return one_line(path)
    records = (v for k, v in arguments.items() if RECORD_KEY.search(k) and isinstance(v, str | int))
    return next((one_line(str(v))[:_SHORT] for v in records if not isinstance(v, bool) and str(v).strip()), "")


def files_of_patch(arguments: Mapping[str, Any]) -> list[str]:
    """The files in a patch among the arguments."""
    patch = next((v for v in arguments.values() if isinstance(v, str) and v.lstrip().startswith(_PATCH)), "")
    return list(dict.fromkeys(_PATCHED_FILE.findall(patch[:LONGEST_TEXT])))


def label_of(arguments: Mapping[str, Any]) -> str:
    """A file with short arguments, a command's first line, or the main arguments, on one line; "" without any."""
    if command := command_line(arguments):
        line = next((line for line in command[:LONGEST_COMMAND].splitlines() if line.strip()), "")
        return _short_line(line, _LONGEST)
    if path := path_of(arguments):
        return _short_line(" ".join(filter(None, (path, *_details(arguments), *_flags(arguments)))), _LONGEST)
    if patched := files_of_patch(arguments):
        return _short_line(", ".join(patched), _LONGEST)
    texts = {k: text for k, v in arguments.items() if _is_plain(v) and (text := str(v).strip())}
    main = next((texts[key] for key in (*_MAIN_ARGUMENTS, *texts) if key in texts), "")
    inside = [_inside(k, v) for k, v in arguments.items() if _is_filled(v)]
    others = [v for v in (*texts.values(), *inside) if v != main and len(v) <= _SHORT and "\n" not in v]
    return _short_line(", ".join(filter(None, (_first_line(main), *others, *_flags(arguments)))), _LONGEST)


def _first_line(text: str) -> str:
    """The first line of a text that is more than a tag."""
    lines = text.split("\n")
    return next((line for line in lines if line.strip() and not _TAG.fullmatch(line)), lines[0])


def _details(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Short arguments beside a file, without a text that another one replaces."""
    for key, value in arguments.items():
        if key in PATH_KEYS or key in REMARKS or (_REPLACED_KEY.search(key) and _replaces(arguments)):
            continue
        if isinstance(value, list | tuple) and 0 < len(value) <= 3 and all(type(v) is int for v in value):
            yield f"{key} {'-'.join(map(str, value))}"
        elif _is_filled(value) and not _replaces(dict(_texts(value))):
            yield _inside(key, value)
        elif _is_plain(value) and not isinstance(value, str):
            yield f"{key} {value}"
        elif isinstance(value, str) and "\n" not in value and len(value) <= _SHORT:
            yield value


def _replaces(keys: Iterable[str]) -> bool:
    """Whether arguments of these names replace one text by another: what is new has a place of its own."""
    return all(any(map(kind.search, keys)) for kind in (_REPLACED_KEY, _REPLACING_KEY))


def _flags(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Arguments that say nothing without their keys; they stand last, since many say little."""
    return filter(None, (_told(k, v) for k, v in arguments.items() if not _is_plain(v) and not _is_filled(v)))


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _is_filled(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple) and bool(value)


def _told(key: str, value: Any) -> str:
    """A text or a number; true, false and an empty list with the key."""
    return str(value).strip() if _is_plain(value) else "" if value is None else f"{key}={json.dumps(value)}"


def _inside(key: str, value: Any) -> str:
    """The short values inside a list or object, on one short line; longer ones are content."""
    told = (_told(k, v) for k, v in _leaves(value, key))
    short = (text for text in told if 0 < len(text) <= _SHORT and "\n" not in text)
    return shorten(", ".join(islice(short, _SHORT)), _SHORT)


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """What stands in lists and objects, in order, with its key; an empty one stands for itself."""
    waiting = [(key, value)]
    while waiting:
        key, value = waiting.pop()
        if _is_filled(value):
            inner = value.items() if isinstance(value, Mapping) else ((key, v) for v in value)
            waiting += reversed(list(inner))
        else:
            yield key, value


def facts_of(use: ToolUseBlock) -> Mapping[str, Any]:
    """The arguments that may be needed again: not those that only explain a command, and not a plan's steps."""
    if lists_steps(use):
        return {}
    arguments = use.input
    return {k: v for k, v in arguments.items() if k not in REMARKS} if command_line(arguments) else arguments


# -------------------------------------------------------------------------------------------------- what it writes
def new_text(arguments: Mapping[str, Any]) -> str:
    """The first telling line of what a call writes and what was not there before; "" if it writes nothing.

    With a minus, the first line that it only takes away; with "…" at its end if there are more.
    """
    replaced: list[str] = []
    removed: list[str] = []
    written: list[str] = []
    texts = list(_texts(arguments))
    replaces = any(_REPLACING_KEY.search(key) for key, _ in texts)
    for key, text in texts:
        lines = text[:LONGEST_TEXT].splitlines()
        if _REPLACED_KEY.search(key):
            replaced += lines
            removed += lines if replaces else []
        elif text.lstrip().startswith(_PATCH):
            written += [line for line in lines if line.startswith("+") and not line.startswith("+++")]
            removed += [line[1:] for line in lines if line.startswith("-") and not line.startswith("---")]
        elif key in COMMAND_KEYS or key == "code":
            written += lines[1:]
        elif key not in PATH_KEYS and key not in REMARKS and (len(lines) > 1 or len(text) > _SHORT):
            written += lines
    if not written and replaced:  # a short replacement
        written = [text for key, text in texts if key not in PATH_KEYS and not _REPLACED_KEY.search(key)]
    # The line above an addition may have got a comma.
    new = _others(written, replaced, _LINE_ENDS) or _others(written, replaced)
    new = new or [f"- {line.strip()}" for line in _others(removed, written)]
    line = next((line for line in new if not _DULL.match(line.lstrip("+- "))), new[0] if new else "")
    short = _short_line(line, LONG)
    return short if len(new) < 2 or short.endswith("…") else f"{short}…"


def _others(lines: Iterable[str], known: Iterable[str], ignored: str = "") -> list[str]:
    """The lines that say something and are not among the known ones, however they are indented and what ends them."""
    old = {line.strip().rstrip(ignored) for line in known}
    telling = (line for line in lines if sum(map(str.isalnum, line)) >= _LEAST_NEW)
    return [line for line in telling if line.strip().rstrip(ignored) not in old]


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """The texts of arguments with their keys, those of objects in lists included."""
    return ((key, text) for key, text in _leaves(value) if isinstance(text, str))


# ------------------------------------------------------------------------------------------------ whether it only looks
def looks(tool: str, arguments: Mapping[str, Any], table: Mapping[str, Effect] | None = None) -> bool:
    """Whether a call only looks at something; `table` says so of tools by name or by a word of their names."""
    words = words_of(tool)
    for name in (tool, *words):
        if table and name in table:
            return table[name] == "reads"
    if line := command_line(arguments):
        return len(line) <= LONGEST_COMMAND and all(map(_only_reads, commands_of(line)))
    command = arguments.get("command")
    if isinstance(command, str) and (inner := words_of(command)):  # an editor: {"command": "view", "path": ...}
        return inner[0] in _READS
    sql = next((value for key in _SQL_KEYS if isinstance(value := arguments.get(key), str)), "")
    if (selects := _only_selects(sql, words)) is not None:
        return selects
    reads = bool(words) and (words[0] in _READS or words[-1] in _READS_AT_END)
    return reads and not ("and" in words or "or" in words or "replace" in words)


def _only_selects(text: str, words: Iterable[str]) -> bool | None:
    """Whether statements of SQL only select; None for what is none. `words`: of the name of the tool."""
    bare = _SQL_QUOTED.sub("''", _SQL_COMMENT.sub(" ", text[:LONGEST_COMMAND]))
    statements = [part for part in bare.split(";") if part.strip()]
    if not statements or (_SQL_TOOLS.isdisjoint(words) and not _SQL_EVIDENCE.match(statements[0])):
        return None
    reads = all(_SQL_READS.match(part) and not _SQL_WRITES.search(part) for part in statements)
    return reads and len(text) <= LONGEST_COMMAND


def _only_reads(command: str) -> bool:
    command = _XARGS.sub("", _OF_LOOP.sub("", command, 1))
    program = command.split(None, 1)[0] if command else ""
    runs_another = any(match["command"] for match in _SUBSTITUTES.finditer(command))
    if runs_another or writes(command) or (program == "awk" and _AWK_DOES.search(command)):
        return False
    return not command or program in _READING_PROGRAMS or _READING_COMMANDS.match(command) is not None


def commands_of(line: str) -> list[str]:
    """The commands of a shell's line, without what joins them."""
    return [part for part in map(str.strip, _COMMAND.findall(line[:LONGEST_COMMAND])) if part]


def writes(command: str) -> bool:
    """Whether the words of one of `commands_of` write a file: by a redirection, or in place."""
    return _WRITES.search(_IN_QUOTES.sub("''", command)) is not None


@cached(1024)
def words_of(tool: str) -> tuple[str, ...]:
    """The words of a tool's own name, in lower case; what stands before "__" or "." is a server's."""
    own = re.split(r"__|\.", tool[:LONGEST_VALUE])[-1]
    return tuple(word.lower() for word in _WORDS.findall(own))


# --------------------------------------------------------------------------------------------------------- shortening
def _short_line(text: str, longest: int) -> str:
    """A text on one line, cut between words."""
    return shorten(one_line(text[: 4 * longest]), longest)


def shorten(text: str, longest: int) -> str:
    """A line cut between words to at most `longest` characters, with "…" if it was cut."""
    if len(text) <= longest:
        return text
    half = longest // 2
    at = text.rfind(" ", half, longest)
    return text[: at if at >= 0 else start_of_word(text, longest - 1, half)].rstrip() + "…"
