"""Counts of texts and messages: bounds hold, nothing that arrives breaks them, published figures come out."""

import copy
import pickle
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext.messages import AudioBlock, ImageBlock, Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from autocontext.tokens import TokenCounter, get_counter
from autocontext.tokens.counters import BYTES_OF_TOKEN
from autocontext.tokens.vocabularies import encoding
from tests.tokens.strategies import blocks, messages, texts

VOCABULARIES = ["o200k_base", "cl100k_base", "qwen"]
NAMES = [*VOCABULARIES, "bytes4", "chars4", "agentscope_java"]
COUNTERS = [get_counter(name) for name in NAMES]
relaxed = settings(deadline=None)  # the first example loads the vocabularies


@given(messages)
@relaxed
def test_the_bound_is_never_under_the_count(msg):
    for counter in COUNTERS:
        assert 0 < counter.count(msg) <= counter.bound(msg)


@given(messages | st.builds(lambda piece, n: Msg(role="user", content=piece * n), texts, st.integers(1, 2_000)))
@relaxed
def test_a_bound_says_how_many_tokens_a_message_surely_has(msg):
    for name in VOCABULARIES:
        counter = get_counter(name)
        assert counter.count(msg) >= counter.bound(msg) / BYTES_OF_TOKEN


@pytest.mark.parametrize("name", VOCABULARIES)
def test_no_token_has_more_than_half_the_bytes_that_one_surely_stands_for(name):
    assert max(map(len, encoding(name).token_byte_values())) <= BYTES_OF_TOKEN / 2


@given(messages, blocks)
@relaxed
def test_a_further_block_never_makes_a_message_smaller(msg, block):
    more = msg.model_copy(update={"content": (*msg.content, block)})
    for counter in COUNTERS:
        assert counter.count(more) >= counter.count(msg)


@given(texts)
@relaxed
def test_a_text_has_a_token_per_byte_at_most_and_a_message_no_fewer_than_its_text(text):
    for counter in COUNTERS:
        count = counter.count_text(text)
        assert (count > 0) == bool(text)
        assert counter.count(Msg(role="user", content=text)) >= count
    for name in ("o200k_base", "cl100k_base"):
        assert get_counter(name).count_text(text) <= len(text.encode("utf-8", "surrogatepass"))


@given(messages)
@relaxed
def test_ids_metadata_and_time_cost_nothing(msg):
    changed = msg.model_copy(update={"id": "another", "timestamp": "never", "metadata": {"k": "v" * 100}})
    for counter in COUNTERS:
        assert counter.count(changed) == counter.count(msg)


@given(texts, st.integers(0, 3))
@relaxed
def test_estimates_do_not_grow_by_joining(text, times):
    for name in ("bytes4", "chars4", "agentscope_java"):
        counter = get_counter(name)
        assert counter.count_text(text * times) <= times * counter.count_text(text)


@pytest.mark.parametrize("name", NAMES)
def test_counters_are_protocol_values(name):
    counter = get_counter(name)
    assert isinstance(counter, TokenCounter)
    assert counter.name == name
    assert counter.exact is (name in VOCABULARIES)
    assert pickle.loads(pickle.dumps(counter)) == counter == copy.deepcopy(counter)  # noqa: S301 (its own dump)


# OpenAI's cookbook, "How to count tokens with tiktoken", comparing encodings; and the text measured by deer-flow.
@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("antidisestablishmentarianism", {"cl100k_base": 6, "o200k_base": 6}),
        ("2 + 2 = 4", {"cl100k_base": 7, "o200k_base": 7}),
        ("お誕生日おめでとう", {"cl100k_base": 9, "o200k_base": 8}),
        (
            "This is a test string to count tokens accurately using tiktoken.",
            {"cl100k_base": 13, "bytes4": 16, "chars4": 16, "agentscope_java": 26},
        ),
        ("汉字", {"bytes4": 2, "chars4": 1, "agentscope_java": 1, "o200k_base": 2}),
        ("😀", {"agentscope_java": 1, "chars4": 1, "bytes4": 1}),
        ("😀😀", {"agentscope_java": 2}),  # four UTF-16 units
        ("<|endoftext|>", {"o200k_base": 7, "cl100k_base": 7, "qwen": 7}),
        ("a\ud800b", {"o200k_base": 3, "cl100k_base": 3, "qwen": 3}),  # as "a\ufffdb"
        ("e\u0301t\u0301e\u0301", {"qwen": 3, "cl100k_base": 6}),  # Qwen composes to é first
    ],
)
def test_known_counts(text, counts):
    assert {name: get_counter(name).count_text(text) for name in counts} == counts


EXAMPLE = [
    (
        "system",
        "",
        "You are a helpful, pattern-following assistant that translates corporate jargon into plain English.",
    ),
    ("system", "example_user", "New synergies will help drive top-line growth."),
    ("system", "example_assistant", "Things working well together will increase revenue."),
    (
        "system",
        "example_user",
        "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
    ),
    ("system", "example_assistant", "Let's talk later when we're less busy about how to do better."),
    ("user", "", "This late pivot means we don't have time to boil the ocean for the client deliverable."),
]


@pytest.mark.parametrize(("model", "billed"), [("gpt-3.5-turbo", 129), ("gpt-4", 129), ("gpt-4o", 124)])
def test_messages_cost_what_openai_bills(model, billed):
    """The cookbook's example, whose counts it compares with the API's `prompt_tokens`; 3 prime the reply."""
    counter = get_counter(model)
    assert sum(counter.count(Msg(role=r, name=n, content=c)) for r, n, c in EXAMPLE) + 3 == billed


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_role_is_one_token(name):
    assert [get_counter(name).count_text(role) for role in ("system", "user", "assistant", "tool")] == [1, 1, 1, 1]


def test_what_a_message_consists_of():
    counter = get_counter("o200k_base")
    text = counter.count_text

    def count(*content, role="assistant", name=""):
        return counter.count(Msg(role=role, name=name, content=list(content)))

    call = ToolUseBlock(id="call_0123456789", name="read_file", input={"path": "数据.txt", "n": 5})
    arguments = '{"path": "数据.txt", "n": 5}'
    said, thought = TextBlock(text="hello world"), ThinkingBlock(thinking="let me see")
    result = ToolResultBlock(id=call.id, name=call.name, output="one two")
    parts = ToolResultBlock(id=call.id, name=call.name, output=[said, said])
    image = ImageBlock(source={"type": "url", "url": "https://example.org/a.png"})
    assert count() == 4
    assert count(said) == 4 + 2
    assert count(said, name="assistant") == 4 + 2
    assert count(said, name="alice") == 4 + 2 + 1 + text("alice")
    assert count(said, said) == 4 + 2 + 1 + 2  # joined with a newline
    assert count(thought, said) == 4 + text("let me see") + 1 + 2
    assert count(call) == 4 + 4 + text("read_file") + text(arguments)
    assert count(result, role="tool") == 4 + text("one two")
    assert count(parts, role="tool") == 4 + 2 + 1 + 2
    assert count(result, result, role="tool") == 2 * (4 + text("one two"))  # a message each
    assert count(result, said, role="user") == 4 + text("one two") + 4 + 2
    assert count(image, role="user") == 4 + 1105
    assert count(AudioBlock(source=image.source), role="user") == 4 + 600


@pytest.mark.slow
@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize(
    ("unit", "times"), [(" ", 1_000_000), ("a", 1_000_000), ("汉", 350_000), ("\n", 300_000), ("\u0301\u0323", 50_000)]
)
def test_a_megabyte_without_a_boundary_is_counted_in_seconds(name, unit, times):
    counter = get_counter(name)
    counter.count_text("loaded")
    text = unit * times
    start = time.thread_time()
    count = counter.count_text(text)
    assert time.thread_time() - start < 20  # about 0.5 s; tiktoken itself panics on the blanks
    piece = unit * 4096
    assert abs(count - counter.count_text(piece) * len(text) / len(piece)) <= counter.count_text(piece)


@pytest.mark.sampled
@pytest.mark.parametrize("unit", ["中文字", "éàüñ", "привет", "नमस्ते", "สวัสดี", "👩\u200d👩", "e\u0301"])
@pytest.mark.parametrize("name", VOCABULARIES)
def test_row_24_a_bound_costs_about_as_much_in_every_script(name, unit):
    counter, text = get_counter(name), (unit * 100_000)[:100_000]
    msg = Msg(role="user", content=text)

    def fastest(work):
        times = []
        for _ in range(5):
            start = time.thread_time()
            work()
            times.append(time.thread_time() - start)
        return min(times)

    # Each character is looked up a few times; a search for places to cut at took a hundred times as long as encoding.
    assert fastest(lambda: counter.bound(msg)) < fastest(lambda: [ch for ch in text if ch == " "]) * 4
    assert counter.count(msg) <= counter.bound(msg)


@pytest.mark.parametrize("before", ["é", "\u1e69", "각", "\u0958"])
@pytest.mark.parametrize("at", [4095, 4096])
def test_row_24_a_bound_holds_where_accents_follow_a_cut(before, at):
    for counter in COUNTERS:
        for marks in ("\u0323", "\u0323\u0301", "\u11a8"):
            msg = Msg(role="user", content=" " * (at - 1) + before + marks)
            assert counter.count(msg) <= counter.bound(msg)
