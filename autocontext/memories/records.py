"""Memory records and their checks: one record for facts about a user and for long-term memories."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from autocontext.errors import InvalidMemory, short
from autocontext.messages import freeze
from autocontext.stores.checks import check_id, is_number, plain
from autocontext.stores.records import text_hash
from autocontext.text.normal_forms import normalized

DAY = 86_400_000
"""Milliseconds."""
MOST_CONTENT = 100_000
"""Characters of one memory; longer texts belong in the content store."""
MOST_LABEL = 100
"""Characters of a category, and of a tag."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, in milliseconds: what ISO 8601 and `datetime` can write."""


@dataclass(frozen=True)
class Memory:
    """One fact about a user. Times are milliseconds since 1970, UTC."""

    id: str
    user_id: str
    content: str
    category: str = "context"
    tags: tuple[str, ...] = ()
    importance: int = 5
    """1 to 10."""
    confidence: float = 1.0
    """0 to 1."""
    context: Any = None
    """Any JSON value: where it came up."""
    source: str | None = None
    """The id of its conversation."""
    source_error: str | None = None
    """For a correction: what was wrong."""
    created_at: int = 0
    updated_at: int = 0
    last_accessed: int = 0
    access_count: int = 0
    last_confirmed_at: int | None = None
    """When the same content was last added again."""
    confirmation_count: int = 0
    expires_at: int | None = None
    archived: str | None = None
    """Why it is archived; None while it is in use."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Further keys, such as unknown ones of a memory.json fact."""
    revision: int = 0
    """The user's change counter at the last change of this memory."""

    def in_use(self, now: int) -> bool:
        """Whether it is neither archived nor expired."""
        return self.archived is None and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True)
class ScoredMemory:
    """A search result."""

    memory: Memory
    score: float
    """0 to 1."""
    explanation: Mapping[str, float] = field(default_factory=dict)
    """The parts of the score, with `explain=True`."""


@dataclass(frozen=True)
class MemoryStats:
    """Statistics of a user's memories."""

    total_memories: int
    average_importance: float
    """Two decimals; 0.0 without memories."""
    top_tags: tuple[tuple[str, int], ...]
    """The five most used tags and how many memories have them."""


def stats_of(memories: Collection[Memory]) -> MemoryStats:
    """The statistics of these memories."""
    tags = Counter(tag for memory in memories for tag in memory.tags)
    most_used = sorted(tags.items(), key=lambda tag: (-tag[1], tag[0]))[:5]
    mean = sum(memory.importance for memory in memories) / max(1, len(memories))
    return MemoryStats(len(memories), round(mean, 2), tuple(most_used))


_NOT_IN_TAGS = re.compile(r"[^\w-]+")


def normalised_tags(
    tags: Iterable[str], *, allowed: Collection[str] = (), synonyms: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Tags in lower case with `_` for spaces and without other punctuation, each once, in their order.

    With a vocabulary (`allowed`) other tags are mapped by `synonyms` or dropped. Raises InvalidMemory for tags that are
    not strings.
    """
    unique: dict[str, None] = {}
    for tag in listed("tags", tags):
        plain = _NOT_IN_TAGS.sub("", re.sub(r"\s+", "_", normalized(tag, "NFKC").strip().lower()))
        if allowed and plain not in allowed:
            plain = (synonyms or {}).get(plain, "")
        if plain:
            unique[plain] = None
    return tuple(unique)


def listed(field: str, value: Any) -> list[str]:
    """Any iterable of strings but a string as a list. Raises InvalidMemory."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        example = f" such as [{short(value)}]" if isinstance(value, str) else ""
        raise InvalidMemory(f"{field} must be a list of strings{example} (got {short(value)})")
    texts = list(value)
    for text in texts:
        if not isinstance(text, str):
            raise InvalidMemory(f"{field} must be strings (got {short(text)})")
    return texts


def indexed_text(content: str, tags: Iterable[str]) -> str:
    """What a memory is found by."""
    return " ".join([content, *(tag.replace("_", " ") for tag in tags)])


_RAISED = re.compile("[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209f\u2150-\u215f\u2189]")
"""Powers, indices and fractions: NFKC makes 102 of 10²."""


def same_words(content: str) -> str:
    """The content without what makes no difference: case, width and white space."""
    return " ".join(normalized(_RAISED.sub(r"^\g<0>", content), "NFKC").casefold().split())


def digest_of(content: str) -> str:
    """A hash of what a content says."""
    return text_hash(same_words(content))


def storable(text: str) -> str:
    """The text without what databases refuse: half a surrogate pair, and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "")


def checked_content(content: Any) -> str:
    """The content as it is stored. Raises InvalidMemory."""
    if not isinstance(content, str):
        raise InvalidMemory(f"content must be a string (got {type(content).__name__})")
    text = storable(content).strip()
    if not text:
        raise InvalidMemory("content is empty: a memory needs text")
    if len(text) > MOST_CONTENT:
        raise InvalidMemory(
            f"content has {len(text):,} characters, a memory at most {MOST_CONTENT:,}: put the text into the content "
            "store and remember its reference"
        )
    return text


def as_number(value: Any) -> Any:
    """The number that a text of a file or a model is, "0.9"; anything else as it is."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def checked_importance(importance: Any) -> int:
    """A whole number from 1 to 10. Raises InvalidMemory."""
    if not is_number(importance) or not 1 <= importance <= 10 or importance != importance // 1:
        raise InvalidMemory(f"importance must be a whole number from 1 to 10 (got {short(importance)})")
    return int(importance)


def checked_confidence(confidence: Any) -> float:
    """A number from 0 to 1. Raises InvalidMemory."""
    if not is_number(confidence) or not 0 <= confidence <= 1:
        raise InvalidMemory(f"confidence must be a number from 0 to 1 (got {short(confidence)})")
    return float(confidence) + 0.0  # -0.0, which no database tells from 0.0, has another checksum


def checked_user(user_id: Any) -> str:
    """The owner of memories. Raises InvalidMemory: every call needs one."""
    check_id("user_id", user_id, InvalidMemory)
    if not user_id:
        raise InvalidMemory("user_id is empty: every memory belongs to a user")
    return plain(user_id)


def checked_json(name: str, value: Any) -> Any:
    """A JSON value as the store will read it back. Raises InvalidMemory naming the field."""
    try:
        stored = json.loads(json.dumps(value, allow_nan=False))
        freeze(stored)  # refuses also what this process reads, but others do not: very long numbers
    except (TypeError, ValueError, RecursionError) as e:
        raise InvalidMemory(f"{name} is not a JSON value: {e}") from None
    return stored


def checked(memory: Memory) -> Memory:
    """The memory with its fields as they are stored. Raises InvalidMemory naming a wrong field."""
    texts: dict[str, Any] = {}
    for name in ("id", "category", "source", "source_error", "archived"):
        value = getattr(memory, name)
        if value is not None or name in ("id", "category"):
            check_id(name, value, InvalidMemory)
            texts[name] = plain(value)
    texts["category"] = texts["category"].strip().lower() or "context"
    tags = normalised_tags(memory.tags)
    for name, label in (("category", texts["category"]), *(("tags", tag) for tag in tags)):
        if len(label) > MOST_LABEL:
            raise InvalidMemory(f"{name} must have at most {MOST_LABEL} characters each (got {len(label):,})")
    if not isinstance(memory.metadata, Mapping):
        raise InvalidMemory(f"metadata must be an object with string keys (got {short(memory.metadata)})")
    return replace(
        memory,
        **texts,
        user_id=checked_user(memory.user_id),
        content=checked_content(memory.content),
        tags=tags,
        importance=checked_importance(memory.importance),
        confidence=checked_confidence(memory.confidence),
        context=checked_json("context", memory.context),
        metadata=checked_json("metadata", dict(memory.metadata)),
    )


def millis(name: str, moment: datetime | float | str | None) -> int | None:
    """`checked_moment`; None stays None."""
    return None if moment is None else checked_moment(name, moment)


def checked_moment(name: str, moment: Any) -> int:
    """An aware datetime, an ISO 8601 string or milliseconds, as whole milliseconds of the years 1 to 9999.

    What is beyond them is their first or last one. Raises InvalidMemory.
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment.strip())
        except ValueError:
            raise InvalidMemory(f"{name} is not an ISO 8601 time (got {short(moment)})") from None
        # Times in memory.json may have no time zone; they mean UTC.
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise InvalidMemory(f"{name} has no time zone (got {moment!r}): use datetime.now(UTC)")
        moment = (moment - _EPOCH) // timedelta(milliseconds=1)
    if not is_number(moment) or moment in (math.inf, -math.inf):
        raise InvalidMemory(f"{name} must be a datetime, an ISO 8601 string or milliseconds (got {short(moment)})")
    return _in_calendar(round(moment))


def iso(moment: int) -> str:
    """Milliseconds in the time format of memory.json; what is beyond the year 9999 is its end."""
    at = _EPOCH + timedelta(milliseconds=_in_calendar(moment))
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _in_calendar(moment: int) -> int:
    return max(_FIRST, min(moment, _LAST))


def dynamic_importance(memory: Memory, now: int) -> float:
    """Importance adjusted for use, age and confidence, 1 to 10.

    base + max(0, (30 - days) / 30) * 0.2 + min(0.3, 0.05 * accesses) + (confidence - 0.5) * 0.2
    """
    days = max(0, now - memory.created_at) / DAY
    fresh = max(0.0, (30 - days) / 30) * 0.2
    used = min(0.3, 0.05 * memory.access_count)
    return min(10.0, max(1.0, memory.importance + fresh + used + (memory.confidence - 0.5) * 0.2))


def recency(memory: Memory, now: int) -> float:
    """1 for 30 days after the last confirmation, then e^(-0.01 per day)."""
    days = max(0, now - (memory.last_confirmed_at or memory.created_at)) / DAY
    return 1.0 if days <= 30 else math.exp(-0.01 * (days - 30))


def retention(memory: Memory, now: int) -> float:
    """The value of keeping a memory when there are too many, 0 to 1.

    0.65 * confidence + 0.25 * freshness of its confirmation (half-life 90 days; its creation counts half)
    + 0.10 * recent use (decaying over 30 days; the first is its creation).
    """
    confirmed = memory.last_confirmed_at
    since = max(0, now - (confirmed if confirmed is not None else memory.created_at)) / DAY
    fresh = math.pow(0.5, since / 90) * (1.0 if confirmed is not None else 0.5)
    heat = math.exp(-max(0, now - memory.last_accessed) / DAY / 30)
    return 0.65 * memory.confidence + 0.25 * fresh + 0.10 * heat
