"""Removes repetition: superseded results, failures that a retry fixed, repeated answers.

A tool call and its result stay in place; one line replaces the text of the result and says where to read it. Two calls
are equal if the tool and all arguments are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from autocontext.cache.canonical import canonical_key
from autocontext.content import placeholders
from autocontext.content.store import ContentStore, SqliteContentStore, checked_content_store
from autocontext.errors import UncacheableError
from autocontext.history.redacting import Redaction
from autocontext.messages import Msg, TextBlock, ToolResultBlock, as_messages, is_note, is_pinned
from autocontext.optimizer.replacements import (
    Replacement,
    Write,
    as_replacements,
    dump_messages,
    is_shortened,
    replace_outputs,
    with_content_ref,
)
from autocontext.optimizer.state import StateConfig, as_state_config
from autocontext.text.failures import IsFailure, failure_kind, first_line, is_failure
from autocontext.tokens.request_size import utf8_bytes


@dataclass(frozen=True, slots=True)
class CallResult:
    """A tool result with the call it answers."""

    index: int
    """Of its message."""
    block: int
    call_id: str
    key: str
    """The same for the same tool and arguments."""
    failed: bool
    text: str

    @property
    def outcome(self) -> str:
        """The kind of a failure, or "success"."""
        return failure_kind(self.text) if self.failed else "success"


class ConversationCompressor:
    """Shortens results and drops answers that a later message makes redundant.

    `store` takes the originals: without one, a store in memory, which ends with this object. `detector` decides which
    results are failures.
    """

    def __init__(
        self, config: StateConfig | None = None, store: ContentStore | None = None, *, detector: IsFailure = is_failure,
        namespace: str = "", redact: Callable[[str], str] | None = None,
    ) -> None:  # fmt: skip
        """`redact` applies to what is quoted of a result."""
        owner = type(self).__name__
        self.config = as_state_config(config, owner)
        self.store = SqliteContentStore(":memory:") if store is None else checked_content_store(store, owner)
        self._namespace = namespace
        self._is_failure, self._redaction = detector, Redaction(redact)

    def compress_conversation_history(self, history: Sequence[Msg]) -> list[Msg]:
        """Return the history without repetitions; a shortened message has its originals' handle in its metadata.

        Nothing changes up to `min_history_length` messages. Errors of the store propagate.
        """
        messages: list[Msg] = []
        replacements = as_replacements(as_messages(history))
        if len(replacements) > self.config.min_history_length:
            for step in self.steps.values():
                replacements = step(replacements)
        for replacement in replacements:
            if replacement.render is None:
                messages += replacement.originals
                continue
            ref = self.store.put(
                dump_messages(replacement.originals), name="messages", type="jsonl", namespace=self._namespace
            ).ref
            messages.append(replacement.render(ref))
        return messages

    def get_compression_stats(self, original: Sequence[Msg], compressed: Sequence[Msg]) -> dict[str, Any]:
        """Messages and bytes before and after; `compression_ratio` compares bytes."""
        original, compressed = as_messages(original), as_messages(compressed)
        before, after = utf8_bytes(dump_messages(original)), utf8_bytes(dump_messages(compressed))
        return {
            "original_length": len(original),
            "compressed_length": len(compressed),
            "original_bytes": before,
            "compressed_bytes": after,
            "compression_ratio": after / before if before else 1.0,
            "reduction_percentage": round(100 * (1 - after / before), 2) if before else 0.0,
            "timestamp": compressed[-1].timestamp if compressed else "",
        }

    @property
    def steps(self) -> dict[str, Callable[[list[Replacement]], list[Replacement]]]:
        """The steps in their order, by what each removes."""
        return {
            "superseded results": self.replace_superseded,
            "failed attempts": self.replace_retried_failures,
            "repeated answers": merge_repeated_answers,
        }

    def replace_superseded(self, replacements: list[Replacement]) -> list[Replacement]:
        """Replace successes that a later success of the same call supersedes, and failures that occurred again."""
        lines: list[tuple[CallResult, Write]] = []
        newest: dict[tuple[str, str], CallResult] = {}
        for result in reversed(self._call_results(replacements)):
            later = newest.setdefault((result.key, result.outcome), result)
            if later is not result:
                lines.append((result, _superseded_line(result, later)))
        return self._shorten(replacements, lines, "superseded")

    def replace_retried_failures(self, replacements: list[Replacement]) -> list[Replacement]:
        """Replace failures of a call that succeeded later; the last failure of each kind stays."""
        results = self._call_results(replacements)
        last_of_kind = {result.outcome: result for result in results}
        lines: list[tuple[CallResult, Write]] = []
        succeeded: dict[str, CallResult] = {}
        for result in reversed(results):
            if not result.failed:
                succeeded.setdefault(result.key, result)
            elif result.key in succeeded and last_of_kind[result.outcome] is not result:
                lines.append((result, _retried_line(result, succeeded[result.key], self._redaction.text)))
        return self._shorten(replacements, lines, "failed attempt")

    def failure(self, result: ToolResultBlock) -> str:
        """What a failed result says first; "" for others."""
        return (first_line(self._redaction.text(result.text)) or "(no text)") if self._is_failure(result) else ""

    def _shorten(
        self, replacements: list[Replacement], lines: Iterable[tuple[CallResult, Write]], reason: str
    ) -> list[Replacement]:
        """Put the lines that are shorter in place of results; each is written for the handle of the originals."""
        shorter: dict[int, dict[int, Write]] = defaultdict(dict)
        for result, line in lines:
            if len(line(placeholders.ANY_REF)) < len(result.text):
                shorter[result.index][result.block] = line
        changed = list(replacements)
        for i, outputs in shorter.items():
            changed[i] = replace_outputs(replacements[i], outputs, reason, self.failure)
        return changed

    def _call_results(self, replacements: Sequence[Replacement]) -> list[CallResult]:
        """Results with a known call that have not been shortened, in order."""
        keys: dict[str, str] = {}
        results = []
        for i, replacement in enumerate(replacements):
            msg = replacement.msg
            keys |= {use.id: _call_key(use.name, use.input) for use in msg.tool_uses}
            for b, block in enumerate(msg.content):
                if not isinstance(block, ToolResultBlock):
                    continue
                key = keys.pop(block.id, "")
                if key and not is_shortened(msg) and not is_pinned(msg):
                    results.append(CallResult(i, b, block.id, key, self._is_failure(block), block.text))
        return results


def merge_repeated_answers(replacements: list[Replacement]) -> list[Replacement]:
    """Keep the last of consecutive assistant messages with the same text."""
    merged: list[Replacement] = []
    for replacement in replacements:
        before = merged[-1] if merged else None
        if before is None or not _same_answer(before.msg, replacement.msg):
            merged.append(replacement)
            continue
        render = partial(with_content_ref, replacement.originals[-1])
        merged[-1] = Replacement((*before.originals, *replacement.originals), render, "said again")
    return merged


def _same_answer(one: Msg, two: Msg) -> bool:
    if not all(m.role == "assistant" and m.content and not is_note(m) and not is_pinned(m) for m in (one, two)):
        return False
    if not all(isinstance(b, TextBlock) for m in (one, two) for b in m.content):
        return False
    return one.text.split() == two.text.split()


def _call_key(name: str, arguments: Mapping[str, Any]) -> str:
    try:
        return canonical_key(name or "?", arguments).digest
    except UncacheableError:
        return ""


def _superseded_line(old: CallResult, new: CallResult) -> Write:
    what = "Same result as" if old.text == new.text else "Superseded by"
    return lambda ref: f'[{what} call {new.call_id} (same arguments). Read: context_reload("{ref}")]'


def _retried_line(old: CallResult, new: CallResult, redact: Callable[[str], str]) -> Write:
    line = first_line(redact(old.text), 80)
    return lambda ref: f'[Failed: {line} Succeeded in call {new.call_id}. Read: context_reload("{ref}")]'
