"""A text as words: lower case, compatibility forms folded, technical names whole, CJK runs apart.

Words that only hold a sentence together ("the", "what", "how", "的", "です") are left out: a question is
about its nouns and verbs. In what case or width a word is written makes no difference (NFKC, Unicode lower case).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from autocontext.ranking.stop_words import CJK_STOP, STOP_WORDS

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\u3005"
# Kana, Han and Hangul: scripts whose words are found as pairs of characters.
_RUN = rf"[{_CJK}\U00020000-\U0003ffff]"
_SIGN = rf"[^\W_{_CJK}\U00020000-\U0003ffff]"
_TOKEN = re.compile(
    rf"{_RUN}+"
    r"|(?i:\.net)\b"  # the one name that begins with a dot
    rf"|{_SIGN}(?:{_SIGN}|[._+#@/&-](?={_SIGN})|['’](?=[^\W\d_])|_)*(?:\+\+|[+#](?!{_SIGN}))?"
    rf"|_+{_SIGN}\w*",
)
_INNER = re.compile(r"[._+#@/&-]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SCRIPT = re.compile(_RUN)


def words(text: str) -> Iterator[tuple[str, str]]:
    """The words of a text in order, each as it counts and as it was written; a CJK run is one word.

    Stop words are among them: whoever takes them out can still see what a question asks for.
    """
    for match in _TOKEN.finditer(unicodedata.normalize("NFKC", text)):
        written = match.group().replace("’", "'")
        word = written.lower()
        if word.endswith("'s"):
            word, written = word[:-2], written[:-2]
        if word:
            yield word, written


def is_cjk(word: str) -> bool:
    """Whether a word is a run of Kana, Han or Hangul."""
    return _SCRIPT.match(word) is not None


def parts(word: str, written: str) -> list[str]:
    """What a technical or joined word is made of: "next.js" is next and js, "HttpServer" http and server."""
    found = [p for piece in _INNER.split(written) for p in _HUMP.split(piece) if p]
    lowered = [p.lower() for p in found]
    return [p for p in lowered if p != word and p not in STOP_WORDS and not p.isspace()] if len(lowered) > 1 else []


def weak_signs(run: str) -> list[bool]:
    """For each character of a CJK run whether it only holds the sentence together."""
    weak = [False] * len(run)
    for match in CJK_STOP.finditer(run):
        weak[match.start() : match.end()] = [True] * (match.end() - match.start())
    return weak
