"""What is pruned when, and in which unit it is measured."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from autocontext.errors import ConfigError
from autocontext.text.rendering import cut
from autocontext.tokens import get_counter


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePolicy:
    """Which texts of a history are replaced by handles; sizes are characters unless `unit` says tokens."""

    keep_last: int = 4
    """The newest messages that are kept whole, but for very large results; widened to whole exchanges with tools."""
    keep_unit: Literal["messages", "turns"] = "messages"
    """turns: `keep_last` counts from user message to user message."""
    large_tool_chars: int = 3_000
    """A result among the newest that is larger is cut to its beginning."""
    recent_tool_keep_chars: int = 500
    """How much of that beginning is kept."""
    old_tool_keep_chars: int = 0
    """How much is kept of the results before the newest messages."""
    large_user_chars: int = 800
    """A user's message before the newest that is larger is cut; never the first one, never the latest."""
    user_keep_chars: int = 400
    """How much of it is kept."""
    prune_user: bool = True
    """False: what users wrote is never cut."""
    min_prune_chars: int = 200
    """Texts of at most this size stay as they are."""
    clear_at_least_tokens: int = 0
    """Old texts are replaced in batches that free at least so many tokens each, so that the provider's prompt cache
    breaks once a batch and not at every call. A batch, once replaced, never changes."""
    exclude_tools: frozenset[str] = frozenset({"context_reload"})
    """Results of these tools are not stored; an old page of the reload tool is replaced by the handle it came from."""
    unit: Literal["chars", "tokens"] = "chars"
    """What the sizes above are measured in."""
    token_counter: str = "o200k_base"
    """Counts tokens, see `autocontext.tokens.get_counter`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "exclude_tools", frozenset(self.exclude_tools))
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, int) and not isinstance(field.default, bool):
                _check(field.name, value)
        for name, allowed in (("keep_unit", ("messages", "turns")), ("unit", ("chars", "tokens"))):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} must be one of {', '.join(allowed)} (got {getattr(self, name)!r})")

    def size(self, text: str) -> int:
        """The size of a text in the policy's unit."""
        return len(text) if self.unit == "chars" else self.tokens(text)

    def tokens(self, text: str) -> int:
        """Tokens of a text."""
        return get_counter(self.token_counter).count_text(text)

    def head(self, text: str, size: int) -> str:
        """The beginning of a text, at most `size` in the policy's unit; no sign of several characters is cut."""
        if self.unit == "chars":
            return text[: cut(text, size)] if size else ""
        chars = min(len(text), size * 8)
        while chars and (tokens := self.tokens(text[:chars])) > size:
            chars = min(chars - 1, int(chars * size / tokens))
        return text[: cut(text, chars)] if chars else ""


def _check(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{name} must be a whole number of at least 0 (got {value!r})")
