"""Which test file runs in which environment, and which environment this is."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "main": (
        "test_langchain.py",
        "test_langchain_messages.py",
        "test_langchain_state.py",
        "test_openai_agents.py",
        "test_openai_agents_session.py",
        "test_pydantic_ai.py",
        "test_pydantic_ai_history.py",
        "test_pydantic_ai_runs.py",
        "test_anthropic.py",
        "test_anthropic_compaction.py",
        "test_agentscope_v2.py",
        "test_agentscope_v2_state.py",
        "test_agent_framework.py",
        "test_agent_framework_seats.py",
        "test_mcp_server.py",
        "test_every_part.py",
        "test_killed.py",
        "test_ended_by_a_tool.py",
    ),
    "agentscope1": ("test_every_part_agentscope_v1.py", "test_agentscope_v1.py", "test_agentscope_v1_memory.py"),
    "mcp2": ("test_mcp_2.py",),
}
EXAMPLES: dict[str, tuple[str, ...]] = {
    "main": (
        "langchain_agent.py",
        "openai_agents_agent.py",
        "pydantic_ai_agent.py",
        "agentscope_v2_agent.py",
        "agent_framework_agent.py",
        "mcp_client.py",
    ),
    "agentscope1": ("agentscope_v1_agent.py",),
    "mcp2": ("mcp_client.py",),
}
"""Scripts of examples/ that need a framework."""


def current() -> str | None:
    """The environment's name when this interpreter is one of `.venv-adapters/`."""
    prefix = Path(sys.prefix)
    return prefix.name if prefix.parent.name == ".venv-adapters" and prefix.name in ENVIRONMENTS else None


def elsewhere() -> dict[str, str]:
    """The test files that do not run here, each with the environment in which it does."""
    here = current()
    return {file: name for name, files in ENVIRONMENTS.items() for file in files if name != here}
