"""Removes what a provider has compacted itself from the view, or its block; `provider_compaction` says which."""

from __future__ import annotations

from autocontext.config import AutoContextConfig
from autocontext.events import PROVIDER_COMPACTION, PROVIDER_COMPACTION_LEFT_OUT
from autocontext.history.proposals import Proposal
from autocontext.history.view import View
from autocontext.messages import COMPACTION, compacted_by, is_pinned, is_user_turn


class ProviderCompaction:
    """The first step of every pass, without a model.

    "keep": removes what stands before the last compaction, which the provider does not read; system and pinned messages
    stay. OpenAI's `/responses/compact` returns what the user said right before its item: that stays, too.
    "instead": removes a compaction if its originals are in view.
    """

    name = "provider_compaction"

    def __init__(self, config: AutoContextConfig) -> None:
        self._keeps = config.provider_compaction == "keep"

    def propose(self, view: View) -> list[Proposal]:
        """Spans to remove without a note, or messages to strip of their compaction."""
        return self._removals(view) if self._keeps else self._without_compaction(view)

    def _removals(self, view: View) -> list[Proposal]:
        stop = view.compacted
        if stop >= 0 and compacted_by(view.messages[stop]) == "openai":
            stop = _users_before(view, stop)
        spans = view.closed_spans(0, max(0, stop), lambda m: m.role == "system" or is_pinned(m))
        return [Proposal(view.span(a, b), removes=True, event_type=PROVIDER_COMPACTION, kind="stub") for a, b in spans]

    def _without_compaction(self, view: View) -> list[Proposal]:
        proposals = []
        for i, m in enumerate(view.messages):
            if compacted_by(m) and not is_pinned(m) and view.holds_compacted(i):
                alone = all(COMPACTION in b.metadata for b in m.content)
                span, event = view.span(_returned(view, i) if alone else i, i + 1), PROVIDER_COMPACTION_LEFT_OUT
                proposals.append(
                    Proposal(span, removes=alone, strips_compaction=not alone, event_type=event, kind="bare")
                )
        return proposals


def _users_before(view: View, index: int) -> int:
    """Index of the first of the user's messages that stand right before another one."""
    while index and is_user_turn(view.messages[index - 1]):
        index -= 1
    return index


def _returned(view: View, index: int) -> int:
    """Where the window that `/responses/compact` returned with the item at `index` begins, if it only repeats texts."""
    start = _users_before(view, index)
    said = iter([m.text for m in view.messages[:start] if is_user_turn(m)])
    again = all(m.text in said and not is_pinned(m) for m in view.messages[start:index])
    return start if again else index
