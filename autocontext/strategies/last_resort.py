"""When the view is still over `max_token`: texts are cut harder and harder in their place, without a model."""

from __future__ import annotations

from autocontext import rendering
from autocontext.config import AutoContextConfig
from autocontext.edits import MESSAGE_TEXT, Proposal, Question
from autocontext.messages import Msg, ToolResultBlock, is_note, is_pinned
from autocontext.view import View

LAST_RESORT_PREVIEW = "LAST_RESORT_PREVIEW"


class Previews:
    """Long texts outside system messages and the latest user message are cut to `limit` characters."""

    def __init__(self, config: AutoContextConfig, limit: int, *, unread: bool) -> None:
        self.config = config
        self.limit = limit
        self.unread = unread
        self.name = f"last_resort_{'unread' if unread else 'previews'}_{limit}"

    def propose(self, view: View) -> list[Proposal]:
        """One shortened message per long one; of unread results both head and tail stay."""
        found = []
        for i in range(view.unread if self.unread else 0, len(view) if self.unread else view.unread):
            m = view.messages[i]
            if i == view.latest_user or m.role == "system" or is_pinned(m) or is_note(m):
                continue
            blocks = self._cuts(m)
            long_arguments = any(len(rendering.arguments(use)) > self.limit for use in m.tool_uses)
            if blocks or long_arguments:
                limit = self.limit if long_arguments else None
                found.append(
                    Proposal(
                        view.span(i, i + 1),
                        blocks=blocks,
                        arguments_to=limit,
                        event_type=LAST_RESORT_PREVIEW,
                        kind="stub",
                    )
                )
        return found

    def _cuts(self, m: Msg) -> dict[int, str | Question]:
        texts = {i: b.text for i, b in enumerate(m.content) if isinstance(b, ToolResultBlock)}
        texts[MESSAGE_TEXT] = m.text
        return {
            i: self._shorter(rendering.TAG.sub("", text)) for i, text in texts.items() if len(text) > self.limit * 2
        }

    def _shorter(self, text: str) -> str:
        return rendering.head_and_tail(text, self.limit) if self.unread else rendering.preview(text, self.limit)
