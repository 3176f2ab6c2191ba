"""What providers have compacted themselves: as blocks, and first among what Claude is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autocontext.messages import COMPACTION, ENCRYPTED, Msg, TextBlock, compacted_by, is_pinned

UNREADABLE = "[An earlier part of this conversation, encrypted by the provider that compacted it: not readable here]"
"""What another provider reads in the place of an encrypted compaction whose originals are not known."""


def compaction_block(item: Mapping[str, Any], metadata: Mapping[str, Any]) -> TextBlock:
    """A provider's compaction: Claude's has a text, OpenAI's is encrypted; `metadata` carries it as it came.

    One without either is a compaction that failed, which Claude's API takes back and passes over.
    """
    text, encrypted = item.get("content"), item.get("encrypted_content")
    if isinstance(text, str) and text:
        return TextBlock(text=text, metadata={**metadata, COMPACTION: "anthropic"})
    if isinstance(encrypted, str) and encrypted and "content" not in item:
        return TextBlock(text=UNREADABLE, metadata={**metadata, COMPACTION: "openai", ENCRYPTED: len(encrypted)})
    return TextBlock(text="[compaction]", metadata=metadata)


def block_first(messages: Sequence[Msg]) -> list[Msg]:
    """The messages as Claude takes them if the last compaction among them is its own: it must come first.

    System messages stay before it, where they are sent apart; pinned ones and their exchanges follow it, so that the
    model reads them. What else stands before it is left out, as the API reads nothing of it.
    """
    at = next((i for i in range(len(messages) - 1, -1, -1) if compacted_by(messages[i])), -1)
    if at < 0 or compacted_by(messages[at]) != "anthropic":
        return list(messages)
    msg = messages[at]
    first = max(i for i, block in enumerate(msg.content) if COMPACTION in block.metadata)
    exchanges = _exchanges(messages[:at])
    pinned = {exchange for exchange, m in zip(exchanges, messages, strict=False) if is_pinned(m)}
    kept = [m for exchange, m in zip(exchanges, messages, strict=False) if exchange in pinned and m.role != "system"]
    head = [m for m in messages[:at] if m.role == "system"]
    if not kept:
        cut = msg.model_copy(update={"content": msg.content[first:]}) if first else msg
        return [*head, cut, *messages[at + 1 :]]
    alone = msg.model_copy(update={"id": f"{msg.id}.0", "content": (msg.content[first],)})
    rest = msg.model_copy(update={"id": f"{msg.id}.1", "content": msg.content[first + 1 :]})
    return [*head, alone, *kept, *([rest] if rest.content else []), *messages[at + 1 :]]


def _exchanges(messages: Sequence[Msg]) -> list[int]:
    """For each message the index of the first of its exchange: ids of calls may be used again in later ones."""
    first = list(range(len(messages)))
    calls: dict[str, int] = {}
    for i, m in enumerate(messages):
        for result in m.tool_results:
            first[i] = first[calls.get(result.id, i)]
        calls.update((use.id, i) for use in m.tool_uses)
    return first
