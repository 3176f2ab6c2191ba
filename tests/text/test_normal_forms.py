"""Normal forms: those of Unicode, for any text a person writes, and in linear time for any text."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.memories.records import digest_of
from autocontext.text.normal_forms import normalized

MARKS = "\u0301\u0316\u0f71\u0f73\u3099\uff9e\u0344"
LONG = "x" * 300
"""Makes a text long enough for the way that short ones do not take."""
written = st.lists(
    st.tuples(st.characters(exclude_categories=["Cs"]), st.text(alphabet=MARKS, max_size=9)).map("".join), max_size=20
).map("".join)
forms = pytest.mark.parametrize("form", ["NFC", "NFKC"])


@forms
@given(text=written)
def test_it_is_the_normal_form_of_unicode(form, text):
    assert normalized(text, form) == unicodedata.normalize(form, text)
    assert normalized(LONG + text, form) == unicodedata.normalize(form, LONG + text)


@given(text=st.text(alphabet="a\u0301\u0316\u0f73e", max_size=200))
def test_what_is_put_in_order_in_parts_stays_the_same_text(text):
    assert unicodedata.normalize("NFC", normalized(LONG + text)) == unicodedata.normalize("NFC", LONG + text)


@pytest.mark.slow
@forms
def test_row_24_runs_of_marks_take_linear_time(form):
    # A run of 200,000 takes Python's own normalisation minutes.
    for marks in ("\u0301\u0316", "\u0f73", "\u0301\uff9e"):
        start = time.thread_time()
        normalized("a" + marks * 100_000, form)
        assert time.thread_time() - start < 10


def test_row_24_a_memory_of_marks_is_taken_in_at_once():
    start = time.thread_time()
    assert digest_of("a" + MARKS * 14_000) != digest_of("a" + MARKS)
    assert time.thread_time() - start < 10
