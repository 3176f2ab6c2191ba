"""The contract of adapters that learn from the service how it counts: from each reply, and from what it refuses.

class TestLangchainUsage(UsageContract):
    driver = LangchainDriver
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from autocontext import AutoContextMemory
from tests.adapters.contract.driver import WINDOW, Driver, Mode, Setup, asked
from tests.adapters.contract.scripted_agent import ScriptedAgent
from tests.fakes import FakeOpenAI, Raw, Reply
from tests.fakes.http_server import Item
from tests.fakes.openai_server import Turn

GREET = "[task 1: greet] Hello, I am Ann."
READ = "[task 1: read 12] Read everything."
DONE = ["All parts of alpha are read."]


class CountingMore(FakeOpenAI):
    """A service that has other tokens than ours: half as many more."""

    def turn(self, body: dict[str, Any]) -> Turn:
        turn = super().turn(body)
        return replace(turn, tokens=turn.tokens * 3 // 2)


def refusal(message: str, code: str) -> Raw:
    return Raw(400, {"error": {"message": message, "type": "invalid_request_error", "code": code, "param": None}})


class UsageContract:
    """What holds for these adapters; subclasses name their driver."""

    driver: ClassVar[type[Driver]]

    @pytest.fixture
    def server(self) -> Iterator[FakeOpenAI]:
        with FakeOpenAI() as service:
            yield service

    @pytest.fixture
    def setup(self, server: FakeOpenAI, tmp_path: Path) -> Setup:
        return Setup(base_url=server.base_url, store=str(tmp_path / "agent.db"))

    def test_the_view_counts_as_the_service_has_counted_the_request(
        self, server: FakeOpenAI, setup: Setup, mode: Mode
    ) -> None:
        server.default = Reply(text="Very well.", input_tokens=5_000)
        driver = self.driver(setup)
        assert asked(driver, mode, GREET, "And now?") == ["Very well."] * 2
        memory = driver.memory
        answered = 5_000 + memory.counter.count(memory.messages[-1])
        # With a stream of the Agents SDK, the question counts once more until the next request.
        assert answered <= memory.token_count <= answered + 20

    @pytest.mark.parametrize("tokens", [0, 2])
    def test_a_usage_that_is_none_changes_nothing(
        self, server: FakeOpenAI, setup: Setup, tokens: int, outer_mode: Mode
    ) -> None:
        server.default = Reply(text="Very well.", input_tokens=tokens)
        driver = self.driver(setup)
        assert asked(driver, outer_mode, GREET) == ["Very well."]
        assert driver.memory.token_count == driver.memory.count(driver.memory.messages)

    def test_no_request_outgrows_the_window_of_a_service_that_counts_more(self, setup: Setup, outer_mode: Mode) -> None:
        agent = ScriptedAgent()

        def answer(turn: Turn) -> Item:
            reply = agent(turn)
            return replace(reply, input_tokens=turn.tokens) if isinstance(reply, Reply) else reply

        with CountingMore(default=answer) as server:
            assert asked(self.driver(replace(setup, base_url=server.base_url)), outer_mode, READ) == DONE
        assert agent.faults == []
        assert server.largest <= WINDOW * 1.25


class RefusalContract(UsageContract):
    """And of those that send a refused request once more."""

    def test_a_refused_request_is_made_smaller_and_sent_once_more(self, setup: Setup, outer_mode: Mode) -> None:
        agent = ScriptedAgent()  # which tells no usage
        with CountingMore(default=agent, window=WINDOW) as server:
            assert asked(self.driver(replace(setup, base_url=server.base_url)), outer_mode, READ) == DONE
        assert server.refused
        assert agent.faults == []

    def test_a_request_that_is_refused_again_is_not_sent_a_third_time(
        self, server: FakeOpenAI, setup: Setup, outer_mode: Mode
    ) -> None:
        server.default = refusal("This model's maximum context length is 1 token.", "context_length_exceeded")
        driver = self.driver(setup)
        fill(driver.memory)
        [answer] = asked(driver, outer_mode, GREET)
        assert "maximum context length" in str(answer)
        assert isinstance(answer, Exception)
        sizes = [server.turn(request.body).tokens for request in server.requests]
        assert len(sizes) == 2
        assert sizes == sorted(sizes, reverse=True)
        assert driver.memory.get_compression_events()

    def test_another_refusal_changes_nothing_and_is_not_sent_again(
        self, server: FakeOpenAI, setup: Setup, outer_mode: Mode
    ) -> None:
        server.default = refusal("Invalid value: 'tool'", "invalid_value")
        driver = self.driver(setup)
        fill(driver.memory)
        [answer] = asked(driver, outer_mode, GREET)
        assert isinstance(answer, Exception)
        assert len(server.requests) == 1
        assert not driver.memory.get_compression_events()


def fill(memory: AutoContextMemory) -> None:
    """Add turns that a pass makes smaller."""
    for n in range(10):
        said = "\n".join(f"{n}.{line}: the gate opened when the traveller asked for bread" for line in range(60))
        memory.add([{"role": "user", "content": f"Go on with {n}."}, {"role": "assistant", "content": said}])
