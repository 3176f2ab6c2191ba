"""Filling in the page of figures, and what its summary reads from it."""

import json
import re
import subprocess
import sys

import handover
import measure
import page as pages
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measure import Row
from page import BENCHMARKS, PAGE, SUMMARY, places, put, result
from questions import QUESTIONS
from summary import COMPARED, Comparison, number, tables, unit

pytestmark = pytest.mark.repo

TEXT = "# A\n<!-- begin cost -->\n<!-- end cost -->\nb\n<!-- begin recall -->\n\n| old |\n\n<!-- end recall -->\nc\n"


def test_a_table_takes_its_place_and_nothing_else():
    once = put(TEXT, "cost", "| 1 |\n")
    assert once == TEXT.replace("begin cost -->\n", "begin cost -->\n\n| 1 |\n\n")
    assert put(once, "cost", "| 1 |") == once
    assert put(once, "recall", "| 2 |") == once.replace("old", "2")


HEAD = "| policy | window | x |\n| --- | --- | --- |\n"
OLD = (
    HEAD
    + "| a | 4,000 | 1 |\n| c, tuned | 4,000 | 2 |\n| a | 16,000 | 3 |\n| c, tuned | 16,000 | 4 |\n\ndate 1, commit x"
)
ORDER = ["a", "b", "c, tuned"]


def test_rows_that_are_measured_later_take_their_places():
    new = f"{HEAD}| b | 16,000 | 9 |\n| c, tuned | 4,000 | 8 |\n| c, tuned | 16,000 | 7 |\n\ndate 2, commit y\n"
    once = pages.joined(OLD, new, ORDER)
    assert once == (
        f"{HEAD}| a | 4,000 | 1 |\n| c, tuned | 4,000 | 8 |\n| a | 16,000 | 3 |\n| b | 16,000 | 9 |\n"
        "| c, tuned | 16,000 | 7 |\n\ndate 1, commit x\n\nrows of b; c, tuned: date 2, commit y"
    )
    assert pages.joined(once, new, ORDER) == once
    again = pages.joined(once, f"{HEAD}| b | 16,000 | 5 |\n\ndate 3, commit z", ORDER)
    assert again.endswith("\n\nrows of c, tuned: date 2, commit y\n\nrows of b: date 3, commit z")
    assert "| b | 16,000 | 5 |" in again


def test_rows_with_other_columns_are_refused():
    with pytest.raises(SystemExit, match="measure all of it"):
        pages.joined(OLD, OLD.replace("| x |", "| y |"), ORDER)


def test_only_policies_can_be_measured_one_by_one():
    command = [sys.executable, str(measure.ROOT / "benchmarks" / "page.py"), "turn", "--policy", "truncate"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "only recall, handover, cost measure policies" in done.stderr


def test_every_benchmark_has_a_page_with_its_table():
    assert places(TEXT) == ["cost", "recall"]
    assert [places(result(name).read_text("utf-8")) for name in BENCHMARKS] == [[name] for name in BENCHMARKS]
    assert pages.results().keys() == set(BENCHMARKS)


def test_the_page_has_the_summary_and_lists_every_benchmark():
    page = PAGE.read_text("utf-8")
    assert places(page) == [SUMMARY]
    listed = re.findall(r"\[(\w+)\]\(\.\./benchmarks/results/\1\.md\)", page)
    assert [name for name in listed if name in BENCHMARKS] == list(BENCHMARKS)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_says_what_it_measures(name):
    assert pages.about(name).endswith(".")
    assert len(pages.about(name)) < 200


def test_the_names_are_listed():
    command = [sys.executable, str(measure.ROOT / "benchmarks" / "page.py"), "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == list(BENCHMARKS)


# ----------------------------------------------------------------------------------------------------------- summary
def run_table(*rows):
    """The table that `measure.run` prints for these rows."""
    return "\n".join(measure.markdown(rows))


def place(name, table):
    return f"<!-- begin {name} -->\n\n{table}\n\n<!-- end {name} -->\n"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.001, 1e6), st.sampled_from(("us", "ms"))), min_size=1))
def test_a_printed_table_is_read_back(figures):
    rows = [Row(name, value, unit_) for name, value, unit_ in figures]
    read = tables(place("turn", run_table(*rows)))["turn"]
    assert [row["what"] for row in read] == [row.name for row in rows]
    for cells, row in zip(read, rows, strict=True):
        assert number(cells["figure"]) == pytest.approx(row.value, rel=0.01)
        assert unit(cells["figure"]) == row.unit


def test_whoever_is_ahead_is_named():
    slower = Comparison("add", 10.0, {"a": 20.0, "b": 30.0}, "us")
    assert slower.line() == "| add | 10 us | a: 20 us | this library |"
    assert Comparison("add", 25.0, {"a": 20.0, "b": 24.0, "c": 30.0}, "us").line().endswith("| a: 20 us | **a; b** |")
    assert Comparison("add", 10.0, {"a": 10.1}, "us").line().endswith("| equal |")


@given(st.floats(1, 1e4), st.dictionaries(st.sampled_from("abcd"), st.floats(1, 1e4), min_size=1), st.booleans())
def test_this_library_is_better_only_when_nobody_is_ahead(ours, peers, more):
    line = Comparison("x", ours, peers, "us", more_is_better=more).line()
    best = max(peers.values()) if more else min(peers.values())
    if line.endswith("this library |"):
        assert ours > best if more else ours < best
    elif "**" in line:
        assert ours < best if more else ours > best
    else:
        assert ours == pytest.approx(best, rel=0.03)


def test_recall_stands_beside_libraries_and_beside_plain_ways():
    shares = {"lines30": "96.0", "truncate": "94.0", "langchain X": "97.9", "autocontext, no ledger": "50.0"}
    rows = [f"| {name} | 16,000 | {share} % |" for name, share in {**shares, "autocontext": ">99.9"}.items()]
    table = "\n".join(["| policy | window | in context |", "|---|---|---|", *rows])
    beside, plain = list(COMPARED["recall"](tables(place("recall", table))["recall"]))
    assert (beside.ours, beside.peers) == (99.9, {"langchain X": 97.9})
    assert plain.peers == {"lines30": 96.0, "truncate": 94.0}


def test_handover_is_compared_by_the_mean_of_its_questions():
    columns = [column.heading for column in handover.COLUMNS]
    rows = [
        handover.row(name, 16_000, [handover.Scores({q: handover.Share(yes, 100) for q in QUESTIONS}, probes=1)])
        for name, yes in (("casefile", 97), ("agentscope 2", 44), ("autocontext", 98))
    ]
    cells = [[column.write(row[column.key]) for column in handover.COLUMNS] for row in rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in [columns, ["---"] * len(columns), *cells])
    beside, plain = COMPARED["handover"](tables(place("handover", table))["handover"])
    assert (beside.ours, beside.peers, plain.peers) == (98.0, {"agentscope 2": 44.0}, {"casefile": 97.0})
    assert beside.line().endswith("agentscope 2: 44.0 % | this library |")


def test_a_turn_is_compared_with_who_checks():
    rows = [
        Row("check at 100 messages: autocontext", 2.0, "us"),
        Row("check at 100 messages: langchain", 120.0, "us", "autocontext", 60.0),
        Row("check at 100 messages: other, no check", 1.0, "us", "autocontext", 0.5),
        Row("a pass over 16 rounds: autocontext", 300.0, "ms"),
        Row("a pass over 16 rounds: agent-framework", 200.0, "ms", "autocontext", 0.7),
    ]
    check, due = COMPARED["turn"](tables(place("turn", run_table(*rows)))["turn"])
    assert (check.ours, check.peers) == (2.0, {"langchain": 120.0})
    assert due.peers == {"agent-framework": 200.0}


def test_peers_of_storage_are_the_rows_below():
    rows = [
        Row("save one message durably", 40.0, "us"),
        Row("  openai-agents SQLiteSession", 400.0, "us", "this library", 10.0),
        Row("eight writers on one file", 9_000.0, "messages/s"),
        Row("  openai-agents SQLiteSession", 1_000.0, "messages/s", "this library", 0.1),
    ]
    save, writers = COMPARED["storage"](tables(place("storage", run_table(*rows)))["storage"])
    assert save.line().endswith("400 us | this library |")
    assert (writers.peers, writers.more_is_better) == ({"openai-agents SQLiteSession": 1_000.0}, True)


def test_diskcache_is_worked_out_of_the_ratio():
    rows = [Row("get at 10,000", 20.0, "us", "diskcache==5.6.3", 2.0, 50.0), Row("set", 1.0, "us")]
    [found] = COMPARED["cache"](tables(place("cache", run_table(*rows)))["cache"])
    assert found.peers == {"diskcache": 10.0}
    assert found.line().endswith("**diskcache** |")


def test_an_optimised_state_says_what_the_original_loses():
    rows = [
        Row("a: 40 turns, autocontext", 38_000.0, "bytes"),
        Row("a: 40 turns, the original's way", 2_000.0, "bytes", "ours", 0.05, more={"retrievable": "3 %"}),
    ]
    [found] = COMPARED["optimiser"](tables(place("optimiser", run_table(*rows)))["optimiser"])
    assert "the original loses 97 % of the messages for good" in found.line()


_PROGRAM = """
import sys
from measure import Row, run
sys.exit(run("one", [lambda: [Row("x", 1.0, "us", retrievable={share}, invalid=0)]], "peer 1"))
"""


@pytest.mark.parametrize(("share", "code"), [(100.0, 0), (99.0, 1)])
def test_json_and_markdown_of_a_run(share, code):
    def ran(form):
        command = [sys.executable, "-c", _PROGRAM.format(share=share), form]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=measure.ROOT / "benchmarks")
        assert done.returncode == code
        return done.stdout

    assert json.loads(ran("--json"))["rows"][0]["retrievable"] == share
    printed = ran("--markdown")
    assert printed.startswith("| what |")
    assert printed.rstrip().endswith("peer 1")
    assert "date " in printed.splitlines()[-1]
