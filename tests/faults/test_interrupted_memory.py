"""Ctrl-C, or a signal handler that raises, anywhere in a call: the same memory goes on, and equals what is stored."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autocontext import AutoContextMemory
from autocontext.models import CallableModel
from autocontext.stores import InMemorySessionStore, SessionStore
from autocontext.stores.database_sessions import DatabaseSessionStore
from autocontext.testing import assert_valid_chat, assistant, user
from tests import invariants
from tests.faults.interrupts import Alarm, Interrupted, interrupted_at_random, interrupted_everywhere
from tests.faults.script import CONFIG, MESSAGES
from tests.stores.homes import database

BEFORE = [*MESSAGES[:12], user("What now?", id="asked")]
MORE = [assistant("One.", id="one"), user("Two.", id="two"), assistant("Three.", id="three")]
_numbers = itertools.count()


class Scene:
    """A memory in the middle of a conversation, and what a second one reads of its session."""

    def __init__(self, store: SessionStore | None, *, late: bool = False) -> None:
        self.store = store
        self.late = late
        self.session = None if store is None else f"s{next(_numbers)}"
        self.memory = self._memory()
        self.memory.add_messages(BEFORE)
        self.memory.compress_if_needed(force=True)
        self.memory.offload("own", BEFORE[:2])
        self.memory.record_usage(2_000)
        self.state = AutoContextMemory(CONFIG)
        self.state.add_messages(MORE)
        self.saved = self.state.state_dict()

    def _memory(self) -> AutoContextMemory:
        # Not a ScriptedModel: that lets errors out which a pass survives, and an alarm is an error like any other.
        model = CallableModel(lambda _: "In short.")
        return AutoContextMemory(CONFIG, model, store=self.store, session_id=self.session)

    def again(self) -> AutoContextMemory:
        return self._memory()


CALLS: dict[str, Callable[[AutoContextMemory, Scene], object]] = {
    "add_message": lambda m, _: m.add_message(MORE[0]),
    "add_messages": lambda m, _: m.add_messages(MORE),
    "add": lambda m, _: m.add([{"role": "assistant", "content": "One."}, {"role": "user", "content": "Two."}]),
    "get_messages": lambda m, _: (m.add_messages(MESSAGES[12:26]), m.get_messages()),
    "to_openai": lambda m, _: m.to_openai(),
    "compress_if_needed": lambda m, _: m.compress_if_needed(force=True),
    "compress_if_idle": lambda m, _: m.compress_if_idle(),
    "delete_message": lambda m, _: m.delete_message(len(m.messages) - 1),
    "undo": lambda m, _: m.undo(next(uuid for uuid in m.get_offload_context() if uuid != "own")),
    "clear": lambda m, _: m.clear(),
    "offload": lambda m, _: m.offload("mine", MORE),
    "clear_offload": lambda m, _: m.clear_offload("own"),
    "refresh": lambda m, _: m.refresh(),
    "load_state_dict": lambda m, scene: m.load_state_dict(scene.saved),
    "set_overhead": lambda m, _: (m.set_overhead("You are an agent.", {"type": "function"}), m.token_count),
    "record_usage": lambda m, _: (m.record_usage(1_500), m.add_message(MORE[0]), m.token_count),
    "count": lambda m, _: m.count([*m.messages, *MORE]),
    "reload": lambda m, _: (m.reload("m1-m4"), m.reload("own")),
    "state_dict": lambda m, _: m.state_dict(),
    "save_to": lambda m, _: m.save_to(InMemorySessionStore()),
}
FORGETS = {"clear", "load_state_dict"}
"""Calls after which what was there before may be gone."""


def check(scene: Scene, name: str) -> None:
    """The memory is whole, equals what is stored, and goes on as if nothing had been."""
    memory = scene.memory
    originals = memory.get_original_memory_msgs()
    if name not in FORGETS or len(originals) > len(MORE):
        assert originals[: len(BEFORE)] == BEFORE
        added = originals[len(BEFORE) :]
        assert [m.id for m in added] in ([], [m.id for m in MORE], [MORE[0].id]) or name in ("add", "get_messages")
    memory.set_overhead()
    memory._token_sum._forget_correction()  # a provider's count, which is not stored
    same_as_stored(scene)
    invariants.check(memory)
    assert_valid_chat([*memory.messages, user("Go on.")])
    last = [user("And then?", id="then"), assistant("That.", id="that"), user("Go on.", id="go")]
    memory.add_messages(last)
    assert memory.get_messages()[-1] == last[-1]
    memory.compress_if_needed(force=True)
    now = memory.get_original_memory_msgs()
    # A server may end a commit after its client was interrupted: then what it stored stands before what came later.
    assert now[: len(originals)] == originals
    assert now[-len(last) :] == last
    assert scene.late or len(now) == len(originals) + len(last)
    assert_valid_chat(memory.messages)
    invariants.check(memory)
    same_as_stored(scene)


def same_as_stored(scene: Scene) -> None:
    if scene.store is None:
        return
    memory, stored = scene.memory, scene.again()
    assert stored.messages == memory.messages
    assert stored.get_original_memory_msgs() == memory.get_original_memory_msgs()
    assert stored.get_offload_context() == memory.get_offload_context()
    assert stored.token_count == memory.token_count


def swept(make: Callable[[], Scene], name: str, **options: Any) -> int:
    call = CALLS[name]
    return interrupted_everywhere(
        make, lambda scene: call(scene.memory, scene), lambda scene: check(scene, name), **options
    )


# --------------------------------------------------------------------------------------------------------- sweeps
every_call = pytest.mark.parametrize("name", CALLS)


def no_store() -> Scene:
    return Scene(None)


def stored() -> Scene:
    return Scene(InMemorySessionStore())


@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name in CALLS if name != "get_messages"])
@pytest.mark.parametrize("make", [no_store, stored])
def test_a_memory_goes_on_after_an_interrupt(make: Callable[[], Scene], name: str) -> None:
    assert swept(make, name, samples=4, kept=True) > 1


@pytest.mark.slow
@every_call
@pytest.mark.parametrize("make", [no_store, stored])
def test_a_memory_goes_on_after_an_interrupt_at_many_points(make: Callable[[], Scene], name: str) -> None:
    assert swept(make, name, samples=20 if name == "get_messages" else 80) > 3


@pytest.mark.slow
@every_call
@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_a_memory_on_a_database_goes_on_after_an_interrupt(kind: str, name: str, tmp_path: Path) -> None:
    with database(kind, tmp_path) as shared:
        store = DatabaseSessionStore(shared)
        assert (
            swept(
                lambda: Scene(store, late=kind == "postgresql"),
                name,
                samples=8 if name == "get_messages" else 20,
                error=Alarm,
            )
            > 3
        )


# A signal may strike where Python only prints what is raised: in a finaliser, before a coroutine has begun.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine .* was never awaited")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "file", "postgresql"])
@pytest.mark.parametrize("error", [Interrupted, Alarm])
def test_a_memory_goes_on_after_real_signals(kind: str, error: type[BaseException], tmp_path: Path) -> None:
    with database(kind, tmp_path) as shared:
        store = DatabaseSessionStore(shared)
        for name in ("add_message", "add_messages", "get_messages", "delete_message", "offload"):
            interrupted_at_random(
                lambda: Scene(store, late=kind == "postgresql"),
                lambda scene: CALLS[name](scene.memory, scene),  # noqa: B023 (called at once)
                lambda scene: check(scene, name),  # noqa: B023
                strikes=15,
                seed=7,
                error=error,
            )
