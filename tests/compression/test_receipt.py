"""The receipt of a pass: true numbers of what left the view, in one line, whatever the messages say."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, CompressionReport, Msg
from autocontext.cli.session_history import SessionHistory
from autocontext.history.numbering import parse
from autocontext.testing import ScriptedModel, assistant, tool_exchange, user
from autocontext.tokens import get_counter
from tests.conversations import histories
from tests.invariants import CONFIGS, ESTIMATE, REPLIES, new_memory

CODE = "\n".join(f"{n}: value_{n} = compute_{n}(settings, {n})" for n in range(40))


def in_full(memory: AutoContextMemory) -> set[int]:
    """Numbers of the originals that are in view."""
    log = memory._log
    return {log.place[id_] + 1 for id_ in log.view_ids if id_ in log.place}


def named(receipt: str, total: int) -> set[int]:
    """The numbers that a receipt says have left the view."""
    parts = receipt.rpartition(";")[0]
    lists = re.findall(r"(?:^|, )(m[\dm,-]+) (?:folded|shortened|read again|called again)", parts)
    return {number for text in lists for number in parse(text, total) or ()}


def pass_over(memory: AutoContextMemory, messages: list[Msg]) -> CompressionReport:
    memory.add_messages(messages)
    return memory.compress_if_needed(force=True)


@given(histories(), st.sampled_from(sorted(CONFIGS)), st.sampled_from(sorted(REPLIES)))
def test_it_names_what_left_the_view_and_counts_what_is_out_of_it(history: list[Msg], config: str, model: str) -> None:
    memory = new_memory(config, model, estimate=True)
    memory.add_messages(history)
    for _ in range(2):
        before = in_full(memory)
        report = memory.compress_if_needed(force=True)
        left = before - in_full(memory)
        out = len(history) - len(in_full(memory))
        assert bool(report) == bool(report.receipt)
        assert "\n" not in report.receipt
        if report:
            plural = "" if out == 1 else "s"
            assert report.receipt.endswith(f"; {out:,} message{plural} out of view, all can be restored")
        if "…" not in report.receipt and "more note" not in report.receipt:
            # What was only shortened before may be named once more, when it goes altogether.
            assert left <= named(report.receipt, len(history)) <= set(range(1, len(history) + 1)) - in_full(memory)
        assert all(memory.numbered(f"m{n}") for n in left)


def work(start: int, stop: int) -> list[Msg]:
    return [m for n in range(start, stop) for m in tool_exchange("read_file", {"path": f"src/{n}.py"}, f"{n}\n{CODE}")]


def test_the_fold_of_a_window() -> None:
    memory = AutoContextMemory(
        AutoContextConfig.for_window(4_000, strategies=(), **ESTIMATE), ScriptedModel("The goal.")
    )
    first = pass_over(memory, [user("Read."), *work(0, 9), assistant("I see."), user("Go on.")])
    assert re.fullmatch(
        r"m2-m\d+ folded into one note \([\d,]+ -> [\d,]+ tokens\); \d+ messages out of view, all can be restored",
        first.receipt,
    )
    last = re.search(r"m2-m(\d+)", first.receipt)
    assert last is not None
    second = pass_over(memory, [*work(9, 14), assistant("I see."), user("And now?")])
    assert re.match(rf"m{int(last[1]) + 1}-m\d+ folded into the note about m2-m\d+ \(", second.receipt)


def test_readings_and_texts_that_were_shortened() -> None:
    config = AutoContextConfig(
        strategies=("read_once", "large_messages"), large_payload_threshold=900, target_ratio=0.01
    )
    memory = AutoContextMemory(config.model_copy(update={"last_resort": False, **ESTIMATE}))
    again = [
        *tool_exchange("read_file", {"path": "a.py"}, CODE[:800]),
        *tool_exchange("read_file", {"path": "a.py"}, CODE[:800]),
    ]
    report = pass_over(memory, [user("?"), *again, *work(0, 2), assistant("Done."), user("Thanks.")])
    assert re.fullmatch(
        r"m7,m9 shortened \([\d,]+ -> \d+ tokens\), m3 read again later; 3 messages out of view, all can be restored",
        report.receipt,
    )


def test_many_numbers_make_no_long_line() -> None:
    config = AutoContextConfig(strategies=("read_once",), last_resort=False, **ESTIMATE)
    pairs = [m for n in range(200) for m in tool_exchange("read_file", {"path": f"{n % 90}.py"}, CODE)]
    report = pass_over(AutoContextMemory(config), [user("?"), *pairs, assistant("Done."), user("Thanks.")])
    assert len(report.receipt) < 400
    assert "(110 in all) read again later; 110 messages out of view, all can be restored" in report.receipt


def test_nothing_left_the_view() -> None:
    assert AutoContextMemory().compress_if_needed().receipt == ""
    assert AutoContextMemory().compress_if_needed(force=True).receipt == ""


def test_it_is_logged_once_for_each_pass_and_quotes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "autocontext")
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, **ESTIMATE))
    report = pass_over(memory, [user("SECRET"), *work(0, 9), assistant("I see."), user("Go on.")])
    records = [r for r in caplog.records if r.name == "autocontext.passes"]
    assert [(r.levelname, r.getMessage()) for r in records] == [("INFO", report.receipt)]
    assert vars(records[0])["conversation"] == memory.session[1]
    memory.compress_if_needed()
    assert len([r for r in caplog.records if r.name == "autocontext.passes"]) == 1


@pytest.mark.slow
def test_a_stored_session_s_history_says_the_same() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, **ESTIMATE))
    receipts: list[Any] = []
    memory.on_compression(lambda report: receipts.append(report.receipt))
    for n in range(30):
        memory.add_messages(work(n, n + 1))
        memory.get_messages()
    history = SessionHistory(memory._log.entries, get_counter("bytes4"))
    assert [p.receipt for p in history.passes] == receipts
    assert len(receipts) > 2
