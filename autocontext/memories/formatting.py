"""Memories as the text that goes into a prompt."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from autocontext.errors import ConfigError
from autocontext.memories.budget import InjectionBlock, RankedFact, add_facts, add_guaranteed, add_sections, refill
from autocontext.memories.counting import default_counter
from autocontext.memories.document import Fact, facts_of, sections_of
from autocontext.memories.relevance import FactIndex, checked_weights, index_for
from autocontext.memories.reports import InjectionReport
from autocontext.ranking import RelevanceRanker
from autocontext.stores.checks import check_whole, checked_names
from autocontext.tokens import TokenCounter

BEFORE_RANKING = 15
"""A value of `max_facts` for memories that confidence alone ranks: pass it without a context."""


@dataclass(frozen=True)
class InjectionSettings:
    """How memories are chosen. Raises ConfigError naming a field that is out of range."""

    max_tokens: int = 2000
    """Limit for the whole text, wrapper included."""
    similarity_weight: float = 0.6
    confidence_weight: float = 0.4
    """Weights, divided by their sum; if both are 0, confidence alone ranks."""
    guaranteed_categories: Collection[str] = ("correction",)
    guaranteed_token_budget: int = 500
    """Up to this many of the `max_tokens`, facts of these categories come first; none of them is ever cut."""
    strict_order: bool = False
    """Stop at the first fact that does not fit, instead of skipping it."""
    similarity_scale: Literal["raw", "max"] = "raw"
    """"max" divides similarities by the largest one, so that they weigh as much as confidences do."""
    min_similarity: float = 0.0
    min_score: float = 0.0
    """Facts below one of these are left out when there is a context."""
    max_facts: int | None = None
    """Maximum number of facts besides the guaranteed ones; None: as many as fit."""

    def __post_init__(self) -> None:
        categories = checked_names("guaranteed_categories", self.guaranteed_categories)
        object.__setattr__(self, "guaranteed_categories", categories)
        checked_weights(self.similarity_weight, self.confidence_weight)
        check_whole("max_tokens", self.max_tokens, 1)
        check_whole("guaranteed_token_budget", self.guaranteed_token_budget)
        check_whole("max_facts", self.max_facts, none="as many as fit")
        if self.similarity_scale not in ("raw", "max"):
            raise ConfigError(f"similarity_scale must be 'raw' or 'max' (got {self.similarity_scale!r})")


def format_memory_for_injection(
    memory_data: Mapping[str, Any],
    max_tokens: int = 2000,
    current_context: str | None = None,
    *,
    similarity_weight: float = 0.6,
    confidence_weight: float = 0.4,
    guaranteed_categories: Collection[str] = ("correction",),
    guaranteed_token_budget: int = 500,
    counter: TokenCounter | None = None,
    ranker: RelevanceRanker | None = None,
    strict_order: bool = False,
) -> str:
    """A memory.json document as text for a prompt, at most `max_tokens` long; "" for an empty memory.

    Facts are ranked by 0.6 * similarity to `current_context` + 0.4 * confidence, or by confidence alone without a
    context. Tokens are counted with cl100k_base by default. Pass the same `ranker` again to update only the facts that
    have changed. `compose` takes further settings. Raises ConfigError naming an argument that is out of range.

        format_memory_for_injection(document, 2000, "How do I write tests?")
    """
    settings = InjectionSettings(
        max_tokens=max_tokens,
        similarity_weight=similarity_weight,
        confidence_weight=confidence_weight,
        guaranteed_categories=guaranteed_categories,
        guaranteed_token_budget=guaranteed_token_budget,
        strict_order=strict_order,
    )
    return compose(memory_data, current_context, settings, counter=counter, ranker=ranker)[0]


def compose(
    memory_data: Mapping[str, Any] | None,
    current_context: str | None,
    settings: InjectionSettings,
    *,
    counter: TokenCounter | None = None,
    ranker: RelevanceRanker | None = None,
    index: FactIndex | None = None,
    opening: str = "",
    closing: str = "",
) -> tuple[str, InjectionReport]:
    """The text and a report about it; `opening` and `closing` surround the text and count as well."""
    counter = counter or default_counter()
    document = memory_data if isinstance(memory_data, Mapping) else {}
    ranked = _ranked(list(facts_of(document)), current_context or "", settings, ranker, index)
    block = InjectionBlock(counter, settings.max_tokens, opening, closing)
    if block.left > 0:
        _fill(block, sections_of(document), ranked, settings)
    else:
        for one in ranked:
            block.drop(one, "budget")
    return block.text, _report(block, settings)


def _ranked(
    facts: list[Fact],
    context: str,
    settings: InjectionSettings,
    ranker: RelevanceRanker | None,
    index: FactIndex | None,
) -> list[RankedFact]:
    """The facts by weight * similarity + weight * confidence, best first; by confidence alone without a context."""
    ranked = [RankedFact(fact, fact.confidence) for fact in facts]
    if context.strip() and facts:
        texts = [fact.content for fact in facts]
        similarities = (index or index_for(ranker, texts)).similarities(texts, context)
        # Similarities of short texts seldom reach 0.5, while confidences are seldom below 0.7.
        top = max(similarities.values()) if settings.similarity_scale == "max" else 1.0
        factor = 1 / top if top > 1e-9 else 1.0
        near, sure = checked_weights(settings.similarity_weight, settings.confidence_weight)
        for i, fact in enumerate(facts):
            similarity = similarities[fact.content]
            score = near * similarity * factor + sure * fact.confidence
            is_far = similarity < settings.min_similarity or score < settings.min_score
            ranked[i] = RankedFact(fact, score, is_far)
    return sorted(ranked, key=lambda r: -r.score)


def _fill(
    block: InjectionBlock, sections: dict[str, str], ranked: list[RankedFact], settings: InjectionSettings
) -> None:
    guaranteed = settings.guaranteed_categories
    facts: list[RankedFact] = []
    for one in ranked:
        if one.is_far and one.fact.category not in guaranteed:
            block.drop(one, "below minimum")
        else:
            facts.append(one)
    others = add_guaranteed(block, facts, guaranteed, settings.guaranteed_token_budget)
    add_sections(block, sections, others)
    add_facts(block, others, strict_order=settings.strict_order, most=settings.max_facts, never_cut=guaranteed)
    if not settings.strict_order and settings.max_facts is None:
        refill(block, others)


def _report(block: InjectionBlock, settings: InjectionSettings) -> InjectionReport:
    sections = {heading: block.counter.count_text(text) for heading, text in block.sections.items()}
    if block.taken:
        sections["Facts"] = sum(chosen.tokens for chosen, _ in block.taken)
    return InjectionReport(
        selected=tuple(chosen for chosen, _ in block.taken),
        dropped=tuple(block.dropped),
        tokens=block.tokens,
        max_tokens=settings.max_tokens,
        counter=block.counter.name,
        exact=block.counter.exact,
        sections=sections,
    )
