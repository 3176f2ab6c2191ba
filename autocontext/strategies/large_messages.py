"""Strategies 2 and 3: large messages are cut to previews in place, without a model."""

from __future__ import annotations

from autocontext.config import AutoContextConfig
from autocontext.events import LARGE_MESSAGE_OFFLOAD, LARGE_MESSAGE_OFFLOAD_WITH_PROTECTION
from autocontext.history.proposals import MESSAGE_TEXT, Proposal, Question
from autocontext.history.view import View
from autocontext.messages import Msg, ToolResultBlock, is_compressed
from autocontext.strategies.instructions import instructions
from autocontext.strategies.selection import is_large, large_places, recent, stays
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
        keep, spared = stays(self.config, view, by_result=True), instructions(self.config, view)
        proposals = []
        for i in large_places(view, self.config):
            m = view.messages[i]
            if i >= stop:
                break
            if i == view.latest_user or m.tool_uses or is_compressed(m) or keep(m):
                continue
            blocks = self._previews(m, spared.get(m.id, frozenset()))
            if blocks:
                proposals.append(Proposal(view.span(i, i + 1), blocks=blocks, event_type=event, kind="stub"))
        return proposals

    def _previews(self, m: Msg, spared: frozenset[int]) -> dict[int, str | Question]:
        size = self.config.offload_single_preview
        blocks: dict[int, str | Question] = {
            i: rendering.preview(block.text, size)
            for i, block in enumerate(m.content)
            if isinstance(block, ToolResultBlock) and i not in spared and is_large(block.text, self.config)
        }
        if is_large(m.text, self.config):
            blocks[MESSAGE_TEXT] = rendering.preview(m.text, size)
        return blocks
