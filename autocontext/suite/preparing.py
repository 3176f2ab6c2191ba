"""Prepares the context for a model call: compress, prune, inject memories, check, count."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from autocontext.content import queries as contents
from autocontext.content.pruning import Known, PruneReport, PruneResult, aprune_messages, prune_messages
from autocontext.events import CompressionReport
from autocontext.flows import Flow, compute, method, operation
from autocontext.formats.anthropic_messages import sendable_messages
from autocontext.formats.provider_messages import chat_request, items_request
from autocontext.messages import Msg
from autocontext.stores import session_statements
from autocontext.stores.protocol import Version
from autocontext.stores.records import now
from autocontext.text.chat_rules import first_violation

if TYPE_CHECKING:
    from autocontext.content import ContentStore, PrunePolicy
    from autocontext.content.store import DatabaseContentStore
    from autocontext.memories import InjectionReport, MemoryInjector
    from autocontext.memory import AutoContextMemory
    from autocontext.suite import AutoContext


def refreshed(
    memory: AutoContextMemory, content: DatabaseContentStore
) -> Flow[tuple[Version | None, DatabaseContentStore]]:
    """Refresh a memory. The version of its log (None without entries), and a store for what is made of it.

    Once messages are erased, that store raises Conflict instead of storing texts that were read before.
    """
    database, session = content.database, memory.session
    # Read before the log: if that changes in between, what is made of it meets another version.
    version: Version | None = yield method(database, "read", partial(session_statements.version, session))
    yield from compute(memory.refresh)
    held = session_statements.ANY if version is None else version
    return version, content.checking(partial(session_statements.hold, session, held))


def holding(memory: AutoContextMemory, content: DatabaseContentStore) -> Flow[DatabaseContentStore]:
    """A store for what is new in a session: it raises Conflict instead of storing once messages are erased.

    Raises SessionGone if the session was deleted. One that has no entries yet can take what it likes.
    """
    session = memory.session
    version: Version | None = yield method(content.database, "read", partial(session_statements.version, session))
    if version is None:
        yield from compute(memory.refresh)
        return content
    return content.checking(partial(session_statements.hold, session, version))


_PRUNE, _INJECT, _COMPRESS = "prune harder", "inject less", "compress"


@dataclass(frozen=True, slots=True)
class PrepareReport:
    """What a preparation did, and the size of the result."""

    compression: CompressionReport
    pruning: PruneReport
    injection: InjectionReport | None
    """None if no memories were injected."""
    tokens: int
    """Tokens of the messages and of the overhead set by `memory.set_overhead`."""
    max_tokens: int
    tightened: tuple[str, ...] = ()
    """The steps that were needed to fit, in this order: prune harder, inject less, compress."""
    violation: str = ""
    """The rule of strict chat services that the conversation itself breaks, "" if none; `messages` keep them all."""
    seconds: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether the messages are within `max_tokens`."""
        return self.tokens <= self.max_tokens


@dataclass(frozen=True, slots=True)
class Prepared:
    """A context for one model call. Pruning and injection do not change the memory."""

    messages: list[Msg]
    """In an order that strict services take: see `adapters.sendable`. The methods write them as these services do."""
    report: PrepareReport

    def to_openai(self) -> list[dict[str, Any]]:
        """The messages in OpenAI's chat format, as `memory.to_openai()` gives them."""
        return chat_request(self.messages)

    def to_responses(self) -> list[dict[str, Any]]:
        """The messages as items of OpenAI's Responses API."""
        return items_request(self.messages)

    def to_anthropic(self) -> list[dict[str, Any]]:
        """The messages in Anthropic's format, without `system`: `adapters.anthropic_messages.request` adds that."""
        return sendable_messages(self.messages)


@dataclass(slots=True)
class Preparation:
    """One preparation in progress."""

    memory: AutoContextMemory
    context: AutoContext
    known: Known
    """What earlier preparations of this session have pruned."""
    injector: MemoryInjector | None
    query: str | None
    max_tokens: int

    def flow(self) -> Flow[Prepared]:
        """Compress, prune and inject, then escalate until the context fits or no step is left."""
        started = time.perf_counter()
        # First, so that texts erased by others do not go into the content store again.
        _, store = yield from refreshed(self.memory, self.context.content)
        yield from self._forget_erased(store)
        compression = yield from self._compress(force=False)
        pruned, messages, injection = yield from self._prune_and_inject(store, self.context.prune_policy, None)
        tightened = []
        for name, policy, budget in self._escalation_steps(injection):
            if self.memory.count(messages) <= self.max_tokens:
                break
            tightened.append(name)
            if name == _COMPRESS:
                compression = yield from self._compress(force=True)
            pruned, messages, injection = yield from self._prune_and_inject(store, policy, budget)
        report = PrepareReport(
            compression=compression,
            pruning=pruned.report,
            injection=injection,
            tokens=self.memory.count(messages),
            max_tokens=self.max_tokens,
            tightened=tuple(tightened),
            violation=first_violation(pruned.messages) or "",
            seconds=time.perf_counter() - started,
        )
        return Prepared(messages, report)

    def _forget_erased(self, store: DatabaseContentStore) -> Flow[None]:
        """Forget the handles of contents that are gone: another session may have had the same text erased."""
        if refs := self.known.refs:
            namespace = self.context.namespace(self.memory.session.user_id)
            left: frozenset[str] = yield method(store.database, "read", partial(contents.held, namespace, refs, now()))
            self.known.forget(refs - left)

    def _compress(self, *, force: bool) -> Flow[CompressionReport]:
        options: dict[str, Any] = {"force": True, "max_token": self.max_tokens} if force else {}
        report: CompressionReport = yield method(self.memory, "compress_if_needed", **options)
        return report

    def _prune_and_inject(
        self, store: ContentStore, policy: PrunePolicy, budget: int | None
    ) -> Flow[tuple[PruneResult, list[Msg], InjectionReport | None]]:
        """Prune the view, and inject memories of up to `budget` tokens (None: the injector's default), fit to send."""
        namespace = self.context.namespace(self.memory.session.user_id)
        pruned: PruneResult = yield operation(
            prune_messages, aprune_messages, self.memory.messages,
            store=store, policy=policy, namespace=namespace, known=self.known,
        )  # fmt: skip
        injector = self.injector
        if injector is None or budget == 0:
            return pruned, self.memory.as_sent(pruned.messages), None
        messages, report = yield method(injector, "inject", pruned.messages, query=self.query, max_tokens=budget)
        return pruned, self.memory.as_sent(messages), report

    def _escalation_steps(self, injection: InjectionReport | None) -> list[tuple[str, PrunePolicy, int | None]]:
        """Name, policy and memory budget of each step: those that change nothing for good come first."""
        policy = self.context.prune_policy
        at_once = replace(policy, clear_at_least_tokens=0)
        chars = min(policy.recent_tool_keep_chars, policy.large_tool_chars)
        hard = replace(at_once, keep_last=min(2, policy.keep_last), large_tool_chars=max(1, chars))
        steps: list[tuple[str, PrunePolicy, int | None]] = [(_PRUNE, at_once, None), (_PRUNE, hard, None)]
        if injection is not None:
            steps += [(_INJECT, hard, injection.tokens // 2), (_INJECT, hard, 0)]
        return [*steps, (_COMPRESS, hard, 0)]
