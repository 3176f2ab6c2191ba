"""What services say when a request is too long, and what sounds like it."""

import asyncio
import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.errors import ContextOverflowError
from autocontext.flows import Flow, do, method, run
from autocontext.formats.refusals import asent, is_too_long, sending, times_too_long
from autocontext.testing import conversation, system
from autocontext.tokens import get_counter


class Refused(Exception):
    """As a client raises it."""

    def __init__(self, text: str, status: int | None = 400, **fields: Any) -> None:
        super().__init__(text)
        if status is not None:
            self.status_code = status
        vars(self).update(fields)


TOO_LONG = [
    Refused("Error code: 400", code="context_length_exceeded"),
    Refused("Bad request", body={"error": {"code": "context_length_exceeded"}}),
    Refused("This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."),
    Refused("Your input exceeds the context window of this model. Please adjust your input and try again."),
    Refused("prompt is too long: 208310 tokens > 200000 maximum"),
    Refused("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    Refused("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]"),
    Refused("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    Refused("the request exceeds the available context size, try increasing it", status=None),
    Refused("Invalid request: Your request exceeded model token limit: 8192"),
    Refused("This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    Refused("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", status=422),
    Refused("Input is too long for requested model.", status=None),
    Refused("the input token count is 1251952 but model only supports up to 1048576"),
    Refused("prompt token count of 138898 exceeds the limit of 64000", code="model_max_prompt_tokens_exceeded"),
    Refused("Request body too large for gpt-4o model. Max size: 8000 tokens.", 413, code="tokens_limit_reached"),
    Refused("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)."),
    Refused("litellm.BadRequestError: ContextWindowExceededError: ..."),
    Refused("Error code: 400", body={"error": {"message": "prompt is too long", "type": "invalid_request_error"}}),
    Refused("Error code: 400", body={"object": "error", "message": "the maximum model length is 4096", "code": 400}),
    Refused("Error code: 400", body={"error": "exceeds the context window"}),
    Refused("Error code: 422", status=422, body={"detail": [{"msg": "input is too long", "input": "Rate limit"}]}),
    Refused(
        "Error code: 400 - {'error': {'message': 'maximum context length is 8192 tokens', 'metadata': {'headers': "
        "{'X-RateLimit-Limit': '20'}}}}"
    ),
    Refused(
        "Error code: 400 - {'error': {'message': 'Provider returned error', 'X-RateLimit-Limit': '20'}}",
        body={
            "message": "Provider returned error",
            "metadata": {"raw": '{"message": "prompt is too long"}', "headers": {"X-RateLimit-Limit": "20"}},
        },
    ),
]
OTHERS = [
    Refused("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35000", status=429),
    Refused("Rate limit reached. Please reduce the length of the messages.", status=413, code="rate_limit_exceeded"),
    Refused("max_tokens is too large: 100000. This model supports at most 16384 completion tokens"),
    Refused("Request exceeds the maximum size", status=413),
    Refused("maximum context length", status=500),
    Refused("Invalid value: 'tool'", code=None, body=None),
    Refused(
        "1 validation error\nmessages.7.content: Input should be a valid string [type=string_type, "
        "input_value={'text': 'context_length_exceeded, see client.py'}, input_type=dict]"
    ),
    Refused(
        "Error code: 400 - {'detail': [{'msg': 'Field required', 'input': 'the prompt is too long'}]}",
        body={"detail": [{"msg": "Field required", "input": {"message": "the prompt is too long"}}]},
    ),
    Refused("", status=None),
    ContextOverflowError("9,000 tokens are more than max_token (8000)"),
]


@pytest.mark.parametrize("error", TOO_LONG, ids=str)
def test_a_request_that_is_too_long_is_known_by_what_the_service_says(error: Exception) -> None:
    assert is_too_long(error)


@pytest.mark.parametrize("error", OTHERS, ids=str)
def test_another_error_is_none_of_it(error: Exception) -> None:
    assert not is_too_long(error)


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("maximum context length is 128,000 tokens. However, your messages resulted in 160,000 tokens.", 1.25),
        ("you requested 9000 tokens (8000 in the messages, 1000 in the completion); the limit is 8192", 1.0),
        ("input length and `max_tokens` exceed context limit: 8670 + 7630 > 16000", 1.0),
        ("`inputs` tokens + `max_new_tokens` must be <= 16000. Given: 8670 `inputs` tokens and 7630", 1.0),
        ("prompt is too long: 300000 tokens > 200000 maximum", 1.5),
        ("maximum context length is 8192 tokens (request req-20261129-7731, 2026-11-29)", 1.0),
        ("code 1261: maximum context length is 131072 tokens", 1.0),
        ("maximum context length is 1 token", 1.0),
    ],
)
def test_a_refusal_says_how_many_times_too_long_a_request_is(text: str, times: float) -> None:
    assert times_too_long(Refused(text)) == times


def test_after_a_refusal_with_a_count_the_view_fits_by_it() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    memory.add_messages(conversation(rounds=20))
    own = memory.token_count
    assert memory.recover(Refused(f"prompt is too long: {3 * own} tokens > 8000 maximum"))
    assert 3 * memory.count(memory.messages) < 8_000
    assert memory.token_count < 8_000


def recovered(memory: AutoContextMemory, error: Exception, *, awaited: bool) -> bool:
    return asyncio.run(memory.arecover(error)) if awaited else memory.recover(error)


@pytest.mark.parametrize("awaited", [False, True])
def test_a_memory_recovers_from_a_refusal_by_a_pass_and_knows_that_it_counts_too_little(
    caplog: pytest.LogCaptureFixture, *, awaited: bool
) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    memory.add_messages(conversation(rounds=20))
    before = memory.messages
    own = memory.token_count
    assert own < 8_000
    assert not recovered(memory, OTHERS[0], awaited=awaited)
    assert (memory.messages, memory.token_count) == (before, own)
    with caplog.at_level(logging.WARNING, "autocontext.passes"):
        assert recovered(memory, TOO_LONG[0], awaited=awaited)
    now = memory.count(memory.messages)
    assert now * 8_001 / own <= 4_000
    assert memory.token_count == pytest.approx(now * 8_001 / own, rel=0.01)
    assert f"it had {own} of 8000 tokens" in caplog.text


def test_what_cannot_be_made_smaller_is_not_sent_again() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    memory.add_messages([system("Rules. " * 1_000)])
    assert not memory.recover(TOO_LONG[0])


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("strict_fit", [False, True])
def test_a_refusal_that_no_pass_helps_changes_nothing(*, strict_fit: bool, awaited: bool) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000, strict_fit=strict_fit))
    memory.add({"role": "user", "content": "Hello"})
    before = memory.token_count
    for _ in range(3):
        assert not recovered(memory, TOO_LONG[2], awaited=awaited)  # max_tokens of the request is too large
    assert memory.token_count == before
    assert len(memory.to_openai(strict=True)) == 1
    memory.add_messages(conversation(rounds=40))
    memory.to_openai()
    assert memory.get_compression_events()  # the next pass is made when it is due
    assert memory.token_count < memory.config.token_trigger


@pytest.mark.parametrize("awaited", [False, True])
def test_of_several_that_are_refused_at_once_each_may_send_the_smaller_view(*, awaited: bool) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    memory.add_messages(conversation(rounds=20))
    memory.to_openai()
    assert recovered(memory, TOO_LONG[0], awaited=awaited)
    smaller = memory.messages
    assert recovered(memory, TOO_LONG[0], awaited=awaited)
    assert memory.messages == smaller


def test_one_that_was_refused_while_another_recovers_may_send_the_smaller_view() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    memory.add_messages(conversation(rounds=20))
    memory.to_openai()
    said: list[bool] = []
    threads = [threading.Thread(target=lambda: said.append(memory.recover(TOO_LONG[0]))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [True, True, True]


def test_a_smaller_view_that_is_refused_too_is_not_cut_again_until_something_is_added() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    memory.add_messages(conversation(rounds=20))
    memory.to_openai()
    assert memory.recover(TOO_LONG[0])
    smaller = memory.messages
    memory.to_openai()
    assert not memory.recover(TOO_LONG[0])
    assert memory.messages == smaller
    memory.add_messages(conversation(rounds=20)[-8:])
    memory.to_openai()
    assert memory.recover(TOO_LONG[0])


def test_one_that_is_refused_again_with_its_count_is_cut_again() -> None:
    """Else the same request would be refused for ever, as by a service to which a picture is three times as much."""
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    memory.add_messages(conversation(rounds=40))
    memory.to_openai()
    sizes = [memory.count(memory.messages)]
    for _ in range(3):
        assert memory.recover(Refused("prompt is too long: 8800 tokens > 8000 maximum"))
        memory.to_openai()
        sizes.append(memory.count(memory.messages))
    assert sizes == sorted({*sizes}, reverse=True)


def test_a_view_over_the_window_keeps_its_count() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    memory.add_messages([system("Rules. " * 10_000)])
    own = memory.token_count
    assert own > 8_000
    memory.recover(TOO_LONG[0])
    assert memory.token_count == own


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("errors", "requests"),
    [([], 1), ([TOO_LONG[0]], 2), ([TOO_LONG[0], TOO_LONG[1]], 2), ([OTHERS[0]], 1), ([TOO_LONG[0], OTHERS[0]], 2)],
)
def test_a_request_is_sent_once_more_with_the_smaller_view_and_not_a_third_time(
    errors: list[Exception], requests: int, *, awaited: bool
) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000))
    memory.add_messages(conversation(rounds=20))
    sent: list[int] = []

    def answer(view: list[Any]) -> str:
        sent.append(len(view))
        memory.add({"role": "user", "content": "And what of the tests? " * 20})  # so that each refusal brings a pass
        if len(sent) <= len(errors):
            raise errors[len(sent) - 1]
        return "Done."

    def ask() -> Flow[str]:
        return answer((yield method(memory, "get_messages")))

    async def aask() -> str:
        return answer(await memory.aget_messages())

    try:
        said = asyncio.run(asent(aask, lambda: memory)) if awaited else run(sending(ask, lambda: memory), do)
    except Refused as e:
        said = e
    assert said == ("Done." if requests > len(errors) else errors[-1])
    assert len(sent) == requests
    assert sent == sorted({*sent}, reverse=True)


def test_without_a_model_s_name_a_counter_says_that_it_is_a_guess() -> None:
    named: Any = SimpleNamespace(model="gpt-4o", complete=lambda _: None)
    assert AutoContextMemory(AutoContextConfig(), named).counter.exact
    guess, chosen = AutoContextMemory(), AutoContextMemory(AutoContextConfig(token_counter=get_counter("o200k_base")))
    assert (guess.counter.name, guess.counter.exact, chosen.counter.exact) == ("o200k_base", False, True)
