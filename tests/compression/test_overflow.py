"""A view over the window leaves with a warning, and not at all where it must fit."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.errors import ContextOverflowError
from autocontext.testing import conversation, system

WAYS: dict[str, Callable[..., Any]] = {
    "to_openai": AutoContextMemory.to_openai,
    "to_responses": AutoContextMemory.to_responses,
    "to_anthropic": AutoContextMemory.to_anthropic,
    "ato_openai": lambda memory, **how: asyncio.run(memory.ato_openai(**how)),
    "ato_responses": lambda memory, **how: asyncio.run(memory.ato_responses(**how)),
    "ato_anthropic": lambda memory, **how: asyncio.run(memory.ato_anthropic(**how)),
}


def memory_with(system_tokens: int, *, background: bool = False) -> AutoContextMemory:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, background=background))
    memory.add_messages([system("rule " * system_tokens), *conversation(rounds=3)])
    return memory


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "autocontext.passes" and r.levelno == logging.WARNING]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("background", [False, True])
def test_a_view_over_the_window_is_warned_of_once_and_strict_raises(
    way: str, background: bool, caplog: pytest.LogCaptureFixture
) -> None:
    memory = memory_with(5_000, background=background)
    for _ in range(3):
        assert WAYS[way](memory)
    told = warnings(caplog)
    assert len(told) == 1
    for word in (memory.session.session_id, "more than max_token (4000)", "the system message", "larger window"):
        assert word in told[0]
    with pytest.raises(ContextOverflowError, match="the system message"):
        WAYS[way](memory, strict=True)
    assert "the system message" in memory.overflow()


def test_a_view_that_fits_again_and_not_is_warned_of_again(caplog: pytest.LogCaptureFixture) -> None:
    memory = memory_with(100)
    assert memory.to_openai(strict=True)
    for _ in range(2):
        memory.set_overhead("schema " * 5_000)
        memory.to_openai()
        memory.set_overhead()
        assert memory.to_openai(strict=True)
    assert len(warnings(caplog)) == 2
    assert "the system text and tool schemas" in warnings(caplog)[0]


@given(st.integers(3_000, 4_600))
def test_strict_raises_exactly_when_the_view_is_over_the_window(size: int) -> None:
    memory = memory_with(size)
    try:
        memory.to_openai(strict=True)
    except ContextOverflowError:
        assert memory.token_count > 4_000
    else:
        assert memory.token_count <= 4_000
