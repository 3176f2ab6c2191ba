"""AgentScope 1's memory, as `turn` measures it: it gives its messages and checks nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agentscope.memory import InMemoryMemory
from agentscope.message import Msg
from chat import Chat, content_text


def in_memory(chat: list[Chat]) -> Callable[[], object]:
    """InMemoryMemory.get_memory."""
    memory = InMemoryMemory()
    messages = [
        Msg(m["role"], content_text(m), m["role"] if m["role"] in ("assistant", "system") else "user") for m in chat
    ]
    asyncio.run(memory.add(messages))
    return memory.get_memory


CHECKS = {"agentscope 1 InMemoryMemory, no check": in_memory}
