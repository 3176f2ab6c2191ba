"""What of a message is sent to a chat model: the texts that are tokenized, and fixed tokens for what is around them.

Sources: OpenAI's cookbook "How to count tokens with tiktoken" for messages and names; for calls, OpenAI's published
harmony format, which puts a call's name and arguments, not its id, between five special tokens and words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from autocontext.messages import WIRE_HINTS, Msg, OutputBlock, ToolUseBlock
from autocontext.tokens.media import media_tokens

TOKENS_PER_MESSAGE = 4
"""The three tokens that delimit a message, and its role, which is one token in every vocabulary here."""
TOKENS_PER_NAME = 1
"""A participant's name costs its text and this separator; a name that only repeats the role is not sent."""
TOKENS_PER_TOOL_CALL = 4
"""What marks a call and parts its name from its arguments."""
TOKENS_PER_FURTHER_TEXT = 1
"""The newline that joins a text part to the one before it."""


def sent(msg: Msg) -> tuple[int, list[str]]:
    """Fixed tokens and the texts of one message.

    Every tool result is a message of its own on the wire, so each has the overhead of one. Ids and metadata are not
    counted: no prompt shows them. Thinking is counted, as the providers that take it back do.
    """
    fixed = results = spoken = 0
    texts: list[str] = []
    if msg.name != msg.role:
        fixed += TOKENS_PER_NAME
        texts.append(msg.name)
    # By type, not by class: this is done once for every message added, and pydantic's isinstance is slow.
    for block in msg.content:
        if block.type == "text":
            spoken += 1
            texts.append(block.text)
        elif block.type == "tool_use":
            fixed += TOKENS_PER_TOOL_CALL
            texts += (block.name, arguments_json(block))
        elif block.type == "tool_result":
            results += 1
            if isinstance(block.output, str):
                texts.append(block.output)
            else:
                extra, result_texts = _output(block.output)
                fixed += extra
                texts += result_texts
        elif block.type == "thinking":
            spoken += 1
            texts.append(block.thinking)
        else:
            fixed += media_tokens(block)
    # Blocks beside results, or no block at all: the message itself goes out, too.
    envelopes = results + (results < len(msg.content) or not results)
    return fixed + TOKENS_PER_MESSAGE * envelopes + TOKENS_PER_FURTHER_TEXT * max(0, spoken - 1), texts


def _output(blocks: Iterable[OutputBlock]) -> tuple[int, list[str]]:
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
"""One encoder for all: `json.dumps` makes a new one for every call that names an option."""


def arguments_json(block: ToolUseBlock) -> str:
    """A call's arguments as the JSON text that is sent: as an adapter found them written, if it says so."""
    written = block.metadata.get(WIRE_HINTS)
    if not isinstance(written, dict):
        return _json(block.input)
    if isinstance(written.get("raw"), str):
        return str(written["raw"])
    style = str(written.get("style"))
    separators = (",", ":") if "compact" in style else None
    return json.dumps(block.input, ensure_ascii="ascii" in style, separators=separators)
