"""secondwind as a policy: it writes the results of tools in fewer tokens, none of their values lost.

`Session.rewrite` on each request, as its hook for LangGraph calls it. Its agent has the tool `resolve`, so an old
result may go to a store; yet what was sent once stays as it was sent, for the prompt cache, and a loop has sent all.
It drops no message and has no budget: what does not fit is over the window.
"""

from __future__ import annotations

from collections.abc import Iterator

import secondwind
from chat import Chat, Tokens, content_text

REQUIRES = ("secondwind>=0.5.1",)
POLICIES = {"secondwind": "Secondwind"}


class Secondwind:
    """The history stays as it is; what `rewrite` makes of it is the context."""

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count = window, count
        self.messages: list[Chat] = []
        self._shown: list[Chat] = []
        self._stored: dict[str, str] = {}
        self._session = secondwind.Session(resolver="resolve", store=self)

    def put(self, marker: str, text: str) -> bool:
        """What the session calls to keep an original."""
        self._stored[marker] = text
        return True

    def get(self, marker: str) -> str | None:
        return self._stored.get(marker)

    def step(self, new: list[Chat]) -> list[Chat]:
        self.messages += new
        written = self._session.rewrite({"model": "gpt-4o", "messages": self.messages})["request"]["messages"]
        self._shown = [a if a == b else b for a, b in zip(self.messages, written, strict=True)]
        return list(self._shown)

    def reachable(self) -> Iterator[str]:
        """The originals behind the markers."""
        text = "\n".join(map(content_text, self._shown))
        yield from (original for marker, original in self._stored.items() if f"<<swload:{marker}>>" in text)
