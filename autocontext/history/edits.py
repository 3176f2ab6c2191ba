"""The gate: every rule about a change of the working memory.

A strategy reads a View and returns Proposals; `build` turns a proposal and the model's answers into an Edit; `apply`
checks a strategy's edits against the view and makes the new view in one pass. Nothing else changes a view, so a wrong
strategy, built in or your own, cannot do harm.

The rules that `apply` enforces:

1. the ids an edit replaces are contiguous in this very view, and no other edit of the batch replaces them;
2. the span leaves the same calls and results open before and after, so pairing holds for the whole view; or none, if
   nothing in it waits for a partner (`View.closed`);
3. a span with open calls or results is rewritten message by message: same number, role, name, calls and result ids;
   an image may give way to a text in its place; thinking and all other blocks stay as they are;
4. the edit's offload entry, under its UUID, holds everything that is replaced;
5. system messages and pinned messages stay;
6. the tokens decrease, but for what the caller has to spare;
7. a note in the user's role does not come last: it would read as the question to answer;
8. a provider's compaction stays as it is, until a later one stands for it or what it stands for is in view again;
9. an edit that replaces nothing puts one note of recalled lines right before a message of the user that the model has
   not answered yet, or after results, before the newest message of the model: so nothing that was sent before changes.

An edit that breaks a rule is refused with the reason; the other edits are still made. Strict mode raises InvalidEdit,
except for rule 6: a strategy cannot know the length of a text that the model has not written yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from pydantic import Field

from autocontext.errors import InvalidEdit
from autocontext.history.view import View, open_pairs
from autocontext.messages import (
    COMPACTION,
    ContentBlock,
    ImageBlock,
    Msg,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Value,
    is_note,
    is_pinned,
    is_recall,
    is_user_turn,
)

NO_GAIN = "it would not make the context smaller"


class Edit(Value):
    """A change that can be checked, applied and stored: `messages` replace `ids`; `offload` names the originals."""

    uuid: str
    ids: tuple[str, ...]
    messages: tuple[Msg, ...]
    offload: tuple[str, ...]
    """Ids of the messages in the offload entry, in order."""
    event_type: str
    strategy: str = ""
    before: str = Field(default="", exclude_if=lambda before: not before)
    """Where `ids` is empty: the message that the new one comes right before."""

    @property
    def places(self) -> tuple[str, ...]:
        """The messages of the view that it concerns; it begins at the first."""
        return self.ids or (self.before,)


# ------------------------------------------------------------------------------------------------------------ checks
@dataclass(frozen=True, slots=True)
class Refused:
    """An edit that `apply` refused, and the rule it broke."""

    edit: Edit
    reason: str


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of `apply`: the new view, the edits it made and those it refused."""

    view: View
    edits: tuple[Edit, ...]
    refused: tuple[Refused, ...]
    saved: int
    """Tokens saved in the view."""


def apply(
    view: View, edits: Iterable[Edit], count: Callable[[Msg], int], *, strict: bool = False, spare: int = 0
) -> Applied:
    """Check edits against this view and make those that keep every rule, in one pass over it.

    `count` returns a message's tokens. `spare`: tokens by which the edits may make the view longer, all together.
    Raises InvalidEdit for the first bad edit if `strict`.
    """
    taken: set[str] = set()
    accepted, refused, saved = [], [], 0
    for edit in edits:
        gain, reason = _judge(view, edit, taken, count)
        if not reason and gain <= 0 and (not spare or saved + gain < -spare):
            reason = NO_GAIN
        if reason:
            if strict and reason != NO_GAIN:
                raise InvalidEdit(f"{edit.strategy or edit.event_type}: {reason}")
            refused.append(Refused(edit, reason))
            continue
        taken.update(edit.places)
        accepted.append(edit)
        saved += gain
    messages = dict(zip(view.ids, view.messages, strict=True)) | {m.id: m for edit in accepted for m in edit.messages}
    ids = splice(view.ids, accepted)
    new = View(ids, map(messages.__getitem__, ids), view.tokens_of)
    return Applied(new, tuple(accepted), tuple(refused), saved)


def splice(ids: Iterable[str], edits: Sequence[Edit]) -> list[str]:
    """Ids with each edit's new messages in the place of its first old one, or before one that stays."""
    new = {edit.places[0]: [m.id for m in edit.messages] for edit in edits}
    removed = {id_ for edit in edits for id_ in edit.ids}
    return [*chain.from_iterable((*new.get(id_, ()), *(() if id_ in removed else (id_,))) for id_ in ids)]


@dataclass(frozen=True, slots=True)
class _Case:
    """An edit to check, with the messages of the view that it replaces."""

    view: View
    edit: Edit
    start: int
    stop: int
    old: tuple[Msg, ...]


def _judge(view: View, edit: Edit, taken: set[str], count: Callable[[Msg], int]) -> tuple[int, str]:
    """Tokens that the edit saves, and the rule it breaks ("" when none)."""
    start = view.position.get(edit.places[0], -1)
    stop = start + len(edit.ids)
    if start < 0 or view.ids[start:stop] != edit.ids:
        return 0, "the messages to replace are not contiguous in this view"
    if not taken.isdisjoint(edit.places):
        return 0, "another edit of the same strategy has replaced these messages"
    case = _Case(view, edit, start, stop, view.messages[start:stop])
    for rule in (_pairing, _offload, _fixed_messages, _last, _compactions, _insertion):
        if reason := rule(case):
            return 0, reason
    return view.tokens(start, stop) - sum(map(count, edit.messages)), ""


def _pairing(case: _Case) -> str:
    open_before, open_after = open_pairs(case.old), open_pairs(case.edit.messages)
    if open_before and not open_after and case.view.closed(case.start, case.stop):
        return ""
    if open_after != open_before:
        return "tool calls and results outside would lose their partners"
    if open_before and (difference := _shape_change(case.old, case.edit.messages)):
        return f"messages with calls or results answered outside keep their shape: {difference}"
    return ""


def _offload(case: _Case) -> str:
    if not case.edit.uuid or not set(case.edit.ids) <= set(case.edit.offload):
        return "the offload entry needs a UUID and every replaced message"
    if case.edit.ids and not all(id_ in case.view.position for id_ in case.edit.offload):
        return "the offload entry names a message that is not in this view"
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
    at_end = case.stop == len(case.view) and case.edit.messages
    if at_end and is_note(new := case.edit.messages[-1]) and new.role == "user" and not is_note(case.old[-1]):
        return "a note in the user's role must not come last"
    return ""


def _compactions(case: _Case) -> str:
    if all(COMPACTION not in b.metadata for m in case.old for b in m.content):
        return ""
    kept = [b for m in case.edit.messages for b in m.content if COMPACTION in b.metadata]
    for at, m in enumerate(case.old, case.start):
        lost = any(COMPACTION in b.metadata and b not in kept for b in m.content)
        if lost and case.view.compacted < case.stop and not case.view.holds_compacted(at):
            return "a provider's compaction stays until a later one or the originals stand for it"
    return ""


def _insertion(case: _Case) -> str:
    if case.edit.ids:
        return ""
    new, view = case.edit.messages, case.view
    if len(new) != 1 or not is_recall(new[0]) or new[0].role != "user" or not case.edit.offload:
        return "only one note of recalled lines may come in without replacing anything"
    if case.start > view.latest_word:
        fits = is_user_turn(view.messages[case.start])
    else:
        # A result behind it would be away from its call already.
        fits = case.start == view.latest_word > max(view.latest_user, 0)
        fits = fits and view.messages[case.start - 1].role in ("assistant", "tool")
    return "" if fits else "recalled lines come before a message that the model has not answered, or its newest one"


def _shape_change(old: Sequence[Msg], new: Sequence[Msg]) -> str:
    """What a rewrite changes apart from texts; "" for nothing."""
    if len(old) != len(new):
        return f"{len(old)} messages, not {len(new)}"
    for a, b in zip(old, new, strict=True):
        if (a.role, a.name) != (b.role, b.name):
            return f"role and name of {a.id}"
        if not _keeps(a, b):
            return f"calls, results and other blocks of {a.id}"
    return ""


def _keeps(old: Msg, new: Msg) -> bool:
    """Whether a rewrite keeps the blocks in order, without their texts; an image may be a text in its place now."""
    before, after = list(map(_frame, old.content)), list(map(_frame, new.content))
    if list(filter(None, before)) == list(filter(None, after)):
        return True
    pairs = zip(before, after, old.content, strict=False)
    return len(before) == len(after) and all(a == b or (isinstance(o, ImageBlock) and b is None) for a, b, o in pairs)


def _frame(block: ContentBlock) -> object:
    """What a rewrite must keep of a block; None for a text."""
    if isinstance(block, ToolUseBlock):
        return ("call", block.id, block.name)
    if isinstance(block, ToolResultBlock):
        return ("result", block.id, block.name, block.is_error)
    return None if isinstance(block, TextBlock) else block
