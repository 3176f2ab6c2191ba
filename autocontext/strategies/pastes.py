"""Shortens what the user pasted when the view is over the window and nothing else is left to cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autocontext.config import AutoContextConfig
from autocontext.history.proposals import MESSAGE_TEXT, Proposal
from autocontext.history.view import View
from autocontext.messages import is_pinned, is_user_turn
from autocontext.text import rendering

if TYPE_CHECKING:
    from autocontext.notes.writer import NoteWriter

PASTE_SHORTENED = "PASTE_SHORTENED"
_LEAST_CUT = 400
"""Tokens; a shorter message stays whole."""
_LEAST_KEPT = 200
"""Tokens that are kept of a message."""
_MARK_TOKENS = 90
"""Tokens of the lines around the gap and of the tag."""
_HEAD = 0.5
"""Share of the kept text that comes from the beginning."""
_MOST_ERRORS = 12
_ERROR_CHARACTERS = 160
_ERRORS_SHARE = 0.3
"""Most of the kept text that lines about errors take."""
_ERROR = re.compile(
    r"\b(?:ERROR|FATAL|FAILED|CRITICAL|Traceback|panic|fatal|[A-Z]\w*(?:Error|Exception))\b|错误|失败|异常|エラー|오류|실패"
)


class Pastes:
    """Cuts the middle out of the longest messages of the user, the newest one included, until `excess` tokens are gone.

    Both ends stay, where the user's own words stand, and of the middle the lines that look like errors.
    """

    name = "pastes"

    def __init__(self, config: AutoContextConfig, hand_over: NoteWriter, excess: int) -> None:
        self.config, self._hand_over, self._excess = config, hand_over, excess

    def propose(self, view: View) -> list[Proposal]:
        """One shortened message per long message of the user, the longest first."""
        sizes = {i: view.tokens(i, i + 1) for i, m in enumerate(view.messages) if is_user_turn(m) and not is_pinned(m)}
        excess, proposals = self._excess, []
        for i in sorted(sizes, key=lambda i: -sizes[i]):
            if excess <= 0 or sizes[i] < _LEAST_CUT:
                break
            keep = max(_LEAST_KEPT, sizes[i] - excess - _MARK_TOKENS)
            excess -= sizes[i] - keep - _MARK_TOKENS
            text = rendering.untagged(view.messages[i].text)
            blocks = {
                MESSAGE_TEXT: self._shorter(text, len(text) * keep // sizes[i], self._hand_over.number(view.ids[i]))
            }
            span = view.span(i, i + 1)
            proposals.append(Proposal(span, blocks=blocks, event_type=PASTE_SHORTENED, kind="stub"))
        return proposals

    def _shorter(self, text: str, characters: int, number: int | None) -> str:
        errors = _error_lines(text[characters // 2 : -characters // 2], int(characters * _ERRORS_SHARE))
        rest = characters - sum(map(len, errors))
        return rendering.in_part(text, rest, head=_HEAD, number=number, errors=errors)


def _error_lines(text: str, characters: int) -> list[str]:
    """Different lines that look like errors, the first ones, of at most so many characters together."""
    lines: list[str] = []
    for line in _matching_lines(text):
        characters -= len(line) + 1
        if characters < 0 or len(lines) == _MOST_ERRORS:
            break
        lines.append(line)
    return lines


def _matching_lines(text: str) -> Iterator[str]:
    """Lines that look like errors, each once; of a long one the piece with the word."""
    at, seen = 0, set[str]()
    while match := _ERROR.search(text, at):
        start = max(text.rfind("\n", at, match.start()) + 1, match.start() - _ERROR_CHARACTERS // 2)
        stop = text.find("\n", match.end(), start + _ERROR_CHARACTERS)
        stop = min(start + _ERROR_CHARACTERS, len(text)) if stop < 0 else stop
        line = text[start:stop].strip()
        if line not in seen:
            seen.add(line)
            yield line
        at = max(stop, match.end())
