"""A process stopped inside a transaction for longer than all that waits: others go on, then it does, nothing twice."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.faults.preloaded import ROOT
from tests.stores.homes import own_schema

pytestmark = pytest.mark.slow


def run(where: object, rounds: int) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.faults.stopped_worker", str(where), str(rounds)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_process_that_is_stopped_holds_a_file_up_for_the_patience_of_others_only(tmp_path):
    told = run(tmp_path / "agent.db", 20)
    print(told)
    assert "while it is stopped: StoreError: other processes kept it locked for 0.3 s" in told


def test_a_process_whose_transaction_the_server_ended_meanwhile_stores_once():
    with own_schema() as url:
        print(run(f"{url}%20-cidle_in_transaction_session_timeout%3D200", 6))
