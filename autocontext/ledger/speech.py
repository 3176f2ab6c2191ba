"""Sentences of the user and the agent as lines of a work ledger."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import TYPE_CHECKING

from autocontext.history.runs import Runs
from autocontext.ledger.calls import shorten
from autocontext.ledger.sentences import CLAUSE, Sentence
from autocontext.ledger.shown import Shown
from autocontext.text.rendering import one_line
from autocontext.text.words import terms

if TYPE_CHECKING:
    from autocontext.ledger.work import WorkLedger

_REMARK = 240
"""Characters of a sentence of the agent."""
_MOST = 3_000
"""One text uses the newest sentences, so its cost does not grow with the history."""
_MOST_REMARKS = 300
"""Newest sentences of the agent to consider."""
_BEST_REMARKS = 40
"""Most sentences of the agent to return."""


class Speech:
    """The user's sentences in some messages, and the selection to render."""

    def __init__(self, ledger: WorkLedger, only: Runs, shown: Shown) -> None:
        self._ledger, self._only, self._shown = ledger, only, shown
        self._selection: set[tuple[int, Sentence]] = set()
        self._lines: list[str] | None = None

    def sentences(self, worth: int) -> Iterator[tuple[int, Sentence]]:
        """Sentences of this worth that the reader does not see, newest first, each text once."""
        texts: set[str] = set()
        history = self._ledger.user_sentences
        newest = (history[at] for at in reversed(self._ledger.rules)) if worth >= CLAUSE else reversed(history)
        for number, sentence in islice(newest, _MOST):
            if sentence.worth == worth and number in self._only:
                text = self.text(number, sentence)
                if text and text not in texts and not self._shown.has(("sentence", text)):
                    texts.add(text)
                    yield number, sentence

    def text(self, number: int, sentence: Sentence) -> str:
        """A sentence on one line."""
        return one_line(self._ledger.messages[number - 1].text[sentence.start : sentence.stop])

    def choose(self, sentences: Iterable[tuple[int, Sentence]]) -> None:
        """Add sentences to the selection."""
        self._selection.update(sentences)
        self._lines = None

    def drop_oldest(self) -> None:
        """Remove the oldest of the least important sentences from the selection."""
        self._selection.discard(min(self._selection, key=lambda item: (item[1].worth, item[0], item[1].start)))
        self._lines = None

    def lines(self) -> list[str]:
        """The selection in order: a message's sentences together, with "…" for gaps."""
        if self._lines is None:
            self._lines = self._render()
        return self._lines

    def _render(self) -> list[str]:
        lines: list[str] = []
        history = self._ledger.user_sentences
        for number in sorted({number for number, _ in self._selection}):
            first, stop = bisect_left(history, (number,)), bisect_left(history, (number + 1,))
            rows = list(self._rows(number, [sentence for _, sentence in history[first:stop]]))
            lines += [f"m{number}: {rows[0]}"] if len(rows) == 1 else [f"m{number}:", *(f"> {row}" for row in rows)]
        return lines

    def _rows(self, number: int, everything: Sequence[Sentence]) -> Iterator[str]:
        """The selected sentences of a message, as lines."""
        text = self._ledger.messages[number - 1].text
        row, stop, gap = "", 0, False
        for sentence in everything:
            if (number, sentence) not in self._selection:
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


def notes(ledger: WorkLedger, only: Container[int], shown: Shown) -> Iterator[tuple[int, str]]:
    """The agent's own notes with message numbers, the newest first, each text once and whole."""
    texts: set[str] = set()
    for number, text in reversed(ledger.notes[-_MOST:]):
        if number in only and text not in texts and not shown.has(("note", text)):
            texts.add(text)
            rows = [row for row in map(one_line, text.splitlines()) if row]
            yield number, f"m{number}: {rows[0]}" if len(rows) == 1 else "\n> ".join((f"m{number}:", *rows))


def remarks(
    ledger: WorkLedger, only: Container[int], changing: Container[int], focus: AbstractSet[str] = frozenset()
) -> Iterator[tuple[int, str]]:
    """The agent's conclusions with message numbers, the best first.

    Those with terms of `focus` lead, then those in messages that change something.
    """

    def text_of(number: int, sentence: Sentence) -> str:
        return one_line(ledger.messages[number - 1].text[sentence.start : sentence.stop])

    def worth(item: tuple[int, Sentence]) -> tuple[int, int, int, int]:
        number, sentence = item
        about = len(focus & set(terms(text_of(*item)))) if focus else 0
        return about, sentence.worth + (number in changing), number, sentence.start

    candidates = sorted((r for r in ledger.remarks[-_MOST_REMARKS:] if r[0] in only), key=worth, reverse=True)
    for number, sentence in candidates[:_BEST_REMARKS]:
        if text := text_of(number, sentence):
            yield number, shorten(text, _REMARK)
