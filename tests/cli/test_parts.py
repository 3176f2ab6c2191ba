"""Properties of the parts: reading, plots, tables, and a proof that can fail."""

import dataclasses
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.cli import figures
from autocontext.cli.conversations import Conversation, conversation_in, read_lines
from autocontext.cli.layout import Column, cells, fitted, printable
from autocontext.cli.proof import ReloadCheck, reachable, reload_some
from autocontext.cli.replay_run import ModelCall, ReplayResult, dumps, replay
from autocontext.testing import conversation
from tests.invariants import ESTIMATE

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["role", "content", "messages"]), inner)
    ),
    max_leaves=12,
)
ROLES = st.sampled_from(["system", "user", "assistant", "tool", "function", "wizard"])
MESSAGES = st.lists(st.fixed_dictionaries({"role": ROLES}, optional={"content": VALUES, "tool_calls": VALUES}))
TURNS = st.lists(st.builds(lambda a, b: ModelCall(min(a, b), max(a, b)), *[st.integers(0, 10**6)] * 2), min_size=1)


# --------------------------------------------------------------------------------------------------------- reading
@pytest.mark.slow
@given(
    st.lists(st.one_of(VALUES, MESSAGES, st.builds(lambda m: {"messages": m}, MESSAGES)).map(json.dumps), max_size=5)
)
@example(["[" * 20_000])
def test_every_line_is_a_conversation_or_a_named_problem(lines: list[str]) -> None:
    broken: dict[int, str] = {}
    read = list(read_lines(io.BytesIO("\n".join(lines).encode()), conversation_in, broken.__setitem__))
    assert sorted([*broken, *(c.line for c in read)]) == list(range(1, len(lines) + 1))
    assert all(c.messages for c in read)
    assert all(broken.values())


# ----------------------------------------------------------------------------------------------------------- plots
@pytest.mark.slow
@given(calls=TURNS, window=st.integers(500, 10**6), width=st.integers(40, 100), unicode=st.booleans())
def test_plot_is_a_rectangle_with_the_window_in_it(
    calls: list[ModelCall], window: int, width: int, unicode: bool
) -> None:
    rows = ["".join(text for text, _ in line) for line in figures.plotted(calls, window, width=width, unicode=unicode)]
    assert {len(row) for row in rows} == {width}
    assert f"{window:,} " in "".join(rows)
    assert unicode or all(row.isascii() for row in rows)


@pytest.mark.slow
@given(calls=TURNS, window=st.integers(500, 10**6))
def test_columns_are_as_high_as_what_they_show(calls: list[ModelCall], window: int) -> None:
    width = len(calls) + 30
    calls = [ModelCall(call.full, call.full) for call in calls]
    rows = ["".join(text for text, _ in line) for line in figures.plotted(calls, window, width=width)][:-1]
    label = rows[0].index("┤") + 1
    top = max(window, *(t.sent for t in calls))
    columns = list(zip(*(row[label:] for row in rows), strict=True))
    for i, column in enumerate(columns):
        eighths = sum(" ▁▂▃▄▅▆▇█".find(c) if c in "▁▂▃▄▅▆▇█" else 0 for c in column)
        sent = calls[i * len(calls) // len(columns)].sent
        assert eighths - 1 <= sent / top * 8 * len(rows) <= eighths + 1e-6


def test_context_over_the_window_is_red() -> None:
    styles = {style for line in figures.plotted([ModelCall(900, 900)], 500, width=40) for _, style in line}
    assert "red" in styles
    assert "green" not in styles


# ---------------------------------------------------------------------------------------------------------- tables
@given(
    titles=st.lists(st.text(max_size=60).map(printable), min_size=1, max_size=4),
    numbers=st.lists(st.integers(0, 10**6), min_size=6, max_size=6),
    width=st.integers(40, 100),
)
def test_table_fits(titles: list[str], numbers: list[int], width: int) -> None:
    columns = [Column("what", right=False), *(Column("number", optional=i > 1) for i in range(6))]
    rows = [[title, *map(str, numbers)] for title in titles]
    _, cut_rows, widths = fitted(columns, rows, width)
    assert sum(widths) + 2 * (len(widths) - 1) <= width
    assert [row[:3] for row in cut_rows] == [row[:3] for row in rows]
    assert all(cells(cell) <= w for row in cut_rows for cell, w in list(zip(row, widths, strict=True))[1:])


@given(st.text())
def test_harmless_text_is_one_printable_line_of_the_same_length(text: str) -> None:
    assert printable(text).isprintable()
    assert len(printable(text)) == len(text)
    assert not text.isprintable() or printable(text) == text


# ----------------------------------------------------------------------------------------------------------- proof
MESSAGES_ADDED = conversation(rounds=12, chars=900)


class Forgetful(AutoContextMemory):
    """A memory that changes what it gives back, as `change` says."""

    change: Callable[[list[Msg]], list[Msg]] = staticmethod(lambda msgs: msgs)

    def reload(self, uuid: str) -> list[Msg]:
        return self.change(super().reload(uuid))


def filled() -> Forgetful:
    # Counted in bytes: the tokens of a UUID, and with them the notes that are made, differ from run to run. Settings
    # that leave three notes of originals, whatever is found to be best for a window.
    memory = Forgetful(AutoContextConfig.for_window(2_000, target_ratio=0.7, ledger_ratio=0.34, **ESTIMATE))
    for msg in MESSAGES_ADDED:
        memory.add_message(msg)
        memory.get_messages()
    return memory


def other_text(msgs: list[Msg]) -> list[Msg]:
    return [msgs[0].model_copy(update={"content": Msg(role="user", content="other").content}), *msgs[1:]]


def other_id(msgs: list[Msg]) -> list[Msg]:
    return [msgs[0].model_copy(update={"id": "other"}), *msgs[1:]]


def other_time(msgs: list[Msg]) -> list[Msg]:
    return [msgs[0].model_copy(update={"timestamp": "2000-01-01"}), *msgs[1:]]


@pytest.mark.slow
def test_proof_of_a_sound_memory() -> None:
    memory = filled()
    items = reload_some(memory, MESSAGES_ADDED, dumps(MESSAGES_ADDED))
    assert len(items) == 3
    assert all(item.identical for item in items)
    assert reachable(memory) == set(dumps(MESSAGES_ADDED))


@pytest.mark.slow
def test_proof_reads_what_the_tool_gives() -> None:
    memory = filled()
    memory.change = other_text
    items = reload_some(memory, MESSAGES_ADDED, dumps(MESSAGES_ADDED))
    assert [item.verbatim for item in items] == [False] * 3
    memory.change = other_id
    assert [item.verbatim for item in reload_some(memory, MESSAGES_ADDED, dumps(MESSAGES_ADDED))] == [True] * 3


@pytest.mark.slow
@pytest.mark.parametrize("change", [other_text, other_id, other_time, lambda msgs: msgs[:-1]])
def test_proof_sees_what_a_faulty_memory_changes(change: Callable[[list[Msg]], list[Msg]]) -> None:
    memory = filled()
    memory.change = change
    items = reload_some(memory, MESSAGES_ADDED, dumps(MESSAGES_ADDED))
    assert items
    assert not any(item.identical for item in items)
    assert len(reachable(memory) & set(dumps(MESSAGES_ADDED))) < len(MESSAGES_ADDED)


@pytest.mark.slow
def test_result_holds_only_if_everything_does() -> None:
    good = replay(Conversation("chat", MESSAGES_ADDED), AutoContextConfig.for_window(2_000), None, lambda *_: None)
    assert good.passed
    assert good.calls[-1].full <= good.tokens
    item = good.reloaded[0]
    faults: list[dict[str, Any]] = [{"over": 1}, {"invalid": 1}, {"intact": 1}, {"reachable": 1}]
    parts: list[dict[str, Any]] = [{"verbatim": False}, {"sha256_reloaded": ""}]
    faults += [{"reloaded": (dataclasses.replace(item, **part),)} for part in parts]
    assert not any(dataclasses.replace(good, **fault).passed for fault in faults)


@pytest.mark.slow
def test_watcher_hears_every_call() -> None:
    heard: list[tuple[ModelCall, int]] = []
    result = replay(
        Conversation("chat", MESSAGES_ADDED),
        AutoContextConfig.for_window(2_000),
        None,
        lambda *event: heard.append(event),
    )
    assert [call for call, _ in heard] == result.calls
    assert [done for _, done in heard] == [i for i, m in enumerate(MESSAGES_ADDED) if m.role == "assistant"]
    assert isinstance(result, ReplayResult)
    assert all(isinstance(item, ReloadCheck) for item in result.reloaded)
