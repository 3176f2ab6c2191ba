"""Histories, A to F, in which the original lost what mattered; here each keeps it."""

from __future__ import annotations

import pytest

from autocontext import Msg, TextBlock, ToolResultBlock, ToolUseBlock
from autocontext.content import SqliteContentStore
from autocontext.history.view import open_pairs
from autocontext.sessions import (
    ConversationCompressor,
    OptimizationReport,
    SessionState,
    StateConfig,
    StateOptimizer,
    restore_state_messages,
)
from autocontext.testing import assert_valid_chat, assistant, tool_call, tool_result, user
from tests.invariants import assert_pairs_kept

LONG = "and so on, " * 40
ROOMY = StateConfig(max_conversation_history_size=200)
"""No summary: the steps before it are looked at."""


@pytest.fixture
def store() -> SqliteContentStore:
    return SqliteContentStore(":memory:")


def optimised(
    messages: list[Msg], store: SqliteContentStore, config: StateConfig = ROOMY
) -> tuple[list[Msg], OptimizationReport]:
    state, report = StateOptimizer(config, store).optimize(SessionState("s", messages=messages))
    assert report.broken_pairs == 0
    assert report.retrievable == 1.0
    assert sorted(m.id for m in restore_state_messages(state.messages, store=store)) == sorted(m.id for m in messages)
    assert_pairs_kept(state.messages, messages)
    return state.messages, report


def exchange(i: int, tool: str, output: str, *, is_error: bool = False, **arguments: object) -> list[Msg]:
    call = tool_call(tool, arguments, id=f"c{i}")
    return [call, tool_result(f"c{i}", output, name=tool, is_error=is_error)]


def texts(messages: list[Msg]) -> list[str]:
    return [r.text for m in messages for r in m.tool_results]


def test_a_twelve_reads_of_twelve_files_all_stay(store: SqliteContentStore) -> None:
    reads = [m for i in range(12) for m in exchange(i, "read_file", f"content {i} {LONG}", path=f"/src/{i}.py")]
    messages = [user("read them all"), *reads, assistant("done")]
    result, report = optimised(messages, store)
    assert result == messages
    assert report.dropped == ()


def test_b_a_page_about_errors_is_no_error_and_errors_are_found_whatever_they_look_like(
    store: SqliteContentStore,
) -> None:
    good = f"Docs page: Error handling in Python. {LONG}"
    trace = f"Traceback (most recent call last):\n  File 'x.py'\n{LONG}\nKeyError: 'a'"
    denied = f"error: permission denied {LONG}"
    runs = [exchange(i, "fetch", text, url="https://a") for i, text in enumerate((good, trace, denied))]
    messages = [user("look it up"), *(m for run in runs for m in run), *[assistant(f"step {i}") for i in range(6)]]
    result, report = optimised(messages, store)
    assert texts(result) == [good, trace, denied], "failures never replace the good result, nor each other across kinds"
    assert report.errors["total_errors"] == 2
    assert report.errors["error_types"] == {"general": 1, "permission": 1}


def test_c_a_write_that_failed_after_another_succeeded_is_still_told(store: SqliteContentStore) -> None:
    failure = f"Error: disk full, /b was not written {LONG}"
    messages = [
        user("write both"),
        *exchange(1, "write", f"ok {LONG}", path="/a"),
        *exchange(2, "write", failure, path="/b"),
        *[assistant(f"step {i}") for i in range(8)],
    ]
    result, _ = optimised(messages, store)
    assert texts(result)[1] == failure
    summed, _ = optimised([*messages, *_rounds(12)], store, StateConfig())
    assert "disk full, /b was not written" in summed[0].text
    assert "write(path=/b): failed" in summed[0].text


def test_d_eight_rounds_answered_done_keep_their_answers(store: SqliteContentStore) -> None:
    messages = [m for i in range(8) for m in (user(f"task {i}"), assistant("Done."))]
    result, _ = optimised(messages, store)
    assert result == messages
    assert_valid_chat(result)


def test_e_answers_that_differ_in_values_only_all_stay(store: SqliteContentStore) -> None:
    messages = [user("count")]
    messages += [Msg(role="assistant", content=[TextBlock(text="value"), TextBlock(text=str(i))]) for i in range(12)]
    result, _ = optimised(messages, store)
    assert result == messages


@pytest.mark.slow
def test_f_a_history_cut_between_call_and_result_is_parted_elsewhere(store: SqliteContentStore) -> None:
    rounds = _rounds(12)
    for cut in range(len(rounds) - 20, len(rounds)):
        for config in (StateConfig(), StateConfig(max_conversation_history_size=5, context_window_size=3)):
            result, _ = optimised(rounds[: cut + 1], store, config)
            if open_pairs(rounds[: cut + 1]):
                assert open_pairs(result).unanswered_calls == open_pairs(rounds[: cut + 1]).unanswered_calls
            else:
                assert_valid_chat(result)
    orphan, _ = optimised(rounds[2:], store, StateConfig())
    assert_pairs_kept(orphan, rounds[2:])


def _rounds(count: int) -> list[Msg]:
    messages = []
    for i in range(count):
        call = Msg(role="assistant", content=[ToolUseBlock(id=f"r{i}{j}", name="look", input={"n": i}) for j in "ab"])
        results = [ToolResultBlock(id=f"r{i}{j}", output=f"seen {i} {j}") for j in "ab"]
        messages += [user(f"question {i}"), call, Msg(role="tool", content=results[:1])]
        messages += [Msg(role="tool", content=results[1:]), assistant(f"answer {i}")]
    return messages


def test_equal_calls_keep_their_places_and_the_newest_its_text(store: SqliteContentStore) -> None:
    first, second = f"version 1 {LONG}", f"version 2 {LONG}"
    messages = [
        user("watch it"),
        *exchange(1, "read", first, path="/a", line=1),
        *exchange(2, "write", "ok", path="/a"),
        *exchange(3, "read", second, line=1, path="/a"),
        *[assistant(f"step {i}") for i in range(8)],
    ]
    result, report = optimised(messages, store)
    assert [m.id for m in result] == [m.id for m in messages]
    assert texts(result)[0].startswith("[Superseded by call c3 (same arguments). Read: context_reload(")
    assert texts(result)[1:] == ["ok", second]
    page = store.read(result[2].metadata["_content_ref"])
    assert page is not None
    assert page.text == messages[2].model_dump_json()
    assert [(d.message_ids, d.reason) for d in report.dropped] == [((messages[2].id,), "superseded")]


def test_a_failure_is_removed_only_after_the_same_call_succeeded(store: SqliteContentStore) -> None:
    bad, worse = f"Error: not found /a {LONG}", f"Error: not found /b {LONG}"
    messages = [
        user("go"),
        *exchange(1, "read", bad, path="/a"),
        *exchange(2, "read", worse, path="/b"),
        *exchange(3, "read", f"fine {LONG}", path="/a"),
        *exchange(4, "read", f"fine {LONG}", path="/b"),
        *[assistant(f"step {i}") for i in range(8)],
    ]
    result, _ = optimised(messages, store)
    assert texts(result)[0].startswith("[Failed: Error: not found /a")
    assert "Succeeded in call c3." in texts(result)[0]
    assert texts(result)[1] == worse, "the last failure of its kind stays"


def test_adjacent_equal_answers_of_one_turn_become_one(store: SqliteContentStore) -> None:
    messages = [user("go"), *[assistant("I am on it.") for _ in range(11)], assistant("done")]
    result, report = optimised(messages, store)
    assert [m.text for m in result] == ["go", "I am on it.", "done"]
    assert result[1].id == messages[11].id
    assert report.dropped[0].message_ids == tuple(m.id for m in messages[1:12])
    assert restore_state_messages(result, store=store) == messages


def test_calls_without_known_arguments_are_never_taken_for_equal(store: SqliteContentStore) -> None:
    orphans = [tool_result(f"x{i}", f"same {LONG}") for i in range(12)]
    result, _ = optimised(orphans, store)
    assert result == orphans


def test_short_histories_stay_as_they_are(store: SqliteContentStore) -> None:
    messages = [user("go"), *exchange(1, "read", LONG, path="/a"), *exchange(2, "read", LONG, path="/a")]
    assert optimised(messages, store)[0] == messages
    compressor = ConversationCompressor(store=store)
    assert compressor.compress_conversation_history(messages) == messages
    more = [*messages, *[assistant(f"{i}") for i in range(8)]]
    messages = compressor.compress_conversation_history(more)
    assert texts(messages)[0].startswith("[Same result as call c2")
    stats = compressor.get_compression_stats(more, messages)
    assert stats["original_length"] == stats["compressed_length"] == 13
    assert stats["compression_ratio"] < 1
    assert 0 < stats["reduction_percentage"] < 100
    own = ConversationCompressor()
    assert own.compress_conversation_history(more) == messages
    assert restore_state_messages(messages, store=own.store) == more
