"""Strategies 2 and 3: large messages are cut to previews in place, without a model."""

from __future__ import annotations

from autocontext.config import AutoContextConfig
from autocontext.events import LARGE_MESSAGE_OFFLOAD, LARGE_MESSAGE_OFFLOAD_WITH_PROTECTION
from autocontext.history.proposals import MESSAGE_TEXT, Proposal
from autocontext.history.view import View
from autocontext.messages import is_compressed
from autocontext.strategies.selection import is_large, recent, results_of, stays
from autocontext.text import rendering


class LargeMessages:
    """Large messages before the latest reply; `protect_newest` leaves the newest `last_keep` messages alone (2)."""

    def __init__(self, config: AutoContextConfig, *, protect_newest: bool) -> None:
        self.config = config
        self.protect_newest = protect_newest
        self.name = "large_messages_protected" if protect_newest else "large_messages"

    def propose(self, view: View) -> list[Proposal]:
        """One shortened message per large one."""
        stop = min(view.latest_reply, recent(view, self.config))
        if self.protect_newest:
            stop = min(stop, len(view) - self.config.last_keep)
        event = LARGE_MESSAGE_OFFLOAD_WITH_PROTECTION if self.protect_newest else LARGE_MESSAGE_OFFLOAD
        keep = stays(self.config, view, by_result=True)
        proposals = []
        for i, m in enumerate(view.messages[: max(0, stop)]):
            texts = {**results_of(self.config, view, m), MESSAGE_TEXT: m.text}
            large = {k: text for k, text in texts.items() if is_large(text, self.config)}
            if not large or i == view.latest_user or m.tool_uses or is_compressed(m) or keep(m):
                continue
            blocks = {k: rendering.preview(text, self.config.offload_single_preview) for k, text in large.items()}
            proposals.append(Proposal(view.span(i, i + 1), blocks=blocks, event_type=event, kind="stub"))
        return proposals
