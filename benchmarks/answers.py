"""Whether a context answers the questions of a reader who continues the work; see `questions`.

Shown are *originals*, messages of the conversation as they were, and *notes*, all others (system messages aside). A
result that was changed counts as a note that begins with the name and the label of its call. Of calls only the id
matters: a call that is shown says itself that it was made, and of what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from calls import Call
from chat import Chat, content_text, visible_text
from needs import occurs
from questions import Probe
from texts import LONG_LINE, lines_with, squeeze

_PIECE = 80
"""Characters of a long line that must be shown, with the value in them."""
_PIECE_STEP = 10
_LINES_ABOVE = 30
"""A line's source may be named this far above it."""
_LINES_BELOW = 12
"""Maximum number of lines between a failed call and the error text."""
_ERROR_WORDS, _LEAST_ERROR_WORDS = 40, 8
_LEAST_QUOTE = 12
_ELLIPSES = ("…", "...")
_CHANGED = re.compile(
    "creat|wrote|writ|edit|modif|chang|replac|insert|append|add|delet|remov|mov|renam|updat|patch|cancel|book|return|"
    "exchang|sen[dt]|refuel|enabl|resum|paid|pay|sed -i|tee |>",
    re.IGNORECASE,
)
_FAILED = re.compile(r"fail|error|exit|return ?code|not found", re.IGNORECASE)
_SPEAKER = re.compile(r"\b(user|you|agent|assistant)\b", re.IGNORECASE)
_WORDS = re.compile(r"[\w./@#:-]*\w")


class Note(NamedTuple):
    """A message that is not as it was."""

    role: str
    lines: list[str]


class View:
    """What a policy shows at a probe, ready to be asked."""

    def __init__(self, context: Iterable[Chat], probe: Probe) -> None:
        self.probe = probe
        self.notes: list[Note] = []
        self.calls: set[str] = set()
        """Ids of the calls that are shown."""
        self.results: set[str] = set()
        """Ids of the calls whose results are shown as they were."""
        self.originals: set[tuple[str, str]] = set()
        self.text = "\n".join([self._take(message) for message in context if message["role"] != "system"])
        self.squeezed = squeeze(self.text)

    def _take(self, message: Chat) -> str:
        """Sort a message in; its text, arguments first."""
        text = content_text(message)
        calls = message.get("tool_calls") or ()
        self.calls |= {call["id"] for call in calls}
        if (message["role"], text) in self.probe.originals:
            self.originals.add((message["role"], text))
            if message["role"] == "tool":
                self.results.add(message["tool_call_id"])
        else:
            answered = self.probe.calls.by_id.get(message.get("tool_call_id") or "")
            head = [f"{answered.name} {answered.label}"] if answered else []
            self.notes.append(Note(message["role"], [*head, *text.splitlines()]))
        return "\n".join([*(visible_text({"tool_calls": [call]}) for call in calls), text])

    @property
    def note_lines(self) -> Iterable[str]:
        return (line for note in self.notes for line in note.lines)

    # -------------------------------------------------------------------------------------------------- questions
    def answers(self) -> dict[str, tuple[int, int]]:
        """For each question how much is answered, of how much; requests weigh by their characters."""
        probe = self.probe
        answers = {
            "needs": [self.tells_value(value) for value in probe.needs],
            "changes": [self.tells_change(target, by) for target, by in probe.changes.items()],
            "failures": [self.tells_failure(call) for call in probe.failures],
            "done": [self.tells_call(call) for call in probe.done],
        }
        words = sum(len(sentence) for sentence in probe.requests if sentence in self.squeezed)
        scores = {question: (sum(hits), len(hits)) for question, hits in answers.items()}
        return {**scores, "requests": (words, sum(map(len, probe.requests)))}

    def tells_value(self, value: str) -> bool:
        """Whether a note shows a value in a line of its original, with the source."""
        if not occurs(value, self.text):
            return False
        sources = [(message, text) for message, text in self.probe.sources if occurs(value, text)]
        return any(self._stands(message, value) for message, _ in sources) or any(
            quoted(value, text, note.lines[at]) and self._says_where(message, note, at)
            for note in self.notes
            for at in range(len(note.lines))
            if occurs(value, note.lines[at])
            for message, text in sources
        )

    def _stands(self, message: Chat, value: str) -> bool:
        """Whether the message itself is shown, or a call of it."""
        text = content_text(message)
        there = (message["role"], text) in self.originals and occurs(value, text)
        return there or any(call["id"] in self.calls for call in message.get("tool_calls") or ())

    def _says_where(self, message: Chat, note: Note, at: int) -> bool:
        """Whether a line of a note, or a line above it, names this message as the source."""
        above = "\n".join(note.lines[max(0, at - _LINES_ABOVE) : at + 1])
        if any(call.named_in(above) for call in self.probe.calls.of(message)):
            return True
        return message["role"] != "tool" and (note.role == message["role"] or bool(_SPEAKER.search(above)))

    def tells_change(self, target: str, by: Sequence[Call]) -> bool:
        """Whether a call that changed the thing is shown, or a line of a note says that it was changed."""
        if any(call.id in self.calls for call in by):
            return True
        name = target.rstrip("/").rpartition("/")[2] or target
        tools = {call.name for call in by if call.name}
        return any(
            name in line and (_CHANGED.search(line) or any(tool in line for tool in tools)) for line in self.note_lines
        )

    def tells_failure(self, call: Call) -> bool:
        """Whether the failed result is shown, or the call is named together with the error's own words."""
        if call.id in self.results:
            return True
        words = squeeze(call.error_line())[:_ERROR_WORDS]
        if len(words) < _LEAST_ERROR_WORDS:
            return any(call.named_in(line) and _FAILED.search(line) for line in self.note_lines)
        return any(
            call.named_in(line) and words in squeeze("\n".join(note.lines[n : n + 1 + _LINES_BELOW]))
            for note in self.notes
            for n, line in enumerate(note.lines)
        )

    def tells_call(self, call: Call) -> bool:
        """Whether a call is shown, or a line of a note holds its tool's name and its label."""
        return call.id in self.calls or any(call.name in line and call.named_in(line) for line in self.note_lines)

    # ----------------------------------------------------------------------------------------------------- quotes
    def quotes(self) -> Iterable[Quote]:
        """The lines of notes that quote an original."""
        return filter(None, (quote(line, self.probe) for line in self.note_lines))


def quoted(value: str, text: str, visible: str) -> bool:
    """Whether a shown line is the whole line of the text that holds the value; of a long one: a piece of it."""
    return any(_piece_shown(line.strip(), value, visible) for line in lines_with(value, text))


def _piece_shown(line: str, value: str, visible: str) -> bool:
    if len(line) <= LONG_LINE:
        return squeeze(line) in squeeze(visible)
    at = line.find(value)
    while at >= 0:
        starts = range(max(0, at + len(value) - _PIECE), at + 1, _PIECE_STEP)
        if any(line[start : start + _PIECE] in visible for start in starts):
            return True
        at = line.find(value, at + 1)
    return False


class Quote(NamedTuple):
    """A line of a note that is also in an original."""

    chars: int
    broken: bool
    """Whether it begins or ends inside a word, and does not say so with an ellipsis."""
    useful: bool
    """Whether a later call of the conversation uses a value in it."""


def quote(line: str, probe: Probe) -> Quote | None:
    """A line of a note as a quote; None when it is none, or has fewer than 12 characters."""
    text = line.strip().lstrip("-*•> ").strip()
    if ends := text.endswith(_ELLIPSES):
        text = text.rstrip("…").removesuffix("...")
    if begins := text.startswith(_ELLIPSES):
        text = text.lstrip("…").removeprefix("...")
    at = probe.everything.find(text) if len(text) >= _LEAST_QUOTE else -1
    if at < 0:
        return None
    before, after = probe.everything[at - 1 : at], probe.everything[at + len(text) : at + len(text) + 1]
    broken = (not begins and _one_word(before, text[0])) or (not ends and _one_word(text[-1], after))
    return Quote(len(text), broken, _used(text, probe.future))


def _one_word(left: str, right: str) -> bool:
    return left.isalnum() and right.isalnum()


def _used(text: str, values: set[str]) -> bool:
    """Whether a text holds one of the values, as a word or, where it has blanks, verbatim."""
    return not values.isdisjoint(_WORDS.findall(text)) or any(" " in value and occurs(value, text) for value in values)
