"""Interrupts at every point of a call at which CPython runs signal handlers, at random ones, and at every await.

CPython runs a handler in the main thread at a function's entry, at a jump backwards, after the call of anything that is
not a Python function, and inside C calls that wait; what the handler raises appears there. `with lock:` of a C lock has
no such point between taking the lock and the block, and none between the block and the release. The sweep raises at
those points alone, and so that the same exception handlers see it as would then.
"""

import asyncio
import dis
import itertools
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from functools import cache
from inspect import isawaitable
from types import CodeType, FrameType
from typing import Any, TypeVar

from tests.faults.script import Fault, cancel_this_task, stepped

S = TypeVar("S")

HANG = 120.0
"""Seconds after which a call counts as hanging."""
_CALLS = ("CALL", "CALL_KW")
_REACHED_THROUGH_C = frozenset({"__init__", "__new__", "__call__", "__post_init__"})
"""Python functions that the call of a class, or of an object with `__call__`, reaches."""
_WAITING = frozenset({"acquire", "sleep", "select", "poll"})
"""C functions that run signal handlers while they wait."""


class Interrupted(KeyboardInterrupt):
    """What a signal handler raises, as for Ctrl-C."""


class Alarm(Exception):
    """What a handler of SIGALRM raises that only wants to end a call."""


# ------------------------------------------------------------------------------------------------ at every point
def interrupted_everywhere(
    make: Callable[[], S],
    call: Callable[[S], object],
    check: Callable[[S], object],
    *,
    samples: int | None = None,
    error: type[BaseException] = Interrupted,
    kept: bool = False,
) -> int:
    """Interrupt `call` at each point, or at `samples` of them, each time on a fresh state, and check that state.

    `check` runs in another thread, which must not hang. With `kept`, the traceback, and all that it holds, lives until
    the check is done, as in an interactive session. Returns the number of interrupts.
    """
    for _ in range(2):  # what is imported or cached by the first run is no matter of the others
        state, point = make(), _Point(0, error)
        point.run(lambda state=state: call(state))
        _checked(check, state, "without an interrupt")
    step = max(1.0, point.seen / samples) if samples else 1.0
    struck = 0
    for n in map(int, itertools.count(max(1.0, step / 2), step)):
        state, point = make(), _Point(n, error)
        raised = point.run(lambda state=state: call(state))
        if not point.struck:
            break
        struck += 1
        if not kept:
            raised = None
        _checked(check, state, f"after an interrupt at point {n}, {point.place}")
        del raised
    return struck


def points_of(call: Callable[[], object]) -> list[str]:
    """The places of a call where it can be interrupted, in order."""
    point = _Point(0, Interrupted)
    point.places = []
    point.run(call)
    return point.places


class _Point:
    """Raises at the n-th point that this thread comes to; counts all of them."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        self.at, self.seen, self._error = at, 0, error
        self._raised: BaseException | None = None
        self._called: dict[FrameType, int] = {}
        """By frame, the last instruction if there may be a point after it, else -1."""
        self.place = ""
        self.places: list[str] | None = None
        # One object each for the whole run: CPython 3.11 borrows what it calls, and a bound method that is made anew
        # for each event could be freed meanwhile, its memory be another's ("'traceback' object is not callable").
        self._tracer, self._profiler = self._trace, self._profile

    @property
    def struck(self) -> bool:
        return self._raised is not None

    def run(self, call: Callable[[], object]) -> BaseException | None:
        """Run the call and return what it raised; an error that does not come from the interrupt is raised here."""
        before = sys.gettrace(), sys.getprofile(), sys.unraisablehook
        sys.unraisablehook = lambda _: None  # C code may swallow an interrupt
        sys.settrace(self._tracer)
        sys.setprofile(self._profiler)
        try:
            call()
        except BaseException as e:
            sys.setprofile(None)
            sys.settrace(None)
            if not _comes_from(e, self._raised):
                raise
            return e
        finally:
            sys.setprofile(before[1])
            sys.settrace(before[0])
            sys.unraisablehook = before[2]
            self._called.clear()
        return None

    def _point(self, frame: FrameType, what: str) -> None:
        if self.struck:
            return
        self.seen += 1
        if self.places is not None:
            self.places.append(_place(frame, what))
        if self.seen == self.at:
            if _swallowed(frame):
                self.at += 1
                return
            self.place = _place(frame, what)
            self._raised = self._error(self.place)
            raise self._raised

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        """C functions: an error that is raised here is the call's own."""
        if frame.f_code.co_filename == __file__:
            return
        name = getattr(arg, "__name__", type(arg).__name__)
        if event == "c_return":
            if frame in self._called:
                self._called[frame] = -1
            self._point(frame, f"after {name}")
        elif event == "c_call" and name in _WAITING:
            self._point(frame, f"waiting in {name}")

    def _trace(self, frame: FrameType, event: str, _arg: Any) -> Any:
        """Functions entered, jumps backwards, and calls of classes and objects."""
        code = frame.f_code
        if code.co_filename == __file__:
            return None
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            self._entered(frame)
        elif event == "opcode":
            self._instruction(frame)
        elif event == "return":
            self._called.pop(frame, None)
        return self._tracer

    def _entered(self, frame: FrameType) -> None:
        code, caller = frame.f_code, frame.f_back
        if caller is not None and self._called.get(caller, -1) >= 0 and code.co_name not in _REACHED_THROUGH_C:
            inlined = _names(caller.f_code)[self._called[caller]] in _CALLS or sys.version_info >= (3, 12)
            if inlined:  # the interpreter does not look after the return of a Python function
                self._called[caller] = -1
        if code.co_code[frame.f_lasti + 1] < 2:  # not when it goes on after an await
            self._point(frame, "entered")

    def _instruction(self, frame: FrameType) -> None:
        code, here = frame.f_code, frame.f_lasti
        last = self._called.get(frame, -1)
        name = _names(code)[here]
        self._called[frame] = here if name in _CALLS or name == "CALL_FUNCTION_EX" or _backward(name) else -1
        if last < 0:
            return
        came = _names(code)[last]
        # An error after an instruction is raised by that instruction. Here it would be by the next one, which is the
        # same if the same handler guards both, and is left out if not: then it ends `with` blocks, as any other would.
        if (not _backward(came) or here < last) and _handler(code, last) == _handler(code, here):
            self._point(frame, f"after {came}")


def _place(frame: FrameType, what: str) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_name}: {what}"


def _swallowed(frame: FrameType | None) -> bool:
    """Whether the interpreter would only print an error of this frame: no caller of the code could see it."""
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename.endswith(("weakref.py", "_weakrefset.py")):
            return True
        frame = frame.f_back
    return False


def _comes_from(error: BaseException | None, interrupt: BaseException | None) -> bool:
    """Whether the error is the interrupt, or was raised while that was handled."""
    seen: set[int] = set()
    todo = [error]
    while todo:
        e = todo.pop()
        if e is not None and e is interrupt:
            return True
        if e is not None and id(e) not in seen:
            seen.add(id(e))
            todo += [e.__context__, e.__cause__, *getattr(e, "exceptions", ())]
    return False


def _backward(name: str) -> bool:
    return "JUMP_BACKWARD" in name and "NO_INTERRUPT" not in name


@cache
def _names(code: CodeType) -> dict[int, str]:
    return {i.offset: i.opname for i in dis.get_instructions(code)}


@cache
def _handlers(code: CodeType) -> list[Any]:
    return list(dis._parse_exception_table(code))  # type: ignore[attr-defined]  # the only reader of it


def _handler(code: CodeType, offset: int) -> tuple[int, int] | None:
    return next(((h.target, h.depth) for h in _handlers(code) if h.start <= offset < h.end), None)


# --------------------------------------------------------------------------------------------------- at random ones
def interrupted_at_random(
    make: Callable[[], S],
    call: Callable[[S], object],
    check: Callable[[S], object],
    *,
    strikes: int,
    seed: int,
    error: type[BaseException] = Interrupted,
) -> None:
    """Interrupt `call` by real signals, each at a random time of its course, until `strikes` of them found it at work.

    How long a call takes is measured here, again after each that no signal found: machines differ.
    """
    at, struck = random.Random(seed), 0
    for _ in range(2):  # what is imported or cached by the first run is no matter of the others
        state, began = make(), time.perf_counter()
        call(state)
        lasts = time.perf_counter() - began
        _checked(check, state, "without an interrupt")
    raised: list[BaseException] = []
    armed = False

    def handler(_signal: int, frame: FrameType | None) -> None:
        nonlocal armed
        if armed and not _swallowed(frame):
            armed = False
            raised.append(error())
            raise raised[-1]

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for n in itertools.count():
            if struck == strikes:
                break
            assert n < 50 * strikes, f"of {n} signals {struck} found a call that takes {lasts:.6f} s"
            state, delay = make(), at.uniform(1e-6, lasts)
            raised.clear()
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, delay)
                began = time.perf_counter()
                call(state)
                lasts = time.perf_counter() - began
                armed = False
            except BaseException as e:
                if not _comes_from(e, raised[-1] if raised else None):
                    raise
            finally:
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
            struck += bool(raised)
            raised.clear()
            _checked(check, state, f"in round {n}, after a signal at {delay:.6f} s")
    finally:
        signal.signal(signal.SIGALRM, before)


# ------------------------------------------------------------------------------------------------- at every await
def cancelled_everywhere(
    make: Callable[[], S],
    work: Callable[[S], Coroutine[Any, Any, object]],
    check: Callable[[S], object],
    *,
    step: int = 1,
) -> int:
    """Cancel a coroutine at its first, then every `step`-th await, each on a fresh state, and check that state.

    `make` and `check` may be coroutine functions; a `check` that is not runs in another thread. Neither may hang.
    Returns the number of cancellations.
    """
    asyncio.run(_cancelled(make, work, check, 0))
    n = 1
    while asyncio.run(_cancelled(make, work, check, n)):
        n += step
    return (n - 1) // step


async def _cancelled(
    make: Callable[[], Any], work: Callable[[Any], Coroutine[Any, Any, object]], check: Callable[[Any], Any], at: int
) -> bool:
    made = make()
    state = await made if isawaitable(made) else made
    fault = Fault(at, cancel_this_task)
    task = asyncio.ensure_future(stepped(work(state), fault))
    await asyncio.wait([task], timeout=HANG)
    assert task.done(), f"hangs after it was cancelled at await {at}"
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
    try:
        if asyncio.iscoroutinefunction(check):
            await asyncio.wait_for(check(state), HANG)
        else:
            await asyncio.wait_for(asyncio.to_thread(check, state), HANG)
    except BaseException as e:
        e.add_note(f"after a cancellation at await {at}")
        raise
    return fault.struck


# ----------------------------------------------------------------------------------------------------------- inner
def _checked(check: Callable[[S], object], state: S, when: str) -> None:
    """Check a state in another thread, since this one may hold a lock that nobody gives back."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            check(state)
        except BaseException as e:  # noqa: BLE001 (raised where it is waited for)
            errors.append(e)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(HANG)
    if thread.is_alive():
        stack = sys._current_frames().get(thread.ident or 0)
        raise AssertionError(f"the check hangs {when}\n{''.join(traceback.format_stack(stack))}")
    for e in errors:
        e.add_note(when)
        raise e
