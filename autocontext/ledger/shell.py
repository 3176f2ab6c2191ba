"""Finds the files that a command line changes: redirections, here-documents, tee, sed -i, mv, git ..."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

_LONGEST = 4_000
"""Characters of a command that are parsed, without here-documents."""
_LONGEST_PATCH = 400_000
_MOST = 30
"""Most files of one command."""
_DEEPEST = 3
"""Depth of nested shells: bash -c "bash -c ..."."""
_HEREDOC = re.compile(r"(?<!<)<<(?!<)-?[ \t]*(['\"]?)\\?([A-Za-z_]\w*)\1")
_TOKEN = re.compile(
    r"""(?P<comment>(?<![^\s;&|(])\#[^\n]*)
      | (?P<test>\[\[\s.*?\s\]\]|\(\(.*?\)\))
      | (?P<redirect>(?:\d|&)?>{1,2}(?!=)\|?(?:&\d?-?)?)
      | (?P<input>\d?<{1,3}(?!\())
      | (?P<end>\|\||&&|[;&|\n()])
      | (?P<word>(?:\$\{[^}\n]*\}|[^\s;&|<>()'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*"|\\)+)
      | (?P<other>[<'"])""",
    re.VERBOSE | re.DOTALL,
)
_QUOTES = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)
_PREFIXES = frozenset(
    {"sudo", "time", "env", "nohup", "command", "exec", "xargs", "then", "do", "else", "!", "{", "timeout", "nice"}
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_GIT_WHOLE = frozenset(
    {"commit", "merge", "rebase", "push", "stash", "apply", "am", "reset", "cherry-pick", "revert", "pull", "clean"}
)
_GIT_ASKS = frozenset({"--abort", "--dry-run", "-n", "--check", "--stat", "list", "show", "--quit"})
"""With these, such a command changes nothing."""
_LAST_IS_TARGET = {"cp": "copied", "ln": "linked", "rsync": "copied", "install": "copied"}
_EACH_IS_TARGET = {
    "rm": "deleted", "rmdir": "deleted", "unlink": "deleted", "shred": "deleted", "touch": "created",
    "create": "created",
    "mkdir": "created", "tee": "written", "truncate": "written", "patch": "edited",
    "chmod": "mode changed", "chown": "owner changed",
}  # fmt: skip
_LEADING_WORDS = {"chmod": 1, "chown": 1}
"""Number of first words that are no files."""
_ONLY_FIRST = frozenset({"patch"})
_WITH_VALUE = {
    "install": ("-m", "-o", "-g"), "truncate": ("-s", "-r"), "mkdir": ("-m",), "touch": ("-d", "-t", "-r"),
    "patch": ("-i", "-d"), "sudo": ("-u", "-g"), "nice": ("-n",), "xargs": ("-I", "-n", "-P", "-L", "-d"),
    "rsync": ("-e",), "git": ("-C", "-c", "-m", "-b", "-B"),
    "kubectl": ("-n", "--namespace", "--context", "-o", "-c", "-l"), "helm": ("-n", "--namespace", "--kube-context"),
    "gh": ("--body", "-b", "--head", "--base", "-R", "--repo"), "aws": ("--region", "--profile"),
}  # fmt: skip
"""Options with a value in the next word."""
_OUTPUT = {"curl": ("-o", "--output"), "wget": ("-O", "--output-document"), "sort": ("-o", "--output"),
           "gcc": ("-o",), "g++": ("-o",), "cc": ("-o",), "clang": ("-o",), "pandoc": ("-o", "--output")}  # fmt: skip
"""Options whose value is the output file."""
_SCRIPT_OPTION = re.compile(r"-[a-zA-Z]*e|-f|--(?:expression|file)(?:=.*)?")
_IN_PLACE = re.compile(r"-(?!I)[a-zA-Z]*?i.*|--in-place(?:=.*)?", re.DOTALL)
_PATCH_FILE = re.compile(
    r"^(?:\*\*\* (?P<verb>Add|Update|Delete) File: (?P<file>[^\n]{1,300})|\+\+\+ (?:b/)?(?P<new>[^\s][^\n\t]{0,300}))",
    re.MULTILINE,
)
_VERBS = {"Add": "created", "Update": "edited", "Delete": "deleted"}


_SERVICES = frozenset(
    {"kubectl", "oc", "helm", "terraform", "tofu", "docker", "podman", "systemctl", "gh", "glab", "aws", "gcloud", "az",
     "heroku", "flyctl", "vercel", "ansible-playbook"}
)  # fmt: skip
_SERVICE_VERBS = frozenset(
    {"apply", "create", "delete", "destroy", "scale", "set", "patch", "replace", "annotate", "label", "expose",
     "drain", "cordon", "uncordon", "taint", "restart", "undo", "rollback", "install", "upgrade", "uninstall", "import",
     "rm", "rmi", "stop", "start", "kill", "push", "tag", "reload", "enable", "disable", "merge", "close", "edit",
     "comment", "update", "put", "terminate", "modify", "attach", "detach", "deploy", "sync", "mv", "cp", "up", "down",
     "reopen", "approve"}
)  # fmt: skip
"""Subcommands, or their first words ("terminate-instances"), that change something."""
_WHERE = ("--namespace", "--context", "--kubeconfig", "--output", "--timeout", "--region", "--profile")
"""Options that say where or how, not what."""
_LONGEST_SERVICE = 100
_DATABASES = frozenset({"psql", "mysql", "mariadb", "sqlite3", "duckdb", "clickhouse-client"})
_SQL = re.compile(
    r"(?:^|;)\s*(?:(?P<insert>INSERT)\s+(?:\w+\s+)?INTO|(?P<delete>DELETE)\s+FROM(?:\s+ONLY)?|(?P<merge>MERGE)\s+INTO"
    r"|(?P<update>UPDATE)(?:\s+ONLY)?(?=[^;]{1,200}\sSET\s)|(?P<truncate>TRUNCATE)(?:\s+TABLE)?"
    r"|(?:(?P<create>CREATE)|(?P<alter>ALTER)|(?P<drop>DROP))\s+(?:\w+\s+){0,3}?(?:TABLE|VIEW|INDEX|SCHEMA|DATABASE"
    r"|TRIGGER"
    r"|FUNCTION|SEQUENCE|ROLE|USER"
    r"|TYPE)(?:\s+CONCURRENTLY)?(?:\s+IF\s+(?:NOT\s+)?EXISTS)?)\s+(?P<name>[\w.\"`\[\]$-]{1,120})",
    re.IGNORECASE | re.MULTILINE,
)
_SQL_ACTIONS = {
    "insert": "rows inserted", "update": "rows updated", "delete": "rows deleted", "merge": "rows merged",
    "create": "created", "alter": "altered", "drop": "dropped", "truncate": "emptied",
}  # fmt: skip
_COMPLAINT = re.compile(
    r"^(?:\S{0,40}\b(?:bash|sh|zsh|dash): (?:line \d+: )?\S{1,200}: "
    r"|(?:cd|cat|sed|gsed|perl|cp|mv|rm|mkdir|rmdir|touch|tee|ln|chmod|chown|git|patch|dd|rsync|fatal"
    r"|error: patch)\b[^\n]{0,300}: )",
    re.MULTILINE,
)
"""A shell or a program of the table below says that it failed."""


_SHOWS_WHOLE = {"cat": ("-n", "-A", "-b", "-v", "-e", "-t"), "nl": ("-ba",), "bat": ("-p", "--plain")}
"""Programs that show a whole file, with the options that leave it whole."""
_READS = frozenset(
    {"cat", "nl", "bat", "head", "tail", "less", "more", "open", "sed", "grep", "egrep", "rg", "ls", "find", "wc",
     "tree", "stat", "file"}
)  # fmt: skip
"""Programs that only read, unless an option below says otherwise."""
_FILTERS = frozenset({"sort", "uniq", "cut", "tr", "column", "jq", "yq", "awk", "xxd", "strings", "zcat", "cd", "echo"})
_LOGS = {
    "kubectl": ("logs", "describe", "events"), "docker": ("logs",), "podman": ("logs",), "journalctl": (), "dmesg": (),
    "git": ("log", "show", "diff", "blame", "grep"),
}  # fmt: skip
"""Programs, with subcommands, whose output is somebody else's text."""
_ACTS = frozenset({"-delete", "-exec", "-execdir", "-ok", "-f", "-F", "--follow", "-fprint"})


class FilesRead(NamedTuple):
    """What a command reads that does nothing else."""

    program: str
    paths: tuple[str, ...]
    """The words that may be files, below the folder of a `cd` before it."""
    whole: bool
    """Whether it shows all of one file."""


def files_read(command: str) -> FilesRead | None:
    """What a single reading program, perhaps after `cd folder &&`, reads; None for all other commands."""
    if len(command) > _LONGEST or "<<" in command or "|" in command or "$" in command or "`" in command:
        return None
    folder, found = "", None
    for words, redirects in _commands(command):
        if not words and not redirects:
            continue
        if found is not None or redirects:
            return None
        bare = _bare(words, {})
        if bare[:1] == ["cd"] and len(bare) == 2:
            folder = bare[1]
        else:
            found = _files_read(bare, folder)
            if found is None:
                return None
    return found


def only_shows(command: str) -> bool:
    """Whether a command only shows texts, in which errors are another program's: `tail -50 app.log | grep ERROR`."""
    if len(command) > _LONGEST or "<<" in command or "`" in command or "$(" in command:
        return False
    shows = False
    for words, redirects in _commands(command):
        bare = _bare(words, {})
        if not bare or redirects:
            if redirects and any(target != "/dev/null" for _, target in redirects):
                return False
            continue
        program = bare[0].rsplit("/", 1)[-1]
        reads = program in _READS and _ACTS.isdisjoint({*bare} - {"-f", "-F", "--follow"})
        logs = program in _LOGS and (not _LOGS[program] or not {*_LOGS[program]}.isdisjoint(bare[1:]))
        if not (reads or logs or program in _FILTERS):
            return False
        shows |= reads or logs
    return shows


def _files_read(words: Sequence[str], folder: str) -> FilesRead | None:
    if not words or words[0] not in _READS or not _ACTS.isdisjoint(words):
        return None
    program, rest = words[0], words[1:]
    if program == "sed" and ("-n" not in rest or any(map(_IN_PLACE.fullmatch, rest))):
        return None
    files = [w for w in rest if not w.startswith("-") and _is_file(w)]
    files = files[1:] if program == "sed" else files
    paths = tuple(w if w.startswith(("/", "~")) or not folder else f"{folder.rstrip('/')}/{w}" for w in files)
    whole = program in _SHOWS_WHOLE and len(rest) == len(files) + sum(w in _SHOWS_WHOLE[program] for w in rest)
    return FilesRead(program, paths, whole and len(paths) == 1)


def changes(command: str) -> list[tuple[str, str]]:
    """The changed things and what was done to each, in order, without repetitions."""
    return list(dict.fromkeys((thing, action) for thing, action, _ in _changes(command, _DEEPEST)))[:_MOST]


def changed_before_failure(command: str, output: str) -> frozenset[str]:
    """What a failed line changed before its last command, unless the output says that this failed itself."""
    if _COMPLAINT.search(output, 0, _LONGEST):
        return frozenset()
    return frozenset(thing for thing, _, more in _changes(command, _DEEPEST) if more)


def sql_changes(text: str) -> list[tuple[str, str]]:
    """The tables that SQL statements change, and what was done to each."""
    found = [
        (m["name"].strip('"`[]'), verb)
        for m in _SQL.finditer(text, 0, _LONGEST)
        for verb, w in m.groupdict().items()
        if w
    ]
    return list(dict.fromkeys((name, _SQL_ACTIONS[verb]) for name, verb in found if verb in _SQL_ACTIONS))[:_MOST]


def patch_changes(text: str) -> list[tuple[str, str]]:
    """The files that a patch changes, in apply_patch's format or as a unified diff."""
    files = []
    for m in _PATCH_FILE.finditer(text, 0, _LONGEST_PATCH):
        name = (m["file"] or m["new"]).strip()
        if name != "/dev/null":
            files.append((name, _VERBS.get(m["verb"] or "", "edited")))
    return files[:_MOST]


def _changes(command: str, depth: int) -> Iterator[tuple[str, str, bool]]:
    """Each change, and whether more commands follow it."""
    text, documents = _without_documents(command.replace("\\\n", " "))
    variables: dict[str, list[str]] = {}
    commands = [(words, redirects) for words, redirects in _commands(text[:_LONGEST]) if words or redirects]
    for place, (words, redirects) in enumerate(commands, 1):
        bare, more = _bare(words, variables), place < len(commands)
        inner = _inner(bare) if depth else ""
        if inner:
            yield from ((thing, action, more or inside) for thing, action, inside in _changes(inner, depth - 1))
        elif bare[:1] == ["apply_patch"] or (documents and bare[:1] in (["patch"], ["git"])):
            yield from ((thing, action, more) for thing, action in patch_changes("\n".join(documents) or command))
        for name, action in (*_by_redirects("".join(bare[:1]), redirects), *_by_program(bare)):
            for thing in _expand(name, variables):
                if _is_file(thing):
                    yield thing, action, more
        yield from ((thing, action, more) for thing, action in _by_service(bare))


def _by_service(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Changes of a cluster, a cloud, a service or a database: `kubectl scale`, `psql -c "UPDATE ..."`."""
    program = words[0].rsplit("/", 1)[-1] if words else ""
    if program in _DATABASES:
        for word in words[1:]:
            yield from sql_changes(word)
    elif program in _SERVICES and not any(w.startswith("--dry-run") for w in words):
        rest = [w for w in _plain(program, words[1:]) if w]
        if any(verb in _SERVICE_VERBS for w in rest[:3] for verb in (w, w.split("-", 1)[0])):
            options = [w for w in words[1:] if w.startswith("--") and "=" in w and not w.startswith(_WHERE)]
            yield " ".join([program, *rest, *options])[:_LONGEST_SERVICE], "done"


OPEN_FILE = "(the open file)"
"""Stands for the file that SWE-agent's `edit 10:20` changes; the call's result names it."""
_EDIT_BODY = re.compile(r"^(edit \d+:\d+)\n(?:.*\n?)*?(?:end_of_edit$|\Z)", re.MULTILINE)
"""SWE-agent's edit command; the lines after it are the new text."""
_LINES = re.compile(r"\d+:\d+")


def _without_documents(command: str) -> tuple[str, list[str]]:
    """The command without the bodies of its here-documents, and those bodies."""
    command = _EDIT_BODY.sub(r"\1", command)
    if "<<" not in command:
        return command, []
    lines, waiting, bodies = list[str](), list[str](), list[str]()
    for line in command.split("\n"):
        if waiting:
            if line.strip() == waiting[0]:
                del waiting[0]
            else:
                bodies.append(line)
            continue
        lines.append(line)
        waiting += [m[2] for m in islice(_HEREDOC.finditer(line), 8) if not _is_quoted(line[: m.start()])]
    return "\n".join(lines), bodies


def _is_quoted(before: str) -> bool:
    return before.count('"') % 2 == 1 or before.count("'") % 2 == 1


def _commands(text: str) -> Iterator[tuple[list[str], list[tuple[str, str]]]]:
    """Simple commands: their words, and their redirections with files."""
    words: list[str] = []
    redirects: list[tuple[str, str]] = []
    pending = ""
    for token in _TOKEN.finditer(text):
        kind, value = token.lastgroup, token.group()
        if kind == "redirect":
            pending = "" if "&" in value[1:] else value
        elif kind == "input":
            pending = "<"
        elif kind == "word":
            if pending:
                redirects.append((pending, _unquote(value)))
            else:
                words.append(_unquote(value))
            pending = ""
        elif kind == "end":
            yield words, redirects
            words, redirects, pending = [], [], ""
    yield words, redirects


def _unquote(word: str) -> str:
    if "'" not in word and '"' not in word and "\\" not in word:
        return word
    return _QUOTES.sub(lambda m: next((g for g in m.groups() if g is not None), ""), word)


def _inner(words: Sequence[str]) -> str:
    """The script in bash -lc "..."; "" for any other command."""
    if len(words) > 2 and words[0].rsplit("/", 1)[-1] in _SHELLS:
        at = next((i for i, w in enumerate(words) if re.fullmatch(r"-[a-z]*c", w)), len(words))
        return words[at + 1] if at + 1 < len(words) else ""
    return ""


def _by_redirects(program: str, redirects: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for sign, target in redirects:
        if sign != "<":
            yield target, "appended to" if ">>" in sign else "written"
        elif program == "patch":
            yield target, "applied by patch"


def _by_program(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not words:
        return
    program, rest = words[0].rsplit("/", 1)[-1], words[1:]
    plain = _plain(program, rest)
    if program in _EACH_IS_TARGET:
        appends = program == "tee" and ("-a" in rest or "--append" in rest)
        action = "appended to" if appends else _EACH_IS_TARGET[program]
        files = plain[_LEADING_WORDS.get(program, 0) :]
        yield from ((w, action) for w in (files[:1] if program in _ONLY_FIRST else files))
    elif program in _LAST_IS_TARGET or program == "mv":
        yield from _by_target(program, rest, plain)
    elif program in ("sed", "perl", "gsed", "ruby") and any(map(_IN_PLACE.fullmatch, rest)):
        yield from ((w, f"edited by {program.removeprefix('g')}") for w in _in_place_files(rest))
    elif program in _OUTPUT:
        yield from ((b, "written") for a, b in pairwise(rest) if a in _OUTPUT[program])
    elif program == "dd":
        yield from ((w[3:], "written") for w in rest if w.startswith("of="))
    elif program == "git":
        yield from _by_git(plain, rest)
    elif program == "edit" and rest and _LINES.fullmatch(rest[0]):
        yield OPEN_FILE, "edited"


def _by_target(program: str, rest: Sequence[str], plain: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Moves, copies and links: the target is the last word, or the one after -t."""
    target = next((b for a, b in pairwise(rest) if a == "-t" and program != "rsync"), "")
    sources = [w for w in plain if w != target] if target else plain[:-1]
    target = target or (plain[-1] if plain else "")
    if sources and program == "mv":
        yield from ((w, f"moved to {target}") for w in sources)
    elif sources:
        yield target, f"{_LAST_IS_TARGET[program]} from {', '.join(sources)[:120]}"


def _in_place_files(rest: Sequence[str]) -> list[str]:
    """The files in the words of a sed or perl command that edits in place."""
    files, has_script, skip = list[str](), False, False
    for word in rest:
        if skip or not word:
            skip = False
        elif word.startswith("-") and len(word) > 1:
            skip = _SCRIPT_OPTION.fullmatch(word) is not None and "=" not in word
            has_script |= skip or word.startswith("--expression=")
        else:
            files.append(word)
    return files if has_script else files[1:]


def _by_git(plain: Sequence[str], rest: Sequence[str]) -> Iterator[tuple[str, str]]:
    action, files = (plain[0], plain[1:]) if plain else ("", [])
    if _GIT_ASKS & {*rest} and action != "commit":
        return
    if action == "rm":
        yield from ((w, "deleted") for w in files)
    elif action == "mv" and len(files) > 1:
        yield from ((w, f"moved to {files[-1]}") for w in files[:-1])
    elif action in ("checkout", "restore") and files and "--staged" not in rest:
        if action == "checkout" and "--" in rest:
            files = rest[[*rest].index("--") + 1 :]
        elif action == "checkout":
            files = [w for w in files if "." in w.rsplit("/", 1)[-1]]
        yield from ((w, f"restored by git {action}") for w in files)
    elif action in _GIT_WHOLE or (action == "tag" and files):
        yield f"git {action}", "done"


def _plain(program: str, rest: Sequence[str]) -> list[str]:
    """The words without options and their values."""
    words, skip, options = list[str](), False, True
    for word in rest:
        if skip:
            skip = False
        elif options and word == "--":
            options = False
        elif options and word.startswith("-"):
            skip = word in _WITH_VALUE.get(program, ())
        elif word:
            words.append(word)
    return words


def _bare(words: list[str], variables: dict[str, list[str]]) -> list[str]:
    """The words from the program's name on; stores assignments before it in `variables`."""
    at, prefix = 0, ""
    while at < len(words):
        word = words[at]
        if assignment := _ASSIGNMENT.match(word):
            variables[assignment[1]] = [assignment[2]]
        elif word in _PREFIXES:
            prefix = word
            at += prefix == "timeout"
        elif not (prefix and word.startswith("-")):
            break
        else:
            at += word in _WITH_VALUE.get(prefix, ())
        at += 1
    if words[at : at + 1] == ["for"] and words[at + 2 : at + 3] == ["in"]:
        variables[words[at + 1]] = words[at + 3 :][:_MOST]
    return words[at:]


def _expand(name: str, variables: Mapping[str, list[str]]) -> list[str]:
    """The name for each value of its first variable; [] if the name is only an unknown variable."""
    match = _VARIABLE.search(name)
    if match is None:
        return [name]
    values = variables.get(match[1] or match[2])
    if values:
        return [name[: match.start()] + value + name[match.end() :] for value in values]
    return [] if match.group() == name else [name]


def _is_file(name: str) -> bool:
    """Whether a word can be a file's name: no device, number or substitution."""
    return (
        any(map(str.isalnum, name))
        and len(name) <= 300
        and not name.startswith(("/dev/", "$(", "`"))
        and name not in ("-", "{}", ".", "..")
        and not name.isdigit()
        and "\n" not in name
    )
