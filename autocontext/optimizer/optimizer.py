"""The state optimiser: a working state that is small enough to save and load at every turn, with nothing lost.

The steps are those of the original, in its order: repetitions, memory context, error patterns, summary, limits. What a
step would drop is first written to the content store; where that fails, it stays.
Optimising an optimised state changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from autocontext import flows
from autocontext.content.store import ContentStore
from autocontext.errors import StoreCorruptError
from autocontext.flows.threads import in_thread
from autocontext.history.view import View, open_pairs
from autocontext.messages import Msg, ToolResultBlock, as_messages, is_pinned
from autocontext.optimizer.compressor import ConversationCompressor, without_repeated_answers
from autocontext.optimizer.errors import ErrorPatternAnalyzer
from autocontext.optimizer.report import Dropped, OptimizationReport, Step
from autocontext.optimizer.selector import ContextSelector, selection_of, with_refs
from autocontext.optimizer.slots import CONTENT_REF, Slot, dumped, is_shortened, loaded, preview, slots_of, with_outputs
from autocontext.optimizer.state import SessionState, StateConfig
from autocontext.optimizer.summary import summary
from autocontext.optimizer.window import summarised
from autocontext.prompts import PromptConfig
from autocontext.ranking import RelevanceRanker, default_ranker
from autocontext.requests import ModelReply, ModelRequest, text_of
from autocontext.text.failures import IsFailure, is_failure
from autocontext.text.rendering import conversation_language, request, section
from autocontext.tokens import TokenCounter, get_counter

_SUMMARY_TOKENS = 500


class _Put(NamedTuple):
    """A text to store; the answer is its handle."""

    text: str


_Optimizing = Generator["_Put | ModelRequest", Any, "tuple[SessionState, OptimizationReport]"]


@dataclass(slots=True)
class _Notes:
    """What a run has to tell."""

    steps: list[Step] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    retrievable: int = 0
    sizes: dict[int, int] = field(default_factory=dict)
    """Bytes of the messages measured so far, by identity: most stand in the state before and after."""
    tokens: dict[int, int] = field(default_factory=dict)

    def size(self, msg: Msg) -> int:
        """Bytes of a message as JSON."""
        if id(msg) not in self.sizes:
            self.sizes[id(msg)] = len(dumped([msg]).encode("utf-8", "surrogatepass"))
        return self.sizes[id(msg)]

    def count(self, counter: TokenCounter, msg: Msg) -> int:
        """Tokens of a message."""
        if id(msg) not in self.tokens:
            self.tokens[id(msg)] = counter.count(msg)
        return self.tokens[id(msg)]

    def state_size(self, state: SessionState) -> int:
        """Bytes of a state as JSON."""
        rest = json.dumps(state.changed(messages=[]).to_dict(), ensure_ascii=False)
        return len(rest.encode("utf-8", "surrogatepass")) + sum(map(self.size, state.messages)) + len(state.messages)


class StateOptimizer:
    """Makes session states small. Without a `store` no message changes: there is nowhere to keep its original.

    `model` writes an additional paragraph of the summary; without one, or when it fails, the summary is what can be
    read off the messages. `detector` decides which results are failures.
    """

    def __init__(
        self, config: StateConfig | None = None, store: ContentStore | None = None, model: Any = None, *,
        namespace: str = "", detector: IsFailure = is_failure, ranker: Callable[[], RelevanceRanker] = default_ranker,
    ) -> None:  # fmt: skip
        self.config = config or StateConfig()
        self.store, self.model = store, model
        self._namespace, self._is_failure = namespace, detector
        self._compressor = ConversationCompressor(self.config, store, detector=detector, namespace=namespace)
        self._selector = ContextSelector(self.config, ranker=ranker)
        self._analyzer = ErrorPatternAnalyzer(detector=detector)

    def optimize(self, state: SessionState) -> tuple[SessionState, OptimizationReport]:
        """A smaller state and what was done. The given one stays as it is; a failing store or model raises nothing."""
        return flows.run(self._optimizing(state), self._do)

    async def aoptimize(self, state: SessionState) -> tuple[SessionState, OptimizationReport]:
        """`optimize` without blocking the event loop."""
        return await flows.arun(self._optimizing(state), self._ado, in_threads=True)

    def _do(self, asked: _Put | ModelRequest) -> Any:
        return self._put(asked.text) if isinstance(asked, _Put) else self.model.complete(asked)

    async def _ado(self, asked: _Put | ModelRequest) -> Any:
        if isinstance(asked, _Put):
            return await self._aput(asked.text)
        if hasattr(self.model, "acomplete"):
            return await self.model.acomplete(asked)
        return await in_thread(lambda: self.model.complete(asked))

    def _put(self, text: str) -> str:
        if self.store is None:
            raise LookupError("there is no content store")
        return _proven(self.store.put(text, name="messages", type="jsonl", namespace=self._namespace), text)

    async def _aput(self, text: str) -> str:
        aput = getattr(self.store, "aput", None)
        if aput is None:
            return await in_thread(lambda: self._put(text))
        return _proven(await aput(text, name="messages", type="jsonl", namespace=self._namespace), text)

    # ----------------------------------------------------------------------------------------------------- pipeline
    def _optimizing(self, state: SessionState) -> _Optimizing:
        notes = _Notes()
        slots = slots_of(state.messages)
        if len(slots) > self.config.min_history_length:
            slots = self._step(notes, "superseded results", slots, self._compressor.without_superseded)
            slots = self._step(notes, "failed attempts", slots, self._compressor.without_overcome)
            slots = self._step(notes, "repeated answers", slots, without_repeated_answers)
        chosen = self._chosen(state, [slot.msg for slot in slots])
        errors = self._analyzer.analyze_error_patterns(state.messages)
        taken = summarised([slot.msg for slot in slots], self.config)
        if taken:
            slots = yield from self._summarised(slots, taken, notes)
        if len(state.messages) > self.config.min_history_length:
            slots = self._step(notes, "large results", slots, self._without_large_results)
        messages = yield from _stored(slots, notes)
        most = self.config.max_conversation_history_size
        if len(messages) > most:
            notes.kept.append(f"{len(messages)} messages, over {most}: what is left cannot be parted or has to stay")
        refs = {id_: dropped.ref for dropped in notes.dropped for id_ in dropped.message_ids}
        context = self._selector.limited(with_refs(chosen, refs), state.user_input)
        after = state.changed(messages=messages, memory_context=context)
        after = after.changed(selected_for=selection_of(after, messages))
        return after, self._report(state, after, notes, errors)

    def _summarised(
        self, slots: list[Slot], taken: list[int], notes: _Notes
    ) -> Generator[_Put | ModelRequest, Any, list[Slot]]:
        """The slots with a summary of those at `taken`.

        It is stored first: they need not stand side by side, so they could not be put back later.
        """
        originals = tuple(m for i in taken for m in slots[i].originals)
        ref = yield from _kept_in_store("summary", originals, notes)
        if not ref:
            return slots
        told = yield from self._told(originals)
        made = Slot(originals, summary(originals, self._is_failure, told), "summary", ref)
        gone = frozenset(taken[1:])
        after = [made if i == taken[0] else slot for i, slot in enumerate(slots) if i not in gone]
        return self._step(notes, "summary", slots, lambda _: after)

    def _step(
        self, notes: _Notes, name: str, slots: list[Slot], step: Callable[[list[Slot]], list[Slot]]
    ) -> list[Slot]:
        """The slots after a step; as before if it would break a call from its result."""
        after = step(slots)
        if _broken([s.msg for s in slots], [s.msg for s in after]):
            notes.kept.append(f"{name}: would have parted calls from their results")
            return slots
        before = {id(s) for s in slots}
        changed = sum(len(s.originals) for s in after if id(s) not in before)
        notes.steps.append(Step(name, changed))
        return after

    def _chosen(self, state: SessionState, messages: list[Msg]) -> list[Any]:
        """The memory context: as it is when it was chosen for this very input and history."""
        if state.selected_for and state.selected_for == selection_of(state, state.messages):
            return list(state.memory_context)
        return self._selector.optimize_memory_context(state.changed(messages=messages))

    def _told(self, messages: Sequence[Msg]) -> Generator[ModelRequest, Any, str]:
        """The model's paragraph for the summary; "" without a model or a usable answer."""
        if self.model is None:
            return ""
        asked = request(
            "round_summary", [section(m) for m in messages], PromptConfig(),
            language=conversation_language(messages), plan=None, target_tokens=_SUMMARY_TOKENS,
        )  # fmt: skip
        try:
            reply = yield asked
        except Exception:  # noqa: BLE001 (whatever a model raises: the summary does without its paragraph)
            return ""
        if not isinstance(reply, ModelReply):
            return ""
        return text_of(reply, asked.prompt, len(asked.prompt))[0]

    def _without_large_results(self, slots: list[Slot]) -> list[Slot]:
        """Large results of the rounds before the current one, cut to a preview."""
        config = self.config
        messages = [slot.msg for slot in slots]
        current = View(map(str, range(len(messages))), messages).latest_user
        made = list(slots)
        for i, msg in enumerate(messages[: max(0, current)]):
            if is_pinned(msg) or is_shortened(msg):
                continue
            large = {
                b: _previewing(block.text, config.preview_chars)
                for b, block in enumerate(msg.content)
                if isinstance(block, ToolResultBlock)
                and len(block.text) > max(config.offload_chars, config.preview_chars + 80)
            }
            if large:
                made[i] = with_outputs(slots[i], large, "large result")
        return made

    def _report(
        self, before: SessionState, after: SessionState, notes: _Notes, errors: dict[str, Any]
    ) -> OptimizationReport:
        counter = get_counter(self.config.token_counter)
        return OptimizationReport(
            items_before=len(before.messages),
            items_after=len(after.messages),
            bytes_before=notes.state_size(before),
            bytes_after=notes.state_size(after),
            tokens_before=sum(notes.count(counter, m) for m in before.messages),
            tokens_after=sum(notes.count(counter, m) for m in after.messages),
            original_bytes=sum(map(notes.size, before.messages)),
            retrievable_bytes=notes.retrievable,
            broken_pairs=_broken(before.messages, after.messages),
            dropped=tuple(notes.dropped),
            errors=errors,
            steps=tuple(notes.steps),
            kept=tuple(dict.fromkeys(notes.kept)),
        )


def restore_state_messages(messages: Sequence[Msg], *, store: ContentStore, namespace: str = "") -> list[Msg]:
    """All messages that these stand for, byte for byte and in order, through summaries of summaries.

    Raises StoreCorruptError when the store does not have what a message names.
    """
    made: list[Msg] = []
    waiting = list(as_messages(messages))[::-1]
    while waiting:  # ends: a text cannot hold its own hash, so no message stands for itself
        msg = waiting.pop()
        ref = msg.metadata.get(CONTENT_REF)
        if not isinstance(ref, str):
            made.append(msg)
            continue
        page = store.read(ref, namespace=namespace)
        if page is None:
            raise StoreCorruptError(f"content {ref}, the originals of message {msg.id}, is not in this store")
        waiting += loaded(page.text)[::-1]
    return made


def _proven(info: Any, text: str) -> str:
    """The handle, once the store has shown that it took this very text."""
    if info.sha256 != hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest():
        raise StoreCorruptError(f"the store has taken another text as {info.ref}")
    return str(info.ref)


def _stored(slots: list[Slot], notes: _Notes) -> Generator[_Put, Any, list[Msg]]:
    """The messages of the slots; where a slot's originals cannot be stored they stay."""
    messages: list[Msg] = []
    for slot in slots:
        if slot.render is None:
            messages += slot.originals
            notes.retrievable += sum(map(notes.size, slot.originals))
            continue
        ref = slot.ref or (yield from _kept_in_store(slot.reason, slot.originals, notes))
        if ref:
            messages.append(slot.render(ref))
            notes.dropped.append(Dropped(ref, tuple(m.id for m in slot.originals), slot.reason))
        else:
            messages += slot.originals
        notes.retrievable += sum(map(notes.size, slot.originals))
    return messages


def _kept_in_store(reason: str, originals: Sequence[Msg], notes: _Notes) -> Generator[_Put, str, str]:
    """The handle of stored originals; "" when the store does not take them, which the notes then tell."""
    asked = _Put(dumped(originals))
    try:
        return (yield asked)
    except Exception as e:  # noqa: BLE001 (whatever a store raises: the messages stay, the save goes on)
        notes.kept.append(f"{reason}: {type(e).__name__}: {e}")
        return ""


def _previewing(text: str, characters: int) -> Callable[[str], str]:
    return lambda ref: preview(text, characters, ref)


def _broken(before: Sequence[Msg], after: Sequence[Msg]) -> int:
    """Calls and results that have lost their partner."""
    old, new = open_pairs(before), open_pairs(after)
    orphan_results = Counter(new.orphan_results) - Counter(old.orphan_results)
    return sum(orphan_results.values()) + sum((Counter(new.unanswered_calls) - Counter(old.unanswered_calls)).values())
