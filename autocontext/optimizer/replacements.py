"""A history while it is being optimised: places that hold a message, or what is to stand there once it is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autocontext.errors import InvalidMessage, StoreCorruptError
from autocontext.messages import Msg, TextBlock, ToolResultBlock, freeze
from autocontext.text.rendering import cut

CONTENT_REF = "_content_ref"
"""Metadata key of a message that stands for more than it shows: the handle of the originals."""
ANY_REF = "c_" + 12 * "0"
"""As long as a handle is; for sizes, before there is one."""

_LINE_ENDS = {ord(ch): f"\\u{ord(ch):04x}" for ch in "\x85\u2028\u2029"}
"""Escaped, so that every way to split lines finds the same ones."""

Render = Callable[[str], Msg]
"""Given the handle, the message that stands for the originals."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One place: the messages that were given, and what is to stand for them."""

    originals: tuple[Msg, ...]
    render: Render | None = None
    """None: the one original stays."""
    reason: str = ""
    ref: str = ""
    """The handle, where the originals are stored already."""
    msg: Msg = field(init=False)
    """The message that stands here, its handle made up where it has none yet."""

    def __post_init__(self) -> None:
        shown = self.originals[-1] if self.render is None else self.render(self.ref or ANY_REF)
        object.__setattr__(self, "msg", shown)


def slots_of(messages: Sequence[Msg]) -> list[Slot]:
    """One slot for each message."""
    return [Slot((m,)) for m in messages]


def is_shortened(msg: Msg) -> bool:
    """Whether the optimiser has been here before."""
    return CONTENT_REF in msg.metadata


def with_outputs(slot: Slot, outputs: Mapping[int, Callable[[str], str]], reason: str) -> Slot:
    """The slot with other texts for some results of its message, by the index of their blocks."""
    before = slot.render
    original = slot.originals[-1]

    def render(ref: str) -> Msg:
        msg = original if before is None else before(ref)
        content = tuple(
            _with_text(block, outputs[i](ref)) if i in outputs and isinstance(block, ToolResultBlock) else block
            for i, block in enumerate(msg.content)
        )
        return marked(msg.model_copy(update={"content": content}), ref)

    return replace(slot, render=render, reason=", ".join(filter(None, (slot.reason, reason))))


def _with_text(block: ToolResultBlock, text: str) -> ToolResultBlock:
    """The result with another text; its images and the like stay."""
    if isinstance(block.output, str):
        return block.model_copy(update={"output": text})
    others = tuple(b for b in block.output if not isinstance(b, TextBlock))
    return block.model_copy(update={"output": (TextBlock(text=text), *others)})


def marked(msg: Msg, ref: str) -> Msg:
    """The message with the handle of its originals."""
    return msg.model_copy(update={"metadata": freeze({**msg.metadata, CONTENT_REF: ref})})


def preview(text: str, characters: int, ref: str) -> str:
    """The beginning of a result, and where it is whole."""
    head = text[: cut(text, characters)] if characters else ""
    return f'{head}... [{len(text) - len(head):,} more chars: context_reload("{ref}")]'


# ---------------------------------------------------------------------------------------------------- JSON lines
def dumped(messages: Sequence[Msg]) -> str:
    """The messages as JSON lines, as `Msg.model_dump_json` writes them where it can."""
    return "\n".join(map(_line, messages))


def loaded(text: str) -> list[Msg]:
    """The messages of JSON lines. Raises StoreCorruptError when they are none."""
    try:
        return [Msg.model_validate(json.loads(line)) for line in text.split("\n") if line]
    except (ValueError, InvalidMessage) as e:
        raise StoreCorruptError(f"stored messages cannot be read back: {e}") from e


def _line(msg: Msg) -> str:
    # Not in pydantic's JSON mode, which cannot take half a surrogate pair.
    values = msg.model_dump()
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair is no UTF-8; escaped it comes back as it was.
        return json.dumps(values, separators=(",", ":"))
    return text.translate(_LINE_ENDS)
