"""Filling in the page of figures."""

from page import PAGE, places, put

TEXT = "# A\n<!-- begin cost -->\n<!-- end cost -->\nb\n<!-- begin recall -->\n\n| old |\n\n<!-- end recall -->\nc\n"


def test_a_table_takes_its_place_and_nothing_else():
    once = put(TEXT, "cost", "| 1 |\n")
    assert once == TEXT.replace("begin cost -->\n", "begin cost -->\n\n| 1 |\n\n")
    assert put(once, "cost", "| 1 |") == once
    assert put(once, "recall", "| 2 |") == once.replace("old", "2")


def test_the_page_has_places_for_its_benchmarks():
    assert places(TEXT) == ["cost", "recall"]
    assert {"recall", "cost", "overhead", "latency"} <= set(places(PAGE.read_text(encoding="utf-8")))
