"""The loop counts as the service does, and goes on where the service has refused a request as too long."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.extras import need

need("openai")

from openai import BadRequestError

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from tests.fakes.http_server import Raw, Reply
from tests.fakes.openai_server import FakeOpenAI, Turn
from tests.loop.ways import WAYS, Run, way

STREAMED = {name: {"stream_options": {"include_usage": True}} for name in ("stream", "astream")}


def refusal(status: int, message: str, code: str) -> Raw:
    return Raw(status, {"error": {"message": message, "code": code}})


@pytest.fixture(params=WAYS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def service() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as service:
        yield service


@pytest.fixture
def run(name: str, service: FakeOpenAI) -> Iterator[Run]:
    with way(name, service.base_url) as run:
        yield lambda memory, tools=(), **options: run(memory, tools, **STREAMED.get(name, {}), **options)


def asked(window: int = 8_000) -> AutoContextMemory:
    memory = AutoContextMemory(AutoContextConfig.for_window(window))
    memory.add({"role": "user", "content": "Read days 1 to 30."})
    return memory


def read_day(day: int) -> str:
    """The measurements of one day."""
    rng = random.Random(day)
    return "\n".join(f"{rng.random():.6f},{rng.random():.6f}" for _ in range(40))


def thrice(turn: Turn) -> int:
    """What a service counts that has other tokens than ours."""
    return 3 * turn.tokens


def days(last: int, count: Callable[[Turn], int]) -> Callable[[Turn], Reply]:
    """A model that reads one day after the other."""
    day = 0

    def answer(turn: Turn) -> Reply:
        nonlocal day
        day += 1
        if day > last:
            return Reply(text="All read.", input_tokens=count(turn))
        function = {"name": "read_day", "arguments": json.dumps({"day": day})}
        call = {"id": f"c{day}", "type": "function", "function": function}
        return Reply(text=None, tool_calls=[call], input_tokens=count(turn))

    return answer


def test_the_view_counts_as_the_service_has_counted_the_request(run: Run, service: FakeOpenAI) -> None:
    service.default = Reply(text="Read.", input_tokens=5_000)
    memory = asked()
    assert run(memory) == "Read."
    assert memory.token_count == 5_000 + memory.counter.count(memory.messages[-1])


def test_what_was_said_meanwhile_is_counted_on_top(run: Run, service: FakeOpenAI) -> None:
    memory = asked()
    meanwhile = Msg(role="user", content="And the other days? " * 80)

    def first(_: Any) -> Reply:
        tokens = memory.token_count + 300
        memory.add(meanwhile)
        service.default = refusal(500, "gone", "server_error")
        return Reply(text="Read.", input_tokens=tokens)

    service.default = first
    with pytest.raises(Exception, match="gone"):
        run(memory)
    assert [m.role for m in memory.messages] == ["user", "assistant", "user"]
    assert memory.token_count > memory.count(memory.messages) + 100  # of the 300, as the user's turn has moved


def test_a_usage_is_not_put_on_a_view_that_a_pass_has_made_smaller_meanwhile(run: Run, service: FakeOpenAI) -> None:
    memory = asked()
    for n in range(10):
        memory.add([{"role": "assistant", "content": read_day(n)}, {"role": "user", "content": "Go on."}])

    def answer(_: Any) -> Reply:
        tokens = memory.token_count
        assert memory.compress_if_needed(force=True)
        return Reply(text="Read.", input_tokens=tokens)

    service.default = answer
    assert run(memory) == "Read."
    now = memory.token_count
    assert now == memory.count(memory.messages)


@pytest.mark.parametrize("tokens", [0, -3, 2**70])
def test_a_usage_that_is_none_changes_no_answer(tokens: int, run: Run, service: FakeOpenAI) -> None:
    service.default = Reply(text="Read.", input_tokens=tokens)
    assert run(asked()) == "Read."


def test_no_request_outgrows_the_window_of_a_service_that_counts_more(run: Run) -> None:
    memory = asked()
    sizes: list[int] = []

    def count(turn: Turn) -> int:
        sizes.append(thrice(turn))
        return sizes[-1]

    answer = days(30, count)
    with FakeOpenAI(default=answer) as service, way("run", service.base_url) as plain:
        assert plain(memory, [read_day]) == "All read."
    assert max(sizes) <= 8_000 * 1.25
    assert len(sizes) == 31


def refuse(service: FakeOpenAI, limit: int, answer: Callable[[Turn], Reply]) -> list[int]:
    """Refuse requests of more than `limit` tokens as the service counts; returns how many were refused, at each."""
    refused: list[int] = []

    def item(body: Any) -> Any:
        turn = service.turn(body)
        if thrice(turn) > limit:
            refused.append(thrice(turn))
            return refusal(400, f"This model's maximum context length is {limit} tokens.", "context_length_exceeded")
        return answer(turn)

    service.default = item
    return refused


def test_a_refused_request_is_made_smaller_and_sent_once_more(run: Run, service: FakeOpenAI) -> None:
    memory = asked(16_000)
    refused = refuse(service, 12_000, days(30, lambda _: 0))  # a service that tells no usage
    assert run(memory, [read_day]) == "All read."
    assert 0 < len(refused) < 10


def test_a_request_that_is_refused_again_ends_the_run_with_the_client_s_error(run: Run, service: FakeOpenAI) -> None:
    memory = asked(16_000)
    for n in range(10):
        memory.add([{"role": "assistant", "content": read_day(n)}, {"role": "user", "content": "Go on."}])
    refused = refuse(service, 1, days(1, thrice))
    with pytest.raises(BadRequestError, match="maximum context length"):
        run(memory, [read_day])
    assert len(refused) == 2
    assert refused[1] < refused[0]


def test_another_refusal_changes_nothing_and_is_not_sent_again(run: Run, service: FakeOpenAI) -> None:
    memory = asked()
    before = memory.messages
    service.default = refusal(400, "Invalid value: 'tool'", "invalid_value")
    with pytest.raises(BadRequestError, match="Invalid value"):
        run(memory)
    assert memory.messages == before
    assert len(service.requests) == 1


def test_the_form_of_the_answer_counts(run: Run, service: FakeOpenAI) -> None:
    properties = {f"field_{n}": {"type": "string", "description": "With unit and source."} for n in range(60)}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "report", "strict": True, "schema": schema}}
    service.default = "{}"
    plain, formed = asked(), asked()
    run(plain)
    run(formed, response_format=form)
    more = formed.token_count - plain.token_count
    assert more == formed.counter.count_text(json.dumps(form))
