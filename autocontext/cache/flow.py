"""What happens on a miss, written once: a generator that asks for reads, writes, waiting and the computation itself.

`driving` runs it in threads and in coroutines. A flight keeps the callers of this process together, a lease those
of all processes; then one of them computes, stores, and lets go of both. However it ends, both are let go.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from autocontext.cache import leases, rows
from autocontext.cache.flights import Flight, Flights, Landing, Outcome
from autocontext.cache.leases import Turn
from autocontext.cache.options import Options
from autocontext.cache.rows import Entry, Wanted
from autocontext.cache.shelf import Shelf
from autocontext.cache.values import decoded, decoded_error, encoded, encoded_error
from autocontext.canonical import CacheKey
from autocontext.errors import StoreCorruptError, UncacheableError
from autocontext.stores.database import Read, Write

_FIRST_PAUSE, _LAST_PAUSE = 0.002, 0.05


Make: TypeAlias = Callable[[], Callable[[], Any]]
"""Makes the function to call, arguments included; only asked for on a miss."""


class Call(NamedTuple):
    """One call whose result is looked for."""

    key: CacheKey
    wanted: Wanted
    make: Make
    options: Options
    shelf: Shelf
    flights: Flights


class Pause(NamedTuple):
    """Wait so many seconds."""

    seconds: float


class Wait(NamedTuple):
    """Wait for a flight; answered None where that could never end."""

    flight: Flight


class Compute(NamedTuple):
    """Call the function."""


Step: TypeAlias = Read | Write | Pause | Wait | Compute
Flow: TypeAlias = Generator[Step, Any, Outcome]


class Found(NamedTuple):
    """A stored result that may be given."""

    outcome: Outcome
    due: bool
    """Whether to compute it anew in the background."""
    value: Any = None

    def given(self) -> Any:
        """The result; raises the exception if that is what was stored."""
        if self.outcome.landing is Landing.ERROR:
            raise self.outcome.value
        return self.value


def judged(entry: Entry | None, options: Options, now: int) -> Found | None:
    """What an entry is good for now: nothing, or a result, which may be due to be computed anew."""
    if entry is None or entry.kind == "corrupt":
        return None
    stale = options.stale_while_revalidate is not None and entry.expires <= now < entry.gone
    if entry.expires <= now and not stale:
        return None
    try:
        if entry.kind == "error":
            error = decoded_error(entry.body, options.cache_exceptions, entry.key)
            return None if error is None else Found(Outcome(Landing.ERROR, value=error), due=stale)
        value = decoded(entry.body, entry.key)
    except StoreCorruptError:
        return None  # what cannot be read back is computed anew, and replaced by that
    early = options.early_beta is not None and not stale and _early(entry, options.early_beta, now)
    return Found(Outcome(Landing.TEXT, entry.body), stale or early, value)


def _early(entry: Entry, beta: float, now: int) -> bool:
    # Vattani et al., VLDB 2015, algorithm XFetch: now - cost * beta * log(random) >= expiry.
    return now - entry.cost / 1000 * beta * math.log(1.0 - random.random()) >= entry.expires


def missed(call: Call, *, newer_than: int = -1, behind: bool = False) -> Flow:
    """Get what is not there: by computing it, or by waiting for who does. `behind` gives up instead of waiting."""
    while True:
        flight, leads = call.flights.join(call.wanted.key)
        if leads:
            outcome = Outcome(Landing.GIVEN_UP)
            try:
                outcome = yield from _leading(call, newer_than, behind=behind)
            finally:
                call.flights.land(flight, outcome)
            if outcome.landing is Landing.GIVEN_UP and not behind:
                continue
            return outcome
        if behind:
            return Outcome(Landing.GIVEN_UP)
        shared: Outcome | None = yield Wait(flight)
        if shared is None or shared.landing is Landing.PRIVATE:
            return (yield from alone(call))
        if shared.landing is not Landing.GIVEN_UP:
            call.shelf.count("waited")
            return shared


def alone(call: Call) -> Flow:
    """Compute for this caller only, and store nothing."""
    call.shelf.count("computed")
    try:
        return Outcome(Landing.PRIVATE, value=(yield Compute()))
    except Exception as error:  # noqa: BLE001 (handed to the caller as it is)
        return Outcome(Landing.ERROR, value=error)


def _leading(call: Call, newer_than: int, *, behind: bool) -> Flow:
    shelf, key = call.shelf, call.wanted.key
    holder = None if shelf.lease is None else shelf.holder()
    turn = yield from _turn(call, holder, newer_than, behind=behind)
    if not turn.leads:
        found = judged(turn.entry, call.options, shelf.now())
        if found is None:
            return Outcome(Landing.GIVEN_UP)
        shelf.count("waited")
        return found.outcome
    begun, start = shelf.tick(), time.perf_counter()
    shelf.count("computed")
    try:
        outcome = Outcome(Landing.PRIVATE, value=(yield Compute()))
    except Exception as error:  # noqa: BLE001 (an outcome like any other, raised again for each caller)
        outcome = Outcome(Landing.ERROR, value=error)
    except BaseException:
        # Cancelled, or the program ends: another process need not wait until the lease is over.
        if holder is not None:
            yield Write(lambda: leases.give_back(shelf.ns, key, holder))
        raise
    outcome, entry = _settled(call, outcome, time.perf_counter() - start, behind=behind)
    if entry is not None and shelf.fits(entry):
        if (yield Write(shelf.storing(entry, begun=begun, holder=holder))):
            shelf.count("stored")
    elif holder is not None:
        yield Write(lambda: leases.give_back(shelf.ns, key, holder))
    return outcome


def _turn(call: Call, holder: str | None, newer_than: int, *, behind: bool) -> Generator[Step, Any, Turn]:
    """Wait until this caller may compute, or the result is there."""
    shelf, wanted = call.shelf, call.wanted
    if holder is None or shelf.lease is None:
        entry = yield Read(lambda: rows.lookup(shelf.ns, wanted, shelf.now()))
        there = entry is not None and entry.created > newer_than
        return Turn(leads=not there or judged(entry, call.options, shelf.now()) is None, entry=entry)
    pause = _FIRST_PAUSE
    lease = shelf.lease
    while True:
        now = shelf.now()
        turn: Turn = yield Write(partial(leases.ask, shelf.ns, wanted, newer_than, holder, now=now, until=now + lease))
        if turn.entry is not None and judged(turn.entry, call.options, now) is None:
            # An exception that this caller does not know, or a text that cannot be read: it counts as not there.
            newer_than = turn.entry.created
            continue
        if turn.leads or turn.entry is not None or behind:
            return turn
        while not (yield Read(partial(leases.look, shelf.ns, wanted, newer_than, now=shelf.now()))):
            yield Pause(pause * (0.5 + random.random() / 2))
            pause = min(2 * pause, _LAST_PAUSE)


def _settled(call: Call, outcome: Outcome, cost: float, *, behind: bool) -> tuple[Outcome, Entry | None]:
    """The outcome as all callers get it, and the entry to store, if any."""
    options, shelf = call.options, call.shelf
    try:
        if outcome.landing is Landing.ERROR:
            if behind or not isinstance(outcome.value, options.cache_exceptions):
                return outcome, None
            return outcome, shelf.entry(call.key, "error", encoded_error(outcome.value), options, cost=cost)
        body = encoded(shared_part(outcome.value, options.per_call))
    except UncacheableError:
        shelf.count("uncacheable")
        return outcome, None
    shared = Outcome(Landing.TEXT, body)
    if outcome.value is None and not options.cache_none:
        return shared, None
    return shared, shelf.entry(call.key, "value", body, options, cost=cost)


def shared_part(value: Any, prefix: str | None) -> Any:
    """A result without the fields that belong to one call."""
    if prefix is None or not isinstance(value, dict):
        return value
    return {name: item for name, item in value.items() if not (isinstance(name, str) and name.startswith(prefix))}
