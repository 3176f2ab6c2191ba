"""What strategies propose, and how the edit is made that a proposal means.

A proposal names a span of the view and says what should stand in its place: one note, or the same message with shorter
texts. Where a text is a Question, the model is asked for it first. Whether the edit is made is decided in `edits`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from autocontext.history.edits import Edit
from autocontext.history.view import Span
from autocontext.messages import (
    COMPRESS_META,
    OFFLOAD_UUID,
    WRITTEN,
    ContentBlock,
    Msg,
    Origin,
    OriginKind,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    freeze,
)
from autocontext.text import rendering

MESSAGE_TEXT = -1
"""Block index that stands for a message's whole text: its text blocks become one."""


@dataclass(frozen=True, slots=True)
class Question:
    """A text to be asked of the model."""

    purpose: rendering.Purpose
    parts: tuple[str, ...]
    """Transcript sections, one per message, in order."""
    target_tokens: int
    """Size of the answer that is asked for."""
    sizes: tuple[int, ...]
    """Tokens of each part, by and large: where a transcript that is too long for one request may be cut."""
    otherwise: str | None = None
    """The text where the model gives no usable answer; None: the extractive summariser is asked."""

    @property
    def well_formed(self) -> bool:
        """Whether it can be put: a purpose that has a prompt, and as many texts as sizes."""
        texts = all(isinstance(part, str) for part in self.parts) and any(self.parts)
        sizes = [*self.sizes, self.target_tokens]
        numbers = len(sizes) == len(self.parts) + 1 and all(isinstance(n, int) and n >= 0 for n in sizes)
        return self.purpose in get_args(rendering.Purpose) and texts and numbers


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a strategy would like to replace: a span by one note, or one message by a shorter one of the same shape.

    A note: `text` is its text or the question for it. In place: `blocks` gives, per block index (MESSAGE_TEXT for
    the message's text), the new text or the question for it; the span is then a single message.
    """

    span: Span
    text: str | Question | None = None
    blocks: Mapping[int, str | Question] = field(default_factory=dict)
    event_type: str = "CUSTOM_COMPRESS"
    kind: OriginKind = "tool_run"
    role: Role = "user"
    """Role of the note."""
    ledger: Callable[[str], str] | None = None
    """Makes what follows a note's text, the work ledger, once that text is known."""
    arguments_to: int | None = None
    """In place: cut texts in the arguments of the message's calls to this many characters."""
    footer: str = ""
    """A line that follows the note's text, whatever the model answers."""
    context: Span | None = None
    """Messages that stay in view and stand first in the offload entry, for whoever reloads it."""

    @property
    def well_formed(self) -> bool:
        """Whether an edit can be built from it: a note for a span, or new texts for one message."""
        if not isinstance(self.span, Span) or not self.span.ids or len(self.span.ids) != len(self.span.messages):
            return False
        note = self.text is not None
        in_place = bool(self.blocks) or self.arguments_to is not None
        if self.kind == "ledger":
            return False
        # Of another role a note would be no valid message: a tool answers calls, a system message stays for good.
        return note != in_place and (self.role in ("user", "assistant") if note else len(self.span) == 1)

    @property
    def questions(self) -> tuple[Question, ...]:
        """What must be asked before the edit can be built, in order."""
        texts = [self.text, *self.blocks.values()]
        return tuple(t for t in texts if isinstance(t, Question))


def build(
    proposal: Proposal,
    answers: Sequence[str],
    *,
    strategy: str = "",
    fallback: bool = False,
    handles: Container[str] = (),
) -> Edit:
    """The edit that a proposal means, with `answers` to its questions in their order.

    A page that was reloaded by one of the `handles` there are keeps that handle: same content, same UUID.
    """
    key = _handle(proposal, handles) or str(uuid.uuid4())
    replies = iter(answers)
    origin = Origin(uuid=key, kind=proposal.kind, fallback=fallback)

    def resolved(text: str | Question) -> str:
        return next(replies) if isinstance(text, Question) else text

    if proposal.blocks or proposal.arguments_to is not None:
        texts = {i: resolved(t) for i, t in proposal.blocks.items()}
        new = _rewritten(proposal, texts, origin)
    else:
        new = _note(proposal, resolved(proposal.text or ""), origin)
    kept = proposal.context.ids if proposal.context else ()
    return Edit(
        uuid=key,
        ids=proposal.span.ids,
        messages=(new,),
        offload=kept + proposal.span.ids,
        event_type=proposal.event_type,
        strategy=strategy,
    )


def _handle(proposal: Proposal, handles: Container[str]) -> str:
    """The UUID whose reloads all replaced texts are pages of; "" when they are something else."""
    if proposal.arguments_to is not None or MESSAGE_TEXT in proposal.blocks:
        return ""
    cut = [proposal.span.messages[0].content[i] for i in proposal.blocks]
    blocks = cut or [b for m in proposal.span.messages for b in m.content if not isinstance(b, ToolUseBlock)]
    pages = {rendering.page_of(b.text) if isinstance(b, ToolResultBlock) else "" for b in blocks}
    found = pages.pop() if len(pages) == 1 else ""
    return found if found in handles else ""


def _note(proposal: Proposal, text: str, origin: Origin) -> Msg:
    """The note: what was written, then the work ledger, the fixed line and the tag."""
    written = rendering.escape_tags(text)
    ledger = proposal.ledger(text) if proposal.ledger is not None else ""
    body = rendering.escape_tags("\n".join(filter(None, (text, ledger, proposal.footer))))
    meta = _meta(proposal, origin.uuid)
    if proposal.ledger is not None and written:
        meta[COMPRESS_META][WRITTEN] = len(written)
    content = rendering.note_text(body, origin.uuid, proposal.role)
    return Msg(role=proposal.role, name=proposal.role, content=content, metadata=meta, origin=origin)


def _meta(proposal: Proposal, key: str) -> dict[str, Any]:
    """The reference's mark of a message that a compression has made."""
    mark: dict[str, Any] = {OFFLOAD_UUID: key}
    if proposal.kind == "current_round":
        mark["compressed_current_round"] = True
    return {COMPRESS_META: mark}


def _rewritten(proposal: Proposal, texts: Mapping[int, str], origin: Origin) -> Msg:
    """The span's one message with new texts in the given blocks, everything else as it was."""
    msg = proposal.span.messages[0]
    mark = "\n" + rendering.tag(origin.uuid)
    blocks: list[ContentBlock] = []
    for i, block in enumerate(msg.content):
        if isinstance(block, TextBlock) and MESSAGE_TEXT in texts:
            if not any(isinstance(b, TextBlock) for b in msg.content[:i]):
                text = rendering.escape_tags(texts[MESSAGE_TEXT]) + mark
                blocks.append(block.model_copy(update={"text": text}))
        elif isinstance(block, ToolResultBlock) and i in texts:
            text = rendering.escape_tags(texts[i]) + mark
            blocks.append(block.model_copy(update={"output": _with_text(block, text)}))
        elif isinstance(block, ToolUseBlock) and proposal.arguments_to is not None:
            cut = freeze(rendering.shortened(block.input, proposal.arguments_to, mark))
            blocks.append(block.model_copy(update={"input": cut}))
        else:
            blocks.append(block)
    return Msg(
        role=msg.role,
        name=msg.name,
        content=blocks,
        metadata={**msg.metadata, **_meta(proposal, origin.uuid)},
        timestamp=msg.timestamp,
        origin=origin,
    )


def _with_text(block: ToolResultBlock, text: str) -> str | tuple[Any, ...]:
    """The output with its texts replaced by one; images and the like stay."""
    if isinstance(block.output, str):
        return text
    others = tuple(b for b in block.output if not isinstance(b, TextBlock))
    return (TextBlock(text=text), *others)
