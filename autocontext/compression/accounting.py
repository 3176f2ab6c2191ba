"""The account of a pass: what each strategy did, what it cost, and the report about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from autocontext.compression.limits import PassOptions
from autocontext.compression.paying import pass_cost
from autocontext.compression.questions import SummaryResult
from autocontext.compression.receipt import receipt
from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig
from autocontext.events import CompressionEvent, CompressionReport, Outcome, RefusedEdit, StrategyReport
from autocontext.history.edits import NO_GAIN, Applied, Edit
from autocontext.history.entries import Edited
from autocontext.history.log import Log
from autocontext.history.redacting import shown
from autocontext.history.view import View
from autocontext.messages import Msg
from autocontext.requests import Usage


@dataclass
class StrategyOutcome:
    """The result of one strategy's proposals."""

    proposed: int = 0
    applied: Applied | None = None
    unanswered: int = 0
    fault: str = ""
    """Why what it proposed could not be used."""
    problem: str = ""
    """What was wrong with the model's answers, if anything was."""

    @property
    def changed(self) -> bool:
        """Whether the view has changed."""
        return self.applied is not None and bool(self.applied.edits)

    def report(self, name: str) -> StrategyReport:
        """The strategy's entry in the report."""
        no_answer = f"the model gave no usable answer: {self.problem}"
        if self.applied is not None and self.applied.edits:
            count = sum(len(e.ids) for e in self.applied.edits)
            reason = f"replaced {count} messages in {len(self.applied.edits)} edits"
            reason += f"; {no_answer}" if self.problem else ""
            return StrategyReport(name=name, applied=True, reason=reason, tokens_saved=self.applied.saved)
        if not self.proposed:
            reason = self.fault or "nothing to do"
        elif self.unanswered:
            reason = no_answer
        elif self.applied is not None and self.applied.refused:
            reason = f"refused: {self.applied.refused[0].reason}"
        else:
            reason = NO_GAIN
        return StrategyReport(name=name, applied=False, reason=reason)


class Account:
    """Adds up what a pass does."""

    def __init__(self, log: Log, token_sum: TokenSum, options: PassOptions) -> None:
        self._log, self._token_sum, self._options = log, token_sum, options
        self._before = log.view(token_sum.count)
        self._tokens_before = token_sum.own
        self._refused: list[RefusedEdit] = []
        self._strategies: list[StrategyReport] = []
        self._calls = self._fallbacks = 0
        self._usage = Usage()
        self.saved = 0
        """Tokens that the edits have taken out of the view."""
        self.unanswered = 0
        """Proposals that the model gave no usable answer for."""

    @property
    def changed(self) -> bool:
        """Whether any strategy has changed the view."""
        return any(s.applied for s in self._strategies)

    def record_strategy(self, name: str, outcome: StrategyOutcome) -> None:
        """Record what a strategy did."""
        report = outcome.report(name)
        if outcome.fault or outcome.problem:
            report = report.model_copy(update={"reason": shown(report.reason, self._options.config.redact)})
        self._strategies.append(report)
        self.unanswered += outcome.unanswered
        self.saved += outcome.applied.saved if outcome.applied is not None else 0

    def record_refusals(self, strategy: str, applied: Applied) -> None:
        """Record the edits that the gate refused."""
        self._refused += [RefusedEdit(strategy=strategy, reason=r.reason, ids=r.edit.ids) for r in applied.refused]

    def record_answers(self, results: Sequence[SummaryResult]) -> None:
        """Record the model calls."""
        self._calls += sum(w.calls for w in results)
        self._fallbacks += sum(w.fallback for w in results)
        self._usage = sum((w.usage for w in results), self._usage)

    def report(self, outcome: Outcome, reason: str) -> CompressionReport:
        """The report about the pass."""
        pairs = enumerate(zip_longest(self._before.ids, self._log.view_ids[: len(self._before)]))
        changed = next((i for i, (before, after) in pairs if before != after), None)
        return CompressionReport(
            outcome=outcome,
            reason=reason,
            tokens_before=self._tokens_before,
            tokens_after=self._token_sum.own,
            messages_before=len(self._before),
            messages_after=len(self._log.view_ids),
            strategies=tuple(self._strategies),
            model_calls=self._calls,
            fallbacks=self._fallbacks,
            usage=self._usage,
            cost=price(self._usage, self._options.config),
            refused=tuple(self._refused),
            receipt=receipt(
                self._log, self._before.ids, lambda id_: self._token_sum.count(id_, self._log.messages[id_])
            ),
            first_changed=changed,
            prefix_tokens_invalidated=0 if changed is None else self._before.tokens(changed, len(self._before)),
            **self._cost(changed),
        )

    def _cost(self, changed: int | None) -> dict[str, Any]:
        """The report's fields about cost; none if the pass changed nothing."""
        if changed is None:
            return {}
        config = self._options.config
        tokens = self._tokens_before, self._token_sum.own, self._token_sum.overhead
        notes = price(self._usage, config) or 0.0
        cost = pass_cost(config, self._before, *tokens, first_changed=changed, cold=self._options.cold, notes=notes)
        money = {} if config.prices is None else {"extra_cost": cost.extra, "saved_per_turn": cost.saving}
        return {"tokens_uncached": cost.uncached, "break_even_turn": cost.break_even, **money}


def too_large(log: Log, token_sum: TokenSum, window: int) -> str:
    """The largest part of a view that is over the window, in words."""
    sizes = ((token_sum.count(i, m), m) for i, m in log.in_view)
    size, m = max(sizes, key=lambda pair: pair[0], default=(0, None))
    what = f"{token_sum.total()} tokens are more than max_token ({window}); the largest part is "
    if m is None or token_sum.overhead > size:
        return what + f"the system text and tool schemas with {token_sum.overhead} tokens"
    return what + f"the {m.role} message {m.id} with {size} tokens"


def too_many_bytes(log: Log, token_sum: TokenSum, config: AutoContextConfig) -> str:
    """Why a view with images or files is over `max_request_bytes`, in words; "" if it is not."""
    request, most = token_sum.request, config.max_request_bytes
    total = request.total()
    if most is None or total.size <= most or not total.may_leave:
        return ""
    size, m = max(((request.of(i, m).size, m) for i, m in log.in_view), key=lambda pair: pair[0])
    what = f"{total.size:,} bytes are more than max_request_bytes ({most:,}); the largest part is "
    return what + f"the {m.role} message {m.id} with {size:,} bytes"


def untouched(log: Log, token_sum: TokenSum, outcome: Outcome, reason: str) -> CompressionReport:
    """The report of a pass that did not change the view. It counts messages that had only an upper bound so far."""
    size, tokens = len(log.view_ids), token_sum.own
    return CompressionReport(
        outcome=outcome,
        reason=reason,
        tokens_before=tokens,
        tokens_after=tokens,
        messages_before=size,
        messages_after=size,
    )


def price(used: Usage, config: AutoContextConfig) -> float | None:
    """The cost of model calls with this usage; None without configured prices."""
    return None if config.prices is None else config.prices.summaries(used)


def edited(
    view: View,
    edits: Sequence[Edit],
    count: Callable[[Msg], int],
    window: int,
    *,
    used: Mapping[tuple[str, ...], Usage] = MappingProxyType({}),
) -> Edited:
    """The entry of edits of this view; `used` is what the model calls of some have used, `window` the memory's."""
    events = (_event(view, edit, used.get(edit.ids, Usage()), sum(map(count, edit.messages)), window) for edit in edits)
    return Edited(edits=tuple(edits), events=tuple(events))


def _event(view: View, edit: Edit, usage: Usage, tokens_after: int, window: int) -> CompressionEvent:
    start = view.position[edit.places[0]]
    stop = start + len(edit.ids)
    tokens_before = view.tokens(start, stop)
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
            "tokenBefore": tokens_before,
            "tokenAfter": tokens_after,
            "window": window,
            **({} if edit.messages else {"uuid": edit.uuid}),
        },
        token_reduction=tokens_before - tokens_after,
    )
