"""One compression pass, without I/O: a generator that yields what has to be done outside.

The protocol, for whoever drives it:

- `Ask(requests, ...)`: put the questions to the model, all at once; send back one Answer per request, in order. A
  failure is an Answer with a `problem`, never an exception.
- `Commit(entry)`: store the entry durably, then `Log.record` it; send back None. If storing fails, close the generator:
  nothing has changed.

Between two steps messages may be added: edits name ids and are checked against the view as it is when they are made.
The generator returns the CompressionReport.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from autocontext import rendering
from autocontext.config import AutoContextConfig
from autocontext.edits import Applied, Edit, Proposal, Question, apply, build
from autocontext.events import CompressionEvent, CompressionReport, Outcome, RefusedEdit, StrategyReport
from autocontext.ledger import Evidence
from autocontext.log import Edited, Log, Noted
from autocontext.messages import Msg
from autocontext.pacing import Pacing
from autocontext.plan import PlanLike
from autocontext.questions import Ask, Wording, Written, write
from autocontext.requests import Answer, Usage
from autocontext.strategies import Strategy, steps
from autocontext.strategies.fold import Fold
from autocontext.strategies.last_resort import Previews
from autocontext.tally import Tally
from autocontext.upkeep import Upkeep
from autocontext.view import View


@dataclass(frozen=True, slots=True)
class Commit:
    """An entry to be stored, then recorded."""

    entry: Edited | Noted


Step: TypeAlias = Ask | Commit
Sent: TypeAlias = "list[Answer] | None"
Pass: TypeAlias = Generator[Step, Sent, CompressionReport]

_JUST_UNDER = 0.97
"""Share of the window that texts are cut to, where the trigger is the window itself."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Messages and tokens at which a pass starts."""

    messages: float
    tokens: int

    @classmethod
    def of(cls, config: AutoContextConfig, *, early: bool = False) -> Limits:
        """The configured triggers; `early`: the softer ones of a pass in the background."""
        if not early:
            return cls(config.msg_threshold, config.token_trigger)
        share = min(1.0, config.background_ratio / config.token_ratio)
        return cls(config.msg_threshold * share, int(config.token_trigger * share))

    def reached(self, log: Log, tally: Tally) -> bool:
        """Whether a pass is due: two comparisons."""
        return len(log.view_ids) >= self.messages or tally.reaches(self.tokens)


@dataclass(frozen=True)
class Settings:
    """What a pass goes by."""

    config: AutoContextConfig
    plan: PlanLike | None = None
    pacing: Pacing = field(default_factory=Pacing)
    force: bool = False
    """Run although no limit is reached."""
    early: bool = False
    """A pass in the background, with its softer limits."""
    strict: bool = False
    """Raise InvalidEdit for a proposal that breaks a rule."""


def due(log: Log, tally: Tally, settings: Settings) -> str:
    """Why no pass is needed now; "" when one is."""
    if settings.force:
        return ""
    if not Limits.of(settings.config, early=settings.early).reached(log, tally):
        return "no threshold is reached"
    if settings.pacing.rests(len(log.view_ids), tally, settings.config):
        return "the last pass could not reach the target and the view has hardly grown since"
    return ""


def compress(log: Log, tally: Tally, evidence: Evidence, settings: Settings) -> Pass:
    """Run the strategies in order until the target is met; see the module for the protocol."""
    if reason := due(log, tally, settings):
        size, tokens = len(log.view_ids), tally.at_most
        return CompressionReport(
            outcome="not_needed",
            reason=reason,
            tokens_before=tokens,
            tokens_after=tokens,
            messages_before=size,
            messages_after=size,
        )
    return (yield from _Run(log, tally, evidence, settings).run())


@dataclass
class _Tried:
    """What became of one strategy's proposals."""

    proposed: int = 0
    applied: Applied | None = None
    unanswered: int = 0
    fault: str = ""
    """Why what it proposed could not be used."""
    problem: str = ""
    """What was wrong with the model's answers, if anything was."""


@dataclass
class _Made:
    """An edit on its way, with what its model calls used."""

    edit: Edit
    usage: Usage = field(default_factory=Usage)


class _Run:
    """The state of one pass."""

    def __init__(self, log: Log, tally: Tally, evidence: Evidence, settings: Settings) -> None:
        self.log, self.tally, self.settings = log, tally, settings
        self.config = settings.config
        self.upkeep = Upkeep(log, tally, evidence, settings.config)
        self.limits = Limits.of(settings.config, early=settings.early)
        self.before = View(log.view_ids, log.view_messages, tally.count)
        self.tokens_before = tally.total()
        self.saved = 0
        self._seen: tuple[int, View] | None = None
        self.tried: list[StrategyReport] = []
        self.refused: list[RefusedEdit] = []
        self.calls = self.fallbacks = self.unanswered = 0
        self.usage = Usage()

    def view(self) -> View:
        """What strategies see: everything but the evidence ledger, which is made anew at the end of the pass.

        The same value until something is recorded, so that what one strategy has worked out serves the next.
        """
        if self._seen is None or self._seen[0] != len(self.log.entries):
            self._seen = (len(self.log.entries), self._current_view())
        return self._seen[1]

    def _current_view(self) -> View:
        ids, messages = self.log.view_ids, self.log.view_messages
        if self.log.ledger is not None:
            kept = [i for i, id_ in enumerate(ids) if id_ != self.log.ledger]
            ids, messages = [ids[i] for i in kept], [messages[i] for i in kept]
        return View(ids, messages, self.tally.count)

    def run(self) -> Pass:
        for strategy in () if self.settings.pacing.breaker_open else steps(self.config):
            changed = yield from self._try(strategy)
            if (changed and self.config.escalation == "single") or self._fits():
                break
        if self.config.last_resort and self.config.escalation == "until_fit":
            yield from self._last_resort()
        if renewed := self._renewed_ledger():
            yield Commit(renewed)
        return self._report(*self._outcome())

    def _last_resort(self) -> Generator[Step, Sent, None]:
        """Fold until the target is met; then, while the view is over the window, cut what is long in it."""
        progress = True
        while not self._fits() and progress:
            progress = yield from self._try(self._fold())
        progress = True
        while self._overflows() and progress:
            progress = yield from self._try(Previews(self.config, self._overflow(), unread=False))
            if self._overflows():
                progress |= yield from self._try(Previews(self.config, self._overflow(), unread=True))
            if self._overflows():
                progress |= yield from self._try(self._fold(last_resort=True))

    def _fold(self, *, last_resort: bool = False) -> Fold:
        messages, tokens = self._excess()
        return Fold(self.config, excess_messages=messages, excess_tokens=tokens, last_resort=last_resort)

    def _overflow(self) -> int:
        """Tokens to cut from texts so that the view is under the trigger again."""
        return int(self._future_tokens() - min(self.limits.tokens, self.config.max_token * _JUST_UNDER))

    # ------------------------------------------------------------------------------------------------ one strategy
    def _try(self, strategy: Strategy) -> Generator[Step, Sent, bool]:
        """Let a strategy propose, make what the gate lets through, and say whether anything changed."""
        tried = yield from self._carry_out(strategy)
        self.tried.append(_said(strategy.name, tried))
        self.unanswered += tried.unanswered
        return bool(tried.applied and tried.applied.edits)

    def _carry_out(self, strategy: Strategy) -> Generator[Step, Sent, _Tried]:
        view = self.view()
        own = any(strategy is s for s in self.config.strategies)
        proposals, fault = _proposals(strategy, view, own=own)
        tried = _Tried(len(proposals), fault=fault)
        worth_asking = self._promising(strategy.name, view, proposals)
        made = yield from self._edits(strategy.name, worth_asking, tried)
        tried.unanswered = len(worth_asking) - len(made)
        view = self.view()
        tried.applied = self._apply(strategy.name, view, [m.edit for m in made])
        if tried.applied.edits:
            usage = {m.edit.ids: m.usage for m in made}
            events = tuple(self._event(view, edit, usage[edit.ids]) for edit in tried.applied.edits)
            yield Commit(Edited(edits=tried.applied.edits, events=events))
            self.saved += tried.applied.saved
            self.upkeep.learn(id_ for edit in tried.applied.edits for id_ in edit.ids)
        return tried

    def _promising(self, strategy: str, view: View, proposals: Sequence[Proposal]) -> list[Proposal]:
        """Proposals that pass the gate if the answers are one character long: only these are worth a call."""
        drafts = {
            i: build(p, ["."] * len(p.questions), handles=self.log.offloads, strategy=strategy)
            for i, p in enumerate(proposals)
            if p.questions
        }
        passed = {edit.ids for edit in self._apply(strategy, view, list(drafts.values())).edits}
        return [p for i, p in enumerate(proposals) if i not in drafts or drafts[i].ids in passed]

    def _apply(self, strategy: str, view: View, edits: list[Edit]) -> Applied:
        done = apply(view, edits, self._count, strict=self.settings.strict)
        self.refused += [RefusedEdit(strategy=strategy, reason=r.reason, ids=r.edit.ids) for r in done.refused]
        return done

    def _edits(self, strategy: str, proposals: Sequence[Proposal], tried: _Tried) -> Generator[Step, Sent, list[_Made]]:
        """The edits of the proposals whose questions were answered, in order."""
        questions = [q for p in proposals for q in p.questions]
        written = yield from self._written(questions)
        tried.problem = next((w.problem for w in written if w.problem), "")
        made: list[_Made] = []
        at = 0
        for p in proposals:
            own = written[at : at + len(p.questions)]
            at += len(p.questions)
            texts = [w.text for w in own if w.text is not None]
            if len(texts) == len(own):
                fallback = any(w.fallback for w in own)
                edit = build(p, texts, handles=self.log.offloads, strategy=strategy, fallback=fallback)
                made.append(_Made(edit, sum((w.usage for w in own), Usage())))
        return made

    def _written(self, questions: Sequence[Question]) -> Generator[Step, Sent, list[Written]]:
        if not questions:
            return []
        language = rendering.conversation_language(self.log.view_messages)
        try:
            written = yield from write(questions, Wording(self.config, language, self.settings.plan))
        except Exception as e:  # noqa: BLE001 (the caller's hook or plan object is at fault: nothing may go out then)
            return [Written(problem=f"the question could not be put: {type(e).__name__}: {e}") for _ in questions]
        self.calls += sum(w.calls for w in written)
        self.fallbacks += sum(w.fallback for w in written)
        self.usage = sum((w.usage for w in written), self.usage)
        return written

    def _count(self, msg: Msg) -> int:
        return self.tally.count(msg.id, msg)

    def _event(self, view: View, edit: Edit, usage: Usage) -> CompressionEvent:
        start = view.position[edit.ids[0]]
        stop = start + len(edit.ids)
        before, after = view.tokens(start, stop), sum(map(self._count, edit.messages))
        return CompressionEvent(
            event_type=edit.event_type,
            timestamp=time.time_ns() // 1_000_000,
            compressed_message_count=len(edit.ids),
            previous_message_id=view.ids[start - 1] if start else None,
            next_message_id=view.ids[stop] if stop < len(view) else None,
            compressed_message_id=edit.messages[0].id if edit.messages else None,
            metadata={
                "inputToken": usage.input_tokens,
                "outputToken": usage.output_tokens,
                "time": usage.seconds,
                "tokenBefore": before,
                "tokenAfter": after,
            },
            token_reduction=before - after,
        )

    # ------------------------------------------------------------------------------------------------- the outcome
    def _fits(self) -> bool:
        """Whether the view will be under the target share of both limits, the ledger that is to come included."""
        excess_messages, excess_tokens = self._excess()
        return excess_messages < 0 and excess_tokens < 0

    def _met(self) -> bool:
        """Whether the view, as it now is, is under the target."""
        share = self.config.target_ratio
        few = len(self.log.view_ids) < self.limits.messages * share
        return few and self.tally.total() < self.limits.tokens * share

    def _excess(self) -> tuple[float, float]:
        """Messages and tokens over the target, with the ledger that is to come instead of the one that is there."""
        share = self.config.target_ratio
        return (
            len(self.log.view_ids) + self.upkeep.to_come - self.limits.messages * share,
            self._future_tokens() - self.limits.tokens * share,
        )

    def _future_tokens(self) -> int:
        """Tokens of the view with the ledger that is to come instead of the one that is there."""
        return self.tally.total() - self.upkeep.tokens + self.upkeep.reserve(self.saved)

    def _renewed_ledger(self) -> Noted | None:
        rest = self.tally.total() - self.upkeep.tokens
        target = int(self.limits.tokens * self.config.target_ratio)
        # Where the target cannot be met, half of what is left up to the trigger: the rest is for the turns to come.
        return self.upkeep.renewed(self.view(), max(target - rest, (self.limits.tokens - rest) // 2), self.saved)

    def _overflows(self) -> bool:
        return self._future_tokens() > self.config.max_token

    def _outcome(self) -> tuple[Outcome, str]:
        changed = any(t.applied for t in self.tried)
        if self.tally.reaches(self.config.max_token + 1):
            return "impossible", self._too_large()
        if self.unanswered and not changed:
            return "failed", "the model gave no usable answer"
        if self._met() or (changed and self.config.escalation == "single"):
            return "applied", ""
        if self.settings.pacing.breaker_open:
            return "partly", "the breaker is open: two passes saved next to nothing, so the model was not asked"
        return "partly", "the target is not reached" if changed else "nothing is left to compress"

    def _too_large(self) -> str:
        """Which part cannot be made smaller."""
        size, m = max(
            ((self.tally.count(i, m), m) for i, m in zip(self.log.view_ids, self.log.view_messages, strict=True)),
            key=lambda pair: pair[0],
            default=(0, None),
        )
        what = f"{self.tally.total()} tokens are more than max_token ({self.config.max_token}); the largest part is "
        if m is None or self.tally.fixed > size:
            return what + f"the system text and tool schemas with {self.tally.fixed} tokens"
        return what + f"the {m.role} message {m.id} with {size} tokens"

    def _report(self, outcome: Outcome, reason: str) -> CompressionReport:
        changed = self._first_changed()
        return CompressionReport(
            outcome=outcome,
            reason=reason,
            tokens_before=self.tokens_before,
            tokens_after=self.tally.total(),
            messages_before=len(self.before),
            messages_after=len(self.log.view_ids),
            strategies=tuple(self.tried),
            model_calls=self.calls,
            fallbacks=self.fallbacks,
            usage=self.usage,
            cost=_cost(self.usage, self.config),
            refused=tuple(self.refused),
            first_changed=changed,
            prefix_tokens_invalidated=0 if changed is None else self.before.tokens(changed, len(self.before)),
        )

    def _first_changed(self) -> int | None:
        after: Sequence[str] = self.log.view_ids
        for i, id_ in enumerate(self.before.ids):
            if i >= len(after) or after[i] != id_:
                return i
        return None


def _cost(usage: Usage, config: AutoContextConfig) -> float | None:
    """What the model calls cost; None without prices."""
    if config.prices is None:
        return None
    per_million = config.prices
    spent = usage.input_tokens * per_million.get("input", 0.0) + usage.output_tokens * per_million.get("output", 0.0)
    return spent / 1_000_000


def _proposals(strategy: Strategy, view: View, *, own: bool) -> tuple[list[Proposal], str]:
    """What a strategy proposes, and what is wrong with it; a user's `own` strategy may fail in any way."""
    try:
        found = list(strategy.propose(view))
    except Exception as e:  # noqa: BLE001 (a turn must not end because somebody's strategy has a bug)
        return [], f"propose() failed: {type(e).__name__}: {e}"
    good = [p for p in found if isinstance(p, Proposal) and (_usable(p, view) if own else p.well_formed)]
    return good, "" if len(good) == len(found) else "not every proposal is a Proposal for a span of the view"


def _usable(proposal: Proposal, view: View) -> bool:
    """Whether a proposal can be carried out; found out by trying, since it may hold anything."""
    try:
        places = [view.position.get(id_) for id_ in proposal.span.ids]
        pairs = zip(places, proposal.span.messages, strict=True)
        forged = any(at is not None and view.messages[at] is not m for at, m in pairs)
        if forged or not proposal.well_formed or not all(q.well_formed for q in proposal.questions):
            return False
        build(proposal, ["."] * len(proposal.questions))
    except Exception:  # noqa: BLE001 (as above)
        return False
    return True


def _said(name: str, tried: _Tried) -> StrategyReport:
    """What a strategy's attempt looks like in the report."""
    done = tried.applied
    if done and done.edits:
        count = sum(len(e.ids) for e in done.edits)
        reason = f"replaced {count} messages in {len(done.edits)} edits"
        if tried.problem:
            reason += f"; the model gave no usable answer: {tried.problem}"
        return StrategyReport(name=name, applied=True, reason=reason, tokens_saved=done.saved)
    if not tried.proposed:
        reason = tried.fault or "nothing to do"
    elif tried.unanswered:
        reason = f"the model gave no usable answer: {tried.problem}"
    elif done and done.refused:
        reason = f"refused: {done.refused[0].reason}"
    else:
        reason = "it would not make the context smaller"
    return StrategyReport(name=name, applied=False, reason=reason)
