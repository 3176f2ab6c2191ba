"""Detects the language of a conversation: by script, and for Latin script by stop words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

# Strings: `re` compiles them at first use and caches them, so the import stays fast.
_SCRIPTS = (
    ("Japanese", r"[\u3040-\u30ff]"),
    ("Korean", r"[\uac00-\ud7af]"),
    ("Chinese", r"[\u4e00-\u9fff]"),
    ("Russian", r"[\u0400-\u04ff]"),
    ("Arabic", r"[\u0600-\u06ff]"),
    ("Hindi", r"[\u0900-\u097f]"),
)
_STOP_WORDS = {
    "English": "the and is of to in that it for you with this not are on please what how can be have",
    "Spanish": "el los las que de y en por para con una del se qué cómo está pero más gracias puedes favor",
    "French": "le les des est et une pour dans que qui avec pas vous nous sur ce cette être merci",
    "German": "der die das und ist nicht ein eine mit für auf den dem ich sie wir bitte kann wie auch",
    "Portuguese": "os das que não uma para com por você está mais como obrigado dos são isso",
    "Italian": "il gli che di è non una per con sono della questo come più grazie anche",
}
_WORDS = {
    word: [n for n, words in _STOP_WORDS.items() if word in words.split()]
    for words in _STOP_WORDS.values()
    for word in words.split()
}
_SAMPLE = 4_000
"""Characters that are examined."""


def language_of(texts: Iterable[str]) -> str:
    """English name of the main language; "the language of the transcript" if unknown."""
    sample = " ".join(texts)[:_SAMPLE]
    letters = sum(1 for ch in sample if ch.isalpha())
    for name, pattern in _SCRIPTS:
        # An ideogram counts like a short word, so a fifth of the letters is enough; a few kana mean Japanese.
        matches = len(re.findall(pattern, sample))
        if matches and matches >= letters * (0.02 if name == "Japanese" else 0.2):
            return name
    votes = Counter(name for word in re.findall(r"[^\W\d_]+", sample.lower()) for name in _WORDS.get(word, ()))
    return votes.most_common(1)[0][0] if votes else "the language of the transcript"
