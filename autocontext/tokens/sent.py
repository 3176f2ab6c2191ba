"""What of a message is sent to a chat model: the texts that are tokenized, and fixed tokens for what is around them.

Sources: OpenAI's cookbook "How to count tokens with tiktoken" for messages and names; for calls, OpenAI's published
harmony format, which puts a call's name and arguments, not its id, between five special tokens and words.
"""

from __future__ import annotations

import json

from autocontext.messages import (
    WIRE_HINTS,
    AudioBlock,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
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
    results = msg.tool_results
    # Blocks beside results, or no block at all: the message itself goes out, too.
    envelopes = len(results) + (len(results) < len(msg.content) or not results)
    fixed = TOKENS_PER_MESSAGE * envelopes
    texts: list[str] = []
    if msg.name != msg.role:
        fixed += TOKENS_PER_NAME
        texts.append(msg.name)
    further = False
    for block in msg.content:
        if isinstance(block, ToolResultBlock):
            extra, result_texts = _result(block)
            fixed += extra
            texts += result_texts
        elif isinstance(block, ToolUseBlock):
            fixed += TOKENS_PER_TOOL_CALL
            texts += [block.name, arguments_json(block)]
        elif isinstance(block, ImageBlock | AudioBlock | VideoBlock):
            fixed += media_tokens(block)
        else:
            fixed += TOKENS_PER_FURTHER_TEXT if further else 0
            further = True
            texts.append(block.text if isinstance(block, TextBlock) else block.thinking)
    return fixed, texts


def _result(block: ToolResultBlock) -> tuple[int, list[str]]:
    if isinstance(block.output, str):
        return 0, [block.output]
    texts = [
        b.text if isinstance(b, TextBlock) else b.thinking
        for b in block.output
        if isinstance(b, TextBlock | ThinkingBlock)
    ]
    media = sum(media_tokens(b) for b in block.output if isinstance(b, ImageBlock | AudioBlock | VideoBlock))
    return media + TOKENS_PER_FURTHER_TEXT * max(0, len(texts) - 1), texts


def arguments_json(block: ToolUseBlock) -> str:
    """A call's arguments as the JSON text that is sent: as an adapter found them written, if it says so."""
    written = block.metadata.get(WIRE_HINTS)
    if not isinstance(written, dict):
        return json.dumps(block.input, ensure_ascii=False)
    if isinstance(written.get("raw"), str):
        return str(written["raw"])
    style = str(written.get("style"))
    separators = (",", ":") if "compact" in style else None
    return json.dumps(block.input, ensure_ascii="ascii" in style, separators=separators)
