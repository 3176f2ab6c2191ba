"""A block of facts within a token budget: filled by rank, counted as the finished text.

While the block grows it adds up the costs of its lines, which is fast and nearly exact. `settle` then counts the
finished text and removes lines from the end until it fits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from autocontext.memories.document import Fact
from autocontext.memories.relevance import words_of
from autocontext.memories.reports import DroppedFact, Reason, SelectedFact
from autocontext.text.rendering import cut
from autocontext.tokens import TokenCounter

_TRIES = 64
"""Facts in a row that do not fit before the rest is dropped."""
_LEAST_CUT = 24
"""Tokens of a shortened fact's own words, at least."""
_CUT_SHARE = 20
"""A shortened fact gets one twentieth of the budget."""
_FACTS = "Facts:"


@dataclass(frozen=True)
class RankedFact:
    """A fact with its score."""

    fact: Fact
    score: float
    is_far: bool = False
    """Whether it is below one of the minimums."""


@dataclass
class InjectionBlock:
    """The block while it is filled: sections first, then facts."""

    counter: TokenCounter
    max_tokens: int
    opening: str = ""
    closing: str = ""
    sections: dict[str, str] = field(default_factory=dict)
    taken: list[tuple[SelectedFact, str]] = field(default_factory=list)
    dropped: list[DroppedFact] = field(default_factory=list)
    tokens: int = 0
    """Tokens of the finished text at the last `settle`."""
    left: int = field(init=False)
    """Tokens left, by the costs of the parts."""

    def __post_init__(self) -> None:
        self.left = self.max_tokens - self.counter.count_text(f"{self.opening}{self.closing}")
        self._costs: dict[str, int] = {}
        self._counted: str | None = None
        self._heading = self.counter.count_text(f"\n\n{_FACTS}")
        self._said: set[str] = set()

    @property
    def text(self) -> str:
        """The finished text; "" when there is nothing in it."""
        facts = ["\n".join([_FACTS, *(line for _, line in self.taken)])] if self.taken else []
        parts = "\n\n".join([*self.sections.values(), *facts])
        return f"{self.opening}{parts}{self.closing}" if parts else ""

    def cost(self, line: str) -> int:
        """Tokens of another line, including the heading for the first fact."""
        tokens = self._costs.get(line)
        if tokens is None:
            tokens = self._costs[line] = self.counter.count_text(f"\n{line}")
        return tokens if self.taken else tokens + self._heading

    def take(self, ranked: RankedFact, line: str, *, guaranteed: bool = False, is_cut: bool = False) -> None:
        """Add a fact."""
        cost = self.cost(line)
        self.left -= cost
        self._said.add(words_of(ranked.fact.content))
        self.taken.append((SelectedFact(ranked.fact.id, ranked.score, cost, guaranteed, is_cut), line))

    def is_repeat(self, ranked: RankedFact) -> bool:
        """Whether a fact in the block already says this."""
        return words_of(ranked.fact.content) in self._said

    def drop(self, ranked: RankedFact, reason: Reason) -> None:
        """Record that a fact is left out."""
        self.dropped.append(DroppedFact(ranked.fact.id, ranked.score, reason))

    def settle(self) -> None:
        """Count the finished text and remove lines from the end until it fits.

        With some vocabularies the text costs more than its parts.
        """
        while True:
            text = self.text
            if text != self._counted:
                self.tokens, self._counted = self.counter.count_text(text) if text else 0, text
            self.left = self.max_tokens - self.tokens
            if self.left >= 0:
                return
            self._take_out()

    def _take_out(self) -> None:
        ordinary = [i for i, (chosen, _) in enumerate(self.taken) if not chosen.guaranteed]
        if not ordinary and self.sections:
            self.sections.popitem()
            return
        chosen, _ = self.taken.pop(ordinary[-1] if ordinary else -1)
        self.dropped.append(DroppedFact(chosen.id, chosen.score, "budget"))


def add_guaranteed(
    block: InjectionBlock, facts: Sequence[RankedFact], categories: Collection[str], budget: int
) -> list[RankedFact]:
    """Add facts of guaranteed categories up to their own budget; returns the others and those that do not fit."""
    others = []
    for ranked in facts:
        if ranked.fact.category not in categories:
            others.append(ranked)
        elif block.is_repeat(ranked):
            block.drop(ranked, "repeat")
        elif (cost := block.cost(ranked.fact.line)) <= min(budget, block.left):
            budget -= cost
            block.take(ranked, ranked.fact.line, guaranteed=True)
        else:
            others.append(ranked)
    return others


def add_sections(block: InjectionBlock, sections: dict[str, str], facts: Sequence[RankedFact]) -> None:
    """Add the sections; long ones leave half of the budget to facts, or less if the facts need less."""
    needed, half = 0, block.left // 2
    for ranked in facts:
        if needed >= half:
            break
        needed += block.cost(ranked.fact.line)
    allowed = block.left - min(needed, half)
    for heading, text in sections.items():
        excerpt = text
        if block.counter.count_text(f"{text}\n\n") > allowed:
            excerpt = shortened(lambda kept: f"{kept}\n\n", text, allowed, block.counter).removesuffix("\n\n")
        if "\n" in excerpt:  # a heading alone says nothing
            block.sections[heading] = excerpt
            cost = block.counter.count_text(f"{excerpt}\n\n")
            allowed -= cost
            block.left -= cost


def add_facts(
    block: InjectionBlock,
    facts: Iterable[RankedFact],
    *,
    strict_order: bool,
    most: int | None,
    never_cut: Collection[str] = (),
) -> None:
    """Add facts by rank; one that does not fit is skipped, or ends the block (`strict_order`).

    Repeats and facts beyond `most` are dropped. A fact that would take more than half of the budget is shortened, but
    for those of `never_cut` categories.
    """
    misses, others, tries = 0, 0, 1 if strict_order else _TRIES
    for ranked in facts:
        if most is not None and others >= most:
            block.drop(ranked, "over max_facts")
        elif misses >= tries:
            block.drop(ranked, "after one that did not fit" if strict_order else "budget")
        elif block.is_repeat(ranked):
            block.drop(ranked, "repeat")
        else:
            line = ranked.fact.line
            may_cut = not strict_order and ranked.fact.category not in never_cut
            too_large = may_cut and block.cost(line) > max(block.max_tokens // 2, 1)
            if too_large:
                least = block.cost(ranked.fact.worded(_mark(ranked.fact))) + _LEAST_CUT
                line = _preview(block, ranked, max(least, block.max_tokens // _CUT_SHARE))
            if line and block.cost(line) <= block.left:
                misses, others = 0, others + 1
                block.take(ranked, line, is_cut=too_large)
            else:
                misses += 1
                block.drop(ranked, "budget")
    block.settle()


def refill(block: InjectionBlock, facts: Sequence[RankedFact]) -> None:
    """Use the tokens that the finished text saves against the sum of its parts; then lengthen shortened facts."""
    by_id = {ranked.fact.id: ranked for ranked in facts}
    for dropped in [d for d in block.dropped if d.reason == "budget"][:_TRIES]:
        ranked = by_id.get(dropped.id)
        if ranked and not block.is_repeat(ranked) and block.cost(ranked.fact.line) <= block.left:
            block.dropped.remove(dropped)
            block.take(ranked, ranked.fact.line)
    block.settle()
    for place, (chosen, line) in enumerate(block.taken):
        if chosen.cut and chosen.id in by_id:
            room = block.cost(line) + block.left
            longer = _preview(block, by_id[chosen.id], min(block.max_tokens // 2, room))
            if longer and (cost := block.cost(longer)) <= room:
                block.left = room - cost
                block.taken[place] = (replace(chosen, tokens=cost), longer)
    block.settle()


def _mark(fact: Fact) -> str:
    return f" [...] (cut; the whole is {fact.id})"


def _preview(block: InjectionBlock, ranked: RankedFact, room: int) -> str:
    """The beginning of a fact within `room` tokens, and the id of the full text."""
    mark = _mark(ranked.fact)
    return shortened(lambda kept: ranked.fact.worded(kept + mark), ranked.fact.content, room - 1, block.counter)


def shortened(worded: Callable[[str], str], text: str, tokens: int, counter: TokenCounter) -> str:
    """The longest beginning of a text that costs at most `tokens` when worded; "" when none does."""
    lengths = range(1, min(len(text), max(0, tokens) * _LONGEST_TOKEN) + 1)
    longest = bisect_right(lengths, tokens, key=lambda n: counter.count_text(worded(text[:n])))
    beginning = text[: cut(text, longest)].rstrip() if longest < len(text) else text
    whole = worded(beginning) if beginning else ""
    # Counts do not grow monotonically with the text, so count the result itself.
    return whole if counter.count_text(whole) <= tokens else ""


_LONGEST_TOKEN = 128
"""Upper bound of characters per token, for the search; only runs of white space exceed it."""
