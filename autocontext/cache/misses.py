"""What happens on a miss, written once for threads and coroutines as a flow of steps, which `computing` runs.

Callers in one process share a computation through a flight, processes share it through a lease. One caller computes and
stores, and then ends both, whatever happens.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from autocontext.cache import leases
from autocontext.cache.canonical import CacheKey
from autocontext.cache.flights import Flight, FlightResult, Flights, FlightState
from autocontext.cache.leases import Claim, LeaseReply, LeaseState
from autocontext.cache.namespace import CacheEntry, CacheNamespace, Target, without_call_fields
from autocontext.cache.options import CacheOptions
from autocontext.cache.storing import fits, storing
from autocontext.cache.values import encoded, encoded_error
from autocontext.errors import CacheCycle, UncacheableError
from autocontext.stores.database import Read, Write

_FIRST_PAUSE, _LAST_PAUSE = 0.002, 0.05
"""Seconds between checks of another process's lease."""


MakeFunction: TypeAlias = Callable[[], Callable[[], Any]]
"""Returns the function to call, arguments included; only a miss asks for it."""


class CachedCall(NamedTuple):
    """One call whose result is looked up."""

    key: CacheKey
    target: Target
    make: MakeFunction
    options: CacheOptions
    namespace: CacheNamespace
    flights: Flights

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the result."""
        return tuple(self.options["tags"])


class Pause(NamedTuple):
    """Wait for some seconds."""

    seconds: float


class WaitFor(NamedTuple):
    """Wait for the result of a flight. The answer is None if waiting would never end."""

    flight: Flight


class Compute(NamedTuple):
    """Call the function, as part of a flight if there is one."""

    fn: Callable[[], Any]
    flight: Flight | None = None


class SlowCall(NamedTuple):
    """Call a function that is slow if `about` is large; then asynchronous code calls it in a thread."""

    fn: Callable[[], Any]
    about: Any = ...
    """`...`: it is always slow."""


class Refresh(NamedTuple):
    """Recompute a result in the background; `created` is the time of the old one (milliseconds since 1970)."""

    call: CachedCall
    created: int


CacheStep: TypeAlias = Read | Write | Pause | WaitFor | Compute | SlowCall | Refresh
MissFlow: TypeAlias = Generator[CacheStep, Any, FlightResult]
_Settled: TypeAlias = tuple[FlightResult, CacheEntry | None]


def miss(call: CachedCall, *, known: int | None = None, in_background: bool = False) -> MissFlow:
    """Compute a result, or wait for the caller that computes it; in the background give up instead of waiting.

    The entry created at `known` (milliseconds since 1970) does not count.
    """
    while True:
        flight, leads = call.flights.join(call.target.key)
        if leads:
            result = FlightResult(FlightState.GIVEN_UP)
            try:
                result = yield from _lead(call, flight, known, in_background=in_background)
            finally:
                call.flights.end(flight, result)
            if result.state is FlightState.GIVEN_UP and not in_background:
                continue
            return result
        if in_background:
            return FlightResult(FlightState.GIVEN_UP)
        if flight.is_around():
            call.namespace.count("computed")
            return (yield from _compute(Compute(call.make(), flight)))
        if flight.holder and not (yield Read(partial(leases.runs, flight.holder))):
            # It was invalidated: its result is only for earlier callers.
            call.flights.leave(flight)
            continue
        asked = flight.asked
        with flight.awaited():
            shared: FlightResult | None = yield WaitFor(flight)
        if shared is not None and not flight.holder and flight.asked <= asked:
            continue  # its leader read a result before this caller came, and that may be invalidated since
        if shared is None or shared.state is FlightState.PRIVATE:
            call.namespace.count("computed")
            return (yield from _compute(Compute(call.make())))
        if shared.state is not FlightState.GIVEN_UP:
            call.namespace.count("waited")
            return shared


def value_of(result: FlightResult) -> Any:
    """The value of a result, a new copy for each caller; raises the exception that the computation ended with."""
    if result.state is FlightState.ERROR:
        raise result.value
    return result.value if result.state is FlightState.PRIVATE else json.loads(result.body)


def _lead(call: CachedCall, flight: Flight, known: int | None, *, in_background: bool) -> MissFlow:
    namespace = call.namespace
    claim = Claim(call.target, call.key.task, call.tags, namespace.holder(), known)
    try:
        stored = yield from _ask(call, flight, claim, in_background=in_background)
    except CacheCycle as error:
        return FlightResult(FlightState.ERROR, value=error)
    if stored is not None:
        return stored
    start = time.perf_counter()
    namespace.count("computed")
    flight.holder = claim.holder
    give_back = Write(lambda: leases.give_back(namespace.text, claim))
    try:
        result = yield from _compute(Compute(call.make(), flight))
    except GeneratorExit:
        raise  # a closed coroutine cannot wait any more: the lease expires by itself
    except BaseException:
        # Cancelled, or the program ends: other processes need not wait until the lease expires.
        yield give_back
        raise
    cost = time.perf_counter() - start
    settled: _Settled = yield SlowCall(lambda: _settle(call, result, cost, in_background=in_background), result.value)
    shared, entry = settled
    if entry is None or not fits(namespace, entry):
        yield give_back
        return shared
    work = yield SlowCall(lambda: storing(namespace, entry, claim), entry.body)
    if (yield Write(work)):
        namespace.count("stored")
    return shared


def _compute(step: Compute) -> MissFlow:
    try:
        return FlightResult(FlightState.PRIVATE, value=(yield step))
    except Exception as error:  # noqa: BLE001 (a result like any other, raised again for each caller)
        return FlightResult(FlightState.ERROR, value=error)


def _ask(
    call: CachedCall, flight: Flight, claim: Claim, *, in_background: bool
) -> Generator[CacheStep, Any, FlightResult | None]:
    """Wait until this caller may compute (None), or there is a result. Raises CacheCycle."""
    namespace = call.namespace
    while True:
        flight.asked += 1
        reply: LeaseReply = yield Write(partial(leases.ask, namespace, claim))
        if reply.granted:
            return None
        if (entry := reply.entry) is not None:
            stored: FlightResult | None = yield SlowCall(partial(_stored, call, entry))
            if stored is not None:
                namespace.count("waited")
                return stored
            # An exception that this caller does not expect, or a text that cannot be read: it counts as absent.
            claim = claim._replace(known=entry.created)
        elif in_background:
            return FlightResult(FlightState.GIVEN_UP)
        else:
            yield from _wait_for_lease(call, flight, claim)


def _wait_for_lease(call: CachedCall, flight: Flight, claim: Claim) -> Generator[CacheStep, Any, None]:
    """Wait until the lease may be free. Raises CacheCycle if its holder waits for us in turn."""
    pause = _FIRST_PAUSE
    noted: tuple[frozenset[str], str] = frozenset(), ""
    try:
        while True:
            ours = frozenset(other.holder for other in flight.needing() if other.holder)
            state: LeaseState = yield Read(partial(leases.look, call.namespace, claim, ours))
            if state.ended:
                return
            if state.needs_us:
                raise flight.cycle_with("one that another process computes")  # noqa: TRY301 (as a wait that is cancelled)
            if ours and noted != (ours, state.holder):
                noted = ours, state.holder
                yield Write(partial(leases.note_waiting, *noted))
                continue
            yield Pause(pause * (0.5 + random.random() / 2))
            pause = min(2 * pause, _LAST_PAUSE)
    except GeneratorExit:
        raise
    except BaseException:
        if noted[0]:
            yield Write(partial(leases.note_waiting, noted[0], ""))
        raise


def _stored(call: CachedCall, entry: CacheEntry) -> FlightResult | None:
    match = call.namespace.match(entry, call.options)
    if match is None:
        return None
    if match.entry.kind == "error":
        return FlightResult(FlightState.ERROR, value=match.result)
    return FlightResult(FlightState.VALUE, match.entry.text())


def _settle(call: CachedCall, result: FlightResult, cost: float, *, in_background: bool) -> _Settled:
    """The result as all callers get it, and the entry to store, if any; `cost` is in seconds."""
    options, namespace = call.options, call.namespace
    try:
        if result.state is FlightState.ERROR:
            if in_background or not isinstance(result.value, options["cache_exceptions"]):
                return result, None
            return result, namespace.entry(call.key, "error", encoded_error(result.value), options, cost=cost)
        body = encoded(without_call_fields(result.value, options["per_call"]))
    except UncacheableError:
        namespace.count("uncacheable")
        return result, None
    shared = FlightResult(FlightState.VALUE, body)
    if result.value is None and not options["cache_none"]:
        return shared, None
    return shared, namespace.entry(call.key, "value", body, options, cost=cost)
