"""Going on with a model of another window: an open memory, and a session that was stored."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.errors import ConfigError
from autocontext.events import CompressionEvent
from autocontext.history.entries import Edited
from autocontext.messages import is_pinned, with_pin
from autocontext.stores import InMemorySessionStore, SessionKey
from autocontext.testing import assert_valid_chat, tool_exchange, user
from tests.conversations import valid_histories

SMALL, LARGE = 4_000, 16_000
WINDOWS = st.sampled_from([500, 1_000, SMALL, 8_000, LARGE, 200_000])


def readings(memory: AutoContextMemory, n: int) -> list[Msg]:
    """An agent that reads n parts; the context that it has at the end."""
    if not memory.messages:
        memory.add_message(user("Please read every part."))
    for _ in range(n):
        part = len(memory.get_original_memory_msgs())
        memory.add_messages(tool_exchange("read", {"path": f"part_{part}.py"}, f"line {part} of it\n" * 40))
        memory.get_messages()
    return memory.get_messages()


def sized(window: int, *, msg_threshold: int | None = None, **options: Any) -> AutoContextMemory:
    fields: dict[str, Any] = {"token_counter": "bytes4"}
    if msg_threshold is not None:
        fields["msg_threshold"] = msg_threshold
    return AutoContextMemory(AutoContextConfig.for_window(window, **fields), **options)


def is_whole(memory: AutoContextMemory, view: Sequence[Msg]) -> bool:
    return list(view) == memory.get_original_memory_msgs()


# ------------------------------------------------------------------------------------------------ the configuration
@given(WINDOWS, WINDOWS, st.sampled_from([{}, {"keep_recent": 0.1}, {"last_resort": False, "msg_threshold": 7}]))
def test_settings_by_the_window_follow_it_and_others_stay(now: int, then: int, fields: dict[str, Any]) -> None:
    config = AutoContextConfig.for_window(now, **fields).resized(then)
    assert config == AutoContextConfig.for_window(then, **fields)


@given(WINDOWS, WINDOWS)
def test_of_the_reference_s_settings_only_the_window_changes(now: int, then: int) -> None:
    config = AutoContextConfig(max_token=now).resized(then)
    assert config == AutoContextConfig(max_token=then)


@pytest.mark.parametrize("window", [499, 0, -1, "big", None, True])
def test_a_wrong_window_is_refused_and_changes_nothing(window: Any) -> None:
    memory = sized(SMALL)
    with pytest.raises(ConfigError, match="window"):
        memory.resize(window)
    assert memory.config.max_token == SMALL


# ---------------------------------------------------------------------------------------------------- an open memory
@given(valid_histories(), st.lists(WINDOWS, min_size=1, max_size=4))
@example([user("Hello"), user("Again")], [500, 200_000])
@example([with_pin(user(" " * 20_000)) for _ in range(5)], [LARGE])
def test_in_any_window_the_view_is_valid_and_nothing_is_lost(history: list[Msg], windows: list[int]) -> None:
    memory = sized(SMALL)
    memory.add_messages(history)
    originals = memory.get_original_memory_msgs()
    fixed = memory.count(m for m in history if m.role == "system" or is_pinned(m))
    for window in windows:
        memory.resize(window)
        assert_valid_chat(memory.to_openai())
        assert not memory.overflow() or window < LARGE or fixed > window
        assert memory.get_original_memory_msgs() == originals


def test_a_larger_window_shows_again_what_half_of_it_holds() -> None:
    memory = sized(SMALL)
    readings(memory, 60)
    before = memory.token_count
    memory.resize(LARGE)
    assert before < memory.token_count <= LARGE // 2
    assert memory.messages[-40:] == memory.get_original_memory_msgs()[-40:]  # the newest first
    memory.resize("64k")
    assert is_whole(memory, memory.get_messages())


@pytest.mark.slow
def test_a_larger_window_makes_no_pass_due() -> None:
    memory = sized(SMALL)
    memory.add_message(user("Please count."))
    for n in range(700):  # as many messages as a larger window holds tokens for, and more than trigger a pass
        memory.add_messages(tool_exchange("count", {"n": n}, str(n)))
        memory.get_messages()
    memory.resize(8_000)
    view = memory.messages
    assert len(view) <= memory.config.msg_threshold
    assert memory.get_messages() == view


@pytest.mark.slow
def test_a_larger_window_shows_again_half_as_many_messages_as_make_a_pass_due() -> None:
    store = InMemorySessionStore()
    memory = sized(SMALL, msg_threshold=40, store=store, session_id="42")
    memory.add_message(user("Please count."))
    for n in range(150):
        memory.add_messages(tool_exchange("count", {"n": n}, str(n)))
        memory.get_messages()
    for threshold in (120, 160, 200):
        view = sized(200_000, msg_threshold=threshold, store=store, session_id="42").get_messages()
        assert threshold * 0.4 < len(view) <= threshold // 2


def test_a_smaller_window_makes_a_pass_at_the_next_request() -> None:
    memory = sized(LARGE)
    whole = readings(memory, 40)
    assert is_whole(memory, whole)
    memory.resize(SMALL)
    memory.get_messages()
    assert memory.token_count <= SMALL


def test_what_was_condensed_on_purpose_stays_in_the_same_window() -> None:
    memory = sized(LARGE)
    readings(memory, 40)
    assert memory.compress_if_needed(force=True, max_token=SMALL)
    view = memory.get_messages()
    memory.resize(LARGE)
    assert memory.get_messages() == view


def test_what_the_agent_has_archived_stays_archived() -> None:
    memory = sized(SMALL)
    readings(memory, 3)
    assert "m4-m5" in memory.tools("archive")[0](messages="m4-m5", reason="read")
    archived = memory.messages
    memory.resize("200k")
    assert memory.get_messages() == archived


def test_overhead_and_listeners_outlive_a_resize() -> None:
    memory, seen = sized(SMALL), []
    memory.set_overhead("You are a careful assistant. " * 20)
    memory.on_compression(seen.append)
    before = memory.token_count
    memory.resize(1_000)
    assert memory.token_count == before
    readings(memory, 10)
    assert seen
    assert memory.usage.passes == len(seen)


# ---------------------------------------------------------------------------------------------------- a stored session
@given(st.sampled_from([8_000, LARGE, 200_000]), st.integers(5, 60))
def test_opened_in_a_larger_window_a_session_shows_what_half_of_it_holds(window: int, n: int) -> None:
    store = InMemorySessionStore()
    memory = sized(SMALL, store=store, session_id="42")
    readings(memory, n)
    before = memory.token_count
    again = sized(window, store=store, session_id="42")
    view = again.get_messages()
    assert before <= again.token_count <= max(before, window // 2)
    assert is_whole(memory, view) or again.token_count > window // 4
    assert sized(window, store=store, session_id="42").get_messages() == view


def test_opened_in_its_window_a_session_stays_as_it_is(tmp_path: Path) -> None:
    with AutoContextMemory.open(tmp_path / "agent.db", session_id="42", window=LARGE) as memory:
        readings(memory, 20)
        memory.compress_if_needed(force=True, max_token=1_000)
        view = memory.get_messages()
    with AutoContextMemory.open(tmp_path / "agent.db", session_id="42", window=LARGE) as memory:
        assert memory.get_messages() == view


def test_opened_in_a_larger_window_a_session_stays_as_it_is_where_nothing_says_how_large_its_window_was() -> None:
    store, earlier = InMemorySessionStore(), InMemorySessionStore()
    readings(sized(SMALL, store=store, session_id="42"), 40)
    key = SessionKey("", "42")

    def without_window(event: CompressionEvent) -> CompressionEvent:
        return event.model_copy(update={"metadata": {k: v for k, v in event.metadata.items() if k != "window"}})

    entries = [
        e.model_copy(update={"events": tuple(map(without_window, e.events))}) if isinstance(e, Edited) else e
        for e in store.read(key)
    ]
    earlier.append(key, entries, after=0)
    view = sized(SMALL, store=earlier, session_id="42").get_messages()
    assert sized(200_000, store=earlier, session_id="42").get_messages() == view


def test_asynchronous_callers_see_the_larger_window_too(tmp_path: Path) -> None:
    with AutoContextMemory.open(tmp_path / "agent.db", session_id="42", window=SMALL) as memory:
        readings(memory, 40)
    with AutoContextMemory.open(tmp_path / "agent.db", session_id="42", window="200k") as memory:
        assert is_whole(memory, asyncio.run(memory.aget_messages()))


def test_a_process_that_writes_meanwhile_costs_no_turn() -> None:
    store = InMemorySessionStore()
    readings(sized(SMALL, store=store, session_id="42"), 40)
    first, second = (sized(200_000, store=store, session_id="42") for _ in range(2))
    second.add_message(user("I am faster."))
    assert first.get_messages()  # sees what the other has written, and tries again when it is read next
    assert is_whole(first, first.get_messages())
