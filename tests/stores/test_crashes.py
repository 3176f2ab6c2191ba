"""Processes that are killed, that write at once, that start at once: nothing acknowledged is lost."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.stores.homes import own_schema

ROOT = Path(__file__).parent.parent.parent


def run(job, where, count):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.stores.processes", job, str(where), str(count)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_a_writer_that_is_killed_loses_nothing_it_had_acknowledged(tmp_path, kills):
    assert f"{kills} kills" in run("kills", tmp_path / "agent.db", kills)


@pytest.mark.slow
def test_row_13_a_fork_that_is_killed_is_whole_or_not_there(tmp_path):
    assert "40 kills" in run("forks", tmp_path / "agent.db", 40)


@pytest.mark.slow
def test_row_13_a_fork_that_is_killed_is_whole_or_not_there_in_postgresql():
    with own_schema() as url:
        assert "20 kills" in run("forks", url, 20)


@pytest.mark.slow
def test_eight_processes_on_one_session_in_a_file(tmp_path):
    assert "800 messages" in run("writers", tmp_path / "agent.db", 100)


@pytest.mark.slow
def test_eight_processes_on_one_session_in_postgresql():
    with own_schema() as url:
        assert "800 messages" in run("writers", url, 100)


@pytest.mark.slow
def test_processes_that_start_at_once_never_find_the_file_locked(tmp_path):
    assert "200 start-ups" in run("start-ups", tmp_path / "agent.db", 200)


@pytest.mark.slow
def test_a_full_disk_is_told_and_what_was_stored_stays(tmp_path):
    told = run("full", tmp_path / "agent.db", 1)
    assert told.startswith("StoreError: ")
    assert "full" in told
