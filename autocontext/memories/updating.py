"""Apply what a model learned from a conversation to a memory.json document, by fixed rules."""

from __future__ import annotations

import copy
import json
import math
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autocontext.errors import StateError
from autocontext.memories.conversation import is_injected
from autocontext.memories.document import CATEGORIES, SECTIONS, object_of
from autocontext.memories.records import DAY, Memory, iso
from autocontext.memories.relevance import coerced_confidence
from autocontext.messages import Msg, is_final_reply, is_user_turn
from autocontext.stores.checks import is_number

_FENCE = re.compile(r"```[a-zA-Z]*(.*)```", re.DOTALL)
_SENTENCE = re.compile(r"(?:[^.!?。！？\n]|[.!?](?!\s|\Z))*(?:[.!?。！？\n]+|\Z)")
# What happened once: a service that uploads images, or a habit, is known in the next conversation as well.
_UPLOADED = re.compile(
    r"\b(?:uploaded|attached)\b|(?:\b(?:am|is|are|was|were|been)|'m|'re|'s) (?:\w+ )?(?:uploading|attaching)\b"
    r"|[已刚]上传|上传[了过的]",
    re.IGNORECASE,
)
_FILES = re.compile(r"\b(?:files?|documents?|images?|pdfs?)\b|文件|图片|文档", re.IGNORECASE)
_TRIVIAL = re.compile(
    r"(?:ok(?:ay)?|k|yes|yep|no|nope|sure|thanks?(?: you)?|thx|great|cool|nice|got it|hi|hello|hey|bye|continue|go on"
    r"|好的?|谢谢|嗯|是的?|继续|はい|ありがとう|了解)[\s.!。！~]*",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\bthat(?:'s| is) (?:wrong|not (?:right|correct|what i))|\bincorrect\b|\bno, (?:i|it|that|the|not)\b"
    r"|\bi (?:said|meant)\b|\bnot .{1,40} but\b|\byou (?:misunderstood|got (?:it|that) wrong)|\btry again\b"
    r"|不对|不是这样|错了|我的意思是|違います|そうじゃな",
    re.IGNORECASE,
)
_REINFORCEMENT = re.compile(
    r"\b(?:exactly|perfect(?:ly)?|that(?:'s| is) (?:right|it|exactly|what i)|keep (?:doing|it)|well done|love it)\b"
    r"|没错|正是|完全正确|その通り|完璧",
    re.IGNORECASE,
)
_LONG, _KEPT = 1000, 500
_LATEST = 6
_VALID_DAYS = 90


@dataclass(frozen=True)
class Learning:
    """The text for a model that updates memories, and what the user's latest messages signal."""

    text: str
    """User messages and final answers, one per line; long ones lack their middle."""
    corrected: bool
    """Whether the user corrected the agent in the last six messages."""
    reinforced: bool

    @property
    def worth_asking(self) -> bool:
        """Whether there is any text to learn from."""
        return bool(self.text)


def to_learn_from(messages: Iterable[Msg]) -> Learning:
    """User messages and final answers of a conversation, without tools, injected text, "ok" and "thanks"."""
    turns = [m for m in messages if not is_injected(m) and (is_user_turn(m) or is_final_reply(m)) and m.text.strip()]
    latest = [m.text for m in turns[-_LATEST:] if m.role == "user"]
    lines = []
    trivial = False
    for m in turns:
        text = without_uploads(m.text).strip() if m.role == "user" else m.text.strip()
        if m.role == "user":
            trivial = not text or _TRIVIAL.fullmatch(text) is not None
        if text and not trivial:
            excerpt = text if len(text) <= _LONG else f"{text[:_KEPT]}\n[...]\n{text[-_KEPT:]}"
            lines.append(f"{'User' if m.role == 'user' else 'Assistant'}: {excerpt}")
    return Learning("\n".join(lines), any(map(_CORRECTION.search, latest)), any(map(_REINFORCEMENT.search, latest)))


def parse_update(reply: str) -> dict[str, Any]:
    """The JSON object of a model's reply, with or without a code fence. Raises StateError for anything else."""
    fenced = _FENCE.fullmatch(reply.strip())
    try:
        update = json.loads(fenced[1] if fenced else reply)
    except (ValueError, RecursionError) as e:
        raise StateError(f"the reply is not JSON ({e}); the memories are unchanged") from None
    if not isinstance(update, dict):
        raise StateError("the reply is not a JSON object; the memories are unchanged")
    return update


def apply_update(
    document: Mapping[str, Any],
    update: Mapping[str, Any],
    *,
    now: int,
    source: str = "unknown",
    threshold: float = 0.7,
    max_facts: int = 100,
) -> dict[str, Any]:
    """A new document with the update applied; `document` stays unchanged.

    A section is replaced if `shouldUpdate` is true and its summary is not empty. Facts in `factsToRemove` are removed.
    A new fact needs a confidence of at least `threshold` and content that no other fact has, apart from case and outer
    spaces. An unknown category becomes "context", and sentences about uploads are removed. Beyond `max_facts`, facts
    with the highest confidence stay.
    """
    result = {**copy.deepcopy(dict(document)), "version": document.get("version", "1.0"), "lastUpdated": iso(now)}
    for key, (_, labels) in SECTIONS.items():
        section = result[key] = dict(object_of(result.get(key)))
        for name in labels:
            entry = object_of(object_of(update.get(key)).get(name))
            summary = entry.get("summary")
            if entry.get("shouldUpdate") is True and isinstance(summary, str) and without_uploads(summary).strip():
                section[name] = {"summary": without_uploads(summary).strip(), "updatedAt": iso(now)}
    removed = ids_to_remove(update)
    facts = [f for f in _list(result.get("facts")) if object_of(f) and str(f.get("id")) not in removed]
    contents = {str(f.get("content")).strip().casefold() for f in facts}
    for entry in map(object_of, _list(update.get("newFacts"))):
        content = without_uploads(str(entry.get("content") or "")).strip()
        confidence = coerced_confidence(entry.get("confidence"))
        if content and content.casefold() not in contents and confidence >= threshold:
            contents.add(content.casefold())
            facts.append(_new_fact(entry, content, confidence, source, now))
    highest = sorted(facts, key=lambda f: -coerced_confidence(f.get("confidence")))[:max_facts]
    kept_ids = {id(f) for f in highest}
    return {**result, "facts": [f for f in facts if id(f) in kept_ids]}


def ids_to_remove(update: Mapping[str, Any]) -> set[str]:
    """The ids of the facts that an update removes."""
    return {str(id_) for id_ in _list(update.get("factsToRemove"))}


def without_uploads(text: str) -> str:
    """A text without sentences that say a file was uploaded: it does not exist in the next conversation."""
    sentences = [s for s in _SENTENCE.findall(text) if not (_UPLOADED.search(s) and _FILES.search(s))]
    return "".join(sentences)


def stale(
    memories: Iterable[Memory],
    now: int,
    *,
    at_least: int = 3,
    most: int = 10,
    protected: Iterable[str] = ("correction",),
) -> list[Memory]:
    """Memories to review, oldest first: those not confirmed for 90 days; [] when there are fewer than `at_least`.

    A memory whose metadata has `expected_valid_days` is due after those days instead. Corrections and other `protected`
    categories are never due. `MemoryStore.update(id, user_id=..., archived="stale")` archives one.
    """
    exempt = frozenset(protected)
    old = [
        m
        for m in memories
        if m.category not in exempt and now - (m.last_confirmed_at or m.created_at) > _valid_days(m) * DAY
    ]
    old.sort(key=lambda m: (m.last_confirmed_at or m.created_at, m.id))
    return old[:most] if len(old) >= at_least else []


def _valid_days(memory: Memory) -> float:
    days = memory.metadata.get("expected_valid_days")
    return days if is_number(days) and 0 < days < math.inf else _VALID_DAYS


def _new_fact(entry: Mapping[str, Any], content: str, confidence: float, source: str, now: int) -> dict[str, Any]:
    category = str(entry.get("category") or "").strip().lower()
    fact = {
        "id": f"fact_{uuid.uuid4().hex[:8]}",
        "content": content,
        "category": category if category in CATEGORIES else "context",
        "confidence": confidence,
        "createdAt": iso(now),
        "source": source,
    }
    for extra in ("sourceError", "expected_valid_days"):
        if entry.get(extra):
            fact[extra] = entry[extra]
    return fact


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
