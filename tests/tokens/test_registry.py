"""Names of vocabularies, estimators and models find their counter; nothing else does."""

import pytest

from autocontext.errors import ConfigError
from autocontext.tokens import TokenCounter, get_counter


@pytest.mark.parametrize(
    ("names", "counter", "exact"),
    [
        (
            "o200k_base gpt-4o GPT-4o gpt-4o-mini gpt-4o-2024-08-06 gpt-4.1 gpt-4.1-nano gpt-4.5-preview",
            "o200k_base",
            True,
        ),
        (
            "gpt-5 gpt-5-mini gpt-5.1 o1 o1-preview o3 o3-mini o4-mini gpt-oss-120b chatgpt-4o-latest",
            "o200k_base",
            True,
        ),
        ("openai/gpt-4o openrouter/openai/gpt-4.1 openai:gpt-4o ft:gpt-4o:org::id", "o200k_base", True),
        (
            "cl100k_base gpt-4 gpt-4-0613 gpt-4-32k gpt-4-turbo gpt-3.5-turbo gpt-3.5 azure/gpt-35-turbo-16k",
            "cl100k_base",
            True,
        ),
        ("text-embedding-3-small text-embedding-ada-002 ft:gpt-3.5-turbo:org:o1", "cl100k_base", True),
        (
            "qwen qwen-max qwen-plus qwen-7b-chat qwen3-32b Qwen/Qwen3-8B qwen3:8b qwen2.5-coder:7b qwq-32b",
            "qwen",
            True,
        ),
        ("qwen3.5-plus Qwen/Qwen3.5-27B qwen4", "qwen", False),
        (
            "bytes4 claude-sonnet-4 anthropic/claude-3 gemini-2.5-pro o1000 gpt-45 text-davinci-003 llama3:8b auto",
            "bytes4",
            False,
        ),
        ("chars4", "chars4", False),
        ("agentscope_java", "agentscope_java", False),
    ],
)
def test_a_name_finds_its_counter(names, counter, exact):
    for name in names.split():
        found = get_counter(name)
        assert (name, found.name, found.exact) == (name, counter, exact)
        assert get_counter(name) is found


def test_models_of_one_vocabulary_share_a_counter():
    assert get_counter("gpt-4o") is get_counter("openai/o3") is get_counter("o200k_base")


class WordCounter:
    """A user's own counter."""

    name = "words"
    exact = False

    def count_text(self, text):
        return len(text.split())

    def count(self, msg):
        return self.count_text(msg.text)

    def bound(self, msg):
        return len(msg.text)


def test_a_counter_of_ones_own_is_handed_back():
    own = WordCounter()
    assert isinstance(own, TokenCounter)
    assert get_counter(own) is own


@pytest.mark.parametrize("wrong", [None, 4, 1.5, b"gpt-4o", ["gpt-4o"], object(), len, WordCounter])
def test_anything_else_is_refused(wrong):
    with pytest.raises(ConfigError, match="neither a name nor a TokenCounter"):
        get_counter(wrong)
