"""Questions to the model: how long an answer may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.compression.questions import RequestBuilder, chunks, write
from autocontext.history.proposals import Question
from autocontext.testing import ScriptedModel, tool_exchange, user
from tests.production.agents import notes, small

ROOM = 300


def limits(question: Question) -> tuple[int, ...]:
    """Characters that the answers to the question's chunks must stay under."""
    config = AutoContextConfig(summary_max_input_tokens=ROOM)
    return next(write([question], RequestBuilder(config, "English", None))).limits


@given(st.lists(st.integers(1, ROOM), min_size=3, max_size=40))
def test_row_36_a_small_chunk_may_have_a_longer_summary_and_all_together_get_shorter(sizes: list[int]) -> None:
    question = Question("tool_run", tuple("word" * n for n in sizes), 100, tuple(sizes))
    asked = [sum(map(len, c.parts)) for c in chunks(question, ROOM)]
    if len(asked) > 1:
        assert min(limits(question)) >= sum(asked) // len(asked) // 4
        assert sum(limits(question)) < sum(asked)


def test_row_36_a_short_rest_cut_off_at_the_end_does_not_make_the_reply_unusable() -> None:
    assert limits(Question("tool_run", ("word" * ROOM, "Ok."), 100, (ROOM, 1)))[1] > len("One sentence about the rest.")


def test_row_36_a_chunk_may_take_a_quarter_of_the_mean_at_least() -> None:
    assert limits(Question("tool_run", ("word" * ROOM, "Ok."), 100, (ROOM, 1)))[1] == (4 * ROOM + 1 + 3 + 1) // 2 // 4


def test_row_36_calls_of_plan_tools_count_as_replaced_though_no_model_reads_them() -> None:
    model = ScriptedModel("A summary that is longer than the one call. " * 3)
    memory = AutoContextMemory(small(strategies=("current_round",), last_resort=False), model)
    plan = [m for n in range(4) for m in tool_exchange("finish_subtask", {"note": "all of it " * 150}, f"ok {n}")]
    read = tool_exchange("list_files", {}, "a.py b.py")
    memory.add_messages([user("Do it."), *read, *plan, *tool_exchange("read_file", {}, "...")])
    report = memory.compress_if_needed(force=True)
    assert (report.outcome, report.fallbacks) == ("applied", 0)
    assert model.requests[0].prompt.count("finish_subtask") == 0
    assert "A summary that is longer" in notes(memory)[0].text


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ((100, 200), [2]),
        ((100, 201), [1, 1]),
        ((100, 200, 1), [2, 1]),
        ((300, 1), [1, 1]),
        ((301,), [1, 1]),
    ],
    ids=str,
)
def test_chunks_are_filled_to_the_last_token(sizes: tuple[int, ...], parts: list[int]) -> None:
    question = Question("tool_run", tuple("word" * n for n in sizes), 100, sizes)
    found = chunks(question, ROOM)
    assert [len(c.parts) for c in found] == parts
    assert (found == [question]) is (len(parts) == 1)
    assert max(sum(c.sizes) for c in found) <= ROOM
