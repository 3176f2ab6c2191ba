"""Token counting: exact, offline, and as late as possible.

A counter counts texts and messages; `bound` gives an upper limit without tokenizing, so a sum of bounds under a
threshold needs no counting at all. Vocabularies are shipped as data and loaded at the first count; nothing here uses
the network.

    counter = get_counter("gpt-4o")
    counter.name, counter.exact            # ("o200k_base", True)
    counter.count_text("hello world")      # 2
    counter.count(Msg(role="user", content="hello world"))     # 6: with the message's overhead
"""

from autocontext.tokens.counters import AgentScopeJavaCounter, EstimatingCounter, TokenCounter, VocabularyCounter
from autocontext.tokens.registry import get_counter

__all__ = ["AgentScopeJavaCounter", "EstimatingCounter", "TokenCounter", "VocabularyCounter", "get_counter"]
