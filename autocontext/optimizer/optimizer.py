"""The state optimiser keeps a working state small enough to save and load at every turn, and loses nothing.

The steps, in order: repetitions, memory context, error patterns, summary, limits. Messages are written to the content
store before a step drops them; if the write fails, they stay. Optimising twice gives the same state as optimising once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from autocontext.content.store import ContentStore, SqliteContentStore, checked_content_store
from autocontext.errors import StoreCorruptError, told
from autocontext.flows import DoesSteps, Flow, Operation, method, sync_and_async
from autocontext.flows.threads import finished, in_thread
from autocontext.history.redacting import Redaction
from autocontext.history.view import View, open_pairs
from autocontext.messages import Msg, ToolResultBlock, as_messages, is_pinned
from autocontext.models.opening import checked_model
from autocontext.optimizer.compressor import ConversationCompressor
from autocontext.optimizer.errors import ErrorPatternAnalyzer
from autocontext.optimizer.replacements import (
    CONTENT_REF,
    Replacement,
    as_replacements,
    dump_messages,
    is_shortened,
    load_messages,
    places_between,
    preview,
    replace_outputs,
)
from autocontext.optimizer.report import Dropped, OptimizationReport, Step
from autocontext.optimizer.selector import ContextSelector, add_content_refs, entries_from_elsewhere, selection_key
from autocontext.optimizer.state import SessionState, StateConfig, as_state_config, checked_state
from autocontext.optimizer.summary import messages_to_summarize, summary
from autocontext.prompts import PromptConfig
from autocontext.ranking import RelevanceRanker, default_ranker
from autocontext.requests import ModelReply, text_of
from autocontext.stores.records import text_hash
from autocontext.text.failures import IsFailure, is_failure
from autocontext.text.quoting import quoted
from autocontext.text.rendering import conversation_language, request, section
from autocontext.tokens import get_counter
from autocontext.tokens.request_size import utf8_bytes

_SUMMARY_TOKENS = 500


@dataclass(slots=True)
class _RunRecord:
    """What one run did, for its report."""

    steps: list[Step] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    original: int = 0
    """Bytes of the caller's context entries."""
    retrievable: int = 0
    sizes: dict[int, int] = field(default_factory=dict)
    """Bytes of a message by its identity, counted once: most messages are in the state before and after."""

    def size(self, msg: Msg) -> int:
        """Bytes of a message as JSON."""
        if id(msg) not in self.sizes:
            self.sizes[id(msg)] = utf8_bytes(dump_messages([msg]))
        return self.sizes[id(msg)]

    def state_size(self, state: SessionState) -> int:
        """Bytes of a state as JSON."""
        rest = json.dumps(state.changed(messages=[]).to_dict(), ensure_ascii=False)
        return utf8_bytes(rest) + sum(map(self.size, state.messages)) + len(state.messages)

    def after_step(self, name: str, before: list[Replacement], after: list[Replacement]) -> list[Replacement]:
        """What a step has made of the history, unless it has separated a call from its result: then as it was."""
        if _count_broken_pairs([r.msg for r in before], [r.msg for r in after]):
            self.kept.append(f"{name}: skipped, it would separate calls from their results")
            return before
        known = set(map(id, before))
        self.steps.append(Step(name, sum(len(r.originals) for r in after if id(r) not in known)))
        return after


class StateOptimizer(DoesSteps):
    """Shrinks session states.

    `store` takes the originals of what is removed. Without one, a store in memory takes them, and they end with this
    object: pass a store if the state is to outlive it. `model` adds a paragraph to the summary. Without one, or when it
    fails, rules alone write the summary from the messages. `detector` decides which results are failures.

        small, report = StateOptimizer(store=store).optimize(state)
    """

    def __init__(
        self, config: StateConfig | None = None, store: ContentStore | None = None, model: Any = None, *,
        namespace: str = "", detector: IsFailure = is_failure, ranker: Callable[[], RelevanceRanker] = default_ranker,
        redact: Callable[[str], str] | None = None,
    ) -> None:  # fmt: skip
        """`redact` applies to what is quoted and to what a model is sent and writes; the originals do not change."""
        owner = type(self).__name__
        self.config = as_state_config(config, owner)
        self._redaction = Redaction(redact)
        self.store = SqliteContentStore(":memory:") if store is None else checked_content_store(store, owner)
        """Where the originals are: `restore_state_messages(messages, store=optimizer.store)`."""
        self.model: Any = checked_model(model, owner, opens=False)
        self._namespace, self._is_failure = namespace, detector
        self._compressor = ConversationCompressor(
            self.config, self.store, detector=detector, namespace=namespace, redact=redact
        )
        self._selector = ContextSelector(self.config, ranker=ranker, detector=detector)
        self._analyzer = ErrorPatternAnalyzer(detector=detector)

    def _optimize(self, state: SessionState) -> Flow[tuple[SessionState, OptimizationReport]]:
        """Return a smaller state and a report. `state` does not change; a failing store or model raises nothing."""
        state = checked_state(state)
        record = _RunRecord()
        replacements = as_replacements(state.messages)
        if len(replacements) > self.config.min_history_length:
            for name, step in self._compressor.steps.items():
                replacements = record.after_step(name, replacements, step(replacements))
        context = self._memory_context(state, [r.msg for r in replacements])
        errors = self._analyzer.analyze_error_patterns(self._readable(state.messages))
        indices = messages_to_summarize([r.msg for r in replacements], self.config)
        if indices:
            replacements = yield from self._summarize(replacements, indices, record)
        if len(state.messages) > self.config.min_history_length:
            shortened = self._preview_large_results(replacements)
            replacements = record.after_step("large results", replacements, shortened)
        messages = yield from self._store_and_render(replacements, record)
        most = self.config.max_conversation_history_size
        if len(messages) > most and not record.kept:
            record.kept.append(f"{len(messages)} messages, over {most}: the rest is pinned or belongs to one exchange")
        refs = {id_: dropped.ref for dropped in record.dropped for id_ in dropped.message_ids}
        context = self._selector.rank_and_limit(add_content_refs(context, refs), state.user_input)
        context = yield from self._with_unstored(context, state.memory_context, record)
        after = state.changed(messages=messages, memory_context=context)
        after = after.changed(selected_for=selection_key(after, messages))
        return after, self._report(state, after, record, errors)

    optimize, aoptimize = sync_and_async(_optimize, in_threads=True)

    def _summarize(
        self, replacements: list[Replacement], indices: list[int], record: _RunRecord
    ) -> Flow[list[Replacement]]:
        """Put one summary in place of the messages at `indices`.

        Their originals are stored first. They need not be adjacent: the summary knows what stays between them.
        """
        absorbed = frozenset(indices)
        originals: tuple[Msg, ...] = ()
        between: list[tuple[str, int]] = []
        for i in range(indices[0], indices[-1] + 1):
            if i in absorbed:
                originals += replacements[i].originals
            else:
                between.append((replacements[i].msg.id, len(originals)))
        ref = yield from self._store("summary", dump_messages(originals), record)
        if not ref:
            return replacements
        readable = self._readable(originals)
        paragraph = yield from self._model_summary(readable)
        note = Replacement(originals, summary(readable, self._is_failure, paragraph, between=between), "summary", ref)
        after = [
            note if i == indices[0] else r for i, r in enumerate(replacements) if i not in absorbed or i == indices[0]
        ]
        return record.after_step("summary", replacements, after)

    def _store_and_render(self, replacements: list[Replacement], record: _RunRecord) -> Flow[list[Msg]]:
        """Store the originals and return the new messages; originals that cannot be stored stay."""
        messages: list[Msg] = []
        for replacement in replacements:
            originals, ref = replacement.originals, replacement.ref
            record.retrievable += sum(map(record.size, originals))
            if replacement.render is not None and not ref:
                ref = yield from self._store(replacement.reason, dump_messages(originals), record)
            if replacement.render is None or not ref:
                messages += originals
                continue
            messages.append(replacement.render(ref))
            record.dropped.append(Dropped(ref, tuple(m.id for m in originals), replacement.reason))
        return messages

    def _with_unstored(self, context: list[Any], before: Sequence[Any], record: _RunRecord) -> Flow[list[Any]]:
        """The context with the caller's entries that are not in it, unless the store takes them."""
        entries = entries_from_elsewhere(before)
        record.original += (size := sum(map(len, entries)))
        record.retrievable += size
        left_out = [line for line in entries if line not in entries_from_elsewhere(context)]
        if not left_out:
            return context
        reason = "memory context"
        ref = yield from self._store(reason, "\n".join(left_out), record, name="memory_context")
        if not ref:
            return [*context, *(entries[line] for line in left_out)]
        record.dropped.append(Dropped(ref, (), reason))
        return context

    def _store(self, reason: str, text: str, record: _RunRecord, name: str = "messages") -> Flow[str]:
        """The handle of the stored text; "" if the store fails, with the reason in the record."""
        try:
            info = yield method(self.store, "put", text, name=name, type="jsonl", namespace=self._namespace)
            return _verified_ref(info, text)
        except Exception as e:  # noqa: BLE001 (any store error: the messages stay and the save goes on)
            record.kept.append(f"{reason}: {told(e)}")
            return ""

    def _readable(self, messages: Sequence[Msg]) -> list[Msg]:
        """The messages as they may be quoted."""
        return list(map(self._redaction.message, messages))

    def _memory_context(self, state: SessionState, messages: list[Msg]) -> list[Any]:
        """The memory context; unchanged if it was selected for this input and history."""
        if state.selected_for and state.selected_for == selection_key(state, state.messages):
            return list(state.memory_context)
        return self._selector.optimize_memory_context(state.changed(messages=messages))

    def _model_summary(self, messages: Sequence[Msg]) -> Flow[str]:
        """A paragraph by the model for the summary; "" without a model or a usable answer."""
        if self.model is None:
            return ""
        question = request(
            "round_summary", [section(m) for m in messages], PromptConfig(),
            language=conversation_language(messages), plan=None, target_tokens=_SUMMARY_TOKENS,
        )  # fmt: skip
        acomplete: Any = getattr(self.model, "acomplete", None)
        ask = partial(getattr(self.model, "complete", acomplete), question)
        try:
            reply = yield Operation(lambda: finished(ask), lambda: acomplete(question) if acomplete else in_thread(ask))
        except Exception:  # noqa: BLE001 (any model error: the summary goes without the paragraph)
            return ""
        if not isinstance(reply, ModelReply):
            return ""
        return quoted(self._redaction.text(text_of(reply, question.prompt, len(question.prompt))[0]))

    def _preview_large_results(self, replacements: list[Replacement]) -> list[Replacement]:
        """Cut large results of earlier rounds to a preview."""
        config = self.config
        messages = [r.msg for r in replacements]
        current = View(map(str, range(len(messages))), messages).latest_user
        shortened = list(replacements)
        for i, msg in enumerate(messages[: max(0, current)]):
            if is_pinned(msg) or is_shortened(msg):
                continue
            large = {
                b: partial(preview, self._redaction.text(block.text), config.preview_chars)
                for b, block in enumerate(msg.content)
                if isinstance(block, ToolResultBlock)
                and len(block.text) > max(config.offload_chars, config.preview_chars + 80)
            }
            if large:
                shortened[i] = replace_outputs(replacements[i], large, "large result", self._compressor.failure)
        return shortened

    def _report(
        self, before: SessionState, after: SessionState, record: _RunRecord, errors: dict[str, Any]
    ) -> OptimizationReport:
        counter = get_counter(self.config.token_counter)
        messages = {id(m): m for m in (*before.messages, *after.messages)}  # each once: most are in both
        tokens = {key: counter.count(m) for key, m in messages.items()}
        return OptimizationReport(
            items_before=len(before.messages),
            items_after=len(after.messages),
            bytes_before=record.state_size(before),
            bytes_after=record.state_size(after),
            tokens_before=sum(tokens[id(m)] for m in before.messages),
            tokens_after=sum(tokens[id(m)] for m in after.messages),
            original_bytes=sum(map(record.size, before.messages)) + record.original,
            retrievable_bytes=record.retrievable,
            broken_pairs=_count_broken_pairs(before.messages, after.messages),
            dropped=tuple(record.dropped),
            errors=errors,
            steps=tuple(record.steps),
            kept=tuple(dict.fromkeys(record.kept)),
        )


def restore_state_messages(messages: Sequence[Msg], *, store: ContentStore, namespace: str = "") -> list[Msg]:
    """Return the originals behind these messages, byte for byte and in order, through summaries of summaries.

    Raises StoreCorruptError when the store does not hold what a message refers to.
    """
    checked_content_store(store, "restore_state_messages")
    originals: list[Msg] = []
    waiting = list(as_messages(messages))[::-1]
    while waiting:  # Terminates: a text cannot contain its own hash, so no message refers to itself.
        msg = waiting.pop()
        ref = msg.metadata.get(CONTENT_REF)
        if not isinstance(ref, str):
            originals.append(msg)
            continue
        page = store.read(ref, namespace=namespace)
        if page is None:
            raise StoreCorruptError(
                f"content {ref}, the originals of message {msg.id}, is not in this store; pass the store and "
                "namespace that the state was optimised with"
            )
        waiting += _put_between(load_messages(page.text), msg, waiting)[::-1]
    return originals


def _put_between(originals: list[Msg], note: Msg, waiting: list[Msg]) -> list[Msg]:
    """The originals, and between them the messages that stood there, taken from those that follow the note.

    `waiting` has these in reverse order. A message that is no longer there is left out.
    """
    whole, start = list[Msg](), 0
    for id_, place in places_between(note):
        at = next((i for i in reversed(range(len(waiting))) if waiting[i].id == id_), -1)
        if at >= 0:
            whole += [*originals[start:place], waiting.pop(at)]
            start = place
    return whole + originals[start:]


def _verified_ref(info: Any, text: str) -> str:
    """The handle of a stored text, after comparing its hash."""
    if info.sha256 != text_hash(text):
        raise StoreCorruptError(f"the content store returned a different text's hash for {info.ref}; check the store")
    return str(info.ref)


def _count_broken_pairs(before: Sequence[Msg], after: Sequence[Msg]) -> int:
    """Calls and results that have lost their counterpart."""
    old, new = open_pairs(before), open_pairs(after)
    orphans = Counter(new.orphan_results) - Counter(old.orphan_results)
    unanswered = Counter(new.unanswered_calls) - Counter(old.unanswered_calls)
    return orphans.total() + unanswered.total()
