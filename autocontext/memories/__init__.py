"""Long-term memories: kept per user in a database, and put into a request when they matter.

store = MemoryStore("agent.db")
store.add("Prefers pytest for testing", user_id="ann", tags=["python"], importance=7)
store.search("How do I write tests?", user_id="ann")[0].memory.content

injector = MemoryInjector(store, user_id="ann", max_tokens=2000)
outgoing, report = injector.inject(messages)        # messages stay as they are
"""

from autocontext.memories.conversation import extract_conversation_context, is_injected
from autocontext.memories.counting import EstimateCounter
from autocontext.memories.creation import Suggestion, memory_worth_making, suggested_tags
from autocontext.memories.exchange import ImportReport
from autocontext.memories.formatting import BEFORE_RANKING, InjectionSettings, compose, format_memory_for_injection
from autocontext.memories.injector import MemoryInjector, MemorySource, without_injected
from autocontext.memories.records import (
    Memory,
    MemoryStats,
    ScoredMemory,
    dynamic_importance,
    normalised_tags,
    recency,
    retention,
)
from autocontext.memories.reports import DroppedFact, InjectionReport, SelectedFact
from autocontext.memories.store import MemoryStore
from autocontext.memories.tools import INSTRUCTIONS, MemoryTool, memory_tools
from autocontext.memories.updating import Learning, apply_update, parse_update, stale, to_learn_from
from autocontext.ranking import Bm25Ranker, HybridRanker, InConversation, RelevanceRanker, TfidfRanker, default_ranker

__all__ = [
    "BEFORE_RANKING",
    "INSTRUCTIONS",
    "Bm25Ranker",
    "DroppedFact",
    "EstimateCounter",
    "HybridRanker",
    "ImportReport",
    "InConversation",
    "InjectionReport",
    "InjectionSettings",
    "Learning",
    "Memory",
    "MemoryInjector",
    "MemorySource",
    "MemoryStats",
    "MemoryStore",
    "MemoryTool",
    "RelevanceRanker",
    "ScoredMemory",
    "SelectedFact",
    "Suggestion",
    "TfidfRanker",
    "apply_update",
    "compose",
    "default_ranker",
    "dynamic_importance",
    "extract_conversation_context",
    "format_memory_for_injection",
    "is_injected",
    "memory_tools",
    "memory_worth_making",
    "normalised_tags",
    "parse_update",
    "recency",
    "retention",
    "stale",
    "suggested_tags",
    "to_learn_from",
    "without_injected",
]
