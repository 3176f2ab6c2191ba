"""A pass costs as much as what is new and what its notes consider, however long the session is."""

import pytest

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.testing import conversation
from tests.costs import python_calls


@pytest.mark.slow
def test_a_pass_costs_the_same_in_a_long_session() -> None:
    """Notes consider the newest 1,000 calls, so it is compared from there on. What a search for old values takes is no
    part of a pass."""

    def cost(length: int) -> int:
        messages = conversation(rounds=length // 6 + 34, tools_per_round=2, chars=40)
        memory = AutoContextMemory(AutoContextConfig.for_window(4_000, recall=False))
        memory.add_messages(messages[:length])
        memory.get_messages()
        memory.add_messages(messages[length : length + 200])
        calls = python_calls(memory.get_messages)
        assert memory.usage.passes == 2
        return calls

    assert cost(6_000) < 1.03 * cost(3_000)
