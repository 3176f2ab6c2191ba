"""Summaries without a model: the work ledger of a transcript.

Nothing leaves the process, nothing is invented, and equal requests give equal texts.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from autocontext.requests import ModelReply, ModelRequest, Usage
from autocontext.text.quoting import quoted
from autocontext.text.rendering import cut, escape_tags, unfence
from autocontext.tokens import TokenCounter, get_counter
from autocontext.tokens.request_size import utf8_bytes

_SHARE_WITHOUT_LIMIT = 0.3
_SHARE_WITH_LIMIT = 0.5
"""Half of a short transcript at most, as the gate refuses a note as long as its source."""
_SMALL = 32
"""Tokens; up to this limit bytes are counted, an upper bound, as an estimate's error would be too large."""
_USUAL, _WIDEST = 4, 32
"""Characters of a token, and the most."""
_HEAD = re.compile(
    r"^\[(?:(?P<role>user|assistant|system|tool)(?P<thinking> thinking)?"
    r"|(?P<kind>call|result)(?P<error> error)? (?P<name>[^\s\]]*) id=(?P<id>[^\]\n]*))\](?: |$)",
    re.MULTILINE,
)
"""The head of a block in `text.rendering.transcript`."""
_NUMBER = re.compile(r"m\d+(?:-m\d+)?:? |m\d+ \(open\): ")
"""At the start of a page's line: a place in the transcript, under which nothing can be reloaded."""
_REFERENCE = re.compile(r"(?<=[\"}a-z0-9…)]) \(m\d+\)(?=;|$)")
"""Another such place, behind what a call answered."""
_QUESTION = re.compile(r" \(m\d+ (?=agent: \"[^\n]*\"\)$)")
"""Another one, before the question that the user answered."""


class ExtractiveModel:
    """The summariser that needs no network and no model: about 1 MB of transcript a second.

    Writes what the `WorkLedger` of the transcript says within `max_output_tokens`: the user's words, the calls with
    their outcomes, the agent's conclusions, and lines with values that were used later. `counter` (a TokenCounter, or a
    name for `get_counter`) measures that limit; None estimates on the high side of o200k_base, cl100k_base and Qwen,
    without loading a vocabulary. `usage` holds counted or estimated tokens.
    """

    def __init__(self, *, counter: TokenCounter | str | None = None) -> None:
        self._counter = None if counter is None else get_counter(counter)

    def __repr__(self) -> str:
        return f"ExtractiveModel(counter={self._counter.name!r})" if self._counter else "ExtractiveModel()"

    def complete(self, request: ModelRequest) -> ModelReply:
        """A note of the transcript in the request; never empty, never raises."""
        start = time.perf_counter()
        transcript = unfence(request.prompt).strip()
        size = self._size(transcript)
        share = _SHARE_WITHOUT_LIMIT if request.max_output_tokens is None else _SHARE_WITH_LIMIT
        limit = max(_SMALL * 2, int(size * share))
        if request.max_output_tokens is not None:
            limit = max(1, min(limit, request.max_output_tokens))
        text = _note(transcript, limit, self._measure(limit))
        read, written = self._size(request.system) + self._size(request.prompt), self._size(text)
        usage = Usage(input_tokens=read, output_tokens=written, seconds=time.perf_counter() - start)
        return ModelReply(text=text, usage=usage)

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """As `complete`, in a thread."""
        return await asyncio.to_thread(self.complete, request)

    def _size(self, text: str) -> int:
        return self._counter.count_text(text) if self._counter else (utf8_bytes(text) + 3) // 4

    def _measure(self, limit: int) -> Callable[[str], int]:
        if self._counter:
            return self._counter.count_text
        return utf8_bytes if limit <= _SMALL else high_estimate


def _note(transcript: str, limit: int, measure: Callable[[str], int]) -> str:
    if not transcript:
        return "(no text)"
    if len(transcript) <= _WIDEST * limit and measure(transcript) <= limit:
        return transcript
    # Imported here, and below: a memory makes this model when it is opened, and needs the notes at its first pass.
    from autocontext.notes.page import PageRequest, render  # noqa: PLC0415
    from autocontext.notes.work import WorkLedger  # noqa: PLC0415

    page = render(WorkLedger.of(messages_of(transcript)), PageRequest(limit, measure))
    return "\n".join(_without_numbers(page)) or _excerpt(transcript, limit, measure)


def _without_numbers(page: str) -> Iterator[str]:
    """The lines of a page without the numbers of messages, which mean nothing outside of the transcript."""
    from autocontext.notes.page import HEADINGS, SAID  # noqa: PLC0415 (as above)

    part = ""
    for line in page.splitlines():
        part = line if line in HEADINGS else part
        number = _NUMBER.match(line)
        told = f"- {line[number.end() :]}" if number else line
        # What is quoted stays as it is: only the words of the page are changed.
        yield _QUESTION.sub(" (", told) if part == SAID else _REFERENCE.sub("", told) if " -> " in told else told


def _excerpt(text: str, limit: int, measure: Callable[[str], int]) -> str:
    """The lines that tell most of a text in which nothing was said or called: a document, the result of one call."""
    from autocontext.notes.values import values_in  # noqa: PLC0415 (as above)
    from autocontext.text.excerpts import Excerpts  # noqa: PLC0415
    from autocontext.text.signs import ERROR  # noqa: PLC0415

    def worth(piece: str) -> float:
        return 0.1 + 0.3 * min(len(values_in(piece)), 3) + (ERROR.search(piece) is not None)

    excerpts, characters = Excerpts(text, worth), _USUAL * limit
    while short := quoted(escape_tags(excerpts.of(characters).text)):
        if (size := measure(short)) <= limit:
            return short
        characters = min(characters, len(short)) * limit // (size + 1)
    return _clip(quoted(escape_tags(text[: _WIDEST * limit])), limit, measure)


def messages_of(transcript: str) -> Iterator[Msg]:
    """The blocks of a transcript, each as a message; what has no head is a result without a call."""
    heads = list(_HEAD.finditer(transcript))
    ends = [*(head.start() for head in heads), len(transcript)]
    if before := transcript[: ends[0]].strip():
        yield Msg(role="tool", content=[ToolResultBlock(id="", name="", output=before)])
    for head, end in zip(heads, ends[1:], strict=True):
        yield _message(head, transcript[head.end() : end].strip())


def _message(head: re.Match[str], text: str) -> Msg:
    if head["kind"] == "call":
        use = ToolUseBlock(id=head["id"], name=head["name"], input=_arguments(text))
        return Msg(role="assistant", content=[use])
    if head["kind"] == "result":
        result = ToolResultBlock(id=head["id"], name=head["name"], output=text, is_error=bool(head["error"]))
        return Msg(role="tool", content=[result])
    block = ThinkingBlock(thinking=text) if head["thinking"] else TextBlock(text=text)
    return Msg.model_validate({"role": head["role"], "content": [block]})


def _arguments(text: str) -> dict[str, Any]:
    try:
        return ToolUseBlock(id="", name="", input=json.loads(text)).input
    except (ValueError, RecursionError):  # also InvalidMessage: it is no object, or nested too deeply
        return {"arguments": text}


def _clip(text: str, limit: int, measure: Callable[[str], int]) -> str:
    """The longest beginning of a text within the limit; a dash if not even one character fits."""
    longest = bisect_right(range(1, len(text) + 1), limit, key=lambda n: measure(text[:n]))
    return text[: cut(text, longest)].rstrip() or "-" if longest else "-"


# ------------------------------------------------------------------------------------------------------- estimate
_PIECE = re.compile(
    r"(?=(?:[A-Za-z_+-]{0,24}[0-9]{1,24}){3})[A-Za-z0-9_+-]{20,}|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|\s+|[!-/:-@\[-`{-~]+|[\u0080-\u052f]+"
    r"|[\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7af\uff00-\uffef]+|[^\x00-\u052f]|.",
    re.DOTALL,
)


def high_estimate(text: str) -> int:
    """An estimate of a text's tokens on the high side: about 1.3 times o200k_base on agents' transcripts.

    Weights fitted to 19 agent conversations: fewer than 1 % of their passages have more tokens in o200k_base.
    """
    return int(sum(map(_piece_cost, _PIECE.findall(text)))) + 1


def _piece_cost(piece: str) -> float:
    first, length = piece[0], len(piece)
    if not first.isascii():
        if first <= "\u052f":
            return 0.6 * length
        return 1.3 * length if length > 1 or "\u3000" <= first <= "\uffef" else float(utf8_bytes(piece))
    if length >= 20 and any(c.isdigit() for c in piece):
        cost = 0.9 * length  # keys, hashes: most tokens have one or two characters
    elif first.isalpha():
        cost = 1 + max(0, length - 4) * 0.25
    elif first.isdigit():
        cost = length  # one token a digit, as in Qwen's vocabulary
    elif first.isspace():
        cost = 0.1 if piece == " " else 1 + length / 16
    else:
        cost = 1 + max(0, length - 2) * 0.4
    return cost
