"""A block of facts that never costs more than it may: filled by rank, counted as the finished text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from autocontext.memories.document import Fact
from autocontext.memories.reports import DroppedFact, Reason, SelectedFact
from autocontext.rendering import cut
from autocontext.tokens import TokenCounter

_TRIES = 64
"""Facts in a row that may not fit before the rest is given up: what is left over is smaller than all of them."""
_LEAST_CUT = 24
"""Tokens left from which a shortened fact is worth its place."""


@dataclass(frozen=True)
class Ranked:
    """A fact with its score."""

    fact: Fact
    score: float
    guaranteed: bool = False


@dataclass
class Block:
    """The block as it grows: sections first, then facts."""

    counter: TokenCounter
    max_tokens: int
    opening: str = ""
    closing: str = ""
    sections: dict[str, str] = field(default_factory=dict)
    taken: list[tuple[SelectedFact, str]] = field(default_factory=list)
    dropped: list[DroppedFact] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The finished text; "" when it would hold nothing."""
        facts = ["\n".join(["Facts:", *(line for _, line in self.taken)])] if self.taken else []
        parts = "\n\n".join([*self.sections.values(), *facts])
        return f"{self.opening}{parts}{self.closing}" if parts else ""

    @property
    def tokens(self) -> int:
        """Tokens of the finished text."""
        text = self.text
        return self.counter.count_text(text) if text else 0

    @property
    def left(self) -> int:
        """Tokens that may still be added."""
        return self.max_tokens - (self.tokens or self._frame)

    @property
    def _frame(self) -> int:
        return self.counter.count_text(f"{self.opening}{self.closing}")

    def cost(self, line: str) -> int:
        """Tokens of one more line, with the heading if it is the first."""
        return self.counter.count_text(("\n" if self.taken else "\n\nFacts:\n") + line)

    def take(self, ranked: Ranked, line: str, *, is_cut: bool = False) -> None:
        """Put a fact in."""
        chosen = SelectedFact(ranked.fact.id, ranked.score, self.cost(line), ranked.guaranteed, is_cut)
        self.taken.append((chosen, line))

    def drop(self, ranked: Ranked, reason: Reason) -> None:
        """Leave a fact out."""
        self.dropped.append(DroppedFact(ranked.fact.id, ranked.score, reason))


def add_guaranteed(block: Block, facts: Sequence[Ranked], budget: int) -> list[Ranked]:
    """Give the facts of guaranteed categories their own share of the budget; what does not fit there is handed back."""
    spent, over = 0, []
    for ranked in facts:
        line = ranked.fact.line
        cost = block.cost(line)
        if spent + cost <= min(budget, block.left):
            spent += cost
            block.take(replace(ranked, guaranteed=True), line)
        else:
            over.append(ranked)
    return over


def add_sections(block: Block, sections: dict[str, str], facts: Sequence[Ranked]) -> None:
    """Put the sections in; when they are too long they leave half of the room to facts, or what these need."""
    room = block.left
    wanted = 0
    for ranked in facts:
        wanted += block.cost(ranked.fact.line)
        if wanted > room // 2:
            wanted = room // 2
            break
    allowed = room - wanted
    for heading, text in sections.items():
        cost = block.counter.count_text(text + "\n\n")
        shown = text if cost <= allowed else shortened(lambda kept: kept, text, allowed - 2, block.counter)
        if "\n" not in shown:  # a heading alone says nothing
            continue
        block.sections[heading] = shown
        allowed -= block.counter.count_text(shown + "\n\n")
    _trim(block)


def add_facts(block: Block, facts: Iterable[Ranked], *, strict_order: bool) -> None:
    """Put facts in by rank: one that does not fit is passed over, or ends the block (`strict_order`)."""
    left, misses, over = block.left, 0, False
    for ranked in facts:
        if over or misses >= _TRIES:
            block.drop(ranked, "after one that did not fit" if over else "budget")
            continue
        line, is_cut = _fitting(block, ranked, left)
        if line is None:
            misses, over = misses + 1, strict_order
            block.drop(ranked, "budget")
            continue
        misses = 0
        block.take(ranked, line, is_cut=is_cut)
        left -= block.taken[-1][0].tokens
        if left <= 0:
            left = block.left
    _trim(block)


def refill(block: Block, facts: Sequence[Ranked]) -> None:
    """Use what the finished text costs less than its lines did one by one."""
    again = {ranked.fact.id: ranked for ranked in facts}
    for dropped in [d for d in block.dropped if d.reason == "budget"][:_TRIES]:
        left = block.left
        if left < 1:
            break
        ranked = again[dropped.id]
        if block.cost(ranked.fact.line) <= left:
            block.dropped.remove(dropped)
            block.take(ranked, ranked.fact.line)
    _trim(block)


def _fitting(block: Block, ranked: Ranked, left: int) -> tuple[str | None, bool]:
    line = ranked.fact.line
    half = block.max_tokens // 2
    cost = block.cost(line)
    if cost <= min(left, max(half, 1)):
        return line, False
    if cost <= half or left < _LEAST_CUT:
        return None, False
    room = min(left, half) - block.counter.count_text("\n\nFacts:\n")
    mark = f" [...] (cut; the whole is {ranked.fact.id})"
    short = shortened(lambda kept: ranked.fact.worded(kept + mark), ranked.fact.content, room, block.counter)
    return (short, True) if short and block.cost(short) <= left else (None, False)


def shortened(worded: Callable[[str], str], text: str, tokens: int, counter: TokenCounter) -> str:
    """The longest beginning of a text that, worded, costs at most that many tokens; "" when none does."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count_text(worded(text[:middle])) <= tokens:
            low = middle
        else:
            high = middle - 1
    kept = text[: cut(text, low)].rstrip() if low < len(text) else text
    # A count need not grow with every character, and what is left out may bind tokens: the result is counted itself.
    return worded(kept) if kept and counter.count_text(worded(kept)) <= tokens else ""


def _trim(block: Block) -> None:
    """Take out from the end until the finished text fits: with some vocabularies a whole costs more than its parts."""
    while block.tokens > block.max_tokens:
        ordinary = [i for i, (chosen, _) in enumerate(block.taken) if not chosen.guaranteed]
        if ordinary:
            chosen, _ = block.taken.pop(ordinary[-1])
            block.dropped.append(DroppedFact(chosen.id, chosen.score, "budget"))
        elif block.sections:
            block.sections.popitem()
        else:
            chosen, _ = block.taken.pop()
            block.dropped.append(DroppedFact(chosen.id, chosen.score, "budget"))
