"""Numbers as people write them: those with one reading are read, the others refused."""

import math
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.cache import InvalidNumber, normalize_number
from autocontext.errors import ConfigError

ONE_READING: dict[str, float] = {
    "50000": 50000, "50,000": 50000, "50k": 50000, "50K": 50000, "fifty thousand": 50000, "50 000": 50000,
    "50\u202f000": 50000, "50'000": 50000, "50_000": 50000, "50000.0": 50000, "5e4": 50000, "$50,000": 50000,
    "50,000 USD": 50000, "50.000,00 €": 50000, "USD 50k": 50000, "５００００": 50000, "5万": 50000,
    "$1.2m": 1_200_000, "1.2 million": 1_200_000, "1,234,567": 1_234_567, "1.234.567": 1_234_567,
    "12,34,567": 1_234_567, "1,234.56": 1234.56, "1.234,56": 1234.56, "1,5": 1.5, "0.123": 0.123, "0,123": 0.123,
    ".5": 0.5, "1234.567": 1234.567, "-5": -5, "\u22125": -5, "-$5": -5, "$-5": -5, "+5": 5,
    "zero": 0, "-five": -5, "a hundred": 100, "two hundred and five": 205, "twenty-one": 21,
    "nineteen hundred": 1900, "one million two hundred thousand and three": 1_200_003,
    "12 thousand": 12_000, "3 Mio": 3_000_000, "1.2亿": 120_000_000, "3千": 3000,
}  # fmt: skip
NONE_OR_TWO = [
    "1.234", "1.234k", "999.999", "", " ", "abc", "nan", "inf", "50%", "5 kg", "1,2,3", "1..2", "12,345,67", "--5",
    "-(-5)", "one two", "hundred thousand hundred", "fifty thousand million", "k", "point", "five point", "True",
    "twenty eleven", "一千二", "五万",
    "two point five", "minus five", "(500)", "5 dozen", "1 2 3", "50 000,5.5", "and five", "five and", "0x10",
    "a", "zero hundred",
]  # fmt: skip


@pytest.mark.parametrize("text", ONE_READING)
def test_002_8_one_reading(text: str) -> None:
    number = normalize_number(text)
    assert number == ONE_READING[text]
    assert type(number) is (int if number == int(number) else float)


@pytest.mark.parametrize(
    ("number", "units"),
    [
        (3_000, "k K thousand Tsd 千"), (30_000, "万 萬"), (3_000_000, "m M mn mm Mio million millions"),
        (300_000_000, "亿 億"), (3_000_000_000, "b bn Mrd billion billions"),
        (3_000_000_000_000, "t tn trillion trillions 兆"),
    ],
)  # fmt: skip
def test_a_unit_behind_a_number_says_how_many_times_it_is_meant(number: int, units: str) -> None:
    assert [normalize_number(f"3 {unit}") for unit in units.split()] == [number] * len(units.split())


@pytest.mark.parametrize("text", NONE_OR_TWO)
def test_002_8_none_or_two_readings_are_refused(text: str) -> None:
    with pytest.raises(InvalidNumber):
        normalize_number(text)


@pytest.mark.parametrize(
    ("text", "locale", "number"),
    [
        ("1.234", "de", 1234), ("1.234", "en", 1.234), ("1,234", "en_US.UTF-8", 1234), ("1,234", "fr-FR", 1.234),
        ("50,000", "de", 50), ("1'234.5", "de-CH", 1234.5), ("1.234k", "en", 1234), ("1.234,5 €", "es", 1234.5),
        ("1,234.5", "es-MX", 1234.5), ("1.5", "zh", 1.5),
    ],
)  # fmt: skip
def test_a_locale_decides(text: str, locale: str, number: float) -> None:
    assert normalize_number(text, locale=locale) == number


def test_a_locale_that_contradicts_the_text_is_told() -> None:
    with pytest.raises(InvalidNumber):
        normalize_number("1,234.5", locale="de")
    with pytest.raises(ConfigError, match="klingon"):
        normalize_number("5", locale="klingon")


@pytest.mark.parametrize("value", [True, None, [5], math.nan, math.inf, Decimal("NaN"), Decimal("Infinity"), b"5"])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidNumber):
        normalize_number(value)


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_and_their_plain_texts_stay_what_they_are(number: float) -> None:
    assert normalize_number(number) == number
    # Past 2**53 the shortest text of a float names another whole number, which the same float stands for.
    assert float(normalize_number(Decimal(repr(number)))) == float(number)
    assert float(normalize_number(f"{number!r}", locale="en")) == float(number)


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_groups_of_thousands_change_nothing(number: int) -> None:
    assert normalize_number(f"{number:,}") == number
    assert normalize_number(f"{number:,}".replace(",", "."), locale="de") == number
    assert normalize_number(Fraction(number)) == number


@given(st.integers(min_value=0, max_value=10**15 - 1))
def test_english_words_are_read_back(number: int) -> None:
    assert normalize_number(spelled(number)) == number


def spelled(number: int) -> str:
    ones = (  # noqa: SIM905 (words are read as words)
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen"
    ).split()
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
    if number < 20:
        return ones[number]
    if number < 100:
        return tens[number // 10 - 2] + (f"-{ones[number % 10]}" if number % 10 else "")
    scales = {10**12: "trillion", 10**9: "billion", 10**6: "million", 1000: "thousand", 100: "hundred"}
    scale, name = next((scale, name) for scale, name in scales.items() if number >= scale)
    rest = number % scale
    return f"{spelled(number // scale)} {name}" + (f" and {spelled(rest)}" if rest else "")


@pytest.mark.parametrize(
    "value", ["1" + " " * 50_000 + "!", "a" + "\u0301\u0316" * 100_000, Decimal("1E9999999"), Decimal("1E-9999999")],
    ids=["spaces", "marks", "large", "small"],
)  # fmt: skip
def test_row_24_what_is_too_long_is_refused_at_once(value: Any) -> None:
    start = time.thread_time()
    with pytest.raises(InvalidNumber, match=r"characters|digits") as caught:
        normalize_number(value)
    assert len(str(caught.value)) < 200
    assert time.thread_time() - start < 5
