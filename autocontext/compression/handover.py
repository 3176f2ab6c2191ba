"""Writing the notes of a pass: which originals a note stands for, and the work ledger's text about them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig
from autocontext.history.cached import cached_property
from autocontext.history.log import Log
from autocontext.history.proposals import Proposal, Question
from autocontext.history.runs import Runs
from autocontext.history.view import Span, View
from autocontext.messages import Msg
from autocontext.plan import PlanLike, plan_lines
from autocontext.text import rendering

if TYPE_CHECKING:
    from autocontext.ledger import WorkLedger
    from autocontext.ledger.shown import InView

_LEAST = 96
"""Tokens; a shorter text says nothing."""
_QUOTES = 0.6
"""A note quotes lines until it has this share of its room; the rest is left to the newest messages."""
_SMALL_WINDOW = 4_000
"""Tokens; in a window up to this size, notes quote lines until all their room is used."""
_SHARE_OF_SPAN = 0.4
"""Largest note of a span that is not the whole past, as a share of the span."""
_FOLD_WITHOUT_LEDGER = 0.05
"""Share of the window that a fold's note may take where the configuration leaves the work ledger out."""
_LONGEST_NAME = 60
"""Characters of a tool's name in a list of them."""


class HandOver:
    """Writes the notes of one pass: the NoteWriter that strategies are given."""

    def __init__(
        self,
        log: Log,
        token_sum: TokenSum,
        ledger: WorkLedger,
        config: AutoContextConfig,
        plan: PlanLike | None,
        *,
        focus: str = "",
    ) -> None:
        """`focus` says what the notes should keep first."""
        self._log, self._token_sum, self._ledger, self._config, self._plan = log, token_sum, ledger, config, plan
        self._focus = focus
        self._seen: tuple[View, InView, Runs] | None = None

    @property
    def used(self) -> bool:
        """Whether notes of spans are renderings of the work ledger."""
        return self._config.ledger_ratio > 0

    @property
    def share(self) -> int:
        """Most tokens of all folds' notes together."""
        return int(self._config.max_token * (self._config.ledger_ratio or _FOLD_WITHOUT_LEDGER))

    def number(self, id_: str) -> int | None:
        """The number of an original message; None for any other."""
        place = self._log.place.get(id_)
        return None if place is None else place + 1

    def numbers(self, id_: str) -> Runs:
        """The numbers of the originals that a message of the view is or stands for."""
        return self._log.numbers([id_])

    def completed(self, view: View, p: Proposal, *, asks: bool) -> Proposal:
        """A built-in strategy's proposal of a note, with the work ledger of its span after what the model writes.

        Without a model to ask, the ledger is the note.
        """
        if not self.used or p.text is None or p.ledger is not None:
            return p
        start = view.position[p.span.ids[0]]
        tokens = view.tokens(start, start + len(p.span))
        size = self.frame + max(_LEAST, min(int(tokens * _SHARE_OF_SPAN), self.share))
        text: str | Question = p.text
        if isinstance(text, Question):
            text = replace(text, otherwise="" if self._config.extractive_fallback else None) if asks else ""
        return replace(p, text=text, ledger=self.writing(view, p.span, min(size, tokens - 1)))

    def writing(
        self, view: View, span: Span, budget: int, *, plan: bool = False, fills: bool = False
    ) -> Callable[[str], str]:
        """A function from the model's text to the ledger that follows it, for a note of at most `budget` tokens.

        `plan` includes the attached plan. With `fills`, in small windows, lines are quoted until the note is full.
        """
        share = max(_QUOTES, min(1.0, _SMALL_WINDOW / self._config.max_token)) if fills else _QUOTES
        return lambda note: self._text(
            view, span, note, budget, plan=_readable(self._plan) if plan else None, quotes=share
        )

    def _text(
        self, view: View, span: Span, note: str, budget: int, *, plan: PlanLike | None = None, quotes: float
    ) -> str:
        self.learn()
        in_view, known = self._in_view(view)
        start = view.position[span.ids[0]]
        numbers = self._log.numbers(span.ids)
        count = self._token_sum.count_text
        head = ledger_head(numbers, self._ledger.tools(numbers))
        if count(head) > budget - self.frame:
            head = ledger_head(numbers, Counter())
        room = max(0, budget - self.frame - count(head))
        body = self._ledger.render(
            room,
            count,
            only=numbers,
            known=known,
            shown=in_view.without(start, start + len(span), note),
            plan=plan,
            said_budget=self._config.user_message_budget,
            quotes_budget=int(room * quotes),
            focus=self._focus,
        )
        return f"{head}\n{body}" if body else head

    def _in_view(self, view: View) -> tuple[InView, Runs]:
        """What the reader of a view sees, and the numbers of the originals behind it; read once for all its notes."""
        from autocontext.ledger.shown import InView  # noqa: PLC0415 (see `compression.pass_run`)

        if self._seen is None or self._seen[0] is not view:
            self._seen = view, InView(view.messages), self._log.numbers(view.ids)
        return self._seen[1:]

    def needed(self, view: View, span: Span, most: int) -> int:
        """Tokens that a note about a span needs, without quotes, from 1 to `most`."""
        return max(1, self._token_sum.count_text(self._text(view, span, "", most, quotes=0.0)))

    def earlier_notes(self, span: Span) -> str:
        """The texts that models wrote for the notes in a span."""
        return "\n".join(filter(None, map(rendering.written_note, span.messages)))

    def changes(self, first: int, last: int) -> Iterator[tuple[int, int, str]]:
        """What calls in the messages `first` to `last` changed: numbers of call and result, and the thing."""
        self.learn()
        calls, changing = self._ledger.calls, self._ledger.changing
        for at in changing[bisect_left(changing, first, key=lambda at: calls[at].number) :]:
            call = calls[at]
            if call.number > last:
                return
            if call.result and not call.failed:
                yield from ((call.number, call.result, change.thing) for change in call.changes)

    @cached_property
    def frame(self) -> int:
        """Tokens of an empty note."""
        role = self._config.note_role
        text = rendering.note_text("", "00000000-0000-4000-8000-000000000000", role)
        return self._token_sum.counter.count(Msg(role=role, content=text)) + 1

    def learn(self) -> None:
        """Bring the work ledger up to date with the log."""
        for id_ in self._log.original[len(self._ledger) :]:
            self._ledger.append(self._log.messages[id_])
        self._ledger.trim()


def _readable(plan: PlanLike | None) -> PlanLike | None:
    """The plan, unless it cannot be read: a user's object that fails must not cost the note."""
    try:
        plan_lines(plan, ())
    except Exception:  # noqa: BLE001 (it may be any object)
        return None
    return plan


def ledger_head(numbers: Runs, calls: Counter[str]) -> str:
    """First line of a work ledger: which messages it stands for, and how often which tools were called in them."""
    size = len(numbers)
    span = ""
    if size:
        first, last = numbers.pairs[0][0], numbers.pairs[-1][1]
        span = f" (m{first})" if first == last else f" (m{first}-m{last})"
    tools = ", ".join(f"{rendering.one_line(name[:_LONGEST_NAME])} {n}x" for name, n in calls.most_common(8))
    return f"{size} earlier message{'s' if size != 1 else ''}{span}" + (f"; calls: {tools}" if tools else "")
