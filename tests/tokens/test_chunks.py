"""Chunks lose nothing, and a cut at a boundary changes no token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext.tokens.chunks import BOUNDARY, CHUNK_CHARS, chunks, lines
from autocontext.tokens.vocabularies import VOCABULARIES, encoding
from tests.profiles import share
from tests.tokens.strategies import texts

NAMES = sorted(VOCABULARIES)


@given(texts, st.integers(2, 20))
def test_chunks_are_the_text_and_no_longer_than_asked(text, limit):
    parts = list(chunks(text, limit, limit))
    assert "".join(parts) == text
    assert all(0 < len(part) <= limit for part in parts) or parts == [""]


@given(texts)
@settings(deadline=None, max_examples=share(500))  # the first loads the vocabularies
def test_a_cut_at_a_boundary_changes_no_token(text):
    for name in NAMES:
        encode = encoding(name).encode_ordinary
        whole = encode(text)
        for found in BOUNDARY.finditer(text):
            assert encode(text[: found.start()]) + encode(text[found.start() :]) == whole


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(deadline=None, max_examples=share(30))
def test_long_ordinary_text_is_cut_without_a_difference(name, data):
    words = data.draw(st.lists(st.sampled_from(["word", "Größe", "12", "汉字，", "x=1", "it's", "\n"]), min_size=3))
    text = " ".join(words) * 400
    encode = encoding(name).encode_ordinary
    parts = list(chunks(text))
    assert [token for part in parts for token in encode(part)] == encode(text)
    assert len(parts) >= len(text) // CHUNK_CHARS


def test_a_text_without_a_boundary_is_cut_where_it_stands():
    assert list(chunks("a" * 10, 4, 4)) == ["aaaa", "aaaa", "aa"]
    assert list(chunks("a" * 10, 4)) == ["a" * 10]
    assert list(chunks("", 4)) == [""]


_ends = st.sampled_from(
    ["\n", "\n\n", "\r\n", "/", ".", ":", "_", " ", "  ", "a", "Z9", "中", "é", "\u0301", "'s", "\t", "²"]
)


@pytest.mark.slow
@given(st.lists(_ends | texts.filter(lambda t: len(t) < 20), max_size=12).map("".join))
@settings(deadline=None, max_examples=share(300))
def test_a_text_cut_into_lines_has_the_same_tokens(text):
    assert "".join(lines(text)) == text
    for name in NAMES:
        encode = encoding(name).encode_ordinary
        assert [token for line in lines(text) for token in encode(line)] == encode(text)
