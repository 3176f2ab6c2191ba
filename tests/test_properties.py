"""What every pass keeps, whatever the conversation, the configuration and the model."""

import asyncio
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autocontext import AutoContextMemory, Msg
from autocontext.testing import ScriptedModel, assistant, conversation, system
from autocontext.text.chat_rules import first_violation
from tests import invariants
from tests.conversations import histories, valid_histories
from tests.invariants import CONFIGS, ESTIMATE, REPLIES, assert_pairs_kept, beyond_one_reload, new_memory, unreachable

configs = st.sampled_from(sorted(CONFIGS))
models = st.sampled_from(sorted(REPLIES))
anything = histories(duplicates=True)


def passed(
    history: list[Msg], config: str, model: str = "good", *, estimate: bool = False
) -> tuple[AutoContextMemory, list[Msg]]:
    """A memory after one pass over a history, and its view before the pass."""
    memory = new_memory(config, model, estimate=estimate)
    memory.add_messages(history)
    before = memory.messages
    memory.compress_if_needed(force=True)
    return memory, before


@given(anything, configs, models)
def test_originals_are_what_was_added(history: list[Msg], config: str, model: str) -> None:
    memory, before = passed(history, config, model)
    assert before == history
    assert memory.get_original_memory_msgs() == history
    assert memory.get_original_memory_msgs() == [Msg.model_validate(m.to_dict()) for m in history]


@given(anything, configs, models)
def test_every_original_stays_reachable(history: list[Msg], config: str, model: str) -> None:
    memory, _ = passed(history, config, model)
    assert unreachable(memory, history) == []
    memory.add_messages(history)
    memory.compress_if_needed(force=True)
    assert unreachable(memory, history) == []


@given(anything, configs, models)
def test_a_pass_leaves_the_interface_of_the_whole_view(history: list[Msg], config: str, model: str) -> None:
    memory, before = passed(history, config, model)
    assert_pairs_kept(memory.messages, before)


@given(valid_histories(), configs, models)
def test_a_valid_chat_stays_valid(history: list[Msg], config: str, model: str) -> None:
    memory, before = passed(history, config, model)
    assert first_violation(before) is None
    assert first_violation(memory.messages) is None


@given(anything, configs, models)
def test_system_and_pinned_messages_stay_in_order(history: list[Msg], config: str, model: str) -> None:
    memory, before = passed(history, config, model)

    def fixed(messages: list[Msg]) -> list[Msg]:
        return [m for m in messages if m.role == "system" or m.metadata.get("pinned")]

    assert fixed(memory.messages) == fixed(before)


@given(anything, configs, models)
def test_sums_replay_and_state_hold(history: list[Msg], config: str, model: str) -> None:
    memory, _ = passed(history, config, model)
    invariants.check(memory)
    invariants.check_replay(memory._log)


@given(anything, configs, models)
def test_the_report_tells_what_happened(history: list[Msg], config: str, model: str) -> None:
    memory = new_memory(config, model)
    memory.add_messages(history)
    before, tokens = memory.messages, memory.token_count
    report = memory.compress_if_needed(force=True)
    after = memory.messages
    assert (report.tokens_before, report.messages_before) == (tokens, len(before))
    assert (report.tokens_after, report.messages_after) == (memory.token_count, len(after))
    saved = sum(s.tokens_saved for s in report.strategies)
    assert report.tokens_before - report.tokens_after == saved
    assert report.tokens_after < report.tokens_before if report else saved == 0
    assert not any(m.origin is not None and m.origin.kind == "ledger" for m in after)
    assert (report.outcome == "impossible") == (memory.token_count > memory.config.max_token)
    assert bool(report) == (after != before)
    changed = report.first_changed
    if changed is None:
        assert after == before
        assert report.prefix_tokens_invalidated == 0
    else:
        assert after[:changed] == before[:changed]
        assert after[changed : changed + 1] != before[changed : changed + 1]
        assert report.prefix_tokens_invalidated == report.tokens_before - sum(
            memory._token_sum.counter.count(m) for m in before[:changed]
        )


# A note that the last resort cuts stands for several messages, of which no one's number may stand in its mark.
@example([[assistant("All right."), assistant("All right."), system(" " * 20_000)]], "assistant notes")
@given(st.lists(valid_histories(max_moves=6), min_size=1, max_size=3), configs)
def test_one_reload_of_what_the_view_shows_gives_every_original(parts: list[list[Msg]], config: str) -> None:
    memory = AutoContextMemory(CONFIGS[config].model_copy(update=ESTIMATE), ScriptedModel(REPLIES["good"]))
    added: list[Msg] = []
    for n, part in enumerate(parts):
        added += (m.model_copy(update={"id": f"{n}-{m.id}"}) for m in [*part, *conversation(rounds=2, chars=300)])
        memory.add_messages(added[len(memory.get_original_memory_msgs()) :])
        for _ in range(3):
            memory.compress_if_needed(force=True)
            assert beyond_one_reload(memory, added) == []
    again = AutoContextMemory(memory.config)
    again.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    assert beyond_one_reload(again, added) == []


@given(anything, configs, models)
def test_every_edit_has_its_event_and_shrinks_unless_a_note_grows(history: list[Msg], config: str, model: str) -> None:
    memory, _ = passed(history, config, model)
    events = memory.get_compression_events()
    for event, replaced in zip(events, memory.get_offload_context().values(), strict=True):
        assert event.token_reduction == event.metadata["tokenBefore"] - event.metadata["tokenAfter"]
        if event.token_reduction <= 0:  # a fold's note alone may grow, where its pass has the room
            assert [m.origin and m.origin.kind for m in replaced] == ["fold"]


@given(anything, configs, models)
def test_sync_and_async_give_the_same(history: list[Msg], config: str, model: str) -> None:
    one, _ = passed(history, config, model, estimate=True)
    other = new_memory(config, model, estimate=True)
    other.add_messages(history)
    asyncio.run(other.acompress_if_needed(force=True))
    assert invariants.without_accidents(other) == invariants.without_accidents(one)


@given(anything, configs, models)
def test_loading_a_state_is_the_identity(history: list[Msg], config: str, model: str) -> None:
    memory, _ = passed(history, config, model)
    saved = memory.state_dict()
    other = new_memory(config)
    other.load_state_dict(json.loads(json.dumps(saved)))
    assert other.state_dict() == saved
    assert other.messages == memory.messages
    assert other.get_compression_events() == memory.get_compression_events()
    for key in memory.get_offload_context():
        assert other.reload(key) == memory.reload(key)


@given(anything, st.sampled_from(sorted(set(CONFIGS) - {"java"})))
def test_another_pass_does_nothing_or_shrinks(history: list[Msg], config: str) -> None:
    memory, _ = passed(history, config, estimate=True)
    sizes = [memory.token_count]
    while memory.compress_if_needed(force=True):
        sizes.append(memory.token_count)
        assert sizes[-1] < sizes[-2]
    settled = memory.messages
    assert not memory.compress_if_needed(force=True)
    assert memory.messages == settled


@given(anything, configs)
def test_between_passes_the_prefix_is_untouched(history: list[Msg], config: str) -> None:
    memory = new_memory(config)
    previous: list[Msg] = []
    for m in history:
        memory.add_message(m)
        events = len(memory.get_compression_events())
        context = memory.get_messages()
        if len(memory.get_compression_events()) == events:
            assert context == [*previous, m]
        previous = context


@pytest.mark.parametrize("config", sorted(CONFIGS))
def test_an_empty_memory_survives_a_pass(config: str) -> None:
    memory = AutoContextMemory(CONFIGS[config], ScriptedModel([], strict_script=True))
    assert not memory.compress_if_needed(force=True)
    assert memory.get_messages() == []
