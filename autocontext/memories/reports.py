"""Reports of injections: facts that were injected and facts that were dropped."""

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
    """Added from the budget of the guaranteed categories."""
    cut: bool = False
    """Shortened, because it would have taken more than half of the budget."""


@dataclass(frozen=True)
class DroppedFact:
    """A fact that is not in the block; the tool `memory_search` still finds it."""

    id: str
    score: float
    reason: Reason


@dataclass(frozen=True)
class InjectionReport:
    """The facts in a block, those left out, and its tokens."""

    selected: tuple[SelectedFact, ...] = ()
    dropped: tuple[DroppedFact, ...] = ()
    tokens: int = 0
    """Tokens of the finished block, wrapper included."""
    max_tokens: int = 0
    counter: str = ""
    """Name of the token counter; `exact` says whether it is the model's own."""
    exact: bool = True
    sections: Mapping[str, int] = field(default_factory=dict)
    """Tokens of each part of the block: "User Context", "History", "Facts"."""
    refreshed: bool = True
    """False when the block of an earlier call was reused."""
