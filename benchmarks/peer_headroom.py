"""headroom as a policy: it makes each message smaller, before each call, and drops none.

`compress()` as its documentation calls it, with the window as `model_limit`; its small text model is switched off,
since that would be downloaded. Everything that it rewrites by rules is done. What does not fit even so is over the
window: an agent needs something else beside it.
As it advises for loops, what went into the last call stays as it was sent, which keeps the prompt cache.
Tuned: the words of the user and the newest messages are made smaller too, and messages from 50 tokens on.
Where it leaves a marker, its tool `headroom_retrieve` brings the original back.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from typing import Any

from chat import Chat, Tokens, content_text

os.environ.setdefault("HEADROOM_OFFLINE", "1")
os.environ.setdefault("HEADROOM_TELEMETRY", "off")

from headroom import compress
from headroom.cache.compression_store import get_compression_store

REQUIRES = ("headroom-ai>=0.42",)
POLICIES = {
    "headroom": "Headroom",
    "headroom, tuned": "HeadroomTuned",
}

logging.getLogger("headroom").setLevel(logging.CRITICAL)
_MODEL = "claude-sonnet-4-5-20250929"
"""Its default: counted by estimate. For OpenAI's models it would download a vocabulary."""
_HASH = re.compile(r"\b[0-9a-f]{12,64}\b")


class Headroom:
    """The history, compressed before each call; what was in the last call is not touched again."""

    options: dict[str, Any] = {}  # noqa: RUF012 (read only)

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count = window, count
        self.messages: list[Chat] = []

    def step(self, new: list[Chat]) -> list[Chat]:
        self.messages += new
        result = compress(
            self.messages,
            model=_MODEL,
            model_limit=self.window,
            kompress_model="disabled",
            frozen_message_count=len(self.messages) - len(new),
            **self.options,
        )
        self.messages = [a if a == b else b for a, b in zip(self.messages, result.messages, strict=True)]
        return list(self.messages)

    def reachable(self) -> Iterator[str]:
        """The originals behind the markers."""
        store = get_compression_store()
        for hash_ in dict.fromkeys(_HASH.findall("\n".join(map(content_text, self.messages)))):
            if (entry := store.retrieve(hash_)) is not None:
                yield entry.original_content


class HeadroomTuned(Headroom):
    """More is made smaller."""

    options = {  # noqa: RUF012 (read only)
        "compress_user_messages": True,
        "protect_recent": 0,
        "min_tokens_to_compress": 50,
    }
