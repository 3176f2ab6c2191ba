"""What an optimisation did, in figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Dropped(NamedTuple):
    """Messages that were shortened or taken in by a summary, and where they are."""

    ref: str
    """Handle in the content store; its text is the messages as JSON lines."""
    message_ids: tuple[str, ...]
    reason: str


class Step(NamedTuple):
    """One step of the pipeline."""

    name: str
    changed: int
    """Messages it shortened or took away."""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizationReport:
    """Sizes before and after, what was dropped where, and what tools failed with."""

    items_before: int
    items_after: int
    bytes_before: int
    """Bytes of the state as JSON."""
    bytes_after: int
    tokens_before: int
    """Tokens of the messages."""
    tokens_after: int
    original_bytes: int
    """Bytes of the messages that were given, as JSON."""
    retrievable_bytes: int
    """How many of these can be had back byte for byte, from the state or the content store."""
    broken_pairs: int
    """Calls without a result and results without a call that there were not before."""
    dropped: tuple[Dropped, ...] = ()
    errors: dict[str, Any] = field(default_factory=dict)
    """What `ErrorPatternAnalyzer` found in the messages that were given."""
    steps: tuple[Step, ...] = ()
    kept: tuple[str, ...] = ()
    """Why messages stay although they were due."""

    @property
    def retrievable(self) -> float:
        """The share of the given messages' bytes that can be had back: 1.0, or the store has lied."""
        return self.retrievable_bytes / self.original_bytes if self.original_bytes else 1.0

    @property
    def reduction(self) -> float:
        """The share of the state's bytes that is gone, 0.0 to 1.0; negative when it grew."""
        return 1 - self.bytes_after / self.bytes_before if self.bytes_before else 0.0

    def __str__(self) -> str:
        head = (
            f"State optimization applied: {self.reduction:.1%} reduction "
            f"({self.bytes_before:,} to {self.bytes_after:,} bytes, {self.tokens_before:,} to {self.tokens_after:,} "
            f"tokens, {self.items_before} to {self.items_after} messages); {self.retrievable:.0%} retrievable, "
            f"{self.broken_pairs} broken pairs"
        )
        steps = [f"{s.name}: {s.changed}" + (f" ({s.detail})" if s.detail else "") for s in self.steps if s.changed]
        return "\n".join([head, *steps, *(f"kept: {why}" for why in self.kept)])
