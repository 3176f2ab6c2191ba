"""Keeps only the newest reading of a file or record: a line in the place of an older one says that it stands below.

It is the first strategy of a pass if it is configured, and calls no model. It runs only in a pass, so it does not break
the provider's prompt cache more often.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from autocontext.config import AutoContextConfig
from autocontext.events import READ_ONCE
from autocontext.history.cached import cached_property
from autocontext.history.proposals import Proposal
from autocontext.history.runs import Runs
from autocontext.history.view import View
from autocontext.messages import ToolResultBlock, ToolUseBlock, is_compressed, is_note, said_in
from autocontext.notes.answers import unforged
from autocontext.notes.calls import label_of, looks
from autocontext.notes.readings import Outline, Reading, reading_of
from autocontext.notes.writer import NoteWriter
from autocontext.plan import is_plan_block
from autocontext.strategies.instructions import instructions
from autocontext.strategies.selection import recent, stays
from autocontext.text import rendering

_LEAST_TEXT = 240
"""Characters; a shorter result takes hardly more room than the line in its place."""
_LEAST_RUN = 2
"""Pairs that become one line together."""
_GAIN = 1.5
"""Least size of such pairs, in notes without content."""
_COMPARED = 4
"""Newer readings that one is compared with."""


@dataclass
class _Pair:
    """A call in view with its result, both originals."""

    call: int
    """Index of the message with the call."""
    result: int
    block: int
    """Index of the result in its message."""
    use: ToolUseBlock
    output: ToolResultBlock
    reading: Reading
    again: _Pair | None = field(default=None, repr=False)
    """The newest reading of the same thing."""

    @cached_property
    def outline(self) -> Outline:
        """The outline of the result's text; cached, as the newest reading is compared with all others."""
        return Outline.of(self.output.text)

    @property
    def same(self) -> bool:
        """Whether the newest reading has the same result."""
        return self.again is not None and self.again.output.output == self.output.output


class ReadOnce:
    """Replaces the results of readings of a thing that is read again later, and runs of equal pairs as a whole."""

    name = "read_once"

    def __init__(self, config: AutoContextConfig, hand_over: NoteWriter) -> None:
        self.config, self._hand_over = config, hand_over

    def propose(self, view: View) -> list[Proposal]:
        """A line for each run of equal pairs, and one for each other result that was read again."""
        old = self._superseded(view)
        runs = list(self._runs(view, old))
        in_runs = {i for start, stop, _ in runs for i in range(start, stop)}
        proposals = [self._note(view, start, stop, pair) for start, stop, pair in runs]
        by_message: dict[int, list[_Pair]] = defaultdict(list)
        for pair in old:
            if pair.result not in in_runs and len(pair.output.text) >= _LEAST_TEXT:
                by_message[pair.result].append(pair)
        for i, pairs in by_message.items():
            blocks = {pair.block: self._again(pair) for pair in pairs}
            proposals.append(Proposal(view.span(i, i + 1), blocks=blocks, event_type=READ_ONCE, kind="stub"))
        return proposals

    # ------------------------------------------------------------------------------------------------- what is old
    def _superseded(self, view: View) -> list[_Pair]:
        """The pairs whose reading stands in view once more, newer and whole, in order."""
        keep, stop = stays(self.config, view, by_result=True), min(view.unread, recent(view, self.config))
        spared = instructions(self.config, view)
        newer: dict[str, list[_Pair]] = defaultdict(list)
        equal: dict[tuple[str, Reading, str, bool], _Pair] = {}
        old: list[_Pair] = []
        for pair in reversed(list(self._pairs(view))):
            others = newer[pair.reading.subject]
            same = pair.use.name, pair.reading, pair.output.text, pair.output.is_error
            call, result = view.messages[pair.call], view.messages[pair.result]
            # However many others there are, the newest with the same result is among those that are compared.
            found = [*others[:_COMPARED], *([equal[same]] if same in equal else [])]
            stays_here = pair.result >= stop or pair.block in spared.get(result.id, ())
            if found and not (stays_here or keep(call) or keep(result)):
                pair.again = next((n for n in found if _is_read_again(pair, n)), None)
            if pair.again is None:
                others.append(pair)
                equal.setdefault(same, pair)
            else:
                old.append(pair)
        return old[::-1]

    def _pairs(self, view: View) -> Iterator[_Pair]:
        """The calls with their results, in the order of the results."""

        def whole(i: int) -> bool:
            return not is_compressed(view.messages[i]) and self._hand_over.number(view.ids[i]) is not None

        for call, use, result, k, block in view.answers:
            if whole(call) and whole(result) and not is_plan_block(use):
                # Results are compared as they came: two that differ in a secret alone are not the same.
                original = self._hand_over.original(view.ids[result], readable=False)
                output = original.content[k] if original is not None else block
                yield _Pair(call, result, k, use, output if output.type == "tool_result" else block, reading_of(use))

    # ------------------------------------------------------------------------------------------------- what it gets
    def _runs(self, view: View, old: list[_Pair]) -> Iterator[tuple[int, int, _Pair]]:
        """Where equal pairs follow each other, after an earlier line about them: [start, stop), and the first pair."""
        alone = {pair.call: pair for pair in old if pair.same and _is_alone(view, pair)}
        stop = 0
        for call in sorted(alone):
            if call < stop:
                continue
            stop, first = call, alone[call]
            while (pair := alone.get(stop)) and pair.again is first.again and pair.reading == first.reading:
                stop = pair.result + 1
            joins = call > 0 and self._tells_of(view, call - 1, first)
            start = call - joins
            if (stop - call) // 2 + joins >= _LEAST_RUN and view.tokens(start, stop) > self._hand_over.frame * _GAIN:
                yield start, stop, first

    def _tells_of(self, view: View, index: int, pair: _Pair) -> bool:
        """Whether a message is a line about pairs that equal this one."""
        if not is_note(view.messages[index]) or not rendering.is_about_equal_calls(view.messages[index]):
            return False
        newest = self._hand_over.newest_originals(view.ids[index], 2)
        readings = [reading_of(use) for m in newest for use in m.tool_uses]
        outputs = [block.output for m in newest for block in m.tool_results]
        return (readings, outputs) == ([pair.reading], [pair.output.output])

    def _note(self, view: View, start: int, stop: int, pair: _Pair) -> Proposal:
        numbers = list(Runs.union(map(self._hand_over.numbers, view.ids[start:stop])))
        label = unforged(label_of(pair.use.input))
        text = rendering.equal_calls(numbers, pair.use.name, label, self._again(pair))
        # A ledger, not the note's text: that would count as a model's.
        span, role = view.span(start, stop), self.config.note_role
        return Proposal(span, "", ledger=lambda _: text, event_type=READ_ONCE, kind="tool_run", role=role)

    @staticmethod
    def _again(pair: _Pair) -> str:
        """The line that says that a newer reading stands below."""
        is_reading = pair.reading.of_file and looks(pair.use.name, pair.use.input)
        return rendering.read_again(same=pair.same, read=is_reading)


def _is_read_again(older: _Pair, newer: _Pair) -> bool:
    """Whether a later pair makes an older one superfluous."""
    if not newer.reading.covers(older.reading):
        return False
    if newer.output.output == older.output.output:
        return newer.output.is_error == older.output.is_error
    if not newer.reading.of_file or newer.output.is_error or older.output.is_error:
        return False
    return older.outline.still_shown(newer.outline)


def _is_alone(view: View, pair: _Pair) -> bool:
    """Whether a call and its result follow each other and nothing else stands in their messages."""
    call, result = view.messages[pair.call], view.messages[pair.result]
    says_nothing = not call.text.strip() and all(b.type in ("tool_use", "text", "thinking") for b in call.content)
    only = says_nothing and len(call.tool_uses) == 1 and len(result.content) == 1 and not said_in(result)
    return only and pair.result == pair.call + 1 and view.closed(pair.call, pair.result + 1)
