"""Which of the oldest messages go into a summary: whole rounds if they fit, never part of an exchange."""

from __future__ import annotations

from collections.abc import Sequence

from autocontext.history.view import View
from autocontext.messages import Msg, is_pinned, is_user_turn
from autocontext.optimizer.state import StateConfig
from autocontext.optimizer.summary import is_summary


def must_stay(msg: Msg) -> bool:
    """Whether a message is never summarised: the caller's system messages and pinned ones."""
    return is_pinned(msg) or (msg.role == "system" and not is_summary(msg))


def messages_to_summarize(messages: Sequence[Msg], config: StateConfig) -> list[int]:
    """Indices of the messages to put into one summary; [] when there is nothing new to summarise.

    The boundary is the start of a round, with at least `context_window_size` messages after it. If more than
    `max_conversation_history_size` would stay, it moves into that round, between two exchanges. The user's latest
    message and results that the model has not read always stay.
    """
    if len(messages) <= config.summary_from:
        return []
    view = View(map(str, range(len(messages))), messages)
    best: list[int] = []
    starts = [i for i, m in enumerate(messages) if is_user_turn(m) and i <= len(messages) - config.context_window_size]
    if starts:
        best = _indices_before(view, starts[-1])
    if len(messages) - len(best) + 1 > config.max_conversation_history_size:
        for boundary in range(starts[-1] + 1 if starts else 1, view.unread + 1):
            if boundary < len(messages) and messages[boundary].tool_results:
                continue  # never inside an exchange
            indices = _indices_before(view, boundary)
            if len(indices) > len(best):
                best = indices
            if len(messages) - len(best) + 1 <= config.max_conversation_history_size:
                break
    return best if sum(not is_summary(messages[i]) for i in best) > 1 else []


def _indices_before(view: View, boundary: int) -> list[int]:
    """Messages before a boundary that can go: complete exchanges between the messages that stay."""
    latest = view.messages[view.latest_user] if view.latest_user >= 0 else None

    def stays(msg: Msg) -> bool:
        return must_stay(msg) or msg is latest

    return [i for start, stop in view.closed_spans(0, boundary, stays) for i in range(start, stop)]
