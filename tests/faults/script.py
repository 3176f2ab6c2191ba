"""A scripted conversation with several passes, and faults at any counted point of it."""

import asyncio
import threading
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any

from autocontext import AutoContextConfig, AutoContextMemory, ModelRequest, Msg
from autocontext.history.entries import Entry
from autocontext.history.log import Log
from autocontext.stores import InMemorySessionStore
from autocontext.testing import ScriptedModel, conversation
from autocontext.text.chat_rules import first_violation
from tests import invariants
from tests.invariants import ESTIMATE, unreachable

MESSAGES = conversation(rounds=10, tools_per_round=2, chars=420)
CONFIG = AutoContextConfig(
    max_token=2_400,
    msg_threshold=24,
    last_keep=4,
    large_payload_threshold=400,
    offload_single_preview=60,
    min_compression_token_threshold=1,
    min_consecutive_tool_messages=2,
    model_retries=0,
    **ESTIMATE,
)
SESSION = "faults"
PATIENCE = 120.0
"""Seconds after which unfinished work counts as hanging."""


class Fault:
    """Fails at the n-th point; with n=0 only counts them."""

    def __init__(self, at: int = 0, fail: Callable[[], None] | None = None) -> None:
        self.at, self.seen, self._lock = at, 0, threading.Lock()
        self._fail = fail or self._break

    def point(self) -> None:
        with self._lock:
            self.seen += 1
            here = self.seen == self.at
        if here:
            self._fail()

    @property
    def struck(self) -> bool:
        return 0 < self.at <= self.seen

    @staticmethod
    def _break() -> None:
        raise OSError("broken on purpose")


class FaultyStore:
    """An in-memory store with a point before and after each write."""

    def __init__(self, before: Fault | None = None, after: Fault | None = None) -> None:
        self.inner = InMemorySessionStore()
        self.before, self.after = before or Fault(), after or Fault()

    def append(self, session: tuple[str, str], entries: Sequence[Entry], *, after: int) -> None:
        self.before.point()
        self.inner.append(session, entries, after=after)
        self.after.point()

    def read(self, session: tuple[str, str], *, after: int = 0) -> list[Entry]:
        return self.inner.read(session, after=after)


def model(fault: Fault | None = None) -> ScriptedModel:
    """A model with short answers and a point in each call."""

    def reply(request: ModelRequest) -> str:
        if fault is not None:
            fault.point()
        return f"Condensed {request.purpose}."

    return ScriptedModel(reply)


def opened(store: FaultyStore, answering: ScriptedModel | None = None, **fields: Any) -> AutoContextMemory:
    """A memory on the store's session; a second one sees what a restart would."""
    config = CONFIG.model_copy(update=fields)
    return AutoContextMemory(config, answering or model(), store=store, session_id=SESSION)


def check(memory: AutoContextMemory, store: FaultyStore, added: Sequence[Msg]) -> None:
    """Check that nothing is lost, the context is valid, and a restart resumes from the same view."""
    invariants.check(memory)
    assert memory.get_original_memory_msgs() == list(added)
    assert unreachable(memory, added) == []
    problem = first_violation(memory.messages)
    # In the middle of an exchange the last calls are still open.
    assert problem is None or added[-1].tool_uses, problem
    assert opened(store).messages == memory.messages
    assert store.read(memory.session) == memory._log.entries


def views_on_the_way(memory: AutoContextMemory, done: int) -> list[list[Msg]]:
    """The view after the first `done` entries and after each later one."""
    entries = memory._log.entries
    return [Log(entries[:n]).view_messages for n in range(done, len(entries) + 1)]


@types.coroutine
def stepped(
    work: Coroutine[Any, Any, Any], fault: Fault, failures: type[Exception] = OSError
) -> Generator[Any, Any, Any]:
    """Await `work` with a point at each of its awaits; that await raises what the point raises."""
    error: BaseException | None = None
    while True:
        try:
            waiting = work.send(None) if error is None else work.throw(error)
        except StopIteration as done:
            return done.value
        error = None
        try:
            fault.point()
        except failures as e:
            error = e
            continue
        try:
            yield waiting
        except BaseException as e:  # noqa: BLE001 (handed on into the coroutine)
            error = e


def cancel_this_task() -> None:
    """Cancels an await, as a timeout or a closed connection would."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
