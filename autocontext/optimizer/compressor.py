"""Repetitions in a history: results that a later call has made void, failures that were overcome, answers said twice.

Nothing is taken out of a tool exchange: the call and its result stay in their places, only the text of the result gives
way to a line that says what came of it and where it is. Two calls are the same when the tool and all arguments are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autocontext.cache.canonical import canonical_key
from autocontext.content.store import ContentStore
from autocontext.errors import UncacheableError
from autocontext.messages import Msg, TextBlock, ToolResultBlock, is_note, is_pinned
from autocontext.optimizer.slots import ANY_REF, Slot, dumped, is_shortened, marked, slots_of, with_outputs
from autocontext.optimizer.state import StateConfig
from autocontext.text.failures import FailureKind, IsFailure, failure_kind, first_line, is_failure


@dataclass(frozen=True, slots=True)
class Attempt:
    """One result together with the call it answers."""

    slot: int
    block: int
    call_id: str
    tool: str
    key: str
    """Equal for equal tools and arguments."""
    failed: bool
    text: str

    @property
    def kind(self) -> FailureKind:
        """The kind of a failure."""
        return failure_kind(self.text)


class ConversationCompressor:
    """Replaces what a later message of the history has made void. `detector` decides what a failure is."""

    def __init__(
        self, config: StateConfig | None = None, store: ContentStore | None = None, *, detector: IsFailure = is_failure,
        namespace: str = "",
    ) -> None:  # fmt: skip
        self.config = config or StateConfig()
        self._store, self._namespace = store, namespace
        self._is_failure = detector

    def compress_conversation_history(self, history: Sequence[Msg]) -> list[Msg]:
        """The history without repetitions; each message that lost text names its originals' handle in its metadata.

        Histories of at most `min_history_length` messages come back as they are, and so does everything when there
        is no store. Raises what the store raises.
        """
        made: list[Msg] = []
        for slot in self.compressed(slots_of(history)):
            if slot.render is None or self._store is None:
                made += slot.originals
                continue
            ref = self._store.put(dumped(slot.originals), name="messages", type="jsonl", namespace=self._namespace).ref
            made.append(slot.render(ref))
        return made

    def get_compression_stats(self, original: Sequence[Msg], compressed: Sequence[Msg]) -> dict[str, Any]:
        """Messages and bytes before and after; `compression_ratio` is of bytes."""
        before, after = len(dumped(original).encode()), len(dumped(compressed).encode())
        return {
            "original_length": len(original),
            "compressed_length": len(compressed),
            "original_bytes": before,
            "compressed_bytes": after,
            "compression_ratio": after / before if before else 1.0,
            "reduction_percentage": round(100 * (1 - after / before), 2) if before else 0.0,
            "timestamp": compressed[-1].timestamp if compressed else "",
        }

    def compressed(self, slots: list[Slot]) -> list[Slot]:
        """The slots without repetitions; stores nothing yet."""
        if len(slots) <= self.config.min_history_length:
            return slots
        for step in (self.without_superseded, self.without_overcome, without_repeated_answers):
            slots = step(slots)
        return slots

    def without_superseded(self, slots: list[Slot]) -> list[Slot]:
        """Successes that a later success of the same call has made void, and failures that came again the same."""
        changes: dict[int, dict[int, Callable[[str], str]]] = defaultdict(dict)
        newest: dict[tuple[str, str], Attempt] = {}
        for attempt in reversed(self._attempts(slots)):
            outcome = attempt.kind if attempt.failed else "success"
            later = newest.setdefault((attempt.key, outcome), attempt)
            if later is not attempt:
                changes[attempt.slot][attempt.block] = _superseded(attempt, later)
        return _with(slots, changes, "superseded")

    def without_overcome(self, slots: list[Slot]) -> list[Slot]:
        """Failures of a call that has succeeded later; the last failure of each kind stays."""
        attempts = self._attempts(slots)
        last_of_kind = {a.kind: a for a in attempts if a.failed}
        changes: dict[int, dict[int, Callable[[str], str]]] = defaultdict(dict)
        succeeded: dict[str, Attempt] = {}
        for attempt in reversed(attempts):
            if not attempt.failed:
                succeeded.setdefault(attempt.key, attempt)
            elif attempt.key in succeeded and last_of_kind[attempt.kind] is not attempt:
                changes[attempt.slot][attempt.block] = _overcome(attempt, succeeded[attempt.key])
        return _with(slots, changes, "failed attempt")

    def _attempts(self, slots: Sequence[Slot]) -> list[Attempt]:
        """The results whose calls are known and that nobody has shortened, in order."""
        calls: dict[str, tuple[str, str]] = {}
        found = []
        for i, slot in enumerate(slots):
            msg = slot.msg
            for use in msg.tool_uses:
                key = _key(use.name, use.input)
                calls[use.id] = (use.name, key)
            for b, block in enumerate(msg.content):
                if not isinstance(block, ToolResultBlock):
                    continue
                tool, key = calls.pop(block.id, ("", ""))
                if key and not is_shortened(msg) and not is_pinned(msg):
                    found.append(Attempt(i, b, block.id, tool, key, self._is_failure(block), block.text))
        return found


def without_repeated_answers(slots: list[Slot]) -> list[Slot]:
    """Of assistant messages that say the same right after one another in one turn, the last."""
    made: list[Slot] = []
    for slot in slots:
        before = made[-1] if made else None
        if before is None or not _says_the_same(before.msg, slot.msg):
            made.append(slot)
            continue
        msg = slot.originals[-1]
        made[-1] = Slot((*before.originals, *slot.originals), _marking(msg), "said again")
    return made


def _marking(msg: Msg) -> Callable[[str], Msg]:
    return lambda ref: marked(msg, ref)


def _says_the_same(one: Msg, two: Msg) -> bool:
    if not all(m.role == "assistant" and m.content and not is_note(m) and not is_pinned(m) for m in (one, two)):
        return False
    if not all(isinstance(b, TextBlock) for m in (one, two) for b in m.content):
        return False
    return one.text.split() == two.text.split()


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    try:
        return canonical_key(name or "?", arguments).digest
    except UncacheableError:
        return ""


def _superseded(old: Attempt, new: Attempt) -> Callable[[str], str]:
    what = "Same result as" if old.text == new.text else "Superseded by"
    return lambda ref: f'[{what} call {new.call_id} (same arguments). Read: context_reload("{ref}")]'


def _overcome(old: Attempt, new: Attempt) -> Callable[[str], str]:
    line = first_line(old.text, 80)
    return lambda ref: f'[Failed: {line} Succeeded in call {new.call_id}. Read: context_reload("{ref}")]'


def _with(slots: list[Slot], changes: Mapping[int, Mapping[int, Callable[[str], str]]], reason: str) -> list[Slot]:
    """The slots with those changes that make them smaller."""
    made = list(slots)
    for i, outputs in changes.items():
        content = slots[i].msg.content
        texts = {b: block.text for b in outputs if isinstance(block := content[b], ToolResultBlock)}
        shorter = {b: write for b, write in outputs.items() if len(write(ANY_REF)) < len(texts[b])}
        if shorter:
            made[i] = with_outputs(slots[i], shorter, reason)
    return made
