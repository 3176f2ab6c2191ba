"""Processes that fork with open databases and memories (gunicorn with preload, multiprocessing): none sees, loses or
waits for what another one has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stores.homes import own_schema

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
ROOT = Path(__file__).parents[2]


def run(job, where, count):
    done = subprocess.run(
        [sys.executable, "-m", "tests.stores.forks", job, str(where), str(count)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{count} children, 0 hung, 0 foreign" in done.stdout
    assert "Traceback" not in done.stderr, done.stderr


@pytest.mark.slow
def test_row_01_children_of_a_process_with_an_open_server_never_meet():
    with own_schema() as url:
        run("server", url, 15)


@pytest.mark.slow
def test_row_01_a_child_that_ends_leaves_the_parents_transactions_alone():
    with own_schema() as url:
        run("tasks", url, 4)


@pytest.mark.slow
def test_the_transaction_of_a_process_that_is_killed_ends_whatever_its_child_does():
    with own_schema() as url:
        run("killed", url, 1)


@pytest.mark.slow
def test_row_08_children_of_a_process_whose_threads_write_a_file_can_write(tmp_path):
    run("threads", tmp_path / "a.db", 20)


@pytest.mark.slow
def test_row_01_children_of_a_process_whose_threads_write_to_a_server_can_write():
    with own_schema() as url:
        run("threads", url, 8)


@pytest.mark.parametrize("count", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_row_08_what_a_child_has_stored_outlives_a_parent_that_closes_the_file(tmp_path, count):
    run("closing", tmp_path / "a.db", count)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["memory", "too-long"])
def test_row_08_a_child_has_a_copy_or_is_told_why_not(tmp_path, job):
    run(job, tmp_path / "a.db", 2)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["objects", "models", "cached"])
def test_row_01_what_else_has_connections_or_threads_is_the_childs_own_or_says_why_not(tmp_path, job):
    run(job, tmp_path / "a.db", 4)


@pytest.mark.slow
def test_row_01_a_fork_that_python_does_not_hear_of(tmp_path):
    run("c", tmp_path / "a.db", 2)
    with own_schema() as url:
        run("c", url, 2)


@pytest.mark.slow
def test_row_08_a_child_does_not_wait_for_a_pass_of_its_parent(tmp_path):
    run("pass", tmp_path / "a.db", 2)


@pytest.mark.slow
def test_forked_processes_have_batch_numbers_of_their_own():
    """Equal ones would let an append of one pass for an earlier attempt of the other's."""
    code = (
        "import os, random\nfrom autocontext.stores.records import _RANDOM_BITS, batch_number\n"
        "random.seed(1)\nbatch_number()\n"
        "pid = os.fork()\n"
        "drawn = [batch_number() % 2**_RANDOM_BITS for _ in range(8)]\n"
        "pid and os.waitpid(pid, 0)\n"
        "print(drawn, flush=True)\nos._exit(0)\n"
    )
    drawn = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    parent, child = drawn.splitlines()
    assert parent != child
    again = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert len({parent, child, *again.splitlines()}) == 4
