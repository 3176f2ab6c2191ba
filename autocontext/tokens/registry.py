"""Finds the token counter for a vocabulary's or model's name."""

from __future__ import annotations

import re

from autocontext.errors import ConfigError, short
from autocontext.tokens.counters import AgentScopeJavaCounter, EstimatingCounter, TokenCounter, VocabularyCounter

_ESTIMATE = EstimatingCounter("bytes4")
_O200K = VocabularyCounter("o200k_base")
_CL100K = VocabularyCounter("cl100k_base")
_QWEN = VocabularyCounter("qwen")
_LIKE_QWEN = VocabularyCounter("qwen", exact=False)

_BY_NAME: dict[str, TokenCounter] = {
    "o200k_base": _O200K,
    "o200k_harmony": _O200K,  # the same ranks, further special tokens
    "cl100k_base": _CL100K,
    "qwen": _QWEN,
    "bytes4": _ESTIMATE,
    "chars4": EstimatingCounter("chars4"),
    "agentscope_java": AgentScopeJavaCounter(),
}

# Prefixes of model names; the first match wins. OpenAI's follow tiktoken's table. Qwen models up to Qwen3 share one
# vocabulary (151,643 ranks); Qwen3.5 has a larger one (about 248,000), which is not shipped.
_FAMILIES = {
    r"gpt-4o|gpt-4\.|gpt-5(?!\d)|gpt-oss|chatgpt-4o|(o1|o3|o4)(?![a-z0-9])": _O200K,
    r"gpt-4(?!\d)|gpt-3\.?5|text-embedding-(3|ada-002)|davinci-002|babbage-002": _CL100K,
    r"qwen-|qwen1\.5|qwen2|qwen3(?![.\d])|qwq|qvq": _QWEN,
    r"qwen": _LIKE_QWEN,
}


def get_counter(name: str | TokenCounter) -> TokenCounter:
    """The counter for a name; a TokenCounter is returned unchanged.

    Vocabularies: "o200k_base", "cl100k_base", "qwen". Estimators: "bytes4", "chars4", "agentscope_java". Models:
    "gpt-4o", "openai/gpt-4.1-mini", "azure:gpt-35-turbo", "Qwen/Qwen3-8B", ...; unknown models get "bytes4". Equal
    names give the same object; a vocabulary is loaded at its first count. Raises ConfigError for anything else.
    """
    if isinstance(name, str):
        return _by_name(name.strip().lower())
    if isinstance(name, TokenCounter) and not isinstance(name, type):
        return name
    raise ConfigError(
        f"token_counter: {short(name)} is neither a name nor a TokenCounter (name, exact, count_text, count, bound)"
    )


def counter_for(name: str | TokenCounter, model: object) -> TokenCounter:
    """`get_counter`; "auto" chooses one by the model's name, and without a name guesses."""
    if name != "auto":
        return get_counter(name)
    named = getattr(model, "model", None)
    return get_counter(named) if isinstance(named, str) and named else VocabularyCounter("o200k_base", exact=False)


def _by_name(name: str) -> TokenCounter:
    if name in _BY_NAME:
        return _BY_NAME[name]
    model = name.rsplit("/", 1)[-1]
    # The whole name first: a colon may follow the provider ("openai:gpt-4o"), mark a fine-tuned model ("ft:gpt-4o:org")
    # or precede a size ("qwen3:8b").
    for part in (model, *model.split(":")):
        for beginning, counter in _FAMILIES.items():
            if re.match(beginning, part):
                return counter
    return _ESTIMATE
