"""The model of the option `--model`, with a meter."""

from __future__ import annotations

import threading

from autocontext.errors import ConfigError
from autocontext.models import ChatModel, DashScopeChatModel, OpenAIChatModel
from autocontext.models.opening import service_of, unknown_model
from autocontext.requests import ModelReply, ModelRequest, Usage


class Meter:
    """Counts a model's calls, failures and tokens. Thread-safe."""

    def __init__(self, inner: ChatModel, model: str) -> None:
        self.model = model
        """The model's name, from which the memory chooses a token counter."""
        self.calls = self.failures = 0
        self.usage = Usage()
        self.last_failure = ""
        self._inner = inner
        self._lock = threading.Lock()

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's reply. Its errors propagate."""
        try:
            reply = self._inner.complete(request)
        except Exception as e:
            with self._lock:
                self.calls += 1
                self.failures += 1
                self.last_failure = str(e)
            raise
        with self._lock:
            self.calls += 1
            self.usage += reply.usage or Usage()
        return reply


def open_model(spec: str) -> Meter | None:
    """The model of a `--model` argument; None for the built-in summariser.

    A name is that of a model as `AutoContextMemory.open(model=...)` takes it, and chooses the same token counter.
    Raises ConfigError for a wrong name or a missing key, MissingExtraError without the SDK.
    """
    if spec == "extractive":
        return None
    service, _, name = spec.partition(":")
    if service not in ("openai", "dashscope"):
        service, name = service_of(spec), spec
    if service == "openai" and name:
        return Meter(OpenAIChatModel(name), name)
    if service == "dashscope" and name:
        return Meter(DashScopeChatModel(name), name)
    way_out = "write openai:NAME, dashscope:NAME or extractive"
    raise ConfigError(f"--model {spec}: {unknown_model(name, way_out) if name else way_out}")
