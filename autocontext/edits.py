"""Every rule about a change of the working memory, in one place.

How a change comes about: a strategy reads a View and returns Proposals; `build` turns a proposal and the texts asked of
the model into an Edit; `apply` checks all edits of a strategy against the view they are meant for and makes the new
view in one pass. Nothing else changes a view, so a strategy, also a user's own, can be wrong but not do harm.

The rules that `apply` enforces:

1. the ids an edit replaces are contiguous in this very view, and no other edit of the batch has taken them;
2. the tool-call interface of the span is the same before and after, so pairing holds for the whole view;
3. a span whose interface is not empty is rewritten message by message: same number, role, name, calls and result ids;
   thinking, images and all other blocks stay as they are there;
4. everything that is replaced stands in the edit's offload entry, under its UUID;
5. system messages and pinned messages stay;
6. tokens really shrink;
7. a note in the user's role does not come last: it would read as the question to answer.

One exception, placed by `ledger_place`: the evidence ledger is derived, so a pass may insert, replace or drop it; no
strategy sees it, and the pass as a whole must still shrink.

An edit that breaks a rule is refused by name and the others go on. In strict mode InvalidEdit is raised, but not for
rule 6: how long a text will be is not known when it is proposed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from autocontext import rendering
from autocontext.errors import InvalidEdit
from autocontext.messages import (
    COMPRESS_META,
    OFFLOAD_UUID,
    ContentBlock,
    Msg,
    Origin,
    OriginKind,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Value,
    freeze,
    is_compressed,
    is_note,
    is_pinned,
)
from autocontext.view import Span, View, interface

_NO_GAIN = "it would not make the context smaller"
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
    items: tuple[TextBlock, ...] = ()
    """Further texts of a note, after `text`; each stays a block of its own."""
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


class Edit(Value):
    """A change that can be checked, applied and stored: `ids` go, `messages` come, `offload` keeps what went."""

    uuid: str
    ids: tuple[str, ...]
    messages: tuple[Msg, ...]
    offload: tuple[str, ...]
    """Ids of the messages in the offload entry, in order."""
    event_type: str
    strategy: str = ""


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
        content = _note(proposal, resolved(proposal.text or ""), key)
        new = Msg(role=proposal.role, name=proposal.role, content=content, metadata=_meta(proposal, key), origin=origin)
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


def _note(proposal: Proposal, text: str, key: str) -> list[TextBlock]:
    """The blocks of a note: one for its text, or one for each part between the marks."""
    if not proposal.items:
        body = rendering.escape_tags("\n".join(filter(None, (text, proposal.footer))))
        return [TextBlock(text=rendering.note_text(body, key, proposal.role))]
    begin, end = rendering.note_marks(proposal.role)
    head = TextBlock(text="\n".join(filter(None, (begin, rendering.escape_tags(text)))))
    return [head, *map(_harmless, proposal.items), TextBlock(text=rendering.with_tag(end, key).strip())]


def _harmless(item: TextBlock) -> TextBlock:
    text = rendering.escape_tags(item.text)
    return item if text == item.text else item.model_copy(update={"text": text})


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


# ------------------------------------------------------------------------------------------------------------ checks
@dataclass(frozen=True, slots=True)
class Refused:
    """An edit that `apply` did not make, and the rule it broke."""

    edit: Edit
    reason: str


@dataclass(frozen=True, slots=True)
class Applied:
    """What `apply` did: the new view, the edits it made, those it refused, and the tokens of each new message."""

    view: View
    edits: tuple[Edit, ...]
    refused: tuple[Refused, ...]
    saved: int
    """Tokens that the view has lost."""


def apply(view: View, edits: Iterable[Edit], count: Callable[[Msg], int], *, strict: bool = False) -> Applied:
    """Check edits against this view and make those that keep every rule, in one pass over it.

    `count` gives a message's tokens. Raises InvalidEdit for the first bad edit when `strict`.
    """
    taken: set[str] = set()
    made, refused, saved = [], [], 0
    for edit in edits:
        gain, reason = _judge(view, edit, taken, count)
        if reason:
            if strict and reason != _NO_GAIN:
                raise InvalidEdit(f"{edit.strategy or edit.event_type}: {reason}")
            refused.append(Refused(edit, reason))
            continue
        taken.update(edit.ids)
        made.append(edit)
        saved += gain
    by_first = {edit.ids[0]: edit for edit in made}
    ids, messages = splice(view.ids, view.messages, by_first, taken)
    return Applied(View(ids, messages, view.tokens_of), tuple(made), tuple(refused), saved)


def splice(
    ids: Sequence[str], messages: Sequence[Msg], by_first: Mapping[str, Edit], gone: set[str]
) -> tuple[list[str], list[Msg]]:
    """Ids and messages with each edit's new messages in the place of its first old one."""
    new_ids: list[str] = []
    new_messages: list[Msg] = []
    for id_, m in zip(ids, messages, strict=True):
        if id_ in by_first:
            made = by_first[id_].messages
            new_ids.extend(n.id for n in made)
            new_messages.extend(made)
        elif id_ not in gone:
            new_ids.append(id_)
            new_messages.append(m)
    return new_ids, new_messages


@dataclass(frozen=True, slots=True)
class _Case:
    """An edit before the gate, with the messages of the view that it names."""

    view: View
    edit: Edit
    start: int
    old: tuple[Msg, ...]

    @classmethod
    def of(cls, view: View, edit: Edit) -> _Case | None:
        """None when the ids do not stand together in this view."""
        start = view.position.get(edit.ids[0], -1) if edit.ids else -1
        stop = start + len(edit.ids)
        if start < 0 or view.ids[start:stop] != edit.ids:
            return None
        return cls(view, edit, start, view.messages[start:stop])


def _judge(view: View, edit: Edit, taken: set[str], count: Callable[[Msg], int]) -> tuple[int, str]:
    """Tokens that the edit saves, and the rule it breaks ("" when none)."""
    case = _Case.of(view, edit)
    if case is None:
        return 0, "the messages to replace do not stand together in this view"
    if not taken.isdisjoint(edit.ids):
        return 0, "another edit of the same strategy has replaced these messages"
    for rule in (_pairing, _offloaded, _fixed_messages, _last):
        if broken := rule(case):
            return 0, broken
    gain = view.tokens(case.start, case.start + len(case.old)) - sum(map(count, edit.messages))
    return (gain, "") if gain > 0 else (0, _NO_GAIN)


def _pairing(case: _Case) -> str:
    owed = interface(case.old)
    if interface(case.edit.messages) != owed:
        return "tool calls and results outside would lose their partners"
    if owed and (wrong := _shape_change(case.old, case.edit.messages)):
        return f"messages with calls or results answered outside keep their shape: {wrong}"
    return ""


def _offloaded(case: _Case) -> str:
    if not case.edit.uuid or not set(case.edit.ids) <= set(case.edit.offload):
        return "what is replaced must be offloaded first"
    if not all(id_ in case.view.position for id_ in case.edit.offload):
        return "what is offloaded must stand in this view"
    if any(n.id in case.view.position for n in case.edit.messages):
        return "a new message needs an id of its own"
    return ""


def _fixed_messages(case: _Case) -> str:
    if any(m.role == "system" for m in case.old):
        return "system messages stay"
    if any(map(is_pinned, case.old)):
        return "pinned messages stay"
    return ""


def _last(case: _Case) -> str:
    at_end = case.start + len(case.old) == len(case.view) and case.edit.messages
    if at_end and is_note(new := case.edit.messages[-1]) and new.role == "user" and not is_note(case.old[-1]):
        return "a note in the user's role must not come last"
    return ""


def _shape_change(old: Sequence[Msg], new: Sequence[Msg]) -> str:
    """What a rewrite changes besides texts; "" when nothing."""
    if len(old) != len(new):
        return f"{len(old)} messages, not {len(new)}"
    for a, b in zip(old, new, strict=True):
        if (a.role, a.name) != (b.role, b.name):
            return f"role and name of {a.id}"
        if _skeleton(a) != _skeleton(b):
            return f"calls, results and other blocks of {a.id}"
    return ""


def _skeleton(msg: Msg) -> list[object]:
    """All of a message that a rewrite leaves alone: blocks in order, without texts."""
    frame: list[object] = []
    for block in msg.content:
        if isinstance(block, ToolUseBlock):
            frame.append(("call", block.id, block.name))
        elif isinstance(block, ToolResultBlock):
            frame.append(("result", block.id, block.name, block.is_error))
        elif not isinstance(block, TextBlock):
            frame.append(block)
    return frame


def ledger(lines: Iterable[str], role: Role, key: str = "") -> Msg:
    """The evidence ledger as a message; it keeps the handle `key` of the one before it."""
    key = key or str(uuid.uuid4())
    return Msg(
        role=role,
        name=role,
        content=rendering.ledger_text(lines, key, role),
        metadata={COMPRESS_META: {OFFLOAD_UUID: key}},
        origin=Origin(uuid=key, kind="ledger"),
    )


def ledger_place(view: View) -> int | None:
    """Index at which the evidence ledger may be put into a view without one: right after the newest note.

    Where only shortened messages are, after the newest of them, or else before what is unread. Never between a call
    and its results, and never last: it would read as the question to answer. None where there is no such place, or
    nothing to stand for.
    """
    made = [i for i, m in enumerate(view.messages) if is_compressed(m)]
    if not made:
        return None
    notes = [i for i in made if not _is_stub(view.messages[i])]
    newest = (notes or made)[-1]
    places = [*range(newest + 1, len(view)), *([] if notes else range(min(view.unread, newest), -1, -1))]
    return next((i for i in places if view.parts(i)), None)


def _is_stub(msg: Msg) -> bool:
    return msg.origin is not None and msg.origin.kind == "stub"
