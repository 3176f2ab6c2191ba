"""What holds for every state: nothing is lost, no pair is broken, twice is once."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext import Msg
from autocontext.content import SqliteContentStore
from autocontext.history.view import open_pairs
from autocontext.optimizer.summary import is_summary
from autocontext.sessions import SessionState, StateConfig, StateOptimizer, restore_state_messages
from autocontext.testing import assert_valid_chat
from tests.conversations import histories, valid_histories
from tests.profiles import share


@st.composite
def configs(draw: st.DrawFn) -> StateConfig:
    most = draw(st.integers(2, 20))
    return StateConfig(
        max_conversation_history_size=most,
        context_window_size=draw(st.integers(0, most)),
        min_history_length=draw(st.integers(0, 12)),
        max_memory_context_size=draw(st.integers(0, 8)),
        offload_chars=draw(st.sampled_from([0, 300, 1_000])),
        preview_chars=draw(st.sampled_from([0, 50, 200])),
        relevance_threshold=draw(st.sampled_from([0.0, 0.1, 0.3])),
        token_counter="bytes4",  # noqa: S106 (counts tokens, is none)
    )


@settings(max_examples=share(80))
@given(histories(max_moves=14), configs(), st.sampled_from(["", "Why does main.py fail?", "test 12"]))
def test_nothing_is_lost_nothing_is_broken_and_twice_is_once(
    messages: list[Msg], config: StateConfig, query: str
) -> None:
    store = SqliteContentStore(":memory:")
    optimizer = StateOptimizer(config, store)
    state = SessionState("s", "u", messages, [{"role": "memory", "content": "likes tea"}], ["tests"], query)
    before = state.to_json()
    once, report = optimizer.optimize(state)
    assert state.to_json() == before, "the input state stays"
    assert restore_state_messages(once.messages, store=store) == _in_order(once.messages, store, list(messages))
    assert report.broken_pairs == 0
    assert report.retrievable == 1.0
    assert report.original_bytes == report.retrievable_bytes
    assert not any("skipped" in reason for reason in report.kept), "no step ever has to be skipped"
    assert [m for m in once.messages if m.role == "system" and not is_summary(m)] == [
        m for m in messages if m.role == "system"
    ]
    assert len(once.memory_context) <= config.max_memory_context_size
    twice, again = optimizer.optimize(once)
    assert twice == once
    assert again.dropped == ()
    for dropped in report.dropped:
        page = store.read(dropped.ref)
        assert page is not None
        lines = [Msg.model_validate(json.loads(line)) for line in page.text.splitlines()]
        assert tuple(m.id for m in lines) == dropped.message_ids
    assert SessionState.from_json(once.to_json()) == once
    store.close()


def _in_order(messages_after: list[Msg], store: SqliteContentStore, messages: list[Msg]) -> list[Msg]:
    """The originals of a state; messages that stay while others around them are summarised come after the summary."""
    originals = restore_state_messages(messages_after, store=store)
    assert sorted(m.id for m in originals) == sorted(m.id for m in messages)
    by_id = {m.id: m for m in messages}
    return [by_id[m.id] for m in originals]


@settings(max_examples=share(40))
@given(valid_histories(max_moves=14), configs())
def test_a_valid_history_stays_valid(messages: list[Msg], config: StateConfig) -> None:
    store = SqliteContentStore(":memory:")
    once, _ = StateOptimizer(config, store).optimize(SessionState("s", messages=messages))
    assert_valid_chat(once.messages)
    assert open_pairs(once.messages) == open_pairs(messages)
    store.close()


@settings(max_examples=share(20))
@given(valid_histories(min_moves=4, max_moves=14), configs())
def test_a_state_saved_at_every_turn_loses_nothing(messages: list[Msg], config: StateConfig) -> None:
    store = SqliteContentStore(":memory:")
    optimizer = StateOptimizer(config, store)
    state = SessionState("s")
    for start in range(0, len(messages), 3):
        state = state.changed(messages=[*state.messages, *messages[start : start + 3]])
        state, report = optimizer.optimize(state)
        assert report.broken_pairs == 0
    originals = restore_state_messages(state.messages, store=store)
    assert {m.id: m for m in originals} == {m.id: m for m in messages}
    assert len(originals) == len(messages)
    store.close()


@settings(max_examples=share(15))
@given(histories(max_moves=10), configs())
def test_sync_and_async_give_the_same(messages: list[Msg], config: StateConfig) -> None:
    state = SessionState("s", messages=messages, user_input="test")
    one, two = SqliteContentStore(":memory:"), SqliteContentStore(":memory:")
    assert asyncio.run(StateOptimizer(config, one).aoptimize(state)) == StateOptimizer(config, two).optimize(state)
    one.close()
    two.close()


@given(histories(max_moves=14), configs())
def test_without_a_store_no_message_changes(messages: list[Msg], config: StateConfig) -> None:
    once, report = StateOptimizer(config).optimize(SessionState("s", messages=messages))
    assert once.messages == list(messages)
    assert report.dropped == ()
