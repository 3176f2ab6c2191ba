"""What writes the peers' summaries: this library's own embedded summariser, so that only the policies differ."""

from __future__ import annotations

from collections.abc import Iterable

from chat import Tokens

from autocontext import ModelRequest
from autocontext.models import ExtractiveModel

SHARE = 10
"""A note has at most this part of the window: a tenth."""


class Notes:
    """Writes notes of up to a tenth of the window, always the same for the same texts; adds up what it read."""

    def __init__(self, window: int, count: Tokens) -> None:
        self._limit, self._count = window // SHARE, count
        self._model = ExtractiveModel()
        self.read = 0
        """Tokens that a paid model would have read."""

    def of(self, texts: Iterable[str]) -> str:
        """The note of some texts."""
        prompt = "\n\n".join(texts)
        self.read += self._count.text(prompt)
        request = ModelRequest(system="", prompt=prompt, purpose="history", max_output_tokens=self._limit)
        return self._model.complete(request).text
