"""The last resort while the view is over `max_token`: cuts the longest texts in place, as far as needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from autocontext.config import AutoContextConfig
from autocontext.history.proposals import MESSAGE_TEXT, Proposal, Question
from autocontext.history.view import View
from autocontext.messages import is_note, is_pinned, is_user_turn, own_text, texts_in
from autocontext.strategies.selection import results_of
from autocontext.strategies.worth import Worth
from autocontext.text import rendering
from autocontext.text.excerpts import excerpt
from autocontext.text.quoting import quoted

LAST_RESORT_PREVIEW = "LAST_RESORT_PREVIEW"
LEAST = 80
"""Fewest characters that remain of a text."""
_TAG_CHARACTERS = 120
"""Characters that a cut adds: the tag, and the line about the gap."""


@dataclass
class Previews:
    """Cuts the longest texts until `excess` tokens are gone; system messages and the latest user message stay.

    So do the user's other messages, unless `users` are cut, too: the beginning of a request may not say what is asked.

    `number` returns the number of the one original behind a message of the view, which the marks name; None for a text
    that stands for several.

    All are cut to the same length, so short texts stay whole. Of unread results those lines, records or fields stay
    that tell most, both ends among them; of others the beginning.
    """

    config: AutoContextConfig
    number: Callable[[str], int | None]
    excess: int
    _: KW_ONLY
    unread: bool
    least: int = LEAST
    users: bool = False

    def __post_init__(self) -> None:
        self._share = 2 if self.unread else 1
        """How much longer a result may be than other texts: what the agent has asked for is new to it."""
        self.name = "last_resort_unread" if self.unread else "last_resort_previews"

    def propose(self, view: View) -> list[Proposal]:
        """One shortened message per message with a long text."""
        first, stop = (view.unread, len(view)) if self.unread else (0, view.unread)
        candidates = [i for i in range(first, stop) if self._is_candidate(view, i)]
        limit = self._limit(view, candidates)
        return [p for i in candidates if (p := self._shorten(view, i, limit)) is not None]

    def _is_candidate(self, view: View, i: int) -> bool:
        m = view.messages[i]
        stays = m.role == "system" or i == view.latest_user or (is_user_turn(m) and not self.users)
        return not (stays or is_pinned(m) or is_note(m))

    def _limit(self, view: View, candidates: list[int]) -> int:
        """The length, in characters, to which all longer texts are cut."""
        messages = [view.messages[i] for i in candidates]
        lengths = [len(text) for m in messages for text in results_of(self.config, view, m).values()]
        own = [len(own_text(m)) for m in messages]
        own += [len(text) for m in messages for use in m.tool_uses for text in texts_in(use.input)]
        tokens = sum(view.tokens(i, i + 1) for i in candidates)
        if not tokens or not (lengths or own):
            return self.least
        excess = self.excess * (sum(lengths) + sum(own)) / tokens
        low, high = self.least, max([*lengths, *(n * self._share for n in own)], default=self.least)
        while high - low > 1:
            limit = (low + high) // 2
            cut = sum(max(0, n - limit - _TAG_CHARACTERS) for n in lengths)
            cut += sum(max(0, n - limit // self._share - _TAG_CHARACTERS) for n in own)
            low, high = (limit, high) if cut >= excess else (low, limit)
        return low

    def _shorten(self, view: View, i: int, limit: int) -> Proposal | None:
        m, own, number = view.messages[i], max(LEAST, limit // self._share), self._number_at(view, i)
        texts = {k: (text, limit) for k, text in results_of(self.config, view, m).items()}
        texts[MESSAGE_TEXT] = own_text(m), own
        blocks: dict[int, str | Question] = {
            k: self._shorter(view, i, rendering.untagged(text), most, number)
            for k, (text, most) in texts.items()
            if len(text) > most + _TAG_CHARACTERS
        }
        long_arguments = any(len(text) > own + _TAG_CHARACTERS for use in m.tool_uses for text in texts_in(use.input))
        if not blocks and not long_arguments:
            return None
        span, to, event = view.span(i, i + 1), own if long_arguments else None, LAST_RESORT_PREVIEW
        return Proposal(span, blocks=blocks, arguments_to=to, event_type=event, kind="stub", number=number)

    def _number_at(self, view: View, i: int) -> int | None:
        """The number that stands in the marks of a message; None for a reloaded page, which keeps its own tag."""
        reloaded = any(rendering.page_of(result.text) for result in view.messages[i].tool_results)
        return None if reloaded else self.number(view.ids[i])

    def _shorter(self, view: View, i: int, text: str, limit: int, number: int | None) -> str:
        rest = f" {rendering.rest_of(number)}" if number else ""  # without a number the tag says it
        if not self.unread:
            return rendering.preview(text, limit) + rest
        short = excerpt(text, limit, Worth.of(view).after(i))
        if not short.text:
            return rendering.head_and_tail(text, limit) + rest
        shown = quoted(short.text) if short.reformatted else short.text
        return f"{shown}\n{rendering.left_out(number, short)}"
