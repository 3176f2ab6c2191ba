"""Summaries without a model: the most important sentences and lines of a transcript, word for word.

Nothing leaves the process, nothing is invented, and equal requests give equal texts.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping

from autocontext.models.salience import centrality, identifiers, is_decision, is_error, numbers
from autocontext.models.sections import Kind, Unit, sections, units
from autocontext.requests import ModelReply, ModelRequest, Usage
from autocontext.text.rendering import cut, unfence
from autocontext.tokens import TokenCounter, get_counter

_SHARE_WITHOUT_LIMIT = 0.3
_SHARE_WITH_LIMIT = 0.5
"""Half of a short transcript at most, as the gate refuses a note as long as its source."""
_SMALL = 32
"""Tokens; up to this limit bytes are counted, an upper bound, as an estimate's error would be too large."""

_MISSES = 40
"""After so many units that did not fit, hardly any other will."""
_WIDEST = 32
"""Most characters of a token."""

# Weights of speakers, by purpose.
_WEIGHTS: Mapping[str, Mapping[Kind, float]] = {
    "tool_run": {"call": 4.0, "user": 1.5, "assistant": 1.2, "thinking": 0.5},
    "current_round": {"call": 4.0, "user": 2.0, "assistant": 1.5, "thinking": 0.6},
    "round_summary": {"call": 1.6, "user": 3.0, "assistant": 2.0, "thinking": 0.5, "result": 0.7},
}
_DIGITS = re.compile(r"\d+")


class ExtractiveModel:
    """The summariser that needs no network and no model: about 1 MB of transcript a second.

    Prefers calls with their outcomes (if the purpose is about tools) and sentences with errors, decisions, numbers and
    identifiers, then the most central ones, as many as `max_output_tokens` allows, in their order. `counter` (a
    TokenCounter, or a name for `get_counter`) measures that limit; None estimates on the high side of o200k_base,
    cl100k_base and Qwen, without loading a vocabulary. `usage` holds counted or estimated tokens.
    """

    def __init__(self, *, counter: TokenCounter | str | None = None) -> None:
        self._counter = None if counter is None else get_counter(counter)

    def __repr__(self) -> str:
        return f"ExtractiveModel(counter={self._counter.name!r})" if self._counter else "ExtractiveModel()"

    def complete(self, request: ModelRequest) -> ModelReply:
        """A note of the transcript in the request; never empty, never raises."""
        start = time.perf_counter()
        transcript = unfence(request.prompt).strip()
        size = self._size(transcript)
        share = _SHARE_WITHOUT_LIMIT if request.max_output_tokens is None else _SHARE_WITH_LIMIT
        limit = max(_SMALL * 2, int(size * share))
        if request.max_output_tokens is not None:
            limit = max(1, min(limit, request.max_output_tokens))
        text = _note(transcript, request.purpose, limit, self._measure(limit))
        usage = Usage(
            input_tokens=self._size(request.system) + self._size(request.prompt),
            output_tokens=self._size(text),
            seconds=time.perf_counter() - start,
        )
        return ModelReply(text=text, usage=usage)

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """As `complete`, in a thread."""
        return await asyncio.to_thread(self.complete, request)

    def _size(self, text: str) -> int:
        return self._counter.count_text(text) if self._counter else (_utf8_bytes(text) + 3) // 4

    def _measure(self, limit: int) -> Callable[[str], int]:
        if self._counter:
            return self._counter.count_text
        return _utf8_bytes if limit <= _SMALL else high_estimate


def _note(transcript: str, purpose: str, limit: int, measure: Callable[[str], int]) -> str:
    if not transcript:
        return "(no text)"
    if len(transcript) <= _WIDEST * limit and measure(transcript) <= limit:
        return transcript
    parts = sections(transcript)
    calls = sum(section.kind == "call" for section in parts)
    # Characters for a call's arguments, and as many for its outcome, at three characters a token.
    room = max(40, min(240, limit * 3 // max(1, calls) // 2))
    candidates = units(parts, arguments_length=room, with_ids=purpose == "current_round")
    _score(candidates, purpose)

    def fits(text: str) -> bool:
        return len(text) < len(transcript) and measure(text) <= limit

    selection = _choose(candidates, limit, measure)
    while selection:
        text = _render(selection)
        if fits(text):
            return text
        selection.remove(min(selection, key=lambda unit: (unit.must, unit.score)))
    best = max(candidates, key=lambda unit: unit.score).text if candidates else transcript[: _WIDEST * limit]
    return _clip(best, limit, measure)


def _score(candidates: list[Unit], purpose: str) -> None:
    """Score each unit, and mark those that must stay."""
    weights = _WEIGHTS.get(purpose, {})
    speech = [unit for unit in candidates if unit.section.kind in ("user", "assistant", "text")]
    edges = {id(unit) for unit in (*speech[:2], *speech[-2:])}
    answer = speech[-1].section if speech else None
    for unit, central in zip(candidates, centrality([unit.text for unit in candidates]), strict=True):
        kind, names = unit.section.kind, identifiers(unit.text)
        unit.values = names | numbers(unit.text)
        fault = is_error(unit.text)
        decision = kind != "result" and is_decision(unit.text)
        is_call = kind == "call" and purpose in _WEIGHTS
        # The request and the answer frame a round.
        frame = purpose == "round_summary" and (kind == "user" or unit.section is answer)
        unit.must = bool(is_call or fault or decision or unit.values or frame)
        value = central + 0.3 * unit.first + 0.2 * unit.last + 0.8 * (id(unit) in edges)
        value += 0.4 * (unit.section is answer)
        value += (
            1.5 * fault + 1.2 * decision + 0.6 * bool(names) + 0.3 * bool(unit.values) + 0.1 * min(len(unit.values), 5)
        )
        unit.score = weights.get(kind, 1.0) * value
    _spread(candidates)


def _spread(candidates: list[Unit]) -> None:
    """Lower the scores of a section's further units step by step, so that one long output does not fill the note."""
    by_section: dict[int, list[Unit]] = {}
    for unit in candidates:
        by_section.setdefault(id(unit.section), []).append(unit)
    for group in by_section.values():
        for rank, unit in enumerate(sorted(group, key=lambda unit: (-unit.score, unit.order))):
            unit.score /= 1 + 0.1 * rank


def _choose(candidates: list[Unit], limit: int, measure: Callable[[str], int]) -> list[Unit]:
    """The units for a note of `limit` tokens: first those that must stay, each only if it adds something new."""
    selection: list[Unit] = []
    deferred: list[Unit] = []
    texts: set[str] = set()
    shapes: set[str] = set()
    covered: set[str] = set()
    room, misses = limit, 0
    by_score = sorted(candidates, key=lambda unit: (not unit.must, -unit.score, unit.order))
    for units_left, again in ((by_score, False), (deferred, True)):
        for unit in units_left:
            if misses > _MISSES:
                break
            shape = _DIGITS.sub("0", unit.text)
            repeats = unit.values <= covered
            if unit.text in texts or (repeats and shape in shapes):
                continue
            if repeats and unit.values and unit.section.kind != "call" and not again:
                deferred.append(unit)
                continue
            cost = measure(_line(unit) + "\n")
            if cost > room:
                misses += 1
                continue
            room -= cost
            selection.append(unit)
            texts.add(unit.text)
            shapes.add(shape)
            covered |= unit.values
    return selection


def _render(selection: list[Unit]) -> str:
    """The note: the units in order, each section's first line with a dash and its speaker."""
    lines, before = [], None
    for unit in sorted(selection, key=lambda unit: unit.order):
        source = unit.section.call or unit.section
        lines.append(f"  {unit.text}" if source is before else _line(unit))
        before = source
    return "\n".join(lines)


def _line(unit: Unit) -> str:
    section = unit.section
    if section.kind in ("call", "text"):
        return f"- {unit.text}"
    speaker = f"result of {section.name or 'a call'}" if section.kind == "result" else section.kind
    return f"- {speaker}: {unit.text}"


def _clip(text: str, limit: int, measure: Callable[[str], int]) -> str:
    """The longest beginning of a text within the limit; a dash if not even one character fits."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle]) <= limit else (low, middle - 1)
    return text[: cut(text, low)].rstrip() or "-" if low else "-"


# ------------------------------------------------------------------------------------------------------- estimate
_PIECE = re.compile(
    r"(?=(?:[A-Za-z_+-]{0,24}[0-9]{1,24}){3})[A-Za-z0-9_+-]{20,}|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|\s+|[!-/:-@\[-`{-~]+|[\u0080-\u052f]+"
    r"|[\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7af\uff00-\uffef]+|[^\x00-\u052f]|.",
    re.DOTALL,
)


def high_estimate(text: str) -> int:
    """An estimate of a text's tokens on the high side: about 1.3 times o200k_base on agents' transcripts.

    Weights fitted to 19 agent conversations: fewer than 1 % of their passages have more tokens in o200k_base.
    """
    return int(sum(map(_piece_cost, _PIECE.findall(text)))) + 1


def _piece_cost(piece: str) -> float:
    first, length = piece[0], len(piece)
    if not first.isascii():
        if first <= "\u052f":
            return 0.6 * length
        return 1.3 * length if length > 1 or "\u3000" <= first <= "\uffef" else float(_utf8_bytes(piece))
    if length >= 20 and any(c.isdigit() for c in piece):
        cost = 0.9 * length  # keys, hashes: most tokens have one or two characters
    elif first.isalpha():
        cost = 1 + max(0, length - 4) * 0.25
    elif first.isdigit():
        cost = length  # one token a digit, as in Qwen's vocabulary
    elif first.isspace():
        cost = 0.1 if piece == " " else 1 + length / 16
    else:
        cost = 1 + max(0, length - 2) * 0.4
    return cost


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
