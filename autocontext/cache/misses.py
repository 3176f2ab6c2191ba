"""A miss, written once for threads and coroutines: a generator that yields what it needs done.

A flight makes the callers of one process share a computation, a lease makes processes share it. One caller computes and
stores; both end with that, however it ends. `computing` runs these generators.
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
from autocontext.cache.leases import LeaseReply
from autocontext.cache.namespace import CacheEntry, CacheNamespace, Match, Target, without_call_fields
from autocontext.cache.options import CacheOptions
from autocontext.cache.storing import fits, storing
from autocontext.cache.values import encoded, encoded_error
from autocontext.errors import UncacheableError
from autocontext.stores.database import Read, Write

_FIRST_PAUSE, _LAST_PAUSE = 0.002, 0.05
"""Seconds between looks at the lease of another process."""


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


class Pause(NamedTuple):
    """Wait so many seconds."""

    seconds: float


class WaitFor(NamedTuple):
    """Wait for the result of a flight; None where that would never end."""

    flight: Flight


class Compute(NamedTuple):
    """Call the function."""


MissStep: TypeAlias = Read | Write | Pause | WaitFor | Compute
MissFlow: TypeAlias = Generator[MissStep, Any, FlightResult]


def miss(call: CachedCall, *, newer_than: int = -1, in_background: bool = False) -> MissFlow:
    """Compute a result, or wait for the caller that does; in the background give up instead of waiting.

    Only entries created after `newer_than` (milliseconds since 1970) count.
    """
    while True:
        flight, leads = call.flights.join(call.target.key)
        if leads:
            result = FlightResult(FlightState.GIVEN_UP)
            try:
                result = yield from _lead(call, newer_than, in_background=in_background)
            finally:
                call.flights.end(flight, result)
            if result.state is FlightState.GIVEN_UP and not in_background:
                continue
            return result
        if in_background:
            return FlightResult(FlightState.GIVEN_UP)
        shared: FlightResult | None = yield WaitFor(flight)
        if shared is None or shared.state is FlightState.PRIVATE:
            call.namespace.count("computed")
            return (yield from _compute())
        if shared.state is not FlightState.GIVEN_UP:
            call.namespace.count("waited")
            return shared


def value_of(result: FlightResult) -> Any:
    """The value of a result, a new copy for each caller; raises the exception that the computation ended with."""
    if result.state is FlightState.ERROR:
        raise result.value
    return result.value if result.state is FlightState.PRIVATE else json.loads(result.body)


def _lead(call: CachedCall, newer_than: int, *, in_background: bool) -> MissFlow:
    namespace, key = call.namespace, call.target.key
    holder = None if namespace.lease is None else namespace.holder()
    reply = yield from _ask(call, holder, newer_than, in_background=in_background)
    if not reply.granted:
        match = namespace.match(reply.entry, call.options)
        if match is None:
            return FlightResult(FlightState.GIVEN_UP)
        namespace.count("waited")
        return _shared(match)
    begun, start = namespace.tick(), time.perf_counter()
    namespace.count("computed")
    try:
        result = yield from _compute()
    except BaseException:
        # Cancelled, or the program ends: other processes need not wait until the lease expires.
        if holder is not None:
            yield Write(lambda: leases.give_back(namespace.text, key, holder))
        raise
    result, entry = _settle(call, result, time.perf_counter() - start, in_background=in_background)
    if entry is not None and fits(namespace, entry):
        if (yield Write(storing(namespace, entry, begun=begun, holder=holder))):
            namespace.count("stored")
    elif holder is not None:
        yield Write(lambda: leases.give_back(namespace.text, key, holder))
    return result


def _compute() -> MissFlow:
    try:
        return FlightResult(FlightState.PRIVATE, value=(yield Compute()))
    except Exception as error:  # noqa: BLE001 (a result like any other, raised again for each caller)
        return FlightResult(FlightState.ERROR, value=error)


def _ask(
    call: CachedCall, holder: str | None, newer_than: int, *, in_background: bool
) -> Generator[MissStep, Any, LeaseReply]:
    """Wait until this caller may compute, or there is a result."""
    namespace, target = call.namespace, call.target
    if holder is None:
        entry = yield Read(lambda: namespace.lookup(target))
        there = entry is not None and entry.created > newer_than
        return LeaseReply(granted=not there or namespace.match(entry, call.options) is None, entry=entry)
    pause = _FIRST_PAUSE
    while True:
        reply: LeaseReply = yield Write(partial(leases.ask, namespace, target, newer_than, holder))
        if reply.entry is not None and namespace.match(reply.entry, call.options) is None:
            # An exception that this caller does not expect, or a text that cannot be read: it counts as absent.
            newer_than = reply.entry.created
            continue
        if reply.granted or reply.entry is not None or in_background:
            return reply
        while not (yield Read(partial(leases.worth_asking, namespace, target, newer_than))):
            yield Pause(pause * (0.5 + random.random() / 2))
            pause = min(2 * pause, _LAST_PAUSE)


def _shared(match: Match) -> FlightResult:
    if match.entry.kind == "error":
        return FlightResult(FlightState.ERROR, value=match.result)
    return FlightResult(FlightState.VALUE, match.entry.body)


def _settle(
    call: CachedCall, result: FlightResult, cost: float, *, in_background: bool
) -> tuple[FlightResult, CacheEntry | None]:
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
