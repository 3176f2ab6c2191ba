"""results/handover.md: who is ahead is read from the table, its examples run, and its picture shows every policy."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import combinations
from math import dist

import draw_handover
import handover_page
import pytest
from handover_page import MORE, SHOWN, WINDOWS
from hypothesis import given
from hypothesis import strategies as st
from page import result
from policies import PEERS
from replays import DATA, conversations
from summary import tables

pytestmark = pytest.mark.repo

PAGE = result("handover").read_text("utf-8")
TABLE = tables(PAGE)["handover"]


def shown(window):
    """The table of a window, by library."""
    lines = handover_page.view(TABLE, window).split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: dict(zip(SHOWN, row, strict=True)) for name, *row in cells[2:]}


def test_the_page_and_the_picture_are_as_the_table_has_them():
    assert handover_page.filled(PAGE, TABLE) == PAGE
    assert draw_handover.PICTURE.read_text("utf-8") == draw_handover.picture(TABLE)


@pytest.mark.parametrize("window", WINDOWS)
def test_every_peer_is_in_the_table_of_a_window(window):
    assert set(PEERS) | {"**this library**", "*truncate*", "*casefile*", "*lines30*"} == set(shown(window))


@pytest.mark.parametrize("window", WINDOWS)
def test_who_is_bold_is_named_below(window):
    below = handover_page.view(TABLE, window).split("Ahead of this library:")[1]
    for name, row in shown(window).items():
        for column, cell in row.items():
            named = f"{name} ({cell.strip('*')})" in next(
                (line for line in below.splitlines() if line.startswith(f"- {column}:")), ""
            )
            assert cell.startswith("**") == named


@given(st.sampled_from(MORE), st.floats(0, 100), st.floats(0, 100))
def test_only_who_is_better_is_ahead(column, theirs, ours):
    found = handover_page.ahead(column, f"{theirs:.1f} %", f"{ours:.1f} %")
    assert not found or theirs > ours
    assert found or theirs <= ours + 0.35
    assert not handover_page.ahead("bill", f"{theirs:.2f}", f"{ours:.2f}") or theirs < ours
    assert not handover_page.ahead("over", f"{theirs:.1f} %", f"{ours:.1f} %")


places = st.lists(st.tuples(st.floats(20, 420), st.floats(20, 320)), max_size=30)


@given(places)
def test_dots_are_moved_apart_inside_their_panel(at):
    moved = draw_handover.spread(at, (10, 10, 430, 330))
    assert len(moved) == len(at)
    assert all(10 <= x <= 430 and 10 <= y <= 330 for x, y in moved)
    apart = [dist(a, b) for a, b in combinations(at, 2)]
    if all(distance >= draw_handover.APART for distance in apart):
        assert moved == at


def test_the_picture_shows_each_policy_once_in_each_panel():
    numbers = [e.text for e in ET.fromstring(draw_handover.picture(TABLE)).iter() if e.get("class") == "number"]  # noqa: S314
    names = {row["policy"] for row in TABLE}
    assert sorted(map(int, numbers)) == sorted([*range(1, len(names) + 1)] * (len(WINDOWS) + 1))


def test_the_page_has_a_row_for_each_file_of_a_peer():
    files = {plug_in.file.stem for plug_in in PEERS.values()}
    assert set(re.findall(r"^\| \[(peer_\w+)\]", PAGE, re.MULTILINE)) == files


def test_the_library_of_the_page_runs(tmp_path):
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    mine, talk = tmp_path / "mine.py", tmp_path / "talk.jsonl"
    mine.write_text(program)
    talk.write_text(json.dumps(next(r for r in conversations([DATA]) if r["id"] == "tau2/022b3ed-55-0")) + "\n")
    done = ran("--policy", str(mine), "--policy", "autocontext", "--json", str(talk))
    rows = {row["policy"]: row for row in json.loads(done)["rows"]}
    assert rows["newest ten"]["reachable"] == 1.0 > rows["newest ten"]["done"]


def test_the_worked_example_is_as_the_page_says():
    printed = ran("--policy", "truncate", "--policy", "autocontext", "--show", "022b3ed-55-0")
    truncated, ours = printed.split("=== tau2/")[1:]
    at = "--- before message 31\n"
    for part, answer in ((truncated, "failures 0 of 2"), (ours, "failures 2 of 2")):
        text = part.split(at)[1].split("--- before")[0]
        assert answer in text
        assert answer in PAGE
    for line in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0].splitlines():
        assert line in ours


def ran(*arguments):
    """What the benchmark prints in a window of 4,000."""
    command = [sys.executable, "benchmarks/handover.py", "--windows", "4000", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=DATA.parents[2], timeout=120)
    return done.stdout
