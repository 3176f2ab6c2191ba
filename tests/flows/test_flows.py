"""Flows and their two drivers: what goes in, what comes out, what is raised where, in which thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from autocontext import flows


def called(step: Callable[[], Any]) -> Any:
    return step()


async def acalled(step: Callable[[], Any]) -> Any:
    await asyncio.sleep(0)
    return step()


DRIVERS = {
    "sync": lambda flow: flows.run(flow, called),
    "async": lambda flow: asyncio.run(flows.arun(flow, acalled)),
    "threads": lambda flow: asyncio.run(flows.arun(flow, acalled, in_threads=True)),
}
driver = pytest.mark.parametrize("drive", DRIVERS.values(), ids=DRIVERS)


@driver
def test_each_step_is_answered_and_the_end_is_the_result(drive):
    def flow() -> Generator[Any, Any, list[int]]:
        return [(yield lambda: 1), (yield lambda: 2)]

    assert drive(flow()) == [1, 2]


@driver
def test_a_flow_without_steps_gives_its_result(drive):
    def flow() -> Generator[Any, Any, str]:
        yield from ()
        return "done"

    assert drive(flow()) == "done"


@driver
def test_what_a_step_raises_is_raised_in_the_flow_which_may_go_on(drive):
    def flow() -> Generator[Any, Any, tuple[str, int]]:
        try:
            yield lambda: 1 / 0
        except ZeroDivisionError as e:
            return str(e), (yield lambda: 3)
        return "", 0

    assert drive(flow()) == ("division by zero", 3)


@driver
def test_what_the_flow_does_not_catch_reaches_the_caller_after_its_cleaning_up(drive):
    cleaned = []

    def flow() -> Generator[Any, Any, None]:
        try:
            yield lambda: 1 / 0
        finally:
            cleaned.append(True)

    with pytest.raises(ZeroDivisionError):
        drive(flow())
    assert cleaned == [True]


def test_a_cancelled_wait_is_raised_in_the_flow():
    seen: list[BaseException] = []

    def flow() -> Generator[Any, Any, None]:
        try:
            yield None
        except BaseException as e:
            seen.append(e)
            raise

    async def cancel() -> None:
        waiting = asyncio.Event()

        async def never(_: Any) -> None:
            waiting.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(flows.arun(flow(), never))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert [type(e) for e in seen] == [asyncio.CancelledError]


@pytest.mark.parametrize("in_threads", [False, True])
def test_the_flow_leaves_the_loops_thread_only_when_asked_to_and_its_steps_never(in_threads):
    threads = []

    def flow() -> Generator[Any, Any, None]:
        threads.append(threading.current_thread())
        threads.append((yield threading.current_thread))

    asyncio.run(flows.arun(flow(), acalled, in_threads=in_threads))
    main = threading.main_thread()
    assert [thread is main for thread in threads] == [not in_threads, True]


class Doubling:
    """Doubles the number of each step."""

    def _do(self, step: int) -> int:
        return 2 * step

    async def _ado(self, step: int) -> int:
        await asyncio.sleep(0)
        return 2 * step

    def _total(self, *numbers: int, start: int = 0) -> flows.Flow[int]:
        """The sum of the doubled numbers."""
        for number in numbers:
            start += yield number
        return start

    total, atotal = flows.sync_and_async(_total)


def test_one_flow_gives_both_methods_with_its_parameters_and_words():
    assert Doubling().total(1, 2, start=4) == asyncio.run(Doubling().atotal(1, 2, start=4)) == 10
    assert inspect.iscoroutinefunction(Doubling.atotal)
    assert not inspect.iscoroutinefunction(Doubling.total)
    assert [Doubling.total.__qualname__, Doubling.atotal.__qualname__] == ["Doubling.total", "Doubling.atotal"]
    assert Doubling.total.__doc__ == Doubling.atotal.__doc__ == "The sum of the doubled numbers."
    assert list(inspect.signature(Doubling.atotal).parameters) == ["self", "numbers", "start"]
    assert [inspect.signature(method).return_annotation for method in (Doubling.total, Doubling.atotal)] == ["int"] * 2
