"""What a provider has compacted itself leaves the view, or its block does: `provider_compaction` says which."""

from __future__ import annotations

from typing import Any

from autocontext.config import AutoContextConfig
from autocontext.events import PROVIDER_COMPACTION, PROVIDER_COMPACTION_LEFT_OUT
from autocontext.history.proposals import Proposal
from autocontext.history.view import View
from autocontext.messages import COMPACTION, compacted_by, is_pinned, is_user_turn


class ProviderCompaction:
    """The first step of every pass, without a model.

    "keep": what stands before the last compaction leaves the view, as the provider does not read it; system and pinned
    messages stay. OpenAI's `/responses/compact` returns what the user said right before its item: that stays, too.
    "instead": a compaction leaves the view as long as what it stands for is in it.
    """

    name = "provider_compaction"

    def __init__(self, config: AutoContextConfig) -> None:
        self._keeps = config.provider_compaction == "keep"

    def propose(self, view: View) -> list[Proposal]:
        """Spans that leave without a note, or messages without their compaction."""
        return self._leaving(view) if self._keeps else self._bared(view)

    def _leaving(self, view: View) -> list[Proposal]:
        stop = view.compacted
        if stop >= 0 and compacted_by(view.messages[stop]) == "openai":
            stop = _users_before(view, stop)
        spans = view.closed_spans(0, max(0, stop), lambda m: m.role == "system" or is_pinned(m))
        return [Proposal(view.span(a, b), leaves=True, event_type=PROVIDER_COMPACTION, kind="stub") for a, b in spans]

    def _bared(self, view: View) -> list[Proposal]:
        proposals = []
        for i, m in enumerate(view.messages):
            if compacted_by(m) and not is_pinned(m) and view.holds_compacted(i):
                alone = all(COMPACTION in b.metadata for b in m.content)
                start = _returned(view, i) if alone else i
                why: dict[str, Any] = {"event_type": PROVIDER_COMPACTION_LEFT_OUT, "kind": "bare"}
                proposals.append(Proposal(view.span(start, i + 1), leaves=alone, bares=not alone, **why))
        return proposals


def _users_before(view: View, index: int) -> int:
    """Index of the first of the user's messages that stand right before another one."""
    while index and is_user_turn(view.messages[index - 1]):
        index -= 1
    return index


def _returned(view: View, index: int) -> int:
    """Where the window begins that `/responses/compact` returned with the item at `index`, if it only repeats words."""
    start = _users_before(view, index)
    said = iter([m.text for m in view.messages[:start] if is_user_turn(m)])
    again = all(m.text in said and not is_pinned(m) for m in view.messages[start:index])
    return start if again else index
