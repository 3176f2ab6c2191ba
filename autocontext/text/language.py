"""Which language a conversation is written in: by script ranges, and by stop words for Latin script."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

# Searched by `re`, which compiles a pattern at its first use and keeps it: importing need not wait for that.
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
"""Characters looked at: enough to tell, cheap on long texts."""


def language_of(texts: Iterable[str]) -> str:
    """English name of the language most of the text is in; "the language of the transcript" when it cannot be told."""
    sample = " ".join(texts)[:_SAMPLE]
    letters = sum(1 for ch in sample if ch.isalpha())
    for name, pattern in _SCRIPTS:
        # An ideogram says as much as a short word, so a fifth of the letters decides; kana mark Japanese at once.
        found = len(re.findall(pattern, sample))
        if found and found >= letters * (0.02 if name == "Japanese" else 0.2):
            return name
    votes: Counter[str] = Counter()
    for word in re.findall(r"[^\W\d_]+", sample.lower()):
        for name in _WORDS.get(word, ()):
            votes[name] += 1
    return votes.most_common(1)[0][0] if votes else "the language of the transcript"
