"""From questions to written texts: requests, chunks of transcripts that are too long for one, merging, the fallback.

A generator like the engine, of which it is a part: it yields Ask and is sent Answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from autocontext import rendering
from autocontext.config import AutoContextConfig
from autocontext.edits import Question
from autocontext.plan import PlanLike
from autocontext.requests import Answer, ModelRequest, Usage

_LEAST_TARGET = 64
"""Tokens; a shorter summary of a chunk says nothing."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Questions to be put to the model at the same time."""

    requests: tuple[ModelRequest, ...]
    limits: tuple[int, ...]
    """Characters that each answer must stay under: what it is to replace."""
    extractive: bool = False
    """The model has failed on these: let the extractive summariser answer."""


Asking: TypeAlias = Generator[Ask, "list[Answer]", "list[Written]"]


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one question."""

    text: str | None = None
    """None when no usable answer could be had."""
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    fallback: bool = False
    """Whether any part of the text was written without the model."""


@dataclass(frozen=True, slots=True)
class Wording:
    """How questions become requests in this pass."""

    config: AutoContextConfig
    language: str
    plan: PlanLike | None

    def request(self, question: Question) -> ModelRequest:
        """The request for one question, redacted if the configuration says so."""
        request = rendering.request(
            question.purpose,
            question.parts,
            self.config.prompts,
            language=self.language,
            plan=self.plan,
            target_tokens=question.target_tokens,
        )
        if self.config.redact is None:
            return request
        return request.model_copy(update={"prompt": self.config.redact(request.prompt)})

    @property
    def room(self) -> int:
        """Tokens of transcript that one request may hold."""
        return self.config.summary_max_input_tokens or max(1, self.config.max_token // 2)


def write(questions: Sequence[Question], wording: Wording) -> Asking:
    """One Written per question, in order; everything that can be asked at the same time is."""
    chunked = [chunks(q, wording.room) for q in questions]
    parts = yield from _ask([c for cs in chunked for c in cs], wording)
    at = 0
    written: list[Written] = []
    to_merge: list[int] = []
    for i, cs in enumerate(chunked):
        own, at = parts[at : at + len(cs)], at + len(cs)
        written.append(_joined(own))
        if len(cs) > 1 and written[i].text is not None:
            to_merge.append(i)
    if to_merge:
        merges = [_merge(questions[i], written[i], wording.room) for i in to_merge]
        for i, merged in zip(to_merge, (yield from write(merges, wording)), strict=True):
            total = replace(merged, usage=written[i].usage + merged.usage, calls=written[i].calls + merged.calls)
            written[i] = replace(total, fallback=merged.fallback or written[i].fallback)
    return written


def _joined(parts: Sequence[Written]) -> Written:
    """Several partial texts as one; no text when one of them is missing."""
    texts = [p.text for p in parts if p.text is not None]
    return Written(
        "\n".join(texts) if len(texts) == len(parts) else None,
        sum((p.usage for p in parts), Usage()),
        sum(p.calls for p in parts),
        any(p.fallback for p in parts),
    )


def _merge(question: Question, partial: Written, room: int) -> Question:
    """The question that joins partial summaries; each is cut so that merging gets shorter every time."""
    text = partial.text or ""
    size = max(1, len(text.encode("utf-8", "replace")) // 4)
    target = min(question.target_tokens, max(_LEAST_TARGET, min(size, room) // 2))
    return Question("merge", (text,), target, (size,))


def _ask(questions: Sequence[Question], wording: Wording) -> Asking:
    """Put questions to the model; those it fails on to the extractive summariser, if that is wanted."""
    if not questions:
        return []
    requests = tuple(wording.request(q) for q in questions)
    limits = tuple(sum(map(len, q.parts)) + len(q.parts) for q in questions)
    answers = yield Ask(requests, limits)
    written = [Written(_redacted(a.text, wording.config.redact), a.usage, a.calls) for a in answers]
    failed = [i for i, w in enumerate(written) if w.text is None]
    if failed and wording.config.extractive_fallback:
        again = yield Ask(tuple(requests[i] for i in failed), tuple(limits[i] for i in failed), extractive=True)
        for i, a in zip(failed, again, strict=True):
            written[i] = replace(written[i], text=a.text, fallback=a.text is not None)
    return written


def _redacted(text: str | None, redact: Callable[[str], str] | None) -> str | None:
    return text if text is None or redact is None else redact(text)


def chunks(question: Question, room: int) -> list[Question]:
    """The question, or several over consecutive parts of at most `room` tokens each, cut at message boundaries.

    Only a message that is larger than that by itself is cut inside.
    """
    if sum(question.sizes) <= room:
        return [question]
    groups: list[list[tuple[str, int]]] = [[]]
    used = 0
    for part, size in _pieces(question, room):
        if used + size > room and groups[-1]:
            groups.append([])
            used = 0
        groups[-1].append((part, size))
        used += size
    total = sum(question.sizes)
    return [
        Question(
            question.purpose,
            tuple(part for part, _ in group),
            max(_LEAST_TARGET, question.target_tokens * sum(size for _, size in group) // total),
            tuple(size for _, size in group),
        )
        for group in groups
    ]


def _pieces(question: Question, room: int) -> Generator[tuple[str, int], None, None]:
    """The parts with their tokens, those that are larger than `room` in several."""
    for part, size in zip(question.parts, question.sizes, strict=True):
        if size <= room:
            yield part, size
            continue
        step = max(1, len(part) * room // size)
        for start in range(0, len(part), step):
            piece = part[start : start + step]
            yield piece, min(room, max(1, size * len(piece) // len(part)))
