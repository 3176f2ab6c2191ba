"""Splits a transcript into sections, by the line heads of `autocontext.text.rendering`, and into units for a note."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from autocontext.models.salience import is_error
from autocontext.text.rendering import cut

Kind = Literal["user", "assistant", "thinking", "system", "tool", "call", "result", "text"]

_HEAD = re.compile(
    r"^\[(?:(?P<role>user|assistant|system|tool)(?P<thinking> thinking)?"
    r"|call (?P<call>[^\s\]]*) id=(?P<call_id>[^\]\n]*)"
    r"|result(?P<error> error)? (?P<result>[^\s\]]*) id=(?P<result_id>[^\]\n]*))\](?: |$)",
    re.MULTILINE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])")
_SOFT_BREAK = re.compile(r"[\s,;，、；]")
_WORDLIKE = re.compile(r"\w")
UNIT_LENGTH = 240
"""Characters of the longest unit: about four lines of a terminal."""


@dataclass(slots=True)
class Section:
    """One block of a message, with its speaker or tool."""

    kind: Kind
    text: str
    name: str = ""
    call_id: str = ""
    failed: bool = False
    answer: Section | None = None
    """Of a call: its result."""
    call: Section | None = None
    """Of a result: its call."""
    outcome: str = ""
    """Of a result: the line that was quoted in its call's unit."""


@dataclass(slots=True, eq=False)
class Unit:
    """A sentence, a line, or a call with its outcome; a note has all of it or nothing."""

    text: str
    section: Section
    order: int
    first: bool
    last: bool
    score: float = 0.0
    must: bool = False
    values: frozenset[str] = field(default_factory=frozenset)


def sections(transcript: str) -> list[Section]:
    """The sections in order, with calls and results linked (a reused id means the newest call)."""
    heads = list(_HEAD.finditer(transcript))
    parts = []
    before = transcript[: heads[0].start()] if heads else transcript
    if before.strip():
        parts.append(Section("text", before.strip()))
    waiting: dict[str, Section] = {}
    for i, head in enumerate(heads):
        end = heads[i + 1].start() if i + 1 < len(heads) else len(transcript)
        section = _section(head, transcript[head.end() : end].strip())
        parts.append(section)
        if section.kind == "call":
            waiting[section.call_id] = section
        elif section.kind == "result" and (call := waiting.pop(section.call_id, None)):
            call.answer, section.call = section, call
    return parts


def _section(head: re.Match[str], text: str) -> Section:
    if head["role"]:
        return Section("thinking" if head["thinking"] else head["role"], text)  # type: ignore[arg-type] # by the pattern
    if head["call_id"] is not None:
        return Section("call", text, head["call"], head["call_id"])
    return Section("result", text, head["result"], head["result_id"], failed=bool(head["error"]))


def units(parts: list[Section], *, arguments_length: int, with_ids: bool) -> list[Unit]:
    """The units of all sections; a call is one unit, with arguments cut to `arguments_length` characters."""
    all_units: list[Unit] = []
    for section in parts:
        if section.kind == "call":
            pieces = [_call_line(section, arguments_length, with_ids=with_ids)]
        else:
            pieces = [piece for piece in _pieces(section.text) if piece != section.outcome]
        for i, piece in enumerate(pieces):
            all_units.append(Unit(piece, section, len(all_units), first=i == 0, last=i == len(pieces) - 1))
    return all_units


def _call_line(call: Section, arguments_length: int, *, with_ids: bool) -> str:
    name = f"{call.name} id={call.call_id}" if with_ids else call.name
    line = f"call {name}({shorten(call.text, arguments_length)})"
    if call.answer is None:
        return f"{line} -> (no result here)"
    pieces = list(_pieces(call.answer.text))
    if not pieces:
        return f"{line} -> (empty result)"
    faults = (piece for piece in pieces if is_error(piece))
    outcome = next(faults, pieces[0]) if call.answer.failed else pieces[0]
    call.answer.outcome = outcome
    return f"{line} -> {'ERROR ' if call.answer.failed else ''}{shorten(outcome, arguments_length)}"


def shorten(text: str, length: int) -> str:
    """A text on one line, without its middle if it is too long: both ends of an error are informative."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    head = cut(text, length * 2 // 3)
    return f"{text[:head]}...{text[cut(text, len(text) - length // 3) :]}"


def _pieces(text: str) -> Iterator[str]:
    for raw in text.splitlines():
        line = raw.strip()
        # A quoted tag is of no use in a note.
        if not _WORDLIKE.search(line) or line.startswith("<! CONTEXT_OFFLOAD"):
            continue
        line = line.removeprefix("- ")
        if len(line) <= UNIT_LENGTH:
            yield line
            continue
        for sentence in _SENTENCE_END.split(line):
            yield from _wrap(sentence)


def _wrap(sentence: str) -> Iterator[str]:
    """A sentence in pieces of at most UNIT_LENGTH characters, split at spaces or commas if possible."""
    start = 0
    while len(sentence) - start > UNIT_LENGTH:
        window = sentence[start : start + UNIT_LENGTH]
        breaks = [match.end() for match in _SOFT_BREAK.finditer(window, UNIT_LENGTH // 2)]
        end = start + (breaks[-1] if breaks else cut(window + sentence[start + UNIT_LENGTH], UNIT_LENGTH))
        if _WORDLIKE.search(piece := sentence[start:end].strip()):
            yield piece
        start = end
    if _WORDLIKE.search(piece := sentence[start:].strip()):
        yield piece
