"""memory.child: ids, paths and names of sub-agents, what they take from their parents, and a family in any order."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg
from autocontext.errors import ConfigError
from autocontext.history.children import MOST_LEVELS, ancestors, child_id, child_of, id_at, path_between, split
from autocontext.models import ExtractiveModel
from autocontext.stores import InMemorySessionStore
from autocontext.testing import ScriptedModel, assert_valid_chat, assistant, tool_exchange, user
from tests.invariants import ESTIMATE

NAMES = ("researcher", "a", "研究员", "code.review-2", "m12", "_")
names = st.sampled_from(NAMES)
ids = st.text(min_size=1).filter(lambda text: text.isprintable())


# ----------------------------------------------------------------------------------------------------- ids and paths
@given(ids, st.lists(names, min_size=1, max_size=MOST_LEVELS))
def test_an_id_says_whose_child_a_session_is(root: str, path: list[str]) -> None:
    lineage = [root]
    for name in path:
        lineage.append(child_id(lineage[-1], name))
        assert child_of(lineage[-1]) == (lineage[-2], name)
    assert ancestors(lineage[-1]) == lineage[-2::-1]
    for at, each in enumerate(lineage):
        between = path_between(each, lineage[-1])
        assert between == "".join(f"{name}/" for name in path[at:])
        assert id_at(each, between) == lineage[-1]
    assert path_between(lineage[-1], root) == (None if path else "")


@given(ids, ids, names, names)
def test_two_children_have_one_id_only_if_they_are_one(first: str, second: str, name: str, other: str) -> None:
    assert (child_id(first, name) == child_id(second, other)) == ((first, name) == (second, other))


@pytest.mark.parametrize("taken", ["42/researcher", "42/researcher~00000000", "a/b/c~12345678", "/a~cafecafe", "~", ""])
def test_sessions_that_only_look_like_it_are_nobody_s_children(taken: str) -> None:
    assert child_of(taken) is None
    assert child_id("42", "researcher") != taken


@pytest.mark.parametrize(
    ("text", "path", "rest"),
    [
        ("researcher/m12", "researcher/", "m12"),
        ("[researcher/m12-m19]", "researcher/", "m12-m19"),
        ("researcher/m1, m7", "researcher/", "m1,m7"),
        ("researcher/m1; researcher/m7", "researcher/", "m1,m7"),
        ("x/x/m1,x/x/m2", "x/x/", "m1,m2"),
        ("研究员/m3", "研究员/", "m3"),
        ("a/b/0f2c7a5e-1b", "a/b/", "0f2c7a5e-1b"),
        ("m12", "", "m12"),
        ("a/m1,b/m2", "", "a/m1,b/m2"),
        ("/m1", "", "/m1"),
        ("a/", "", "a/"),
        ("a//m1", "", "a//m1"),
        ("a b/m1", "", "a b/m1"),
        ("a/" * MOST_LEVELS + "m1", "a/" * MOST_LEVELS, "m1"),
        ("a/" * (MOST_LEVELS + 1) + "m1", "", "a/" * (MOST_LEVELS + 1) + "m1"),
    ],
)
def test_paths(text: str, path: str, rest: str) -> None:
    assert split(text) == (path, rest)


@given(st.one_of(st.text(), st.from_regex(r"[a-z0-9m/,.~ -]{0,40}"), st.integers(1, 9).map(lambda n: "a/" * 10**n)))
def test_whatever_a_model_writes_the_tool_answers(text: str) -> None:
    memory = AutoContextMemory()
    child = memory.child("a")
    child.add_message(user("hello"))
    for agent in (memory, child):
        assert isinstance(ContextOffloadTool(agent)(text[:200_000]), str)


# ------------------------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("", "researcher"), ("Research Agent", "Research_Agent"), ("a/b", "a_b"), ("a~b", "a_b"), ("..", "researcher"),
        ("-a", "a"), ("x" * 65, "x" * 64), ("a\n", "a"), (None, "researcher"), (3, "researcher"), ("a,b", "a_b"),
    ],
)  # fmt: skip
def test_a_name_that_no_path_can_have_is_refused_with_one_that_can(name: Any, better: str) -> None:
    memory = AutoContextMemory()
    with pytest.raises(ConfigError, match=f"^child: a name has 1 to 64 letters.*; write {better!r}$") as refused:
        memory.child(name)
    assert "\n" not in str(refused.value)
    assert memory.child(better).parent == memory.session


def test_children_go_eight_levels_deep() -> None:
    root = memory = AutoContextMemory()
    for _ in range(MOST_LEVELS):
        memory = memory.child("deeper")
    memory.add_message(user("the bottom"))
    assert [m.text for m in root.reload("deeper/" * MOST_LEVELS + "m1")] == ["the bottom"]
    with pytest.raises(ConfigError, match="'deeper' would be 9 levels below its first session; do with fewer"):
        memory.child("deeper")
    assert memory.reload("deeper/m1") == []
    assert ContextOffloadTool(memory)("deeper/m1").startswith("Error: nothing is stored")


# ------------------------------------------------------------------------------------------------------ what it takes
def test_a_child_has_its_parent_s_settings_unless_others_are_given() -> None:
    config = AutoContextConfig.for_window(16_000, model_retries=0, **ESTIMATE)
    memory = AutoContextMemory(config, ScriptedModel("Note."), clock=lambda: 7.0)
    child = memory.child("a")
    assert (child.config, child._model, child._clock) == (memory.config, memory._model, memory._clock)
    assert child.counter.name == memory.counter.name == "bytes4"
    smaller = memory.child("a", window="8k")
    assert smaller.config == AutoContextConfig.for_window(8_000, model_retries=0, **ESTIMATE)
    other = ExtractiveModel()
    given_ = memory.child("a", config=AutoContextConfig(), model=other)
    assert (given_.config, given_._model) == (AutoContextConfig(), other)
    memory.resize(32_000)
    assert memory.child("a").config.max_token == 32_000
    with pytest.raises(ConfigError, match="child: pass window or config, not both"):
        memory.child("a", window=8_000, config=config)
    with pytest.raises(ConfigError, match="window must be at least 500 tokens"):
        memory.child("a", window=20)


def test_a_child_of_a_memory_without_a_store_lives_as_long_as_its_parent() -> None:
    memory = AutoContextMemory()
    assert memory.children == []
    memory.child("a").add_message(user("hello"))
    assert memory.children == ["a"]
    assert [m.text for m in memory.child("a")] == ["hello"] == [m.text for m in memory.reload("a/m1")]
    assert AutoContextMemory().children == []


def test_closing_a_child_leaves_its_parent_open() -> None:
    with AutoContextMemory.open(":memory:", session_id="42") as memory:
        with memory.child("a") as child:
            child.add(user("hello"))
        memory.add(user("still open"))
        assert [m.text for m in memory.reload("a/m1")] == ["hello"]


def test_a_key_of_one_s_own_comes_before_a_child() -> None:
    memory = AutoContextMemory()
    memory.child("a").add_message(user("the child's"))
    memory.offload("a/m1", user("mine"))
    assert [m.text for m in memory.reload("a/m1")] == ["mine"]
    assert "mine" in ContextOffloadTool(memory)("a/m1")


def test_a_wrong_number_of_a_child_is_told_which_there_are() -> None:
    memory = AutoContextMemory()
    memory.child("a").add_messages([user("one"), assistant("two")])
    assert ContextOffloadTool(memory)("a/m9") == (
        "Error: nothing is stored under 'a/m9': of this sub-agent there are a/m1 to a/m2. Pass such a number."
    )


# ------------------------------------------------------------------------------------------------------------ machine
PATHS = ("", "a/", "b/", "a/b/", "a/a/", "a/b/b/")
paths = st.sampled_from(PATHS)


class Family(RuleBasedStateMachine):
    """A parent, its children and theirs, which work, compress, undo and are opened again in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.store = InMemorySessionStore()
        self.said: dict[str, list[Msg]] = {path: [] for path in PATHS}
        self.open_: dict[str, AutoContextMemory] = {}
        self.calls = 0

    def at(self, path: str) -> AutoContextMemory:
        """The memory at a path, as it was opened last."""
        if path not in self.open_:
            above, name = re.fullmatch(r"((?:\w/)*?)(?:(\w)/)?", path).groups()  # type: ignore[union-attr]
            self.open_[path] = (
                self.at(above).child(name, window=1_000)
                if name
                else AutoContextMemory(
                    AutoContextConfig.for_window(1_000, **ESTIMATE), store=self.store, session_id="root"
                )
            )
        return self.open_[path]

    @rule(path=paths, lines=st.integers(1, 40))
    def work(self, path: str, lines: int) -> None:
        self.calls += 1
        page = f"call {self.calls} of {path!r}\n" * lines
        messages = [user(f"{path} {self.calls}"), *tool_exchange("read", {"n": self.calls}, page), assistant("Read.")]
        self.at(path).add_messages(messages)
        self.said[path] += messages
        assert_valid_chat(self.at(path).get_messages())

    @rule(path=paths)
    def undo(self, path: str) -> None:
        memory = self.at(path)
        for uuid in memory.get_offload_context():
            memory.undo(uuid)

    @rule(path=paths)
    def open_again(self, path: str) -> None:
        self.open_ = {other: memory for other, memory in self.open_.items() if not other.startswith(path)}

    @rule(path=paths)
    def delete_tree(self, path: str) -> None:
        below = [other for other in PATHS if other.startswith(path)]
        assert self.store.delete_tree(self.at(path).session) == sum(bool(self.said[other]) for other in below)
        self.open_again(path)
        self.said.update({other: [] for other in below})

    @invariant()
    def every_number_leads_from_every_ancestor_to_the_exact_original_and_nowhere_else(self) -> None:
        for path in PATHS:
            memory = self.at(path)
            assert memory.get_original_memory_msgs() == self.said[path]
            for other in PATHS:
                assert memory.reload(f"{other}m1-m999") == self.said.get(path + other, [])
                for uuid, originals in self.at(other).get_offload_context().items():
                    below = other.startswith(path)
                    assert memory.reload(other.removeprefix(path) + uuid) == (originals if below else [])
            direct = {other for other in PATHS if re.fullmatch(re.escape(path) + r"\w/", other)}
            assert memory.children == sorted(other[-2] for other in direct if self.said[other])


TestFamily = Family.TestCase
