"""What matters for the user's latest input: entries of the memory context, made by naming messages, not by copying."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autocontext.messages import Msg, freeze, is_user_turn
from autocontext.optimizer.state import SessionState, StateConfig
from autocontext.optimizer.summary import is_summary
from autocontext.ranking import RelevanceRanker, default_ranker
from autocontext.text.failures import is_failure

FOCUS, TOOLS, PREFERENCES, HISTORY = "focus", "tool_results", "user_preferences", "conversation_history"
OWN_SOURCES = frozenset({FOCUS, TOOLS, PREFERENCES, HISTORY})
_FOCUS_SCORE, _TOOL_SCORE, _PREFERENCE_SCORE = 0.8, 0.6, 0.7
_MOST_TOOLS, _MOST_PREFERENCES = 5, 3
_DETAILED, _CONCISE = 100, 50
"""Characters a user writes on average, from which on and up to which."""
_SAME = 100
"""Characters by which two entries are taken for the same."""
_FORMAL = re.compile(r"\b(?:please|thank you|would you|could you)\b", re.IGNORECASE)
_CASUAL = re.compile(r"\b(?:hey|hi|thanks|cool|awesome)\b", re.IGNORECASE)
_TYPE_SCORES = {"user": 1.0, "assistant": 0.8, "memory": 0.7, "ltm": 0.7, "tool": 0.6, "rag": 0.6, "system": 0.5}


class ContextSelector:
    """Chooses the memory context out of four sources, and merges it with what is there from others."""

    def __init__(
        self, config: StateConfig | None = None, *, ranker: Callable[[], RelevanceRanker] = default_ranker
    ) -> None:
        self.config = config or StateConfig()
        self._ranker = ranker

    def optimize_memory_context(self, state: SessionState, user_input: str | None = None) -> list[Any]:
        """The memory context for this input (default: the state's own), best first, at most as many as configured.

        Entries made here earlier are renewed; entries of other sources stay and are ranked with them, pinned ones
        first. An entry names its messages by `message_ids`.
        """
        wanted = state.user_input if user_input is None else user_input
        foreign = [item for item in state.memory_context if not _is_own(item)]
        own = [
            *self._relevant(state.messages, wanted),
            *_focus(state.focus),
            *_tool_results(state.messages),
            *_preferences(state.messages),
        ]
        return self.limited([*foreign, *map(freeze, own)], wanted)

    def limited(self, items: Sequence[Any], wanted: str) -> list[Any]:
        """Pinned entries first, then by relevance; without duplicates, cut to the configured number."""
        ranked = sorted(enumerate(items), key=lambda e: (not _pinned(e[1]), -_score(e[1], e[0], wanted)))
        kept: list[Any] = []
        seen: set[str] = set()
        for _, item in ranked:
            text = _text(item)[:_SAME].lower()
            if text in seen and not _pinned(item):
                continue
            seen.add(text)
            kept.append(item)
        return kept[: self.config.max_memory_context_size]

    def _relevant(self, messages: Sequence[Msg], wanted: str) -> list[dict[str, Any]]:
        """Messages that have to do with the input."""
        if not wanted.strip() or not self.config.max_relevant:
            return []
        ranker = self._ranker()
        spoken = [m for m in messages if m.role in ("user", "assistant") and m.text.strip() and not is_summary(m)]
        if spoken and spoken[-1].role == "user" and spoken[-1].text.strip() == wanted.strip():
            spoken = spoken[:-1]  # the input itself
        for i, m in enumerate(spoken):
            ranker.update(str(i), m.text)
        scores = ranker.scores(wanted)
        found = [(scores[str(i)], i) for i in range(len(spoken)) if scores[str(i)] > self.config.relevance_threshold]
        best = sorted(found, key=lambda f: (-f[0], -f[1]))[: self.config.max_relevant]
        return [
            {
                "role": "context",
                "source": HISTORY,
                "relevance_score": round(score, 4),
                "message_ids": [spoken[i].id],
                "original_role": spoken[i].role,
                "timestamp": spoken[i].timestamp,
            }
            for score, i in best
        ]


def selection_of(state: SessionState, messages: Sequence[Msg]) -> str:
    """What the memory context of a state is chosen for: the same as long as input, focus and newest message are."""
    parts = [state.user_input, *state.focus, messages[-1].id if messages else ""]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def with_refs(items: Sequence[Any], refs: Mapping[str, str]) -> list[Any]:
    """The entries, with the handle of those messages that are out of the history now."""
    made = []
    for item in items:
        found = sorted({refs[i] for i in item.get("message_ids", ()) if i in refs}) if isinstance(item, dict) else []
        made.append(freeze({**item, "content_refs": found}) if found and _is_own(item) else item)
    return made


def _is_own(item: Any) -> bool:
    return isinstance(item, dict) and item.get("source") in OWN_SOURCES and item.get("role") == "context"


def _pinned(item: Any) -> bool:
    return isinstance(item, dict) and item.get("pinned") is True


def _text(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    ids = item.get("message_ids")
    return str(item.get("content", "")) or (f"{item.get('source')} {list(ids)}" if ids else repr(dict(item)))


def _score(item: Any, position: int, wanted: str) -> float:
    """An entry's own relevance; without one, 0.7 for recency and 0.3 for its kind, as the original scored."""
    if isinstance(item, dict):
        score = item.get("relevance_score")
        if isinstance(score, int | float) and not isinstance(score, bool):
            return float(score)
    kind = str(item.get("role", item.get("type", ""))) if isinstance(item, dict) else ""
    about = _TYPE_SCORES.get(kind, 0.5)
    if wanted.strip() and wanted.strip().lower() in _text(item).lower():
        about = min(1.0, about + 0.2)
    return 0.7 / (position + 1) + 0.3 * about


def _focus(focus: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"role": "context", "source": FOCUS, "relevance_score": _FOCUS_SCORE, "content": f"Current focus: {text}"}
        for text in focus
        if text.strip()
    ]


def _tool_results(messages: Sequence[Msg]) -> list[dict[str, Any]]:
    """The latest successful result of each tool, by name."""
    names: dict[str, str] = {}
    latest: dict[str, str] = {}
    for m in messages:
        names.update((use.id, use.name) for use in m.tool_uses)
        for result in m.tool_results:
            tool = result.name or names.get(result.id, "")
            if tool and not is_failure(result):
                latest.pop(tool, None)
                latest[tool] = m.id
    return [
        {
            "role": "context",
            "source": TOOLS,
            "relevance_score": _TOOL_SCORE,
            "content": f"Latest result of {tool}",
            "message_ids": [id_],
        }
        for tool, id_ in list(latest.items())[::-1][:_MOST_TOOLS]
    ]


def _preferences(messages: Sequence[Msg]) -> list[dict[str, Any]]:
    """What can be told of how the user likes to be answered; nothing before the second message."""
    texts = [m.text for m in messages if is_user_turn(m) and m.text.strip()]
    if len(texts) < 2:
        return []
    found: list[tuple[str, float]] = []
    average = sum(map(len, texts)) / len(texts)
    if average > _DETAILED or average < _CONCISE:
        found.append((f"User prefers {'detailed' if average > _DETAILED else 'concise'} communication", 0.8))
    tools = Counter(tool.lower() for text in texts for tool in re.findall(r"\b\w+_tool\b", text))
    if tools:
        found.append((f"User often asks for {tools.most_common(1)[0][0]}", 0.7))
    formal, casual = (sum(len(p.findall(text)) for text in texts) for p in (_FORMAL, _CASUAL))
    if formal != casual:
        found.append((f"User writes in a {'formal' if formal > casual else 'casual'} style", 0.7))
    return [
        {
            "role": "context",
            "source": PREFERENCES,
            "relevance_score": _PREFERENCE_SCORE,
            "content": text,
            "confidence": confidence,
        }
        for text, confidence in found[:_MOST_PREFERENCES]
    ]
