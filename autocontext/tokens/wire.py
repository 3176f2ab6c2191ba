"""What a chat model receives of a message: the texts to tokenize, and fixed tokens of overhead.

Sources: OpenAI's cookbook "How to count tokens with tiktoken" for messages and names; for calls, OpenAI's published
harmony format, which puts a call's name and arguments, not its id, between five special tokens and words.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autocontext.messages import ANTHROPIC_HINTS, ENCRYPTED, FILE, WIRE_HINTS, Msg, OutputBlock, ToolUseBlock
from autocontext.tokens.media import media_tokens

TOKENS_PER_MESSAGE = 4
"""The three tokens that delimit a message, and its role, which is one token in every vocabulary here."""
TOKENS_PER_NAME = 1
"""A participant's name costs its text and this separator; a name that only repeats the role is not sent."""
TOKENS_PER_TOOL_CALL = 4
"""Marks a call and separates its name from its arguments."""
TOKENS_PER_FURTHER_TEXT = 1
"""The newline between two text parts."""
_ENCRYPTED_CHARACTERS_PER_TOKEN = 16 / 3
"""Encrypted content is base64, four characters for three bytes, and four bytes are about a token of what it hides. The
cipher's own overhead counts along: an estimate that is rather too high."""


def wire_texts(msg: Msg) -> tuple[int, list[str]]:
    """Fixed tokens and the texts of one message.

    Every tool result is sent as a message of its own and has its overhead. Ids and metadata do not count: prompts do
    not contain them. Thinking counts, as with the providers that accept it; encrypted content by its length.
    """
    results = 0
    fixed, texts = (TOKENS_PER_NAME, [msg.name]) if msg.name != msg.role else (0, [])
    own: list[OutputBlock] = []
    shown: list[Sequence[OutputBlock]] = [own]
    """The blocks of the message itself, and of each result that has some."""
    # Compares types: this runs for every message added, and isinstance is slow on pydantic models.
    for block in msg.content:
        if block.metadata:
            fixed += _carried(block.metadata)
        if block.type == "tool_use":
            fixed += TOKENS_PER_TOOL_CALL
            texts += (block.name, _arguments_json(block))
        elif block.type == "tool_result":
            results += 1
            if isinstance(block.output, str):
                texts.append(block.output)
            else:
                shown.append(block.output)
        elif block.type != "text" or ENCRYPTED not in block.metadata:  # whose text only says what stands here
            own.append(block)
    for extra, said in map(_shown, shown):
        fixed += extra
        texts += said
    # With blocks besides results, or without any block, the message itself is sent, too.
    envelopes = results + (results < len(msg.content) or not results)
    return fixed + TOKENS_PER_MESSAGE * envelopes, texts


def _carried(metadata: Mapping[str, Any]) -> int:
    """Tokens of what a block carries along: encrypted content, or an image that the provider made."""
    sealed = metadata.get(ENCRYPTED, 0) + _sealed(metadata.get(ANTHROPIC_HINTS))
    tokens: int = math.ceil(sealed / _ENCRYPTED_CHARACTERS_PER_TOKEN)
    return tokens + int(metadata[FILE].get("tokens", 0) if FILE in metadata else 0)


def _sealed(hints: Any) -> int:
    """Characters that only Claude can read in a block of its own: thinking, or what a search of the web has found."""
    whole = hints.get("whole") if isinstance(hints, Mapping) else None
    if not isinstance(whole, Mapping):
        return 0
    if whole.get("type") == "redacted_thinking":
        return _length(whole.get("data"))
    content = whole.get("content")
    found = content if isinstance(content, list | tuple) else [content]
    items = (item.items() for item in found if isinstance(item, Mapping))
    return sum(_length(value) for pairs in items for key, value in pairs if str(key).startswith("encrypted_"))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 0


def _shown(blocks: Iterable[OutputBlock]) -> tuple[int, list[str]]:
    """Fixed tokens and the texts of blocks that stand below each other."""
    texts: list[str] = []
    media = 0
    for b in blocks:
        if b.type == "text":
            texts.append(b.text)
        elif b.type == "thinking":
            texts.append(b.thinking)
        else:
            media += media_tokens(b)
    return media + TOKENS_PER_FURTHER_TEXT * max(0, len(texts) - 1), texts


_json = json.JSONEncoder(ensure_ascii=False).encode
"""Shared: `json.dumps` with an option makes a new encoder for every call."""


def _arguments_json(block: ToolUseBlock) -> str:
    """A call's arguments as JSON; in the original spelling if the adapter recorded it."""
    hints = block.metadata.get(WIRE_HINTS)
    if not isinstance(hints, dict):
        return _json(block.input)
    if isinstance(hints.get("raw"), str):
        return str(hints["raw"])
    style = str(hints.get("style"))
    separators = (",", ":") if "compact" in style else None
    return json.dumps(block.input, ensure_ascii="ascii" in style, separators=separators)
