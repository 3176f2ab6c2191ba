"""What the note of a fold says of its messages: a digest of each fold so far.

A digest is one block, so that a later fold takes it over as it is, however much it says. Its items stand one below the
other; `metadata["items"]` has the characters of each, with a minus where the user said it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from autocontext import rendering
from autocontext.messages import Msg, TextBlock, is_note, is_user_turn

_OUTCOME_CHARACTERS = 200
"""Characters kept of a reply or a note."""

_Items: TypeAlias = list[tuple[bool, str]]
"""Texts, each with whether the user said it, in order."""
_Room: TypeAlias = dict[bool, int]
"""Characters left for what the user said (True) and for outcomes (False)."""


def digests(messages: Iterable[Msg], quote_tokens: int, outcome_tokens: int) -> tuple[TextBlock, ...]:
    """The digests of the messages, in order, newest first inside the budgets (tokens of four characters)."""
    found: list[TextBlock] = []
    said: _Items = []
    for m in messages:
        if m.origin is not None and m.origin.kind == "fold":
            found += _digest(said)
            found += [b for b in m.content if isinstance(b, TextBlock) and "items" in b.metadata]
            said = []
        else:
            said += _said(m)
    found += _digest(said)
    left = {True: quote_tokens * 4, False: outcome_tokens * 4}
    kept = [_within(block, left) for block in reversed(found)]
    return tuple(block for blocks in reversed(kept) for block in blocks)


def _said(m: Msg) -> _Items:
    """What is told of a message: all that the user said, of others the first words."""
    text = rendering.escape_tags(rendering.untagged(m.text))
    if not text:
        return []
    if is_user_turn(m):
        return [(True, f"User: {text}")]
    if m.role == "assistant" or is_note(m):
        body = rendering.unmarked(text)
        short = body if len(body) <= _OUTCOME_CHARACTERS else rendering.preview(body, _OUTCOME_CHARACTERS)
        return [(False, f"Then: {short}")]
    return []


def _digest(items: _Items) -> list[TextBlock]:
    """The block that says it; none when there is nothing to say."""
    if not items:
        return []
    sizes = [-len(text) if quote else len(text) for quote, text in items]
    return [TextBlock(text="\n".join(text for _, text in items), metadata={"items": sizes})]


def _within(digest: TextBlock, left: _Room) -> list[TextBlock]:
    """The digest without what there is no room for; takes the room that it needs."""
    sizes = _sizes(digest)
    total, difference = sum(map(abs, sizes)), sum(sizes)
    quotes, outcomes = (total - difference) // 2, (total + difference) // 2
    if quotes <= left[True] and outcomes <= left[False]:
        left[True] -= quotes
        left[False] -= outcomes
        return [digest]
    kept: _Items = []
    for quote, text in reversed(_items(digest.text, sizes)):
        if len(text) <= left[quote]:
            left[quote] -= len(text)
            kept.append((quote, text))
        elif quote:
            left[quote] = 0  # an older message must not be quoted where a newer one is left out
    return _digest(kept[::-1])


def _sizes(digest: TextBlock) -> Sequence[int]:
    """The characters of its items; a block that is no digest of ours is one outcome."""
    sizes = digest.metadata["items"]
    ours = isinstance(sizes, list) and set(map(type, sizes)) == {int}
    if ours and sum(map(abs, sizes)) + len(sizes) - 1 == len(digest.text):
        return tuple(sizes)
    return (len(digest.text),)


def _items(text: str, sizes: Sequence[int]) -> _Items:
    """The items of a digest with this text."""
    found: _Items = []
    start = 0
    for n in sizes:
        found.append((n < 0, text[start : start + abs(n)]))
        start += abs(n) + 1
    return found
