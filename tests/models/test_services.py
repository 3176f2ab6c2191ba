"""Each provider's failures through its real SDK: a ModelError that says what, whether to retry, and when."""

import asyncio
import socket
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from autocontext.errors import ConfigError, ModelError
from tests.fakes import Close, Hang, Raw, Reply
from tests.models.offers import KEY, SERVICES, ask, model_class, service

BOTH = pytest.mark.parametrize("name", SERVICES)
CALL = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]


def error_body(name, message, code):
    if name == "openai":
        return {"error": {"message": message, "type": "x", "param": None, "code": code}}
    return {"request_id": "r", "code": code, "message": message}


def fail(model, how, request=None):
    request = request or ask()
    with pytest.raises(ModelError) as caught:
        asyncio.run(model.acomplete(request)) if how == "async" else model.complete(request)
    return caught.value


HTTP = {
    "bad request": (400, "bad", {}, False, None),
    "no permission": (403, "no", {}, False, None),
    "no such model": (404, "gone", {}, False, None),
    "timeout there": (408, "slow", {}, True, None),
    "rate limit": (429, "slow down", {}, True, None),
    "rate limit, wait": (429, "slow down", {"Retry-After": "7"}, True, 7.0),
    "rate limit, wait ms": (429, "slow down", {"Retry-After-Ms": "250", "Retry-After": "1"}, True, 0.25),
    "rate limit, nonsense": (429, "slow down", {"Retry-After": "soon"}, True, None),
    "rate limit, negative": (429, "slow down", {"Retry-After": "-3"}, True, None),
    "fault": (500, "oops", {}, True, None),
    "overloaded": (503, "later", {"Retry-After": "2"}, True, 2.0),
}


@pytest.mark.sampled(7)
@BOTH
@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("case", HTTP)
def test_http_errors(name, how, case):
    status, message, headers, retryable, wait = HTTP[case]
    with service(name) as (fake, model):
        fake.script([Raw(status, error_body(name, message, "some_code"), headers)])
        e = fail(model, how)
        assert (e.retryable, e.retry_after) == (retryable, wait)
        assert f"HTTP {status}" in str(e)
        assert message in str(e)
        assert len(fake.requests) == 1, "the caller retries, not the SDK"


@BOTH
def test_retry_after_as_a_date(name):
    moment = datetime.now(UTC) + timedelta(seconds=600)
    with service(name) as (fake, model):
        fake.script([Raw(429, error_body(name, "x", "y"), {"Retry-After": format_datetime(moment, usegmt=True)})])
        assert 300 < fail(model, "sync").retry_after <= 600


@BOTH
@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_wrong_key_is_told_without_the_key(name, how):
    with service(name) as (fake, _):
        e = fail(model_class(name)("m", api_key="sk-wrong-key-123456", base_url=fake.base_url), how)
    assert "HTTP 401" in str(e)
    assert not e.retryable
    assert "wrong-key" not in str(e)


UNUSABLE = {
    "empty text": (Reply(text=""), "empty", True),
    "blank text": (Reply(text=" \n\t"), "empty", True),
    "no content": (Reply(text=None), "empty", True),
    "reasoning only": (Reply(text="", message={"reasoning_content": "Let me think."}), "empty", True),
    "thoughts only": (Reply(text="<think>Let me think.</think>\n"), "empty", True),
    "thoughts cut off": (Reply(text="<think>Let me", finish="length"), "output limit", False),
    "tool call": (Reply(text=None, finish="tool_calls", tool_calls=CALL), "tool call", True),
    "text and tool call": (Reply(text="I will look.", tool_calls=CALL), "tool call", True),
    "filtered": (Reply(text="The", finish="content_filter"), "content filter", False),
}


@pytest.mark.sampled(7)
@BOTH
@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("case", UNUSABLE)
def test_replies_that_are_no_summary(name, how, case):
    reply, said, retryable = UNUSABLE[case]
    with service(name) as (fake, model):
        fake.script([reply])
        e = fail(model, how)
        assert said in str(e)
        assert e.retryable is retryable


BODIES = {
    "not JSON": b"<html>gateway</html>",
    "cut off": b'{"choices": [{"mess',
    "null": b"null",
    "list": b"[]",
    "number": b"3",
    "empty object": b"{}",
    "null choices": b'{"choices": null, "output": null}',
    "empty choices": b'{"choices": [], "output": {"choices": []}}',
    "choice of null": b'{"choices": [null], "output": {"choices": [null]}}',
    "choice without message": b'{"choices": [{}], "output": {"choices": [{}]}}',
    "message of null": b'{"choices": [{"message": null}], "output": {"choices": [{"message": null}]}}',
    "content of the wrong type": b'{"choices": [{"message": {"content": 5}}], '
    b'"output": {"choices": [{"message": {"role": "assistant", "content": 5}}]}}',
    "nothing": b"",
}


@pytest.mark.sampled(7)
@BOTH
@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("case", BODIES)
def test_malformed_bodies(name, how, case):
    with service(name) as (fake, model):
        fake.script([Raw(200, BODIES[case])])
        e = fail(model, how)
        assert e.retryable


@BOTH
@pytest.mark.parametrize("how", ["sync", "async"])
def test_an_error_page_that_is_no_json(name, how):
    with service(name) as (fake, model):
        fake.script([Raw(502, b"<html>Bad gateway</html>", {"Content-Type": "text/html"})])
        e = fail(model, how)
        assert "HTTP 502" in str(e)
        assert e.retryable


@BOTH
@pytest.mark.parametrize("how", ["sync", "async"])
def test_no_answer_in_time(name, how):
    with service(name, timeout=0.3) as (fake, model):
        fake.script([Hang(seconds=600)])
        started = time.perf_counter()
        e = fail(model, how)
        assert "no answer within 0.3 s" in str(e)
        assert e.retryable
        assert time.perf_counter() - started < 300


@BOTH
@pytest.mark.parametrize("how", ["sync", "async"])
def test_the_connection_breaks(name, how):
    with service(name) as (fake, model):
        fake.script([Close(), Close()])  # DashScope's SDK sends a request again once when the connection breaks
        e = fail(model, how)
        assert "no connection" in str(e)
        assert e.retryable


@BOTH
@pytest.mark.parametrize("how", ["sync", "async"])
def test_nobody_listens(name, how):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
        model = model_class(name)("m", api_key=KEY, base_url=url)
        e = fail(model, how)
        model.close()
    assert "no connection" in str(e)
    assert e.retryable
    assert url in str(e)


@BOTH
def test_a_password_in_the_address_is_not_shown(name):
    model = model_class(name)("m", api_key=KEY, base_url="http://user:hunter2@127.0.0.1:1/v1?token=hunter3")
    assert "hunter" not in repr(model) + str(fail(model, "sync"))
    assert "127.0.0.1:1/v1" in repr(model)
    model.close()


@BOTH
@pytest.mark.parametrize("how", ["sync", "async"])
def test_what_is_sent_and_what_comes_back(name, how):
    with service(name, temperature=0.25, seed=7) as (fake, model):
        fake.script([Reply(text=" <think>hm</think>The note. ", input_tokens=120, output_tokens=5, finish="length")])
        request = ask("P", max_output_tokens=64)
        reply = asyncio.run(model.acomplete(request)) if how == "async" else model.complete(request)
        assert (reply.text, reply.truncated) == ("The note.", True)
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (120, 5)
        assert reply.usage.seconds > 0
        body = fake.requests[0].body
        parameters = body if name == "openai" else body["parameters"]
        assert body["model"] == "qwen-plus"
        assert (parameters["temperature"], parameters["seed"], parameters["max_tokens"]) == (0.25, 7, 64)
        messages = body["messages"] if name == "openai" else body["input"]["messages"]
        assert messages == [{"role": "system", "content": "Condense."}, {"role": "user", "content": "P"}]


@BOTH
@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "input_tokens": None}])
def test_a_reply_without_usage(name, usage):
    message = {"role": "assistant", "content": "note"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    with service(name) as (fake, model):
        fake.script([Raw(200, body if name == "openai" else {"output": {"choices": [choice]}, "usage": usage})])
        reply = model.complete(ask())
        assert reply.text == "note"
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (0, 0)


@BOTH
def test_content_as_a_list_of_parts(name):
    with service(name) as (fake, model):
        fake.script([Reply(text=[{"type": "text", "text": "one "}, {"type": "text", "text": "two"}])])
        assert model.complete(ask()).text == "one two"


@BOTH
def test_a_cancelled_call_leaves_the_model_usable(name):
    async def cancel_then_ask(fake, model):
        await model.acomplete(ask())  # the client stands now
        fake.script([Hang(seconds=600)])
        hanging = asyncio.create_task(model.acomplete(ask()))
        while len(fake.requests) < 2 and not hanging.done():  # noqa: ASYNC110 (the server's thread has no event for us)
            await asyncio.sleep(0.005)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        return await model.acomplete(ask())

    with service(name) as (fake, model):
        assert asyncio.run(cancel_then_ask(fake, model)).text == "SUMMARY"


@pytest.mark.sampled
@BOTH
def test_closed_models_open_again(name):
    async def twice(model):
        await model.acomplete(ask())
        await model.aclose()
        await model.aclose()
        return await model.acomplete(ask())

    with service(name) as (_, model):
        assert asyncio.run(twice(model)).text
        model.complete(ask())
        model.close()
        model.close()
        assert model.complete(ask()).text


@pytest.mark.sampled
@BOTH
def test_clients_end_with_their_loop(name):
    with service(name) as (_, model):
        for _ in range(3):
            asyncio.run(model.acomplete(ask()))
        held = model._clients
        asyncio.run(model.acomplete(ask()))
        assert len(held) <= 1


@BOTH
def test_two_models_share_no_setting(name):
    with service(name) as (one, model_one), service(name) as (two, _):
        model_two = model_class(name)("other", api_key="sk-second-key-98765", base_url=two.base_url)
        two.api_key = "sk-second-key-98765"
        assert model_two.complete(ask()).text == model_one.complete(ask()).text == "SUMMARY"
        assert [r.body["model"] for r in one.requests + two.requests] == ["qwen-plus", "other"]
        model_two.close()


@BOTH
@pytest.mark.parametrize("reserved", ["stream", "messages", "tools"])
def test_settings_of_the_model_itself_are_refused(name, reserved):
    with pytest.raises(ConfigError, match=reserved):
        model_class(name)("m", api_key=KEY, **{reserved: True})
