"""Any function as a model: `fn(request) -> str | ModelReply`, sync or async."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from autocontext.errors import ModelError, told
from autocontext.flows import DoesSteps, Flow, operation, sync_and_async
from autocontext.flows.threads import afinished, finished
from autocontext.requests import ModelReply, ModelRequest, Usage


class CallableModel(DoesSteps):
    """A model made of a function; `name` appears in its errors.

    `complete` runs an async function to its end, in a new thread if an event loop is running; `acomplete` runs a sync
    function in a thread. Calls raise only ModelError: for an exception of the function, which is the cause, and for a
    result without text.

        AutoContextMemory(model=CallableModel(lambda request: my_llm(request.system, request.prompt)))
    """

    def __init__(
        self, fn: Callable[[ModelRequest], str | ModelReply | Awaitable[str | ModelReply]], *, name: str = "callable"
    ) -> None:
        self._fn = fn
        self.name = name

    def __repr__(self) -> str:
        return f"CallableModel({self.name!r})"

    def _complete(self, request: ModelRequest) -> Flow[ModelReply]:
        """The function's reply. Raises ModelError."""
        start = time.perf_counter()
        try:
            answer = yield operation(finished, afinished, partial(self._fn, request))
        except Exception as e:
            raise self._failure(e) from e
        return self._reply(answer, time.perf_counter() - start)

    complete, acomplete = sync_and_async(_complete)

    def _failure(self, e: Exception) -> ModelError:
        if isinstance(e, ModelError):
            return ModelError(f"{self.name}: {e}", retryable=e.retryable, retry_after=e.retry_after)
        return ModelError(f"{self.name}: {told(e)}")

    def _reply(self, answer: Any, seconds: float) -> ModelReply:
        reply = ModelReply(text=answer) if isinstance(answer, str) else answer
        if not isinstance(reply, ModelReply):
            kind = type(answer).__name__
            raise ModelError(f"{self.name} returned {kind}; return a str or a ModelReply", retryable=False)
        if not reply.text.strip():
            raise ModelError(f"{self.name} answered with an empty text")
        return reply if reply.usage else reply.model_copy(update={"usage": Usage(seconds=seconds)})
