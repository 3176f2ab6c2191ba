"""The hook `AutoContextConfig.redact` on what a pass reads: strategies and notes see messages without secrets.

Before anything is cut, since half a secret would not be recognized. The log and what it gives back stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from autocontext.errors import told
from autocontext.messages import (
    COMPACTION,
    SAID_BY_USER,
    ContentBlock,
    Msg,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    freeze,
    is_note,
    said_in,
)

HOOK_FAILED = "the redact hook failed, so texts were hidden"
_HIDDEN = "[redacted]"
_READ_OF_VALUE = 1_000
"""Characters of an argument that are read once more with its name: whether it is a secret, its beginning tells."""
_TELLING = 12
"""Characters behind a name that are left of a text that is no secret as a whole."""


class Redaction:
    """The hook, or none. One that fails leaves nothing of a text: it may hold a secret, and the turn goes on."""

    def __init__(self, hook: Callable[[str], str] | None) -> None:
        self._hook = hook
        self._known: dict[str, Msg] = {}
        """By id of the message."""
        self.problem = ""
        """What the hook raised last; "" for nothing."""

    @property
    def used(self) -> bool:
        """Whether there is a hook."""
        return self._hook is not None

    def text(self, text: str) -> str:
        """A text as the hook leaves it."""
        if self._hook is None or not text:
            return text
        try:
            redacted = self._hook(text)
        except Exception as e:  # noqa: BLE001 (the user's code)
            self.problem = told(e)
            return _HIDDEN
        if isinstance(redacted, str):
            return redacted
        self.problem = f"it returned {type(redacted).__name__}"
        return _HIDDEN

    def in_view(self, id_: str, msg: Msg) -> Msg:
        """`message` for one that is read again and again in a pass, by its id in the log."""
        if self._hook is None:
            return msg
        if id_ not in self._known:
            self._known[id_] = self.message(msg)
        return self._known[id_]

    def message(self, msg: Msg) -> Msg:
        """A message as it may be quoted; the same object if there is nothing to hide. Notes are written without."""
        if self._hook is None or is_note(msg):
            return msg
        content = tuple(map(self._block, msg.content))
        update: dict[str, Any] = {}
        if any(new is not old for new, old in zip(content, msg.content, strict=True)):
            update["content"] = content
        said = said_in(msg)
        if (words := [self.text(w) for w in said]) != [*said]:
            update["metadata"] = freeze({**msg.metadata, SAID_BY_USER: words})
        return msg.model_copy(update=update) if update else msg

    def _block(self, block: ContentBlock) -> ContentBlock:
        """A block with other texts; thinking, media and a provider's compaction must stay as they are."""
        update: dict[str, Any] = {}
        if COMPACTION in block.metadata:
            return block
        if isinstance(block, TextBlock):
            update = {"text": self.text(block.text)}
        elif isinstance(block, ToolUseBlock):
            update = {"input": freeze(self._value("", block.input))}
        elif isinstance(block, ToolResultBlock):
            output = block.output
            new = self.text(output) if isinstance(output, str) else tuple(map(self._block, output))
            update = {"output": new}
        same = all(getattr(block, name) == value for name, value in update.items())
        return block if same else block.model_copy(update=update)

    def _value(self, name: str, value: Any) -> Any:
        """A value of a call's arguments; its name may say that it is a secret."""
        if isinstance(value, Mapping):
            return {key: self._value(str(key), inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(name, inner) for inner in value]
        if not isinstance(value, str):
            return value
        text = self.text(value)
        if text != value or not name:
            return text
        beginning = json.dumps(value[:_READ_OF_VALUE], ensure_ascii=False)  # a quote in it does not end it
        named = f'"{name}": {beginning}'
        redacted = self.text(named)
        # In a long text, its escapes or the cut may look like a secret; what its name hides is hidden from the start.
        is_content = len(value) > _READ_OF_VALUE and redacted.startswith(named[: len(name) + _TELLING])
        return value if redacted == named or is_content else _HIDDEN


def shown(problem: str, hook: Callable[[str], str] | None) -> str:
    """What is told of a failure, in reports and log lines: without secrets, whatever the configuration says.

    An error of a service or of somebody's code may quote a request, a key or a password.
    """
    if not problem:
        return problem
    from autocontext.redaction import redact_secrets  # noqa: PLC0415 (its patterns cost what `import` spares)

    text, redaction = redact_secrets(problem), Redaction(hook)
    redacted = redaction.text(text)
    return text if redaction.problem else redacted  # of all texts, the one that says why the hook fails has to be seen
