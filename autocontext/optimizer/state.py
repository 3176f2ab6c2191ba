"""A session's working state, and the settings of the optimiser."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from typing import Any

from autocontext.errors import ConfigError, InvalidMessage, StateError, short
from autocontext.messages import Msg, as_messages, freeze, thaw
from autocontext.stores.checks import check_whole

VERSION = 1
_KINDS = {
    "session_id": str, "user_id": str, "user_input": str, "selected_for": str, "memory_context": list, "focus": list,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session's messages, and the context selected for the user's latest input.

    state = SessionState("session-1", "user-1", messages, user_input="Which tea do I like?")
    """

    session_id: str
    user_id: str = ""
    messages: list[Msg] = field(default_factory=list)
    memory_context: list[Any] = field(default_factory=list)
    """JSON objects with `source` and `relevance_score`. Those of the optimiser refer to messages by `message_ids`.
    Objects from elsewhere (memories, documents) are kept; those with `"pinned": true` are never dropped."""
    focus: list[str] = field(default_factory=list)
    user_input: str = ""
    selected_for: str = ""
    """What the optimiser last selected `memory_context` for; "" before the first run."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", list(as_messages(self.messages)))
        object.__setattr__(self, "memory_context", [_frozen(item, i) for i, item in enumerate(self.memory_context)])
        object.__setattr__(self, "focus", list(self.focus))

    def changed(self, **new: Any) -> SessionState:
        """Return a copy with some fields changed."""
        return replace(self, **new)

    def to_dict(self) -> dict[str, Any]:
        """The state as a JSON object, which `from_dict` reads."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        lists = {"messages": [m.to_dict() for m in self.messages], "memory_context": thaw(self.memory_context)}
        return {"version": VERSION, **values, **lists, "focus": list(self.focus)}

    @classmethod
    def from_dict(cls, values: Any) -> SessionState:
        """Read the result of `to_dict`. Raises StateError if it is damaged or from another version."""
        if not isinstance(values, dict) or values.get("version") != VERSION:
            version = values.get("version") if isinstance(values, dict) else type(values).__name__
            raise StateError(f"not a session state of version {VERSION} (got {version!r}); nothing was loaded")
        try:
            parts = {f.name: values[f.name] for f in fields(cls) if f.name != "messages"}
            for name, kind in _KINDS.items():
                if not isinstance(parts[name], kind):
                    raise StateError(
                        f"the saved state is damaged: `{name}` must be a {kind.__name__}; nothing was loaded"
                    )
            return cls(messages=[Msg.model_validate(m) for m in values["messages"]], **parts)
        except (KeyError, TypeError, InvalidMessage, ConfigError) as e:
            raise StateError(f"the saved state is damaged: {e}; nothing was loaded") from e

    def to_json(self) -> str:
        """The state as one line of ASCII JSON."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> SessionState:
        """Read the result of `to_json`. Raises StateError if the text is damaged."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as e:
            raise StateError(f"the saved state is not JSON ({e}); nothing was loaded") from e
        return cls.from_dict(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateConfig:
    """Limits of a working state."""

    max_memory_context_size: int = 20
    """Maximum number of entries in `memory_context`."""
    max_conversation_history_size: int = 20
    """Maximum number of messages. Above 80 % of it a summary is written. A single tool exchange is never cut to fit."""
    context_window_size: int = 10
    """Number of newest messages kept out of summaries, as far as the maximum allows."""
    min_history_length: int = 10
    """Histories up to this length do not change."""
    relevance_threshold: float = 0.3
    """Messages with a higher score (0 to 1) are relevant to the user's input."""
    max_relevant: int = 10
    """Maximum number of relevant messages."""
    offload_chars: int = 1_000
    """Larger results of earlier rounds are cut to a preview."""
    preview_chars: int = 200
    """Characters in that preview."""
    token_counter: str = "o200k_base"
    """Counts tokens for the report, see `autocontext.tokens.get_counter`."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "relevance_threshold":
                if not isinstance(value, int | float) or not 0 <= value <= 1:
                    raise ConfigError(f"relevance_threshold must be between 0 and 1 (got {value!r})")
            elif isinstance(f.default, int):
                check_whole(f.name, value)
        if self.context_window_size > self.max_conversation_history_size:
            raise ConfigError(
                f"context_window_size ({self.context_window_size}) must not be more than "
                f"max_conversation_history_size ({self.max_conversation_history_size})"
            )

    @property
    def summary_from(self) -> float:
        """The number of messages above which a summary is written."""
        return self.max_conversation_history_size * 0.8


def as_state_config(config: StateConfig | None, owner: str) -> StateConfig:
    """The settings, by default StateConfig(). Raises ConfigError for anything else, naming the `owner`."""
    if config is None:
        return StateConfig()
    if isinstance(config, StateConfig):
        return config
    hint = "; write StateConfig(**{...})" if isinstance(config, dict) else ""
    raise ConfigError(f"{owner}.config: {short(config)} is not a StateConfig{hint}")


def checked_state(state: SessionState) -> SessionState:
    """The state. Raises StateError for anything else."""
    if not isinstance(state, SessionState):
        raise StateError(
            f"{short(state)} is not a SessionState; write SessionState(session_id, messages=[Msg(...), ...])"
        )
    return state


def _frozen(item: Any, i: int) -> Any:
    try:
        return freeze(item)
    except ValueError as e:
        raise ConfigError(f"memory_context[{i}] {e}") from None
