"""What a call changes for later ones: where the agent is, and what goes on after its answer.

What the patterns do not know is left out, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from autocontext.notes.pieces import LONG
from autocontext.text.rendering import one_line

LONGEST_COMMAND = 4_000
"""Characters of a command, and of the answer to a start, that are read; a longer command counts as doing."""
_SEPARATOR = re.compile(r"(\"(?:[^\"\\]|\\.)*\"|'[^']*')|&&|\|\||[;\n]", re.DOTALL)
"""What stands between two commands, or a text in quotes, in which it does not."""
_PLACES = {
    "folder": re.compile(r"(?:cd|pushd) +(?!-)\S.*"),
    "branch": re.compile(
        r"git (?:-C \S+ )?(?:(?:checkout|switch) +-[bBcC] +\S+.*|switch +[^-\s]\S*|checkout +[^-.\s][^.\s]*"
        r"|worktree add +\S.*)"
    ),
    "environment": re.compile(
        r"(?:source|\.) +\S*activate\S*|(?:conda|mamba) +activate +\S+|(?:nvm|pyenv|rbenv) +(?:use|shell|local) +\S+"
    ),
    "host": re.compile(r"ssh +(?:-\S+ +(?:\d+ +)?)*[\w.@-]+"),
    "context": re.compile(
        r"(?:kubectl +config +(?:use-context|set-context)|kubectx|kubens|gcloud +config +set|az +account +set) +\S.*"
    ),
    "database": re.compile(r"use +[`\"\w.]+|\\c(?:onnect)? +\S+", re.IGNORECASE),
}
"""By what they change, commands after which others run somewhere else."""
_LEAVES = {
    "folder": re.compile(r"(?:cd|pushd|popd)(?: .*)?"),
    "branch": re.compile(r"git (?:-C \S+ )?(?:switch .*|checkout +-(?!-).*)"),
    "environment": re.compile(r"(?:\w+ +)?deactivate"),
}
"""All other commands that may leave such a place: where they lead, their words do not say."""
_LEAVES_HOST = re.compile(r"\s*(?:exit|logout)\s*")
"""Nothing but this: at the end of a script it ends the script."""
_SHELL = r"(?:[\w./()-]{1,40}: ?)?(?:line )?(?:\d+: ?)?"
"""Who says it: "bash: line 3: "."""
_REFUSES = {
    "folder": re.compile(rf"^{_SHELL}(?:cd|pushd|popd|Set-Location) ?:.*", re.MULTILINE),
    "branch": re.compile(
        r"\AUpdated \d+ paths? from"
        r"|^error: (?:Your local changes to|pathspec '|you need to resolve|The following untracked)"
        r"|^fatal: (?:invalid reference|a branch named|not a git repository|'[^'\n]+' is already|reference is not)",
        re.MULTILINE,
    ),
    "environment": re.compile(
        rf"\A{_SHELL}(?P<program>source|\.|[^\s:]*activate[^\s:]*|conda|mamba|nvm|pyenv|rbenv): "
        r"(?:command not found|not found|version\b|[^\n]*No such file)"
        r"|\A\s*(?:EnvironmentNameNotFound|CondaError|CommandNotFoundError|N/A: version)"
    ),
    "host": re.compile(
        r"(?:\A(?:Warning: Permanently|Pseudo-terminal)[^\n]*\n|\A)"
        r"(?:ssh: |Host key verification failed|\S+: Permission denied|Permission denied"
        r"|(?:kex_exchange|Connection (?:closed|reset|refused|timed out)))"
    ),
    "context": re.compile(r"\Aerror\b[^\n]*\b(?:context|namespace|project|subscription)\b", re.IGNORECASE),
    "database": re.compile(
        r"\A[^\n]*(?:\berror 1049\b|unknown database|database [\"'`][^\"'`\n]*[\"'`] does not exist)", re.IGNORECASE
    ),
    "page": re.compile(
        r"\A[^\n]*net::ERR_|^\W{0,4}error: page\.goto|\A\W{0,4}error(?::|[ \t]*$)", re.IGNORECASE | re.MULTILINE
    ),
}
"""By what they were to change, how an answer or its line begins that says that they did not."""
_MOVED = re.compile(r"^Switched to [\w ]*branch '([^'\n]+)'", re.MULTILINE)
"""Of a branch: what goes wrong behind it is another command's."""
_CLOSED = re.compile(r"^Connection to (\S+) closed", re.MULTILINE)
_WORKED_OUT = re.compile(r"[$~*`\\]")
_BROWSES = re.compile(r"navigate|goto|go_to|open_url", re.IGNORECASE)
"""In the names or actions of tools that go to a page."""
_FOLDERS = ("workdir", "cwd", "working_directory", "working_dir")
"""Arguments with the folder in which a command is run."""
_STARTS = re.compile(
    r"(?<![&>|])&\s*(?:$|\n)|(?:^|[;&]\s*)(?:nohup|setsid)\s|\btmux +new(?:-session)?\b[^\n]* -d"
    r"|\bscreen +-dm"
    r"|\b(?:docker|podman)(?: +run|[ -]compose\b[^\n]{0,200} up)\b[^\n]{0,400} (?:-\w{0,9}d|--detach)\b",
    re.MULTILINE,
)
"""A command that goes on after its answer."""
_STOPS = re.compile(
    r"\b(?:(?:docker|podman) +(?:container +)?(?:stop|kill|rm)|(?:pkill|killall)(?! +-0\b)|tmux +kill-session)"
    r"(?: +-\S+)* +"
    r"(?:\"([^\"\n]+)\"|'([^'\n]+)'|([^\s;&|\"']+))"
)
"""A command that ends what it names: a container, a program, a session of a terminal."""
_ENDS = re.compile(
    r"(?i:kill|stop|cancel|terminate|shut ?down|log[_ ]?out|disconnect)"
    r"|(?<![A-Za-z])(?i:close|end|exit|rm|down)(?![a-z])|(?<=[a-z])(?:Close|End|Exit)(?![a-z])"
)
"""In the words of a call that ends what it names."""
_ASKS = re.compile(r"\bkill +(?:-0|-[sn] +0|-l)\b")
"""No signal: whether there is such a process."""
_DENIED = re.compile(
    r"not permitted|permission denied|access denied|not allowed|forbidden|unauthori[sz]ed", re.IGNORECASE
)
_GONE = re.compile(
    r"\bno (?:such|\w+ found|server)\b|not found|can.?t find|not running|already|does not exist", re.IGNORECASE
)
"""In the answer to a call that could not end what had ended before."""
_COMPOSED = re.compile(r"\b(docker[ -]compose\b.*?) (?:(up)|down|stop)\b(?! +[a-z])")
_LEAST_NAME, _LEAST_ID = 3, 6
"""Characters of a name of what a command has started, and of the beginning of its id."""
_BACKGROUND = re.compile(r"background|detach", re.IGNORECASE)
"""In an argument that says so of a call."""
_ANSWERED = 1_000
"""Characters of an answer that may say that what it names goes on."""
_STATUS = r"\b(?:status|state|phase)\b[\"']?\s{0,3}[:=>]\s{0,3}[\"']?"
_BEGINNING = r"running|queued|start(?:ed|ing)|launched|in[_ -]progress"
_ID = r"([\w-]*\d[\w-]*)"
_HOLDERS = ("shell", "session", "agent", "job", "process")
_HOLDER = f"(?:{'|'.join(_HOLDERS)})"
_GOES_ON = re.compile(rf"{_STATUS}(?:{_BEGINNING})\b", re.IGNORECASE)
_HANDED_OUT = re.compile(
    r"\b(?:running with|launched|started with)\b[^\n]{0,60}\n?[^\n]{0,20}?"
    rf"\b(?:pid|(?:{_HOLDER}|task)(?:[_ ]?id)?)[^\w\n]{{1,4}}{_ID}",
    re.IGNORECASE,
)
"""Words that say so without a status, beside what they hand out."""
ENDED = "completed?|exited|finished|killed|terminated|stopped|cancell?ed|failed|done|succeeded"
"""Words for what has come to its end, as part of a pattern."""
_STATE = re.compile(
    rf"{_STATUS}(?:(?P<runs>{_BEGINNING}|pending|processing|active|working)|{ENDED}|success|error)\b"
    r"|\b(?P<words>still running|running with \w+ id)\b",
    re.IGNORECASE,
)
"""What says of a whole answer whether its thing runs, whatever that thing prints: the first such word."""
_MOST_FOUND = 20
"""Places of a handle in one text."""
_MOST_HANDED = 2
"""Different handles of an answer; one with more is a list."""
_TO_USE = re.compile(
    rf"(?:\b|_)(?:(?:pid|{_HOLDER}[_ ]?id)\W{{1,4}}|{_HOLDER}[\"']?\s?[:=]\s?[\"']?){_ID}", re.IGNORECASE
)
"""What an answer calls that which later calls may use: no task, of a list, and no record."""
_JOB = re.compile(
    r"(\d+)\](?:( \d+)[ \t]*$|(?: {2,})?[+-] +(?:\d+ +)?(?!(?i:running|stopped|suspended)\b|.*&[ \t]*$)\w)",
    re.MULTILINE,
)
"""After its bracket, a shell's line of a job that begins ("[1] 4412") or has ended ("[1]+  Done", not "... x &")."""
_ENDS_JOB = re.compile(r"wait|(?:kill|wait) (?!-0).*%(\d+)\b.*")
_HANDLE = re.compile(
    r"(?:(?:\b|_)(?:pid|shell|session|task|agent|job|process)|(?:\b|_|shell|session|task|agent|job|process|run)id)\b"
    r"[^\w\n]{1,4}(?:(?:id|is|as)\b\W{1,4})?([\w-]*\d[\w-]*)"
    r"|^\[\d+\] (\d+)|(https?://[^\s\"'<>]+)",
    re.IGNORECASE | re.MULTILINE,
)
"""What an answer calls that which it has started."""


def places_of(tool: str, arguments: Mapping[str, Any], command: str) -> tuple[tuple[str, str], ...]:
    """What a call changes of where the agent is, each with the words that say so; "" if it may have left it."""
    texts = (command or next((v for v in arguments.values() if isinstance(v, str)), ""))[:LONGEST_COMMAND]
    found: list[tuple[str, str]] = []
    for part in _commands(texts):
        moves = [kind for kind, move in _PLACES.items() if len(part) <= LONG and move.fullmatch(part)]
        left = [kind for kind, leave in _LEAVES.items() if command and leave.fullmatch(part)]
        found += [(kind, one_line(part)) for kind in moves] or [(kind, "") for kind in left]
    if _LEAVES_HOST.fullmatch(command):
        found.append(("host", ""))
    url = arguments.get("url")
    if isinstance(url, str) and len(url) <= LONG and _BROWSES.search(f"{tool} {arguments.get('action', '')}"):
        found.append(("page", one_line(url)))
    folder = next((v for k in _FOLDERS if isinstance(v := arguments.get(k), str)), "")
    if command and 0 < len(folder) <= LONG:
        found.insert(0, ("folder of one call", f"workdir {one_line(folder)}"))
    return tuple(found)


def reached(places: tuple[tuple[str, str], ...], answer: str, command: str = "") -> tuple[tuple[str, str], ...]:
    """The places of a call up to the one that its answer refuses, as what stands behind it is not run.

    With the branch or the host that its answer says was left; a host that the command names is left with the command.
    """
    said = f"{answer[:_ANSWERED]}\n{answer[-_ANSWERED:]}"
    found = [*takewhile(lambda place: not _refuses(said, *place), places)]
    branch = _MOVED.findall(said)[-1:]
    if branch and not any(kind == "branch" and branch[0] in words for kind, words in found):
        found.append(("branch", ""))
    if (closed := _CLOSED.search(said)) and closed[1] not in command:
        found.append(("host", ""))
    return tuple(found)


def _refuses(answer: str, kind: str, words: str) -> bool:
    """Whether an answer refuses this move; of a folder, with its name if it has one."""
    refused = _REFUSES[kind].search(answer) if kind in _REFUSES else None
    if refused is None or (kind == "branch" and _MOVED.search(answer, 0, refused.start())):
        return False
    if kind == "environment" and (program := refused["program"]) is not None:
        return not words or program in words
    folder = words.partition(" ")[2].strip(" \"'")
    if kind != "folder" or _WORKED_OUT.search(folder):
        return True
    named = re.compile(rf"(?<![\w/.-]){re.escape(folder)}(?![\w/.-])")
    return any(named.search(line) for line in _REFUSES[kind].findall(answer))


def _commands(text: str) -> Iterator[str]:
    """The commands in a text; what stands in quotes is an argument: `smbclient -c "cd share; ls"` stays where it is."""
    start = 0
    for match in _SEPARATOR.finditer(text):
        if match[1] is None:
            yield text[start : match.start()].strip()
            start = match.end()
    yield text[start:].strip()


def starts(arguments: Mapping[str, Any], command: str) -> bool:
    """Whether what a call starts goes on after its answer."""
    flag = any(v in (True, "true") and _BACKGROUND.search(k) for k, v in arguments.items())
    return flag or _STARTS.search(command[:LONGEST_COMMAND]) is not None


def goes_on(label: str, answer: str) -> bool:
    """Whether an answer hands out a handle, which its call did not name, and its status says that the work goes on."""
    head = answer[:_ANSWERED]
    lowered = head.casefold()  # the searches take ten times as long as these tests, and each answer is asked about
    if "stat" in lowered and _GOES_ON.search(head) and any(handle not in label for handle, _ in handles(head)):
        return True
    handed_out = _HANDED_OUT.search(head) if " with" in lowered or "launched" in lowered else None
    return handed_out is not None and handed_out[1] not in label


def to_use(label: str, answer: str) -> list[str]:
    """The handles that an answer hands out for later calls, and that its call did not name."""
    head = answer[:_ANSWERED]
    lowered = head.casefold()
    may = any(word in lowered for word in ("pid", *_HOLDERS))  # as above
    found = dict.fromkeys(_TO_USE.findall(head) if may else ())
    new = [handle for handle in found if len(handle) >= _LEAST_NAME and handle not in label]
    return new if len(found) <= _MOST_HANDED else []


def says_running(text: str) -> bool | None:
    """Whether a text has the status of something that runs, or of something that has ended; None if it has neither."""
    state = _STATE.search(text)
    return None if state is None else bool(state["runs"] or state["words"])


def stops(command: str, start: str, answer: str) -> bool:
    """Whether a command ends what another one has started, by the name or the id that it has there."""
    for match in _STOPS.finditer(command):
        name = next(filter(None, match.groups()))
        if len(name) >= _LEAST_NAME and (
            re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", start)
            or (len(name) >= _LEAST_ID and answer.startswith(name))
        ):
            return True
    down = _COMPOSED.search(command)
    up = _COMPOSED.search(start) if down and not down[2] else None
    return bool(up and down and up[2] and up[1] == down[1])


def ends(tool: str, label: str) -> bool:
    """Whether a call ends what it names."""
    return _ENDS.search(_ASKS.sub("", f"{tool} {label}")) is not None


def jobs(command: str, answer: str) -> Iterator[tuple[str, bool]]:
    """The numbers of a shell's jobs, "" for all: those that a command, or by its answer the shell, ends or begins."""
    may = ("%" in command or "wait" in command) and not _DENIED.search(answer, 0, _ANSWERED)
    parts = _commands(command[:LONGEST_COMMAND]) if may else ()
    for part in takewhile(lambda part: not part.endswith("&"), parts):  # behind it, a job of its own is meant
        if match := _ENDS_JOB.fullmatch(part):
            yield match[1] or "", False
    for line in f"\n{answer}".split("\n[")[1:]:
        if match := _JOB.match(line):
            yield match[1], match[2] is not None


def was_refused(command: str, status: str, answer: str) -> bool:
    """Whether a call that was to end something did not: by its answer, or by a status that is of no other command."""
    one = len([*_commands(command)]) == 1
    said = answer[:_ANSWERED].split("\n")
    if any(_DENIED.search(line) for line in said if one or _ENDS.search(line)):
        return True
    alone = one and "pkill" not in command and "killall" not in command
    return bool(status) and alone and _GONE.search(answer, 0, _ANSWERED) is None


def found_at(text: str, handle: str) -> list[int]:
    """The last places where a text has a handle, and not as a part of a longer one, ascending."""
    if handle not in text:  # most have none
        return []
    whole = rf"(?<!\w)(?<!\w-){re.escape(handle)}(?!-?\w)"
    return [match.start() for match in re.finditer(whole, text)][-_MOST_FOUND:]


def handles(answer: str) -> Iterator[tuple[str, str]]:
    """What an answer calls that which was started: the handle, and the words with it ("agentId: a7f31c9")."""
    for match in _HANDLE.finditer(answer[:LONGEST_COMMAND]):
        yield next(filter(None, match.groups())), one_line(match[0])
