"""A pattern without regard to case finds what `re.IGNORECASE` finds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.notes import answers, sentences
from autocontext.text import signs
from autocontext.text.caseless import Caseless

USED = [value for module in (answers, sentences, signs) for value in vars(module).values() if type(value) is Caseless]
WORDS = st.sampled_from(
    [*"aBkK\u212as\u017fi\u0130\u0131 .\n\x1cé", "MUST", "Thanks!", "let's ", "Error", "Weil ", "не", "必须"]
)


@pytest.mark.parametrize("pattern", USED, ids=lambda pattern: pattern.pattern[:12])
@given(st.lists(WORDS | st.text(max_size=4), max_size=8).map("".join), st.integers(0, 6), st.integers(0, 20))
def test_the_same_is_found(pattern: Caseless, text: str, start: int, stop: int) -> None:
    plain = re.compile(pattern.pattern, pattern.flags | re.IGNORECASE)
    for ours, theirs in (
        (pattern.search(text), plain.search(text)),
        (pattern.search(text, start, stop), plain.search(text, start, stop)),
        (pattern.match(text), plain.match(text)),
        (pattern.fullmatch(text), plain.fullmatch(text)),
    ):
        assert (ours and ours.span()) == (theirs and theirs.span())


def test_patterns_have_no_upper_case_letters() -> None:
    assert len(USED) > 6
    assert Caseless(r"\bno\W(?P<A>x)\S").search("well, NO x!")
    with pytest.raises(ValueError, match="lower case"):
        Caseless("Error")
