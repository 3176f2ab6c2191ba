"""Characters for hostile texts."""

import unicodedata


def of_each_category() -> dict[str, str]:
    """The first character of every Unicode category, surrogates (Cs) included."""
    characters: dict[str, str] = {}
    for code in range(0x10000):
        characters.setdefault(unicodedata.category(chr(code)), chr(code))
    return characters
