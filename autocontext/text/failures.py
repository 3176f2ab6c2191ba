"""Whether a tool's result reports a failure, and of what kind.

Structure decides first: the result's `is_error`, or JSON with an error or an exit code. Plain text is a failure only
if it begins like an error message; a page about errors is no error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from autocontext.messages import ToolResultBlock
from autocontext.text.protocol_results import WENT_WELL, exit_code, parsed, said

FailureKind: TypeAlias = Literal[
    "validation_error", "not_found_error", "permission_error", "connection_error", "rate_limit_error",
    "execution_error", "general_error",
]  # fmt: skip
IsFailure: TypeAlias = Callable[[ToolResultBlock], bool]
"""The type of `is_failure`, for a detector of your own."""

_BEGINS = re.compile(
    r"""\s*+(?:
        (?:[\w.]*(?:error|exception)|fatal|panic|traceback|failed|failure)\b(?![^\w\n]{0,9}0(?!\.?\w))(?=\s*(?:[:!\[(]|\#?\d|$|\n|\r))
        | (?:error|fatal|exception)\s+(?:while|when|in\s+tool|executing|calling|running|reading|writing|opening)\b
        | traceback\s+\(most\s+recent\s+call\s+last\)
        | (?:command\s++)?(?:exit(?:ed)?|exit\s+code|exit\s+status|return\s*code)\s*+(?:with\s++)?
          (?:code|status)?\s*+[:=]?\s*+-?[1-9]\d*\b
        | (?:错误|失败|异常|錯誤|失敗|エラー|例外|오류|실패)\s*[:：]
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_LONGEST_JSON = 200_000
"""Characters; a larger result is data and not worth parsing."""
_OPENING = 300
"""The kind is looked for in this many first characters."""
_KINDS: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    ("validation_error", re.compile(r"validation|valueerror|typeerror|\binvalid\b|\bmalformed\b", re.IGNORECASE)),
    ("not_found_error", re.compile(r"not[ _]?found|\bundefined\b|no such|does not exist|\b404\b", re.IGNORECASE)),
    ("permission_error", re.compile(r"permission|\baccess\b|forbidden|unauthori[sz]ed|\b40[13]\b", re.IGNORECASE)),
    ("rate_limit_error", re.compile(r"rate[ _-]?limit|too many requests|\b429\b", re.IGNORECASE)),
    ("connection_error", re.compile(r"connection|network|unreachable|\bdns\b", re.IGNORECASE)),
    ("execution_error", re.compile(r"time[d]?[ _-]?out|\basync", re.IGNORECASE)),
)
_STATUS_KEYS = ("status", "statusCode", "status_code", "http_status")
_MESSAGE_KEYS = ("message", "msg", "error_description")
_REASON_KEYS = (*_MESSAGE_KEYS, "detail", "details", "title", "reason")


def is_failure(result: ToolResultBlock) -> bool:
    """Whether the result says that its call failed; in doubt it succeeded."""
    return result.is_error or is_failure_text(result.text)


def is_failure_text(text: str) -> bool:
    """Whether a tool's output begins like an error, or is JSON with an error or a non-zero exit code.

    Of an answer of the Model Context Protocol, the output inside.
    """
    text, is_error, _ = said(text)
    if is_error:
        return True
    fields = parsed(text, _LONGEST_JSON)
    return _names_failure(fields) if isinstance(fields, dict) else _BEGINS.match(text) is not None


def failure_kind(text: str) -> FailureKind:
    """The kind of a failure by its first words, with AgentScope's names; the first kind that fits."""
    opening = text[:_OPENING]
    return next((kind for kind, words in _KINDS if words.search(opening)), "general_error")


def first_line(text: str, characters: int = 120) -> str:
    """The first line that is not blank, or the last line of a Python traceback; at most `characters` long."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    line = lines[-1] if lines[0].lower().startswith("traceback (") else lines[0]
    return line if len(line) <= characters else line[: characters - 3] + "..."


def _names_failure(fields: Mapping[str, Any]) -> bool:
    if fields.get("error") or fields.get("is_error") is True or fields.get("isError") is True:
        return True
    if any(fields.get(key) is False for key in WENT_WELL):
        return True
    if str(fields.get("status", "")).lower() in ("error", "failed", "failure"):
        return True
    if exit_code(fields):
        return True
    has_data = any(fields.get(key) for key in ("data", "result", "results"))
    return not has_data and (tells_errors(fields.get("errors")) or _is_http_error(fields))


def tells_errors(value: Any) -> bool:
    """Whether a field "errors" holds some, or a record of them by field: not if it only counts them."""
    values = value.values() if isinstance(value, dict) else (value,)
    return any(told is True or (bool(told) and not isinstance(told, int | float)) for told in values)


def _is_http_error(fields: Mapping[str, Any]) -> bool:
    """Whether an object explains a status of 400 or more; a code may be a service's own, such as 40301."""
    return (_any_from_400(fields, _STATUS_KEYS) and _any_text(fields, _REASON_KEYS)) or (
        _any_from_400(fields, ("code",)) and _any_text(fields, _MESSAGE_KEYS)
    )


def _any_from_400(fields: Mapping[str, Any], keys: Iterable[str]) -> bool:
    return any(type(fields.get(key)) is int and fields[key] >= 400 for key in keys)


def _any_text(fields: Mapping[str, Any], keys: Iterable[str]) -> bool:
    return any(isinstance(fields.get(key), str) and fields[key] for key in keys)
