"""The state of a session that is optimised before it is saved, and the settings of that."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from typing import Any

from autocontext.errors import ConfigError, InvalidMessage, StateError
from autocontext.messages import Msg, as_messages, freeze, thaw

VERSION = 1


@dataclass(frozen=True, slots=True)
class SessionState:
    """What a session works with: its messages, and what was found to matter for the user's latest input."""

    session_id: str
    user_id: str = ""
    messages: list[Msg] = field(default_factory=list)
    memory_context: list[Any] = field(default_factory=list)
    """JSON objects with `source` and `relevance_score`; those made here name messages by `message_ids`, they copy
    none. Objects of other sources (memories, documents) are kept, those with `"pinned": true` always."""
    focus: list[str] = field(default_factory=list)
    user_input: str = ""
    selected_for: str = ""
    """What the optimiser last chose `memory_context` for; empty: it has not yet."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", list(as_messages(self.messages)))
        object.__setattr__(self, "memory_context", [_frozen(item, i) for i, item in enumerate(self.memory_context)])
        object.__setattr__(self, "focus", list(self.focus))

    def changed(self, **new: Any) -> SessionState:
        """A copy with other values in some fields."""
        return replace(self, **new)

    def to_dict(self) -> dict[str, Any]:
        """The state as a JSON object; `from_dict` gives an equal one."""
        return {
            "version": VERSION,
            "session_id": self.session_id,
            "user_id": self.user_id,
            "messages": [m.to_dict() for m in self.messages],
            "memory_context": [thaw(item) for item in self.memory_context],
            "focus": list(self.focus),
            "user_input": self.user_input,
            "selected_for": self.selected_for,
        }

    @classmethod
    def from_dict(cls, given: Any) -> SessionState:
        """The state that `to_dict` was called on. Raises StateError when it is damaged or of another version."""
        if not isinstance(given, dict) or given.get("version") != VERSION:
            found = given.get("version") if isinstance(given, dict) else type(given).__name__
            raise StateError(f"this is no session state of version {VERSION} (found {found!r}); it was not loaded")
        try:
            values = {f.name: given[f.name] for f in fields(cls) if f.name != "messages"}
            for name, kind in (("session_id", str), ("user_id", str), ("user_input", str), ("memory_context", list)):
                if not isinstance(values[name], kind):
                    raise StateError(f"the saved state is damaged: {name} is no {kind.__name__}; it was not loaded")
            return cls(messages=[Msg.model_validate(m) for m in given["messages"]], **values)
        except (KeyError, TypeError, InvalidMessage, ConfigError) as e:
            raise StateError(f"the saved state is damaged: {e}; it was not loaded") from e

    def to_json(self) -> str:
        """The state as one line of JSON, ASCII only."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> SessionState:
        """The state that `to_json` was called on. Raises StateError when the text is damaged."""
        try:
            given = json.loads(text)
        except ValueError as e:
            raise StateError(f"the saved state is no JSON ({e}); it was not loaded") from e
        return cls.from_dict(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateConfig:
    """Sizes of a session's working state; the names and defaults are those of the original."""

    max_memory_context_size: int = 20
    """Most entries of `memory_context`."""
    max_conversation_history_size: int = 20
    """Most messages; a summary is written from 80 % of it on. One exchange with tools is never cut to fit."""
    context_window_size: int = 10
    """The newest messages that no summary takes in, as far as the limit allows."""
    min_history_length: int = 10
    """Histories of at most this length are left as they are."""
    relevance_threshold: float = 0.3
    """A message is relevant to the user's input from this score on (0 to 1)."""
    max_relevant: int = 10
    """Most messages chosen as relevant."""
    offload_chars: int = 1_000
    """Results of earlier rounds that are larger are cut to a preview."""
    preview_chars: int = 200
    """Characters of that preview."""
    token_counter: str = "o200k_base"
    """Counts tokens for the report, see `autocontext.tokens.get_counter`."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "relevance_threshold":
                if not isinstance(value, int | float) or not 0 <= value <= 1:
                    raise ConfigError(f"relevance_threshold must be between 0 and 1 (got {value!r})")
            elif isinstance(f.default, int) and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise ConfigError(f"{f.name} must be a whole number of at least 0 (got {value!r})")
        if self.context_window_size > self.max_conversation_history_size:
            raise ConfigError(
                f"context_window_size ({self.context_window_size}) must not be more than "
                f"max_conversation_history_size ({self.max_conversation_history_size})"
            )

    @property
    def summary_from(self) -> float:
        """Messages above which a summary is written."""
        return self.max_conversation_history_size * 0.8


def _frozen(item: Any, i: int) -> Any:
    try:
        return freeze(item)
    except ValueError as e:
        raise ConfigError(f"memory_context[{i}] {e}") from None
