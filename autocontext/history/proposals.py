"""What strategies propose, and `build`, which turns a proposal into an edit.

A proposal names a span of the view and its replacement: one note, or the same message with shorter texts. A text may
be a Question, which the model answers first. `edits.apply` decides whether the edit is made.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard, get_args

from autocontext.history.edits import Edit
from autocontext.history.view import Span
from autocontext.messages import (
    COMPACTION,
    COMPRESS_META,
    FILE,
    OFFLOAD_UUID,
    WRITTEN,
    ContentBlock,
    Msg,
    Origin,
    OriginKind,
    OutputBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    freeze,
    said_in,
)
from autocontext.text import rendering
from autocontext.tokens.request_size import Place, may_leave

MESSAGE_TEXT = -1
"""Block index for a message's whole text: its text blocks become one."""
_USER_SAID = 'The user said: "{}"'
"""What stands before the short form of a result, inside which the user said something."""


@dataclass(frozen=True, slots=True)
class Question:
    """A text for the model to write."""

    purpose: rendering.Purpose
    parts: tuple[str, ...]
    """Transcript sections, one per message, in order."""
    target_tokens: int
    """Size of the answer to ask for."""
    sizes: tuple[int, ...]
    """Approximate tokens of each part; a transcript too long for one request is split by them."""
    otherwise: str | None = None
    """The text to use if the model gives no usable answer; None for the extractive summariser's."""
    characters: int = 0
    """Characters of the messages that the answer replaces, where that is more than the parts have."""

    @property
    def well_formed(self) -> bool:
        """Whether it can be asked: the purpose has a prompt, and there are as many texts as sizes."""
        texts = all(isinstance(part, str) for part in self.parts) and any(self.parts)
        sizes = [*self.sizes, self.target_tokens, self.characters]
        numbers = len(sizes) == len(self.parts) + 2 and all(isinstance(n, int) and n >= 0 for n in sizes)
        return self.purpose in get_args(rendering.Purpose) and texts and numbers


@dataclass(frozen=True, slots=True)
class Proposal:
    """A replacement: a span by one note or by nothing, or one message by a shorter one of the same shape.

    For a note, `text` is its text or the Question for it. For one message, `blocks` maps block indices (MESSAGE_TEXT
    for the message's text) to the new text or the Question for it, and `images` the places of images to lines.

        Proposal(view.span(2, 8), "Compared three parsers; chose lark.")
    """

    span: Span
    text: str | Question | None = None
    blocks: Mapping[int, str | Question] = field(default_factory=dict)
    event_type: str = "CUSTOM_COMPRESS"
    kind: OriginKind = "tool_run"
    role: Role = "user"
    """Role of the note."""
    ledger: Callable[[str], str] | None = None
    """Renders the work ledger that follows a note's text; called with that text."""
    images: Mapping[Place, str] = field(default_factory=dict)
    """For one message: lines in the place of images and files, by block: (2,), or (2, 0) for the first of an output."""
    arguments_to: int | None = None
    """For one message: cut texts in the arguments of its calls to this many characters."""
    told_again: frozenset[str] = frozenset()
    """With `arguments_to`: ids of calls whose lists a later call tells again; they are cut to their first items."""
    number: int | None = None
    """For one message: its number. Its new texts then name that themselves, in the place of the offload tag."""
    footer: str = ""
    """A fixed line after the note's text."""
    removes: bool = False
    """Removes the span without a note: a provider's compaction stands for it."""
    strips_compaction: bool = False
    """For one message: removes the provider's compaction in it and keeps the rest."""
    context: Span | None = None
    """Messages that stay in view but come first in the offload entry, as context for a reload."""
    recalls: tuple[str, ...] = ()
    """For a note of kind "recall", which comes right before the span's one message and replaces nothing: the ids of the
    originals that it quotes."""
    fallback: bool = False
    """For a note that takes the place of one which was written without the model, as that gave no usable answer."""

    @property
    def well_formed(self) -> bool:
        """Whether an edit can be built from it: a note for a span, or new texts for one message."""
        if not isinstance(self.span, Span) or not self.span.ids or len(self.span.ids) != len(self.span.messages):
            return False
        note = self.text is not None
        if bool(self.recalls) != (self.kind == "recall") or (self.recalls and not (note and len(self.span) == 1)):
            return False
        if self.kind == "ledger" or note + self.in_place + self.removes != 1:
            return False
        # No other role suits a note: a tool message answers calls, and system messages are never replaced.
        return self.role in ("user", "assistant") if note else self.removes or len(self.span) == 1

    @property
    def in_place(self) -> bool:
        """Whether one message stays, in a shorter form."""
        return bool(self.blocks or self.images) or self.arguments_to is not None or self.strips_compaction

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions to answer before the edit can be built, in order."""
        texts = [self.text, *self.blocks.values()]
        return tuple(t for t in texts if isinstance(t, Question))


def build(
    proposal: Proposal,
    answers: Sequence[str],
    *,
    strategy: str = "",
    fallback: bool = False,
    handles: Container[str] = (),
    redact: Callable[[str], str] = lambda text: text,
) -> Edit:
    """The edit for a proposal, with `answers` to its questions in their order; `redact` applies to all new texts.

    A page that was reloaded by one of the existing `handles` keeps that UUID: same content, same UUID.
    """
    key = _handle(proposal, handles) or str(uuid.uuid4())
    replies = iter(answers)
    origin = Origin(uuid=key, kind=proposal.kind, fallback=fallback or proposal.fallback)

    def resolve(text: str | Question) -> str:
        return next(replies) if isinstance(text, Question) else text

    new: tuple[Msg, ...] = ()
    if proposal.in_place:
        texts = {i: redact(resolve(t)) for i, t in proposal.blocks.items()}
        new = (_rewrite(proposal, texts, origin),)
    elif not proposal.removes:
        new = (_note(proposal, redact(resolve(proposal.text or "")), origin, redact),)
    context = proposal.context.ids if proposal.context else ()
    return Edit(
        uuid=key,
        ids=() if proposal.recalls else proposal.span.ids,
        messages=new,
        offload=proposal.recalls or context + proposal.span.ids,
        event_type=proposal.event_type,
        strategy=strategy,
        before=proposal.span.ids[0] if proposal.recalls else "",
    )


def _handle(proposal: Proposal, handles: Container[str]) -> str:
    """The UUID if all replaced texts are reloaded pages of it; otherwise ""."""
    other = proposal.arguments_to is not None or proposal.removes or proposal.strips_compaction or proposal.images
    if other or MESSAGE_TEXT in proposal.blocks:
        return ""
    replaced = [proposal.span.messages[0].content[i] for i in proposal.blocks]
    blocks = replaced or [b for m in proposal.span.messages for b in m.content if not isinstance(b, ToolUseBlock)]
    pages = {rendering.page_of(b.text) if isinstance(b, ToolResultBlock) else "" for b in blocks}
    page = pages.pop() if len(pages) == 1 else ""
    return page if page in handles else ""


def _note(proposal: Proposal, text: str, origin: Origin, redact: Callable[[str], str]) -> Msg:
    """The note: the model's text, the work ledger, the fixed line and the tag."""
    model_text = rendering.escape_tags(text)
    ledger = redact(proposal.ledger(text)) if proposal.ledger is not None else ""
    body = rendering.escape_tags("\n".join(filter(None, (text, ledger, proposal.footer))))
    meta = _meta(proposal, origin.uuid)
    if proposal.ledger is not None and model_text:
        meta[COMPRESS_META][WRITTEN] = len(model_text)
    content = rendering.note_text(body, origin.uuid, proposal.role)
    return Msg(role=proposal.role, name=proposal.role, content=content, metadata=meta, origin=origin)


def _meta(proposal: Proposal, key: str) -> dict[str, Any]:
    """The reference's metadata for a message made by a compression."""
    mark: dict[str, Any] = {OFFLOAD_UUID: key}
    if proposal.kind == "current_round":
        mark["compressed_current_round"] = True
    return {COMPRESS_META: mark}


def _rewrite(proposal: Proposal, texts: Mapping[int, str], origin: Origin) -> Msg:
    """The span's one message with new texts in some blocks, lines for some images and files, and the rest unchanged."""
    msg = proposal.span.messages[0]
    mark = "\n" + rendering.tag(origin.uuid) if proposal.number is None else ""
    of_arguments = mark or f" {rendering.rest_of(proposal.number or 0)}"
    blocks: list[ContentBlock] = []
    lines = {place: TextBlock(text=rendering.escape_tags(line) + mark) for place, line in proposal.images.items()}
    for i, old in enumerate(msg.content):
        block = _with_lines(old, i, lines)
        if COMPACTION in block.metadata:
            blocks.extend([] if proposal.strips_compaction else [block])
        elif _is_words(block) and MESSAGE_TEXT in texts:
            if not any(map(_is_words, msg.content[:i])):
                text = rendering.escape_tags(texts[MESSAGE_TEXT]) + mark
                blocks.append(block.model_copy(update={"text": text}))
        elif isinstance(block, ToolResultBlock) and i in texts:
            # What the user said inside the result is no part of it, and stays.
            said = [words for words in said_in(msg) if words in block.text and words not in texts[i]]
            text = rendering.escape_tags("\n".join((*map(_USER_SAID.format, said), texts[i]))) + mark
            blocks.append(block.model_copy(update={"output": _with_text(block, text)}))
        elif isinstance(block, ToolUseBlock) and proposal.arguments_to is not None:
            lists = block.id in proposal.told_again
            arguments = freeze(rendering.shortened(block.input, proposal.arguments_to, of_arguments, lists=lists))
            blocks.append(block.model_copy(update={"input": arguments}))
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


def _is_words(block: ContentBlock | OutputBlock) -> TypeGuard[TextBlock]:
    """Whether a block is a text that others may stand for: no provider's compaction, and no file."""
    return isinstance(block, TextBlock) and block.metadata.keys().isdisjoint((COMPACTION, FILE))


def _with_lines(block: ContentBlock, place: int, lines: Mapping[Place, TextBlock]) -> ContentBlock:
    """A block with lines in the place of images and files: in its own, or in its output."""
    if not isinstance(block, ToolResultBlock) or isinstance(block.output, str):
        return lines.get((place,), block) if may_leave(block) else block
    output = [lines.get((place, k), b) if may_leave(b) else b for k, b in enumerate(block.output)]
    return block.model_copy(update={"output": output}) if lines else block


def _with_text(block: ToolResultBlock, text: str) -> str | tuple[Any, ...]:
    """The output with its texts replaced by one; images and files stay, and the lines in the place of such."""
    if isinstance(block.output, str):
        return text
    others = tuple(
        b for b in block.output if not _is_words(b) or (rendering.is_media_line(b.text) and b.text not in text)
    )
    return (TextBlock(text=text), *others)
