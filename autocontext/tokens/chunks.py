"""Cuts long texts into chunks whose token counts add up to the count of the whole.

The tokenizer panics on a run of a million spaces and slows down on long runs; chunks prevent both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

CHUNK_CHARS = 4096
"""Length of a chunk, in characters, where there is a place for a cut."""
LONGEST_CHARS = 65_536
"""Longest chunk, in characters."""

# The vocabularies here split a text into pieces by a regular expression and merge bytes within a piece only. None of
# their expressions looks behind, and none lets a piece continue
#   - from anything but white space to a blank (pieces of white space only begin with white space);
#   - from a letter or number to a sign (a sign leads a piece, or follows other signs; the apostrophe of "it's" and
#     combining marks, which belong to letters, are not in the class);
#   - from a letter to a digit (Latin ones only: Python has no class for letters without such numbers as "²").
# So a cut there does not change the pieces on either side.
BOUNDARY = re.compile(
    r"(?<=\S)(?=[ \t])"
    r"|(?<=[^\W_])(?=[\r\n!-&(-/:-@\[-`{-~、。，：；！？（）「」《》…—])"
    r"|(?<=[A-Za-z])(?=[0-9])"
)


# The same for cuts at line ends: a piece continues after a line end with white space only, except that signs take line
# ends and then slashes with them.
_LINE_END = re.compile(r"\n(?:(?=[^\s/])|(?<=[^\W_]\n)(?=/))")


def lines(text: str) -> list[str]:
    """Split `text` at the line ends that no token can span."""
    *complete, last = _LINE_END.split(text)
    return [*(line + "\n" for line in complete), last]


def chunks(text: str, limit: int = CHUNK_CHARS, longest: int = LONGEST_CHARS) -> Iterator[str]:
    """Split `text` into chunks of about `limit` characters, at most `longest`.

    Cuts are made where no token can span them. Only in a run of about `longest` characters without such a place
    (blanks, one letter repeated, CJK without punctuation) are they made anywhere, which can change the count by a token
    or two.
    """
    start, end = 0, len(text)
    while end - start > limit:
        match = BOUNDARY.search(text, start + limit // 2, start + longest)
        cut = match.start() if match else start + longest
        if cut >= end:
            break
        yield text[start:cut]
        start = cut
    yield text[start:]
