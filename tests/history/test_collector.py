"""The garbage collector pauses while much is read, and only then."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.history.collector import collector_paused
from autocontext.history.proposals import Proposal
from autocontext.history.view import View
from autocontext.testing import conversation
from tests.faults.interrupts import interrupted_everywhere

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("messages", "runs"), [(0, True), (999, True), (1_000, False), (50_000, False)])
def test_the_collector_pauses_for_many_messages(messages: int, runs: bool) -> None:
    assert gc.isenabled()
    assert collector_paused(messages, gc.isenabled) is runs
    assert gc.isenabled()


def test_the_collector_runs_again_after_an_error() -> None:
    def broken() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        collector_paused(1_000, broken)
    assert gc.isenabled()


@pytest.mark.parametrize("kept", [False, True])
def test_the_collector_runs_again_after_an_interrupt_at_any_point(kept: bool) -> None:
    def check(_: object) -> None:
        try:
            assert gc.isenabled()
        finally:
            gc.enable()

    def call(_: object) -> None:
        collector_paused(1_000, lambda: sorted([2, 1]))

    assert interrupted_everywhere(gc.enable, call, check, kept=kept) >= 5


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        assert not collector_paused(1_000, lambda: collector_paused(1_000, gc.isenabled))
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no forks")
def test_the_collector_runs_in_a_child_process_of_another_thread() -> None:
    code = (
        "import gc, os, threading\nimport autocontext.memory\n"
        "from autocontext.history.collector import collector_paused\n"
        "paused, forked = threading.Event(), threading.Event()\n"
        "def read():\n    paused.set()\n    forked.wait()\n"
        "thread = threading.Thread(target=collector_paused, args=(1000, read))\n"
        "thread.start()\npaused.wait()\n"
        "pid = os.fork()\n"
        "if not pid:\n    os._exit(not gc.isenabled())\n"
        "failed = os.waitpid(pid, 0)[1] or gc.isenabled()\n"
        "forked.set()\nthread.join()\n"
        "os._exit(bool(failed) or not gc.isenabled())\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


class WatchingCounter:
    """A counter of the user's own, which may wait: the collector has to run meanwhile."""

    name, exact = "watching", False

    def __init__(self) -> None:
        self.paused = False

    def count_text(self, text: str) -> int:
        self.paused |= not gc.isenabled()
        return len(text) // 4

    def count(self, msg: Msg) -> int:
        return self.count_text(msg.text) + 4

    bound = count


@pytest.mark.slow
def test_the_collector_runs_while_a_users_counter_is_asked() -> None:
    counter = WatchingCounter()
    memory = AutoContextMemory(AutoContextConfig(max_token=3_000, msg_threshold=100, token_counter=counter))
    memory.add_messages(conversation(rounds=300))
    assert any(m.origin for m in memory.get_messages())
    assert not counter.paused


@pytest.mark.slow
def test_the_collector_pauses_while_a_pass_plans_on_many_messages() -> None:
    memory = AutoContextMemory(AutoContextConfig(max_token=4_000, msg_threshold=50))
    memory.add_messages(conversation(rounds=400))
    collected: list[str] = []

    def note(phase: str, _info: object) -> None:
        collected.append(phase)

    gc.callbacks.append(note)
    try:
        memory.compress_if_needed()
    finally:
        gc.callbacks.remove(note)
    assert memory.usage.passes == 1
    assert collected.count("start") < 30


@pytest.mark.slow
def test_the_collector_runs_while_a_users_strategy_proposes() -> None:
    class Watching:
        name = "watching"
        runs = False

        def propose(self, view: View) -> list[Proposal]:
            self.runs = gc.isenabled() and len(view) > 1_000
            return []

    watching = Watching()
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, strategies=(watching, "rounds")))
    memory.add_messages(conversation(rounds=400))
    assert memory.compress_if_needed().outcome == "applied"
    assert watching.runs
