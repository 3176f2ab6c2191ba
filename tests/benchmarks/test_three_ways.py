"""results/handover.md, the takeover questions, readers and the model: as taken in, and who is ahead is named."""

import json
import re

import pytest
import three_ways
from hypothesis import given
from hypothesis import strategies as st
from page import result
from policies import PEERS
from three_ways import COSTS, KINDS, LESS, MORE, OURS, PLAIN, QUESTIONS, ahead, condensed, of, records

pytestmark = pytest.mark.repo

PAGE = result("handover").read_text("utf-8")
WINDOWS = (4_000, 16_000)


def conversation(kind, got, **more):
    """One conversation as the measure writes it; `got` is the share answered of each question that was asked."""
    there = {q: [got[q] * 10, 10] if q in got else [0, 0] for q in QUESTIONS}
    cost = {"claims": 4, "wrong": 1, "chars": 100, "useless": 30, "recent": 500}
    return {"id": f"{kind}/1", "got": there, "probes": 2, "over": 1, "invalid": 0, "notes": 100, "used": 1500} | {
        "cost": cost,
        **more,
    }


def test_the_page_is_as_the_records_have_it():
    assert three_ways.filled(PAGE) == PAGE


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("set_", ["replay_more", "replay_dev"])
def test_everybody_was_asked_the_same(set_, window):
    rows = of(set_, window)
    assert {r["policy"] for r in rows} <= {OURS, *PLAIN, *PEERS}
    assert {OURS, *PLAIN} <= {r["policy"] for r in rows}
    assert len({(r["conversations"], r["contexts"]) for r in rows}) == 1


def test_a_library_that_was_not_asked_is_named():
    asked = {r["policy"] for r in records()}
    missing = [name for name in PEERS if name not in asked]
    assert [name for name in missing if f"{name}:" not in PAGE] == []


def test_each_kind_has_its_own_mean():
    rows = [
        conversation("livemcp", dict.fromkeys(QUESTIONS, 1.0)),
        conversation("livemcp", dict.fromkeys(QUESTIONS, 0.5)),
        conversation("cochise", {"next": 0.0, "why": 0.2}),
        conversation("cochise", {}, probes=0),
    ]
    found = condensed({"policy": "truncate", "window": 1000, "rows": rows}, "x", 1)
    assert found["policy"] == "truncation"
    assert found["kinds"] == {"cochise": 10.0, "livemcp": 75.0}
    assert (found["conversations"], found["contexts"]) == (3, 6)
    assert (found["next"], found["done"]) == (50.0, 75.0)
    assert found["mean"] == pytest.approx((50 + 75 * 4 + 170 / 3) / 6, abs=0.01)
    assert (found["false"], found["noise"]) == (25.0, 30.0)
    assert [found[cost] for cost in COSTS[2:]] == [5.0, 25.0, 75.0, 50.0, 0.0]


def test_nothing_is_said_of_claims_that_were_not_made():
    silent = {"claims": 0, "wrong": 0, "chars": 0, "useless": 0, "recent": 0}
    rows = [conversation("livemcp", dict.fromkeys(QUESTIONS, 1.0), cost=silent)]
    found = condensed({"policy": "/a/graded.py:Graded", "window": 1000, "rows": rows}, "x", 1)
    assert (found["false"], found["noise"]) == (None, None)
    assert not ahead("false", found["false"], 1.0)
    assert "100.0" not in next(line for line in three_ways.questions([found]) if "*Graded*" in line).split("|")[9]


@pytest.mark.parametrize(("claims", "shown"), [(99, None), (100, 25.0)])
def test_a_share_of_few_claims_is_not_shown(claims, shown):
    record = {"claims": claims, "false": 25.0, "mean": 50.0}
    assert three_ways.told(record, "false") == shown
    assert three_ways.told(record, "mean") == 50.0


def test_what_is_taken_in_again_replaces_what_was_there(tmp_path, monkeypatch):
    monkeypatch.setattr(three_ways, "RECORDS", tmp_path / "records.json")
    output = tmp_path / "out.json"
    for share in (0.5, 1.0):
        rows = [conversation("livemcp", dict.fromkeys(QUESTIONS, share))]
        output.write_text(json.dumps([{"policy": "truncate", "window": w, "rows": rows} for w in WINDOWS]))
        three_ways.take("replay_more", 1, [output])
    assert [(r["window"], r["mean"]) for r in records()] == [(4_000, 100.0), (16_000, 100.0)]
    three_ways.take("replay_more", 2, [output])
    assert len(records()) == 4
    assert len(of("replay_more", 4_000)) == 1


@given(st.sampled_from([*MORE, *KINDS]), st.floats(0, 100), st.floats(0, 100))
def test_only_who_is_better_is_ahead(column, theirs, ours):
    found = ahead(column, theirs, ours)
    assert not found or theirs > ours
    assert found or theirs <= ours + 0.25
    assert not ahead("false", theirs, ours) or theirs < ours
    assert not any(ahead(cost, theirs, ours) for cost in COSTS if cost not in (*MORE, *LESS))


@pytest.mark.parametrize("place", re.findall(r"<!-- asked ((?:questions|kinds) .*?) -->", PAGE))
def test_who_is_bold_is_named_below(place):
    text = PAGE.split(f"<!-- asked {place} -->")[1].split("<!-- end asked -->")[0]
    table, below = text.split("Ahead of this library:")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()]
    for name, *cells in lines[2:]:
        for column, cell in zip(lines[0][1:], cells, strict=True):
            said = next((line for line in below.splitlines() if line.startswith(f"- {column}:")), "")
            assert cell.startswith("**") == (f"{name} ({cell.strip('*')})" in said)


def test_the_readme_has_these_means():
    said = (three_ways.HERE.parent / "README.md").read_text("utf-8").partition("a colleague who takes over")[2]
    asked = [list(map(int, row)) for row in re.findall(r"\| (\d+), (\d+) " * 3 + r"\|", said)]
    policies = OURS, "truncation", "Graded"
    for row, set_ in zip(asked, ("replay_more", "replay_dev"), strict=True):
        means = {(window, r["policy"]): round(r["mean"]) for window in WINDOWS for r in of(set_, window)}
        assert row == [means[window, policy] for policy in policies for window in WINDOWS]


def test_each_round_of_readings_is_counted():
    lines = [line for line in three_ways.readings([]) if re.match(r"\| \d", line)]
    files = sorted(three_ways.READINGS.glob("*-round-*.jsonl"))
    assert len(lines) == len(files)
    for line, file in zip(lines, files, strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert int(cells[1]) == len(file.read_text("utf-8").splitlines())
        assert sum(map(int, cells[2:5])) == sum(map(int, cells[5:8])) == int(cells[1])
