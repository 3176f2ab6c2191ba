"""The tour of examples/tour runs as its page says: killed, moved, shrunk, asked about its first hour."""

import subprocess
import sys
from pathlib import Path

import pytest

from autocontext import AutoContextMemory
from autocontext.testing import assert_valid_chat
from tests.extras import need

ROOT = Path(__file__).resolve().parent.parent
TOUR = ROOT / "examples" / "tour" / "tour.py"


@pytest.mark.repo
@pytest.mark.slow
def test_the_tour_ends_with_the_work_done_and_the_first_hour_quoted(tmp_path: Path) -> None:
    need("openai")
    done = subprocess.run(
        [sys.executable, str(TOUR), str(tmp_path)], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  0 modules left; shop/legacy is unchanged: True" in done.stdout
    assert "missing 1 required positional argument: 'country'" in done.stdout
    assert "Never touch shop/legacy, an auditor reads it." in done.stdout
    assert (tmp_path / "train" / "report.html").stat().st_size > 100_000
    with AutoContextMemory.open(tmp_path / "train" / "agent.db", session_id="tax", window="4k") as memory:
        questions = [m for m in memory.get_original_memory_msgs() if m.role == "user"]
        assert len(questions) == 2  # neither the kill nor the move asked one twice
        assert_valid_chat(memory.get_messages())
