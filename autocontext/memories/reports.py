"""What an injection put into a request, and what it left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Reason: TypeAlias = Literal["budget", "repeat", "below minimum", "over max_facts", "after one that did not fit"]


@dataclass(frozen=True)
class SelectedFact:
    """A fact that is in the block."""

    id: str
    score: float
    tokens: int
    guaranteed: bool = False
    """Taken for its category, before the budget was shared out."""
    cut: bool = False
    """Shortened, because it alone would have taken more than half of the budget."""


@dataclass(frozen=True)
class DroppedFact:
    """A fact that is not in the block; the tool `memory_search` still finds it."""

    id: str
    score: float
    reason: Reason


@dataclass(frozen=True)
class InjectionReport:
    """What went into a request, what did not, and what it costs."""

    selected: tuple[SelectedFact, ...] = ()
    dropped: tuple[DroppedFact, ...] = ()
    tokens: int = 0
    """Tokens of the whole block, wrapper included, counted once over the finished text."""
    max_tokens: int = 0
    counter: str = ""
    """What counted; `exact` tells whether it is the model's own count."""
    exact: bool = True
    sections: Mapping[str, int] = field(default_factory=dict)
    """Tokens by part of the block: "User Context", "History", "Facts"."""
    refreshed: bool = True
    """False when the block of an earlier call was used again."""
