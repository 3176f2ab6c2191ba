"""Whatever a model raises or returns counts as a failed summary: it costs quality, never the turn."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from autocontext import AutoContextMemory, ModelReply, ModelRequest, Usage
from autocontext.errors import ModelError
from autocontext.models import CallableModel
from autocontext.testing import ScriptedModel, assert_valid_chat
from tests.invariants import unreachable
from tests.production.agents import day, rounds_only


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("an error without words")

    __repr__ = __str__


class Unspeakably(Exception):
    def __str__(self) -> str:
        raise BaseException("worse")  # noqa: TRY002


class OwnBase(BaseException):
    """As pytest's outcomes, or a library's way to leave."""


class Lying(str):
    __slots__ = ()

    def __len__(self) -> int:
        return 1

    def strip(self, _chars: str | None = None) -> str:
        return "LEAK " * 10_000


class OddError(ModelError):
    def __init__(self) -> None:
        super().__init__("odd")
        self.retry_after = "soon"  # type: ignore[assignment]


async def _a_coroutine() -> str:
    return "never awaited"


RAISED: dict[str, BaseException] = {
    "StopIteration": StopIteration("no more"),
    "StopAsyncIteration": StopAsyncIteration(),
    "an error without words": Unspeakable(),
    "an error whose words raise": Unspeakably(),
    "an error of its own": OwnBase("left"),
    "a bare BaseException": BaseException("bare"),
    "a group": BaseExceptionGroup("many", [OwnBase(), ValueError()]),
    "its own cancellation": asyncio.CancelledError(),
    "a time-out of its own": TimeoutError(),
    "a model's error with odd fields": OddError(),
    "too deep": RecursionError(),
    "no memory": MemoryError(),
}
RETURNED: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "bytes": lambda: b"In short.",
    "a coroutine": _a_coroutine,
    "a plain text": lambda: "In short.",
    "a text that lies": lambda: ModelReply.model_construct(text=Lying(""), usage=None, truncated=False),
    "a reply without text": lambda: ModelReply.model_construct(text=None, usage=None, truncated=False),
    "a reply without fields": ModelReply.model_construct,
    "a negative usage": lambda: ModelReply.model_construct(
        text="In short.", usage=Usage.model_construct(input_tokens=-1, output_tokens=0, seconds=0.0), truncated=False
    ),
    "a usage that is none": lambda: ModelReply.model_construct(text="In short.", usage="much", truncated=False),
    "itself": lambda: ModelReply,
}


def raising(error: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


ANSWERS = {
    **{f"raises {name}": raising(error) for name, error in RAISED.items()},
    **{f"returns {name}": answer for name, answer in RETURNED.items()},
}


class Sync:
    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def complete(self, _request: ModelRequest) -> Any:
        return self.answer()


class Async(Sync):
    complete = None  # type: ignore[assignment]

    async def acomplete(self, _request: ModelRequest) -> Any:
        return self.answer()


def of_function(answer: Callable[[], Any]) -> CallableModel:
    return CallableModel(lambda _: answer())


MODELS: dict[str, Callable[[Callable[[], Any]], Any]] = {"sync": Sync, "async": Async, "function": of_function}


def in_loop(memory: AutoContextMemory) -> Any:
    return asyncio.run(asyncio.wait_for(memory.acompress_if_needed(force=True), 100))


DRIVERS: dict[str, Callable[[AutoContextMemory], Any]] = {
    "sync": lambda memory: memory.compress_if_needed(force=True),
    "async": in_loop,
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_whatever_a_model_does_the_turn_goes_on(answer: str, model: str, driver: str) -> None:
    memory = AutoContextMemory(rounds_only(model_timeout=60.0), MODELS[model](ANSWERS[answer]))
    memory.add_messages(day(2))
    report = DRIVERS[driver](memory)
    assert report.outcome == "applied"
    assert report.model_calls == 1
    if model != "function" or answer not in ("returns a plain text", "returns a coroutine"):
        assert report.fallbacks == 1
        assert report.strategies[0].reason
    assert "LEAK" not in str(memory.state_dict())
    assert_valid_chat(memory.messages)
    assert unreachable(memory, memory.get_original_memory_msgs()) == []


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    "error",
    [StopIteration("no more"), Unspeakable(), Unspeakably(), TimeoutError()],
    ids=["StopIteration", "no words", "words that raise", "TimeoutError"],
)
def test_whatever_a_listener_or_a_redaction_hook_raises_the_turn_goes_on(error: Exception, driver: str) -> None:
    def hook(_: object) -> str:
        raise error

    for fields in ({}, {"redact": hook}):
        memory = AutoContextMemory(rounds_only(**fields), ScriptedModel("In short."))
        memory.add_messages(day(2))
        memory.on_compression(hook)
        DRIVERS[driver](memory)
        assert_valid_chat(memory.messages)
        assert memory.get_messages()
