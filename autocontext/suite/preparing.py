"""What the model is sent: compressed, pruned, with the memories that matter now, checked and counted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from autocontext.content.pruning import Known, PruneReport, PruneResult, aprune_messages, prune_messages
from autocontext.events import CompressionReport
from autocontext.messages import Msg
from autocontext.suite.steps import Flow, Step
from autocontext.text.chat_rules import first_violation

if TYPE_CHECKING:
    from autocontext.content import ContentStore, PrunePolicy
    from autocontext.memories import InjectionReport, MemoryInjector
    from autocontext.memory import AutoContextMemory


@dataclass(frozen=True, slots=True)
class PrepareReport:
    """What was done to the messages, and what came of it."""

    compression: CompressionReport
    pruning: PruneReport
    injection: InjectionReport | None
    """None when there are no memories to choose from."""
    tokens: int
    """Of the messages, and of what was named to `memory.set_overhead`."""
    max_tokens: int
    tightened: tuple[str, ...] = ()
    """The steps that were needed to fit, in their fixed order: prune harder, inject less, compress."""
    violation: str = ""
    """The rule of strict chat services that the messages break: only when the conversation came so."""
    seconds: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether the messages are within `max_tokens`."""
        return self.tokens <= self.max_tokens


@dataclass(frozen=True, slots=True)
class Prepared:
    """A context for one call of the model; the memory itself is not changed by pruning and injection."""

    messages: list[Msg]
    report: PrepareReport


@dataclass(slots=True)
class Preparation:
    """One preparation on its way."""

    memory: AutoContextMemory
    content: ContentStore
    namespace: str
    policy: PrunePolicy
    known: Known
    """Of earlier preparations of this session."""
    injector: MemoryInjector | None
    query: str | None
    max_tokens: int
    tightened: list[str] = field(default_factory=list)

    def flow(self) -> Flow[Prepared]:
        """Compress, prune, inject, check, count; then tighten until it fits or nothing is left to tighten."""
        started = time.perf_counter()
        compression = yield from self._compress(force=False)
        pruned, messages, injection = yield from self._prune_and_inject(self.policy, None)
        for name, policy, budget in self._escalation_steps(injection):
            if self._tokens(messages) <= self.max_tokens:
                break
            self.tightened.append(name)
            if name == COMPRESS:
                compression = yield from self._compress(force=True)
            pruned, messages, injection = yield from self._prune_and_inject(policy, budget)
        report = PrepareReport(
            compression=compression,
            pruning=pruned.report,
            injection=injection,
            tokens=self._tokens(messages),
            max_tokens=self.max_tokens,
            tightened=tuple(self.tightened),
            violation=first_violation(messages) or "",
            seconds=time.perf_counter() - started,
        )
        return Prepared(messages, report)

    def _compress(self, *, force: bool) -> Flow[CompressionReport]:
        memory = self.memory
        options: dict[str, Any] = {"force": True, "max_token": self.max_tokens} if force else {}
        report: CompressionReport = yield Step(
            partial(memory.compress_if_needed, **options), partial(memory.acompress_if_needed, **options)
        )
        return report

    def _prune_and_inject(
        self, policy: PrunePolicy, budget: int | None
    ) -> Flow[tuple[PruneResult, list[Msg], InjectionReport | None]]:
        """The view, pruned, with memories in at most `budget` tokens (None: the injector's own)."""
        view = self.memory.messages
        options: dict[str, Any] = {
            "store": self.content,
            "policy": policy,
            "namespace": self.namespace,
            "known": self.known,
        }
        pruned: PruneResult = yield Step(
            partial(prune_messages, view, **options), partial(aprune_messages, view, **options)
        )
        injector = self.injector
        if injector is None or budget == 0:
            return pruned, pruned.messages, None
        limits: dict[str, Any] = {"query": self.query, "max_tokens": budget}
        messages, report = yield Step(
            partial(injector.inject, pruned.messages, **limits), partial(injector.ainject, pruned.messages, **limits)
        )
        return pruned, messages, report

    def _escalation_steps(self, injection: InjectionReport | None) -> list[tuple[str, PrunePolicy, int | None]]:
        """The steps in their fixed order: first what costs nothing to undo, last what costs the prompt cache."""
        at_once = replace(self.policy, clear_at_least_tokens=0)
        least = min(2, self.policy.keep_last)
        shortest = min(self.policy.recent_tool_keep_chars, self.policy.large_tool_chars)
        hard = replace(at_once, keep_last=least, large_tool_chars=max(1, shortest))
        steps: list[tuple[str, PrunePolicy, int | None]] = [(PRUNE, at_once, None), (PRUNE, hard, None)]
        if injection is not None:
            steps += [(INJECT, hard, injection.tokens // 2), (INJECT, hard, 0)]
        return [*steps, (COMPRESS, hard, 0)]

    def _tokens(self, messages: Sequence[Msg]) -> int:
        return self.memory.count(messages)


PRUNE, INJECT, COMPRESS = "prune harder", "inject less", "compress"
