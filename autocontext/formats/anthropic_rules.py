"""What Anthropic's API demands of the messages of a request beside their fields: order, first role, marks, images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from autocontext.formats.addresses import is_base64, plain_base64
from autocontext.formats.blocks import source_of

BEGINS = "[The conversation begins with the assistant:]"
"""What stands in the user's place where the assistant speaks first, which the API refuses."""
EMPTY = "[empty message]"
"""What stands for a last message of the user that holds blanks alone, which the API refuses: speech without words."""
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def results_first(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the results of one message's calls in one message, before what else it says."""
    sent: list[dict[str, Any]] = []
    joins = False
    for message in messages:
        has_results = any(map(_is_result, blocks_of(message)))
        if has_results:
            before = sent.pop()["content"] if joins else []
            content = sorted([*before, *message["content"]], key=lambda block: not _is_result(block))
            sent.append({**message, "content": content})
        else:
            sent.append(message)
        joins = has_results
    return sent


def user_first(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages behind a line in the user's place if the assistant's stand first, compactions aside."""
    if not messages or messages[0]["role"] == "user" or any(b["type"] == "compaction" for b in blocks_of(messages[0])):
        return messages
    return [{"role": "user", "content": BEGINS}, *messages]


def keep_marks(blocks: Iterable[dict[str, Any]], most: int) -> int:
    """Take all cache marks but the newest from these blocks, and say how many are left."""
    marked = [b for block in blocks for b in (*_inner(block), block) if "cache_control" in b]
    for block in marked[: max(0, len(marked) - most)]:
        del block["cache_control"]
    return min(most, len(marked))


def blocks_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a message; none of one whose content is a text."""
    content = message["content"]
    return content if isinstance(content, list) else []


def image_taken(image: dict[str, Any]) -> dict[str, Any] | None:
    """The image as the API takes it; None where its kind or address is refused."""
    source = image["source"]
    if source.get("type") == "url":
        scheme, colon, behind = source["url"].partition(":")
        source = source_of(f"{scheme.lower()}{colon}{behind}")
    if source.get("type") == "base64":
        media_type = source["media_type"].partition(";")[0].strip().lower()  # "IMAGE/PNG;charset=utf-8" is a PNG
        media_type = "image/jpeg" if media_type == "image/jpg" else media_type  # as OpenAI takes it
        source = {**source, "media_type": media_type, "data": plain_base64(source["data"])}
        taken = media_type in _IMAGES and is_base64(source["data"])
    else:
        taken = source.get("type") != "url" or source["url"].startswith("https://")
    return {**image, "source": source} if taken else None


def _is_result(block: Mapping[str, Any]) -> bool:
    return str(block["type"]) == "tool_result"


def _inner(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The blocks in a block, at any depth and in their order: a result holds documents, whose source holds texts."""
    source = block.get("source")
    for content in (source.get("content") if isinstance(source, dict) else None, block.get("content")):
        for inner in content if isinstance(content, list) else ():
            if isinstance(inner, dict):
                yield from _inner(inner)
                yield inner
