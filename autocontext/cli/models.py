"""The model that `--model` names, with a meter on it."""

from __future__ import annotations

import threading

from autocontext.errors import ConfigError
from autocontext.models import ChatModel, DashScopeChatModel, OpenAIChatModel
from autocontext.requests import ModelReply, ModelRequest, Usage


class Meter:
    """A model that is counted: calls, failures, tokens. Safe to call from several threads."""

    def __init__(self, inner: ChatModel, model: str) -> None:
        self.model = model
        """The model's name, by which the memory finds the right token counter."""
        self.calls = self.failures = 0
        self.used = Usage()
        self.last_failure = ""
        self._inner = inner
        self._lock = threading.Lock()

    def complete(self, request: ModelRequest) -> ModelReply:
        """The model's reply. Raises what the model raises."""
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
            self.used += reply.usage or Usage()
        return reply


def chosen(spec: str) -> Meter | None:
    """The model of a `--model` argument; None for the embedded summariser.

    Raises ConfigError for a wrong spelling or a missing key, MissingExtraError without the SDK.
    """
    service, _, name = spec.partition(":")
    if service == "extractive" and not name:
        return None
    if service == "openai" and name:
        return Meter(OpenAIChatModel(name), name)
    if service == "dashscope" and name:
        return Meter(DashScopeChatModel(name), name)
    raise ConfigError(f"--model {spec}: write openai:NAME, dashscope:NAME or extractive")
