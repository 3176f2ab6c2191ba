"""Sentences of the user and the agent as lines of a work ledger."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain, islice, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from autocontext.history.cached import cached_property
from autocontext.history.runs import Runs
from autocontext.messages import ToolUseBlock, is_final_reply, is_user_turn, texts_in, words_of_user
from autocontext.notes.answers import quoted
from autocontext.notes.calls import MOST_MESSAGES, Call, label_of, shorten
from autocontext.notes.sentences import (
    CLAUSE,
    GREETING,
    LONGEST_OF_AGENT,
    OUTPUT,
    PLAIN,
    QUESTION_MARKS,
    REMARK,
    RULE,
    Sentence,
    begins_with_rule,
    goes_on,
    heading_of,
    items,
    last_question,
    of_agent,
)
from autocontext.notes.shown import Shown
from autocontext.notes.values import known_values
from autocontext.text.rendering import one_line
from autocontext.text.stop_words import STOP_WORDS
from autocontext.text.words import terms

if TYPE_CHECKING:
    from autocontext.notes.work import WorkLedger

_SHORT_RULE = 100
"""Characters of an instruction that goes before longer ones."""
_MOST, _MOST_COMPARED = 3_000, 300
"""One text uses the newest sentences, so its cost does not grow with the history; fewer of the agent, and of those that
the user typed where changes of rules are looked for."""
_LEAST_ROWS = 3
"""Lines of an answer to the user that says something whatever its words are."""
_BEST_REMARKS, _OF_MESSAGE = 60, 2
"""Most sentences of the agent to return, and of one of its messages."""
_LEAST_WORTH = 1
"""A sentence without a reason and a name is worth no more, and is left out."""
_STRETCHES = 6
"""Parts of a history that come with their best sentences in turn."""
_SHOWN = 160
"""Characters of an argument, about as many as the line of a call shows beside its label."""
_FIELD_OF_TEXT = re.compile(r'"\w{1,40}": "')
"""What stands before a text that an agent has written as JSON."""
_RARE, _ROOT = 4, 5
"""Sentences of the user that hold a word which tells what one is about, and characters of it that its forms share, in
most languages with blanks: "deploy" and "deployment"."""
_ANSWER = 60
"""Characters; a message of the user up to this length comes with the question that it answers.

In a longer one the first sentence answers it if it has half as many.
"""


class Reason(NamedTuple):
    """What the agent said, with its message's number and its place there."""

    number: int
    start: int
    text: str


class Speech:
    """The user's sentences in some messages, and the selection to render."""

    def __init__(self, ledger: WorkLedger, only: Runs, shown: Shown, *, gaps: bool = False) -> None:
        """`gaps`: what the user said after a long pause comes with its length and the time."""
        self._ledger, self._only, self._shown = ledger, only, shown
        self._pauses = dict(ledger.pauses) if gaps else {}
        self._selection: set[tuple[int, Sentence]] = set()
        self._questions = True
        """Whether a short message comes with the question that it answers."""
        self._told: dict[int, list[str]] = {}
        """By message, the lines of what is selected of it."""
        self._order: list[tuple[int, Sentence]] = []
        """The selection, what goes first last; [] while nothing had to go."""

    def sentences(self, worth: int) -> Iterator[tuple[int, Sentence]]:
        """Sentences of this worth that the reader does not see, newest first, each text once."""
        return self._unseen(item for item in self._newest if item[1].worth == worth)

    def rules(self, worth: int, *, brief: bool) -> Iterator[tuple[int, Sentence]]:
        """Instructions and limits of this worth, the `brief` ones or the others.

        Those come first that begin as such: they say as much, and cost little.
        """
        rules = (item for item in self._rules if (len(self.text(*item)) <= _SHORT_RULE) is brief)
        return self._unseen(item for item in rules if item[1].worth == worth)

    def typed(self) -> Iterator[tuple[int, Sentence]]:
        """What a user has typed, newest first: plain sentences, answers, and instructions that are not chosen yet.

        What has no reply yet and what may change a rule goes before all else.
        """
        chosen = frozenset(self._selection)
        not_answered = takewhile(lambda item: item[0] >= self._open_from, self._newest)
        said = chain(not_answered, (item for item in self._changes if item[0] in self._only), self._newest)
        typed = (item for item in said if item[1].worth in (PLAIN, RULE, GREETING) and item not in chosen)
        return self._unseen(item for item in typed if item[1].worth != GREETING or self._answers(*item))

    def _unseen(self, items: Iterable[tuple[int, Sentence]]) -> Iterator[tuple[int, Sentence]]:
        """Those that the reader does not see, each text once."""
        texts: set[str] = set()
        for number, sentence in items:
            text = self.text(number, sentence)
            if text and text not in texts and not self._shown.has(("sentence", text)):
                texts.add(text)
                yield number, sentence

    @cached_property
    def _newest(self) -> list[tuple[int, Sentence]]:
        """The newest sentences, the last first."""
        return self._ledger.newest(self._ledger.user_sentences, self._only, _MOST)[::-1]

    @cached_property
    def _rules(self) -> list[tuple[int, Sentence]]:
        """The newest instructions, limits and the like, those that cost little first."""
        newest = self._ledger.newest(self._ledger.rules, self._only, _MOST)
        return sorted(newest, key=lambda item: (self._verbosity(item), -item[0], -item[1].start))

    @cached_property
    def _changes(self) -> dict[tuple[int, Sentence], None]:
        """What may change a rule, newest first."""
        return self._ledger.remembered(_changes, lambda: _changes(self._ledger))

    def _verbosity(self, item: tuple[int, Sentence]) -> int:
        """0 for a short sentence that begins with an instruction or limit and asks nothing, up to 3."""
        text = self.text(*item)
        return (len(text) > _SHORT_RULE) + (not begins_with_rule(text)) + text.endswith(QUESTION_MARKS)

    def text(self, number: int, sentence: Sentence) -> str:
        """A sentence on one line."""
        place = slice(sentence.start, sentence.stop)
        return self._ledger.read(("words", number, sentence), lambda: one_line(self._words(number)[place]))

    def _words(self, number: int) -> str:
        return words_of_user(self._ledger.messages[number - 1])

    def priced(self) -> Callable[[tuple[int, Sentence]], str]:
        """A function from further sentences, in the order in which they are chosen, to the lines that they add.

        The first one of a message adds what stands before it, too: to a short one, more than its words.
        """
        told = {number for number, _ in self._selection}

        def text(item: tuple[int, Sentence]) -> str:
            number, words = item[0], self.text(*item)
            if number in told:
                return f"> {words}"
            told.add(number)
            return f"{self._source(number)} {words}"

        return text

    def choose(self, sentences: Iterable[tuple[int, Sentence]]) -> None:
        """Add sentences to the selection."""
        for item in {*sentences} - self._selection:
            self._selection.add(item)
            self._told.pop(item[0], None)
            self._order.clear()

    def drop(self, tokens: int, cost: Callable[[str], int]) -> None:
        """Remove the questions that short messages answer, then the sentences that were chosen last, of so many tokens.

        That is, of the least important sentences, the longest and oldest; at least one, and no more than needed, as
        one is taken to cost all that it can.
        """
        if self._questions:
            self._questions = False
            self._told.clear()
            return
        left, marks = Counter(number for number, _ in self._selection), cost("> …")
        self._order = self._order or sorted(self._selection, key=self._importance, reverse=True)
        while self._order and tokens > 0:
            number, sentence = item = self._order.pop()
            self._selection.remove(item)
            self._told.pop(number, None)
            left[number] -= 1
            tokens -= cost(self.text(number, sentence)) + marks + (0 if left[number] else cost(self._source(number)))

    def _importance(self, item: tuple[int, Sentence]) -> tuple[int, bool, int, int, int]:
        number, sentence = item
        return sentence.worth, item in self._changes, -self._verbosity(item), number, sentence.start

    def lines(self) -> list[str]:
        """The selection in order: a message's sentences together, with "…" for gaps."""
        for number in {number for number, _ in self._selection} - self._told.keys():
            self._told[number] = self._lines_of(number)
        return [line for number in sorted(self._told) for line in self._told[number]]

    def _lines_of(self, number: int) -> list[str]:
        history = self._ledger.user_sentences
        first, stop = bisect_left(history, (number,)), bisect_left(history, (number + 1,))
        rows = list(self._rows(number, [sentence for _, sentence in history[first:stop]]))
        if len(rows) == 1:
            rows[0] += self._question(number)
        return [*under(self._source(number), rows)]

    def _source(self, number: int) -> str:
        """What stands before the words of a message: its number, a long pause before it, and a mark while it is open.

        That is, while no reply follows it, and they did not go on. Of the others nothing is said: whether a reply was
        an answer is a judgement.
        """
        later = f" ({self._pauses[number]})" if number in self._pauses else ""
        return f"m{number}{later}{' (open)' if number >= self._open_from else ''}:"

    @cached_property
    def _open_from(self) -> int:
        """Number of the user's last message, or of the one after the last reply if that came later."""
        for number, msg in zip(range(len(self._ledger.messages), 0, -1), reversed(self._ledger.messages), strict=True):
            if is_user_turn(msg) or is_final_reply(msg):
                return number + (not is_user_turn(msg))
        return 1

    def _question(self, number: int) -> str:
        """The agent's question that a short message answers, for the end of its line; "" if there is none."""
        own = self._ledger.messages[number - 1]
        if not self._questions or own.role != "user" or len(own.text) > _ANSWER:
            return ""
        question = one_line(last_question(self._asked(number)))
        return f" (m{number - 1} agent: {quoted(shorten(question, REMARK))})" if question else ""

    def _asked(self, number: int) -> str:
        """What the agent says in the message before one, if it asks something there."""
        before = self._ledger.messages[number - 2] if number > 1 else None
        text = before.text if before is not None and before.role == "assistant" else ""
        return text if any(mark in text for mark in QUESTION_MARKS) else ""

    def _answers(self, number: int, sentence: Sentence) -> bool:
        """Whether this is the short beginning of a message after a question of the agent: "ok" is no politeness there.

        It stays as long as anything of the message does: "No thanks. Never before the 5th." without its "no" says yes.
        """
        if sentence.start > _ANSWER or sentence.worth == OUTPUT:
            return False
        words = self._words(number)
        short = len(words) <= _ANSWER or sentence.stop - sentence.start <= _ANSWER // 2
        return short and not words[: sentence.start].strip() and bool(self._asked(number))

    def _rows(self, number: int, everything: Sequence[Sentence]) -> Iterator[str]:
        """The selected sentences of a message, as lines."""
        text = self._words(number)
        row, stop, gap = "", 0, False
        for sentence in everything:
            if (number, sentence) not in self._selection and not self._answers(number, sentence):
                gap = True
                continue
            between = text[stop : sentence.start]
            if row and "\n" in between:
                yield row + (" …" if gap else "")
                row, gap = "", False
            row += "…" if gap and not row else " …" if gap else ""
            row += " " * bool(row and (gap or between)) + self.text(number, sentence)
            stop, gap = sentence.stop, False
        if row:
            yield row + (" …" if gap else "")


def _changes(ledger: WorkLedger) -> dict[tuple[int, Sentence], None]:
    """For each rule, the later plain sentence with most of its rare words, newest first: it may take the rule back."""
    typed = [item for item in ledger.user_sentences[-_MOST:] if item[1].worth in (PLAIN, CLAUSE, RULE)]
    typed = typed[-_MOST_COMPARED:]
    words = [ledger.read(("roots", *item), partial(_roots, ledger, *item)) for item in typed]
    holders = dict[str, list[int]]()
    for at, own in enumerate(words):
        for word in own:
            holders.setdefault(word, []).append(at)
    found = set[int]()
    for own, rule in zip(words, typed, strict=True):
        if rule[1].worth > PLAIN:
            rare = chain.from_iterable(holders[word] for word in own if len(holders[word]) <= _RARE)
            later = Counter(at for at in rare if typed[at][0] > rule[0] and typed[at][1].worth == PLAIN)
            found.update(sorted(later, key=lambda at: (later[at], at))[-1:])
    return dict.fromkeys(typed[at] for at in sorted(found, reverse=True))


def _roots(ledger: WorkLedger, number: int, sentence: Sentence) -> frozenset[str]:
    text = words_of_user(ledger.messages[number - 1])[sentence.start : sentence.stop]
    return frozenset(word[:_ROOT] for word in terms(text) if word not in STOP_WORDS)


def notes(ledger: WorkLedger, only: Container[int], shown: Shown) -> Iterator[tuple[int, str]]:
    """The agent's own notes with message numbers, the newest first, each text once and whole."""
    texts: set[str] = set()
    for number, text in reversed(ledger.notes[-_MOST:]):
        if number in only and text not in texts and not shown.has(("note", text)):
            texts.add(text)
            rows = [row for row in map(one_line, text.splitlines()) if row]
            yield number, "\n".join(under(f"m{number}:", rows))


def under(source: str, rows: Sequence[str]) -> Iterator[str]:
    """What somebody said, behind the number of their message or, if it has several lines, below it."""
    if len(rows) == 1:
        yield f"{source} {rows[0]}"
    else:
        yield from (source, *(f"> {row}" for row in rows))


def replies(ledger: WorkLedger, only: Runs, shown: Shown) -> Iterator[Reason]:
    """The lines of what the agent answered the user, the newest answer first, each answer once and in its order.

    One of a line or two without a reason or a name ("I can help you with that") is left out, unless it is the last
    one since an older one that is told and speaks of calls: "Done, it is sent." after "It bounced".
    """
    texts, latest = set[str](), list[Reason]()
    for number in islice(reversed(only), MOST_MESSAGES):
        msg, text = ledger.messages[number - 1], ledger.messages[number - 1].text
        if not is_final_reply(msg) or not (number == len(ledger.messages) or is_user_turn(ledger.messages[number])):
            continue
        says_much, rows = ledger.read(("reply", number), partial(_rows_of_reply, text))
        lines = [Reason(number, place, row) for place, row in enumerate(rows)]
        if not says_much:
            latest = latest or (lines if number > 1 and ledger.messages[number - 2].tool_results else [])
        # Last, as it searches all that is in view.
        elif text not in texts and not shown.says(text):
            texts.add(text)
            yield from (*latest, *lines)
            latest = []


def _rows_of_reply(text: str) -> tuple[bool, tuple[str, ...]]:
    """Whether an answer says something by its words or its length, and its lines, long ones in short."""
    rows = [shorten(row, REMARK) for row in map(one_line, text[:LONGEST_OF_AGENT].splitlines()) if row]
    says_much = len(rows) >= _LEAST_ROWS or any(sentence.worth > _LEAST_WORTH for sentence in of_agent(text))
    return says_much, (*rows[:-1], rows[-1] + " …" * (len(text) > LONGEST_OF_AGENT)) if rows else ()


def reasons(ledger: WorkLedger, only: Runs, shown: Shown, *, focus: AbstractSet[str] = frozenset()) -> list[Reason]:
    """The agent's reasons, findings and plans, the best first, from all over the span.

    A sentence is worth more the more of its names the messages around it use, and after an answer that is marked as an
    error; at most two of a message, each with the heading of its list, and none that only says again what a better or
    later one says.
    """
    failed = ledger.of_newest_calls(_after_failures)
    found: list[Reason] = []
    per_message = Counter[int]()
    said_already = set[str]()
    newest: list[tuple[float, int, int, _Remark]] = []
    for number, sentence in ledger.newest(ledger.remarks, only, _MOST_COMPARED):
        remark = ledger.read_later(("remark", number, sentence), number, partial(_remark, ledger, number, sentence))
        about = len(focus & set(terms(remark.said))) if focus else 0
        worth = about + sentence.worth + remark.used + (number in failed)
        if worth > _LEAST_WORTH:
            newest.append((worth, number, sentence.start, remark))
    for _, number, start, remark in sorted(newest, key=lambda item: (-item[0], -item[1], item[2])):
        new = remark.items - said_already
        # Last, as it searches all that is in view.
        if not (remark.line and new) or per_message[number] == _OF_MESSAGE or shown.says(remark.line):
            continue
        said_already |= new
        per_message[number] += 1
        found.append(Reason(number, start, remark.shown))
    return _spread(found)


class _Remark(NamedTuple):
    """What the agent said in a message, and how a note tells it."""

    said: str
    line: str
    """On one line; "" if a call of the message says it."""
    items: frozenset[str]
    shown: str
    """With the heading of its list."""
    used: float
    """How much the messages around it name what it names."""


def _remark(ledger: WorkLedger, number: int, sentence: Sentence) -> _Remark:
    msg = ledger.messages[number - 1]
    text = msg.text
    said = text[sentence.start : sentence.stop]
    line = one_line(said)
    bare = _FIELD_OF_TEXT.sub("", line).rstrip('"')
    if any(bare in own for use in msg.tool_uses for own in _shown_texts(use)):
        line = ""
    heading = one_line(heading_of(text, sentence.start))
    shown = shorten(f"{heading} … {line}" if heading else line, REMARK)
    shown += " …" * goes_on(text, sentence)
    used = ledger.used_around(number)(known_values(said))
    return _Remark(said, line, frozenset(items(said)), shown, used)


def _after_failures(calls: Iterable[Call]) -> set[int]:
    """The messages that follow answers marked as errors."""
    return {call.result + 1 for call in calls if call.answer is not None and call.answer.status}


def _shown_texts(use: ToolUseBlock) -> Iterator[str]:
    """What a note shows of the arguments of a call."""
    return chain([label_of(use.input)], (one_line(text) for text in texts_in(use.input) if len(text) <= _SHOWN))


def _spread(found: Sequence[Reason]) -> list[Reason]:
    """Sentences, the best first, so that each stretch of the history comes with its best, then with its second best."""
    numbers = [reason.number for reason in found]
    first, last = min(numbers, default=0), max(numbers, default=0)
    stretches = [(number - first) // ((last - first) // _STRETCHES + 1) for number in numbers]
    ranks = [stretches[:i].count(stretch) for i, stretch in enumerate(stretches)]
    return [reason for _, reason in sorted(zip(ranks, found, strict=True), key=itemgetter(0))][:_BEST_REMARKS]
