"""The programs of the frameworks' pages, killed inside a tool and started again."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autocontext import AutoContextMemory
from autocontext.tools import INSTRUCTIONS
from scripts.run_doc_blocks import blocks
from tests.fakes.page_server import servers

ROOT = Path(__file__).parents[3]
PAGES = {
    "agent-framework": "agent_framework",
    "agentscope": "agentscope",
    "anthropic": "anthropic",
    "langchain": "langchain",
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai",
}
"""Pages with a program that goes on after a crash, and the module that it needs."""
QUESTION, DEADLY_DAY, LAST = "Which disks failed?", 3, 7
_TOOL = 'return f"day {day}:'
_KILL = f"day == {DEADLY_DAY} and sys.argv[1:] and os.kill(os.getpid(), signal.SIGKILL)\n    "


def program(page: str) -> str:
    """A page's first block; an argument makes it deadly."""
    return "import os, signal, sys\n" + next(blocks(page)).code.replace(_TOOL, _KILL + _TOOL)


def run(source: str, *arguments: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", source, *arguments], cwd=folder, check=False, timeout=60,
        capture_output=True, text=True, env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_program_of_a_page_goes_on_after_it_was_killed_in_a_tool(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(PAGES[name]) is None:
        pytest.skip(f"{PAGES[name]} is not installed")
    source = program((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"))
    with servers(LAST) as environment:  # it refuses what the services refuse
        place: dict[str, Any] = {"folder": tmp_path, "environment": environment}
        assert (killed := run(source, "kill", **place)).returncode == -signal.SIGKILL, killed.stderr
        done = run(source, **place)
        assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{LAST} logs read, the newest alert: day {LAST}: ALERT")
    with AutoContextMemory.open(tmp_path / "agent.db", session_id="42") as memory:
        originals = memory.get_original_memory_msgs()
    assert [m.text for m in originals if m.role == "user" and m.text] == [QUESTION]
    days = [use.input["day"] for m in originals for use in m.tool_uses]
    assert days == [*range(1, DEADLY_DAY + 1), *range(DEADLY_DAY, LAST + 1)], "only the interrupted call is made again"


def test_the_memory_counts_what_each_request_has_besides(tmp_path: Path) -> None:
    pytest.importorskip("anthropic")
    source = program((ROOT / "docs" / "anthropic.md").read_text(encoding="utf-8"))
    with servers(LAST) as environment:
        done = run(f"{source}\nprint(memory.count([]))", folder=tmp_path, environment=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) > len(INSTRUCTIONS) // 4, "system text and schemas are counted"
