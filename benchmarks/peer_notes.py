"""What writes the notes: this library's own embedded summariser, so that only the policies differ, or a model of yours.

`handover --model openai:NAME` names the model. Its key is OPENAI_API_KEY, another address OPENAI_BASE_URL; both and the
name are passed on to the environments of the peers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from chat import Tokens

from autocontext import ChatModel, ModelRequest
from autocontext.models import ExtractiveModel, OpenAIChatModel

SHARE = 10
"""A note has at most this part of the window: a tenth."""
MODEL = "AUTOCONTEXT_BENCH_MODEL"
"""The variable that holds the model's name; without it, or empty, the embedded summariser writes."""
_PROVIDER = "openai:"


def named(model: str) -> str:
    """A model's name as --model takes it. Raises ValueError for one that names no provider."""
    if not model.removeprefix(_PROVIDER) or not model.startswith(_PROVIDER):
        raise ValueError(f"{model!r} is no model; write openai:NAME, such as openai:gpt-4.1-mini")
    return model


def paid() -> ChatModel | None:
    """The model that was asked for; None for the embedded summariser."""
    name = os.environ.get(MODEL, "")
    return OpenAIChatModel(named(name).removeprefix(_PROVIDER), max_retries=3) if name else None


class Notes:
    """Writes notes of up to a tenth of the window; adds up what it read. The embedded summariser's never differ."""

    def __init__(self, window: int, count: Tokens) -> None:
        self._limit, self._count = window // SHARE, count
        self._model = paid() or ExtractiveModel()
        self.read = 0
        """Tokens that a paid model has read, or would have."""

    def of(self, texts: Iterable[str], instruction: str = "") -> str:
        """The note of some texts; `instruction` is what the library tells its model, which only a model reads."""
        prompt = "\n\n".join(texts)
        self.read += self._count.text(prompt) + self._count.text(instruction)
        request = ModelRequest(
            system=instruction or _INSTRUCTION, prompt=prompt, purpose="history", max_output_tokens=self._limit
        )
        return self._model.complete(request).text


_INSTRUCTION = "Summarise this part of a conversation so that somebody else can go on with the work."
"""For a library that leaves the wording to whoever gives it a summariser."""
