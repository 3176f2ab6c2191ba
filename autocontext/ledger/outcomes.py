"""The outcome of a call, from its result: exit codes, `is_error`, error lines."""

from __future__ import annotations

import re
from typing import NamedTuple

from autocontext.ledger.effects import Effect
from autocontext.text.failures import failure_reason, is_failure_text
from autocontext.text.rendering import one_line

_ENDS = 4_000
"""Characters at each end of a result that are searched for exit codes and errors."""
_LONGEST_JSON = 20_000
"""Characters; a longer result is not parsed as JSON."""
_LONGEST_LINE = 400
"""Characters of an error line that are kept."""
_EXIT = re.compile(
    r"<returncode>\s*(-?\d+)"
    r"|[\"'](?:exit_?code|return_?code|exit_?status)[\"']\s*:\s*(-?\d+)"
    r"|\bexit(?:ed)?(?: with)?(?: code| status)*[: ]+(-?\d+)[\W_]*$"
    r"|^\W*(?:exit_?code|return(?:ed)?[_ ]?code|exit_?status|rc|exit)\s?[:=]\s?(-?\d+)\b"
    r"|\b(?:fail|exit|finish|terminat|complet|return|die|end)(?:ed|d|s)\b[^\n]{0,40}?\(?code[: =]+(-?\d+)\)?[\W_]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""Only at the end of a line, as programs print it: in prose about exit codes more text follows."""
_OUTSIDE = 8
"""First and last lines that may hold an exit code."""
_STRICT = re.compile(
    r"^(?:Traceback|Error\b|ERROR\b|error:|fatal:|FAILED\b|E   )"
    r"|\b[A-Z]\w{0,60}(?:Error|Exception):"
    r"|: (?:command not found|No such file or directory|Permission denied|not found)\b"
    r"|\berror(?:\[\w+\])?: \S|\bsyntax error\b|^No replacement was performed"
    r"|(?:错误|失败|异常|錯誤|失敗|エラー|例外|오류|실패)\s?[:：]"
)
"""A line that reports an error."""
_LOOSE = re.compile(
    r"error|exception|failed|failure|not found|no such|denied|invalid|fatal"
    r"|错误|失败|异常|錯誤|失敗|エラー|例外|오류|실패",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"^\s*+(?:[^\s:]{1,200}[:\-]\d+[:\-])?\s*+\d*+[:\-\s]*+(?:(?:except|raise|catch|throw|throws|import|from|class"
    r"|def|return|if|elif"
    r"|assert|print\w*|log\w*|self|await)\b|[#*}]|//)"
)
"""A line of source code that handles errors, alone or in the output of a search."""
_REPORTS = re.compile(
    r"^\W*(?:E {2,}|Uncaught |Caused by: |Unhandled |Exception in thread \S+ |\[\w{1,20}\] |\w{1,20}: )?"
    r"(?:[A-Za-z_][\w.$]{0,80}(?:Error|Exception)\b(?:\s?\[[\w\]\[]{1,60})?:|Traceback \(most recent)"
    r"|^(?:Traceback|Error\b|ERROR\b|error:|fatal:|FAILED\b|E   )"
    r"|: (?:command not found|No such file or directory|Permission denied|not found)\b"
    r"|^(?:[^\s:]{1,200}:\d+(?::\d+)?: (?:fatal )?)?error(?:\[\w+\])?: \S|\berror TS\d+:|\bsyntax error\b"
    r"|^[^\n:：]{0,20}(?:错误|失败|异常|錯誤|失敗|エラー|例外|오류|실패)\s?[:：]"
)
"""A line that reports an error, as opposed to mentioning one."""
_REFUSES = re.compile(
    r"\W*(?:tool_use_error|error>|(?:\w{1,20} ){0,3}timed? ?out\b|invalid\b|unable to\b|failed to\b"
    r"|could(?: not|n't)\b|can(?:not|'t| not) (?:find|read|open|access|locate|parse|write|create|delete|run|load)\b"
    r"|not (?:authori[sz]ed|allowed|permitted)\b|wrong\b|incorrect\b|permission denied|access ?denied|unauthori[sz]ed\b"
    r"|forbidden\b|unknown (?:tool|function|command)|no such |command not found"
    r"|request failed|HTTP(?:/[\d.]+)? [45]\d\d\b|[45]\d\d (?:client error|server error|forbidden|not found"
    r"|unauthori[sz]ed"
    r"|bad request|conflict|too many|internal|bad gateway|service unavailable|gateway)|net::ERR_|MCP error"
    r"|an error occurred"
    r"|error (?:(?:fetch|execut|call|runn|read|writ|open|send|creat|updat|load|pars|process|connect|retriev)ing"
    r"|from)\b|file (?:does not exist|not found)"
    r"|the (?:file|path|directory|user) \S{0,300} ?(?:does not|doesn.t) (?:exist|want)|string to replace not found"
    r"|no replacement was performed|(?:tool|action|query|search|call|step|operation|edit) (?:\w{1,60} ){0,2}failed\b"
    r"|(?:fehler|erreur|errore|erro|ошибка)\b[^\n:：]{0,60}[:：]"
    r"|[^\n:：]{0,20}(?:错误|失败|异常|錯誤|失敗|エラー|例外|오류|실패)\s?[:：])"
    r"|[^\n]{0,300}\b(?:has been denied|(?:denied|rejected|declined|refused|cancell?ed|interrupted"
    r"|aborted) by (?:the )?(?:user|sandbox|policy))\b"
    r"|\([\w.]{0,60}(?:errors?|exceptions?)\.\w{1,60}\)",
    re.IGNORECASE,
)
"""The beginning of a short result that refuses the call or explains its failure."""
_NOT_DONE = re.compile(
    r"\bcould(?: not|n't)\b|\bcan(?:not|'t)\b|\bunable to\b|\bfail(?:s|ed)? to\b|\bfailed[:!.]|(?:\bnot|n't"
    r"|\bnothing) (?:found|available|valid|possible|exist|enough|\w+ed)\b"
    r"|\bunchanged\b|\binsufficient\b|\balready exists\b|\bno (?:changes?|edits?|replacements?|action) (?:was|were"
    r"|has|have)\b|\bmodified since\b"
    r"|\bfound \d+ (?:matches|occurrences)\b[^\n]{0,80}\bbut\b|\breturned [45]\d\d\b"
    r"|\b(?:was|were|is|are|been) (?:declined|denied|rejected|refused|blocked)\b|\b(?:declined|denied)\b"
    r"|^\W*(?:rejected|blocked)\b"
    r"|\b(?:konnte[nt]?|kann|können|wurde[n]?) (?:leider )?nicht\b|\bnicht möglich\b|\bfehlgeschlagen\b|\babgelehnt\b"
    r"|\bno se (?:pudo|puede)\b|\bn'a pas pu\b|\bimpossible de\b|\bnão foi possível\b|\bне удалось\b"
    r"|失败|失敗|无法|未能|できません|できない|拒绝|拒否|못했",
    re.IGNORECASE,
)
"""In the first line of a short result of a call that does not only read or run something: nothing was changed."""
_DONE = re.compile(
    r"\b(?:success\w*|done|ok|sent|created|updated|added|saved|deleted|removed|booked|posted|changed|edited|written"
    r"|applied"
    r"|scheduled|completed|clicked|typed|selected|navigated|opened|moved|submitted|set)\b|成功|已|しました",
    re.IGNORECASE,
)
"""Before such words: something was changed after all ("Updated 3 rows, 1 not found")."""
_REFUSED = re.compile(
    r"\s*\{[^{}]{0,300}?\"(?:status|state|result|outcome)\"\s*:\s*\"(?:rejected|denied|declined|refused|conflict"
    r"|unavailable)\"",
    re.IGNORECASE,
)
"""JSON that refuses a change; of a reading call it would be what was asked for."""
_QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`|[“„][^”“\n]*[”“]|「[^」\n]*」")
_PROMPT = re.compile(r"\n\(Open file: [^\n]*\)\n\(Current directory: [^\n]*\)\nbash-\$\s*\Z")
"""The prompt of SWE-agent's shell below a result."""
_REFUSED_EDIT = re.compile(
    r"\W*(?:OBSERVATION:\s*)?(?:your proposed edit has introduced|no replacement was performed"
    r"|apply_patch verification failed|search/replace block failed|HTTP/[\d.]+ [45]\d\d\b)",
    re.IGNORECASE,
)
"""The beginning of a result, of any length, of a change that was not made."""
SHORT = 3
"""Most lines of a short result."""
_RUN_FAILURE = re.compile(
    r"^[=\s]*(?:\d+ \w+, )*[1-9]\d* (?:failed|errors?)\b|^\s*Tests?:?\s.*\b[1-9]\d* failed|^\s*[1-9]\d* failing\b"
    r"|\b\d+ examples?, [1-9]\d* failures?|^FAILED \(|^test result: FAILED|^--- FAIL|^ ?FAIL\b|\bBUILD FAIL(?:ED|URE)\b"
    r"|^make(?:\[\d+\])?: \*\*\*|^npm (?:ERR!|error)|^Found [1-9]\d* errors?\b|^Permission denied|\berror TS\d+:"
    r"|^(?:\S+: )?(?:Segmentation fault|Killed|Aborted)\b|\btimed out after\b|^CONFLICT \("
    r"|\bproblems? \([1-9]\d* errors?\b"
    r"|\bHunk #\d+ FAILED|^E: \S|^CMake Error|\berrors occurred!|^\S{1,60}: \*\*\*\* |^curl: \(\d+\)"
    r"|\bpanicked at \S|^panic: |^\S{1,200}\.go:\d+:\d+: |: undefined reference to |\bthe time limit\b"
    r"|^[\w./+-]{1,60}: (?:fatal )?error: \S|\bError response from daemon\b|\bwas refused\b"
)
"""A line near the end in which a test runner, a compiler or a shell reports failure."""
_ERRNO = re.compile(
    r"^[^\s:]{1,60}: [^\n]{0,300}?: (?:Connection (?:refused|timed out|reset by peer)|Name or service not known"
    r"|Could not resolve host|Operation not permitted|File exists|Is a directory|Not a directory|Directory not empty"
    r"|Read-only file system|No space left on device|Address already in use|Device or resource busy|No route to host)$"
)
"""A program's complaint that ends in words of the operating system: "ssh: connect to host x: Connection refused"."""
_BUILD_FAILURE = re.compile(
    r"^(?:\W* ?Error: |FAILURE: Build failed|\[(?:ERROR|INFO)\] BUILD FAILURE|\[ERROR\] COMPILATION ERROR)",
    re.MULTILINE,
)
"""A tool that explains at length what it could not do; its first line may be far from the end."""
_STACK = re.compile(r"^\s+at \S|^Node\.js v\d|^\s*\.\.\. \d+ more$|^[╵]$|^\[ERROR\] ")
"""Among the last lines after such a line."""
_HINTS = (
    "err", "exc", "fail", "fatal", "denied", "found", "no such", "invalid", "trace", "kill", "abort", "fault", "timed",
    "conflict", "no replacement", "***", "e   ", "panic", "refused", "undefined", "not known", "not permitted",
    "exists", "directory", "space left", "in use", "busy", "route", "reset by", ".go:", "time limit", "e: ",
    "错误", "失败", "异常", "錯誤", "失敗", "エラー", "例外", "오류", "실패",
)  # fmt: skip
"""A text without any of these, in small letters, reports no error: most are not searched line by line."""
_NO_REASON = re.compile(
    r"\s*(?:(?:at|#\d+) \S|\.\.\. \d+ more|FAIL(?:ED)?:?$|FAIL\t|Error:?$|error Command failed|npm (?:ERR!"
    r"|error) ?(?:A complete|$)"
    r"|│? ?$|\[ERROR\] (?:Please refer|\[Help|To see|Re-run|For more|$)|(?:Start at|Duration) )"
)
"""A line about an error that does not say which: a stack frame, a runner's last word."""
_NAMED_ERROR = re.compile(r"\b[A-Z]\w{0,60}(?:Error|Exception)\b ?(?:\[[^\]]{0,60}\])?: ?\S")
"""A line with the name of its error: "ModuleNotFoundError: No module named 'requests'"."""
_TEST_FAILURES = re.compile(r"\b[1-9]\d* (?:failed|failures?|errors?|failing)\b")
_EDIT_CONFIRMATION = re.compile(
    r"^(?:The file|File) [^\n]{0,400}? has been (?:edited|created|updated)|^File created", re.IGNORECASE
)


class Outcome(NamedTuple):
    """The outcome of a call."""

    failed: bool
    """Whether the result says so: `is_error`, an exit code, or a text that is nothing but an error."""
    error: str
    """The last line that reports an error, or "". Without `failed` it is only part of the output."""
    lines: int
    """Lines of the result."""
    cause: str = ""
    """A line that names the error, if `error` is only a summary."""


def outcome_of(text: str, *, is_error: bool, effect: Effect | None) -> Outcome:
    """The outcome of a call, from its result's text."""
    text = _PROMPT.sub("", text)
    head, tail = _ends(text)
    lines = text.count("\n") + bool(text and not text.endswith("\n"))
    code = _exit_code(head, tail)
    refused = effect != "reads" and _REFUSED_EDIT.match(head) is not None
    failed = is_error or refused or bool(code) or is_failure_text(text if len(text) <= _LONGEST_JSON else head)
    edit_confirmed = effect == "changes" and _EDIT_CONFIRMATION.match(head)
    if not failed and (code == 0 or edit_confirmed):
        # The exit code of a pipe is its last command's, so a test runner's summary counts, too.
        return Outcome(False, _summary(tail), lines)
    if not failed and lines > SHORT and not (_hints_at_error(head) or _hints_at_error(tail)):
        return Outcome(False, "", lines)
    strict = _last(_STRICT, tail) or (_last(_STRICT, head) if len(text) > _ENDS else "")
    if not failed:
        failed = (lines <= SHORT and _refuses(head, effect)) or (effect != "reads" and _ends_in_error(tail))
    if not failed and not strict:
        return Outcome(False, "", lines)
    reason = failure_reason(text) if failed and lines <= SHORT else ""
    if reason and reason in text:
        return Outcome(failed, _shorten(one_line(reason)), lines)
    error = _own_words(head, tail, strict)
    cause = (_last(_NAMED_ERROR, tail) or strict or _first_of_few(head, lines)) if failed else ""
    return Outcome(failed, error, lines, cause if cause != error else "")


def _refuses(text: str, effect: Effect | None) -> bool:
    """Whether a short result refuses the call."""
    if _REFUSES.match(text):
        return True
    if effect in ("reads", "runs"):
        return False
    if _REFUSED.match(text):
        return True
    # What is in quotes is what was written or sent.
    line = _QUOTED.sub("", next(filter(str.strip, text.splitlines()), ""))
    negation = _NOT_DONE.search(line)
    return negation is not None and _DONE.search(line, 0, negation.start()) is None


def _exit_code(head: str, tail: str) -> int | None:
    """The exit code in the last lines, otherwise in the first."""
    last = list(_EXIT.finditer("\n".join(tail.splitlines()[-_OUTSIDE:])))
    match = last[-1] if last else _EXIT.search("\n".join(head.splitlines()[:_OUTSIDE]))
    if match is None:
        return None
    return int(next(g for g in match.groups() if g is not None)[:9])


def _hints_at_error(text: str) -> bool:
    small = text.casefold()
    return any(hint in small for hint in _HINTS)


def _own_words(head: str, tail: str, strict: str) -> str:
    """The last error line of a failed call, otherwise its last line."""
    loose = _last(_LOOSE, tail) or _last(_LOOSE, head)
    code = _exit_code(head, tail)
    lines = [x for x in reversed(tail.splitlines()) if any(ch.isalnum() for ch in x)]
    last = next((x.strip() for x in lines if not _NO_REASON.match(x)), "".join(lines[:1]).strip())
    if not (loose or strict) and code and _EXIT.search(last):
        return f"exit code {code}"
    return loose or strict or _shorten(last)


def _first_of_few(text: str, lines: int) -> str:
    """The first line of a text of few lines: what a program says before "make: *** Error 2"."""
    first = next(filter(str.strip, text.splitlines()), "").strip() if 1 < lines <= SHORT else ""
    return _shorten(first) if " " in first and not _EXIT.search(first) else ""


def _summary(tail: str) -> str:
    return _last(_TEST_FAILURES, "\n".join(tail.splitlines()[-8:]))


def _ends(text: str) -> tuple[str, str]:
    """The complete lines at both ends of a text."""
    if len(text) <= _ENDS:
        return text, text
    last, first = text.rfind("\n", 0, _ENDS), text.find("\n", len(text) - _ENDS)
    return text[: last if last > 0 else _ENDS], text[first + 1 if first >= 0 else len(text) - _ENDS :]


def _last(pattern: re.Pattern[str], text: str) -> str:
    """The last line that matches, cut after a word and with "…" if it is long."""
    for line in reversed(text.splitlines()):
        if pattern.search(line[: 2 * _LONGEST_LINE]) and not _NO_REASON.match(line):
            return _shorten(line.strip())
    return ""


def _shorten(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    at = line.rfind(" ", _LONGEST_LINE // 2, _LONGEST_LINE)
    return line[: at if at > 0 else _LONGEST_LINE - 1] + "…"


def _ends_in_error(tail: str) -> bool:
    """Whether one of the last lines reports an error or a failed run, or there is a traceback."""
    last = [x[: 2 * _LONGEST_LINE] for x in tail.splitlines()[-_OUTSIDE:]]
    if any(_RUN_FAILURE.search(x) or _ERRNO.search(x) or (_REPORTS.search(x) and not _CODE.match(x)) for x in last):
        return True
    if any(map(_STACK.search, last)) and (_BUILD_FAILURE.search(tail) or _last(_REPORTS, tail)):
        return True
    return re.search(r"^[^\w\n]*Traceback \(most recent", tail, re.MULTILINE) is not None
