"""When the view is still over `max_token`: the longest texts are cut in their place, by as much as is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autocontext.config import AutoContextConfig
from autocontext.history.proposals import MESSAGE_TEXT, Proposal, Question
from autocontext.history.view import View
from autocontext.messages import Msg, ToolResultBlock, is_note, is_pinned
from autocontext.text import rendering

LAST_RESORT_PREVIEW = "LAST_RESORT_PREVIEW"
LENGTHS = (1_000, 80)
"""Characters that are left of a text: at first, and when that is not enough."""
_TAG_CHARACTERS = 120
"""What a cut costs: the tag, and the size of the gap."""


class Previews:
    """The longest texts outside system messages and the latest user message are cut until `excess` tokens are gone.

    All are cut to the same length, so that short texts stay whole. Of unread results both head and tail stay.
    """

    def __init__(self, config: AutoContextConfig, excess: int, *, unread: bool, least: int = LENGTHS[-1]) -> None:
        self.config = config
        self.excess = excess
        self.unread = unread
        self.least = least
        self.name = "last_resort_unread" if unread else "last_resort_previews"

    def propose(self, view: View) -> list[Proposal]:
        """One shortened message per message with a long text."""
        first, stop = (view.unread, len(view)) if self.unread else (0, view.unread)
        candidates = [i for i in range(first, stop) if self._may_be_cut(view, i)]
        limit = self._limit(view, candidates)
        return [p for i in candidates if (p := self._cut(view, i, limit)) is not None]

    def _may_be_cut(self, view: View, i: int) -> bool:
        m = view.messages[i]
        return i != view.latest_user and m.role != "system" and not is_pinned(m) and not is_note(m)

    def _limit(self, view: View, candidates: list[int]) -> int:
        """Characters that every text may keep so that the longer ones give up what is needed."""
        lengths = sorted((n for i in candidates for n in _lengths(view.messages[i])), reverse=True)
        tokens = sum(view.tokens(i, i + 1) for i in candidates)
        if not lengths or not tokens:
            return self.least
        needed = self.excess * sum(lengths) / tokens
        longer = 0
        for n, length in enumerate(lengths, start=1):
            longer += length
            limit = (longer - needed) / n - _TAG_CHARACTERS
            if n == len(lengths) or limit >= lengths[n]:
                return max(self.least, int(limit))
        return self.least

    def _cut(self, view: View, i: int, limit: int) -> Proposal | None:
        m = view.messages[i]
        texts = {k: b.text for k, b in enumerate(m.content) if isinstance(b, ToolResultBlock)}
        texts[MESSAGE_TEXT] = m.text
        blocks: dict[int, str | Question] = {
            k: self._shorter(rendering.untagged(text), limit)
            for k, text in texts.items()
            if len(text) > limit + _TAG_CHARACTERS
        }
        long_arguments = any(n > limit + _TAG_CHARACTERS for use in m.tool_uses for n in _leaves(use.input))
        if not blocks and not long_arguments:
            return None
        return Proposal(
            view.span(i, i + 1),
            blocks=blocks,
            arguments_to=limit if long_arguments else None,
            event_type=LAST_RESORT_PREVIEW,
            kind="stub",
        )

    def _shorter(self, text: str, limit: int) -> str:
        return rendering.head_and_tail(text, limit) if self.unread else rendering.preview(text, limit)


def _lengths(m: Msg) -> Iterator[int]:
    """Lengths of the texts in a message that may be cut, in characters."""
    yield len(m.text)
    for result in m.tool_results:
        yield len(result.text)
    for use in m.tool_uses:
        yield from _leaves(use.input)


def _leaves(value: Any) -> Iterator[int]:
    """Lengths of the texts in a JSON value."""
    if isinstance(value, str):
        yield len(value)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
