"""The demo keeps its promises on the shipped conversation, without network and without rich."""

import html
import json
import lzma
import re
from pathlib import Path

import pytest

import autocontext
from autocontext.cli.conversations import shipped
from autocontext.tokens import get_counter
from tests.cli.terminal import NO_NETWORK, NO_RICH, Done, run

DATA = Path(autocontext.__file__).parent / "cli" / "data"
REPLAY = Path(__file__).parent.parent / "data" / "replay_dev.jsonl"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo() -> Done:
    return run("demo", prelude=NO_NETWORK + NO_RICH)


def figure(demo: Done, name: str) -> tuple[int, str]:
    """The number and the remark beside it."""
    (match,) = re.findall(rf"^(?:[✓✗] )? *{name} +([\d,]+)  (.*)$", demo.out, re.MULTILINE)
    return int(match[0].replace(",", "")), match[1]


def test_everything_holds(demo: Done) -> None:
    assert (demo.code, "✗" in demo.out, demo.out.count("Traceback") + demo.err.count("Traceback")) == (0, False, 0)
    assert figure(demo, "originals intact") == (899, "of 899, byte for byte")
    assert figure(demo, "found from the view")[0] == 899
    assert figure(demo, "contexts valid") == (438, "of 438, by strict chat rules")
    assert figure(demo, "model calls")[0] == 0


@pytest.mark.repo
def test_the_picture_in_the_readme_shows_what_the_demo_says_now(demo: Done) -> None:
    """If not: scripts/take_pictures.py. Sums of tokens differ a little from run to run, as UUIDs do.

    So a pass may come just before the end, or not: it takes some twelve messages out of view.
    """
    picture = (Path(__file__).parents[2] / "docs" / "pictures" / "demo.svg").read_text("utf-8")
    shown = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", picture)).split())
    numbers = demo.out.split("── the numbers that matter")[1]
    figures = dict(re.findall(r"^(?:✓ )? +([a-z ]+?) +(\d[\d,]*) ", numbers, re.MULTILINE))
    assert len(figures) == 10
    told = {name: re.findall(rf"{name} (\d[\d,]*) ", shown.split("the numbers that matter")[1]) for name in figures}
    for name, figure in figures.items():
        [number] = told[name]
        differs = 0.15 if name == "messages in view" else 0.05
        assert int(number.replace(",", "")) == pytest.approx(int(figure.replace(",", "")), rel=differs), name


def test_sizes_are_what_the_counter_says(demo: Done) -> None:
    messages = shipped().messages
    assert len(messages) == 899
    assert sum(m.role == "assistant" for m in messages) == 438
    counter = get_counter("o200k_base")
    sizes = [counter.count(m) for m in messages]
    without = sum(sum(sizes[:i]) for i, m in enumerate(messages) if m.role == "assistant")
    assert figure(demo, "whole conversation")[0] == sum(sizes)
    assert figure(demo, "tokens sent in sum")[1].startswith(f"instead of {without:,} ")
    largest, beside = figure(demo, "largest context sent")
    assert 8_000 < largest <= 16_000
    assert beside == "tokens; 0 of 438 over the window"


def test_table_adds_up(demo: Done) -> None:
    part = demo.out.split("── what was compressed")[1].split("\n\n")[0]
    rows = [[int(n.replace(",", "")) for n in re.findall(r" (-?[\d,]+)(?= |$)", row)] for row in part.splitlines()[2:]]
    rows = [row for row in rows if len(row) >= 5]
    *strategies, total = [row[-5:] for row in rows]
    assert strategies
    assert total == [sum(column) for column in zip(*strategies, strict=True)]
    assert all(before - after == saved for _, _, before, after, saved in [*strategies, total])


def test_three_items_are_reloaded_with_the_same_hash(demo: Done) -> None:
    added = re.findall(r"^  added +([0-9a-f]{64})$", demo.out, re.MULTILINE)
    reloaded = re.findall(r"^  reloaded +([0-9a-f]{64}) ✓$", demo.out, re.MULTILINE)
    assert len(set(added)) == 3
    assert added == reloaded
    assert demo.out.count("context_reload:") == 3
    assert demo.out.count("every text verbatim") == 3


def test_it_fits_a_terminal_of_80_columns(demo: Done) -> None:
    assert max(map(len, demo.out.splitlines())) == 80


def test_the_plot_shows_growth_without_and_the_window_with(demo: Done) -> None:
    both = demo.out.split("never over ")[1].split("call 1")[0]
    shaded = [line.count("░") for line in both.splitlines() if "┤" in line]
    assert shaded[:-1] == sorted(shaded[:-1])  # from the top down the growing conversation takes ever more room
    assert shaded[0] >= 1
    assert re.search(r"^ 16,000 ┤[┄▁-█]░", both, re.MULTILINE)


def test_shipped_conversation_is_the_one_of_the_test_data_with_its_licence() -> None:
    with REPLAY.open(encoding="utf-8") as file:
        original = json.loads(file.readline())
    assert json.loads(lzma.decompress((DATA / "conversation.json.xz").read_bytes())) == original
    licence = (DATA / "conversation.LICENSE.txt").read_text()
    assert "Copyright (c) 2025 Mario Zechner" in licence
    assert "MIT License" in licence
    assert (DATA / "conversation.json.xz").stat().st_size < 100_000
