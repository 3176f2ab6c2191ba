"""What the user and the agent said, as lines of a work ledger."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from autocontext.history.runs import Runs
from autocontext.ledger.calls import shortened
from autocontext.ledger.sentences import CLAUSE, Sentence, of_user
from autocontext.messages import Msg, is_user_turn
from autocontext.text.rendering import one_line

if TYPE_CHECKING:
    from autocontext.ledger.work import WorkLedger

_REMARK = 240
"""Characters of a sentence of the agent."""
_MOST = 3_000
"""Sentences that one text is made of: the newest. So it costs no more as work goes on."""
_MOST_REMARKS = 300
"""Sentences of the agent that are considered: the newest."""
_BEST_REMARKS = 40
"""Of them, those that may be told."""


class Speech:
    """The user's sentences in some messages, and those that were chosen to be told."""

    def __init__(self, ledger: WorkLedger, only: Runs, shown: Iterable[Msg]) -> None:
        self._ledger, self._only = ledger, only
        self._seen = {
            one_line(m.text[s.start : s.stop]) for m in shown if is_user_turn(m) for s in of_user(m.text)
        }  # also where only a part of a message is shown
        self._chosen: set[tuple[int, Sentence]] = set()
        self._lines: list[str] | None = None

    def sentences(self, worth: int) -> Iterator[tuple[int, Sentence]]:
        """Those that are worth so much and that the reader does not see, newest first, each text once."""
        told: set[str] = set()
        said = self._ledger.said
        places = (
            reversed(self._ledger.rules) if worth >= CLAUSE else range(len(said) - 1, max(-1, len(said) - _MOST), -1)
        )
        for number, sentence in islice((said[at] for at in places), _MOST):
            if sentence.worth == worth and number in self._only:
                text = self.text(number, sentence)
                if text and text not in self._seen and text not in told:
                    told.add(text)
                    yield number, sentence

    def text(self, number: int, sentence: Sentence) -> str:
        """A sentence on one line."""
        return one_line(self._ledger.messages[number - 1].text[sentence.start : sentence.stop])

    def choose(self, sentences: Iterable[tuple[int, Sentence]]) -> None:
        """Tell these sentences."""
        self._chosen.update(sentences)
        self._lines = None

    def drop_oldest(self) -> None:
        """Tell the oldest sentence of those that are worth least no longer."""
        self._chosen.discard(min(self._chosen, key=lambda item: (item[1].worth, item[0], item[1].start)))
        self._lines = None

    def lines(self) -> list[str]:
        """What was chosen, in order: a message's sentences together, "…" where some between are left out."""
        if self._lines is None:
            self._lines = self._made_lines()
        return self._lines

    def _made_lines(self) -> list[str]:
        lines: list[str] = []
        said = self._ledger.said
        for number in sorted({number for number, _ in self._chosen}):
            first, stop = bisect_left(said, (number,)), bisect_left(said, (number + 1,))
            rows = list(self._rows(number, [sentence for _, sentence in said[first:stop]]))
            lines += [f"m{number}: {rows[0]}"] if len(rows) == 1 else [f"m{number}:", *(f"> {row}" for row in rows)]
        return lines

    def _rows(self, number: int, everything: Sequence[Sentence]) -> Iterator[str]:
        """The lines of a message with the sentences that were chosen."""
        text = self._ledger.messages[number - 1].text
        row, stop, gap = "", 0, False
        for sentence in everything:
            if (number, sentence) not in self._chosen:
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


def remarks(ledger: WorkLedger, only: Container[int], changing: Container[int]) -> Iterator[tuple[int, str]]:
    """What the agent concluded, the best first, with the messages' numbers; what precedes a change is worth more."""
    ranked = sorted(
        (item for item in ledger.remarks[-_MOST_REMARKS:] if item[0] in only),
        key=lambda item: (item[1].worth + (item[0] in changing), item[0], item[1].start),
        reverse=True,
    )
    for number, sentence in ranked[:_BEST_REMARKS]:
        text = one_line(ledger.messages[number - 1].text[sentence.start : sentence.stop])
        if text:
            yield number, shortened(text, _REMARK)
