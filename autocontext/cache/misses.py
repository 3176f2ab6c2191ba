"""What happens on a miss, a flow for threads and coroutines; `Computing` runs it, also in the background.

Callers in one process share a computation through a flight, processes share it through a lease. One caller computes and
stores, which ends both. If it cannot, `watching` ends them.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from autocontext import flows
from autocontext.cache import leases
from autocontext.cache.canonical import CacheKey
from autocontext.cache.flights import Flight, FlightResult, FlightState, Owner, detach
from autocontext.cache.invalidating import ToolCall, noting
from autocontext.cache.leases import Claim
from autocontext.cache.namespace import CacheEntry, CacheNamespace, without_call_fields
from autocontext.cache.options import CacheOptions
from autocontext.cache.rows import fits, storing
from autocontext.cache.steps import computed, slow
from autocontext.cache.values import encoded, encoded_error
from autocontext.cache.watching import Flights
from autocontext.errors import AutoContextError, CacheCycle, StoreError, UncacheableError
from autocontext.flows import Flow, Operation, compute, operation
from autocontext.stores.database import Database, Read, Work, Write

_FIRST_PAUSE, _LAST_PAUSE = 0.002, 0.05
"""Seconds between checks of another process's lease."""
_CIRCLE = 0.5
"""Seconds that two computations wait for each other before that is an error: one may give up and say so later."""

MakeFunction: TypeAlias = Callable[[], Callable[[], Any]]
"""Returns the function to call, arguments included; only a miss asks for it."""


class CachedCall(NamedTuple):
    """One call whose result is looked up; on a miss it computes it, or waits for the caller that does."""

    key: CacheKey
    make: MakeFunction
    options: CacheOptions
    namespace: CacheNamespace
    flights: Flights
    known: int | None = None
    """Creation time (milliseconds since 1970) of an entry that does not count."""
    in_background: bool = False
    """Answer at once, and give up instead of waiting."""
    tool_call: ToolCall | None = None
    """The tool call that asks, to be noted."""


_Settled: TypeAlias = tuple[FlightResult, Callable[[], Work[bool]] | None]


def miss(call: CachedCall, owner: Owner) -> Flow[FlightResult]:
    """The flow of a miss; `owner` runs it."""
    while True:
        flight, leads = call.flights.join(call.namespace, str(call.key), owner)
        if leads:
            result = FlightResult(FlightState.GIVEN_UP)
            try:
                result = yield from _lead(call, flight)
            finally:
                call.flights.end(flight, result)
            if result.state is FlightState.GIVEN_UP and not call.in_background:
                continue
            return result
        if call.in_background:
            return FlightResult(FlightState.GIVEN_UP)
        if flight.is_around():
            call.namespace.count("computed")
            return (yield from _compute(computed(call.make(), flight)))
        if flight.granted is not None and flight.leased and not (yield Read(partial(leases.running, flight.holder))):
            # It was invalidated: its result is only for earlier callers.
            call.flights.leave(flight)
            continue
        asked = flight.asked
        with flight.needed_by(owner):
            shared: FlightResult | None = yield Operation(flight.wait, flight.await_)
        if shared is not None and flight.granted is None and flight.asked <= asked:
            continue  # its leader read a result before this caller came, and that may be invalidated since
        if shared is None or shared.state is FlightState.PRIVATE:
            call.namespace.count("computed")
            return (yield from _compute(computed(call.make())))
        if shared.state is not FlightState.GIVEN_UP:
            call.namespace.count("waited")
            return shared


def _refresh(call: CachedCall, owner: Owner) -> Flow[FlightResult]:
    """The flow of a miss in the background. Nobody waits for it: the first call after expiry computes itself."""
    detach()
    try:
        result = yield from miss(call, owner)
    except Exception as error:  # noqa: BLE001 (nobody would see it)
        result = FlightResult(FlightState.ERROR, value=error)
    if result.state is FlightState.ERROR:
        call.namespace.count("refresh_failed")
    return result


def _flow(call: CachedCall, owner: Owner) -> Flow[FlightResult]:
    return _refresh(call, owner) if call.in_background else miss(call, owner)


def value_of(result: FlightResult) -> Any:
    """The value of a result, a new copy for each caller; raises the exception that the computation ended with."""
    if result.state is FlightState.ERROR:
        raise result.value
    return result.value if result.state is FlightState.PRIVATE else json.loads(result.body)


def _lead(call: CachedCall, flight: Flight) -> Flow[FlightResult]:
    namespace = call.namespace
    claim = Claim(call.key, tuple(call.options["tags"]), flight.holder, call.known, call.in_background)
    stored = None
    try:
        stored = yield from _ask(call, flight, claim)
    except CacheCycle as error:
        return FlightResult(FlightState.ERROR, value=error)
    except StoreError as error:
        if call.in_background:
            raise
        namespace.failed(error)  # the caller gets its result all the same
        flight.leased = False
    if stored is not None:
        flight.settled = True
        return stored
    start = flight.granted = time.monotonic()
    namespace.count("computed")
    result = yield from _compute(computed(call.make(), flight))
    cost = time.monotonic() - start
    settled: _Settled = yield slow(lambda: _settle(call, claim, result, cost), result.value)
    shared, store = settled
    if flight.leased:
        try:
            ended = yield Write(store or (lambda: leases.give_back(namespace.text, claim)))
            flight.settled = True
            if store and ended:
                namespace.count("stored")
        except AutoContextError as error:  # also a table that is gone or damaged; `watching` gives the lease back
            if store:
                namespace.failed(error)
    return shared


def _compute(step: Operation) -> Flow[FlightResult]:
    try:
        return FlightResult(FlightState.PRIVATE, value=(yield step))
    except Exception as error:  # noqa: BLE001 (a result like any other, raised again for each caller)
        return FlightResult(FlightState.ERROR, value=error)


def _ask(call: CachedCall, flight: Flight, claim: Claim) -> Flow[FlightResult | None]:
    """Wait until this caller may compute (None), or there is a result. Raises CacheCycle."""
    namespace = call.namespace

    def ask(claim: Claim) -> Work[CacheEntry | bool]:
        reply = yield from leases.ask(namespace, claim, lambda: flight.outcome is None)
        if reply is True and call.tool_call is not None:
            # Once more: what has cleared the cache, or deleted the session, since it was noted has ended no lease.
            yield from noting(namespace, call.key, call.tool_call)
        return reply

    while True:
        flight.asked += 1
        reply: CacheEntry | bool = yield Write(partial(ask, claim))
        if reply is True:
            return None
        if isinstance(reply, CacheEntry):
            stored = yield from compute(partial(_stored, call, reply))
            if stored is not None:
                namespace.count("waited")
                return stored
            # An exception that this caller does not expect, or a text that cannot be read: it counts as absent.
            claim = claim._replace(known=reply.created)
        elif claim.renews:
            return FlightResult(FlightState.GIVEN_UP)
        else:
            yield from _wait_for_lease(flight, claim)


def _wait_for_lease(flight: Flight, claim: Claim) -> Flow[None]:
    """Wait until the lease may be free. Raises CacheCycle if its holder waits for us in turn."""
    pause, circle = _FIRST_PAUSE, 0.0
    while True:
        ours = [other.holder for other in flight.needing() if other.granted is not None]
        look: tuple[str, bool] = yield Read(partial(leases.look, flight.namespace, claim, ours))
        flight.waits_for, needs_us = look
        if not flight.waits_for:
            return
        if circle > _CIRCLE:
            raise flight.cycle_with("one that another process computes")
        length = pause * (0.5 + random.random() / 2)
        yield operation(time.sleep, asyncio.sleep, length)
        circle = circle + length if needs_us else 0.0
        pause = min(2 * pause, _LAST_PAUSE)


def _stored(call: CachedCall, entry: CacheEntry) -> FlightResult | None:
    match = call.namespace.match(entry, call.options)
    if match is None:
        return None
    if match.entry.kind == "error":
        return FlightResult(FlightState.ERROR, value=match.result)
    return FlightResult(FlightState.VALUE, match.entry.text())


def _settle(call: CachedCall, claim: Claim, result: FlightResult, cost: float) -> _Settled:
    """The result as all callers get it, and what stores it, if anything is to; `cost` is in seconds."""
    options, namespace = call.options, call.namespace
    is_error = result.state is FlightState.ERROR
    if is_error and (call.in_background or not isinstance(result.value, options["cache_exceptions"])):
        return result, None
    try:
        value = without_call_fields(result.value, options["per_call"])
        body = encoded_error(value) if is_error else encoded(value)
    except UncacheableError:
        namespace.count("uncacheable")
        return result, None
    shared = result if is_error else FlightResult(FlightState.VALUE, body)
    entry = namespace.entry(call.key, "error" if is_error else "value", body, options, cost=cost)
    if not fits(namespace, entry) or (value is None and not options["cache_none"]):
        return shared, None
    return shared, storing(namespace, entry, claim)


_CLOSING = 5.0
"""Seconds that closing waits for computations in the background."""
_IN_BACKGROUND = 8
"""Results of a cache that are recomputed in the background at a time; others are due at their next hit."""


class Computing:
    """Runs the misses of one cache."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.flights = Flights.of(database)
        self._threads: set[threading.Thread] = set()
        self._tasks: set[asyncio.Task[FlightResult]] = set()

    def wait(self) -> None:
        """Wait up to five seconds for each thread in the background, and give back what was abandoned."""
        for thread in list(self._threads):
            if thread.is_alive():
                thread.join(_CLOSING)
        self.flights.settle()

    async def await_(self) -> None:
        """Wait up to five seconds for the tasks in the background, then `wait`."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_CLOSING)
        await asyncio.to_thread(self.wait)

    def miss(self, call: CachedCall) -> FlightResult:
        """Compute a result, or wait for it.

        In a generator: when it is not running any more it has ended, whatever has happened.
        """
        owner = Owner()
        owner.runs = (flows.run(flow, self._database.do) for flow in [_flow(call, owner)])
        result: FlightResult = next(owner.runs)
        owner.runs = None
        return result

    async def amiss(self, call: CachedCall) -> FlightResult:
        """`miss` in a coroutine."""
        owner = Owner()
        owner.runs = flows.arun(_flow(call, owner), self._database.ado)
        result: FlightResult = await owner.runs
        owner.runs = None
        return result

    def refresh(self, call: CachedCall) -> None:
        """`miss` in a thread of its own, for a call in the background."""
        # An interrupt may have kept one from starting, so those that live are counted.
        self._threads = {thread for thread in self._threads if thread.is_alive()}
        if len(self._threads) < _IN_BACKGROUND:
            thread = threading.Thread(target=self.miss, args=(call,), name="autocontext cache", daemon=True)
            self._threads.add(thread)
            thread.start()

    async def arefresh(self, call: CachedCall) -> None:
        """`miss` in a task of its own, for a call in the background."""
        if len(self._tasks) < _IN_BACKGROUND:
            task = asyncio.get_running_loop().create_task(self.amiss(call))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
