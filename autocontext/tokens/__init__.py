"""Token counting: exact, offline, and as late as possible.

A counter counts a text or what is sent of a message; `bound` says without tokenizing how large that can be at most,
so that a sum of bounds under a threshold needs no counting at all. Vocabularies are shipped as data and loaded at
the first count; nothing here ever touches the network.

    counter = get_counter("gpt-4o")
    counter.name, counter.exact            # ("o200k_base", True)
    counter.count_text("hello world")      # 2
    counter.count(Msg(role="user", content="hello world"))     # 6: what surrounds a message counts, too
"""

from autocontext.tokens.counters import AgentScopeJavaCounter, EstimatingCounter, TokenCounter, VocabularyCounter
from autocontext.tokens.registry import get_counter

__all__ = ["AgentScopeJavaCounter", "EstimatingCounter", "TokenCounter", "VocabularyCounter", "get_counter"]
