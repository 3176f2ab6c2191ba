"""A second, naive reading of histories and notes: plain loops, nothing of `autocontext.ledger` but its headings."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from autocontext.ledger.pages import CALLS, CHANGED, EXAMPLES, FOUND, NOTES, PLAN, REMARKS, SAID
from autocontext.messages import Msg

HEADINGS = (SAID, PLAN, CHANGED, CALLS, EXAMPLES, FOUND, NOTES, REMARKS)
CODE = re.compile(
    r"<returncode>(-?\d+)|(?:exit(?:ed)?(?: with)? (?:code|status)[: ]+)(-?\d+)\W*$", re.IGNORECASE | re.MULTILINE
)
DONE = re.compile(r"(?P<words>.*?)(?: \((?P<tool>\w+)\))?(?P<failed>, the last attempt failed)?")
LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def plain(text: str) -> str:
    """A text with its blanks folded and what cannot be printed left out."""
    text = "".join(ch if ch.isprintable() else " " for ch in text).replace("<!-- CONTEXT_OFFLOAD", "<! CONTEXT_OFFLOAD")
    return " ".join(text.split())


def squeezed(text: str) -> str:
    return "".join(plain(text).split())


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


@dataclass
class Made:
    """A call, read naively."""

    number: int
    name: str
    input: dict[str, Any]
    result: int = 0
    text: str = ""
    is_error: bool = False

    @property
    def about(self) -> str:
        return plain("\n".join(strings(self.input)))

    @property
    def refused(self) -> bool:
        """It failed, for certain."""
        codes = [int(next(filter(None, g.groups()))) for g in CODE.finditer(self.text[-300:])]
        return self.is_error or any(codes)


def calls_of(messages: list[Msg]) -> list[Made]:
    """The calls, each with the result that answers it."""
    made: list[Made] = []
    waiting: dict[str, list[Made]] = {}
    for number, msg in enumerate(messages, 1):
        for result in msg.tool_results:
            if waiting.get(result.id):
                call = waiting[result.id].pop()
                call.result, call.text, call.is_error = number, result.text, result.is_error
        for use in msg.tool_uses:
            made.append(Made(number, use.name, dict(use.input)))
            waiting.setdefault(use.id, []).append(made[-1])
    return made


def words_stand(words: str, text: str) -> bool:
    """Whether an error stands in a text, or the two lines of it that "; " joins."""
    parts = words.split("; ")
    return stands(words, text) or any(
        stands("; ".join(parts[:n]), text) and stands("; ".join(parts[n:]), text) for n in range(1, len(parts))
    )


def stands(quote: str, text: str) -> bool:
    """Whether a line stands in a text word for word; "…" stands for what is left out, and no word is cut beside it."""
    text = plain(text)
    if (whole := plain(quote)) in text:
        return True
    start = 0
    for piece in (p.strip() for p in whole.split("…")):
        if not piece:
            continue
        at = text.find(piece, start)
        while at >= 0 and cuts_a_word(text, at, at + len(piece)):
            at = text.find(piece, at + 1)
        if at < 0:
            return False
        start = at + len(piece)
    return True


def cuts_a_word(text: str, start: int, stop: int) -> bool:
    before, after = text[start - 1 : start] if start else "", text[stop : stop + 1]
    return (before.isalnum() and text[start].isalnum() and before.isascii()) or (
        after.isalnum() and text[stop - 1].isalnum() and after.isascii()
    )


def texts_of(msg: Msg) -> str:
    found: list[str] = []
    for block in msg.content:
        if block.type in ("text", "tool_result"):
            found.append(block.text)
        elif block.type == "tool_use":
            found += strings(block.input)
    return "\n".join(found)


# ------------------------------------------------------------------------------------------------------------ notes
def parts_of(text: str) -> dict[str, list[str]]:
    """The lines under each heading; a heading stands once, and in our order."""
    parts: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line in HEADINGS:
            assert line not in parts, f"twice: {line}"
            assert not parts or HEADINGS.index(line) > HEADINGS.index(list(parts)[-1]), line
            parts[line] = []
        else:
            assert parts, f"before any heading: {line!r}"
            parts[list(parts)[-1]].append(line)
    return parts


@dataclass
class Listed:
    """A call as a note lists it."""

    first: int
    last: int
    name: str
    label: str
    times: int = 1
    failed: bool = False
    open: bool = False
    failed_before: bool = False
    words: str = ""
    lines: int | None = None


@dataclass
class Change:
    """A thing that was changed, as a note tells it: the newest attempt's number is in the span."""

    first: int
    last: int
    words: str
    tool: str
    failed: bool


@dataclass
class Reading:
    """What a note says against what is true."""

    messages: list[Msg]
    text: str
    only: set[int]
    listed: list[Listed] = field(default_factory=list)
    unlisted: int = 0
    changed: dict[str, Change] = field(default_factory=dict)
    more: int = 0
    """Changes that are counted, not listed."""

    def __post_init__(self) -> None:
        self.every = calls_of(self.messages)
        self.calls = [c for c in self.every if c.number in self.only]
        self.parts = parts_of(self.text)
        self._read_calls()
        self._read_changes()

    # ---------------------------------------------------------------------------------------------------- reading
    def _read_calls(self) -> None:
        for line in self.parts.get(CALLS, []):
            if count := re.fullmatch(r"not listed: (\d+) (?:earlier )?calls?(?: \(.*\))?", line):
                self.unlisted += int(count[1])
                continue
            head = re.match(r"m(\d+)(?:-m(\d+))? (.*)", line)
            assert head, line
            first, last = int(head[1]), int(head[2] or head[1])
            name = next((n for n in self._names() if f"{head[3]}: ".startswith(f"{n}: ")), None)
            assert name is not None, line
            rest = head[3][len(name) + 2 :]
            if outcome := re.fullmatch(r"(.*) -> (failed|ok now, failed before|no result yet|ok|shows)(.*)", rest):
                item = self._item(first, last, name, outcome[1])
                item.failed, item.open = outcome[2] == "failed", outcome[2] == "no result yet"
                item.failed_before = outcome[2] == "ok now, failed before"
                item.words = outcome[3].removeprefix(": ") if outcome[2] in ("failed", "shows") else ""
                size = re.fullmatch(r", (\d+) lines", outcome[3])
                item.lines = int(size[1]) if size else None
                self.listed.append(item)
            else:
                self.listed += [self._item(first, last, name, label) for label in rest.split("; ")]

    def _item(self, first: int, last: int, name: str, label: str) -> Listed:
        item = Listed(first, last, name, label)
        for mark, flag in ((" (no result yet)", "open"), (" (failed, then ok)", "failed_before")):
            if item.label.endswith(mark):
                item.label = item.label.removesuffix(mark)
                setattr(item, flag, True)
        if times := re.search(r"(?:^| )(\d+)x$", item.label):
            item.times, item.label = int(times[1]), item.label[: times.start()]
        if detail := re.search(r" \[[^\]]*\]$", item.label):
            item.label = item.label[: detail.start()]
        item.label = item.label.strip("`")
        return item

    def _names(self) -> list[str]:
        return sorted({plain(c.name) for c in self.calls}, key=len, reverse=True)

    def _read_changes(self) -> None:
        for line in self.parts.get(CHANGED, []):
            if count := re.fullmatch(r"and (\d+) more before", line):
                self.more += int(count[1])
                continue
            head = re.match(r"m(\d+)(?:-m(\d+))? ", line)
            assert head, line
            first, last = int(head[1]), int(head[2] or head[1])
            thing, _, done = line[head.end() :].partition(": ")
            if not head[2]:
                self._add(thing, done, first, last)
                continue
            assert thing.endswith("/"), line
            for piece in done.split("; "):
                name, _, what = piece.partition(" ")
                self._add(thing + name, what, first, last)

    def _add(self, thing: str, done: str, first: int, last: int) -> None:
        found = DONE.fullmatch(done)
        assert found, (thing, done)
        self.changed[thing] = Change(first, last, found["words"], found["tool"] or "", bool(found["failed"]))

    # --------------------------------------------------------------------------------------------------- checking
    def check(self) -> None:
        """Everything that holds of any history."""
        self.check_numbers()
        self.check_words()
        self.check_calls()
        self.check_examples()
        self.check_found()

    def check_numbers(self) -> None:
        """Labels name messages that the note stands for."""
        for line in self.text.splitlines():
            if head := re.match(r"m(\d+)(?:-m(\d+))?\b", line):
                for number in filter(None, head.groups()):
                    assert int(number) in self.only, line

    def check_words(self) -> None:
        """The user's words are the user's, the agent's the agent's, word for word."""
        for heading, role in ((SAID, "user"), (REMARKS, "assistant")):
            number = 0
            for line in self.parts.get(heading, []):
                if head := re.match(r"m(\d+):(?: |$)", line):
                    number = int(head[1])
                words = line[head.end() :] if head else line.removeprefix("> ")
                msg = self.messages[number - 1]
                assert msg.role == role, line
                assert stands(words, msg.text), (words, msg.text)

    def matching(self, item: Listed) -> list[Made]:
        """The calls that a listed one may be."""
        pieces = [
            squeezed(p).rstrip(",") for p in re.sub(r" \(\+\d+ lines?\)$", "", item.label).replace(", ", "…").split("…")
        ]
        named = [c for c in self.calls if plain(c.name) == item.name]
        return [c for c in named if all(p in squeezed(c.about) or p in squeezed(repr(c.input)) for p in pieces)]

    def check_calls(self) -> None:
        """A listed call was made, at a number of its span, and ended as it says."""
        for item in self.listed:
            made = self.matching(item)
            inside = [c for c in made if item.first <= c.number <= item.last]
            assert inside, item
            assert item.times <= len(made), item
            if item.open:
                assert any(not c.result for c in inside), item
            elif item.failed:
                assert any(c.result and words_stand(item.words, c.text) for c in inside) or "exit code" in item.words, (
                    item
                )
            elif not item.failed_before:
                assert any(c.result and not c.refused for c in inside), item
                assert not item.words or any(stands(item.words, c.text) for c in inside), item
            if item.lines is not None:
                assert any(len(c.text.splitlines() or [""]) >= item.lines - 1 for c in inside), item
        total = len(self.calls)
        assert sum(i.times for i in self.listed) + self.unlisted <= total

    def check_examples(self) -> None:
        for line in self.parts.get(EXAMPLES, []):
            head = re.match(r"m(\d+) (.*?) (\{.*)", line)
            assert head, line
            made = [c for c in self.calls if c.number == int(head[1]) and plain(c.name) == head[2]]
            assert made, line
            if "…" not in head[3]:
                shown = squeezed(" ".join(strings(json.loads(head[3]))))
                assert any(shown == squeezed(" ".join(strings(c.input))) for c in made), line

    def check_found(self) -> None:
        source = 0
        for line in self.parts.get(FOUND, []):
            if line.startswith("> "):
                lines = [texts_of(self.messages[source - 1]), *LINE_END.split(texts_of(self.messages[source - 1]))]
                assert any(stands(line[2:], x) for x in lines), line
                continue
            head = re.fullmatch(r"m(\d+) (.*):", line)
            assert head, line
            source = int(head[1])
            msg = self.messages[source - 1]
            results = {c.name for c in self.every if source in (c.result, c.number)}
            assert head[2] == msg.role or any(head[2].startswith(plain(name)) for name in results), line


def tool_counts(messages: Iterable[Msg]) -> Counter[str]:
    return Counter(plain(use.name) for m in messages for use in m.tool_uses)
