"""Selects the memory context for the user's latest input. Entries refer to messages by id and copy no text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autocontext.messages import Msg, freeze, is_user_turn, thaw
from autocontext.optimizer.errors import judged_with_tools
from autocontext.optimizer.state import SessionState, StateConfig, as_state_config, checked_state
from autocontext.optimizer.summary import is_summary
from autocontext.ranking import RelevanceRanker, default_ranker
from autocontext.stores.checks import is_number
from autocontext.stores.records import text_hash
from autocontext.text.failures import IsFailure, is_failure

FOCUS, TOOLS, PREFERENCES, HISTORY = "focus", "tool_results", "user_preferences", "conversation_history"
OWN_SOURCES = frozenset({FOCUS, TOOLS, PREFERENCES, HISTORY})
_FOCUS_SCORE, _TOOL_SCORE, _PREFERENCE_SCORE = 0.8, 0.6, 0.7
_MOST_TOOLS = 5
_DETAILED, _CONCISE = 100, 50
"""Average characters of a user's messages: above the first they are detailed, below the second concise."""
_SAME = 100
"""Two entries of the selector are equal if this many characters are; others if they are wholly equal."""
_FORMAL = re.compile(r"\b(?:please|thank you|would you|could you)\b", re.IGNORECASE)
_CASUAL = re.compile(r"\b(?:hey|hi|thanks|cool|awesome)\b", re.IGNORECASE)
_TYPE_SCORES = {"user": 1.0, "assistant": 0.8, "memory": 0.7, "ltm": 0.7, "tool": 0.6, "rag": 0.6, "system": 0.5}


class ContextSelector:
    """Builds the memory context from four sources, and merges it with entries from elsewhere.

    `detector` decides which results are failures.
    """

    def __init__(
        self, config: StateConfig | None = None, *, ranker: Callable[[], RelevanceRanker] = default_ranker,
        detector: IsFailure = is_failure,
    ) -> None:  # fmt: skip
        self.config = as_state_config(config, type(self).__name__)
        self._ranker, self._is_failure = ranker, detector

    def optimize_memory_context(self, state: SessionState, user_input: str | None = None) -> list[Any]:
        """Return the memory context for an input (default: `state.user_input`), best first, up to the configured size.

        Earlier entries of this selector are replaced. Entries from elsewhere stay and are ranked with the new ones,
        pinned ones first. An entry refers to its messages by `message_ids`.
        """
        query = checked_state(state).user_input if user_input is None else user_input
        foreign = [item for item in state.memory_context if not _is_own(item)]
        own = [
            *self._relevant_messages(state.messages, query),
            *_focus(state.focus),
            *_tool_results(state.messages, self._is_failure),
            *_preferences(state.messages),
        ]
        return self.rank_and_limit([*foreign, *map(freeze, own)], query)

    def rank_and_limit(self, items: Sequence[Any], query: str) -> list[Any]:
        """Pinned entries first, all of them, then by relevance, without duplicates, up to the configured size."""
        ranked = sorted(enumerate(items), key=lambda e: (not _pinned(e[1]), -_score(e[1], e[0], query)))
        entries: list[Any] = []
        known: set[str] = set()
        for _, item in ranked:
            text = _text(item)[:_SAME].lower() if _is_own(item) else entry_line(item)
            if text in known and not _pinned(item):
                continue
            known.add(text)
            entries.append(item)
        return entries[: max(self.config.max_memory_context_size, sum(map(_pinned, entries)))]

    def _relevant_messages(self, messages: Sequence[Msg], query: str) -> list[dict[str, Any]]:
        """Messages relevant to the query."""
        if not query.strip() or not self.config.max_relevant:
            return []
        ranker = self._ranker()
        texts = [m for m in messages if m.role in ("user", "assistant") and m.text.strip() and not is_summary(m)]
        if texts and texts[-1].role == "user" and texts[-1].text.strip() == query.strip():
            texts = texts[:-1]  # the input itself
        for i, m in enumerate(texts):
            ranker.update(str(i), m.text)
        scores = ranker.scores(query)
        relevant = [(scores[str(i)], i) for i in range(len(texts)) if scores[str(i)] > self.config.relevance_threshold]
        best = sorted(relevant, key=lambda pair: (-pair[0], -pair[1]))[: self.config.max_relevant]
        return [
            _entry(HISTORY, round(score, 4), message_ids=[m.id], original_role=m.role, timestamp=m.timestamp)
            for score, m in ((score, texts[i]) for score, i in best)
        ]


def entry_line(item: Any) -> str:
    """An entry as a line of JSON, the same for equal ones."""
    return json.dumps(thaw(item), sort_keys=True)


def entries_from_elsewhere(items: Sequence[Any]) -> dict[str, Any]:
    """The entries that are not the selector's, by their lines."""
    return {entry_line(item): item for item in items if not _is_own(item)}


def selection_key(state: SessionState, messages: Sequence[Msg]) -> str:
    """A key for what a memory context was selected for: the input, the focus and the newest message."""
    parts = [state.user_input, *state.focus, messages[-1].id if messages else ""]
    return text_hash("\0".join(parts))[:16]


def add_content_refs(items: Sequence[Any], refs: Mapping[str, str]) -> list[Any]:
    """Add the content handles of messages that are no longer in the history."""
    entries = []
    for item in items:
        handles = sorted({refs[i] for i in item.get("message_ids", ()) if i in refs}) if _is_own(item) else []
        entries.append(freeze({**item, "content_refs": handles}) if handles else item)
    return entries


def _is_own(item: Any) -> bool:
    return isinstance(item, dict) and item.get("source") in OWN_SOURCES and item.get("role") == "context"


def _pinned(item: Any) -> bool:
    return isinstance(item, dict) and item.get("pinned") is True


def _text(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    ids = item.get("message_ids")
    return str(item.get("content", "")) or (f"{item.get('source')} {list(ids)}" if ids else repr(dict(item)))


def _score(item: Any, position: int, query: str) -> float:
    """An entry's own relevance, or else 0.7 for recency and 0.3 for its kind."""
    fields = item if isinstance(item, dict) else {}
    score = fields.get("relevance_score")
    if is_number(score):
        return score
    kind = str(fields.get("role", fields.get("type", "")))
    type_score = _TYPE_SCORES.get(kind, 0.5)
    if query.strip() and query.strip().lower() in _text(item).lower():
        type_score = min(1.0, type_score + 0.2)
    return 0.7 / (position + 1) + 0.3 * type_score


def _entry(source: str, score: float, **more: Any) -> dict[str, Any]:
    return {"role": "context", "source": source, "relevance_score": score, **more}


def _focus(focus: Sequence[str]) -> list[dict[str, Any]]:
    return [_entry(FOCUS, _FOCUS_SCORE, content=f"Current focus: {text}") for text in focus if text.strip()]


def _tool_results(messages: Sequence[Msg], failed: IsFailure) -> list[dict[str, Any]]:
    """The latest successful result of each tool, by name."""
    latest: dict[str, str] = {}
    for msg, _, tool, bad in judged_with_tools(messages, failed):
        if tool and not bad:
            latest.pop(tool, None)
            latest[tool] = msg.id
    return [
        _entry(TOOLS, _TOOL_SCORE, content=f"Latest result of {tool}", message_ids=[id_])
        for tool, id_ in list(latest.items())[::-1][:_MOST_TOOLS]
    ]


def _preferences(messages: Sequence[Msg]) -> list[dict[str, Any]]:
    """How the user seems to like answers; nothing before the second message."""
    texts = [m.text for m in messages if is_user_turn(m) and m.text.strip()]
    if len(texts) < 2:
        return []
    preferences: list[tuple[str, float]] = []
    average = sum(map(len, texts)) / len(texts)
    if average > _DETAILED or average < _CONCISE:
        preferences.append((f"User prefers {'detailed' if average > _DETAILED else 'concise'} communication", 0.8))
    tools = Counter(tool.lower() for text in texts for tool in re.findall(r"\b\w+_tool\b", text))
    if tools:
        preferences.append((f"User often asks for {tools.most_common(1)[0][0]}", 0.7))
    formal, casual = (sum(len(p.findall(text)) for text in texts) for p in (_FORMAL, _CASUAL))
    if formal != casual:
        preferences.append((f"User writes in a {'formal' if formal > casual else 'casual'} style", 0.7))
    return [_entry(PREFERENCES, _PREFERENCE_SCORE, content=text, confidence=sure) for text, sure in preferences]
