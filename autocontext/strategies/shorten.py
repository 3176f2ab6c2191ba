"""The middle distance: rounds before the newest messages stay in view, with their long results and arguments in short.

The agent's own words, its calls, and what the user said stay as they are; so do, up to a share of the window, the
newest texts of the files and records that the agent is working on, until all others are short. Of a result those pieces
stay that tell most: what later messages used, values, and lines that look like errors; a mark says how much is missing
and under which number it can be reloaded. It calls no model.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from autocontext.config import AutoContextConfig
from autocontext.events import SHORTENED
from autocontext.history.proposals import MESSAGE_TEXT, Proposal, Question
from autocontext.history.view import Answered, View
from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock, is_note, is_pinned, is_user_turn, leaves, texts_in
from autocontext.notes.sentences import is_output
from autocontext.notes.writer import NoteWriter
from autocontext.strategies.in_hand import in_hand
from autocontext.strategies.selection import RELOAD_ARGUMENT, RELOAD_TOOL, recent, results_of, stays
from autocontext.strategies.worth import Worth
from autocontext.text import rendering
from autocontext.text.excerpts import Excerpt, Excerpts
from autocontext.text.lines import without_number
from autocontext.text.quoting import quoted
from autocontext.text.reformatting import reformatted

_LEAST, _MOST = 240, 2_000
"""Characters that are kept of a result, in small and in large windows."""
_ENOUGH = 800
"""Characters of a short form, up to twice the least, that are kept while others are longer: in small windows long
results give way before small records do, and in large ones old results before newer ones."""
_OF_WINDOW = 20
"""In between, as many as the window has tokens, divided by this."""
_ARGUMENT = 300
"""Characters; a longer text in a call's arguments is content, and is shortened."""
_MARK = 60
"""Characters that the mark of a short form takes."""
_SURELY = 1.04
"""Estimates from characters are so much too good at most."""
_WORTHWHILE = 0.7
"""A result of which more would remain stays as it is."""
_LEAST_SAVED = 30
"""Tokens; what would save less stays as it is: half a sentence or a link is not worth that."""
_WHOLE = 0.85
"""One of which nothing would be left out stays as it is if that is hardly shorter."""
_LEAST_LINES, _REPEATED = 5, 0.6
"""Lines that a call writes, and the share of a result that repeats them, from which on the result says nothing new."""
_LEAST_ITEM, _MOST_ITEMS = 12, 1_000
"""Characters of an item of a list that stands in one line by no chance, and most items that are looked for."""
_MANY_LINES, _SAMPLE = 40, 8_000
"""Lines from which on a text may be mostly the same, and characters that are looked at."""
_ALIKE, _UNUSED = 0.2, 0.25
"""What zlib leaves of such a text, and of one that nobody has used; of code a quarter to a third is left, of prose two
fifths."""
_IN_HAND = 0.15
"""Share of the window for what the agent is working on, beside what its short forms take."""


class _Short(NamedTuple):
    """What remains of a message."""

    blocks: dict[int, str | Question]
    """By place in the message, the short form of a result."""
    arguments_to: int | None
    """Characters of the texts in its arguments, if any is longer."""
    saved: int
    """Tokens, about."""
    told_again: frozenset[str]
    """Ids of its calls whose lists are cut."""


class Shorten:
    """Shortens results and arguments before the newest messages, the oldest first, until the target is met."""

    name = "shorten"

    def __init__(self, config: AutoContextConfig, hand_over: NoteWriter, excess: Callable[[], int]) -> None:
        """`excess` returns the tokens over the target of the pass."""
        self.config, self._hand_over, self._excess = config, hand_over, excess
        self._characters = max(_LEAST, min(_MOST, config.max_token // _OF_WINDOW))
        self.keeps_newest = True
        """Whether the newest messages stay as they are; if not, those that the model has answered are shortened too."""
        self._short: dict[tuple[str, int, int], _Short | None] = {}
        """By id, characters of a result, and room for it in any case."""
        self._excerpts: dict[tuple[str, int], Excerpts] = {}
        """By id and block."""
        self._sources: dict[str, int] = {}
        """By id of a reloaded page, the number of the message that it shows."""
        self._over: list[int] = []
        """Where reloaded pages stand for which `reloaded_share` has no room."""
        self._told_again: frozenset[str] = frozenset()
        """Ids of calls whose lists a later call of their tool tells again: a plan, a list of things to do."""

    def savings(self, view: View) -> list[int]:
        """By place in the view, the tokens that leave it if the message there is shortened."""
        saved = [0] * len(view)
        for i in self._places(view):
            if short := self._of_length(view, i, self._characters):
                saved[i] = short.saved
        return saved

    def propose(self, view: View) -> list[Proposal]:
        """One shortened message for each with long results or arguments; the last keeps what there is room for."""
        return [
            Proposal(
                view.span(i, i + 1),
                blocks=short.blocks,
                arguments_to=short.arguments_to,
                told_again=short.told_again,
                event_type=SHORTENED,
                kind="stub",
                number=self._number(view, i),
            )
            for i, short in sorted(self._chosen(view).items())
        ]

    def _chosen(self, view: View) -> dict[int, _Short]:
        """By place, short forms that together save the excess: all longer ones, the oldest first, then all.

        What only repeats its call goes before them. What the agent is working on keeps its room until all others are
        short.
        """
        excess, places, chosen = self._excess(), self._places(view), dict[int, _Short]()
        for i in self._over:  # the first to go, whatever the excess is
            excess -= self._choose(view, i, chosen)
        for i in self._bulk(view, {*places} - {*self._over}) if excess > 0 else ():
            if excess > 0:
                excess -= self._choose(view, i, chosen)
        if excess <= 0:
            return chosen
        others = [i for i in places if i not in chosen]
        spared = self._in_hand(view, set(others))
        oldest_first = [*spared][::-1]
        least = self._characters
        lengths = dict.fromkeys((max(least, min(2 * least, _ENOUGH)), least))
        newest, none, written = recent(view, self.config), dict[int, int](), self._written(view)
        answered = [i for i in self._answered(view) if i not in chosen]
        # Before something is left out, all that can be is told in a form in which nothing is, also of the newest.
        stages: list[tuple[int | None, list[int], Mapping[int, int]]] = [
            (None, [i for i in answered if i < newest and not (i in spared and i in written)], none),
            (None, [i for i in answered if i >= newest and i not in written], none),
            *((length, others, spared) for length in lengths),
            *((length, oldest_first, none) for length in lengths),
        ]
        for length, todo, room in stages:
            for i in todo:
                if excess <= 0:
                    break
                short = self._whole(view, i) if length is None else self._of_length(view, i, length, room.get(i, 0))
                if short is None:
                    continue
                before = chosen[i].saved if i in chosen else 0
                needed = before + excess
                if length and short.saved > needed and (longer := self._keeping(view, i, needed)) is not None:
                    short = longer
                excess -= short.saved - before
                chosen[i] = short
        return chosen

    def _choose(self, view: View, index: int, chosen: dict[int, _Short]) -> int:
        """Add the short form of a message, if it has one; the tokens that it saves."""
        if (short := self._of_length(view, index, self._characters)) is None:
            return 0
        chosen[index] = short
        return short.saved

    def _places(self, view: View) -> list[int]:
        """Where there are long results and arguments, before the newest messages."""
        keep, stop = stays(self.config, view, by_result=True), view.unread
        if self.keeps_newest:
            stop = min(stop, recent(view, self.config))
        self._told_again = frozenset(_told_again(view.answers))
        self._over = self._reloads(view)
        over, first = set(self._over), view.first_user
        before = [i for i in range(stop) if i not in over and not keep(view.messages[i])]
        long = [i for i in sorted([*before, *over]) if self._is_long(view, view.messages[i])]
        return [i for i in long if not is_user_turn(view.messages[i]) or first < i < view.latest_user]

    def _answered(self, view: View) -> list[int]:
        """Where results are that the model has answered, and that may be told in another form."""
        keep = stays(self.config, view, by_result=True)
        before = [i for i in range(view.unread) if view.messages[i].tool_results]
        return [i for i in before if i not in self._over and not keep(view.messages[i])]

    def _written(self, view: View) -> set[int]:
        """Where results of several lines are that the agent is working on: the next edit of a file names its lines."""
        results = {i: self._results(view, view.messages[i]).values() for i in in_hand(view)}
        return {i for i, texts in results.items() if any("\n" in text for text in texts)}

    def _bulk(self, view: View, places: Container[int]) -> list[int]:
        """Where messages say little: lists that are told again, results that repeat their calls, then floods.

        A file or record that a call names is none.
        """
        again = [p.call for p in view.answers if p.call in places and p.use.id in self._told_again]
        alone = [p for p in view.answers if p.result in places and len(view.messages[p.result].content) == 1]
        repeats = [pair.result for pair in alone if _repeats(pair)]
        about = {*repeats, *in_hand(view)}
        return [*dict.fromkeys(again), *repeats] + [
            p.result for p in alone if p.result not in about and self._is_flood(view, p)
        ]

    def _is_flood(self, view: View, pair: Answered) -> bool:
        """Whether a result is mostly the same over and over: the log of a build, or hits that nobody has used."""
        packed = _packed(pair.output.text)
        if packed < _ALIKE or packed >= _UNUSED:
            return packed < _ALIKE
        return not Worth.of(view, self._hand_over.focus).is_used(pair.result, pair.output.text)

    def _in_hand(self, view: View, places: Container[int]) -> dict[int, int]:
        """By place, what may stay of what the agent is working on, in characters: all while there is room, then a part.

        A fold does not leave more to it: that was measured, and cost more of what was done than it kept.
        """
        room, kept = int(self.config.max_token * _IN_HAND), dict[int, int]()
        for i in in_hand(view):
            if i not in places or (short := self._of_length(view, i, self._characters)) is None:
                continue
            size = sum(map(len, view.messages[i].texts())) + sum(map(_size, view.messages[i].tool_uses))
            if short.saved > room:
                kept[i] = int(size * (1 - (short.saved - room) / view.tokens(i, i + 1)))
                break
            kept[i] = size
            room -= short.saved
        return kept

    def _reloads(self, view: View) -> list[int]:
        """Reloaded pages that the model has answered, oldest first, where the newer ones fill the room.

        The short form of a page of one message names that message, so that the next reload gives the original and no
        page.
        """
        self._sources, over = {}, []
        pages: dict[int, list[Answered]] = {}
        for pair in view.answers:
            if pair.use.name == RELOAD_TOOL:
                pages.setdefault(pair.result, []).append(pair)
        room = int(self.config.max_token * self.config.reloaded_share)
        for at, pairs in sorted(pages.items(), reverse=True):
            alone = len(pairs) == len(view.messages[at].content)
            if alone and len(pairs) == 1:
                asked = pairs[0].use.input.get(RELOAD_ARGUMENT)
                if (source := rendering.page_of_number(asked, pairs[0].output.text)) is not None:
                    self._sources[view.ids[at]] = source
            room -= view.tokens(at, at + 1)
            # Not what is unread, pinned, or part of what a provider has compacted.
            may_go = view.compacted < at < view.unread and not is_pinned(view.messages[at])
            if self.config.reloaded_share < 1 and room < 0 and alone and may_go:
                over.append(at)
        return over[::-1]

    def _is_long(self, view: View, m: Msg) -> bool:
        results = any(len(text) > self._characters + _MARK for text in self._results(view, m).values())
        return results or any(
            use.id in self._told_again or any(len(text) > _ARGUMENT + _MARK for text in texts_in(use.input))
            for use in m.tool_uses
        )

    def _number(self, view: View, index: int) -> int:
        id_ = view.ids[index]
        return self._sources.get(id_) or self._hand_over.number(id_) or 0

    def _of_length(self, view: View, index: int, characters: int, room: int = 0) -> _Short | None:
        """The form of a message whose results have so many characters; None if it would hardly be shorter.

        `room`: characters that its results and the texts in its arguments may have in any case.
        """
        key = view.ids[index], characters, room
        if key not in self._short:
            self._short[key] = self._cut(view, index, max(characters, room), max(_ARGUMENT, room))
        return self._short[key]

    def _whole(self, view: View, index: int) -> _Short | None:
        """The form of a message in which nothing is left out of its results; None if that would hardly be shorter."""
        m, original, number = view.messages[index], self._original(view, index), self._number(view, index)
        blocks: dict[int, str | Question] = {}
        before = after = 0
        now = self._results(view, m)
        for k, text in self._results(view, original).items() if original is not None else ():
            if k in now and (short := reformatted(text)) is not None and len(short) + _MARK <= _WHOLE * len(now[k]):
                blocks[k] = _marked(Excerpt(short, 0, len(text), reformatted=True), number)
                before, after = before + len(now[k]), after + len(short) + _MARK
        return _Short(blocks, None, self._saved(view, index, before, after), frozenset()) if blocks else None

    def _keeping(self, view: View, index: int, excess: int) -> _Short | None:
        """A longer form that saves just so many tokens, if the message is one result."""
        m = view.messages[index]
        if len(m.content) != 1 or not m.tool_results:
            return None
        tokens, size = view.tokens(index, index + 1), len(m.tool_results[0].text)
        characters = min(int(size * (1 - excess / tokens * _SURELY)), int(_WORTHWHILE * size)) - _MARK
        return self._cut(view, index, characters) if characters > self._characters else None

    def _cut(self, view: View, index: int, characters: int, argument: int = _ARGUMENT) -> _Short | None:
        m, original, number = view.messages[index], self._original(view, index), self._number(view, index)
        if original is None:
            return None
        blocks: dict[int, str | Question] = {}
        before = after = 0
        now = self._results(view, m)
        for k, text in self._results(view, original).items():
            if len(text) <= characters or k not in now:
                continue
            size, short = len(now[k]), self._excerpts_of(view, index, k, original).of(characters)
            if len(short.text) <= _WORTHWHILE * size:
                blocks[k] = _marked(short, number)
                before, after = before + size, after + len(short.text) + _MARK
        arguments = [text for use in m.tool_uses for text in texts_in(use.input) if len(text) > argument + _MARK]
        before += sum(map(len, arguments))
        after += len(arguments) * (argument + _MARK)
        again = [use for use in m.tool_uses if use.id in self._told_again]
        before += sum(len(text) for use in again for told in _lists(use) for text in texts_in(told[1:]))
        after += len(again) * _MARK
        if not (blocks or arguments or again):
            return None
        saved = self._saved(view, index, before, after)
        to = argument if arguments or again else None
        return _Short(blocks, to, saved, frozenset(use.id for use in again)) if saved >= _LEAST_SAVED else None

    def _original(self, view: View, index: int) -> Msg | None:
        """What a message of the view was, if its blocks are those of one message."""
        original = self._hand_over.original(view.ids[index])
        fits = original is not None and len(original.content) == len(view.messages[index].content)
        return original if fits else None

    @staticmethod
    def _saved(view: View, index: int, before: int, after: int) -> int:
        """Tokens that a message saves, about, if so many characters of it become so many."""
        m = view.messages[index]
        texts = sum(len(r.text) for r in m.tool_results) + len(m.text) + sum(map(_size, m.tool_uses))
        return int(view.tokens(index, index + 1) * (before - after) / max(texts, before, 1) / _SURELY)

    def _results(self, view: View, m: Msg) -> dict[int, str]:
        """By place in a message, its results that are not spared; of an agent without tools, what its terminal printed.

        That stands in a message in the user's role.
        """
        if is_note(m):
            return {}
        if is_user_turn(m):
            return {MESSAGE_TEXT: m.text} if len(m.text) > self._characters and is_output(m.text) else {}
        return results_of(self.config, view, m)

    def _excerpts_of(self, view: View, index: int, block: int, original: Msg) -> Excerpts:
        """The excerpts of a result, rated by what stands in the view in which it was first cut."""
        key = view.ids[index], block
        if key not in self._excerpts:
            worth = Worth.of(view, self._hand_over.focus)
            result = original if block == MESSAGE_TEXT else original.content[block]
            outcome = worth.outcome(index, result) if isinstance(result, ToolResultBlock | Msg) else ""
            text = result.text if isinstance(result, ToolResultBlock) else original.text
            self._excerpts[key] = Excerpts(text, worth.after(index), outcome=outcome)
        return self._excerpts[key]


def _marked(short: Excerpt, number: int) -> str:
    mark = rendering.left_out(number, short)
    return f"{quoted(short.text)}\n{mark}" if short.text else mark


def _repeats(pair: Answered) -> bool:
    """Whether a result repeats what its call has written: the file that was made, with numbers, or a list of items."""
    written = {line.strip() for text in texts_in(pair.use.input) for line in text.split("\n")} - {""}
    if len(written) < _LEAST_LINES:
        return False
    lines = [without_number(line) for line in pair.output.text.split("\n")]
    if len(lines) == 1 and len(written) <= _MOST_ITEMS:
        line = lines[0][:_SAMPLE]
        again = sum(len(item) for item in written if len(item) >= _LEAST_ITEM and item in line)
        return again >= _REPEATED * len(line)
    again = sum(len(line) for line in lines if line in written)
    return again >= _REPEATED * sum(map(len, lines))


def _told_again(answers: Sequence[Answered]) -> Iterator[str]:
    """Ids of calls of which a later call of the tool has most of a list again."""
    later: dict[tuple[str, int], frozenset[str]] = {}
    for pair in reversed(answers):
        for nth, told in enumerate(_lists(pair.use)):
            texts = [text for text in texts_in(told) if len(text) >= _LEAST_ITEM]
            known, size = later.get((pair.use.name, nth), frozenset()), sum(map(len, texts))
            if size > _ARGUMENT and sum(len(text) for text in texts if text in known) >= _REPEATED * size:
                yield pair.use.id
            later[pair.use.name, nth] = frozenset(texts)


def _lists(use: ToolUseBlock) -> list[Sequence[Any]]:
    """The lists of several items among a call's arguments."""
    return [value for value in use.input.values() if isinstance(value, list | tuple) and len(value) > 1]


def _packed(text: str) -> float:
    """What zlib leaves of a text of many lines; 1 for a shorter one."""
    data = text[:_SAMPLE].encode("utf-8", "surrogatepass")
    return len(zlib.compress(data)) / len(data) if text.count("\n", 0, _SAMPLE) >= _MANY_LINES else 1.0


def _size(use: ToolUseBlock) -> int:
    return sum(map(len, leaves(use.input)))
