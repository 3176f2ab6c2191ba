"""The middle distance: rounds before the newest messages stay in view, with their long results and arguments in short.

The agent's own words, its calls, and what the user said stay as they are. Of a result those pieces stay that tell most:
what later messages used, values, and lines that look like errors; a mark says how much is missing and under which
number it can be reloaded. It calls no model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from autocontext.config import AutoContextConfig
from autocontext.events import SHORTENED
from autocontext.history.proposals import Proposal, Question
from autocontext.history.view import View
from autocontext.messages import Msg, ToolUseBlock, is_note, is_user_turn, leaves, texts_in
from autocontext.strategies.selection import recent, stays
from autocontext.text import rendering
from autocontext.text.excerpts import excerpt
from autocontext.text.quoting import quoted
from autocontext.text.signs import ERROR
from autocontext.text.words import terms

if TYPE_CHECKING:
    from autocontext.notes.writer import NoteWriter

_LEAST, _MOST = 240, 2_000
"""Characters that are kept of a result, in small and in large windows."""
_OF_WINDOW = 20
"""In between, as many as the window has tokens, divided by this."""
_ARGUMENT = 300
"""Characters; a longer text in a call's arguments is content, and is shortened."""
_MARK = 60
"""Characters that the mark of a short form takes."""
_SURELY = 1.08
"""Estimates from characters are so much too good at most."""
_REQUEST = 2_000
"""Characters of a request whose words count."""
_WORTHWHILE = 0.8
"""A result of which more would remain stays as it is."""
_MOST_VALUES = 3
"""Values of a piece that count."""
_TAKEN_UP, _VALUE, _ASKED, _REASON = 2.0, 0.3, 0.5, 0.8
"""Worth of a value that a later message uses, of any value, of a word of the request, of a line like an error."""


class _Short(NamedTuple):
    """What remains of a message."""

    blocks: dict[int, str | Question]
    """By place in the message, the short form of a result."""
    long_arguments: bool
    saved: int
    """Tokens, about."""


class Shorten:
    """Shortens results and arguments before the newest messages, the oldest first, until the target is met."""

    name = "shorten"

    def __init__(self, config: AutoContextConfig, hand_over: NoteWriter, excess: Callable[[], int]) -> None:
        """`excess` returns the tokens over the target of the pass."""
        self.config, self._hand_over, self._excess = config, hand_over, excess
        self._characters = max(_LEAST, min(_MOST, config.max_token // _OF_WINDOW))
        self._short: dict[str, _Short | None] = {}
        self._worth: _Worth | None = None

    def savings(self, view: View) -> list[int]:
        """By place in the view, the tokens that leave it if the message there is shortened."""
        saved = [0] * len(view)
        for i in self._places(view):
            if short := self._shortest(view, i):
                saved[i] = short.saved
        return saved

    def propose(self, view: View) -> list[Proposal]:
        """One shortened message for each with long results or arguments; the last keeps what there is room for."""
        excess, proposals = self._excess(), list[Proposal]()
        for i in self._places(view):
            if excess <= 0:
                break
            short = self._shortest(view, i)
            if short is None:
                continue
            if short.saved > excess and (longer := self._keeping(view, i, excess)) is not None:
                short = longer
            excess -= short.saved
            proposals.append(
                Proposal(
                    view.span(i, i + 1),
                    blocks=short.blocks,
                    arguments_to=_ARGUMENT if short.long_arguments else None,
                    event_type=SHORTENED,
                    kind="stub",
                    number=self._number(view, i),
                )
            )
        return proposals

    def _places(self, view: View) -> list[int]:
        """Where there are long results and arguments, before the newest messages."""
        keep, stop = stays(self.config, view), min(view.unread, recent(view, self.config))
        return [i for i in range(stop) if self._is_long(view.messages[i]) and not keep(view.messages[i])]

    def _is_long(self, m: Msg) -> bool:
        if is_note(m) or is_user_turn(m):
            return False
        results = any(len(result.text) > self._characters + _MARK for result in m.tool_results)
        return results or any(len(text) > _ARGUMENT + _MARK for use in m.tool_uses for text in texts_in(use.input))

    def _number(self, view: View, index: int) -> int:
        return self._hand_over.number(view.ids[index]) or 0

    def _shortest(self, view: View, index: int) -> _Short | None:
        """The short form of a message; None if it would hardly be shorter."""
        id_ = view.ids[index]
        if id_ not in self._short:
            self._short[id_] = self._cut(view, index, self._characters)
        return self._short[id_]

    def _keeping(self, view: View, index: int, excess: int) -> _Short | None:
        """A longer form that saves just so many tokens, if the message is one result."""
        m = view.messages[index]
        if len(m.content) != 1 or not m.tool_results:
            return None
        tokens, size = view.tokens(index, index + 1), len(m.tool_results[0].text)
        characters = min(int(size * (1 - excess / tokens * _SURELY)), int(_WORTHWHILE * size)) - _MARK
        return self._cut(view, index, characters) if characters > self._characters else None

    def _cut(self, view: View, index: int, characters: int) -> _Short | None:
        m, original, number = view.messages[index], self._hand_over.original(view.ids[index]), self._number(view, index)
        if original is None or len(original.content) != len(m.content):
            return None
        if self._worth is None or not self._worth.is_of(view):
            self._worth = _Worth(view)
        rate = self._worth.after(index)
        blocks: dict[int, str | Question] = {}
        before = after = 0
        for k, block in enumerate(original.content):
            if block.type != "tool_result" or len(text := block.text) <= characters:
                continue
            now = m.content[k]
            size = len(now.text) if now.type == "tool_result" else len(text)
            short, missing = excerpt(text, characters, rate)
            if len(short) <= _WORTHWHILE * size:
                blocks[k] = f"{quoted(short)}\n{rendering.left_out(number, missing, len(text))}".lstrip()
                before, after = before + size, after + len(short) + _MARK
        arguments = [text for use in m.tool_uses for text in texts_in(use.input) if len(text) > _ARGUMENT + _MARK]
        before += sum(map(len, arguments))
        after += len(arguments) * (_ARGUMENT + _MARK)
        if not blocks and not arguments:
            return None
        texts = sum(len(r.text) for r in m.tool_results) + len(m.text) + sum(map(_size, m.tool_uses))
        saved = int(view.tokens(index, index + 1) * (before - after) / max(texts, before, 1) / _SURELY)
        return _Short(blocks, bool(arguments), saved) if saved > 0 else None


def _size(use: ToolUseBlock) -> int:
    return sum(map(len, leaves(use.input)))


class _Worth:
    """Rates pieces of results by what stands in a view."""

    def __init__(self, view: View) -> None:
        # Imported here: what the notes need is not needed before the first pass.
        from autocontext.notes.values import argument_values, known_values, values_in  # noqa: PLC0415

        self._view, self._values_in = view, values_in
        self._last_use: dict[str, int] = {}
        """By value, the last message in which the agent, a call or the user used it."""
        for i, m in enumerate(view.messages):
            for use in m.tool_uses:
                self._last_use.update(dict.fromkeys(argument_values(use.input), i))
            if m.role != "tool":
                self._last_use.update(dict.fromkeys(known_values(m.text), i))
        users = [m.text for m in view.messages if is_user_turn(m)]
        asked = f"{users[0][:_REQUEST]}\n{users[-1][:_REQUEST]}" if users else ""
        self._asked = frozenset(terms(asked))

    def is_of(self, view: View) -> bool:
        """Whether it was made of this view."""
        return self._view is view

    def after(self, index: int) -> Callable[[str], float]:
        """A function that rates pieces of the message at this place by what stands after it."""
        return lambda piece: self._rate(index, piece)

    def _rate(self, index: int, piece: str) -> float:
        values = self._values_in(piece)
        taken = sum(1 for value in values if self._last_use.get(value, -1) > index)
        asked = len(self._asked.intersection(terms(piece))) if self._asked else 0
        worth = _TAKEN_UP * min(taken, _MOST_VALUES) + _VALUE * min(len(values), _MOST_VALUES)
        return worth + _ASKED * min(asked, _MOST_VALUES) + _REASON * (ERROR.search(piece) is not None)
