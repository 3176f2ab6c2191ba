"""Which calls read instructions for the agent: files such as AGENTS.md, and skills.

The name of the file or of the tool decides, never what the text says.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from fnmatch import translate
from typing import Any, NamedTuple

from autocontext.caches import cached
from autocontext.messages import ToolUseBlock
from autocontext.notes.calls import PATH_KEYS, REMARKS, command_line, commands_of, path_of, words_of, writes
from autocontext.notes.readings import reading_of

_READS = frozenset({"read", "view", "open", "cat", "get", "show", "load", "fetch"})
"""Words of the names of tools, or of an editor's command, that read a file."""
_OPENS = _READS - {"get", "show", "fetch"}
"""And that read the files of a list: others get what a tool knows of them."""
_LISTS = (*PATH_KEYS, "paths", "files", "file_paths", "filePaths", "file_names", "filenames", "uris", "include")
"""Arguments with several files."""
_PROGRAMS = frozenset({"cat", "nl", "bat", "less", "more", "head", "tail", "sed", "get-content", "gc", "type"})
_IN_PART = frozenset(
    {"head", "tail", "sed", "grep", "egrep", "rg", "awk", "cut", "select", "select-object", "select-string", "findstr"}
)
"""Programs that show a part of what they read."""
_FEW_LINES = re.compile(r"\s-(?:totalcount|tail|first|head|last)\b", re.IGNORECASE)
"""Options of Get-Content that do."""
_LEAST_STEM = 3
"""Characters of a file's name before its ending: "e.g" is none."""
_PATTERN = re.compile(r"[*?\[\]]")
"""A sign of a pattern for names."""
_ABSOLUTE = re.compile(r"[/~]|[A-Za-z]:/|\w+://")


class Instructions(NamedTuple):
    """What a call reads."""

    names: tuple[str, ...]
    """Paths of the files in one spelling, or the call of the skill."""
    label: str
    """The paths as the call has them, or the call in short, on one line."""
    part: str
    """What it reads of them: equal for equal parts; "" for all."""
    surely: bool
    """Whether equal names mean the same thing: a relative path depends on the folder."""

    def covers(self, older: Instructions) -> bool:
        """Whether this call reads at least what an older one has read, as far as the names say."""
        return self.part in ("", older.part) and all(any(_same(a, b) for b in self.names) for a in older.names)


def instructions_of(use: ToolUseBlock, sources: tuple[str, ...]) -> Instructions | None:
    """What a call reads of these sources (file names and words of tools' names); None for any other call."""
    if not sources:
        return None
    is_source, tools = _matchers(sources)
    words = words_of(use.name)
    if not tools.isdisjoint(words):
        reading = reading_of(use)
        label = next((str(v) for v in use.input.values() if isinstance(v, str) and v.strip()), "")
        return Instructions((reading.subject,), f"{use.name} {label}".strip(), reading.part, surely=True)
    files = tuple(path for path in files_read(use) if is_source.match(f"/{_slashes(path).lower()}"))
    if not files:
        return None
    if line := command_line(use.input):
        programs = {command.split(None, 1)[0].lower() for command in commands_of(line)}
        whole = programs.isdisjoint(_IN_PART) and not _FEW_LINES.search(line)
        part = "" if whole else " ".join(line.split())
    else:
        part = reading_of(use).part if path_of(use.input) else _part_of_list(use.input)
    names = tuple(posixpath.normpath(_slashes(path)) for path in files)
    return Instructions(names, ", ".join(files), part, surely=all(map(_ABSOLUTE.match, names)))


def files_read(use: ToolUseBlock) -> tuple[str, ...]:
    """The files that a call reads, as it names them."""
    if line := command_line(use.input):
        return tuple(_files_read(line))
    path, command = path_of(use.input), use.input.get("command")
    words = (*words_of(use.name), *(words_of(command) if isinstance(command, str) else ()))
    if _READS.isdisjoint(words):
        return ()
    if path:
        return (path,)
    return tuple(path for path, _ in _listed(use.input)) if _OPENS.intersection(words) else ()


def _listed(arguments: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """The files in a list among the arguments, and whether more is said of one than its name."""
    for key in _LISTS:
        value = arguments.get(key)
        for item in value if isinstance(value, list | tuple) else ():
            path = path_of(item) if isinstance(item, Mapping) else item
            if isinstance(path, str) and path.strip():
                yield path, len(item) > 1 and not isinstance(item, str)


def _part_of_list(arguments: Mapping[str, Any]) -> str:
    """What a call reads of the files in its list; "" for all."""
    others = [(k, v) for k, v in arguments.items() if k not in _LISTS and k not in REMARKS and v]
    return str([*arguments.items()]) if others or any(more for _, more in _listed(arguments)) else ""


def named_in(text: str, path: str) -> str:
    """The name of a file if a text has it, in whatever folder: with an ending, not within a longer name; else ""."""
    name = posixpath.basename(_slashes(path))
    stem, dot, ending = name.rpartition(".")
    if not dot or len(stem) < _LEAST_STEM or not ending.isalnum() or _PATTERN.search(name):
        return ""
    alone = rf"(?<![A-Za-z0-9_.-]){re.escape(name)}(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
    return name if name in text and re.search(alone, text) else ""


@cached(64)
def _matchers(sources: tuple[str, ...]) -> tuple[re.Pattern[str], frozenset[str]]:
    """A pattern for paths in lower case from a "/" on, and the words of tools' names."""
    names = [name.lower() for name in sources]
    return re.compile("|".join(translate(f"*/{_slashes(name)}") for name in names)), frozenset(names)


def _slashes(path: str) -> str:
    return path.replace("\\", "/")


def _files_read(line: str) -> Iterator[str]:
    """The words after programs in a shell's command that show files."""
    for command in commands_of(line):
        program, *words = command.split()
        if program.lower() in _PROGRAMS and not writes(command) and (program != "sed" or words[:1] == ["-n"]):
            yield from (word.strip("\"'") for word in words if not word.startswith("-"))


def _same(a: str, b: str) -> bool:
    """Whether two paths may name one file: one of them may be relative."""
    return a == b or a.endswith(f"/{b}") or b.endswith(f"/{a}")
