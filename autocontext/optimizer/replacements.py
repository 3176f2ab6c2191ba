"""A history while it is being optimised: each place holds a message, or the one that will replace it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from autocontext.content import placeholders
from autocontext.errors import InvalidMessage, StoreCorruptError
from autocontext.messages import Msg, TextBlock, ToolResultBlock, freeze
from autocontext.text.failures import IsFailure
from autocontext.text.rendering import cut

CONTENT_REF = "_content_ref"
"""Metadata key of a shortened message: the content handle of its originals."""
BETWEEN = "_between"
"""Metadata key of a summary: pairs of a message's id and how many of the originals come before that message. It stands
between them, but stays in view, after the summary."""

FAILED = "_failed"
"""Metadata key of a shortened message: what each of its results that was a failure said first, by the call's id."""

_LINE_ENDS = {ord(ch): f"\\u{ord(ch):04x}" for ch in "\x85\u2028\u2029"}
"""Escaped, because `str.splitlines` breaks at them and other tools do not."""

Render = Callable[[str], Msg]
Write = Callable[[str], str]
"""Take the handle of the originals and return the message, or the text of a result, that replaces them."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """One place in the history: the original messages, and what replaces them."""

    originals: tuple[Msg, ...]
    render: Render | None = None
    """None: the original stays."""
    reason: str = ""
    ref: str = ""
    """The handle, if the originals are stored already."""
    msg: Msg = field(init=False)
    """The message in this place, with a placeholder for a handle it does not have yet."""

    def __post_init__(self) -> None:
        msg = self.originals[-1] if self.render is None else self.render(self.ref or placeholders.ANY_REF)
        object.__setattr__(self, "msg", msg)


def as_replacements(messages: Sequence[Msg]) -> list[Replacement]:
    """One place for each message; nothing is replaced yet."""
    return [Replacement((m,)) for m in messages]


def is_shortened(msg: Msg) -> bool:
    """Whether the optimiser has already shortened this message."""
    return CONTENT_REF in msg.metadata


def judged_results(msg: Msg, failed: IsFailure) -> Iterator[tuple[ToolResultBlock, bool]]:
    """The results of a message, and whether they were failures when the optimiser shortened them."""
    failures = msg.metadata.get(FAILED)
    said = failures if isinstance(failures, Mapping) else {}
    for result in msg.tool_results:
        if (text := said.get(result.id)) is None:
            yield result, failed(result)
        else:
            yield result.model_copy(update={"output": str(text)}), True


def replace_outputs(
    replacement: Replacement, outputs: Mapping[int, Write], reason: str, failure: Callable[[ToolResultBlock], str]
) -> Replacement:
    """Give some results of the message new texts; `outputs` is keyed by block index.

    `failure` gives what a failed result said, "" for others.
    """
    before = replacement.render
    original = replacement.originals[-1]
    results = [b for i, b in enumerate(original.content) if i in outputs and isinstance(b, ToolResultBlock)]
    failures = {result.id: text for result in results if (text := failure(result))}

    def render(ref: str) -> Msg:
        msg = original if before is None else before(ref)
        content = tuple(
            _with_text(block, outputs[i](ref)) if i in outputs and isinstance(block, ToolResultBlock) else block
            for i, block in enumerate(msg.content)
        )
        metadata = {**msg.metadata, FAILED: failures} if failures else msg.metadata
        return with_content_ref(msg.model_copy(update={"content": content, "metadata": metadata}), ref)

    return replace(replacement, render=render, reason=", ".join(filter(None, (replacement.reason, reason))))


def _with_text(block: ToolResultBlock, text: str) -> ToolResultBlock:
    """The result with another text; its images and other blocks stay."""
    if isinstance(block.output, str):
        return block.model_copy(update={"output": text})
    others = tuple(b for b in block.output if not isinstance(b, TextBlock))
    return block.model_copy(update={"output": (TextBlock(text=text), *others)})


def with_content_ref(msg: Msg, ref: str) -> Msg:
    """The message with the handle of its originals in its metadata."""
    return msg.model_copy(update={"metadata": freeze({**msg.metadata, CONTENT_REF: ref})})


def places_between(msg: Msg) -> list[tuple[str, int]]:
    """Which messages stand between the originals of a summary, and after how many of these: see BETWEEN."""
    pairs = msg.metadata.get(BETWEEN, ())
    try:
        places = [(str(id_), int(place)) for id_, place in pairs]
    except (TypeError, ValueError) as e:
        raise StoreCorruptError(
            f"message {msg.id}: its metadata `{BETWEEN}` is damaged ({e}); load an earlier revision of the state"
        ) from e
    if any(after < before for (_, before), (_, after) in pairwise(places)):
        raise StoreCorruptError(f"message {msg.id}: its metadata `{BETWEEN}` is damaged (not in order)")
    return places


def preview(text: str, characters: int, ref: str) -> str:
    """The beginning of a result, and how to read the rest."""
    head = text[: cut(text, characters)] if characters else ""
    return placeholders.rest(head, len(text), ref)


# ---------------------------------------------------------------------------------------------------- JSON lines
def dump_messages(messages: Sequence[Msg]) -> str:
    """The messages as JSON lines, in the form of `Msg.model_dump_json`."""
    return "\n".join(map(_line, messages))


def load_messages(text: str) -> list[Msg]:
    """Read messages from JSON lines. Raises StoreCorruptError for anything else."""
    try:
        return [Msg.model_validate(json.loads(line)) for line in text.split("\n") if line]
    except (ValueError, InvalidMessage) as e:
        raise StoreCorruptError(f"stored messages are damaged: {e}; restore the content store from a backup") from e


def _line(msg: Msg) -> str:
    # pydantic's JSON mode rejects lone surrogates.
    values = msg.model_dump()
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Lone surrogates are not valid UTF-8; escaped, they survive the round trip.
        return json.dumps(values, separators=(",", ":"))
    return text.translate(_LINE_ENDS)
