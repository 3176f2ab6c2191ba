"""One compression pass, without I/O: a generator that yields what has to be done outside.

The driver has to do this for each step:

- `Ask(requests, ...)`: send all requests to the model, concurrently; send back one Answer per request, in order. A
  failure is an Answer with a `problem`, never an exception. `meanwhile` is optional work for the waiting time; if it
  was begun, it must have ended before the answers are sent back.
- `Edited(...)`: store the entry durably, then `Log.record` it; send back None. If storing fails, close the generator:
  nothing has changed. If the pass plans on a fork of the log and the view has lost messages meanwhile, update the fork
  and send back False: the engine makes the entry again.

Messages may be added between two steps: edits name ids and are checked against the current view.
The generator returns the CompressionReport.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, get_args

from autocontext.compression.accounting import Account, StrategyOutcome, edited, too_large
from autocontext.compression.limits import PassOptions, Target, images_due
from autocontext.compression.questions import Ask, RequestBuilder, SummaryResult, write
from autocontext.compression.token_sum import TokenSum
from autocontext.errors import InvalidEdit, told
from autocontext.events import CompressionReport, Outcome
from autocontext.history.edits import Applied, Edit, apply
from autocontext.history.entries import Edited
from autocontext.history.log import Log
from autocontext.history.proposals import Proposal, Question, build
from autocontext.history.redacting import HOOK_FAILED, Redaction, shown
from autocontext.history.view import View
from autocontext.messages import Msg, with_pin
from autocontext.notes.writer import NoteWriter
from autocontext.requests import Answer, Usage
from autocontext.strategies import Strategy, steps_of_pass
from autocontext.strategies.first_message import FirstMessage
from autocontext.strategies.fold import Fold
from autocontext.strategies.images import TOKENS_OF_LINE, Images
from autocontext.strategies.last_resort import LEAST, Previews
from autocontext.strategies.pastes import Pastes
from autocontext.strategies.provider_compaction import ProviderCompaction
from autocontext.strategies.regrow import Regrow
from autocontext.strategies.selection import recent, stays
from autocontext.strategies.shorten import Shorten
from autocontext.text import rendering

if TYPE_CHECKING:
    from autocontext.notes.work import WorkLedger


T = TypeVar("T")
Step: TypeAlias = Ask | Edited
Sent: TypeAlias = "list[Answer] | bool | None"
Steps: TypeAlias = Generator[Step, Sent, T]
_Try: TypeAlias = tuple[Callable[[int], Strategy], bool]
"""What makes a strategy that frees so many tokens, and whether it is only for want of anything better."""


def compress(log: Log, token_sum: TokenSum, ledger: WorkLedger, options: PassOptions) -> Steps[CompressionReport]:
    """Run the strategies in order until the target is met; see the module for the protocol."""
    engine = _Engine(log, token_sum, ledger, options)
    report = yield from engine.run()
    if not engine.redaction.problem:
        return report
    problem = shown(f"{HOOK_FAILED}: {engine.redaction.problem}", options.config.redact)
    return report.model_copy(update={"reason": "; ".join(filter(None, (report.reason, problem)))})


_OF_ROOM = 0.5
"""Least share of the room for messages that new results are cut to, if all of it would not hold them."""


class _Cut(NamedTuple):
    """A step of cutting texts in a view that is over the window: how many characters of a long one remain."""

    read: int
    """Of texts that the model has answered."""
    new: int
    """Of new results; 0 while they stay as they are."""
    gives: bool = False
    """Whether instruction files are cut like other results."""


_CUTS = (_Cut(1_000, 0), _Cut(300, 1_000), _Cut(LEAST, LEAST), _Cut(LEAST, LEAST, gives=True))
"""Notes and what was read give way before new results do, which the next step is about."""
_BREAKER = "the breaker is open: two passes saved next to nothing, so the model was not asked"


class _Engine:
    """The state of one pass."""

    def __init__(self, log: Log, token_sum: TokenSum, ledger: WorkLedger, options: PassOptions) -> None:
        self.log, self.token_sum, self.options = log, token_sum, options
        self.config = options.config
        self.until_fit = options.config.last_resort and options.config.escalation == "until_fit"
        """Whether there is a last resort, so that the view fits whatever has to give way."""
        self.redaction = Redaction(options.config.redact)
        self.hand_over = NoteWriter(
            log,
            ledger,
            options.config,
            options.plan,
            count_text=token_sum.count_text,
            counter=token_sum.counter,
            focus=options.focus,
            redaction=self.redaction,
        )
        self.budget = Target(log, token_sum, options.config, early=options.early)
        self.account = Account(log, token_sum, options)
        self.growth = Regrow(self.hand_over, self._room_to_grow)
        self.breaker_open = options.pacing.breaker_open(len(log.view_ids), token_sum.total(), options.config)
        self.asks = options.asks and not self.breaker_open
        """Whether the user's model may be asked for notes in this pass."""
        self._seen: tuple[int, View] | None = None
        self._giving = self.config.model_copy(update={"instruction_sources": ()})
        """For the steps in which instruction files give way like other results."""

    def view(self) -> View:
        """What strategies see. It is the same object until something is recorded, so its cached properties are shared.

        With a redaction hook its messages hold no secrets; their tokens are those of the log's.
        """
        if self._seen is None or self._seen[0] != len(self.log.entries):
            ids, count = self.log.view_ids, self.token_sum.count
            view = self.log.view(count)
            if self.redaction.used:
                view = View(ids, map(self._readable, ids), lambda id_, _: count(id_, self.log.messages[id_]))
            self._seen = len(self.log.entries), view
        return self._seen[1]

    def _readable(self, id_: str) -> Msg:
        """A message of the view without secrets; a pin is no part of an original, and stays."""
        msg = self.hand_over.readable(id_, self.log.messages[id_])
        return with_pin(msg) if id_ in self.log.pins else msg

    def run(self) -> Steps[CompressionReport]:
        if self.options.only is not None:
            changed = yield from self._run_strategy(self.options.only(self.hand_over))
            return self.account.report("applied" if changed else "not_needed", "")
        if (yield from self._leave_out()):
            return self.account.report("applied", "")
        if self.until_fit:
            yield from self._cut_pastes()
            yield from self._cut_what_cannot_fit()
        for strategy in steps_of_pass(self.config, self.hand_over, asks=self.asks, excess=self._excess_with_notes):
            changed = False
            if isinstance(strategy, Shorten):
                changed = yield from self._make_room(strategy)
            changed |= yield from self._run_strategy(strategy)
            if (changed and self.config.escalation == "single") or self.budget.met():
                break
        if self.until_fit:
            yield from self._last_resort()
        # Where the pass has ended under its target, notes that earlier ones made small get their room back.
        if self.account.changed and self.budget.met() and self._wanted_by_notes():
            yield from self._run_strategy(self.growth, spare=self._room_to_grow())
        return self.account.report(*self._outcome())

    def _excess_with_notes(self) -> int:
        """Tokens over the target, and those that notes need which earlier passes have made small."""
        return self.budget.excess()[1] + self._wanted_by_notes()

    def _make_room(self, strategy: Shorten) -> Steps[bool]:
        """Fold what has to leave although everything before the newest messages will be shortened.

        First, since a note about whole messages has more room than one about short forms. Where that would fold some of
        the newest messages, those are shortened, too.
        """
        if not (self.until_fit and self.hand_over.used):
            return False
        view = self.view()
        messages, tokens = self.budget.excess()
        newest = {*view.ids[recent(view, self.config) :]}
        for strategy.keeps_newest in (True, False):
            savings = strategy.savings(view)
            if messages < 0 and tokens <= sum(savings):
                return False
            fold = Fold(self.config, self.hand_over, (messages, tokens), asks=self.asks, savings=savings)
            if all(newest.isdisjoint(proposal.span.ids) for proposal in fold.propose(view)):
                break
        return (yield from self._run_strategy(fold))

    def _room_to_grow(self) -> int:
        """Tokens that notes may grow by: the view stays under its target, and smaller than before the pass."""
        return min(-self.budget.excess()[1], self.account.saved) - 1

    def _wanted_by_notes(self) -> int:
        return self.growth.wanted(self.view()) if self.hand_over.used else 0

    def _leave_out(self) -> Steps[bool]:
        """Leave out what a provider has compacted, and older images; returns whether that was all that was due."""
        log, request, options, changed = self.log, self.token_sum.request, self.options, False
        if log.compactions:
            changed = yield from self._run_strategy(ProviderCompaction(self.config))
        if images_due(log, self.token_sum, self.config):
            images = Images(self.config, request.of, self.hand_over)
            # Where a counter takes an image for little, the line in its place may cost more.
            changed |= yield from self._run_strategy(images, spare=TOKENS_OF_LINE * request.total().may_leave)
        if not changed or options.force:
            return False
        if not self.budget.limits.reached(log, self.token_sum):
            return True
        return options.pacing.should_wait(len(log.view_ids), self.token_sum, self.config)

    def _cut_pastes(self) -> Steps[None]:
        """Cut what the user pasted and the model has answered: otherwise all the rest gives way to it."""
        pastes = FirstMessage(self.config, self.hand_over, self.token_sum.overhead)
        if self.hand_over.used and pastes.applies(self.view()):
            yield from self._run_strategy(pastes)

    def _cut_what_cannot_fit(self) -> Steps[None]:
        """Cut new results that no window could hold beside what always stays: then the rest need not give way.

        No further than to the target, where there is little else in view.
        """
        view = self.view()
        room = self._room_beside({view.first_user, view.latest_user})
        new = view.tokens(view.unread, len(view))
        if new > room > 0:
            excess = min(int(new - room * _OF_ROOM), self.budget.excess()[1])
            yield from self._run_strategy(Previews(self.config, self.hand_over.number_of_one, excess, unread=True))

    def _room_beside(self, places: Container[int] = ()) -> int:
        """Tokens of the window that what is never cut and the messages at these places leave."""
        view = self.view()
        never_cut = stays(self._giving, view, protected=False)
        taken = sum(view.tokens(i, i + 1) for i, m in enumerate(view.messages) if i in places or never_cut(m))
        return self.token_sum.in_own(self.config.max_token) - self.token_sum.overhead - taken

    def _last_resort(self) -> Steps[None]:
        """Fold until the target is met; then, while the view is over the window, cut what is long in it."""
        progress = True
        asks = self.asks
        while not self.budget.met() and progress:
            fold = Fold(self.config, self.hand_over, self.budget.excess(), asks=asks)
            progress = yield from self._run_strategy(fold)
            # One call a pass is enough. If there is no room for the model's text, the ledger alone may fit.
            progress, asks = progress or asks, False
        yield from self._fit()

    def _fit(self) -> Steps[None]:
        """While the view is over the window, shorten notes, then long texts, protected tools' results, user's pastes.

        New results give way after what was read, instruction files after the other results. At last, only the system
        text, pinned messages, the current exchange and nearly empty notes remain.
        """
        notes, number = self.hand_over, self.hand_over.number_of_one
        for cut in _CUTS:
            yield from self._cut_while(self.budget.overflow, *self._tries(cut))
        yield from self._cut_while(self.budget.overflow, (lambda over: Pastes(notes, over), False))
        # If what is never cut leaves no room, emptying the notes would not help.
        if self._room_beside() > 0:
            empty: _Try = (lambda over: Fold(self._giving, notes, (0, over), bare=True), False)
            yield from self._cut_while(self.budget.over_window, empty)
        if excess := self.budget.over_window():
            yield from self._run_strategy(Previews(self._giving, number, excess, unread=False, users=True))

    def _tries(self, cut: _Cut) -> Iterator[_Try]:
        """What one step of `_CUTS` tries, in order."""
        notes, number = self.hand_over, self.hand_over.number_of_one
        config = self._giving if cut.gives else self.config
        yield lambda over: Fold(config, notes, (0, over), shortens=True), False
        yield lambda over: Previews(config, number, over, unread=False, least=cut.read), False
        if cut.new:
            yield lambda over: Pastes(notes, over, latest=False), True
            yield lambda over: Previews(config, number, over, unread=True, least=cut.new), True
            yield lambda over: Fold(config, notes, (0, over), last_resort=True), False

    def _cut_while(self, too_many: Callable[[], int], *tries: _Try) -> Steps[None]:
        """Try these in turn while there are too many tokens, and over again as long as any of it helps."""
        progress = True
        while progress:
            progress = False
            for make, for_want in tries:
                if not (progress and for_want) and (over := too_many()):
                    progress |= yield from self._run_strategy(make(over))

    def _outcome(self) -> tuple[Outcome, str]:
        changed = self.account.changed
        unanswered = "the model gave no usable answer" if self.account.unanswered and not changed else ""
        if self.token_sum.reaches(self.config.max_token + 1):
            largest = too_large(self.log, self.token_sum, self.config.max_token)
            return "impossible", "; ".join(filter(None, (unanswered, largest, _BREAKER if self.breaker_open else "")))
        if unanswered:
            return "failed", unanswered
        if self.budget.met() and not changed:
            return "not_needed", "nothing was worth compressing, and the view is under the target"
        if self.budget.met() or (changed and self.config.escalation == "single"):
            return "applied", ""
        if self.breaker_open:
            return "partly", _BREAKER
        return "partly", "the target is not reached" if changed else "nothing is left to compress"

    # ------------------------------------------------------------------------------------------------ one strategy
    def _run_strategy(self, strategy: Strategy, *, spare: int = 0) -> Steps[bool]:
        """Run one strategy and commit the edits that pass the gate; returns whether anything changed.

        `spare`: tokens by which it may make the view longer.
        """
        outcome = yield from self._propose_and_edit(strategy, spare)
        self.account.record_strategy(strategy.name, outcome)
        return outcome.changed

    def _propose_and_edit(self, strategy: Strategy, spare: int) -> Steps[StrategyOutcome]:
        view = self.view()
        own = any(strategy is s for s in self.config.strategies)
        proposals, fault = _proposals(strategy, view, own=own)
        if fault and self.options.strict:
            raise InvalidEdit(f"{strategy.name}: {fault}")
        if not own:
            proposals = [self.hand_over.completed(view, p, asks=self.asks) for p in proposals]
        if self.breaker_open and any(p.questions for p in proposals):
            proposals, fault = [p for p in proposals if not p.questions], _BREAKER
        outcome = StrategyOutcome(len(proposals), fault=fault)
        if not proposals:
            return outcome
        worthwhile = self._worth_asking(strategy.name, view, proposals)
        edits, used = yield from self._edits(strategy.name, worthwhile, outcome, own=own)
        outcome.unanswered = len(worthwhile) - len(edits)
        # They are checked again if the view has lost messages meanwhile.
        committed: Sent = False
        while edits and committed is False:
            now = self.view()
            outcome.applied = self._apply(strategy.name, now, edits, stale=now is not view, spare=spare)
            if edits := outcome.applied.edits:
                window = self.options.window or self.config.max_token
                committed = yield edited(now, edits, self.token_sum.of, window, used=used)
        return outcome

    def _worth_asking(self, strategy: str, view: View, proposals: Sequence[Proposal]) -> list[Proposal]:
        """Proposals that pass the gate if the answers are one character long: only these are worth a call."""
        # Without their ledgers, which are always written to fit: a draft shows whether the rest is shorter.
        drafts = [
            build(replace(p, ledger=None), ["."] * len(p.questions), handles=self.log.offloads, strategy=strategy)
            for p in proposals
            if p.questions
        ]
        passed = {edit.ids for edit in self._apply(strategy, view, drafts).edits}
        return [p for p in proposals if not p.questions or p.span.ids in passed]

    def _apply(
        self, strategy: str, view: View, edits: Sequence[Edit], *, stale: bool = False, spare: int = 0
    ) -> Applied:
        # If the view has changed meanwhile, a refused edit is not the strategy's fault.
        done = apply(view, edits, self.token_sum.of, strict=self.options.strict and not stale, spare=spare)
        self.account.record_refusals(strategy, done)
        return done

    def _edits(
        self, strategy: str, proposals: Sequence[Proposal], outcome: StrategyOutcome, *, own: bool
    ) -> Steps[tuple[Sequence[Edit], dict[tuple[str, ...], Usage]]]:
        """The edits of the proposals whose questions were answered, in order, and by their ids what that has used.

        The ledger of an `own` one may fail.
        """
        results = yield from self._written([q for p in proposals for q in p.questions])
        outcome.problem = next((w.problem for w in results if w.problem), "")
        edits: list[Edit] = []
        used: dict[tuple[str, ...], Usage] = {}
        rest = iter(results)
        for p in proposals:
            answers = [*islice(rest, len(p.questions))]
            texts = [w.text for w in answers if w.text is not None]
            if len(texts) == len(answers):
                edit = build(
                    replace(p, ledger=_guarded(p.ledger)) if own or not self.options.strict else p,
                    texts,
                    handles=self.log.offloads,
                    strategy=strategy,
                    fallback=any(w.fallback for w in answers),
                    redact=self.redaction.text,
                )
                edits.append(edit)
                used[edit.ids] = sum((w.usage for w in answers), Usage())
        return edits, used

    def _written(self, questions: Sequence[Question]) -> Steps[list[SummaryResult]]:
        if not questions:
            return []
        language = rendering.conversation_language(self.log.view_messages)
        try:
            plan, focus = self.options.plan, self.options.focus
            builder = RequestBuilder(self.config, language, plan, self.hand_over.learn, focus)
            results = yield from write(questions, builder)
        except Exception as e:  # noqa: BLE001 (the user's redaction hook or plan object failed: nothing may be sent)
            return [SummaryResult(problem=f"the question could not be put: {told(e)}") for _ in questions]
        self.account.record_answers(results)
        return results


def _proposals(strategy: Strategy, view: View, *, own: bool) -> tuple[list[Proposal], str]:
    """What a strategy proposes, and what is wrong with it; a user's `own` strategy may fail in any way."""
    try:
        proposals = list(strategy.propose(view))
    except Exception as e:  # noqa: BLE001 (a turn must not end because somebody's strategy has a bug)
        return [], f"propose() failed: {told(e)}"
    faults = [_fault(proposal, view) if own else "" for proposal in proposals]
    good = [proposal for proposal, fault in zip(proposals, faults, strict=True) if not fault]
    return good, next((f"proposal {n} of {len(faults)} {fault}" for n, fault in enumerate(faults, 1) if fault), "")


def _guarded(ledger: Callable[[str], str] | None) -> Callable[[str], str] | None:
    """A ledger whose failure does not end the turn."""
    if ledger is None:
        return None

    def text_or_reason(note: str) -> str:
        try:
            text = ledger(note)
        except Exception as e:  # noqa: BLE001 (as for what it proposes)
            return f"(no ledger: {type(e).__name__})"
        return text if isinstance(text, str) else ""

    return text_or_reason


def _fault(proposal: Any, view: View) -> str:
    """Why a proposal cannot be carried out, "" if it can; found out by trying, since a user's may hold anything."""
    if not isinstance(proposal, Proposal):
        return f"is of type {type(proposal).__name__}; propose Proposal(view.span(start, stop), text)"
    try:
        if not isinstance(proposal.text, str | Question | None) or not proposal.well_formed:
            return "needs a span with a text or Question (in the role user or assistant) or, for one message, `blocks`"
        pairs = zip(map(view.position.get, proposal.span.ids), proposal.span.messages, strict=True)
        if any(at is not None and view.messages[at] is not m for at, m in pairs):
            return "has other messages than the view; make its span with view.span(start, stop)"
        if not all(question.well_formed for question in proposal.questions):
            return _QUESTION
        build(proposal, ["."] * len(proposal.questions))
    except Exception as e:  # noqa: BLE001 (as above)
        return f"cannot be carried out: {told(e)}"
    return ""


_QUESTION = (
    f"has a Question that cannot be asked: `purpose` must be one of {', '.join(get_args(rendering.Purpose))}, `parts` "
    "texts, `sizes` as many whole numbers"
)
