"""What still stands of earlier calls: where the agent is, what it has started, and which instructions it has read.

All is quoted: the words of the call, and what came back. What the patterns do not know is left out, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from autocontext.messages import leaves
from autocontext.notes.calls import MOST_MESSAGES, Call
from autocontext.notes.commands import ENDED, ends, found_at, handles, jobs, says_running, stops, to_use, was_refused
from autocontext.text.rendering import one_line

if TYPE_CHECKING:
    from autocontext.notes.instructions import Instructions
    from autocontext.notes.work import WorkLedger

_MOST_FOLDERS = 3
"""Changes of folder, one relative to the other, that together say where the agent is."""
_WHOLE = re.compile(r"\w+ +[\"']?(?:[/~$]|[A-Za-z]:)")
"""A change of folder that does not depend on the one before it."""
_MOST_STARTED, _MOST_READ = 20, 60
"""Newest starts, and readings of instructions, that are looked at."""
_LONGEST_LABEL = 200
_NEAR, _LONGEST_RECORD = 200, 2_000
"""Characters around a handle in which a word says that what it names has ended, and in which the braces around it are
looked for."""
_ENDED = re.compile(
    r"(?<!not )(?<!not yet )\b"
    rf"(?:{ENDED}|no such process)\b"
    r"(?![\"']\s{0,3}:\s{0,3}(?:false|null|\d))",  # a field that says no, or counts
    re.IGNORECASE,
)
_RUNNING = re.compile(r"\b(?:running|queued|pending|processing|in[_ -]progress)\b", re.IGNORECASE)
_LONGEST_HANDLE, _MOST_HANDLES = 60, 8
"""Characters of a handle, and different handles of one start that are looked for."""


def where(calls: Iterable[Call]) -> list[tuple[int, str]]:
    """Where the agent is, from its newest calls that were not refused: the words with their message's number.

    What may have left a place ends it; the end of a host, also what was entered on it.
    Nothing of folders if its shell begins anew with each call: then the same change into a folder, relative to where
    the shell is, comes twice in a row.
    """
    last: dict[str, list[tuple[int, str]]] = {}
    anew = False
    for call in calls:
        if call.answer is None:
            continue
        for kind, words in call.places:
            newest = [item[1] for item in last.get(kind, [])[-1:]]
            if call.answer.status and words in (call.label, *newest):
                continue  # it is where it was
            if call.answer.status or not words:
                _leave(last, kind)
                continue
            relative = kind == "folder" and not _WHOLE.match(words)
            anew |= relative and ".." not in words and newest == [words]  # one upwards may be made twice
            before = [item for item in last.get(kind, []) if relative and item[1] != words]
            last[kind] = [*before[1 - _MOST_FOLDERS :], (call.number, words)]
    return sorted(item for kind, items in last.items() for item in items if not (anew and kind == "folder"))


def _leave(last: dict[str, list[tuple[int, str]]], kind: str) -> None:
    left = last.pop(kind, [])
    for items in last.values() if kind == "host" and left else ():
        items[:] = [item for item in items if item[0] <= left[0][0]]


def running(ledger: WorkLedger) -> list[Call]:
    """The newest calls that have started something of which no end was seen."""
    calls = ledger.newest_calls
    went_well = [c for c in calls if c.answer is not None and not c.answer.status]
    found = [c for c in went_well if c.starts or (not c.looks and _is_used(ledger, c))]
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


def _is_used(ledger: WorkLedger, call: Call) -> bool:
    """Whether a later call has a handle that this one's answer hands out as one of its arguments."""
    given = ledger.read(("to use", call), lambda: to_use(call.label, ledger.result_of(call)))
    last = ledger.remembered(_last_named, lambda: _last_named(ledger)) if given else {}
    return any(last.get(handle, 0) > call.number for handle in given)


def _last_named(ledger: WorkLedger) -> dict[str, int]:
    """By what stands alone as an argument, the last message with a call that has it there."""
    uses = ((c.number, use) for c in ledger.newest_calls for use in ledger.messages[c.number - 1].tool_uses)
    return {leaf: number for number, use in uses for leaf in leaves(use.input) if len(leaf) <= _LONGEST_HANDLE}


def _has_ended(ledger: WorkLedger, start: Call, calls: list[Call]) -> bool:
    """Whether one of these calls ends it, or an answer or a newer message says that it has ended."""
    newest, answer = ledger.messages[max(start.result, len(ledger) - MOST_MESSAGES) :], ledger.result_of(start)
    later = [c for c in calls if c.number > start.number]
    named = list(dict.fromkeys(handle for handle, _ in handles(answer)))[:_MOST_HANDLES]
    about = [(handle, c) for handle in named for c in later if found_at(c.label, handle)]
    ending = [c for c in later if stops(c.label, start.label, answer)] + [c for _, c in about if ends(c.name, c.label)]
    others = (text for m in newest if m.role != "assistant" for text in m.texts())
    return (
        not all(was_refused(c.command, c.answer.status if c.answer else "", ledger.result_of(c)) for c in ending)
        or _job_has_ended(ledger, start, later)
        or any(_says_ended(ledger.result_of(c), handle, about=True) for handle, c in about)
        or any(_says_ended(text, handle) for text in others for handle in named)
    )


def _job_has_ended(ledger: WorkLedger, start: Call, later: list[Call]) -> bool:
    """Whether a command or its shell's own line ends a job, before another one has its number."""
    own: set[str] = set()
    for call in [start, *later]:
        for number, begins in jobs(call.command, ledger.result_of(call)):
            if own and not begins and number in ("", *own):
                return True
            (own.add if begins and call is start else own.discard)(number)
        if not own:
            break
    return False


def _says_ended(text: str, handle: str, *, about: bool = False) -> bool:
    """Whether a text says that what the handle names has ended.

    The record or the line with the handle decides, then the text's own status, then a word near the handle, or any in
    the answer to a call about it.
    """
    found = found_at(text, handle)
    for record in reversed([_record(text, at) for at in found]):
        if (ended := _ended(record)) is not None:
            return ended
    if about:
        runs = says_running(text)
        return not runs if runs is not None else _ENDED.search(text) is not None
    near = any(_ENDED.search(text, max(0, at - _NEAR), at + len(handle) + _NEAR) for at in found)
    return near and not says_running(text)


def _ended(record: str) -> bool | None:
    """Whether a record says that its thing has ended; None if it says nothing of that."""
    if (runs := says_running(record)) is not None:
        return not runs
    return True if _ENDED.search(record) else False if _RUNNING.search(record) else None


def _record(text: str, at: int) -> str:
    """The braces around a place, or its line; of a long line what stands near."""
    opens, closes = text.rfind("{", max(0, at - _LONGEST_RECORD), at), text.find("}", at, at + _LONGEST_RECORD)
    if 0 <= opens < closes and "}" not in text[opens:at]:
        return text[opens : closes + 1]
    first, last = max(0, at - 2 * _NEAR), at + 2 * _NEAR
    begin, end = text.rfind("\n", first, at), text.find("\n", at, last)
    return text[begin + 1 if begin >= 0 else first : end if end >= 0 else last]
