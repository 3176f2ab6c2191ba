"""Words of the user inside a tool's result: some agents put there what the user said while the tool ran."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autocontext.errors import InvalidMessage, short
from autocontext.messages import Msg, with_words_of_user

_WORDS = r"(.{1,20000}?)"
_MARKED = re.compile(
    # Claude Code and OpenCode
    r"<system-reminder>\n?The user sent (?:a new message while you were working|the following message):\n" + _WORDS +
    r"(?:\n\s*(?:IMPORTANT: After completing your current task|This is how Claude Code surfaces messages"
    r"|Please address this message and continue)[^<\n]{0,1000})?\s*</system-reminder>"
    # Claude Code, later
    r"|The user sent a new message while you were working:\n" + _WORDS + r"\n\nThis is how Claude Code surfaces"
    # Hermes
    r"|\[OUT-OF-BAND USER MESSAGE\b[^\]\n]{0,1000}\]\n" + _WORDS + r"\n\[/OUT-OF-BAND USER MESSAGE\]",
    re.DOTALL,
)  # fmt: skip


def marked_words(text: str) -> list[str]:
    """What stands between the marks in a result's text."""
    found = (next(filter(None, match.groups())).strip() for match in _MARKED.finditer(text))
    return [words for words in found if words]


def with_said(messages: Sequence[Msg], said: str | bool) -> Sequence[Msg]:
    """The messages, with the user's words in their results named. Raises InvalidMessage if no result has the words."""
    if said is True:
        return with_words_of_user(messages, marked_words)
    if not said:
        return messages
    if not isinstance(said, str) or not said.strip():
        raise InvalidMessage(f"said_by_user: {short(said)} must be the user's words as the result has them, or True")
    if not any(said in result.text for m in messages for result in m.tool_results):
        raise InvalidMessage(
            f"said_by_user: no result among these messages has the text {short(said)}; pass the words as it has them"
        )
    return with_words_of_user(messages, lambda text: [said] if said in text else [])
