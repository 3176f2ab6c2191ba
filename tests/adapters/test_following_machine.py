"""A memory beside a framework's list, in the hands of Hypothesis: turns, branches, losses, passes and undoing."""

import json

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.messages import Msg
from autocontext.stores import InMemorySessionStore
from autocontext.testing import assert_valid_chat
from tests.adapters.test_following import OLD, run, turn
from tests.invariants import ESTIMATE, check_replay

places = st.integers(0, 999)
PAGE = "".join(f"line {i}: value {i * 7} of a log\n" for i in range(60))


class FollowingMachine(RuleBasedStateMachine):
    """Knows the list that the framework holds, those that it has held, and all that was ever said."""

    def __init__(self) -> None:
        super().__init__()
        self.store = InMemorySessionStore()
        self.session = "machine"
        self.held: list[Msg] = []
        self.earlier: list[list[Msg]] = []
        self.said: list[Msg] = []
        self.turns = 0

    @initialize(window=st.sampled_from([2_000, 4_000]))
    def open(self, window: int) -> None:
        self.config = AutoContextConfig.for_window(window, **ESTIMATE)
        self.reopen()
        self.go_on_from(OLD)
        for _ in range(4):
            self.go_on()
        self.archive(2, 12)
        assert sum(m.origin is not None for m in self.memory.messages) == 1

    def reopen(self) -> None:
        self.memory = AutoContextMemory(self.config, store=self.store, session_id=self.session)

    @rule(how=st.sampled_from(("open", "fork", "save")))
    def hand_over(self, how: str) -> None:
        """To another process, another session, or as a saved state."""
        saved = json.loads(json.dumps(self.memory.state_dict()))
        if how == "save":
            self.memory.load_state_dict(saved)
        else:
            self.session = self.store.fork(self.memory.session).session_id if how == "fork" else self.session
            self.reopen()
        assert self.memory.state_dict() == saved

    # ---------------------------------------------------------------------------------------------- the framework
    def go_on_from(self, history: list[Msg], *, tells: bool = True) -> None:
        """A turn on top of a list. `tells`: the framework tells what it held before."""
        self.turns += 1
        new = turn(f"t{self.turns}", PAGE)
        self.said += [m for m in (*history, *new) if m not in self.said]
        self.earlier.append(history)
        self.held = run(self.memory, history, *new, had=self.held if tells else ())

    @rule()
    def go_on(self) -> None:
        self.go_on_from(self.held)

    @rule(place=places, turns=st.integers(0, 3), tells=st.booleans())
    def go_back(self, place: int, turns: int, tells: bool) -> None:
        """To any earlier list, or to what came before its last turns, as when one is tried again."""
        earlier = [*self.earlier, self.held][place % (len(self.earlier) + 1)]
        starts = [i for i, m in enumerate(earlier) if m.role == "user"][-turns:] if turns else []
        self.go_on_from(earlier[: starts[0]] if starts and starts[0] >= len(OLD) else earlier, tells=tells)

    @rule(start=places, count=st.integers(1, 6))
    def lose(self, start: int, count: int) -> None:
        """Messages out of the middle; calls go with their results."""
        lost = {m.id for m in self.held[start % len(self.held) :][:count]}
        lost |= {f"{id_[:-1]}{other}" for id_ in lost for other in "cr" if id_.endswith((".c", ".r"))}
        self.go_on_from([m for m in self.held if m.id not in lost])

    # ------------------------------------------------------------------------------------------------- the memory
    @rule()
    def compress(self) -> None:
        self.memory.compress_if_needed(force=True)

    @rule(start=places, count=st.integers(4, 12))
    def archive(self, start: int, count: int) -> None:
        """A note about several messages of the view, which may be notes themselves."""
        first = start % len(self.said)
        self.memory.tools("archive")[0](messages=f"m{1 + first}-m{min(len(self.said), first + count)}", reason="done")

    @rule()
    def read(self) -> None:
        self.memory.get_messages()

    @precondition(lambda self: self.memory.get_offload_context())
    @rule(place=places)
    def undo(self, place: int) -> None:
        keys = list(self.memory.get_offload_context())
        self.memory.undo(keys[place % len(keys)])

    @rule(place=places)
    def restore(self, place: int) -> None:
        self.memory.tools("restore")[0](messages=f"m{1 + place % len(self.said)}")

    # ------------------------------------------------------------------------------------------------- what holds
    @invariant()
    def the_view_shows_nothing_that_is_gone(self) -> None:
        held = {m.id for m in self.held}
        assert [m.id for m in self.memory.messages if m.origin is None and m.id not in held] == []
        assert_valid_chat(self.memory.messages)

    @invariant()
    def undone_it_is_the_list(self) -> None:
        twin = AutoContextMemory(self.config)
        twin.load_state_dict(self.memory.state_dict())
        while any(m.origin is not None and twin.undo(m.origin.uuid) for m in twin.messages):
            pass
        assert [m.id for m in twin.messages] == [m.id for m in self.held]

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.memory.get_original_memory_msgs() == self.said
        assert self.memory.numbered("m1-m999999") == dict(enumerate(self.said, 1))

    @invariant()
    def readings_agree(self) -> None:
        check_replay(self.memory._log)
        assert self.store.read(self.memory.session) == self.memory._log.entries


TestFollowing = FollowingMachine.TestCase
