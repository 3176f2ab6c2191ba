"""The wall clock jumps, back and forth, by seconds and by days: nothing is lost, nothing waits, order stays."""

from __future__ import annotations

import pytest

from autocontext.cache import ResultCache
from tests.faults import preloaded
from tests.stores.homes import home

pytestmark = pytest.mark.slow


def run(job, tmp_path, where, rounds=1):
    (tmp_path / "clock").write_bytes(bytes(8))
    return preloaded.run("clock", "clock_worker", job, where, rounds, 0, CLOCK_FILE=tmp_path / "clock")


@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_what_is_done_in_all_parts_does_not_depend_on_the_clock(kind, tmp_path):
    with home(kind, tmp_path) as where:
        print(run("lives", tmp_path, where, 12))


def test_a_session_ends_only_by_the_clock_of_who_purges(tmp_path):
    assert run("ends", tmp_path, tmp_path / "agent.db") == "1 ended\n"


def test_the_lease_of_a_dead_process_ends_though_the_clock_was_set_back(tmp_path):
    assert run("dead lease", tmp_path, tmp_path / "agent.db") == "computed\n"


def test_a_result_stored_while_the_clock_was_ahead_does_not_outlive_its_ttl_by_that(tmp_path):
    ahead = [3_600.0]
    cache = ResultCache(tmp_path / "agent.db", namespace="n", clock=lambda: 1_800_000_000.0 + ahead[0])
    assert cache.get_or_compute("count", {}, lambda: 1, ttl=60) == 1
    ahead[0] = 0.0
    assert cache.get_or_compute("count", {}, lambda: 2, ttl=60) == 2
    cache.close()
