"""The report of one optimisation: sizes, steps, and what was dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Dropped(NamedTuple):
    """Messages that were shortened or summarised, or context entries that did not fit, and where the originals are."""

    ref: str
    """Handle in the content store; its text is the originals as JSON lines."""
    message_ids: tuple[str, ...]
    """() for entries."""
    reason: str


class Step(NamedTuple):
    """A step of the pipeline."""

    name: str
    changed: int
    """Number of messages it shortened or removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizationReport:
    """Sizes before and after, what was dropped and why, and which tools failed."""

    items_before: int
    items_after: int
    bytes_before: int
    """Bytes of the state as JSON."""
    bytes_after: int
    tokens_before: int
    """Tokens of the messages."""
    tokens_after: int
    original_bytes: int
    """Bytes of the messages and the caller's context entries before the run, as JSON."""
    retrievable_bytes: int
    """How many of these can be read back byte for byte, from the state or the content store."""
    broken_pairs: int
    """Calls without a result, and results without a call, that the run caused. Always 0."""
    dropped: tuple[Dropped, ...] = ()
    errors: dict[str, Any] = field(default_factory=dict)
    """The result of `ErrorPatternAnalyzer.analyze_error_patterns` for the messages before the run."""
    steps: tuple[Step, ...] = ()
    kept: tuple[str, ...] = ()
    """Why messages stayed that should have been shortened or dropped."""

    @property
    def retrievable(self) -> float:
        """The share of the original bytes that can be read back, 0.0 to 1.0."""
        return self.retrievable_bytes / self.original_bytes if self.original_bytes else 1.0

    @property
    def reduction(self) -> float:
        """The share of the state's bytes that was saved, up to 1.0; negative if it grew."""
        return 1 - self.bytes_after / self.bytes_before if self.bytes_before else 0.0

    def __str__(self) -> str:
        head = (
            f"State optimization applied: {self.reduction:.1%} reduction "
            f"({self.bytes_before:,} to {self.bytes_after:,} bytes, {self.tokens_before:,} to {self.tokens_after:,} "
            f"tokens, {self.items_before} to {self.items_after} messages); {self.retrievable:.0%} retrievable, "
            f"{self.broken_pairs} broken pairs"
        )
        steps = [f"{s.name}: {s.changed}" for s in self.steps if s.changed]
        return "\n".join([head, *steps, *(f"kept: {reason}" for reason in self.kept)])
