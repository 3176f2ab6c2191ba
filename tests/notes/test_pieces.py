"""The line around a value: whole, or a piece that says which record it is from."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from autocontext.notes.pieces import LONG, line_around
from tests.notes.readings import stands

FLIGHTS = json.dumps(
    [
        {
            "flight_number": f"HAT{n}",
            "from": "JFK",
            "note": 'a } in words { and " more, which is no structure at all',
            "status": "available",
            "seats": {"basic_economy": 3 * n, "economy": n, "business": n},
            "prices": {"basic_economy": n + 1, "economy": n + 2, "business": n + 3},
        }
        for n in range(100, 109)
    ]
)


def test_a_piece_of_a_list_of_records_names_its_record() -> None:
    for n in range(100, 109):
        place = FLIGHTS.index(f'"business": {n + 3}}}')
        piece = line_around(FLIGHTS, place, 10)
        assert piece.count("HAT") >= 1
        before = piece[: piece.index(f'"business": {n + 3}}}')]
        assert re.findall(r"HAT\d+", before)[-1] == f"HAT{n}", piece


def test_a_piece_has_the_whole_of_the_value_it_is_about() -> None:
    for value in re.finditer(r"[\w\"]{2,40}", FLIGHTS):
        piece = line_around(FLIGHTS, value.start(), len(value[0]))
        assert value[0] in piece


def test_a_line_without_blanks_is_cut_between_words() -> None:
    words = [f"part{n:04}" for n in range(60)]
    line = "/".join(words)
    for at in range(len(line)):
        piece = line_around(line, at, 1)
        assert {*filter(None, piece.strip("…").split("/"))} <= {*words}


def test_the_last_piece_of_a_line_is_never_a_few_characters() -> None:
    for size in range(LONG + 1, 3 * LONG):
        line = ", ".join(f'"k{i}": {i}' for i in range(100))[:size]
        piece = line_around(line, size - 1, 1)
        assert len(piece) >= 50


@given(
    st.lists(
        st.dictionaries(st.text(max_size=6), st.one_of(st.text(max_size=60), st.integers()), max_size=6), max_size=8
    ),
    st.integers(0, 5_000),
)
def test_a_piece_of_any_line_stands_in_it(records: list[dict[str, str | int]], at: int) -> None:
    text = json.dumps({"id": "x1", "rows": records}, ensure_ascii=False)
    at %= len(text)
    piece = line_around(text, at, 1)
    assert stands(piece, text)
