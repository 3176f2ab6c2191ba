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
from autocontext.log import Edited, Log
from autocontext.plan import PlanLike
from autocontext.requests import Answer, ModelRequest, Usage
from autocontext.strategies import Strategy, steps
from autocontext.strategies.fold import Fold
from autocontext.strategies.last_resort import Previews
from autocontext.tally import Tally
from autocontext.view import View


@dataclass(frozen=True, slots=True)
class Ask:
    """Questions to be put to the model at the same time."""

    requests: tuple[ModelRequest, ...]
    limits: tuple[int, ...]
    """Characters that each answer must stay under: what it is to replace."""
    extractive: bool = False
    """The model has failed on these: let the extractive summariser answer."""


@dataclass(frozen=True, slots=True)
class Commit:
    """An entry to be stored, then recorded."""

    entry: Edited


_LEAST_PREVIEW = 40
"""Characters below which cutting a text further is not worth its tag."""

Step: TypeAlias = Ask | Commit
Pass: TypeAlias = Generator[Step, "list[Answer] | None", CompressionReport]


def triggered(log: Log, tally: Tally, config: AutoContextConfig) -> bool:
    """Whether a threshold is reached: two comparisons."""
    return len(log.view_ids) >= config.msg_threshold or tally.reaches(config.token_trigger)


def compress(
    log: Log,
    tally: Tally,
    config: AutoContextConfig,
    *,
    plan: PlanLike | None = None,
    force: bool = False,
    strict: bool = False,
) -> Pass:
    """Run the strategies in order until the target is met; see the module for the protocol.

    `force` runs them although no threshold is reached; `strict` raises InvalidEdit for a refused proposal.
    """
    if not force and not triggered(log, tally, config):
        size, tokens = len(log.view_ids), tally.at_most
        return CompressionReport(
            outcome="not_needed",
            reason="no threshold is reached",
            tokens_before=tokens,
            tokens_after=tokens,
            messages_before=size,
            messages_after=size,
        )
    return (yield from _Run(log, tally, config, plan, strict=strict).run())


@dataclass
class _Tried:
    """What became of one strategy's proposals."""

    proposed: int = 0
    applied: Applied | None = None
    unanswered: int = 0
    fault: str = ""
    """Why what it proposed could not be used."""


@dataclass
class _Made:
    """An edit on its way, with what its model calls used."""

    edit: Edit
    usage: Usage = field(default_factory=Usage)


class _Run:
    """The state of one pass."""

    def __init__(
        self, log: Log, tally: Tally, config: AutoContextConfig, plan: PlanLike | None, *, strict: bool
    ) -> None:
        self.log, self.tally, self.config, self.plan, self.strict = log, tally, config, plan, strict
        self.before = self.view()
        self.tried: list[StrategyReport] = []
        self.refused: list[RefusedEdit] = []
        self.calls = self.fallbacks = self.unanswered = 0
        self.usage = Usage()

    def view(self) -> View:
        return View(self.log.view_ids, self.log.view_messages, self.tally.count)

    def run(self) -> Pass:
        tokens_before = self.tally.total()
        for strategy in steps(self.config):
            changed = yield from self._try(strategy)
            if changed and self.config.escalation == "single":
                break
            if self._fits():
                break
        if self.config.last_resort and self.config.escalation == "until_fit":
            yield from self._last_resort()
        return self._outcome(tokens_before)

    def _last_resort(self) -> Generator[Step, list[Answer] | None, None]:
        """Fold until the target is met; then, while the view is over the window, cut harder and harder."""
        if not self._fits():
            yield from self._try(self._fold())
        limit = self.config.large_payload_threshold
        while self._overflows() and limit > _LEAST_PREVIEW:
            limit //= 4
            yield from self._try(Previews(self.config, limit, unread=False))
            if self._overflows():
                yield from self._try(Previews(self.config, limit, unread=True))
            if self._overflows():
                yield from self._try(self._fold(last_resort=True))

    def _fold(self, *, last_resort: bool = False) -> Fold:
        share = self.config.target_ratio
        return Fold(
            self.config,
            excess_messages=len(self.log.view_ids) - self.config.msg_threshold * share,
            excess_tokens=self.tally.total() - self.config.token_trigger * share,
            last_resort=last_resort,
        )

    def _overflows(self) -> bool:
        return self.tally.reaches(self.config.max_token + 1)

    # ------------------------------------------------------------------------------------------------ one strategy
    def _try(self, strategy: Strategy) -> Generator[Step, list[Answer] | None, bool]:
        """Let a strategy propose, make what the gate lets through, and say whether anything changed."""
        tried = yield from self._carry_out(strategy)
        self.tried.append(_said(strategy.name, tried))
        self.unanswered += tried.unanswered
        return bool(tried.applied and tried.applied.edits)

    def _carry_out(self, strategy: Strategy) -> Generator[Step, list[Answer] | None, _Tried]:
        proposals, fault = _proposals(strategy, self.view())
        tried = _Tried(len(proposals), fault=fault)
        if not proposals:
            return tried
        made = yield from self._edits(strategy.name, proposals)
        tried.unanswered = len(proposals) - len(made)
        view = self.view()
        tried.applied = apply(view, [m.edit for m in made], lambda m: self.tally.count(m.id, m), strict=self.strict)
        self.refused += [
            RefusedEdit(strategy=strategy.name, reason=r.reason, ids=r.edit.ids) for r in tried.applied.refused
        ]
        if tried.applied.edits:
            usage = {m.edit.uuid: m.usage for m in made}
            events = tuple(self._event(view, edit, usage[edit.uuid]) for edit in tried.applied.edits)
            yield Commit(Edited(edits=tried.applied.edits, events=events))
        return tried

    def _edits(self, strategy: str, proposals: Sequence[Proposal]) -> Generator[Step, list[Answer] | None, list[_Made]]:
        """The edits of the proposals whose questions were answered, in order."""
        questions = [q for p in proposals for q in p.questions]
        answers, written = yield from self._answers(questions)
        made: list[_Made] = []
        at = 0
        for p in proposals:
            own = slice(at, at := at + len(p.questions))
            texts = [a.text for a in answers[own] if a.text is not None]
            if len(texts) < len(p.questions):
                continue
            edit = build(p, texts, strategy=strategy, fallback=any(written[own]))
            made.append(_Made(edit, sum((a.usage for a in answers[own]), Usage())))
        return made

    def _answers(
        self, questions: Sequence[Question]
    ) -> Generator[Step, list[Answer] | None, tuple[list[Answer], list[bool]]]:
        """One answer per question, and whether it was written without the model."""
        if not questions:
            return [], []
        language = rendering.conversation_language(self.log.view_messages)
        ask = Ask(
            tuple(
                rendering.request(
                    q.purpose,
                    q.parts,
                    self.config.prompts,
                    language=language,
                    plan=self.plan,
                    target_tokens=q.target_tokens,
                )
                for q in questions
            ),
            tuple(sum(map(len, q.parts)) + len(q.parts) for q in questions),
        )
        answers = yield from self._asked(ask)
        failed = [i for i, a in enumerate(answers) if a.text is None]
        if failed and self.config.extractive_fallback:
            again = Ask(tuple(ask.requests[i] for i in failed), tuple(ask.limits[i] for i in failed), extractive=True)
            for i, answer in zip(failed, (yield from self._asked(again)), strict=True):
                answers[i] = answer
            self.fallbacks += sum(answers[i].text is not None for i in failed)
        return answers, [i in failed for i in range(len(questions))]

    def _asked(self, ask: Ask) -> Generator[Step, list[Answer] | None, list[Answer]]:
        answers = yield ask
        if answers is None or len(answers) != len(ask.requests):
            raise TypeError("the driver must send one Answer per request")
        self.calls += sum(a.calls for a in answers)
        self.usage = sum((a.usage for a in answers), self.usage)
        return list(answers)

    def _event(self, view: View, edit: Edit, usage: Usage) -> CompressionEvent:
        start = view.position[edit.ids[0]]
        stop = start + len(edit.ids)
        before, after = view.tokens(start, stop), sum(self.tally.count(m.id, m) for m in edit.messages)
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
        """Whether the view is under the target share of both triggers."""
        share = self.config.target_ratio
        return (
            len(self.log.view_ids) < self.config.msg_threshold * share
            and self.tally.total() < self.config.token_trigger * share
        )

    def _outcome(self, tokens_before: int) -> CompressionReport:
        tokens = self.tally.total()
        changed = any(t.applied for t in self.tried)
        if tokens > self.config.max_token:
            return self._report("impossible", self._too_large(tokens), tokens_before)
        if self.unanswered and not changed:
            return self._report("failed", "the model gave no usable answer", tokens_before)
        if self._fits() or (changed and self.config.escalation == "single"):
            return self._report("applied", "", tokens_before)
        reason = "the target is not reached" if changed else "nothing is left to compress"
        return self._report("partly", reason, tokens_before)

    def _too_large(self, tokens: int) -> str:
        """Which part cannot be made smaller."""
        size, m = max(
            ((self.tally.count(i, m), m) for i, m in zip(self.log.view_ids, self.log.view_messages, strict=True)),
            key=lambda pair: pair[0],
        )
        return (
            f"{tokens} tokens are more than max_token ({self.config.max_token}); "
            f"the largest part is the {m.role} message {m.id} with {size} tokens"
        )

    def _report(self, outcome: Outcome, reason: str, tokens_before: int) -> CompressionReport:
        changed = self._first_changed()
        return CompressionReport(
            outcome=outcome,
            reason=reason,
            tokens_before=tokens_before,
            tokens_after=self.tally.total(),
            messages_before=len(self.before),
            messages_after=len(self.log.view_ids),
            strategies=tuple(self.tried),
            model_calls=self.calls,
            fallbacks=self.fallbacks,
            usage=self.usage,
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


def _proposals(strategy: Strategy, view: View) -> tuple[list[Proposal], str]:
    """What a strategy proposes, and what is wrong with it; a user's own strategy may fail in any way."""
    try:
        found = list(strategy.propose(view))
    except Exception as e:  # noqa: BLE001 (a turn must not end because somebody's strategy has a bug)
        return [], f"propose() failed: {type(e).__name__}: {e}"
    good = [p for p in found if isinstance(p, Proposal) and p.well_formed]
    return good, "" if len(good) == len(found) else "not every proposal is a Proposal for a span of the view"


def _said(name: str, tried: _Tried) -> StrategyReport:
    """What a strategy's attempt looks like in the report."""
    done = tried.applied
    if done and done.edits:
        count = sum(len(e.ids) for e in done.edits)
        reason = f"replaced {count} messages in {len(done.edits)} edits"
        return StrategyReport(name=name, applied=True, reason=reason, tokens_saved=done.saved)
    if not tried.proposed:
        reason = tried.fault or "nothing to do"
    elif done and done.refused:
        reason = f"refused: {done.refused[0].reason}"
    else:
        reason = "the model gave no usable answer"
    return StrategyReport(name=name, applied=False, reason=reason)
