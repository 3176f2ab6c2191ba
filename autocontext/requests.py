"""Requests to a summarising model and its replies: plain text, without tool blocks."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field

from autocontext.messages import Value


class Summed(Value):
    """Numbers that are added and subtracted field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: number + getattr(other, name) for name, number in self})

    def __sub__(self, other: Self) -> Self:
        return type(self)(**{name: number - getattr(other, name) for name, number in self})


class Usage(Summed):
    """Tokens and seconds of one model call."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    seconds: float = Field(default=0.0, ge=0)


class ModelRequest(Value):
    """One question to a model: a system text and one prompt that holds the transcript."""

    system: str
    prompt: str
    purpose: str
    """tool_run, large_message, round_summary, current_round, fold or merge."""
    max_output_tokens: int | None = None


class ModelReply(Value):
    """A model's answer; `truncated` if its length limit cut it off."""

    text: str
    usage: Usage | None = None
    truncated: bool = False


class Answer(Value):
    """The result of one request: a usable text, or the problem; with the usage of all attempts."""

    text: str | None = None
    problem: str = ""
    calls: int = 0
    usage: Usage = Field(default_factory=Usage)


_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_TOOL_CALL = re.compile(r"\A\s*(?:<tool_call>|<function_call>|<\|tool_call|\{\s*\"tool_calls\")", re.IGNORECASE)
_ERROR = re.compile(
    r"""\A\W*(?:
        (?:error\ code|http\ error|status\ code|api\ error)\W+\d{3}
        | \{\s*"(?:error|detail)"\s*:
        | (?:\d{3}\s+)?(?:internal\ server\ error|bad\ gateway|service\ unavailable|gateway\ time-?out)
        | (?:\d{3}\s+)?too\ many\ requests
        | rate\ limit\ (?:reached|exceeded)
        | (?:request|connection)\ (?:timed\ out|error)
        | (?:invalid|incorrect)\ api\ key
        | insufficient[_\ ]quota
        | this\ model's\ maximum\ context\ length
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_ERROR_LENGTH = 600
"""Characters; services' error texts are shorter."""


def text_of(reply: ModelReply, source: str, limit: int) -> tuple[str, str]:
    """The usable text of a reply that replaces `limit` characters of messages, or the reason why there is none.

    `source` is the request's text: an error text that occurs there, too, is a quotation.
    """
    if reply.truncated:
        return "", "the reply was cut off by its length limit"
    whole = str.__str__(reply.text)  # a plain str, whatever class it came in
    text = _THINKING.sub("", whole).strip()
    if not text:
        return "", "the reply is empty" if not whole.strip() else "the reply holds reasoning only"
    if _TOOL_CALL.match(text):
        return "", "the reply is a tool call, not a text"
    if len(text) <= _ERROR_LENGTH and (error := _ERROR.match(text)) and error.group().strip() not in source:
        return "", f"the reply is an error message: {text[:80]!r}"
    if len(text) >= limit:
        return "", f"the reply ({len(text)} characters) is not shorter than what it replaces ({limit})"
    return text, ""
