"""Numbers as people and models write them: "50k", "50,000", "fifty thousand", "$1.2m", "5万"."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from fractions import Fraction
from typing import Any

from autocontext.errors import ConfigError, InvalidNumber

# ruff: noqa: SIM905 (word lists are easier to read as text)
_COMMA = (
    "af be bg bs ca cs da de el es et eu fi fr gl hr hu id is it lt lv mk nb nl nn no pl pt ro ru sk sl sq sr sv tr uk "
    "vi en-za"
)
_POINT = (
    "en zh ja ko th he hi bn ta te ms fil ga cy mt ur "
    "de-ch de-li it-ch es-mx es-us es-pr es-gt es-hn es-ni es-pa es-pe es-sv es-do es-cu"
)
# Languages, then countries that write numbers in another way than their language elsewhere.
_DECIMAL_MARKS = dict.fromkeys(_COMMA.split(), ",") | dict.fromkeys(_POINT.split(), ".")

_SCALES = {
    "k": 10**3, "thousand": 10**3, "tsd": 10**3, "m": 10**6, "mn": 10**6, "mm": 10**6, "mio": 10**6, "million": 10**6,
    "millions": 10**6, "b": 10**9, "bn": 10**9, "mrd": 10**9, "billion": 10**9, "billions": 10**9, "t": 10**12,
    "tn": 10**12, "trillion": 10**12, "trillions": 10**12,
    "千": 10**3, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12,
}  # fmt: skip
_CURRENCY = re.compile(r"^(?:[A-Z]{2,3}(?=[^A-Za-z])|[A-Z]{0,2}\$|[€£¥₹₩₽₺₫฿])|(?:[€£¥₹₩₽₺₫฿$]|\b[A-Z]{3}|[元円원])$")
_NUMBER = re.compile(r"([0-9][0-9.,'’_ ]*|[.,][0-9]+)(?:e([+-]?[0-9]{1,3}))?\s*([^\W\d_]*)\.?", re.IGNORECASE)
# Groups of three digits; in India the last three digits, then pairs.
_GROUPS = {
    mark: re.compile(r"\d{1,3}(?:M\d{3})+|\d{1,2}(?:M\d{2})+M\d{3}".replace("M", re.escape(mark))) for mark in ",.'’_ "
}

_BELOW_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_ONES = dict(zip(_BELOW_TWENTY.split(), range(20), strict=True))
_TENS = dict(zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True))
_LONGEST = 1_000
"""Characters of a text, digits of a decimal: what is longer is no number that somebody wrote."""
_WORD_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}


def normalize_number(value: Any, *, locale: str | None = None) -> int | float:
    """The number that a text or number stands for: an int when it is whole, else a float.

    `locale` ("en", "de-CH", ...) decides what comma and point mean. Without it, a comma before groups of three digits
    separates thousands, and a single point before three digits is refused: "1.234" is 1234 in German. Currency signs
    are dropped; whole numbers may be English words. Raises InvalidNumber, and ConfigError for an unknown locale.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal | Fraction):
        raise InvalidNumber(f"{type(value).__name__} is not a number; give a text or a number")
    if isinstance(value, str) and len(value) > _LONGEST:
        raise InvalidNumber(f"a text of {len(value):,} characters is not a number")
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > _LONGEST:
        raise InvalidNumber(f"a number of more than {_LONGEST:,} digits cannot be read")
    decimal_mark = None if locale is None else _decimal_mark(locale)
    try:
        exact = _read(value, decimal_mark) if isinstance(value, str) else Fraction(value)
    except (OverflowError, ValueError) as error:
        raise error if isinstance(error, InvalidNumber) else InvalidNumber(f"{value!r} is not finite") from None
    return int(exact) if exact.denominator == 1 else float(exact)


def _read(original: str, decimal_mark: str | None) -> Fraction:
    text = unicodedata.normalize("NFKC", original).replace("\u2212", "-").strip()
    text, negative = _without_sign(text)
    text = _CURRENCY.sub("", text, count=1).strip()
    text = _CURRENCY.sub("", text, count=1).strip()
    text, negative_amount = _without_sign(text)  # "$-5"
    if negative and negative_amount:
        raise _not_one_number(original)
    sign = -1 if negative or negative_amount else 1
    match = _NUMBER.fullmatch(text)
    if match is None:
        return Fraction(sign * _from_words(original, text))
    digits, exponent, unit = match.groups()
    scale = _SCALES.get(unit.lower(), 0) if unit else 1
    if not scale:
        raise InvalidNumber(f"{original!r}: {unit!r} is not a multiple such as k or million; remove units first")
    return sign * _from_digits(original, digits.strip(), decimal_mark) * scale * Fraction(10) ** int(exponent or 0)


def _without_sign(text: str) -> tuple[str, bool]:
    sign = text[:1]
    return (text[1:].strip() if sign in ("+", "-") else text), sign == "-"


def _from_digits(original: str, digits: str, decimal_mark: str | None) -> Fraction:
    """Digits with a decimal mark and groups of thousands."""
    if decimal_mark is None:
        decimal_mark = _likely_mark(original, digits)
    whole, _, rest = digits.partition(decimal_mark) if decimal_mark else (digits, "", "")
    if rest and not rest.isdigit():
        raise _not_one_number(original)
    separators = {c for c in whole if not c.isdigit()}
    if len(separators) > 1 or (separators and not _GROUPS[separators.pop()].fullmatch(whole)):
        raise _not_one_number(original)
    return Fraction(("".join(filter(str.isdigit, whole)) or "0") + ("." + rest if rest else ""))


def _likely_mark(original: str, digits: str) -> str:
    """The decimal mark without a locale; "" for none. Raises InvalidNumber where both readings make sense."""
    marks = [mark for mark in ",." if mark in digits]
    if len(marks) == 2:
        return max(marks, key=digits.rindex)
    if not marks or digits.count(mark := marks[0]) > 1:
        return ""
    whole, _, rest = digits.partition(mark)
    if len(rest) != 3 or not 1 <= len(whole) <= 3 or whole.startswith("0") or not whole.isdigit():
        return mark
    if mark == ",":
        return ""
    raise InvalidNumber(
        f'{original!r} is {whole}.{rest} in English and {whole}{rest} in German: pass locale="en" or locale="de"'
    )


def _decimal_mark(locale: str) -> str:
    tag = locale.replace("_", "-").split(".")[0].lower()
    mark = _DECIMAL_MARKS.get(tag) or _DECIMAL_MARKS.get(tag.split("-")[0])
    if mark:
        return mark
    raise ConfigError(f'locale: {locale!r} is not known; give a language such as "en", "de" or "zh"')


def _from_words(original: str, text: str) -> int:
    """A whole number in English words: groups below a thousand, each with its scale, the scales falling."""
    words = re.findall(r"[a-z]+", text.lower())
    if not words or re.sub(r"[\s,-]", "", text.lower()) != "".join(words):
        raise _not_one_number(original)
    # `limit`: the next word must be below it.
    total, group, last_scale, limit = 0, -1, 10**15, 1000
    for i, word in enumerate(words):
        if word in ("a", "an") and i == 0 and len(words) > 1:
            group, limit = 1, 1
        elif word == "and" and 0 < i < len(words) - 1:
            continue
        elif word in _ONES and _ONES[word] < limit:
            group, limit = max(group, 0) + _ONES[word], 1
        elif word in _TENS and limit > 10:
            group, limit = max(group, 0) + _TENS[word], 10
        elif word == "hundred" and 0 < group < 100:
            group, limit = group * 100, 100
        elif word in _WORD_SCALES and group > 0 and _WORD_SCALES[word] < last_scale:
            last_scale = _WORD_SCALES[word]
            total, group, limit = total + group * last_scale, -1, 1000
        else:
            raise _not_one_number(original)
    return total + max(group, 0)


def _not_one_number(original: str) -> InvalidNumber:
    return InvalidNumber(f"{original!r} is not a number, or can be read in two ways; write it with digits")
