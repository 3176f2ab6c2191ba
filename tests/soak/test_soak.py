"""Random work of processes, threads and forks on all parts of one database, with kills.

Half a minute on each database in CI; `pytest -m soak` runs as long as AUTOCONTEXT_SOAK_SECONDS says (1,800), with eight
processes and fifty threads on PostgreSQL.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.extras import need

need("sql", "crypto", "cloud")

from tests.soak.harness import Findings, interrupt, soak
from tests.stores.homes import home

_MOST_GROWTH = 1.5


def check(findings: Findings) -> None:
    print(findings.operations, findings.refusals, findings.kills, findings.growth)
    assert findings.problems == []
    assert findings.operations["add done"] > 100  # the run goes on until then
    assert all(growth < _MOST_GROWTH for growth in findings.growth)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_random_work_loses_nothing_and_shows_nothing_foreign(kind: str, tmp_path: Path) -> None:
    with home(kind, tmp_path) as url:
        check(soak(url, tmp_path, processes=3, threads=4, seconds=25))


@pytest.mark.soak
def test_a_long_run_on_one_server(tmp_path: Path) -> None:
    seconds = float(os.environ.get("AUTOCONTEXT_SOAK_SECONDS", "1800"))
    with home("postgresql", tmp_path) as url:
        check(soak(url, tmp_path, processes=8, threads=6, seconds=seconds))


def check_interrupts(kind: str, folder: Path, seconds: float) -> None:
    with home("postgresql" if kind == "postgresql" else "file", folder) as url:
        findings = interrupt(url, folder, seconds=seconds, encrypted=kind == "encrypted")
    print(findings.operations, findings.refusals)
    assert findings.problems == []
    assert findings.operations["interrupted"] > seconds


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "encrypted", "postgresql"])
def test_after_random_interrupts_everything_works_and_nothing_is_lost(kind: str, tmp_path: Path) -> None:
    check_interrupts(kind, tmp_path, 8)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["file", "encrypted", "postgresql"])
def test_a_long_run_of_interrupts(kind: str, tmp_path: Path) -> None:
    check_interrupts(kind, tmp_path, float(os.environ.get("AUTOCONTEXT_SOAK_SECONDS", "1800")) / 3)
