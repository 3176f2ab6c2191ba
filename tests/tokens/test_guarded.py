"""A token counter of the user's own may fail in any way: the turn goes on with an estimate."""

import logging
import math
from collections.abc import Callable
from typing import Any

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.testing import conversation
from autocontext.tokens import EstimatingCounter, get_counter
from autocontext.tokens.guarded import guarded


def fails() -> int:
    raise ConnectionError("429: rate limit of count_tokens")


class Service:
    """Counts characters as a service would; `down` is what it gives instead."""

    name, exact = "service", True
    down: Callable[[], Any] | None = None

    def _counted(self, text: str) -> Any:
        return self.down() if self.down else len(text) // 3 + 1

    def count_text(self, text: str) -> int:
        return self._counted(text)

    def count(self, msg: Msg) -> int:
        return self._counted(msg.text)

    def bound(self, msg: Msg) -> int:
        return self._counted(msg.text)


FAILURES: list[Callable[[], Any]] = [fails, lambda: None, lambda: "12", lambda: math.nan, lambda: math.inf, lambda: -1]
NAMES = ["raises", "None", "text", "nan", "inf", "negative"]


@pytest.mark.parametrize("failure", FAILURES, ids=NAMES)
def test_a_counter_that_fails_costs_no_turn_and_no_message(
    failure: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    counter = Service()
    memory = AutoContextMemory(AutoContextConfig.for_window("4k", token_counter=counter))
    memory.set_overhead("You are an agent.")
    memory.add_messages(conversation(rounds=2))
    memory.to_openai()
    counter.down = failure
    said = memory.get_original_memory_msgs()
    with caplog.at_level(logging.WARNING, "autocontext.passes"):
        for n in range(3):
            memory.add({"role": "user", "content": f"Cancel flight HAT26{n}. " * 400})
            memory.add({"role": "assistant", "content": "Cancelled."})
            assert memory.to_openai()
        memory.set_overhead("You are another agent.")
        assert 0 < memory.token_count <= 4_000
        assert memory.compress_if_needed(force=True).tokens_after <= 4_000
    assert len(memory.get_original_memory_msgs()) == len(said) + 6
    assert [record.getMessage().count("the token counter") for record in caplog.records] == [1]


def test_what_such_a_counter_says_counts_as_it_is() -> None:
    counter = Service()
    problems: list[str] = []
    asked = guarded(counter, problems.append)
    msg = Msg(role="user", content="hello there")
    assert (asked.name, asked.exact) == ("service", True)
    assert (asked.count_text("hello"), asked.count(msg), asked.bound(msg)) == (2, 4, 4)
    counter.down = lambda: 7.2
    assert asked.count(msg) == 8
    assert not problems
    counter.down = lambda: None
    estimate = EstimatingCounter("bytes4")
    assert (asked.count(msg), asked.count_text("hello")) == (estimate.count(msg), estimate.count_text("hello"))
    assert len(problems) == 1


@pytest.mark.parametrize("name", ["o200k_base", "bytes4", "agentscope_java"])
def test_a_counter_of_the_package_is_not_guarded(name: str) -> None:
    assert guarded(get_counter(name), print) is get_counter(name)
