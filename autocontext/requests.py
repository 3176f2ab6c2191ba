"""What a summarising model is asked and what it answers: text only, no tool block ever reaches it."""

from __future__ import annotations

from pydantic import Field

from autocontext.messages import Value


class Usage(Value):
    """What one model call used."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    seconds: float = Field(default=0.0, ge=0)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            seconds=self.seconds + other.seconds,
        )


class ModelRequest(Value):
    """One question to a model: a system text and one prompt that holds the transcript."""

    system: str
    prompt: str
    purpose: str
    """What the text is for: tool_run, large_message, round_summary, current_round, merge."""
    max_output_tokens: int | None = None


class ModelReply(Value):
    """A model's answer. `truncated` tells that it was cut off by its length limit."""

    text: str
    usage: Usage | None = None
    truncated: bool = False


class Answer(Value):
    """What became of one request: a usable text, or the problem; and what all attempts at it used."""

    text: str | None = None
    problem: str = ""
    calls: int = 0
    usage: Usage = Field(default_factory=Usage)


def unusable(reply: ModelReply, limit: int) -> str:
    """Why a reply cannot stand for `limit` characters of messages; "" when it can."""
    text = reply.text.strip()
    if not text:
        return "the reply is empty"
    if reply.truncated:
        return "the reply was cut off by its length limit"
    if len(text) >= limit:
        return f"the reply ({len(text)} characters) is not shorter than what it replaces ({limit})"
    return ""
