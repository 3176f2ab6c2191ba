"""What in a text is worth quoting: paths, URLs, identifiers, commands, numbers, quoted names, error lines.

Pure functions from a text to pairs (value, surroundings). A value is found by its form alone (digits, separators,
capitals inside a word, quotes, units), so that it works for any tool, programming language and script. Surroundings are
always a literal piece of one line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

AROUND = 20
"""Characters of its line that are quoted on either side of a value."""
LONGEST = 200
"""Characters; a longer run without a break is data, a longer argument is a document."""
_AT_ONCE = 16_000
"""Characters that one search goes through: until it ends the interpreter lets no other thread run."""
_LOOKED_AT = 128_000
"""Characters of one text that are searched: its head, its tail, and slices between."""
_SLICES = 16

_BREAKS = r"\s\"'`()\[\]{}<>|;&,=*$!?\\\x00-\x1f、。，．；：！？（）［］｛｝「」『』【】〈〉《》〔〕“”‘’…・"
_CJK = r"\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
# Without plain words, which name nothing: most of a text. It begins where a run does, lest it finds the rest of a word.
_RUN = re.compile(rf"(?<![^{_BREAKS}])(?![A-Za-z][a-z]++(?:[{_BREAKS}]|\Z))[^{_BREAKS}]{{3,}}")
_CJK_CHARACTER = re.compile(f"[{_CJK}]")
_CJK_PARTS = re.compile(rf"(?<![0-9A-Za-z_.])\d[\d.,:/-]*[%％℃]?[{_CJK}]{{1,2}}|[^{_CJK}]{{3,}}")
_QUOTED = re.compile(r"[「『【《“]([^「」『』【】《》“”\n]{2,60})[」』】》”]|\"([^\"\n]{3,60})\"")
# Words first, then the line around them: the pattern is too slow for whole texts.
_ERROR_WORDS = ("error", "exception", "fatal", "panic", "failed", "exit")
_CJK_ERROR_WORDS = ("错误", "失败", "异常", "錯誤", "失敗", "エラー", "例外", "오류", "실패")
_ERROR = re.compile(
    r"(?:Error|Exception)(?:\[\w+\])?: \S"
    r"|\b(?:error|fatal|panic|failed)(?:\[\w+\]| [A-Z]+\d+)?: \S"
    r"|\bexit(?:ed with)?(?: (?:code|status))+\D{0,3}\d"
    r"|(?:错误|失败|异常|錯誤|失敗|エラー|例外|오류|실패)\s?[:：]",
    re.IGNORECASE,
)
_SHAPE = re.compile(r"[0-9_/.@]|(?<=.)[A-Z]")
_ENCODED = 41
"""Characters in a row from which on they may be encoded data."""
_UNBROKEN = re.compile(rf"[A-Za-z0-9+]{{{_ENCODED},}}")
_BASE64 = re.compile(r"(?=.*[0-9])(?=.*[A-Z])(?=.*[a-z])[A-Za-z0-9+][A-Za-z0-9+/]{58,}={0,2}")
_HEX = re.compile(r"[0-9a-fA-F]{1,128}")
# Scripts without spaces have no word ends: there any place is one, and every character is a word.
_WORD = re.compile(rf"[^\W{_CJK}]")
_WORDS = re.compile(rf"[^\W{_CJK}]+|[{_CJK}]")


def leaves(value: Any) -> Iterator[str]:
    """The texts and numbers of a JSON value, in order; booleans and null are left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield repr(value)


def occurs(value: str, text: str) -> bool:
    """Whether a value stands in a text as a whole, not as a part of a longer word."""
    at, size = text.find(value), len(value)
    if at < 0:
        return False
    left, right = _WORD.match(value), _WORD.match(value[-1:])
    while at >= 0:
        joined = left and at and _WORD.match(text[at - 1])
        if not joined and not (right and _WORD.match(text[at + size : at + size + 1])):
            return True
        at = text.find(value, at + 1)
    return False


def words(text: str) -> list[str]:
    """The words of a text. A text in which a value occurs has all words of the value."""
    if len(text) <= _AT_ONCE:
        return _WORDS.findall(text)
    return [word for some in word_lists(text) for word in some]


def word_lists(text: str) -> Iterator[list[str]]:
    """The words of a text, as many at a time as are found without keeping other threads waiting."""
    start = 0
    while start < len(text):
        stop = min(start + _AT_ONCE, len(text))
        found = _WORDS.findall(text, start, stop)
        if stop < len(text) and _WORD.match(text, stop - 1) and _WORD.match(text, stop):
            if len(found[-1]) < stop - start:
                # Its last word goes on: that is taken up again.
                stop -= len(found.pop())
            elif whole := _WORDS.match(text, start):
                found, stop = [whole.group()], whole.end()
        yield found
        start = stop


def values_in(text: str) -> Iterator[tuple[str, str]]:
    """Values of a text with their surroundings; of a very long text its ends and slices between are searched."""
    for piece in _pieces(text):
        # Line by line: what stands in quotes comes after what else its line names.
        quoted = _quoted(piece)
        end, at, quote = next(quoted, _NO_QUOTE)
        for start, value in _runs(piece):
            while end <= start:
                yield quote, _around(piece, at, quote)
                end, at, quote = next(quoted, _NO_QUOTE)
            yield value, _around(piece, start, value)
        while quote:
            yield quote, _around(piece, at, quote)
            end, at, quote = next(quoted, _NO_QUOTE)


def _around(text: str, start: int, value: str) -> str:
    """The value with a piece of its line on either side."""
    # Comparisons, as this is done for every value and `max` takes as long as all the rest.
    stop = start + len(value)
    first = start - AROUND if start > AROUND else 0
    begin, end = text.rfind("\n", first, start), text.find("\n", stop, stop + AROUND)
    return text[begin + 1 if begin >= 0 else first : end if end >= 0 else stop + AROUND]


def argument_values(text: str) -> Iterator[tuple[str, str]]:
    """Values of a call's argument: a short one is a value itself and needs no surroundings."""
    whole = text.strip()
    if len(whole) <= LONGEST and "\n" not in whole and _says_something(whole):
        yield whole, whole
    yield from values_in(text)


def errors_in(text: str) -> Iterator[str]:
    """Lines that report an error, without what stands far before it, at most LONGEST characters."""
    for piece in _pieces(text):
        done = 0
        for word in _error_words(piece):
            if word < done:
                continue
            start = max(piece.rfind("\n", done, word) + 1, word - 2 * LONGEST, done)
            stop = piece.find("\n", start)
            done = min(stop if stop >= 0 else len(piece), start + 3 * LONGEST)
            line = piece[start:done]
            if found := _ERROR.search(line):
                start = max(0, found.start() - 2 * AROUND) if found.start() > LONGEST // 2 else 0
                yield line[start : start + LONGEST].strip()


def _error_words(text: str) -> list[int]:
    """Places of words that may report an error, in order."""
    small = text.lower()
    if len(small) != len(text):  # "İ" becomes two characters
        small = "".join(ch.lower()[0] for ch in text)
    found: list[int] = []
    for word in _ERROR_WORDS if text.isascii() else _ERROR_WORDS + _CJK_ERROR_WORDS:
        at = small.find(word)
        while at >= 0:
            found.append(at)
            at = small.find(word, at + len(word))
    return sorted(found)


def _says_something(argument: str) -> bool:
    """Not a bare lower-case word such as a mode or a flag's value, not a few letters or digits."""
    if not words(argument):
        return False
    if not argument.isascii():
        return len(argument) >= 2
    return (len(argument) > 3 or (len(argument) == 3 and argument.isdigit())) and not (
        argument.isalpha() and argument.islower()
    )


def _pieces(text: str) -> Iterator[str]:
    if len(text) <= _LOOKED_AT:
        yield text
        return
    end = _LOOKED_AT * 3 // 8
    size = (_LOOKED_AT - 2 * end) // _SLICES
    yield text[:end]
    for k in range(_SLICES):
        at = end + (len(text) - 2 * end) * k // _SLICES
        yield text[at : at + size]
    yield text[-end:]


def _runs(text: str) -> Iterator[tuple[int, str]]:
    """Values that are set off by blanks and the like, with their places."""
    at = 0
    for run in _RUN.findall(text):
        named = _named(run) if len(run) <= LONGEST else ()
        if named or len(run) >= _ENCODED or not run.isascii():
            # Its place is searched from behind the last run that may hold the same characters.
            at = text.index(run, at)
            for shift, value in named:
                yield at + shift, value
            at += len(run)


@lru_cache(maxsize=8192)
def _named(run: str) -> tuple[tuple[int, str], ...]:
    """What a run of characters without a break names, with its place in it."""
    if run.isascii() or not _CJK_CHARACTER.search(run):
        return _token(run, 0)
    # Without spaces between words, what is not CJK and numbers with their units stand out.
    parts = _CJK_PARTS.finditer(run)
    return tuple(named for part in parts for named in _token(part.group(), part.start()))


_NO_QUOTE = (sys.maxsize, 0, "")


def _quoted(text: str) -> Iterator[tuple[int, int, str]]:
    """Phrases and names in quotes, with where their line ends and where they stand."""
    if '"' not in text and text.isascii():
        return
    for found in _QUOTED.finditer(text):
        group = found.lastindex or 1
        name = found.group(group)
        if (" " in name or not name.isascii()) and words(name):
            end = text.find("\n", found.end())
            yield end if end >= 0 else len(text), found.start(group), name


def _token(text: str, at: int) -> tuple[tuple[int, str], ...]:
    """The run without punctuation at its ends, when it names something."""
    ended = text.rstrip(".:,-/")
    token = ended.lstrip(":,-" if ended[:1] == "." else ".:,-")
    return ((at + len(ended) - len(token), token),) if _names_something(token) else ()


def _names_something(token: str) -> bool:
    """A digit, a separator or an inner capital sets a name off from words; encoded data is none."""
    if len(token) < 4:
        with_unit = len(token) > 1 and token[:1].isdigit() and not token.isascii()
        return with_unit or (len(token) == 3 and token.isdigit())
    if (token.isalpha() and token.islower()) or not _SHAPE.search(token) or not any(ch.isalnum() for ch in token):
        return False
    if len(token) < _ENCODED:
        return True
    unbroken = _UNBROKEN.search(token)
    return not _BASE64.fullmatch(token) and (unbroken is None or _HEX.fullmatch(unbroken.group()) is not None)
