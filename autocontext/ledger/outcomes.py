"""The outcome of a call, from its result: exit codes, `is_error`, error lines."""

from __future__ import annotations

import re
from typing import NamedTuple

from autocontext.ledger.effects import Effect
from autocontext.text.failures import is_failure_text

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
    r"^\s*+(?:[^\s:]{1,200}[:\-]\d+[:\-])?\s*+\d*+[:\-\s]*+(?:(?:except|raise|catch|throw|throws|import|from|class|def|return|if|elif"
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
    r"\W*(?:tool_use_error|(?:command |request |operation )?timed? ?out\b|invalid\b|unable to\b|failed to\b"
    r"|could(?: not|n't)\b|can(?:not|'t| not) (?:find|read|open|access|locate|parse|write|create|delete|run|load)\b"
    r"|wrong\b|incorrect\b|permission denied|access denied|unauthori[sz]ed\b|forbidden\b"
    r"|unknown (?:tool|function|command)|no such "
    r"|request failed|HTTP(?:/[\d.]+)? [45]\d\d\b|file (?:does not exist|not found)"
    r"|the (?:file|path|directory|user) \S{0,300} ?(?:does not|doesn.t) (?:exist|want)|string to replace not found"
    r"|no replacement was performed|tool \w{0,60} ?(?:execution )?failed"
    r"|[^\n:：]{0,20}(?:错误|失败|异常|錯誤|失敗|エラー|例外|오류|실패)\s?[:：])"
    r"|\{\s*\"(?:success|ok)\"\s*:\s*false\b",
    re.IGNORECASE,
)
"""The beginning of a short result that refuses the call or explains its failure."""
_PROMPT = re.compile(r"\n\(Open file: [^\n]*\)\n\(Current directory: [^\n]*\)\nbash-\$\s*\Z")
"""The prompt of SWE-agent's shell below a result."""
_REFUSED_EDIT = re.compile(
    r"\W*(?:OBSERVATION:\s*)?(?:your proposed edit has introduced|no replacement was performed)", re.IGNORECASE
)
"""The beginning of a result, of any length, of an edit that was not made."""
_SHORT = 3
"""Most lines of such a result."""
_RUN_FAILURE = re.compile(
    r"^[=\s]*(?:\d+ \w+, )*[1-9]\d* (?:failed|errors?)\b|^Tests:\s.*\b[1-9]\d* failed"
    r"|\b\d+ examples?, [1-9]\d* failures?|^FAILED \(|^test result: FAILED|^--- FAIL|^FAIL\b|\bBUILD FAIL(?:ED|URE)\b"
    r"|^make(?:\[\d+\])?: \*\*\*|^npm (?:ERR!|error)|^Found [1-9]\d* errors?\b|^Permission denied|\berror TS\d+:"
    r"|^(?:\S+: )?(?:Segmentation fault|Killed|Aborted)\b|\btimed out after\b|^CONFLICT \("
)
"""A line near the end in which a test runner, a compiler or a shell reports failure."""
_HINT = re.compile(
    r"err|exc|fail|fatal|denied|found|no such|invalid|trace|kill|abort|fault|timed|conflict|no replacement|\*\*\*|E   "
    r"|错误|失败|异常|錯誤|失敗|エラー|例外|오류|실패",
    re.IGNORECASE,
)
"""A text without any of these reports no error; this saves most texts a search line by line."""
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
    if not failed and lines > _SHORT and not (_HINT.search(head) or _HINT.search(tail)):
        return Outcome(False, "", lines)
    strict = _last(_STRICT, tail) or (_last(_STRICT, head) if len(text) > _ENDS else "")
    if not failed:
        failed = (lines <= _SHORT and _REFUSES.match(head) is not None) or (effect != "reads" and _ends_in_error(tail))
    if not failed and not strict:
        return Outcome(False, "", lines)
    error = _own_words(head, tail, strict)
    cause = (_last(_NAMED_ERROR, tail) or strict or _first_of_few(head, lines)) if failed else ""
    return Outcome(failed, error, lines, cause if cause != error else "")


def _exit_code(head: str, tail: str) -> int | None:
    """The exit code in the last lines, otherwise in the first."""
    last = list(_EXIT.finditer("\n".join(tail.splitlines()[-_OUTSIDE:])))
    match = last[-1] if last else _EXIT.search("\n".join(head.splitlines()[:_OUTSIDE]))
    if match is None:
        return None
    return int(next(g for g in match.groups() if g is not None)[:9])


def _own_words(head: str, tail: str, strict: str) -> str:
    """The last error line of a failed call, otherwise its last line."""
    loose = _last(_LOOSE, tail) or _last(_LOOSE, head)
    code = _exit_code(head, tail)
    last = next((x.strip() for x in reversed(tail.splitlines()) if any(ch.isalnum() for ch in x)), "")
    if not (loose or strict) and code and _EXIT.search(last):
        return f"exit code {code}"
    return loose or strict or _shorten(last)


def _first_of_few(text: str, lines: int) -> str:
    """The first line of a text of few lines: what a program says before "make: *** Error 2"."""
    first = next(filter(str.strip, text.splitlines()), "").strip() if 1 < lines <= _SHORT else ""
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
        if pattern.search(line[: 2 * _LONGEST_LINE]):
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
    reports_error = any(_RUN_FAILURE.search(x) or (_REPORTS.search(x) and not _CODE.match(x)) for x in last)
    return reports_error or re.search(r"^[^\w\n]*Traceback \(most recent", tail, re.MULTILINE) is not None
