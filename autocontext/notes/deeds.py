"""The calls in some messages as lines of a note: each with what came back, in the words of the answer.

Equal calls share a line; calls that name one file or record stand together under its name, the newest last, so that the
state that holds now is the last that is read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from autocontext.history.runs import Runs
from autocontext.notes.answers import (
    ALIKE,
    LEAST_SENTENCE,
    Answer,
    Place,
    came_back,
    lines_and_fields,
    quoted,
    shape_of,
    telling,
    unforged,
)
from autocontext.notes.calls import AROUND, Call, shorten
from autocontext.notes.commands import LONGEST_COMMAND, handles
from autocontext.notes.notes import is_note_tool
from autocontext.notes.values import known_values
from autocontext.text.lines import without_ids
from autocontext.text.rendering import numbers_of, shared_start, start_of_word
from autocontext.text.signs import ERROR

if TYPE_CHECKING:
    from autocontext.notes.work import WorkLedger

_ANSWERS = 4
"""Most answers of equal calls that are told."""
_NEAR = 4
"""Calls of a tool before and after one, among which another with other arguments is looked for."""
_SHORT_NAME = 12
"""Characters; a longer name of what a call is about is left out of its answer."""
_LIKE_A_LIST = re.compile(r"; | \(\d+ with[^()]*\)$")
"""In what a call is about: what would look like the words of a note in a list of such names."""
_SHORT_ANSWER, _LONG_ANSWER = 40, 1_500
"""Characters of an answer that is quoted of such a call; in one longer than the second, a word of an error is a part of
what was read."""
_FOLDER = re.compile(r"cd \S{1,200} *(?:&&|;) *(?=\S)")
"""The head that many commands share."""


class Group(NamedTuple):
    """Calls of one tool with equal arguments, the oldest first."""

    calls: tuple[Call, ...]
    newest: Call
    """The call that stands for all."""


class Deeds:
    """The calls in some messages of a history, and the lines about them."""

    def __init__(self, ledger: WorkLedger, only: Runs, width: int, known: Runs | None = None) -> None:
        """`width`: most characters of a label, of what is written and of an answer; `self.width` says otherwise.

        `known`: the messages whose calls may be mentioned beside those in `only`; None for all.
        """
        self._ledger, self._width, self._known = ledger, width, known
        self.width: dict[int, int] = {}
        """By the identity of the newest of equal calls."""
        self._told: dict[tuple[int, int, int, str], tuple[str, str, str]] = {}
        """What `_parts` gave before, since a note asks for each of them some ten times."""
        calls = ledger.calls_in(only)
        notes = set(filter(is_note_tool, {call.name for call in calls}))
        self.calls = [call for call in calls if call.name not in notes]
        labels: dict[str, set[str]] = defaultdict(set)
        groups: dict[int, list[Call]] = {}
        for call in self.calls:
            labels[call.name].add(call.label)
            groups[call.digest] = equal = groups.pop(call.digest, [])
            equal.append(call)
        self.groups = [Group(tuple(calls), calls[-1]) for calls in groups.values()]
        """Distinct calls, the latest at the end."""
        self._things = self._known_things()
        self._done = ledger.of_newest_calls(_done)
        self._labels = {tool: sorted(different) for tool, different in labels.items()}

    @classmethod
    def of(cls, ledger: WorkLedger, only: Runs, width: int, known: Runs) -> Deeds:
        """What the constructor makes, shared by the notes about these messages until another one is added."""
        key = cls, only.pairs, width, known.pairs
        deeds = ledger.remembered(key, lambda: cls(ledger, only, width, known))
        deeds.width = {}
        return deeds

    # -------------------------------------------------------------------------------------------------------- labels
    def _begins(self, call: Call) -> int:
        """Where a label begins to differ from those of the same tool that begin most like it."""
        label, labels = call.label, self._labels.get(call.name, [])
        at = bisect_left(labels, label)
        if labels[at : at + 1] != [label]:
            return 0  # of a call in another message
        beside = *labels[at - 1 : at], *labels[at + 1 : at + 2]
        shared = max((shared_start(label, other) for other in beside), default=0)
        return start_of_word(label, min(shared, len(label) - 1))

    def label(self, call: Call, longest: int, *, thing: str = "") -> str:
        """A label of at most about `longest` characters that tells the call from others; without a thing named above.

        "…" stands wherever something is left out.
        """
        label = call.label
        if label == thing or (thing == call.thing and label.startswith((f"{thing} ", f"{thing},"))):
            label = label[len(thing) :].strip(" ,")
        if len(label) <= longest:
            return unforged(label)
        if call.thing and label.startswith(call.thing) and "/" in call.thing:
            # The end of a path says more than its beginning.
            rest = label[len(call.thing) :]
            if not call.looks:  # the next call on what was changed needs its whole name
                return unforged(call.thing + shorten(rest, max(longest // 2, longest - len(call.thing))))
            at = call.thing.find("/", len(call.thing) - max(longest - len(rest), longest // 2))
            return unforged(
                "…" + shorten(call.thing[max(at, 0) :] + rest, longest) if at > 0 else shorten(label, longest)
            )
        head = _FOLDER.match(label)
        begin = head.end() if head else 0
        start = self._begins(call) if label == call.label else 0
        if len(label) - begin > longest and start > begin:
            last = start_of_word(label, len(label) - longest, forward=True)  # the end is shown from here on
            begin = max(begin, min(start_of_word(label, start), last))
        return unforged(("…" if begin else "") + shorten(label[begin:].lstrip(), longest))

    # ------------------------------------------------------------------------------------------------------- answers
    def line(self, group: Group, longest: int = 0, *, thing: str = "") -> str:
        """What the calls did and what came back; label, new text and answer take at most `longest` characters each."""
        return "".join(self._parts(group, longest, thing))

    def _parts(self, group: Group, longest: int = 0, thing: str = "") -> tuple[str, str, str]:
        """The calls, what came back, and what was done since."""
        call = group.newest
        longest = longest or self.width.get(id(call), self._width)
        key = id(call), len(group.calls), longest, thing
        if key not in self._told:
            self._told[key] = self._written(group, longest, thing)
        return self._told[key]

    def _written(self, group: Group, longest: int, thing: str) -> tuple[str, str, str]:
        call = group.newest
        is_label = bool(call.new) and call.new.rstrip("…") in call.label  # then it is not said twice
        label = self.label(call, longest * (1 + is_label), thing=thing)
        new = "" if is_label else shorten(call.new, longest)
        times = f" {len(group.calls)}x" if len(group.calls) > 1 else ""
        what = " ".join(filter(None, (call.name, label, quoted(new) if new and new not in label else "")))
        return f"m{call.number} {what}{times} -> ", self._answers(group, longest), self._then(call)

    def _then(self, call: Call) -> str:
        """The newest call that did something with what this one looked at: its answer may not hold any more."""
        last = self._done.get(call.thing, call) if call.looks and call.thing else call
        if last.number <= call.number or not (self._known is None or last.number in self._known):
            return ""
        return f" (then m{last.number} {last.name}{self._error_of(last)})"

    def _error_of(self, call: Call) -> str:
        """The words of an answer that reads like an error, perhaps in messages of another note; "" of any other."""
        if call.answer is None or not self._reads_like_an_error(call):
            return ""
        pieces = telling(self._ledger.result_of(call), call.answer, call=call.command)
        pieces.sort(key=lambda piece: ERROR.search(piece[1]) is None)
        return f" -> {came_back(pieces, call.answer, _SHORT_ANSWER)}"

    def _answers(self, group: Group, longest: int) -> str:
        """The different answers of equal calls in order, each with the number of its newest call."""
        if len(group.calls) == 1:
            return self.answer(group.newest, longest)
        told = group.calls[-2 * _ANSWERS :]
        runs = [(text, [*calls]) for text, calls in groupby(told, key=lambda call: self.answer(call, longest))]
        if len(runs) == 1:
            return runs[0][0]
        more = len(told) < len(group.calls)
        # Of the first of these answers there may have been more before.
        times = [f", {len(calls)}x" if len(calls) > 1 and (k or not more) else "" for k, (_, calls) in enumerate(runs)]
        shown = [f"{text} (m{calls[-1].number}{n})" for (text, calls), n in zip(runs, times, strict=True)][-_ANSWERS:]
        return ("…; " if len(runs) > _ANSWERS or more else "") + "; ".join(shown)

    def answer(self, call: Call, longest: int) -> str:
        """What came back from a call."""
        answer = call.answer
        if answer is None:
            return "no answer yet"
        told = self._ledger.read_later(
            ("told", call), call.result, lambda: (self._tell(call, answer), dict[int, str]())
        )
        pieces, shown = told
        if longest not in shown:
            shown[longest] = self._shown(call, answer, pieces, longest)
        return shown[longest]

    def _tell(self, call: Call, answer: Answer) -> Sequence[tuple[Place, str]]:
        """The lines or fields of an answer that tell most."""
        words = call.command[:LONGEST_COMMAND] or f"{call.label} {call.new}"
        pieces = telling(
            self._ledger.result_of(call),
            answer,
            call=words,
            looks=call.looks,
            beside=self._beside(call),
            changed=self._changed(call),
            used=self._ledger.used_around(call.result, call.number),
        )
        if len(call.thing) > _SHORT_NAME:  # the line names it already
            pieces = [(at, text if text == call.thing else text.replace(call.thing, "…")) for at, text in pieces]
        return pieces

    def _shown(self, call: Call, answer: Answer, pieces: Sequence[tuple[Place, str]], longest: int) -> str:
        shown = came_back(pieces, answer, longest)
        if call.starts and (named := next(handles(self._ledger.result_of(call)), None)) and named[0] not in shown:
            shown = came_back([_naming(*named, pieces, longest), *pieces], answer, longest)
        return shown

    def _beside(self, call: Call) -> frozenset[str]:
        """Lines and fields of the tool's answers to other arguments both just before and just after a call.

        Of markup those of any near answer: pages of a site share their frame. A line that names something, in answers
        about the same thing, is how that stands: the test that still fails.
        """
        before, after = (
            [c for c in calls if c.digest != call.digest and 0 < c.result <= call.result + AROUND]
            for calls in self._ledger.calls_beside(call, _NEAR)
        )
        answers = [self._head_or_foot(c, of=call) for c in (*before[-1:], *after[:1])]
        shared = frozenset.intersection(*answers) if answers else frozenset[str]()
        return shared.union(line for c in (*before, *after) for line in self._lines_of(c) if line.startswith("<"))

    def _head_or_foot(self, other: Call, *, of: Call) -> frozenset[str]:
        """What the answer of another call may share with one as the head or foot of a page."""
        same = of.thing and of.thing == other.thing
        lines = self._lines_of(other)
        return frozenset(shape_of(line) for line in lines if not (same and _names(line) and shape_of(line) == line))

    def _changed(self, call: Call) -> frozenset[str]:
        """Lines and fields of an answer that the one before on the same thing, mostly alike, does not have.

        What differs in an hour, an id or a measure of the tool's own work has not changed.
        """
        before = self._ledger.call_before(call)
        if before is None or not 0 < before.result <= call.result + AROUND:
            return frozenset()
        now, then = map(self._lines_of, (call, before))
        if len(now & then) < ALIKE * len(now):
            return frozenset()
        known = {*map(without_ids, map(shape_of, then))}
        changed = (line for line in now - then if line.startswith('"') or without_ids(shape_of(line)) not in known)
        return frozenset(changed)

    def _lines_of(self, call: Call) -> frozenset[str]:
        return lines_and_fields(self._ledger.result_of(call))

    # -------------------------------------------------------------------------------------------------------- things
    def _known_things(self) -> dict[str, str]:
        """The files and records that several calls name, under their whole names and the last parts of paths."""
        names: dict[str, str] = {}
        for group in self.groups:
            if thing := group.newest.thing:
                names[thing] = thing
        for thing in list(names):
            if (name := thing.rpartition("/")[2]) and name != thing:
                names[name] = thing if names.get(name, thing) == thing else ""
        return names

    def thing(self, call: Call) -> str:
        """What a call is about: what it names, or a file or record that other calls name and its command mentions."""
        if call.thing:
            return call.thing
        words = (word.strip("\"'`()[]{},;:").removeprefix("./") for word in call.label.split())
        return next((thing for word in words if (thing := self._things.get(word, ""))), "")

    def in_short(self, about: str, calls: Sequence[Call]) -> str:
        """What some calls are about, their number, and for how many the structure says that nothing or an error came.

        The last answer that reads like an error without a mark is quoted, since the name alone would say that all went
        well, and then what the newest call brought, since the error alone would say that nothing did.
        """
        alone = len(calls) == 1
        times = _listed(about) + ("" if alone else f" {len(calls)}x")
        answers = [call.answer for call in calls if call.answer is not None]
        if waiting := len(calls) - len(answers):
            return f"{times} -> no answer yet" if alone else f"{times} ({waiting} without an answer)"
        if marked := [answer.status for answer in answers if answer.status]:
            return f"{times} -> {marked[0]}" if alone else f"{times} ({len(marked)} with an error status)"
        if empty := sum(answer.empty for answer in answers):
            return f"{times} -> nothing" if empty == len(calls) else f"{times} ({empty} with nothing)"
        errors = [call for call in calls if self._reads_like_an_error(call)]
        if not errors:
            return times
        if alone:
            return f"{times} -> {self.answer(calls[0], _SHORT_ANSWER)}"
        error, newest = (max(of, key=lambda call: call.number) for of in (errors, calls))
        told = [error] if newest.number == error.number else [error, newest]
        words = [f"m{call.number} -> {self.answer(call, _SHORT_ANSWER // len(told))}" for call in told]
        return f"{times}, {', then '.join(words)}"

    def _reads_like_an_error(self, call: Call) -> bool:
        # Kept, since each note asks of many calls that have no line; with the ledger, as an answer may be erased.
        return self._ledger.read(("reads like an error", call), lambda: _is_error(self._ledger.result_of(call)))

    def lines(self, groups: Sequence[Group]) -> list[str]:
        """Lines about calls: those about one thing together under its name, in the order of their newest.

        A phrase that a tool answers again and again stands there once: "as m12".
        """
        told: dict[tuple[str, str], int] = {}
        by_thing: dict[str, list[Group]] = {}
        for group in groups:
            thing = self.thing(group.newest)
            # Alone under a name of its own, where it names nothing.
            key = thing or f"\n{group.newest.number} {group.newest.digest}"
            by_thing[key] = by_thing.pop(key, [])
            by_thing[key].append(group)
        return [line for thing, about in by_thing.items() for line in self._about(thing, about, told)]

    def _about(self, thing: str, groups: Sequence[Group], told: dict[tuple[str, str], int]) -> Iterator[str]:
        alone = thing.startswith("\n") or len(groups) == 1
        if not alone:
            first = min(call.number for group in groups for call in group.calls)
            yield f"{numbers_of(first, groups[-1].newest.number)} {unforged(thing)}:"
        for group in groups:
            head, answer, then = self._parts(group, thing="" if alone else thing)
            before = told.setdefault((group.newest.name, answer), group.newest.number)
            again = before != group.newest.number and len(answer) >= LEAST_SENTENCE
            yield f"{head}{f'as m{before}' if again and _is_phrase(answer) else answer}{then}"


def _is_error(answer: str) -> bool:
    """Whether a short answer has a word of an error."""
    return len(answer) <= _LONG_ANSWER and ERROR.search(answer) is not None


def _naming(handle: str, words: str, pieces: Sequence[tuple[Place, str]], longest: int) -> tuple[Place, str]:
    """The piece of an answer with the handle of what was started; only the words with it if the piece is too long."""
    # By itself, it stands behind all of them.
    behind = max((place for place, _ in pieces), default=(0, 0))[0] + 2
    place, piece = next((piece for piece in pieces if handle in piece[1]), ((behind, 0), words))
    return place, piece if len(piece) <= longest else words


def _names(line: str) -> bool:
    """Whether a line names or counts something: other lines are the words of the tool."""
    return any(map(str.isdigit, line)) or bool(known_values(line))


def _is_phrase(answer: str) -> bool:
    """Whether an answer is a quoted phrase of the tool that names, counts and refuses nothing."""
    return answer.removeprefix("… ").startswith('"') and not _names(answer) and not ERROR.search(answer)


def _done(calls: Iterable[Call]) -> dict[str, Call]:
    """By thing, the newest call that did something with it, and was not refused by a mark."""
    did = (c for c in calls if c.thing and not c.looks and c.answer is not None and not c.answer.status)
    return {call.thing: call for call in did}


def _listed(name: str) -> str:
    """What a call is about; in quotes if it looks like the words of a note around it."""
    return quoted(name) if _LIKE_A_LIST.search(name) else unforged(name)
