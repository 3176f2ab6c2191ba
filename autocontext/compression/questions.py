"""Turns questions into texts: makes requests, splits transcripts that are too long for one, merges, falls back.

A generator like the engine, of which it is a part: it yields Ask and is sent Answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from autocontext.config import AutoContextConfig
from autocontext.history.proposals import Question
from autocontext.plan import PlanLike
from autocontext.requests import Answer, ModelRequest, Usage
from autocontext.text import rendering

_LEAST_TARGET = 64
"""Tokens; a shorter summary of a chunk says nothing."""
_OF_A_CHUNK = 2 / 3
"""Largest summary of a chunk, as a share of it: each merge must get shorter, whatever the model answers."""
_OF_THE_MEAN = 1 / 4
"""A small chunk, such as the last one, may have a summary of this share of the mean chunk. Together, the summaries stay
shorter than the whole, as both shares add up to less than 1."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Questions to be put to the model at the same time."""

    requests: tuple[ModelRequest, ...]
    limits: tuple[int, ...]
    """Characters that each answer must stay under: what it is to replace."""
    extractive: bool = False
    """The model has failed on these: let the extractive summariser answer."""
    meanwhile: Callable[[], object] | None = None
    """Work that may be done in any thread while the model writes; the pass does later what is not done then."""


Asking: TypeAlias = Generator[Ask, "list[Answer]", "list[SummaryResult]"]


class SummaryResult(Answer):
    """The result of one question; `problem` is that of any part of it."""

    fallback: bool = False
    """Whether any part of the text was written without the model."""


@dataclass(frozen=True, slots=True)
class RequestBuilder:
    """How questions become requests in this pass."""

    config: AutoContextConfig
    language: str
    plan: PlanLike | None
    meanwhile: Callable[[], object] | None = None
    focus: str = ""

    def request(self, question: Question) -> ModelRequest:
        """The request for one question, redacted if the configuration says so."""
        request = rendering.request(
            question.purpose,
            question.parts,
            self.config.prompts,
            language=self.language,
            plan=self.plan,
            target_tokens=question.target_tokens,
            focus=self.focus,
        )
        if self.config.redact is None:
            return request
        return request.model_copy(update={"prompt": self.redacted(request.prompt)})

    def redacted(self, text: str | None) -> str | None:
        """A text as the hook leaves it."""
        return text if text is None or self.config.redact is None else self.config.redact(text)

    def cuttable(self, question: Question) -> Question:
        """The question, redacted before it is cut: the halves of a secret would not be recognized."""
        if self.config.redact is None or sum(question.sizes) <= self.room:
            return question
        return replace(question, parts=tuple(map(self.config.redact, question.parts)))

    @property
    def room(self) -> int:
        """Tokens of transcript that one request may hold."""
        return self.config.summary_max_input_tokens or max(1, self.config.max_token // 2)


def write(questions: Sequence[Question], builder: RequestBuilder) -> Asking:
    """One SummaryResult per question, in order; everything that can be asked at the same time is."""
    chunked = [chunks(builder.cuttable(q), builder.room) for q in questions]
    limits = [limit for cs in chunked for limit in _limits(cs)]
    parts = yield from _ask([c for cs in chunked for c in cs], limits, builder)
    at = 0
    results: list[SummaryResult] = []
    to_merge: list[int] = []
    for i, cs in enumerate(chunked):
        own, at = parts[at : at + len(cs)], at + len(cs)
        results.append(_joined_results(own))
        if len(cs) > 1 and _size(results[i].text or "") > questions[i].target_tokens:
            to_merge.append(i)
    if to_merge:
        merges = [_merge(questions[i], results[i], builder.room) for i in to_merge]
        for i, merged in zip(to_merge, (yield from write(merges, builder)), strict=True):
            results[i] = _joined_results([results[i], merged]).model_copy(update={"text": merged.text})
    return results


def _limits(asked: Sequence[Question]) -> list[int]:
    """Characters that the answer to each chunk of one question must stay under."""
    sizes = [sum(map(len, q.parts)) + len(q.parts) for q in asked]
    if len(asked) == 1:
        return [max(sizes[0], asked[0].characters)]
    least = sum(sizes) / len(sizes) * _OF_THE_MEAN
    return [int(max(size * _OF_A_CHUNK, least)) for size in sizes]


def _joined_results(parts: Sequence[SummaryResult]) -> SummaryResult:
    """Several partial texts as one, with what all used; no text when one of them is missing."""
    texts = [p.text for p in parts if p.text is not None]
    return SummaryResult(
        text="\n".join(dict.fromkeys(filter(None, texts))) if len(texts) == len(parts) else None,
        problem=next((p.problem for p in parts if p.problem), ""),
        usage=sum((p.usage for p in parts), Usage()),
        calls=sum(p.calls for p in parts),
        fallback=any(p.fallback for p in parts),
    )


def _merge(question: Question, partial: SummaryResult, room: int) -> Question:
    """The question that joins partial summaries; each is cut so that merging gets shorter every time."""
    text = partial.text or ""
    size = _size(text)
    target = min(question.target_tokens, max(_LEAST_TARGET, min(size, room) // 2))
    otherwise = None if question.otherwise is None else text
    return Question("merge", (text,), target, (size,), otherwise)


def _size(text: str) -> int:
    """Tokens of a text, estimated."""
    return max(1, len(text.encode("utf-8", "replace")) // 4)


def _ask(questions: Sequence[Question], limits: Sequence[int], builder: RequestBuilder) -> Asking:
    """Put questions to the model; those it fails on to the extractive summariser, if that is wanted."""
    requests = tuple(builder.request(q) for q in questions)
    answers = yield Ask(requests, tuple(limits), meanwhile=builder.meanwhile)
    results = [SummaryResult(**{**dict(a), "text": builder.redacted(a.text)}) for a in answers]
    for i, q in enumerate(questions):
        if results[i].text is None and q.otherwise is not None:
            results[i] = results[i].model_copy(update={"text": q.otherwise, "fallback": True})
    failed = [i for i, w in enumerate(results) if w.text is None]
    if failed and builder.config.extractive_fallback:
        fallbacks = yield Ask(tuple(requests[i] for i in failed), tuple(limits[i] for i in failed), extractive=True)
        for i, a in zip(failed, fallbacks, strict=True):
            text = builder.redacted(a.text)
            results[i] = results[i].model_copy(update={"text": text, "fallback": a.text is not None})
    return results


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
            _chunk_target(question.target_tokens, sum(size for _, size in group), total),
            tuple(size for _, size in group),
            question.otherwise if group is groups[0] or question.otherwise is None else "",
        )
        for group in groups
    ]


def _chunk_target(target: int, size: int, total: int) -> int:
    """Tokens to ask for of a chunk: its share of the whole, not too little, and never more than half of it."""
    return max(1, min(max(_LEAST_TARGET, target * size // total), size // 2))


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
