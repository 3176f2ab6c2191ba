"""Split a text into words: lower case, NFKC, technical names whole, runs of CJK characters as pairs.

Every search and every ranker of the library splits texts here. Stores keep search segments of what `split` gives: raise
`autocontext.stores.search_index.FORMAT` when it changes. Words and stems are taken when somebody searches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain

from autocontext.caches import cached
from autocontext.text.normal_forms import normalized
from autocontext.text.stems import stem
from autocontext.text.stop_words import STOP_WORDS, cjk_stop

# Compiled at first use: the character classes take 10 ms.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\u3005"
# Kana, Han and Hangul: scripts whose words are found as pairs of characters.
_RUN = rf"[{_CJK}\U00020000-\U0003ffff]"
_SIGN = rf"[^\W_{_CJK}\U00020000-\U0003ffff]"
_LETTER = rf"[^\W\d_{_CJK}\U00020000-\U0003ffff]"
_RUNS = f"{_RUN}+"
_WORD = (
    rf"{_RUNS}"
    rf"|(?i:\.net)(?!{_SIGN}|_)"  # the one name that begins with a dot
    rf"|{_SIGN}(?:{_SIGN}|[._+#@/&-](?={_SIGN})|'(?={_LETTER})|_)*(?:\+\+|[+#](?!{_SIGN}))?"
    rf"|(?<!_)_+{_SIGN}(?:{_SIGN}|_)*"  # the run of underscores is tried once
)
_STRETCH = 4 * 1024
"""Characters."""
_BETWEEN_WORDS = " \n。，、！？"
_FIRST_CJK = "\u3005"
_BLANKED = bytes(i if i > 127 or chr(i).isalnum() or chr(i) in "._+#@/&-'" else ord(" ") for i in range(256))
"""Of UTF-8: what is no part of any word becomes a blank."""
_INNER = re.compile(r"[._+#@/&-]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


_compiled = cache(re.compile)


def words(text: str) -> Iterator[tuple[str, str]]:
    """The words of a text in order, each in lower case and as written; a run of CJK characters is one word.

    Stop words are included.
    """
    return ((written.lower(), written) for written in map(_without_ending, _matches(text)) if written)


def _matches(text: str) -> Iterator[str]:
    return chain.from_iterable(map(_compiled(_WORD).findall, map(_plain, _stretches(text))))


def _plain(stretch: str) -> str:
    return stretch if stretch.isascii() else normalized(stretch, "NFKC").replace("’", "'")


def _without_ending(match: str) -> str:
    return match[:-2] if match.endswith(("'s", "'S")) else match


def _stretches(text: str) -> Iterator[str]:
    """A long text in parts, cut behind a character between words, so that no call holds the interpreter for long.

    A run without such a character is cut anywhere.
    """
    start = 0
    while len(text) - start > _STRETCH:
        stop = start + _STRETCH
        stop = max(text.rfind(sign, start, stop) + 1 for sign in _BETWEEN_WORDS) or stop
        yield text[start:stop]
        start = stop
    yield text[start:]


def terms(text: str) -> Iterator[str]:
    """The search terms of a text, in order: stems, stems of the parts of joined names, pairs of CJK characters."""
    return chain.from_iterable(map(_terms_of, _matches(text)))


def _terms_of(match: str) -> Sequence[str]:
    return _cached_terms(match) if len(match) <= _CACHED else _terms_of_word(match)


def _terms_of_word(match: str) -> Sequence[str]:
    written = _without_ending(match)
    word = written.lower()
    if is_cjk(word):
        return pairs(word)
    return (stem(word), *map(stem, parts(word, written))) if word else ()


_CACHED = 64
"""Characters of the longest word whose terms are remembered."""
_cached_terms = cached(65_536)(_terms_of_word)


def split(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The runs of CJK characters of each stretch of a text, and its other chunks: what stands between blanks.

    Takes a tenth of the time of `terms`, since a chunk may hold several words or none: `terms_of_chunk` knows which.
    """
    for stretch in _stretches(text):
        if stretch.isascii():
            yield [], stretch.encode().translate(_BLANKED).decode().split()
            continue
        plain = _plain(stretch)
        runs = _compiled(_RUNS).findall(plain)
        if runs:
            plain = _compiled(_RUNS).sub(" ", plain)
        yield runs, plain.encode("utf-8", "surrogatepass").translate(_BLANKED).decode("utf-8", "surrogatepass").split()


def terms_of_chunk(chunk: str) -> Sequence[str]:
    """The terms of a chunk of `split`, in order."""
    return _cached_terms_of_chunk(chunk) if len(chunk) <= _CACHED else _terms_of_chunk(chunk)


def _terms_of_chunk(chunk: str) -> Sequence[str]:
    return tuple(chain.from_iterable(map(_terms_of, _compiled(_WORD).findall(chunk))))


_cached_terms_of_chunk = cached(65_536)(_terms_of_chunk)


def is_cjk(word: str) -> bool:
    """Whether a word is a run of Kana, Han or Hangul."""
    return word >= _FIRST_CJK and _compiled(_RUN).match(word) is not None


def pairs(run: str) -> list[str]:
    """The pairs of neighbouring characters of a run; the character itself when there is only one."""
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


def parts(word: str, written: str) -> list[str]:
    """The parts of a joined word: "next" and "js" of "next.js", "http" and "server" of "HttpServer"."""
    pieces = [p.lower() for piece in _INNER.split(written) for p in _HUMP.split(piece) if p]
    return [p for p in pieces if p != word and p not in STOP_WORDS and not p.isspace()] if len(pieces) > 1 else []


def weak_signs(run: str) -> list[bool]:
    """For each character of a CJK run whether it is grammar only, such as a particle."""
    weak = [False] * len(run)
    for match in cjk_stop().finditer(run):
        weak[match.start() : match.end()] = [True] * (match.end() - match.start())
    return weak


def rarity(holders: float, texts: int) -> float:
    """The inverse document frequency of a word that `holders` of `texts` texts hold.

    Lucene's: ln(1 + (N - n + 0.5) / (n + 0.5)), above 0 even for a word in every text.
    """
    return math.log(1 + (texts - holders + 0.5) / (holders + 0.5))
