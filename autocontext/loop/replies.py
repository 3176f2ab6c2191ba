"""A streamed reply of the chat completions API, put together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class StreamedReply:
    """Takes the chunks of one reply and gives its message."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"content": [], "reasoning_content": [], "refusal": []}
        self._calls: dict[int, dict[str, Any]] = {}

    def add(self, chunk: Any) -> Iterator[str]:
        """Take a chunk; yields the text in it that the user may read."""
        if not chunk.choices:
            return  # the last one may hold the usage alone
        delta = chunk.choices[0].delta
        for key, texts in self._texts.items():
            if text := getattr(delta, key, None):
                texts.append(text)
        for part in delta.tool_calls or ():
            call = self._calls.setdefault(part.index, {"id": "", "name": "", "arguments": []})
            call["id"] = part.id or call["id"]
            if part.function is not None:
                call["name"] = part.function.name or call["name"]
                call["arguments"].append(part.function.arguments or "")
        if delta.content:
            yield delta.content

    def message(self) -> dict[str, Any]:
        """The message, as if it had not been streamed."""
        texts = {key: "".join(texts) for key, texts in self._texts.items() if texts}
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": "".join(call["arguments"])},
            }
            for _, call in sorted(self._calls.items())
        ]
        return {"role": "assistant", "content": None, **texts, **({"tool_calls": calls} if calls else {})}
