"""The values of a text, and those of a text that is read line by line."""

from hypothesis import example, given
from hypothesis import strategies as st

from autocontext.notes.values import values_by_line, values_in
from tests.conversations import texts

PIECES = (
    "src/a.py", "max_size", "word", "Word.", "3月", "[ref=e1]", "[ref=e1]max_size", "q=17", "x" * 401,
    "\r", "\u2028", ":", "…", "1.5",
)  # fmt: skip


def lines() -> st.SearchStrategy[str]:
    """Texts of many lines, some with more values than are kept."""
    numbered = st.integers(0, 700).map(lambda n: " ".join(f"name_{n}_{k}" for k in range(n % 90)))
    line = st.one_of(st.lists(st.sampled_from(PIECES), max_size=6).map(" ".join), numbered)
    return st.lists(line, max_size=30).map("\n".join)


@given(st.one_of(lines(), texts()))
@example("\n".join(f"name_{n}" for n in range(500)))
@example("name_1 name_2\n" * 40_000)
def test_values_by_line_are_those_of_the_text(text: str) -> None:
    assert values_by_line(text) == values_in(text)
