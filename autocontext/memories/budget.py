"""A block of facts that never costs more than it may: filled by rank, counted as the finished text.

While it grows, the costs of its parts are added up, which is quick and nearly right; `settle` then counts the finished
text itself and takes out from the end what is too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autocontext.memories.document import Fact
from autocontext.memories.relevance import Repeats
from autocontext.memories.reports import DroppedFact, Reason, SelectedFact
from autocontext.text.rendering import cut
from autocontext.tokens import TokenCounter

_TRIES = 64
"""Facts in a row that may not fit before the rest is given up: what is left over is smaller than all of them."""
_LEAST_CUT = 24
"""Tokens from which a shortened fact is worth its place."""
_WASTE = 0.03
"""Part of the budget that may stay empty."""
_CUT_SHARE = 20
"""A shortened fact gets this part of the budget: enough to tell what it is about and where the whole is."""
_FACTS = "Facts:"


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
    tokens: int = 0
    """Tokens of the finished text as of the last `settle`."""
    left: int = field(init=False)
    """Tokens that may still be added, as far as the costs of the parts tell."""

    def __post_init__(self) -> None:
        self.left = self.max_tokens - self.counter.count_text(f"{self.opening}{self.closing}")
        self._costs: dict[str, int] = {}
        self._counted: str | None = None
        self._heading = self.counter.count_text(f"\n\n{_FACTS}")
        self._repeats = Repeats()

    @property
    def text(self) -> str:
        """The finished text; "" when it would hold nothing."""
        facts = ["\n".join([_FACTS, *(line for _, line in self.taken)])] if self.taken else []
        parts = "\n\n".join([*self.sections.values(), *facts])
        return f"{self.opening}{parts}{self.closing}" if parts else ""

    def cost(self, line: str) -> int:
        """Tokens of one more line, with the heading if it is the first."""
        known = self._costs.get(line)
        if known is None:
            known = self._costs[line] = self.counter.count_text(f"\n{line}")
        return known if self.taken else known + self._heading

    def take(self, ranked: Ranked, line: str, *, is_cut: bool = False) -> None:
        """Put a fact in."""
        cost = self.cost(line)
        self.left -= cost
        self._repeats.keep(ranked.fact.content)
        self.taken.append((SelectedFact(ranked.fact.id, ranked.score, cost, ranked.guaranteed, is_cut), line))

    def is_repeat(self, ranked: Ranked) -> bool:
        """Whether a fact that is in says as much."""
        return self._repeats.is_one(ranked.fact.content)

    def drop(self, ranked: Ranked, reason: Reason) -> None:
        """Leave a fact out."""
        self.dropped.append(DroppedFact(ranked.fact.id, ranked.score, reason))

    def settle(self) -> None:
        """Count the finished text, and take out from the end until it fits.

        With some vocabularies a whole costs more than its parts.
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


def add_guaranteed(block: Block, facts: Sequence[Ranked], budget: int) -> list[Ranked]:
    """Give the facts of guaranteed categories their own share of the budget; what does not fit there is handed back."""
    spent, over = 0, []
    for ranked in facts:
        line = ranked.fact.line
        cost = block.cost(line)
        if block.is_repeat(ranked):
            block.drop(ranked, "repeat")
        elif cost <= min(budget - spent, block.left):
            spent += cost
            block.take(replace(ranked, guaranteed=True), line)
        else:
            over.append(ranked)
    return over


def add_sections(block: Block, sections: dict[str, str], facts: Sequence[Ranked]) -> None:
    """Put the sections in; when they are too long they leave half of the room to facts, or what these need."""
    wanted, half = 0, block.left // 2
    for ranked in facts:
        if wanted >= half:
            break
        wanted += block.cost(ranked.fact.line)
    allowed = block.left - min(wanted, half)
    for heading, text in sections.items():
        shown = text
        if block.counter.count_text(f"{text}\n\n") > allowed:
            shown = shortened(lambda kept: f"{kept}\n\n", text, allowed, block.counter).removesuffix("\n\n")
        if "\n" not in shown:  # a heading alone says nothing
            continue
        block.sections[heading] = shown
        cost = block.counter.count_text(f"{shown}\n\n")
        allowed -= cost
        block.left -= cost


def add_facts(block: Block, facts: Iterable[Ranked], *, strict_order: bool, most: int | None) -> None:
    """Put facts in by rank: one that does not fit is passed over, or ends the block (`strict_order`).

    What says nothing new is left out, and so is what exceeds `most` facts.
    """
    misses, ended, others = 0, False, 0
    for ranked in facts:
        if most is not None and others >= most:
            block.drop(ranked, "over max_facts")
            continue
        if ended or misses >= _TRIES:
            block.drop(ranked, "after one that did not fit" if ended else "budget")
            continue
        if block.is_repeat(ranked):
            block.drop(ranked, "repeat")
            continue
        line = ranked.fact.line
        cost = block.cost(line)
        too_large = cost > max(block.max_tokens // 2, 1) and not strict_order
        if too_large:
            line = _preview(block, ranked, max(_LEAST_CUT, block.max_tokens // _CUT_SHARE))
            cost = block.cost(line) if line else 0
        if line and cost <= block.left:
            misses, others = 0, others + 1
            block.take(ranked, line, is_cut=too_large)
            continue
        misses, ended = misses + 1, strict_order
        block.drop(ranked, "budget")
    block.settle()


def refill(block: Block, facts: Sequence[Ranked]) -> None:
    """Use what the finished text costs less than its parts did one by one."""
    by_id = {ranked.fact.id: ranked for ranked in facts}
    for dropped in [d for d in block.dropped if d.reason == "budget"][:_TRIES]:
        ranked = by_id.get(dropped.id)
        if ranked is None or block.is_repeat(ranked):
            continue
        if block.cost(ranked.fact.line) <= block.left:
            block.dropped.remove(dropped)
            block.take(ranked, ranked.fact.line)
    block.settle()
    if block.left >= max(_LEAST_CUT, block.max_tokens * _WASTE):
        _fill_up(block, by_id)


def _fill_up(block: Block, by_id: Mapping[str, Ranked]) -> None:
    """Show more of the facts that were shortened, then the beginning of the best one that was left out."""
    for place, (chosen, line) in enumerate(block.taken):
        if not chosen.cut or chosen.id not in by_id:
            continue
        room = min(block.max_tokens // 2, block.cost(line) + block.left)
        longer = _preview(block, by_id[chosen.id], room)
        if longer and (cost := block.cost(longer)) <= block.cost(line) + block.left:
            block.left -= cost - block.cost(line)
            block.taken[place] = (replace(chosen, tokens=cost), longer)
    for dropped in [d for d in block.dropped if d.reason == "budget" and d.id in by_id][:1]:
        line = _preview(block, by_id[dropped.id], block.left - (0 if block.taken else block.cost("")))
        if line and block.cost(line) <= block.left:
            block.dropped.remove(dropped)
            block.take(by_id[dropped.id], line, is_cut=True)
    block.settle()


def _preview(block: Block, ranked: Ranked, room: int) -> str:
    """The beginning of a fact in so many tokens, and where the whole is."""
    mark = f" [...] (cut; the whole is {ranked.fact.id})"
    return shortened(lambda kept: ranked.fact.worded(kept + mark), ranked.fact.content, room - 1, block.counter)


def shortened(worded: Callable[[str], str], text: str, tokens: int, counter: TokenCounter) -> str:
    """The longest beginning of a text that, worded, costs at most that many tokens; "" when none does."""
    low, high = 0, min(len(text), max(0, tokens) * _LONGEST_TOKEN)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count_text(worded(text[:middle])) <= tokens:
            low = middle
        else:
            high = middle - 1
    kept = text[: cut(text, low)].rstrip() if low < len(text) else text
    whole = worded(kept) if kept else ""
    # A count need not grow with every character, and what is left out may bind tokens: the result is counted itself.
    return whole if counter.count_text(whole) <= tokens else ""


_LONGEST_TOKEN = 128
"""Characters; a bound for the search, no vocabulary has longer tokens but for runs of white space."""
