"""CallableModel: any function, sync or async, in either kind of call."""

import asyncio
import contextvars
import functools
import threading

import pytest

from autocontext.errors import ModelError
from autocontext.models import CallableModel
from autocontext.requests import ModelReply, Usage
from tests.models.offers import ask

WHO = contextvars.ContextVar("who", default="nobody")


async def slow(request, suffix=""):
    await asyncio.sleep(0.001)
    return f"{request.prompt}{suffix} in {threading.current_thread().name}"


class Polite:
    async def __call__(self, request):
        return "polite"


def both(model):
    return [model.complete(ask("P")), asyncio.run(model.acomplete(ask("P")))]


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda request: request.prompt, "P"),
        (lambda request: ModelReply(text=request.purpose), "tool_run"),
        (functools.partial(slow, suffix="!"), "P!"),
        (slow, "P"),
        (Polite(), "polite"),
        (lambda request: slow(request, "?"), "P?"),
    ],
)
def test_what_may_be_passed_in(fn, expected):
    assert all(reply.text.startswith(expected) for reply in both(CallableModel(fn)))


def test_an_async_function_stays_on_its_loop_and_a_sync_one_leaves_it():
    here = threading.current_thread().name

    def where(_):
        return threading.current_thread().name

    assert asyncio.run(CallableModel(slow).acomplete(ask("P"))).text == f"P in {here}"
    assert asyncio.run(CallableModel(where).acomplete(ask())).text != here


def test_an_async_function_from_sync_code_inside_a_running_loop():
    async def outer():
        WHO.set("somebody")
        return CallableModel(tell).complete(ask()).text

    async def tell(_):
        return WHO.get()

    assert asyncio.run(outer()) == "somebody"


def test_usage_is_kept_or_timed():
    assert all(r.usage.seconds >= 0 and r.usage.input_tokens == 0 for r in both(CallableModel(lambda _: "x")))
    own = ModelReply(text="x", usage=Usage(input_tokens=3), truncated=True)
    assert both(CallableModel(lambda _: own)) == [own, own]


def failures(fn):
    model = CallableModel(fn, name="mine")
    for call in (lambda: model.complete(ask()), lambda: asyncio.run(model.acomplete(ask()))):
        with pytest.raises(ModelError, match=r"^mine") as caught:
            call()
        yield caught.value


def test_its_exceptions_become_model_errors_with_their_cause():
    def broken(_):
        raise KeyError("lost")

    async def broken_later(_):
        raise KeyError("lost")

    for fn in (broken, broken_later):
        for e in failures(fn):
            assert isinstance(e.__cause__, KeyError)
            assert "KeyError" in str(e)


def test_a_model_error_keeps_what_it_says_about_retrying():
    def busy(_):
        raise ModelError("busy", retryable=True, retry_after=4.0)

    def never(_):
        raise ModelError("no", retryable=False)

    assert [(e.retryable, e.retry_after) for e in failures(busy)] == [(True, 4.0)] * 2
    assert [(e.retryable, e.retry_after) for e in failures(never)] == [(False, None)] * 2


@pytest.mark.parametrize("answer", ["", "  \n", None, 5, b"bytes", ModelReply(text=" ")])
def test_what_is_no_text_is_an_error(answer):
    for e in failures(lambda _: answer):
        assert "empty" in str(e) or "return a str or a ModelReply" in str(e)


def test_cancelling_stops_an_async_function():
    async def cancelled():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(CallableModel(forever).acomplete(ask()), 0.01)

    async def forever(_):
        await asyncio.Event().wait()

    asyncio.run(cancelled())
