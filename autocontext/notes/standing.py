"""What still stands of earlier calls: where the agent is, what it has started, and which instructions it has read.

All is quoted: the words of the call, and what came back. What the patterns do not know is left out, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from autocontext.notes.calls import MOST_MESSAGES, Call
from autocontext.notes.commands import handles, stops
from autocontext.text.rendering import one_line

if TYPE_CHECKING:
    from autocontext.notes.instructions import Instructions
    from autocontext.notes.work import WorkLedger

_MOST_FOLDERS = 3
"""Changes of folder, one relative to the other, that together say where the agent is."""
_WHOLE = re.compile(r"\w+ +[\"']?(?:[/~$]|[A-Za-z]:)")
"""A change of folder that does not depend on the one before it."""
_UP = ".."
"""In a change of folder that may be made twice."""
_MOST_STARTED = 20
"""Newest starts that are looked at."""
_MOST_READ = 60
"""Newest readings of instructions that are looked at."""
_LONGEST_LABEL = 200
_NEAR = 200
"""Characters around a handle in which a word says that what it names has ended."""
_ENDS = re.compile(r"\b(?:kill|stop|terminate|cancel|close|end|exit|rm|down)|Kill|Stop|Cancel|Terminate", re.IGNORECASE)
"""A call that ends what it names."""
_ENDED = re.compile(
    r"\b(?:completed?|exited|finished|killed|terminated|stopped|cancell?ed|failed|done|succeeded|no such process)\b",
    re.IGNORECASE,
)


def where(calls: Iterable[Call]) -> list[tuple[int, str]]:
    """Where the agent is, from its newest calls that were not refused: the words with their message's number.

    Nothing of folders if its shell begins anew with each call: then the same change into a folder, relative to where
    the shell is, comes twice in a row.
    """
    last: dict[str, list[tuple[int, str]]] = {}
    anew = False
    for call in calls:
        if call.answer is None or call.answer.status:
            continue
        for kind, words in call.places:
            relative = kind == "folder" and not _WHOLE.match(words)
            anew |= relative and _UP not in words and [item[1] for item in last.get(kind, [])[-1:]] == [words]
            before = [item for item in last.get(kind, []) if relative and item[1] != words]
            last[kind] = [*before[1 - _MOST_FOLDERS :], (call.number, words)]
    return sorted(item for kind, items in last.items() for item in items if not (anew and kind == "folder"))


def running(ledger: WorkLedger) -> list[Call]:
    """The newest calls that have started something of which no end was seen."""
    calls = ledger.newest_calls
    found = [c for c in calls if c.starts and c.answer is not None and not c.answer.status]
    return [call for call in found[-_MOST_STARTED:] if not _has_ended(ledger, call, calls)]


def instructions_read(ledger: WorkLedger, only: Container[int]) -> list[tuple[Call, str]]:
    """The newest reading of each instruction file and skill, where its result is in one of these messages.

    With what it has read: the paths, or the skill.
    """
    newer: list[Instructions] = []
    found: list[tuple[Call, str]] = []
    for at, what in reversed(ledger.instructions[-_MOST_READ:]):
        call = ledger.calls[at]
        if call.answer is not None and not call.answer.status and not any(n.covers(what) for n in newer):
            newer.append(what)
            if call.result in only:
                found.append((call, one_line(what.label[:_LONGEST_LABEL])))
    return found[::-1]


def _has_ended(ledger: WorkLedger, start: Call, calls: list[Call]) -> bool:
    """Whether one of these calls ends it, or an answer or a newer message says that it has ended."""
    newest, answer = ledger.messages[max(start.result, len(ledger) - MOST_MESSAGES) :], ledger.result_of(start)
    if any(stops(c.label, start.label, answer) for c in calls if c.number > start.number):
        return True
    for handle, _ in handles(answer):
        about = [c for c in calls if c.number > start.number and handle in c.label]
        if any(_ENDS.search(f"{c.name} {c.label}") or _ENDED.search(ledger.result_of(c)) for c in about):
            return True
        if any(_says_ended(text, handle) for m in newest if m.role != "assistant" for text in m.texts()):
            return True
    return False


def _says_ended(text: str, handle: str) -> bool:
    """Whether a word near the handle says that what it names has ended."""
    at = text.find(handle)
    while at >= 0:
        if _ENDED.search(text, max(0, at - _NEAR), at + len(handle) + _NEAR):
            return True
        at = text.find(handle, at + 1)
    return False
