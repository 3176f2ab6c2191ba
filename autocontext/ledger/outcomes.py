"""What came of a call, read from its result: exit codes, `is_error`, error lines."""

from __future__ import annotations

import re
from typing import NamedTuple

from autocontext.failures import is_failure_text
from autocontext.ledger.effects import Effect

_ENDS = 4_000
"""Characters at each end of a result that are searched for exit codes and errors."""
_PARSED = 20_000
"""Characters; a longer result is not parsed as JSON."""
_LONGEST_LINE = 400
"""Characters of an error line that are kept."""
_EXIT = re.compile(
    r"<returncode>\s*(-?\d+)|\bexit(?:ed)?(?: with)?(?: code| status)+[: ]+(-?\d+)|\bcode[: =]+(-?\d+)\b(?=\W*\Z)"
    r"|[\"']?(?:exit_?code|return_?code|exit_?status)[\"']?\s*[:=]\s*(-?\d+)",
    re.IGNORECASE,
)
_STRICT = re.compile(
    r"^(?:Traceback|Error\b|ERROR\b|error:|fatal:|FAILED\b|E   )"
    r"|\b[A-Z]\w{0,60}(?:Error|Exception):"
    r"|: (?:command not found|No such file or directory|Permission denied|not found)\b"
    r"|\berror(?:\[\w+\])?: \S|\bsyntax error\b|^No replacement was performed"
    r"|(?:错误|失败|异常|錯誤|失敗|エラー|例外|오류|실패)\s?[:：]"
)
"""A line that reports an error."""
_LOOSE = re.compile(
    r"error|exception|failed|failure|not found|no such|denied|invalid|fatal|错误|失败|异常|錯誤|失敗|エラー|例外|오류|실패",
    re.IGNORECASE,
)
_CODE = re.compile(r"^\s*\d*[:\-\s]*(?:except|raise|catch|throw|import|from|class|def|#|//|\*)\b")
"""A line of a program that only handles errors."""
_TESTS_FAILED = re.compile(r"\b[1-9]\d* (?:failed|failures?|errors?|failing)\b")
_EDITED = re.compile(r"^(?:The file|File) [^\n]{0,400}? has been (?:edited|created|updated)|^File created", re.IGNORECASE)


class Outcome(NamedTuple):
    """What came of a call."""

    failed: bool
    """Whether the result says so: `is_error`, an exit code, or a text that is an error and nothing else."""
    error: str
    """The last line that reports an error; "" when none does. Without `failed`, the output merely shows it."""
    lines: int
    """Lines of the result."""


def outcome_of(text: str, *, is_error: bool, effect: Effect | None) -> Outcome:
    """The outcome that a result's text tells."""
    head, tail = text[:_ENDS], text[-_ENDS:]
    lines = text.count("\n") + bool(text and not text.endswith("\n"))
    code = _exit_code(head, tail)
    failed = is_error or bool(code) or is_failure_text(text if len(text) <= _PARSED else head)
    edited = effect == "changes" and _EDITED.match(head)
    if not failed and (code == 0 or edited):
        # The exit code of a pipe is its last command's: what a test runner says of itself counts too.
        return Outcome(False, _summary(tail), lines)
    strict = _last(_STRICT, tail) or (_last(_STRICT, head) if len(text) > _ENDS else "")
    if not failed and strict and effect != "reads" and not _CODE.match(strict):
        failed = _ends_in_error(tail) or lines <= 3
    if not failed and not strict:
        return Outcome(False, "", lines)
    return Outcome(failed, _own_words(head, tail, strict), lines)


def _exit_code(head: str, tail: str) -> int | None:
    found = _EXIT.search(tail) or _EXIT.search(head)
    if found is None:
        return None
    return int(next(g for g in found.groups() if g is not None)[:9])


def _own_words(head: str, tail: str, strict: str) -> str:
    """The last error line of a call that failed; else the last line that it says."""
    loose = _last(_LOOSE, tail) or _last(_LOOSE, head)
    code = _exit_code(head, tail)
    last = next((x.strip() for x in reversed(tail.splitlines()) if any(ch.isalnum() for ch in x)), "")
    if not (loose or strict) and code and _EXIT.search(last):
        return f"exit code {code}"
    return (loose or strict or last)[:_LONGEST_LINE]


def _summary(tail: str) -> str:
    return _last(_TESTS_FAILED, "\n".join(tail.splitlines()[-8:]))


def _last(pattern: re.Pattern[str], text: str) -> str:
    """The last line in which the pattern is found, at most `_LONGEST_LINE` characters of it."""
    for line in reversed(text.splitlines()):
        if pattern.search(line[: 2 * _LONGEST_LINE]):
            return line.strip()[:_LONGEST_LINE]
    return ""


def _ends_in_error(tail: str) -> bool:
    """Whether one of the last lines reports an error, or a traceback stands there."""
    last = tail.splitlines()[-6:]
    return any(_STRICT.search(x[: 2 * _LONGEST_LINE]) and not _CODE.match(x) for x in last) or "Traceback (most recent" in tail
