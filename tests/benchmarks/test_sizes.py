"""The stores of this library in the benchmark of five sizes, and its picture, on tiny data."""

import re

import draw_sizes
import measure
import page
import pytest
from summary import tables

from benchmarks import sizes
from benchmarks.sizes_measure import PARTS

pytestmark = pytest.mark.repo

TEXTS = [("user", f"The tests of module {i} fail on Windows, permission denied") for i in range(300)]
SIZES = {"messages": 30, "sessions": 60, "memories": 40, "results": 220}


@pytest.mark.parametrize("part", SIZES)
def test_every_figure_of_a_store_is_taken_at_each_size(part, tmp_path):
    store = sizes.OWN[part, sizes.OURS](tmp_path, "")
    small = SIZES[part]
    for size, have in ((small, 0), (2 * small, small)):
        figures = dict(PARTS[part](store, size, have, TEXTS * 2))
        assert figures.keys() == sizes.FIGURES[part].keys()
        assert all(figure[0] > 0 for figure in figures.values())
    store.close()


def test_a_chart_has_a_line_for_each_library():
    rows = [
        measure.Row("SQLite, save a message, messages: 1,000", 30, "us"),
        measure.Row("  langgraph SqliteSaver", 3, "ms"),
        measure.Row("  langgraph SqliteSaver, DeltaChannel", 2, "ms"),
        measure.Row("SQLite, save a message, messages: 3,000", 31, "us"),
        measure.Row("  langgraph SqliteSaver", 9, "ms"),
        measure.Row("SQLite, disk for a byte saved, messages: 1,000", 1.2, "x"),
        measure.Row("SQLite, disk for a byte saved, messages: 3,000", 1.3, "x"),
    ]
    table = tables(page.place("sizes", "\n".join(measure.markdown(rows))))["sizes"]
    drawing = draw_sizes.picture(table)
    lines = re.findall(r'<polyline class="([^"]+)"', drawing)
    assert lines[:3] == ["ours-line", "graph-line", "graph-line beta"]  # the names
    assert lines[3:] == ["graph-line", "graph-line beta", "ours-line", "ours-line"]
    texts = re.findall(r">([^<]+)</text>", drawing)
    assert {"SQLite, save a message", "10 us", "10 ms", "1k", "3k messages", "1 x", "10 x"} <= set(texts)
