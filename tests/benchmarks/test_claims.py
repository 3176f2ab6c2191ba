"""A claim is read from its table; what is claimed without a table is found."""

import claims
import pytest
from claims import NOT_MEASURED, UnbackedClaimError, filled, unbacked

pytestmark = pytest.mark.repo

TABLES = {
    "recall": [
        {"policy": "autocontext", "window": "4,000", "in context": "90.3 %"},
        {"policy": "autocontext", "window": "8,000", "in context": ">99.9 %"},
    ],
    "cost": [{"policy": "autocontext", "cost": "0.288"}],
    "turn": [
        {"what": "check", "figure": "1.47e+03 us", "beside": "10.3 x autocontext", "more": "calls 1,016, left 4 of 9"}
    ],
    "summary": [{"what": "get, hit", "others": "a, 30 %: 98.9 us"}],
}


def claim(number, source):
    return f"It shows {number}<!-- measured: {source} --> of them."


@pytest.mark.parametrize(
    ("number", "source", "true"),
    [
        ("91 %", "recall; autocontext; 4,000; in context", "90 %"),
        ("91.0 %", "recall; autocontext; 4,000; in context", "90.3 %"),
        ("5.0", "recall; autocontext; 8,000; in context", "99.9"),
        ("0.3", "cost; autocontext; cost", "0.3"),
        ("0.30 times", "cost; autocontext; cost", "0.29 times"),
        ("9 µs", "turn; check; figure", "1,470 µs"),
        ("9.00 times", "turn; check; beside", "10.30 times"),
        ("1", "turn; check; more: calls", "1,016"),
        ("8", "turn; check; more: left", "4"),
        ("9.0 µs", "summary; get, hit; others", "98.9 µs"),
    ],
)
def test_a_claim_becomes_what_its_table_says_with_as_many_places(number, source, true):
    assert filled(claim(number, source), TABLES) == claim(true, source)
    assert filled(claim(true, source), TABLES) == claim(true, source)


@pytest.mark.parametrize(
    ("number", "source"),
    [
        ("1", "nothing; autocontext; cost"),
        ("1", "recall; autocontext; in context"),
        ("1", "recall; langchain; 4,000; in context"),
        ("1", "recall; autocontext; 4,000; shown"),
        ("1", "turn; check; more: rows"),
        ("1", "recall; autocontext; 4,000; policy"),
        ("1 ms", "turn; check; figure"),
        ("many", "cost; autocontext; cost"),
    ],
)
def test_a_claim_that_no_table_backs_is_refused(number, source):
    with pytest.raises(UnbackedClaimError):
        filled(claim(number, source), TABLES)


@pytest.mark.parametrize(
    "text",
    [
        "91 %",
        "1.5 ms",
        "12 µs",
        "1,000 us",
        "3.2 times",
        "0.8 s",
        "a few milliseconds",
        "thousand messages a second",
        "5 percent",
    ],
)
def test_a_figure_without_a_table_is_found(text):
    assert unbacked("README.md", f"It takes {text} of all.") != []


@pytest.mark.parametrize(
    "text",
    [
        "wait 30 seconds", "`sleep 5 ms`", "4 times", "Python 3.11", "```text\n5 ms\n```", claim("91 %", "x; y"),
        "<!-- begin summary -->\n| 5 ms |\n<!-- end summary -->",
        claim("5", "x; y").replace("of them", "messages a second"),
    ],
)  # fmt: skip
def test_settings_code_and_backed_figures_are_left_alone(text):
    assert unbacked("README.md", text) == []


def test_exceptions_are_still_needed():
    found = {str(path.relative_to(claims.ROOT)): path.read_text("utf-8") for path in claims.pages()}
    assert [(name, text) for name, texts in NOT_MEASURED.items() for text in texts if text not in found[name]] == []
