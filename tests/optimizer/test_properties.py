"""What holds for every state: nothing is lost, no pair is broken, twice is once."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autocontext import Msg
from autocontext.content import SqliteContentStore
from autocontext.errors import StoreCorruptError
from autocontext.history.view import open_pairs
from autocontext.optimizer.replacements import dump_messages
from autocontext.optimizer.summary import is_summary
from autocontext.sessions import (
    ConversationCompressor,
    SessionState,
    StateConfig,
    StateOptimizer,
    restore_state_messages,
)
from autocontext.testing import assert_valid_chat, user
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
    assert dump_messages(restore_state_messages(once.messages, store=store)) == dump_messages(messages)
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
        lines = [json.loads(line) for line in page.text.splitlines()]
        if dropped.reason == "memory context":
            assert not any(line in once.memory_context for line in lines)
        else:
            assert tuple(Msg.model_validate(line).id for line in lines) == dropped.message_ids
    assert SessionState.from_json(once.to_json()) == once
    store.close()


@pytest.mark.slow
@settings(max_examples=share(60))
@given(st.lists(histories(max_moves=8), min_size=2, max_size=4), configs())
def test_a_state_that_is_optimised_as_it_grows_comes_back_in_order(parts: list[list[Msg]], config: StateConfig) -> None:
    store = SqliteContentStore(":memory:")
    optimizer = StateOptimizer(config, store)
    state, messages = SessionState("s"), list[Msg]()
    for number, part in enumerate(parts):
        new = [m.model_copy(update={"id": f"{number}-{m.id}"}) for m in part]
        messages += new
        state, _ = optimizer.optimize(state.changed(messages=[*state.messages, *new]))
        loaded = SessionState.from_json(state.to_json())
        assert dump_messages(restore_state_messages(loaded.messages, store=store)) == dump_messages(messages)
    store.close()


@settings(max_examples=share(30))
@given(histories(max_moves=14), configs(), st.data())
def test_what_a_user_takes_out_of_a_state_moves_nothing_else(
    messages: list[Msg], config: StateConfig, data: st.DataObject
) -> None:
    store = SqliteContentStore(":memory:")
    once, _ = StateOptimizer(config, store).optimize(SessionState("s", messages=messages))
    assume(once.messages)
    gone = data.draw(st.integers(0, len(once.messages) - 1))
    left = [m for i, m in enumerate(once.messages) if i != gone]
    restored = [m.id for m in restore_state_messages(left, store=store)]
    assert restored == [m.id for m in messages if m.id in restored]
    store.close()


@pytest.mark.parametrize("damaged", [7, "ab", [["a"]], [["a", "b"]], [["a", 2], ["b", 1]], [["a", None]], {"a": 1}])
def test_damaged_places_of_a_summary_are_named(damaged: object) -> None:
    store = SqliteContentStore(":memory:")
    ref = store.put(dump_messages([user("one"), user("two")])).ref
    note = Msg(id="n", role="system", content="", metadata={"_content_ref": ref, "_between": damaged})
    with pytest.raises(StoreCorruptError, match="message n: its metadata `_between` is damaged"):
        restore_state_messages([note, user("x")], store=store)
    store.close()


@settings(max_examples=share(40))
@given(valid_histories(max_moves=14), configs())
def test_a_valid_history_stays_valid(messages: list[Msg], config: StateConfig) -> None:
    store = SqliteContentStore(":memory:")
    once, _ = StateOptimizer(config, store).optimize(SessionState("s", messages=messages))
    assert_valid_chat(once.messages)
    assert open_pairs(once.messages) == open_pairs(messages)
    store.close()


@pytest.mark.slow
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


@settings(max_examples=share(30))
@given(histories(max_moves=14), configs())
def test_without_a_store_of_its_user_s_the_optimiser_keeps_every_byte_itself(
    messages: list[Msg], config: StateConfig
) -> None:
    store = SqliteContentStore(":memory:")
    state = SessionState("s", messages=messages)
    own = StateOptimizer(config)
    once, report = own.optimize(state)
    assert (once, report) == StateOptimizer(config, store).optimize(state)
    assert dump_messages(restore_state_messages(once.messages, store=own.store)) == dump_messages(messages)

    compressor = ConversationCompressor(config)
    shorter = compressor.compress_conversation_history(messages)
    assert shorter == ConversationCompressor(config, store).compress_conversation_history(messages)
    assert dump_messages(restore_state_messages(shorter, store=compressor.store)) == dump_messages(messages)
    store.close()
