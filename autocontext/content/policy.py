"""Settings of pruning: which texts, how old, how large, in which unit."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from autocontext.errors import ConfigError, short
from autocontext.stores.checks import check_whole, checked_names
from autocontext.text.rendering import cut
from autocontext.tokens import get_counter


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePolicy:
    """Which texts of a history are replaced by handles. Sizes are in characters, or in tokens if `unit` says so."""

    keep_last: int = 4
    """The newest messages, which stay whole except very large results; more if they begin inside a tool exchange."""
    keep_unit: Literal["messages", "turns"] = "messages"
    """What `keep_last` counts. A turn begins with a message of the user."""
    large_tool_chars: int = 3_000
    """Larger results among the newest messages are cut to their beginning."""
    recent_tool_keep_chars: int = 500
    """Size of that beginning."""
    old_tool_keep_chars: int = 0
    """Size of the beginning that is kept of older results."""
    large_user_chars: int = 800
    """Larger messages of the user before the newest messages are cut, but never the user's first or latest."""
    user_keep_chars: int = 400
    """Size of the beginning that is kept of them."""
    prune_user: bool = True
    """Whether messages of the user may be cut."""
    min_prune_chars: int = 200
    """Texts up to this size do not change."""
    clear_at_least_tokens: int = 0
    """Replace old texts in batches that free at least this many tokens each, so that the provider's prompt cache breaks
    once per batch and not at every call. A replaced batch never changes again."""
    exclude_tools: frozenset[str] = frozenset({"context_reload"})
    """Results of these tools are not stored; an old page of the reload tool is replaced by the handle it came from."""
    unit: Literal["chars", "tokens"] = "chars"
    """Unit of the sizes above."""
    token_counter: str = "o200k_base"
    """Counts tokens, see `autocontext.tokens.get_counter`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "exclude_tools", checked_names("exclude_tools", self.exclude_tools))
        for field in fields(self):
            if isinstance(field.default, int) and not isinstance(field.default, bool):
                check_whole(field.name, getattr(self, field.name))
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
        """The beginning of a text, at most `size` in the policy's unit; combined characters are not split."""
        if self.unit == "chars":
            return text[: cut(text, size)] if size else ""
        chars = min(len(text), size * 8)
        while chars and (tokens := self.tokens(text[:chars])) > size:
            chars = min(chars - 1, int(chars * size / tokens))
        return text[: cut(text, chars)] if chars else ""


def checked_policy(field: str, policy: Any) -> PrunePolicy:
    """The policy. Raises ConfigError naming the field for anything else."""
    if not isinstance(policy, PrunePolicy):
        raise ConfigError(f"{field}: {short(policy)} is not a PrunePolicy; write PrunePolicy(keep_last=4)")
    return policy
