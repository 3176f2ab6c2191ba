"""Commands that an agent without tools writes at the end of its message; the next message has what they printed."""

from __future__ import annotations

import re

from autocontext.messages import Msg, ToolUseBlock, is_compressed, is_user_turn
from autocontext.notes.sentences import LONGEST_OF_AGENT, is_output

NAME = "command"
"""What a note calls such a call."""
_FENCE = re.compile(
    r"^```(?P<language>\w{0,20})[^\S\n]*\n(?P<code>.*?)\n?```\s*(?:</?\w{1,20}>\s*)?\Z", re.DOTALL | re.MULTILINE
)
"""A text between fences that ends a message."""
_CODE = frozenset({"py", "python", "python3", "js", "javascript", "ts", "typescript", "ruby", "r", "sql"})
"""Languages that no shell runs."""


def typed_call(asked: Msg, answered: Msg) -> ToolUseBlock | None:
    """The call that one message makes in its text, if the next one is what it printed; None if it makes none."""
    if asked.role != "assistant" or asked.tool_uses or is_compressed(asked):
        return None
    if not is_user_turn(answered) or not is_output(answered.text):
        return None
    text = asked.text[-LONGEST_OF_AGENT:]
    if (fence := text.rfind("\n```", 0, text.rstrip().rfind("```"))) < 0 and not text.startswith("```"):
        return None
    found = _FENCE.match(text, fence + 1)
    if found is None or not found["code"].strip():
        return None
    key = "code" if found["language"].lower() in _CODE else "command"
    return ToolUseBlock(id="typed", name=NAME, input={key: found["code"]})
