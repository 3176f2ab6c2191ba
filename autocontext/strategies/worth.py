"""What a piece of a result is worth to whoever must go on, by what stands in the view."""

from __future__ import annotations

import re
from collections.abc import Callable

from autocontext.history.view import View
from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock, is_user_turn, leaves
from autocontext.notes.answers import answer_of, telling
from autocontext.notes.calls import looks
from autocontext.notes.typed import typed_call
from autocontext.notes.values import argument_values, known_values
from autocontext.text import rendering
from autocontext.text.lines import IMPORT, MEASURE, without_number
from autocontext.text.pieces import pieces
from autocontext.text.signs import ERROR
from autocontext.text.words import terms

_REQUEST = 2_000
"""Characters of a request whose words count."""
_MOST_VALUES = 3
"""Values of a piece that count."""
_TAKEN_UP, _VALUE, _ASKED, _REASON, _WORDS = 2.0, 0.3, 0.5, 0.8, 0.1
"""Worth of a value or line that a later message uses, of any value, of a word of the request or of the step that
follows, of a line like an error, of anything else with a letter."""
_FOCUSED = 60.0
"""Worth of the pieces that have most words of what somebody wants to keep first, also where all lines begin alike."""
_LEAST_LINE = 8
"""Characters of a line that a later call repeats by no chance: what it edits."""
_REPEATED = 0.05
"""Share of its worth that remains of a piece that a later result has, too: a template, or the same page again."""
_LEAST_ECHO = 16
"""Characters of a piece that stands in its call by no chance."""
_LEAST_CELL = 4
"""Of a cell of a table; a count stands anywhere."""
_SHORT = 40
"""Characters of a piece that may stand in many results by chance."""
_NO_VALUE = re.compile(
    r'(?:[{\[\s]*+"(?:[^"\\]|\\.){1,80}+"\s*+:\s*+(?:null|""|\[\]|\{\}|false)[}\]\s,]*+)++'
    r'|(?:- )?[\w-]{1,80}: (?:null|""|\[\]|\{\})'
)
"""Fields of JSON that hold nothing, also as lines of `text.reformatting`."""
_MARKUP = re.compile(
    r"(?:</[\w.:-]{1,80}>|<(?:!doctype|\?xml|html|head|meta|link|script|style|body)\b[^<>]*>|\s)++", re.IGNORECASE
)
"""The ends of elements, and the head of a page."""


class Worth:
    """Rates pieces of results by what stands in a view."""

    @classmethod
    def of(cls, view: View, focus: str = "") -> Worth:
        """The one of a view, made once; `focus` is what somebody wants to keep first."""
        return view.remembered((cls, focus), lambda: cls(view, focus))

    def __init__(self, view: View, focus: str = "") -> None:
        self._messages = view.messages
        self._last_use: dict[str, int] = {}
        """By value or line, the last message in which the agent, a call or the user used it."""
        for i, m in enumerate(view.messages):
            for use in m.tool_uses:
                self._last_use.update(dict.fromkeys(argument_values(use.input), i))
                lines = (line.strip() for text in leaves(use.input) for line in text.split("\n"))
                self._last_use.update(dict.fromkeys((line for line in lines if len(line) >= _LEAST_LINE), i))
            if m.role != "tool":
                self._last_use.update(dict.fromkeys(known_values(m.text), i))
        self._last_seen: dict[str, int] = {}
        """By piece, and by what a tool measures, the last message with a result that has it."""
        for i, m in enumerate(view.messages):
            for result in m.tool_results:
                said = {piece.said for piece in pieces(result.text)}
                self._last_seen.update(dict.fromkeys(said, i))
                self._last_seen.update((measure[1], i) for measure in map(MEASURE.fullmatch, said) if measure)
        users = [m.text for m in view.messages if is_user_turn(m)]
        asked = f"{users[0][:_REQUEST]}\n{users[-1][:_REQUEST]}" if users else ""
        self._asked, self._focus = frozenset(terms(asked)), frozenset(terms(focus))
        about = (len(self._focus.intersection(terms(piece))) for piece in self._last_seen) if self._focus else ()
        self._most_about = max(about, default=0)
        """Most words of the focus that one piece has."""
        self._called: dict[int, list[ToolUseBlock]] = {}
        """By place, the calls whose results stand there."""
        for pair in view.answers:
            self._called.setdefault(pair.result, []).append(pair.use)

    def after(self, index: int) -> Callable[[str], float]:
        """A function that rates pieces of the message at this place by what stands after it."""
        # The agent's message that follows says what it took from a result.
        m = next((m for m in self._messages[index + 1 :] if m.role == "assistant"), None)
        texts = (m.text, *(text for use in m.tool_uses for text in leaves(use.input))) if m else ()
        step = frozenset(terms("\n".join(text[:_REQUEST] for text in texts)))
        called = "\n".join(map(rendering.arguments, self._called.get(index, ())))
        return lambda piece: self._rate(index, step, called, piece)

    def outcome(self, index: int, result: ToolResultBlock | Msg) -> str:
        """The line that says what came of an action, as a note would tell it; "" of what was only looked at.

        It has a figure or a word of an error: "Review the changes" is said after each edit. Of an agent without tools
        the result is the message that has it.
        """
        if isinstance(result, Msg):
            use = typed_call(self._messages[index - 1], result) if index else None
            result = ToolResultBlock(id="typed", output=result.text)
        else:
            use = next((use for use in self._called.get(index, ()) if use.id == result.id), None)
        if use is None or looks(use.name, use.input):
            return ""
        lines = telling(result.text, answer_of(result), call=rendering.arguments(use))
        line = lines[0][1] if lines else ""
        return line if ERROR.search(line) or any(map(str.isdigit, line)) else ""

    def is_used(self, index: int, text: str) -> bool:
        """Whether a later message uses a value or line of a text at this place that its own call does not name."""
        called = "\n".join(map(rendering.arguments, self._called.get(index, ())))
        values = (value for piece in pieces(text) for value in self._used_of(piece.said))
        return any(self._last_use.get(value, -1) > index and value not in called for value in values)

    def _used_of(self, piece: str) -> tuple[str, ...]:
        """What of a piece a later message may use."""
        return (*known_values(piece), without_number(piece))

    def _rate(self, index: int, step: frozenset[str], called: str, piece: str) -> float:
        if _NO_VALUE.fullmatch(piece):
            return 0.0
        # Its call says it; but what a shell echoes may say which of two things has happened.
        echoed = piece.rstrip(",") in called or (piece.startswith("|") and _has_cells(called, piece))
        if len(piece) >= _LEAST_ECHO and echoed and not ERROR.search(piece):
            return 0.0
        values, words = known_values(piece), frozenset(terms(piece))
        taken = sum(1 for value in self._used_of(piece) if self._last_use.get(value, -1) > index)
        asked = min(len(self._asked & words), _MOST_VALUES) + min(len(step & words), _MOST_VALUES)
        about = len(self._focus & words)
        if IMPORT.match(without_number(piece)):
            return _WORDS
        if not taken and not asked and piece.startswith("<") and _MARKUP.fullmatch(piece) and not ERROR.search(piece):
            return 0.0
        measure = None if taken or asked else MEASURE.fullmatch(piece)
        if measure is not None and self._last_seen.get(measure[1], -1) > index:  # a later call measures the same
            return 0.0
        worth = _TAKEN_UP * min(taken, _MOST_VALUES) + _VALUE * min(len(values), _MOST_VALUES)
        worth += _TAKEN_UP * about + _FOCUSED * (0 < about == self._most_about)
        worth += _ASKED * asked + _REASON * (ERROR.search(piece) is not None)
        worth += _WORDS * any(map(str.isalpha, piece))
        # Many records are "pending"; only a longer piece, or one with a number, is the same thing again.
        may_differ = len(piece) <= _SHORT and not any(map(str.isdigit, piece))
        return worth * (_REPEATED if self._last_seen.get(piece, -1) > index and not may_differ else 1.0)


def _has_cells(called: str, row: str) -> bool:
    """Whether the arguments of a call have all cells of a row of a table, none of them so short that it is chance."""
    cells = filter(None, row.strip("|").split("|"))
    return all(len(cell) >= _LEAST_CELL and cell in called for cell in cells)
