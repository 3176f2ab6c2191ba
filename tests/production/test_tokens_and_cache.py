"""Token counts that are what is sent, and a prompt cache that only a pass invalidates."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, ImageBlock, Msg, TextBlock
from autocontext.adapters.openai_chat import to_openai
from autocontext.testing import ScriptedModel, assistant, tool_exchange, user
from autocontext.tokens import get_counter
from tests.conversations import PIXEL, valid_histories
from tests.invariants import CONFIGS, new_memory, owed, recount
from tests.production.agents import day, rounds_only, small, with_reports

SCHEMA = {"type": "function", "function": {"name": "search", "description": "Searches the shop. " * 40}}


# ----------------------------------------------------------- token counts of calls are 0, and of images 262k
def test_set_overhead_counts_system_text_and_tool_schemas_towards_the_trigger() -> None:
    memory = AutoContextMemory(small(), ScriptedModel("In short."))
    memory.add_messages(day(3))
    bare = memory.token_count
    assert not memory.compress_if_needed()
    memory.set_overhead("You are the shop's agent. " * 200, SCHEMA)
    besides = memory.token_count - bare
    count = get_counter("o200k_base").count_text
    assert besides == count("You are the shop's agent. " * 200) + count(json.dumps(SCHEMA))
    assert memory.compress_if_needed().outcome != "not_needed"
    memory.set_overhead()
    assert memory.token_count == recount(memory)


def test_record_usage_anchors_the_count_and_an_edit_leaves_what_remains_its_share() -> None:
    memory = AutoContextMemory(rounds_only(max_token=3_000), ScriptedModel("In short."))
    memory.add_messages(day(3))
    ours = memory.token_count
    memory.record_usage(ours + 500)
    assert memory.token_count == ours + 500
    reply = assistant("It computes prices.")
    memory.add_message(reply)
    assert memory.token_count == ours + 500 + get_counter("o200k_base").count(reply)
    before = recount(memory)
    assert memory.compress_if_needed(force=True)
    now = recount(memory)
    assert memory.token_count == pytest.approx(now + 500 * now / before, abs=3)


def test_record_usage_makes_the_trigger_go_by_the_providers_count() -> None:
    memory = AutoContextMemory(rounds_only(max_token=3_000), ScriptedModel("In short."))
    memory.add_messages(day(3))
    assert memory.compress_if_needed().outcome == "not_needed"
    memory.record_usage(2_900)
    assert memory.compress_if_needed().outcome == "applied"


def test_record_usage_is_for_the_view_that_was_read_last() -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."))
    memory.add_messages(day(3))
    memory.to_openai()
    sent, meanwhile = memory.token_count, assistant("It computes prices.")
    memory.add_message(meanwhile)
    memory.record_usage(sent + 500)
    assert memory.token_count == sent + 500 + get_counter("o200k_base").count(meanwhile)
    memory.to_openai()
    memory.delete_message(0)
    before = memory.token_count
    memory.record_usage(50_000)  # of a request that had more than is in view now
    assert memory.token_count == before


def test_record_usage_holds_for_what_a_deletion_leaves() -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."))
    memory.add_messages(day(3))
    before = recount(memory)
    memory.record_usage(50_000)
    memory.delete_message(0)
    assert memory.token_count == pytest.approx(50_000 * recount(memory) / before, abs=2)


def test_an_image_counts_by_its_size_and_not_by_its_base64() -> None:
    memory = AutoContextMemory(AutoContextConfig())
    tiny = ImageBlock(source={"type": "base64", "media_type": "image/png", "data": PIXEL})
    # The same picture with 300 kB of text behind it, as cameras write.
    padded = ImageBlock(source={"type": "base64", "media_type": "image/png", "data": PIXEL.rstrip("=") + "A" * 300_000})
    memory.add_message(Msg(role="user", content=[TextBlock(text="What is this?"), tiny]))
    small_one = memory.token_count
    memory.add_message(Msg(role="user", content=[TextBlock(text="What is this?"), padded]))
    assert memory.token_count < 2 * small_one + 100


def test_tool_calls_and_results_count_with_all_that_is_sent_of_them() -> None:
    memory = AutoContextMemory(AutoContextConfig())
    memory.add_messages(tool_exchange("write_file", {"path": "a.py", "text": "x = 1\n" * 1_000}, "written " * 1_000))
    assert memory.token_count > 5_000


# ---------------------------------------------------------- prompt cache destroyed by per-turn edits
@given(valid_histories(max_moves=16, surrogates=False), st.sampled_from(sorted(CONFIGS)))
def test_between_passes_the_outgoing_prefix_is_byte_identical(history: list[Msg], config: str) -> None:
    memory = new_memory(config)
    reports = with_reports(memory)
    sent: list[str] = []
    for m in history:
        memory.add_message(m)
        if owed(memory.messages)[0]:
            continue  # nobody sends a context while tools are still running
        passes = len([r for r in reports if r])
        out = [json.dumps(d, ensure_ascii=False) for d in to_openai(memory.get_messages())]
        if len([r for r in reports if r]) == passes:
            assert out[: len(sent)] == sent
        sent = out


@pytest.mark.slow
def test_all_edits_of_a_pass_land_before_the_context_is_sent_again() -> None:
    memory = AutoContextMemory(small(), ScriptedModel("In short."))
    breaks = turns = 0
    sent: list[str] = []
    for m in day(60, size=2):
        memory.add_message(m)
        out = [json.dumps(d) for d in to_openai(memory.get_messages())]
        breaks += out[: len(sent)] != sent
        turns += 1
        sent = out
    assert 0 < breaks <= memory.usage.passes
    assert breaks < turns / 6


def test_the_report_says_the_first_changed_position_and_the_tokens_invalidated() -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."))
    memory.add_messages([user("Hello."), assistant("Hello!"), *day(4)])
    before = memory.messages
    report = memory.compress_if_needed(force=True)
    after = memory.messages
    assert report.first_changed == 3
    assert after[:3] == before[:3]
    assert after[3] != before[3]
    count = get_counter("o200k_base").count
    assert report.prefix_tokens_invalidated == sum(map(count, before[3:]))


def test_a_pass_that_changes_nothing_invalidates_nothing() -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."))
    memory.add_messages([user("Hello."), assistant("Hello!")])
    report = memory.compress_if_needed(force=True)
    assert (report.first_changed, report.prefix_tokens_invalidated) == (None, 0)
