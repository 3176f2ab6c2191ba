"""Whatever is done to it in whatever order, a store equals a dict of lists; users never meet."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from autocontext import Msg
from autocontext.errors import Conflict, InvalidMessage
from autocontext.history.entries import Added, Cleared, Ended, Forgotten, NoteReplaced, Offloaded, Removed, Restored
from autocontext.stores import SessionKey
from autocontext.testing import conversation
from tests.conversations import texts
from tests.profiles import share
from tests.stores.stores import KINDS, stored

USERS = ("u1", "税 '", "")
IDS = ("s", "S%")
KEYS = st.builds(SessionKey, st.sampled_from(USERS), st.sampled_from(IDS))
ENTRIES = st.one_of(
    st.builds(lambda text: Added(message=Msg(role="user", content=text)), texts(max_chars=3000)),
    st.sampled_from(
        [
            Added(message=conversation(1)[2]),
            NoteReplaced(message=None),
            Ended(),
            Removed(ids=("a", "b")),
            Removed(ids=("a",), taken_back=True, behind=("b",)),
            Restored(uuid="", note="a", ids=("a",), behind=("b",)),
            Offloaded(uuid="x", messages=tuple(conversation(1))),
            Forgotten(uuid="x"),
            Cleared(),
        ]
    ),
)
BATCHES = st.lists(ENTRIES, min_size=1, max_size=3)


class StoreMachine(RuleBasedStateMachine):
    store = None
    """Set by the test; emptied before each example."""

    @initialize()
    def empty(self):
        for info in self.store.sessions():
            self.store.delete(info.key)
        self.model: dict[SessionKey, list] = {}
        self.expired: set[SessionKey] = set()

    @rule(key=KEYS, entries=BATCHES)
    def append(self, key, entries):
        self.store.append(key, entries, after=len(self.model.get(key, ())))
        self.model.setdefault(key, []).extend(entries)

    @rule(key=KEYS, entries=BATCHES, wrong=st.sampled_from((-1, 1, 2, 50)))
    def append_at_the_wrong_place(self, key, entries, wrong):
        after = len(self.model.get(key, ())) + wrong
        if after >= 0:
            with pytest.raises(Conflict):
                self.store.append(key, entries, after=after)

    @rule(key=KEYS, after=st.integers(0, 6), until=st.none() | st.integers(0, 6))
    def read_a_part(self, key, after, until):
        assert self.store.read(key, after=after, until=until) == self.model.get(key, [])[after:until]

    @rule(key=KEYS)
    def delete(self, key):
        assert self.store.delete(key) is (self.model.pop(key, None) is not None)
        self.expired.discard(key)

    @rule(key=KEYS, entries=BATCHES)
    def rewrite(self, key, entries):
        there = self.model.get(key, [])
        new = dict(zip(range(len(there)), entries, strict=False))
        if new:
            self.store.rewrite(key, new)
            there[: len(new)] = new.values()

    @rule(key=KEYS, to=st.sampled_from(IDS), at=st.none() | st.integers(1, 4))
    def fork(self, key, to, at):
        target = SessionKey(key.user_id, to)
        if not self.model.get(key):
            with pytest.raises(InvalidMessage):
                self.store.fork(key, at=at, new_id=to)
        elif target in self.model:
            with pytest.raises(Conflict):
                self.store.fork(key, at=at, new_id=to)
        else:
            assert self.store.fork(key, at=at, new_id=to) == target
            self.model[target] = self.model[key][:at]
            if key in self.expired:
                self.expired.add(target)

    @rule(key=KEYS, ttl=st.sampled_from((-5, 5000, None)))
    def expire(self, key, ttl):
        assert self.store.expire(key, ttl) is (key in self.model)
        if key in self.model:
            (self.expired.add if ttl == -5 else self.expired.discard)(key)

    @rule()
    def purge(self):
        assert self.store.purge_expired() == len(self.expired)
        for key in self.expired:
            del self.model[key]
        self.expired.clear()

    @rule(key=KEYS)
    def search_finds_nothing_of_others(self, key):
        for found in self.store.search("module line 读 error", user_id=key.user_id, session_id=key.session_id):
            assert found.session == key
            assert found.sequence < len(self.model[key])

    @invariant()
    def each_user_sees_exactly_his_own(self):
        for user in USERS:
            listed = {info.key: info.entries for info in self.store.sessions(user)}
            assert listed == {key: len(kept) for key, kept in self.model.items() if key.user_id == user}

    def teardown(self):
        for key, kept in getattr(self, "model", {}).items():
            assert self.store.read(key) == kept


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_equals_a_dict_of_lists(kind):
    with tempfile.TemporaryDirectory() as folder, stored(kind, Path(folder)) as store:

        class Machine(StoreMachine):
            pass

        Machine.store = store
        # A statement of PostgreSQL takes a millisecond, and an example makes hundreds.
        examples = share(5 if "postgresql" in kind else 13)
        run_state_machine_as_test(Machine, settings=settings(max_examples=examples, stateful_step_count=20))
