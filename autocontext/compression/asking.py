"""Asks a model: requests run concurrently and are retried; a failure becomes an Answer, never an exception."""

from __future__ import annotations

import inspect
import random
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from autocontext.compression.questions import Ask
from autocontext.compression.telemetry import call_span
from autocontext.config import AutoContextConfig
from autocontext.errors import ModelError, told
from autocontext.events import Health
from autocontext.flows import lazy
from autocontext.flows.threads import in_thread, run_to_end
from autocontext.history.redacting import shown
from autocontext.requests import Answer, ModelReply, ModelRequest, Usage, text_of
from autocontext.text import rendering
from autocontext.text.quoting import quoted

T = TypeVar("T")

_FIRST_PAUSE = 0.5
"""Seconds before the first retry, doubled each time, then scattered so that clients do not march in step."""
_LONGEST_PAUSE = 20.0
_STATUS = re.compile(r"\bHTTP (\d{3})\b")
_FRAME = re.compile(r"(?i)(?<=[^\r\n])\[(?:end of )?reference note")
_WAYS_OUT = {
    **dict.fromkeys(("401", "403"), "Check the API key and what it may use"),
    **dict.fromkeys(("400", "404"), "Check the model's name and base_url"),
    "429": "Check the quota, or lower max_parallel_summaries",
}
_HEAD_START = 0.02
"""Seconds before other work starts while calls are running."""


class Asker:
    """A model with the timeout and the retries of the configuration."""

    def __init__(self, model: Any, config: AutoContextConfig) -> None:
        from autocontext.models.extractive import ExtractiveModel  # noqa: PLC0415 (10 ms `import autocontext` spares)

        self._extractive = model if isinstance(model, ExtractiveModel) else ExtractiveModel()
        self.model = self._extractive if model is None else model
        self.config = config
        self.health = Health()
        """How the model has done since the memory was opened, but for its name."""

    @property
    def name(self) -> str:
        """The model's name: its `model`, or that of its class; "" if it is the embedded summariser."""
        name = getattr(self.model, "model", "")
        return (name if isinstance(name, str) and name else type(self.model).__name__) if self.asks else ""

    @property
    def asks(self) -> bool:
        """Whether a model other than the embedded summariser is configured."""
        return self.model is not self._extractive

    def ask(self, ask: Ask) -> list[Answer]:
        """Answers in the order of the requests; a model that blocks is called from threads, all at once."""
        if ask.extractive or not self.asks:
            return self._extract(ask)
        return run_to_end(self._answers(ask, in_loop=False), aside=True)

    async def aask(self, ask: Ask) -> list[Answer]:
        """The same without blocking the event loop."""
        if ask.extractive or not self.asks:
            return await in_thread(lambda: self._extract(ask))
        return await self._answers(ask, in_loop=True)

    def _extract(self, ask: Ask) -> list[Answer]:
        pairs = zip(ask.requests, ask.limits, strict=True)
        found = [text_of(self._extractive.complete(r), r.prompt, limit) for r, limit in pairs]
        return [Answer(text=text or None, problem=problem) for text, problem in found]

    async def _answers(self, ask: Ask, *, in_loop: bool) -> list[Answer]:
        places = lazy.asyncio.Semaphore(self.config.max_parallel_summaries)

        async def one(request: ModelRequest, limit: int) -> Answer:
            async with places:
                answer = await self._with_retries(request, limit, in_loop=in_loop)
            news: dict[str, Any] = {"answered": self.health.answered + 1, "failing": False}
            if answer.text is None:
                news = {"failed": self.health.failed + 1, "failing": True, "last_failure": answer.problem}
            self.health = self.health.model_copy(update=news)
            return answer

        return await _while_working(lazy.asyncio.gather(*map(one, ask.requests, ask.limits)), ask.meanwhile)

    async def _with_retries(self, request: ModelRequest, limit: int, *, in_loop: bool) -> Answer:
        """One request, retried until it is answered or no retry is left."""
        used, problem, calls, pause = Usage(), "", 0, 0.0
        for attempt in range(1 + self.config.model_retries):
            await lazy.asyncio.sleep(pause)
            calls += 1
            text, pause = "", random.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempt))
            begun = time.monotonic()
            try:
                with call_span(self.name, request) as record:
                    reply = await lazy.asyncio.wait_for(self._call(request, in_loop=in_loop), self.config.model_timeout)
                    own = _usage(reply, time.monotonic() - begun)
                    used += own
                    text, problem = _usable(reply, request, limit)
                    record(own, problem)
            except lazy.asyncio.CancelledError:
                task = lazy.asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                problem = "the model's own call was cancelled"
            except TimeoutError:
                problem = f"no answer within {self.config.model_timeout:g} s"
            except (KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException as e:  # noqa: BLE001 (whatever a model raises must not end the turn)
                problem = told(e)
                if isinstance(e, ModelError):
                    problem = problem.removeprefix(f"{type(e).__name__}: ")
                    if not e.retryable:
                        break
                    pause = max(pause, _seconds(e.retry_after, self.config.model_timeout))
            if text:
                return Answer(text=text, calls=calls, usage=used)
        return Answer(problem=shown(problem, self.config.redact), calls=calls, usage=used)

    async def _call(self, request: ModelRequest, *, in_loop: bool) -> ModelReply:
        """One call: natively asynchronous in the caller's event loop, else in a thread, if the model can do both."""
        acomplete, complete = getattr(self.model, "acomplete", None), getattr(self.model, "complete", None)
        if acomplete is not None and (in_loop or complete is None):
            reply = await acomplete(request)
        elif complete is not None:
            reply = await in_thread(lambda: complete(request))
        else:
            raise ModelError(f"{type(self.model).__name__} has neither complete() nor acomplete()", retryable=False)
        if inspect.iscoroutine(reply):
            reply.close()  # nobody awaits it
        if not isinstance(reply, ModelReply):
            raise ModelError(f"the model returned {type(reply).__name__}, not ModelReply", retryable=False)
        return reply


def way_out(problem: str) -> str:
    """What to do about a model's failure, by the HTTP status in its text."""
    status = _STATUS.search(problem)
    return _WAYS_OUT.get(status[1] if status else "", "Pass another model, or none, to open the memory")


def _usable(reply: ModelReply, request: ModelRequest, limit: int) -> tuple[str, str]:
    """The text of a reply, in which nothing looks like headings and marks of ours, or why there is none."""
    text, problem = text_of(reply, request.prompt, limit)
    if text and rendering.repeats(text, request.prompt):
        return "", "the reply repeats the question"
    # A frame of ours within a line is moved to a line of its own, which is quoted.
    return quoted(_FRAME.sub(r"\n\g<0>", text)), problem


def _seconds(asked: object, most: float) -> float:
    """How long a service asks to wait, at most `most`; 0 if it says nothing that makes sense."""
    return min(float(asked), most) if isinstance(asked, int | float) and asked > 0 else 0.0


def _usage(reply: ModelReply, seconds: float) -> Usage:
    """The reply's usage, with the time measured here when the model gave none."""
    used = reply.usage or Usage()
    return used if used.seconds else used.model_copy(update={"seconds": seconds})


async def _while_working(answers: Awaitable[list[T]], work: Callable[[], object] | None) -> list[T]:
    """Wait for the answers, and in the meantime do some work in a thread, if there is time for it."""
    working: lazy.asyncio.Task[object] | None = None

    def begin(work: Callable[[], object]) -> None:
        nonlocal working
        working = lazy.asyncio.ensure_future(in_thread(work))

    # Not at once: a thread that computes would hold up the calls, which have to go out first.
    timer = lazy.asyncio.get_running_loop().call_later(_HEAD_START, begin, work) if work is not None else None
    try:
        results = await answers
    finally:
        if timer is not None:
            timer.cancel()
    if working is not None:
        await working
    return results
