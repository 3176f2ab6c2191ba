"""Numbers as people and models write them: "50k", "50,000", "fifty thousand", "$1.2m", "5万"."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from fractions import Fraction
from typing import Any

from autocontext.errors import ConfigError, InvalidNumber

# ruff: noqa: SIM905 (word lists are read as words)
_COMMA_DECIMALS = frozenset(
    "af be bg bs ca cs da de el es et eu fi fr gl hr hu id is it lt lv mk nb nl nn no "
    "pl pt ro ru sk sl sq sr sv tr uk vi".split()
)
_POINT_DECIMALS = frozenset("en zh ja ko th he hi bn ta te ms fil ga cy mt ur".split())
# Languages of one habit in countries of the other.
_EXCEPTIONS = {"de-ch": ".", "de-li": ".", "it-ch": ".", "en-za": ",", **dict.fromkeys(
    "es-mx es-us es-pr es-gt es-hn es-ni es-pa es-pe es-sv es-do es-cu".split(), "."
)}  # fmt: skip

_SCALES = {
    "k": 10**3, "thousand": 10**3, "tsd": 10**3, "m": 10**6, "mn": 10**6, "mm": 10**6, "mio": 10**6, "million": 10**6,
    "millions": 10**6, "b": 10**9, "bn": 10**9, "mrd": 10**9, "billion": 10**9, "billions": 10**9, "t": 10**12,
    "tn": 10**12, "trillion": 10**12, "trillions": 10**12, "hundred": 100, "dozen": 12,
    "千": 10**3, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12,
}  # fmt: skip
_CURRENCY = re.compile(r"^(?:[A-Z]{2,3}(?=[^A-Za-z])|[A-Z]{0,2}\$|[€£¥₹₩₽₺₫฿])|(?:[€£¥₹₩₽₺₫฿$]|\b[A-Z]{3}|[元円원])$")
_NUMBER = re.compile(r"([0-9][0-9.,'’_ ]*|[.,][0-9]+)(?:e([+-]?[0-9]{1,3}))?\s*([^\W\d_]*)\.?", re.IGNORECASE)
# Thousands, or as in India the last three figures and then pairs.
_GROUPS = {
    mark: re.compile(r"\d{1,3}(?:M\d{3})+|\d{1,2}(?:M\d{2})+M\d{3}".replace("M", re.escape(mark))) for mark in ",.'’_ "
}

_ONES = {
    word: i
    for i, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen".split()
    )
}
_TENS = {
    word: 10 * i for i, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2)
}
_WORD_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_CJK_DIGITS = {**{c: i for i, c in enumerate("零一二三四五六七八九")}, "〇": 0, "两": 2, "兩": 2}
_CJK_SMALL = {"十": 10, "百": 100, "千": 1000}
_CJK_LARGE = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12}


def normalize_number(value: Any, *, locale: str | None = None) -> int | float:
    """The number that a text or number stands for: an int when it is whole, else a float.

    `locale` ("en", "de-CH", ...) says what comma and point mean. Without one, a comma before groups of three digits
    separates thousands, and a single point before three digits is refused, as "1.234" is read in two ways. Currency
    marks are dropped. Words are English or Chinese. Raises InvalidNumber.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal | Fraction):
        raise InvalidNumber(f"{type(value).__name__} is no number; give a text or a number")
    decimal_mark = None if locale is None else _decimal_mark(locale)
    try:
        exact = _of_text(value, decimal_mark) if isinstance(value, str) else Fraction(value)
    except (OverflowError, ValueError) as error:
        raise error if isinstance(error, InvalidNumber) else InvalidNumber(f"{value!r} is no finite number") from None
    return int(exact) if exact.denominator == 1 else float(exact)


def _of_text(given: str, decimal_mark: str | None) -> Fraction:
    text = unicodedata.normalize("NFKC", given).replace("\u2212", "-").strip()
    sign = 1
    if text.startswith("(") and text.endswith(")"):
        sign, text = -1, text[1:-1].strip()
    text, negative = _without_sign(text)
    text = _CURRENCY.sub("", text, count=1).strip()
    text = _CURRENCY.sub("", text, count=1).strip()
    text, again = _without_sign(text)
    if negative and again:
        raise _no_number(given)
    sign = -sign if negative or again else sign
    found = _NUMBER.fullmatch(text)
    if found is None:
        return sign * _of_words(given, text)
    digits, exponent, unit = found.groups()
    scale = _SCALES.get(unit.lower(), 0) if unit else 1
    if not scale:
        raise InvalidNumber(f"{given!r}: {unit!r} is no multiple; take units off, and convert them before")
    return sign * _figures(given, digits.strip(), decimal_mark) * scale * Fraction(10) ** int(exponent or 0)


def _without_sign(text: str) -> tuple[str, bool]:
    if text[:1] == "-":
        return text[1:].strip(), True
    return (text[1:].strip() if text[:1] == "+" else text), False


def _figures(given: str, digits: str, decimal_mark: str | None) -> Fraction:
    """Digits with separators, as decimal mark and groups of thousands; refused where both readings make sense."""
    marks = [mark for mark in ",." if mark in digits]
    if decimal_mark is None:
        decimal_mark = _guessed_mark(given, digits, marks)
    whole, mark, rest = digits.partition(decimal_mark) if decimal_mark else (digits, "", "")
    if mark and not rest.isdigit() and rest:
        raise _no_number(given)
    separators = {c for c in whole if not c.isdigit()}
    if len(separators) > 1 or (separators and not _GROUPS[separators.pop()].fullmatch(whole)):
        raise _no_number(given)
    return Fraction(("".join(filter(str.isdigit, whole)) or "0") + ("." + rest if rest else ""))


def _guessed_mark(given: str, digits: str, marks: list[str]) -> str:
    if len(marks) == 2:
        return max(marks, key=digits.rindex)
    if not marks:
        return ""
    mark = marks[0]
    if digits.count(mark) > 1:
        return ""
    whole, _, rest = digits.partition(mark)
    if len(rest) != 3 or not 1 <= len(whole) <= 3 or whole.startswith("0") or not whole.isdigit():
        return mark
    if mark == ",":
        return ""
    raise InvalidNumber(
        f'{given!r} is {whole}.{rest} in English and {whole}{rest} in German: say which, with locale="en" or "de"'
    )


def _decimal_mark(locale: str) -> str:
    tag = locale.replace("_", "-").split(".")[0].lower()
    language = tag.split("-")[0]
    if tag in _EXCEPTIONS:
        return _EXCEPTIONS[tag]
    if language in _COMMA_DECIMALS:
        return ","
    if language in _POINT_DECIMALS:
        return "."
    raise ConfigError(f'locale: {locale!r} is not known; give a language such as "en", "de" or "zh"')


def _of_words(given: str, text: str) -> Fraction:
    if text and all(c in _CJK_DIGITS or c in _CJK_SMALL or c in _CJK_LARGE for c in text):
        return Fraction(_chinese(given, text))
    words = re.findall(r"[a-z]+", text.lower())
    if not words or re.sub(r"[\s,-]", "", text.lower()) != "".join(words):
        raise _no_number(given)
    minus = words[0] in ("minus", "negative")
    whole, point, decimals = _split(words[1:] if minus else words)
    value = Fraction(_english(given, whole))
    if point:
        scale = 1
        if decimals and decimals[-1] in _WORD_SCALES:
            scale = _WORD_SCALES[decimals.pop()]
        if not decimals or any(_ONES.get(word, 10) > 9 for word in decimals):
            raise _no_number(given)
        value += Fraction(int("".join(str(_ONES[word]) for word in decimals)), 10 ** len(decimals))
        value *= scale
    return -value if minus else value


def _split(words: list[str]) -> tuple[list[str], bool, list[str]]:
    if "point" not in words:
        return words, False, []
    at = words.index("point")
    return words[:at] or ["zero"], True, words[at + 1 :]


def _english(given: str, words: list[str]) -> int:
    """Groups of up to three figures, each with its scale, the scales falling."""
    total, group, last_scale, room = 0, -1, 10**15, 1000
    for i, word in enumerate(words):
        if word in ("a", "an") and i == 0 and len(words) > 1:
            group, room = 1, 1
        elif word == "and" and 0 < i < len(words) - 1:
            continue
        elif word in _ONES and _ONES[word] < room:
            group, room = max(group, 0) + _ONES[word], 1
        elif word in _TENS and room > 10:
            group, room = max(group, 0) + _TENS[word], 10
        elif word == "hundred" and 0 < group < 100 and room < 1000:
            group, room = group * 100, 100
        elif word in _WORD_SCALES and group > 0 and _WORD_SCALES[word] < last_scale:
            last_scale = _WORD_SCALES[word]
            total, group, room = total + group * last_scale, -1, 1000
        else:
            raise _no_number(given)
    return total + max(group, 0)


def _chinese(given: str, text: str) -> int:
    """Digits one by one, or parts of up to four figures with falling units, each part with its large unit."""
    if all(c in _CJK_DIGITS for c in text):
        return int("".join(str(_CJK_DIGITS[c]) for c in text))
    total = part = 0
    digit: int | None = None
    unit, large, zero = 10_000, 10**16, False
    for c in text:
        if c in _CJK_DIGITS:
            if digit:
                raise _no_number(given)
            digit, zero = _CJK_DIGITS[c], zero or not _CJK_DIGITS[c]
        elif c in _CJK_SMALL and _CJK_SMALL[c] < unit:
            unit = _CJK_SMALL[c]
            part, digit, zero = part + (digit or 1) * unit, None, False
        elif c in _CJK_LARGE and _CJK_LARGE[c] < large and part + (digit or 0):
            large = _CJK_LARGE[c]
            total, part, digit, unit, zero = total + (part + (digit or 0)) * large, 0, None, 10_000, False
        else:
            raise _no_number(given)
    # Without a zero between, a last digit stands for the next unit in speech: 一千二 is 1200, not 1002.
    if digit and not zero and (100 <= unit < 10_000 or (unit == 10_000 and total)):
        raise _no_number(given)
    return total + part + (digit or 0)


def _no_number(given: str) -> InvalidNumber:
    return InvalidNumber(f"{given!r} is no number that can be read in one way; write it with digits")
