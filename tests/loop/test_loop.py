"""The loop with the real OpenAI client against a strict server: tools in parallel, streams, errors, restarts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from tests.extras import need

need("openai")

from openai import AsyncOpenAI, OpenAI

from autocontext import AutoContextConfig, AutoContextMemory, ImageBlock, TextBlock, loop
from autocontext.errors import AutoContextError
from tests.fakes.http_server import Reply
from tests.fakes.openai_server import FakeOpenAI, Turn

MODEL = "gpt-4.1-mini"


def call(id_: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def read_log(day: int) -> str:
    """The log of one day: 18 KB."""
    lines = [f"day {day} line {n} request handled in {n * 7 % 90} ms" for n in range(440)]
    return "\n".join([*lines, f"day {day} ALERT disk {day * 37 % 100} failed"])


def days(last: int) -> Callable[[Turn], Reply]:
    """A model that reads one day after the other, two at a time, and then answers."""

    def answer(turn: Turn) -> Reply:
        newest = list(takewhile(lambda m: m["role"] == "tool", reversed(turn.messages)))
        day = max((int(str(m["content"]).split()[1]) for m in newest), default=0)
        if day >= last:
            return Reply(text=f"All {day} days read.")
        return Reply(text=None, tool_calls=[call(f"c{day + n}", "read_log", day=day + n) for n in (1, 2)])

    return answer


IMAGE = ImageBlock(source={"type": "url", "url": "https://example.org/page.png"})


def look() -> list[Any]:
    """What the screen shows."""
    return [TextBlock(text="A form."), IMAGE]


Run = Callable[..., str]


def _streamed(base_url: str, memory: AutoContextMemory, tools: list[Any], **options: Any) -> str:
    with OpenAI(base_url=base_url, api_key="test-key") as client:
        return "".join(loop.stream(client, MODEL, memory, tools, **options))


def _plain(base_url: str, memory: AutoContextMemory, tools: list[Any], **options: Any) -> str:
    with OpenAI(base_url=base_url, api_key="test-key") as client:
        return loop.run(client, MODEL, memory, tools, **options)


def _async(base_url: str, memory: AutoContextMemory, tools: list[Any], **options: Any) -> str:
    async def go() -> str:
        async with AsyncOpenAI(base_url=base_url, api_key="test-key") as client:
            return await loop.arun(client, MODEL, memory, tools, **options)

    return asyncio.run(go())


def _async_streamed(base_url: str, memory: AutoContextMemory, tools: list[Any], **options: Any) -> str:
    async def go() -> str:
        async with AsyncOpenAI(base_url=base_url, api_key="test-key") as client:
            return "".join([text async for text in loop.astream(client, MODEL, memory, tools, **options)])

    return asyncio.run(go())


@pytest.fixture(params=[_plain, _streamed, _async, _async_streamed], ids=["run", "stream", "arun", "astream"])
def run(request: pytest.FixtureRequest) -> Run:
    way: Run = request.param
    return way


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[AutoContextMemory]:
    with AutoContextMemory.open(tmp_path / "agent.db", session_id="42", window="16k") as opened:
        opened.add({"role": "user", "content": "Read the logs."})
        yield opened


@pytest.mark.slow
def test_a_long_run_fits_the_window_and_keeps_everything(run: Run, memory: AutoContextMemory) -> None:
    with FakeOpenAI(window=16_000, default=days(12)) as service:
        answer = run(service.base_url, memory, [read_log])
        assert (answer, service.refused) == ("All 12 days read.", [])
    results = [b.text for m in memory.get_original_memory_msgs() for b in m.tool_results]
    assert sorted(results) == sorted(read_log(day) for day in range(1, 13))
    assert memory.get_compression_events()


@pytest.mark.sampled
def test_the_calls_of_one_message_run_at_the_same_time(run: Run, memory: AutoContextMemory) -> None:
    meeting = threading.Barrier(2, timeout=240)

    def meet(who: str) -> dict[str, str]:
        """Wait for the other call."""
        meeting.wait()
        return {"who": who}

    def answer(turn: Turn) -> Reply:
        if turn.messages[-1]["role"] == "tool":
            return Reply(text="Both were there.")
        return Reply(text="", tool_calls=[call("a", "meet", who="ann"), call("b", "meet", who="bob")])

    with FakeOpenAI(default=answer) as service:
        assert run(service.base_url, memory, [meet]) == "Both were there."
    assert {b.text for m in memory for b in m.tool_results} == {'{"who": "ann"}', '{"who": "bob"}'}


@pytest.mark.sampled
def test_a_tool_may_show_images_and_a_reload_shows_one_that_was_left_out(run: Run) -> None:
    """A service without images in results gets them after those, in a message of the user's role."""
    memory = AutoContextMemory(AutoContextConfig.for_window(16_000, max_images=1))
    memory.add({"role": "user", "content": "What does the form say?"})
    steps = [("look", {}), ("look", {}), ("context_reload", {"working_context_offload_uuid": "m3"})]

    def answer(turn: Turn) -> Reply:
        done = sum(m["role"] == "tool" for m in turn.messages)
        shown = [part for m in turn.messages if m["role"] == "user" and isinstance(m["content"], list)
                 for part in m["content"] if part["type"] == "image_url"]  # fmt: skip
        assert len(shown) == min(done, 1)
        if done == len(steps):
            return Reply(text="It asks for a name.")
        name, arguments = steps[done]
        return Reply(text=None, tool_calls=[call(f"c{done}", name, **arguments)])

    with FakeOpenAI(default=answer) as service:
        assert run(service.base_url, memory, [look]) == "It asks for a name."
        assert service.refused == []
    (reloaded,) = memory.get_original_memory_msgs()[6].tool_results
    assert reloaded.output[-1] == IMAGE
    assert "[image m3: https://example.org/page.png, left out]" in memory.messages[2].tool_results[0].text


@pytest.mark.sampled
def test_what_goes_wrong_in_a_tool_is_what_the_model_reads(run: Run, memory: AutoContextMemory) -> None:
    def divide(a: int, b: int) -> float:
        """a / b"""
        return a / b

    calls = [
        call("1", "divide", a=1, b=0), call("2", "divide", a="one", b=2), call("3", "devide", a=1, b=1),
        call("4", "context_reload", working_context_offload_uuid="none"),
    ]  # fmt: skip
    cut = call("5", "divide")
    cut["function"]["arguments"] = '{"a": 1, "b":'
    calls.append(cut)

    def answer(turn: Turn) -> Reply:
        if turn.messages[-1]["role"] == "tool":
            return Reply(text="I see.")
        return Reply(text="Let me see.", tool_calls=calls)

    with FakeOpenAI(default=answer) as service:
        assert run(service.base_url, memory, [divide]).endswith("I see.")
    results = {b.id: (b.text, b.is_error) for m in memory for b in m.tool_results}
    assert results["1"] == ("Error: ZeroDivisionError: division by zero", True)
    assert "divide.a: Input should be a valid integer" in results["2"][0]
    assert "did you mean 'divide'?" in results["3"][0]
    assert not results["4"][1]
    assert results["5"] == ("""Error: ValueError: divide: the arguments are not a JSON object: '{"a": 1, "b":'""", True)


@pytest.mark.slow
def test_a_run_without_an_end_stops_and_can_go_on(run: Run, memory: AutoContextMemory) -> None:
    with FakeOpenAI(window=16_000, default=days(8)) as service:
        with pytest.raises(AutoContextError, match="no answer after 3 requests"):
            run(service.base_url, memory, [read_log], max_steps=3)
        assert run(service.base_url, memory, [read_log]) == "All 8 days read."
        assert service.refused == []


def test_a_run_that_was_answered_says_it_again_and_asks_nothing(run: Run, memory: AutoContextMemory) -> None:
    with FakeOpenAI(window=16_000, default=days(2)) as service:
        said = {run(service.base_url, memory, [read_log]) for _ in range(3)}
        asked = len(service.requests)
        memory.add({"role": "user", "content": "And now?"})
        assert run(service.base_url, memory, [read_log]) == "All 2 days read."
    assert (said, asked, len(service.requests)) == ({"All 2 days read."}, 2, 4)


@pytest.mark.parametrize("others", [False, True], ids=["this process", "another process"])
@pytest.mark.parametrize("reply", ["Deployed to staging.", None], ids=["an answer", "a call"])
def test_what_the_user_says_while_the_model_answers_is_answered(
    run: Run, memory: AutoContextMemory, tmp_path: Path, reply: str | None, *, others: bool
) -> None:
    said = ["STOP! Not staging.", "Use canary."]

    def answer(turn: Turn) -> Reply:
        if any(said[0] in str(m["content"]) for m in turn.messages):
            assert memory.open_request is not None
            return Reply(text="Stopped.")
        with AutoContextMemory.open(tmp_path / "agent.db", session_id="42", window="16k") as other:
            (other if others else memory).add([{"role": "user", "content": words} for words in said])
        return Reply(text=reply, tool_calls=[] if reply else [call("c1", "read_log", day=1)])

    with FakeOpenAI(default=answer) as service:
        assert run(service.base_url, memory, [read_log]).endswith("Stopped.")
        assert run(service.base_url, memory, [read_log]) == "Stopped."
        asked = [request.body["messages"] for request in service.requests]
    assert len(asked) == 2
    told = [m["content"] for m in asked[1] if m["role"] == "user" or (m["role"] == "assistant" and m.get("content"))]
    assert told == ["Read the logs.", *([reply] if reply else []), *said]
    assert asked[1][-1]["role"] in ("user", "tool")
    with AutoContextMemory.open(tmp_path / "agent.db", session_id="42", window="16k") as again:
        assert [m.text for m in again.messages] == [m.text for m in memory.messages]


@pytest.mark.parametrize("first", ["Deployed to staging.", "STOP! Not staging."])
def test_what_the_user_says_anew_is_answered_however_often(run: Run, memory: AutoContextMemory, first: str) -> None:
    """Also words that are those of the answer, or those that were said before."""

    def answer(turn: Turn) -> Reply:
        number = sum(m["role"] == "assistant" for m in turn.messages)
        if number < 3:
            memory.add({"role": "user", "content": first})
        return Reply(text="Deployed to staging.")

    with FakeOpenAI(default=answer) as service:
        run(service.base_url, memory, [])
        assert [m["content"] for m in service.requests[-1].body["messages"] if m["role"] != "system"] == [
            "Read the logs.", *(["Deployed to staging.", first] * 3)
        ]  # fmt: skip
    assert [m.role for m in memory.messages] == ["user", "assistant"] * 4


def test_a_loop_without_tools_has_those_of_the_memory(run: Run, memory: AutoContextMemory) -> None:
    with FakeOpenAI(default=lambda turn: Reply(text=", ".join(turn.tools))) as service:
        assert run(service.base_url, memory, None) == "context_reload"


@pytest.mark.parametrize(
    ("name", "argument"), [("reload", {"working_context_offload_uuid": "m1"}), ("search", {"query": "heron"})]
)
def test_a_tool_of_another_session_gives_way_to_that_of_the_run(
    name: str, argument: dict[str, str], run: Run, memory: AutoContextMemory
) -> None:
    other = AutoContextMemory()
    other.add({"role": "user", "content": "The word is heron."})

    def answer(turn: Turn) -> Reply:
        if turn.messages[-1]["role"] == "tool":
            return Reply(text=turn.messages[-1]["content"])
        return Reply(text=None, tool_calls=[call("1", f"context_{name}", **argument)])

    with FakeOpenAI(default=answer) as service:
        said = run(service.base_url, memory, other.tools(name))
        assert ("The word is" in said, service.refused) == (False, [])


def test_coroutine_functions_are_tools_of_the_asynchronous_loop(memory: AutoContextMemory) -> None:
    async def read(day: int) -> str:
        """The log of one day."""
        await asyncio.sleep(0)
        return f"day {day}: nothing"

    def answer(turn: Turn) -> Reply:
        if turn.messages[-1]["role"] == "tool":
            return Reply(text=turn.messages[-1]["content"])
        return Reply(text=None, tool_calls=[call("1", "read", day=3)])

    with FakeOpenAI(default=answer) as service:
        assert _async(service.base_url, memory, [read]) == "day 3: nothing"
        memory.add({"role": "user", "content": "Again, please."})
        assert "only arun and astream" in _plain(service.base_url, memory, [read])


PROGRAM = Path(__file__).with_name("killed_agent.py")


@pytest.mark.slow
def test_an_agent_that_is_killed_in_the_middle_of_a_tool_goes_on(tmp_path: Path) -> None:
    """Steps of 18 KB in a window of 16,000 tokens; the process is killed with -9 inside a tool."""
    days_, deadly_days = 45, (11, 12, 30)
    with FakeOpenAI(window=16_000, default=one_by_one(days_)) as service:
        environment = {**os.environ, "OPENAI_BASE_URL": service.base_url, "OPENAI_API_KEY": "test-key"}
        arguments = [sys.executable, str(PROGRAM), str(tmp_path / "agent.db")]
        for deadly_day in deadly_days:
            killed = subprocess.run([*arguments, str(deadly_day)], env=environment, check=False, timeout=600)
            assert killed.returncode == -signal.SIGKILL
        last = subprocess.run(
            [*arguments, "0"], env=environment, check=False, timeout=600, capture_output=True, text=True
        )
        assert (last.stdout.strip(), last.stderr, service.refused) == (f"{days_} days read.", "", [])
    with AutoContextMemory.open(tmp_path / "agent.db", session_id="42") as memory:
        originals = memory.get_original_memory_msgs()
        assert [m.text for m in originals if m.role == "user"] == ["Read the logs."]
        results = {b.text for m in originals for b in m.tool_results}
        assert results == {read_log(day) for day in range(1, days_ + 1)}
        # The call of each death is there without a result, and again with one.
        assert len([u for m in originals for u in m.tool_uses]) == days_ + len(deadly_days)


def one_by_one(last: int) -> Callable[[Turn], Reply]:
    """A model that reads a day, and once more a day whose tool died; it counts by itself what it has read."""
    done: set[int] = set()

    def answer(turn: Turn) -> Reply:
        seen = str(turn.messages[-1]["content"])
        if turn.messages[-1]["role"] == "tool" and seen.startswith("day "):
            done.add(int(seen.split()[1]))
        day = len(done) + 1
        if day > last:
            return Reply(text=f"{last} days read.")
        return Reply(text=None, tool_calls=[call(f"c{day}-{len(turn.messages)}", "read_log", day=day)])

    return answer
