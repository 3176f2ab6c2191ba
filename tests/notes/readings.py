"""A second, naive reading of histories and notes: plain loops, nothing of `autocontext.notes` but its headings."""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autocontext.messages import Msg, is_final_reply, is_user_turn
from autocontext.notes.page import CALLS, HEADINGS, LINES, LOOKED, REASONS, REPLIES, SAID

ANSWER = re.compile(r"[\"{](.*?)[\"}](?: \(1 of several\))?(?: \(m\d+(?:, \d+x)?\))?(?=; |$)")
"""An answer's words in quotes, or its fields of JSON in braces."""
THEN = re.compile(r" \(then m(\d+) (\"?)([^\n]+?)\2( -> .+)?\)$")
"""The newest call that did something with what another one looked at, and its refusal."""
LONG_WORD = 40
"""Characters of a word of which a line may show a part: no line holds all of any word."""
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


def flags(value: Any, key: str = "") -> Iterator[str]:
    """What stands in a label with its key."""
    if isinstance(value, bool) or value in ({}, []):
        yield f"{key}={json.dumps(value)}"
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from flags(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from flags(inner, key)


@dataclass
class Made:
    """A call, read naively."""

    number: int
    name: str
    input: dict[str, Any]
    result: int = 0
    text: str = ""
    is_error: bool = False
    typed: bool = False

    @property
    def about(self) -> str:
        return plain("\n".join((*strings(self.input), *flags(self.input))))


def calls_of(messages: list[Msg]) -> list[Made]:
    """The calls, each with the result that answers it."""
    made: list[Made] = []
    waiting: dict[str, list[Made]] = {}
    for number, msg in enumerate(messages, 1):
        for result in msg.tool_results:
            if waiting.get(result.id):
                call = waiting[result.id].pop()
                call.result, call.text, call.is_error = number, spelled_out(result.text), result.is_error
        for use in msg.tool_uses:
            made.append(Made(number, use.name, dict(use.input)))
            waiting.setdefault(use.id, []).append(made[-1])
        answer = messages[number] if number < len(messages) else msg
        parts = msg.text.rstrip().split("```")
        typed = msg.role == "assistant" and not msg.tool_uses and len(parts) > 2 and not parts[-1]
        # A task of a recorded agent may end with a prompt, too.
        typed = typed and "INSTRUCTIONS" not in answer.text
        if typed and answer.role == "user" and answer.text.rstrip().endswith(("$", "#", ">", "</output>")):
            language, _, code = parts[-2].partition("\n")
            made.append(Made(number, "command", {"command": code or language}, number + 1, answer.text, typed=True))
    return [call for call in made if not call.typed] or made


def spelled_out(text: str) -> str:
    """A result, and below it the texts that stand in a record with their lines' ends escaped."""
    try:
        value = literal_eval(text) if text.startswith("{'") else json.loads(text)
    except (ValueError, SyntaxError):
        return text
    is_wrapped = isinstance(value, dict) or (isinstance(value, list) and str(value).startswith("[{'type': 'text', "))
    return "\n".join((text, *strings(value))) if is_wrapped else text


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
    """Whether a piece begins or ends inside a word, unless it shows as much of it as a line can hold."""
    before, after = text[start - 1 : start] if start else "", text[stop : stop + 1]
    first, last = text[start : min(stop, start + LONG_WORD)], text[max(start, stop - LONG_WORD) : stop]
    return (before.isalnum() and first[0].isalnum() and before.isascii() and not is_long(first)) or (
        after.isalnum() and last[-1].isalnum() and after.isascii() and not is_long(last)
    )


def is_long(piece: str) -> bool:
    return len(piece) == LONG_WORD and piece.isalnum()


def texts_of(msg: Msg) -> str:
    found: list[str] = []
    for block in msg.content:
        if block.type == "text":
            found.append(block.text)
        elif block.type == "tool_result":
            found.append(spelled_out(block.text))
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
class Reading:
    """What a note says against what is true."""

    messages: list[Msg]
    text: str
    only: set[int]

    def __post_init__(self) -> None:
        self.every = calls_of(self.messages)
        self.calls = [c for c in self.every if c.number in self.only]
        self.parts = parts_of(self.text)

    def check(self) -> None:
        """Everything that holds of any history."""
        self.check_numbers()
        self.check_words()
        self.check_calls()
        self.check_quotes()

    def check_numbers(self) -> None:
        """Labels name messages that the note stands for."""
        for line in self.text.splitlines():
            if head := re.match(r"m(\d+)(?:-m(\d+))?\b", line):
                for number in filter(None, head.groups()):
                    assert int(number) in self.only, line

    def check_words(self) -> None:
        """The user's words are the user's, the agent's the agent's, word for word."""
        for heading, role in ((SAID, "user"), (REPLIES, "assistant"), (REASONS, "assistant")):
            number = 0
            for line in self.parts.get(heading, []):
                if head := re.match(r"m(\d+)( \(open\))?:(?: |$)", line):
                    number = int(head[1])
                    assert not head[2] or heading == SAID, line
                    if head[2]:
                        self.check_open(number, line)
                words = line[head.end() :] if head else line.removeprefix("> ")
                if asked := re.search(r' \(m(\d+) agent: "(.*)"\)$', words):
                    assert stands(asked[2], self.messages[int(asked[1]) - 1].text), line
                    words = words[: asked.start()]
                msg = self.messages[number - 1]
                assert msg.role == role, line
                assert stands(words, msg.text), (words, msg.text)

    def check_open(self, number: int, line: str) -> None:
        """No reply and no word of the user follows what is open; a note does not know what came after it."""
        later = self.messages[number : max(self.only)]
        assert not any(is_final_reply(m) or is_user_turn(m) for m in later), line

    def check_calls(self) -> None:
        """Each line is about a call that was made, in words of its arguments, with words of its answers."""
        listed = 0
        for line in (*self.parts.get(CALLS, []), *self.parts.get(LOOKED, [])):
            if count := re.fullmatch(r"m\d+(?:-m\d+)?: (\d+) more calls?(?:: .*)?", line):
                listed += int(count[1])
                continue
            if head := re.fullmatch(r"m(\d+)(?:-m(\d+))? (.*):", line):
                first, last = int(head[1]), int(head[2] or head[1])
                inside = [c for c in self.calls if first <= c.number <= last]
                thing = head[3].strip('"')
                name = thing.rpartition("/")[2] or thing
                # A command may name a file of other calls by its last part alone.
                assert any(thing in c.about for c in self.calls), line
                assert any(name in c.about for c in inside), line
                continue
            listed += self._check_call(line)
        assert listed <= len(self.calls)

    def _check_call(self, line: str) -> int:
        """Check a call's line; returns how many calls it stands for."""
        head = re.match(r"m(\d+) .* -> .", line)
        assert head, line
        candidates = [c for c in self.calls if c.number == int(head[1]) and line[head.end(1) + 1 :].startswith(c.name)]
        assert candidates, line
        assert any(self._is_told(line, c) for c in candidates), (line, candidates)
        times = re.search(r" (\d+)x -> ", line)
        return int(times[1]) if times and "x -> " in line else 1

    def _is_told(self, line: str, call: Made) -> bool:
        same = [c for c in self.calls if c.name == call.name and c.input == call.input and c.number <= call.number]
        if then := THEN.search(line):
            did = [c for c in self.every if self._did(c, call)]
            if (int(then[1]), then[3]) not in [(c.number, c.name) for c in did]:
                return False
            line = line[: then.start()]
        for at in (m.start() for m in re.finditer(r" -> ", line)):
            label, answers = line[:at], line[at + 4 :]
            label = re.sub(r"(?:^| )\d+x$", "", label.partition(" ")[2].removeprefix(call.name).strip())
            if self._label_stands(label, call) and self._answers_stand(answers, same):
                return True
        return False

    @staticmethod
    def _did(later: Made, call: Made) -> bool:
        """Whether a later call with an answer names something that another one names too."""
        named = {plain(text) for text in strings(later.input)}
        return later.number > call.number and later.result > 0 and any(plain(t) in named for t in strings(call.input))

    @staticmethod
    def _label_stands(label: str, call: Made) -> bool:
        written = squeezed(call.about).replace(chr(34), "").replace(chr(92), "")
        pieces = re.split(r"[…,\"\\\\]", label)
        keys = sorted(map(plain, call.input), key=len, reverse=True)
        for piece in pieces:
            words = [w for w in piece.split() if w not in keys]
            if any(squeezed(w).strip(",") not in written for w in words) and squeezed(piece) not in written:
                return all(squeezed(part) in written or part in keys for w in words for part in w.split("-"))
        return True

    @staticmethod
    def _answers_stand(answers: str, same: list[Made]) -> bool:
        texts = [c.text for c in same]
        # What an action is told by has marks of what stands above and below.
        answers = re.sub(r'((?:^|; )(?:(?:error|exit -?\d+|HTTP \d+): )?)… (?=")', r"\1", answers)
        answers = re.sub(r'(?<=") …(?= \(m\d|;|$)', "", answers)
        quotes = ANSWER.findall(answers)
        if not quotes:
            return answers == "no answer yet" or "nothing" in answers or "no match" in answers or len(answers) < 60
        first, last = re.search(r"[\"{]", answers), re.search(r"[\"}][^\"}]*$", answers)
        assert first, answers
        assert last, answers
        whole = answers[first.end() : last.start()]  # a quote in the words looks like an end

        def all_stand(words: str, text: str) -> bool:
            """Lines have quotes of their own, with "…" between those from different places."""
            said = squeezed(text)

            def stands_there(stretch: str) -> bool:
                bare = squeezed(stretch.strip("…").replace('" "', ""))  # the words may have such quotes, too
                if stands(stretch, text) or bare in said or bare in squeezed(text.replace('" "', "")):
                    return True
                lines = stretch.split('" "')
                in_one = "\\n" in text  # the lines of a printed string stand in one
                return ("…" in stretch or in_one) and all(
                    stands(x, text) or squeezed(x.strip("…")) in said for x in lines
                )

            return all(map(stands_there, words.split('" … "')))

        return all(any(all_stand(q, t) for t in texts) for q in quotes) or any(all_stand(whole, t) for t in texts)

    def check_quotes(self) -> None:
        for line in self.parts.get(LINES, []):
            head = re.match(r"m(\d+) (.*?): > ", line)
            assert head, line
            msg = self.messages[int(head[1]) - 1]
            results = {c.name for c in self.every if int(head[1]) == c.result}
            role = {"assistant": "agent"}.get(msg.role, msg.role)
            assert head[2] == role or any(head[2] in (plain(n), f"call {plain(n)}") for n in results), line
            assert any(stands(line[head.end() :], x) for x in (texts_of(msg), *LINE_END.split(texts_of(msg)))), line


def tool_counts(messages: list[Msg], only: set[int]) -> Counter[str]:
    return Counter(plain(made.name) for made in calls_of(messages) if made.number in only)
