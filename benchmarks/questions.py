"""Questions of a reader who continues a conversation; its earlier messages have the answers.

- *needs*: each value of the next calls that occurred before (see `needs`; here a value counts for each call)
- *changes*: each thing that was changed so far (see `calls`)
- *failures*: the last 20 calls that failed and were not made again since with success
- *requests*: each sentence that the user has said, of 20 characters or more
- *done*: the newest 60 distinct calls
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from calls import Call, Calls
from chat import Chat, Remembered, Tokens, content_text, source_text, visible_text
from needs import MOST_VALUES, occurs, values
from texts import sentences

QUESTIONS = ("needs", "changes", "failures", "requests", "done")
_PROBES = 12
_FAILURES, _DONE = 20, 60


@dataclass
class Probe:
    """A place in a conversation, with everything that is asked there."""

    at: int
    """Index of the next assistant message."""
    history: Sequence[Chat]
    calls: Calls
    originals: set[tuple[str, str]]
    """Role and text of every message so far."""
    everything: str
    """All text so far."""
    sources: list[tuple[Chat, str]]
    """The messages but the system's, each with its text."""
    needs: list[str]
    changes: dict[str, list[Call]]
    failures: list[Call]
    requests: list[str]
    done: list[Call]
    future: set[str]
    """The values of all later calls."""


class Probes:
    """The probes of a conversation, built once for all policies and windows."""

    def __init__(self, messages: Sequence[Chat], count: Tokens) -> None:
        self.messages, self.count = messages, count
        self._visible_text, self._source_text = Remembered(visible_text), Remembered(source_text)
        self._made: dict[int, Probe] = {}

    def places(self, window: int) -> list[int]:
        """Up to 12 assistant messages, evenly spread over those before which there is more than the window holds."""
        if self.count(m for m in self.messages if m["role"] == "system") >= 0.75 * window:
            return []
        larger, total = [], 0
        for i, message in enumerate(self.messages):
            if message["role"] == "assistant" and total > window:
                larger.append(i)
            total += self.count.message(message)
        if len(larger) <= _PROBES:
            return larger
        return [larger[round(n * (len(larger) - 1) / (_PROBES - 1))] for n in range(_PROBES)]

    def at(self, place: int) -> Probe:
        """The probe before the message at an index."""
        if place not in self._made:
            self._made[place] = self._probe(place)
        return self._made[place]

    def _probe(self, at: int) -> Probe:
        history = self.messages[:at]
        calls = Calls(history)
        latest = calls.latest()
        to_come = (call for m in self.messages[at:] for call in m.get("tool_calls") or ())
        return Probe(
            at=at,
            history=history,
            calls=calls,
            originals={(m["role"], content_text(m)) for m in history},
            everything="\n".join(map(self._visible_text, history)),
            sources=[(m, self._visible_text(m)) for m in history if m["role"] != "system"],
            needs=self._needs(self.messages[at], history),
            changes=calls.changes(),
            failures=[call for call in latest if call.failed()][-_FAILURES:],
            requests=[s for m in history if m["role"] == "user" for s in sentences(content_text(m))],
            done=latest[-_DONE:],
            future={value for call in to_come for value in values(call)},
        )

    def _needs(self, message: Chat, history: Sequence[Chat]) -> list[str]:
        always_visible = "\n".join(content_text(m) for m in history if m["role"] == "system")
        before = [self._source_text(m) for m in history if m["role"] != "system"]
        candidates = (
            value
            for call in message.get("tool_calls") or ()
            for value in values(call)
            if not occurs(value, always_visible) and any(occurs(value, text) for text in before)
        )
        return list(islice(candidates, MOST_VALUES))
