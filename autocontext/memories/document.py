"""The memory.json document: read tolerantly, and worded for a model."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autocontext.memories.records import MOST_LABEL
from autocontext.memories.relevance import coerced_confidence
from autocontext.text.rendering import escaped

CATEGORIES = ("preference", "knowledge", "context", "behavior", "goal", "correction")
"""The usual categories; others are allowed."""
SECTIONS = {
    "user": ("User Context", {"workContext": "Work", "personalContext": "Personal", "topOfMind": "Current Focus"}),
    "history": ("History", {"recentMonths": "Recent", "earlierContext": "Earlier", "longTermBackground": "Background"}),
}
"""For each key of the document its heading and the labels of its sections."""

_IN_LABEL = str.maketrans("[]|", "()/")
_BREAKS = re.compile(r"(?<!\s)\s*[\r\n\v\f\x85\u2028\u2029]\s*")


@dataclass(frozen=True)
class Fact:
    """One fact of a document, with the fields that a prompt shows."""

    id: str
    content: str
    category: str
    confidence: float
    source_error: str

    @property
    def line(self) -> str:
        """The fact's line in the block."""
        return self.worded(self.content)

    def worded(self, content: str) -> str:
        """The fact's line with another content."""
        avoid = f" (avoid: {_plain(self.source_error)})" if self.source_error and self.category == "correction" else ""
        return f"- [{_label(self.category)} | {self.confidence:.2f}] {_plain(content)}{avoid}"


def facts_of(document: Mapping[str, Any]) -> Iterator[Fact]:
    """The facts of a document; entries without text are skipped."""
    entries = document.get("facts")
    for place, entry in enumerate(entries if isinstance(entries, list | tuple) else ()):
        content = object_of(entry).get("content")
        if not isinstance(content, str) or not content.strip():
            continue
        category, error, confidence = entry.get("category"), entry.get("sourceError"), entry.get("confidence")
        yield Fact(
            str(entry.get("id") or f"#{place}"),
            content.strip(),
            (category.strip() if isinstance(category, str) else "") or "context",
            coerced_confidence(confidence),
            error.strip() if isinstance(error, str) else "",
        )


def sections_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The text of each section that is not empty, by heading."""
    sections: dict[str, str] = {}
    for key, name, text, _ in summaries_of(document):
        heading, labels = SECTIONS[key]
        sections[heading] = f"{sections.get(heading, f'{heading}:')}\n- {labels[name]}: {_plain(text)}"
    return sections


def summaries_of(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
    """The summaries that are not empty: key, name and text, and when it was updated, as the document says it."""
    for key, (_, labels) in SECTIONS.items():
        for name in labels:
            entry = object_of(document.get(key)).get(name)
            text, at = (entry.get("summary"), entry.get("updatedAt")) if isinstance(entry, Mapping) else (entry, None)
            if isinstance(text, str) and text.strip():
                yield key, name, text.strip(), at


def object_of(value: Any) -> Mapping[str, Any]:
    """An object of a document; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def _label(category: str) -> str:
    """A category without the signs that end its label, and not longer than those of a store."""
    return _plain(category[:MOST_LABEL]).translate(_IN_LABEL)


def _plain(text: str) -> str:
    """On one line and escaped, so that stored text can neither close the block nor forge or hide a line in it."""
    return html.escape(text if text.isprintable() else escaped(_BREAKS.sub(" ", text)), quote=False)
