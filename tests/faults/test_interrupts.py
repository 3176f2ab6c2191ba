"""The sweep itself: it finds what an interrupt breaks, and raises nowhere but where CPython runs signal handlers."""

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.interrupts import (
    Interrupted,
    cancelled_everywhere,
    interrupted_at_random,
    interrupted_everywhere,
    points_of,
)


class Guarded:
    """A pair that must stay equal, behind a lock that is taken in one of several ways."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.condition = threading.Condition(threading.Lock())
        self.left = self.right = 0

    def with_block(self) -> int:
        with self.lock:
            return len([1])

    def with_loop(self) -> None:
        for _ in range(2):
            with self.lock:
                self.left = int("1")

    def acquired_before_try(self) -> None:
        self.lock.acquire()
        try:
            self.left = 1
        finally:
            self.lock.release()

    def with_condition(self) -> None:
        with self.condition:
            self.left = 1

    def both(self) -> None:
        self.left += len("a")
        self.right += len("a")

    @contextmanager
    def held(self) -> Iterator[None]:
        self.lock.acquire()
        try:
            yield
        finally:
            self.lock.release()

    def with_generator(self) -> None:
        with self.held():
            self.left = 1


def free(guarded: Guarded) -> None:
    assert not guarded.lock.locked()
    assert not guarded.condition._lock.locked()  # type: ignore[attr-defined]


@pytest.mark.parametrize("call", [Guarded.with_block, Guarded.with_loop])
def test_a_c_lock_in_a_with_block_is_always_given_back(call) -> None:
    assert interrupted_everywhere(Guarded, call, free) >= 3
    assert interrupted_everywhere(Guarded, call, free, kept=True) >= 3


@pytest.mark.parametrize("call", [Guarded.acquired_before_try, Guarded.with_condition, Guarded.with_generator])
def test_any_other_way_to_hold_one_is_found_out(call) -> None:
    with pytest.raises(AssertionError):
        interrupted_everywhere(Guarded, call, free)


def test_two_changes_that_belong_together_are_found_apart() -> None:
    def whole(guarded: Guarded) -> None:
        assert guarded.left == guarded.right

    with pytest.raises(AssertionError):
        interrupted_everywhere(Guarded, Guarded.both, whole)


def test_there_are_points_at_entries_after_c_calls_classes_and_loops_and_none_after_python_functions() -> None:
    def called() -> None:
        pass

    class Made:
        def __init__(self) -> None:
            pass

    def work() -> None:
        called()
        len("")
        Made()
        for _ in (1, 2):
            pass

    places = [place.rsplit(", ", 1)[1] for place in points_of(work)]
    assert places == [
        "work: entered",
        "called: entered",
        "work: after len",
        "__init__: entered",
        "work: after CALL",
        "work: after JUMP_BACKWARD",
        "work: after JUMP_BACKWARD",
    ]


def test_real_signals_appear_where_the_sweep_raises() -> None:
    """Every place that a signal was seen at is one of the sweep's, or inside a C call that waits."""
    places: set[tuple[str, int]] = set()

    def work() -> None:
        guarded = Guarded()
        for _ in range(10):
            guarded.with_block()
            guarded.both()

    def handler(_signal: int, frame: object) -> None:
        places.add((frame.f_code.co_name, frame.f_lineno))  # type: ignore[attr-defined]

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for n in range(600):  # one at a time: on a busy machine a handler would be interrupted by the next signal
            signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + n % 60))
            work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        time.sleep(0.001)  # the last signal finds its handler
        signal.signal(signal.SIGALRM, before)
    assert places
    swept = {place.split(": ")[0].rsplit(":", 1)[1] for place in points_of(work)}
    known = {(name, int(line)) for line, name in (place.split(", ") for place in swept)}
    ours = {code.co_name for code in (Guarded.with_block.__code__, Guarded.both.__code__)}
    assert {place for place in places if place[0] in ours} <= known


@pytest.mark.slow
def test_a_lock_in_a_with_block_survives_real_signals() -> None:
    def call(guarded: Guarded) -> None:
        for _ in range(300):
            guarded.with_block()

    interrupted_at_random(Guarded, call, free, strikes=100, seed=1)


def test_a_cancellation_at_every_await() -> None:
    seen: list[int] = []

    async def work(done: list[int]) -> None:
        for n in range(3):
            await asyncio.sleep(0)
            done.append(n)

    assert cancelled_everywhere(list, work, lambda done: seen.append(len(done))) == 3
    assert seen == [3, 0, 1, 2, 3]


def test_an_error_that_is_not_the_interrupt_is_told() -> None:
    def call(_: object) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        interrupted_everywhere(object, call, lambda _: None)
    assert issubclass(Interrupted, KeyboardInterrupt)
