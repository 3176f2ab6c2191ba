"""Writing the notes of a pass: which originals a note stands for, and the work ledger's text about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autocontext.config import AutoContextConfig
from autocontext.history.cached import cached_property
from autocontext.history.collector import collector_paused
from autocontext.history.log import Log
from autocontext.history.proposals import Proposal, Question
from autocontext.history.redacting import Redaction
from autocontext.history.runs import Runs
from autocontext.history.view import Span, View
from autocontext.messages import Msg
from autocontext.notes.plan_part import PlanPart
from autocontext.plan import PlanLike
from autocontext.text import rendering
from autocontext.text.gaps import gap, moment
from autocontext.tokens import TokenCounter, VocabularyCounter

if TYPE_CHECKING:
    from autocontext.notes.shown import InView
    from autocontext.notes.work import WorkLedger

_LEAST = 96
"""Tokens; a shorter text says nothing."""
_MOST_PAUSES = 2
"""Long pauses that the first line of a note names."""
_SHARE_OF_SPAN = 0.4
"""Largest note of a span that is not the whole past, as a share of the span."""
_FOLD_WITHOUT_LEDGER = 0.05
"""Share of the window that a fold's note may take where the configuration leaves the work ledger out."""


class NoteWriter:
    """Writes the notes of one pass, for the strategies that propose them."""

    def __init__(
        self,
        log: Log,
        ledger: WorkLedger,
        config: AutoContextConfig,
        plan: PlanLike | None,
        *,
        count_text: Callable[[str], int],
        counter: TokenCounter,
        focus: str = "",
        redaction: Redaction | None = None,
    ) -> None:
        """`count_text` returns `counter`'s tokens of a text; `focus` says what notes should keep first."""
        self._redaction = redaction or Redaction(None)
        self._log, self._ledger, self._config, self._plan = log, ledger, config, plan
        self.tokens, self._counter, self.focus = count_text, counter, focus
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
        """The first number of the originals that a message of the view is or stands for; None if there is none."""
        runs = self._log.runs_of(id_)
        return runs[0][0] if runs else None

    def number_of_one(self, id_: str) -> int | None:
        """The number of the one original that a message is or stands for; None if there are several, or none."""
        runs = self._log.runs_of(id_)
        return runs[0][0] if len(runs) == 1 and runs[0][0] == runs[0][1] else None

    def numbers(self, id_: str) -> Runs:
        """The numbers of the originals that a message of the view is or stands for."""
        return self._log.numbers([id_])

    def original(self, id_: str, *, readable: bool = True) -> Msg | None:
        """The one original that a message of the view is or stands for; None if there are several, or none.

        `readable`: as a note may quote it, without secrets if there is a redaction hook.
        """
        number = self.number_of_one(id_)
        if number is None:
            return None
        key = self._log.original[number - 1]
        return self.readable(key, self._log.messages[key]) if readable else self._log.messages[key]

    def newest_originals(self, id_: str, count: int) -> list[Msg]:
        """The last of the originals that a message of the view stands for, as they came."""
        return [self._log.messages[self._log.original[n - 1]] for n in [*self.numbers(id_)][-count:]]

    def readable(self, id_: str, msg: Msg) -> Msg:
        """A message as strategies see it and notes may quote it: without secrets if there is a redaction hook."""
        place = self._log.place.get(id_, len(self._ledger))
        return self._ledger.messages[place] if place < len(self._ledger) else self._redaction.in_view(id_, msg)

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

    def writing(self, view: View, span: Span, budget: int, *, plan: bool = False) -> Callable[[str], str]:
        """A function from the model's text to the ledger that follows it, for a note of at most `budget` tokens.

        `plan` includes the attached plan.
        """
        return lambda note: self._text(view, span, note, budget, plan=_readable(self._plan) if plan else None)

    def _text(self, view: View, span: Span, note: str, budget: int, *, plan: PlanLike | None = None) -> str:
        # Imported here: what a page needs is not needed before the first pass (see `compression.pass_run`).
        from autocontext.notes.page import PageRequest, render  # noqa: PLC0415

        self.learn()
        in_view, known = self._in_view(view)
        start = view.position[span.ids[0]]
        numbers = self._log.held(span.ids)
        head, pauses, until = ledger_head(numbers, self._ledger.tools(numbers)), list[str](), ""
        if self._config.show_gaps and numbers:
            pauses, until = self._pauses(numbers), self._until(numbers.pairs[-1][1])
        if self.tokens("; ".join((head + until, *pauses))) > budget - self.frame:
            head, pauses, until = ledger_head(numbers, Counter()), [], ""
        room = max(0, budget - self.frame - self.tokens("; ".join((head + until, *pauses))))
        request = PageRequest(
            room,
            self.tokens,
            only=numbers,
            known=known,
            shown=in_view.without(start, start + len(span), note),
            plan=plan,
            said_budget=self._config.user_message_budget,
            focus=self.focus,
            state=self._config.note_state,
            gaps=self._config.show_gaps,
        )
        # A plan or a counter of the user's own may wait.
        waits = plan is not None or not isinstance(self._counter, VocabularyCounter)
        body = collector_paused(0 if waits else len(numbers), lambda: render(self._ledger, request))
        # A sentence of the user says itself how long after a pause it came.
        head = "; ".join((head, *(words for words in pauses if words.partition(" ")[2] not in body))) + until
        return f"{head}\n{body}" if body else head

    def _pauses(self, numbers: Runs) -> list[str]:
        """The newest long pauses before messages of a note: which came how much later, and when."""
        newest = self._ledger.newest(self._ledger.pauses, numbers, _MOST_PAUSES)
        return [f"m{number} {later}" for number, later in newest]

    def _until(self, number: int) -> str:
        """When the last message of a note came, if the work has taken more than an hour; no clock in shorter ones."""
        messages = self._ledger.messages
        long = gap(messages[0].timestamp, messages[-1].timestamp)
        until = moment(messages[number - 1].timestamp)
        return f"; until {until}" if long and until else ""

    def _in_view(self, view: View) -> tuple[InView, Runs]:
        """What the reader of a view sees, and the numbers of the originals behind it; read once for all its notes."""
        from autocontext.notes.shown import InView  # noqa: PLC0415 (see `compression.pass_run`)

        if self._seen is None or self._seen[0] is not view:
            earlier = self._seen[1] if self._seen is not None else None
            self._seen = view, InView(view.messages, earlier), self._log.held(view.ids)
        return self._seen[1:]

    def needed(self, view: View, span: Span, most: int) -> int:
        """Tokens that a note about a span needs, from 1 to `most`."""
        return max(1, self.tokens(self._text(view, span, "", most)))

    def earlier_notes(self, span: Span) -> str:
        """The texts that models wrote for the notes in a span."""
        return "\n".join(filter(None, map(rendering.written_note, span.messages)))

    @cached_property
    def frame(self) -> int:
        """Tokens of an empty note."""
        role = self._config.note_role
        text = rendering.note_text("", "00000000-0000-4000-8000-000000000000", role)
        return self._counter.count(Msg(role=role, content=text)) + 1

    def learn(self) -> None:
        """Bring the work ledger up to date with the log."""
        new = self._log.original[len(self._ledger) :]
        # A redaction hook is somebody's own code, and may wait.
        collector_paused(0 if self._redaction.used else len(new), lambda: self._append(new))

    def _append(self, ids: Sequence[str]) -> None:
        for id_ in ids:
            self._ledger.append(self._redaction.in_view(id_, self._log.messages[id_]))


def _readable(plan: PlanLike | None) -> PlanLike | None:
    """The plan, unless it cannot be read: a user's object that fails must not cost the note."""
    try:
        PlanPart(plan, ())
    except Exception:  # noqa: BLE001 (it may be any object)
        return None
    return plan


def ledger_head(numbers: Runs, calls: Counter[str]) -> str:
    """First line of a work ledger: which messages it stands for, and how often which tools were called in them."""
    size = len(numbers)
    span = f" ({rendering.numbers_of(numbers.pairs[0][0], numbers.pairs[-1][1])})" if size else ""
    tools = ", ".join(f"{name} {n}x" for name, n in calls.most_common(8))
    return f"{size} earlier message{'s' if size != 1 else ''}{span}" + (f"; calls: {tools}" if tools else "")
