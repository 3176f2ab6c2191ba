"""Which files a command line writes, as far as its text tells: redirections, here-documents, tee, sed -i, mv, rm, git ..."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_LONGEST = 4_000
"""Characters of a command that are looked at."""
_MOST = 30
"""Files that one command is said to change."""
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_TOKEN = re.compile(
    r"""(?P<redirect>(?:\d|&)?>{1,2}\|?(?:&\d?-?)?)
      | (?P<end>\|\||&&|[;&|\n()])
      | (?P<word>(?:[^\s;&|<>()'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*"|\\)+)
      | (?P<other>[<'"]|<<)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTES = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)
_PREFIXES = frozenset({"sudo", "time", "env", "nohup", "command", "exec", "xargs", "then", "do", "else", "!"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_GIT_WHOLE = {
    "commit": "git commit", "merge": "git merge", "rebase": "git rebase", "push": "git push", "stash": "git stash",
    "apply": "git apply", "am": "git am", "reset": "git reset", "cherry-pick": "git cherry-pick", "revert": "git revert",
}  # fmt: skip
_LAST_IS_TARGET = {"cp": "copied", "ln": "linked", "rsync": "copied", "install": "copied"}
_EACH_IS_TARGET = {
    "rm": "deleted", "rmdir": "deleted", "touch": "created", "mkdir": "created", "tee": "written", "truncate": "written",
    "unlink": "deleted", "shred": "deleted", "patch": "edited", "chmod": "mode changed",
}  # fmt: skip


def changes(command: str) -> list[tuple[str, str]]:
    """The files and what was done to each, in order, without repetition."""
    found: dict[tuple[str, str], None] = {}
    for words, redirects in _commands(_without_documents(command[:_LONGEST])):
        for change in (*_by_redirects(redirects), *_by_program(words)):
            if _is_file(change[0]):
                found[change] = None
    return list(found)[:_MOST]


def _without_documents(command: str) -> str:
    """The command without the bodies of its here-documents, which are data."""
    if "<<" not in command:
        return command
    kept, waiting = [], ""
    for line in command.split("\n"):
        if waiting:
            waiting = "" if line.strip() == waiting else waiting
            continue
        kept.append(line)
        if document := _HEREDOC.search(line):
            waiting = document.group(2)
    return "\n".join(kept)


def _commands(text: str) -> Iterator[tuple[list[str], list[tuple[str, str]]]]:
    """Simple commands: their words, and their redirections with the files."""
    words: list[str] = []
    redirects: list[tuple[str, str]] = []
    pending = ""
    for token in _TOKEN.finditer(text):
        kind, value = token.lastgroup, token.group()
        if kind == "redirect":
            pending = "" if "&" in value[1:] else value
        elif kind == "word":
            if pending:
                redirects.append((pending, _unquoted(value)))
            else:
                words.append(_unquoted(value))
            pending = ""
        elif kind == "end":
            yield words, redirects
            words, redirects, pending = [], [], ""
    yield words, redirects


def _unquoted(word: str) -> str:
    if "'" not in word and '"' not in word and "\\" not in word:
        return word
    return _QUOTES.sub(lambda m: next((g for g in m.groups() if g is not None), ""), word)


def _by_redirects(redirects: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for sign, target in redirects:
        yield target, "appended to" if ">>" in sign else "written"


def _by_program(words: list[str]) -> Iterator[tuple[str, str]]:
    words = _bare(words)
    if not words:
        return
    program, rest = words[0].rsplit("/", 1)[-1], words[1:]
    plain = [w for w in rest if w and not w.startswith("-")]
    if program in _EACH_IS_TARGET:
        skip = 1 if program == "chmod" else 0
        yield from ((w, _EACH_IS_TARGET[program]) for w in plain[skip:])
    elif program in _LAST_IS_TARGET and len(plain) > 1:
        yield plain[-1], f"{_LAST_IS_TARGET[program]} from {plain[0]}"
    elif program == "mv" and len(plain) > 1:
        yield from ((w, f"moved to {plain[-1]}") for w in plain[:-1])
    elif program in ("sed", "perl", "gsed") and any(re.match(r"-[a-zA-Z]*i", w) or w == "--in-place" for w in rest):
        scripted = any(w in ("-e", "-f", "--expression") for w in rest)
        yield from ((w, "edited by sed") for w in (plain if scripted else plain[1:]))
    elif program == "git":
        yield from _by_git(plain)


def _by_git(plain: list[str]) -> Iterator[tuple[str, str]]:
    action, rest = (plain[0], plain[1:]) if plain else ("", [])
    if action == "rm":
        yield from ((w, "deleted") for w in rest)
    elif action == "mv" and len(rest) > 1:
        yield rest[0], f"moved to {rest[-1]}"
    elif action in ("checkout", "restore") and rest and ("/" in rest[-1] or "." in rest[-1]):
        yield rest[-1], f"restored by git {action}"
    elif action in _GIT_WHOLE:
        yield _GIT_WHOLE[action], "done"


def _bare(words: list[str]) -> list[str]:
    """The words from the program's name on."""
    at = 0
    while at < len(words) and (words[at] in _PREFIXES or _ASSIGNMENT.match(words[at])):
        at += 1
    return words[at:]


def _is_file(name: str) -> bool:
    """Whether a word can be a file's name: no device, number, option or pattern that is no name."""
    return bool(name) and len(name) <= 300 and not name.startswith(("/dev/", "-", "$(")) and not name.isdigit() and "\n" not in name
