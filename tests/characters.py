"""Characters for hostile texts."""

import unicodedata


def of_each_category() -> dict[str, str]:
    """The first character of every Unicode category, surrogates (Cs) included."""
    characters: dict[str, str] = {}
    for code in range(0x10000):
        characters.setdefault(unicodedata.category(chr(code)), chr(code))
    return characters


MADE_OF = {
    "joiner": "\u200d", "variation": "\ufe0f", "flag": "\U0001f1e6", "jamo": "\u1100", "mark": "\u0301",
    "underscore": "_", "dot": ".", "letter": "a", "digit": "1", "newline": "\n", "blank": " ",
}  # fmt: skip
"""What graphemes and words are made of."""
