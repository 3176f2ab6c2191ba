"""Wrong arguments of a loop, and answers that are no messages: an error that names the field, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.extras import need

need("openai")

from openai import AsyncOpenAI, OpenAI

from autocontext import loop
from autocontext.errors import AutoContextError, ConfigError, ModelError
from autocontext.testing import assert_valid_chat
from tests.fakes.http_server import Item, Raw, Reply, Streamed
from tests.fakes.openai_events import chat_events
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.spoiled import WRONG, changed, places
from tests.loop.test_loop import call, read_log
from tests.loop.test_outcomes import new_memory
from tests.loop.ways import MODEL, WAYS, Run, way


class Scripted(FakeOpenAI):
    """Answers with what `wrong` makes of a valid answer, once; from then on "Done."."""

    wrong: Callable[[dict[str, Any]], Any] | None = None

    def _carry_out(self, item: Item, body: Any) -> Raw | Streamed | None:
        wrong, self.wrong = self.wrong, None
        if wrong is None:
            return super()._carry_out(Reply(text="Done."), body)
        answer = self.answer(Reply(text="Hm.", tool_calls=[call("c1", "read_log", day=1)]), body)
        if not body.get("stream"):
            return Raw(200, wrong(answer))
        chunks = [json.loads(event[6:]) for event in chat_events(answer, usage=True) if b"[DONE]" not in event]
        changed = wrong({"chunks": chunks})["chunks"]
        events = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in changed]
        return Streamed([*events, b"data: [DONE]\n\n"])


@pytest.fixture(scope="module")
def service() -> Iterator[Scripted]:
    with Scripted() as started:
        yield started


@pytest.fixture(scope="module", params=WAYS)
def run(request: pytest.FixtureRequest, service: Scripted) -> Iterator[Run]:
    with way(request.param, service.base_url) as ready:
        ready.__name__ = request.param
        yield ready


def spoil(run: Run, service: Scripted, wrong: Callable[[dict[str, Any]], Any]) -> str:
    """Run with one wrong answer: an answer or an error of ours, a valid memory, and the next run goes on."""
    memory = new_memory()
    service.wrong, service.refused = wrong, []
    try:
        said = run(memory, [read_log])
    except AutoContextError as e:
        said = str(e)
    assert_valid_chat(memory.to_openai())
    assert memory.messages[0].text == "Go."
    assert all(m.role != "user" for m in memory.messages[1:])  # what a model says is never the user's
    if memory.open_request is None:  # what was left of the message is an answer
        assert said.endswith(run(memory, [read_log]))
        memory.add({"role": "user", "content": "Go on."})
    assert run(memory, [read_log]).endswith("Done.")
    assert service.refused == []
    return said


def all_places(run: Run, service: Scripted) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []

    def see(answer: dict[str, Any]) -> dict[str, Any]:
        found.extend(places(answer))
        return answer

    spoil(run, service, see)
    return [path for path in found if path != ("chunks",)]


# httpx's own generator, which the collector may end while it runs, whenever that is.
@pytest.mark.filterwarnings("ignore:.*<async_generator object Response:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.sampled
@pytest.mark.parametrize("share", [151, pytest.param(7, marks=pytest.mark.slow)])
def test_an_answer_with_any_field_missing_or_wrong_is_an_answer_or_an_error_of_ours(
    run: Run, service: Scripted, share: int
) -> None:
    cases = [(path, new) for path in all_places(run, service) for new in [(), *((value,) for value in WRONG)]]
    assert len(cases) > 250
    for path, new in cases[::share]:
        spoil(run, service, lambda answer, path=path, new=new: changed(answer, path, *new))


@pytest.mark.parametrize(
    ("path", "new", "told"),
    [
        (("choices",), [], r"choices is \[\]"),
        (("choices",), None, "choices is None"),
        (("choices", 0), None, r"choices\[0\].message is None"),
        (("choices", 0, "message"), None, r"choices\[0\].message is None"),
        (("choices", 0, "message", "content"), 3, "content: must be a string"),
        (("choices", 0, "message", "tool_calls", 0, "function"), None, r"tool_calls\[0\]"),
        (("choices", 0, "message", "tool_calls", 0, "function", "name"), 3, r"tool_calls\[0\].function.name"),
        (("choices", 0, "message", "tool_calls", 0, "id"), 3, r"tool_calls\[0\].id"),
    ],
)
def test_an_answer_that_is_no_message_is_told_by_its_field(service: Scripted, path: Any, new: Any, told: str) -> None:
    memory = new_memory()
    service.wrong = lambda answer: changed(answer, path, new)
    with way("run", service.base_url) as run, pytest.raises(ModelError, match=told):
        run(memory, [read_log])
    assert len(memory) == 1


def test_what_a_service_says_about_its_error_is_told(run: Run, service: Scripted) -> None:
    def error(answer: dict[str, Any]) -> dict[str, Any]:
        told = {"error": {"message": "out of credits", "code": 402}}
        return {"chunks": [told]} if "chunks" in answer else told

    memory = new_memory()
    service.wrong = error
    with pytest.raises(Exception, match="out of credits"):  # of a stream it is the client that tells
        run(memory)
    assert len(memory) == 1


def test_calls_without_an_id_of_their_own_get_one(run: Run, service: Scripted) -> None:
    def two(answer: dict[str, Any]) -> dict[str, Any]:
        if "chunks" in answer:
            for chunk in answer["chunks"]:
                for part in chunk["choices"][0]["delta"].get("tool_calls", ()) if chunk["choices"] else ():
                    part.pop("id", None)
            return answer
        [first] = answer["choices"][0]["message"]["tool_calls"]
        answer["choices"][0]["message"]["tool_calls"] = [first, first, {**first, "id": ""}]
        return answer

    memory = new_memory()
    service.wrong = two
    assert run(memory, [read_log]).endswith("Done.")
    ids = [use.id for m in memory for use in m.tool_uses]
    assert len(set(ids)) == len(ids) == (1 if run.__name__.endswith("stream") else 3)
    assert all(ids)
    assert [b.id for m in memory for b in m.tool_results if not b.is_error] == sorted(ids, key=ids.index)


# ------------------------------------------------------------------------------------------------ wrong arguments
class NoSchema:
    """An object whose schema is none."""

    name = "odd"

    def schema(self) -> Any:
        return {"name": "odd"}

    def __call__(self) -> str:
        return ""


class Untyped:
    """A type that has no JSON schema."""


def untyped(what: Untyped) -> str:
    """Takes what JSON cannot hold."""
    return str(what)


def unknown(what: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821 (that is the point)
    """Has a hint that names nothing."""
    return str(what)


def by_position(what: str, /) -> str:
    """Takes no names."""
    return what


ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "no list": ({"tools": read_log}, "tools must be a list of functions"),
    "a name": ({"tools": "read_log"}, "tools must be a list of functions"),
    "twice": ({"tools": [read_log, read_log]}, r"tools\[1\]: another one is called 'read_log'"),
    "a number": ({"tools": [read_log, 3]}, r"tools\[1\]: 3 is not a tool"),
    "without a name": ({"tools": [lambda: 1]}, r"tools\[0\]: .* is not a tool"),
    "no schema": ({"tools": [untyped]}, r"tools\[0\]: untyped: its signature has no JSON schema"),
    "no such type": ({"tools": [unknown]}, r"tools\[0\]: unknown: its signature has no JSON schema.*Nowhere"),
    "by position": ({"tools": [by_position]}, r"tools\[0\]: by_position: a model names each argument"),
    "built in": ({"tools": [print]}, r"tools\[0\]: print: its signature"),
    "a class": ({"tools": [dict]}, r"tools\[0\]: dict: "),
    "a wrong schema": ({"tools": [NoSchema()]}, r"tools\[0\]: .*schema\(\) must return"),
    "no steps": ({"max_steps": 0}, "max_steps must be a whole number"),
    "no number": ({"max_steps": "3"}, "max_steps must be a whole number"),
    "a truth": ({"max_steps": True}, "max_steps must be a whole number"),
    "messages": ({"messages": []}, "options: the loop sets messages itself"),
    "stream": ({"stream": True}, "options: the loop sets stream itself"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_wrong_argument_is_told_by_its_name_before_anything_is_sent(run: Run, service: Scripted, name: str) -> None:
    options, told = ARGUMENTS[name]
    memory, asked = new_memory(), len(service.requests)
    with pytest.raises(ConfigError, match=f"^{told}"):
        run(memory, **options)
    assert (len(memory), len(service.requests)) == (1, asked)


@pytest.mark.parametrize("client", [None, "gpt-4.1", object()])
def test_what_is_no_client_or_memory_is_told(client: Any) -> None:
    with pytest.raises(ConfigError, match=r"^client must be a client of the openai package"):
        loop.run(client, MODEL, new_memory())
    with pytest.raises(ConfigError, match=r"^memory must be an AutoContextMemory"):
        loop.run(client, MODEL, client)


def test_a_client_of_the_other_kind_is_told_with_the_way_out(service: Scripted) -> None:
    options = {"base_url": service.base_url, "api_key": "test-key"}
    memory, asked = new_memory(), len(service.requests)
    with pytest.raises(ConfigError, match=r"client is asynchronous.*loop\.arun"):
        loop.run(AsyncOpenAI(**options), MODEL, memory)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ConfigError, match=r"client is asynchronous.*loop\.astream"):
        next(loop.stream(AsyncOpenAI(**options), MODEL, memory))  # type: ignore[arg-type]  # that is the point
    assert len(service.requests) == asked

    async def other() -> None:
        with OpenAI(**options) as client:
            with pytest.raises(ConfigError, match=r"client is synchronous.*loop\.run"):
                await loop.arun(client, MODEL, memory)  # type: ignore[arg-type]  # that is the point
            with pytest.raises(ConfigError, match=r"client is synchronous.*loop\.stream"):
                await anext(loop.astream(client, MODEL, memory))  # type: ignore[arg-type]  # that is the point

    asyncio.run(other())
    assert len(memory) == 1


def test_fields_that_only_this_service_has_come_back_to_it(service: Scripted) -> None:
    """Also one that is spelt nearly as a known one: what a service says never ends a turn."""
    own = {"reasoning_contents": "hm", "tool_call": [1], "new_in_2027": {"x": 1}}

    def with_own(answer: dict[str, Any]) -> dict[str, Any]:
        answer["choices"][0]["message"].update(own)
        return answer

    memory = new_memory()
    service.wrong = with_own
    with way("run", service.base_url) as run:
        assert run(memory, [read_log]) == "Done."
    spoken = next(m for m in service.requests[-1].body["messages"] if m["role"] == "assistant")
    assert {key: spoken.get(key) for key in own} == own
