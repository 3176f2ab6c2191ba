"""The garbage collector pauses while much is read, and only then."""

import gc

import pytest

from autocontext.history.collector import collector_paused


@pytest.mark.parametrize(("messages", "runs"), [(0, True), (999, True), (1_000, False), (50_000, False)])
def test_the_collector_pauses_for_many_messages(messages: int, runs: bool) -> None:
    assert gc.isenabled()
    with collector_paused(messages):
        assert gc.isenabled() is runs
    assert gc.isenabled()


def test_the_collector_runs_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="broken"), collector_paused(1_000):
        raise ValueError("broken")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused(1_000), collector_paused(1_000):
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
