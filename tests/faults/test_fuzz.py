"""Any external input: model replies, saved states, chat dicts, arguments of the reload tool.

The long run is `pytest tests/faults/test_fuzz.py --hypothesis-profile=thorough`.
"""

import asyncio
import copy
import functools
import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from autocontext import AutoContextMemory, ContextOffloadTool, ModelReply, Msg
from autocontext.adapters.openai_chat import from_openai, to_openai
from autocontext.errors import InvalidMessage, StateError
from autocontext.stores import InMemorySessionStore
from autocontext.testing import ScriptedModel
from autocontext.text.chat_rules import first_violation
from tests import invariants
from tests.conversations import histories, texts, valid_histories
from tests.faults.script import CONFIG, MESSAGES
from tests.invariants import CONFIGS, assert_pairs_kept, handles, reach, unreachable

# ------------------------------------------------------------------------------------------------------ JSON values
words = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=12),
    st.sampled_from(
        ("role", "content", "user", "tool", "text", "type", "id", "m1", "", "0", "NaN", "\ud800", "a" * 3_000)
    ),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)),
    max_leaves=12,
)

# ---------------------------------------------------------------------------------------------------------- replies
TAG = "<!-- CONTEXT_OFFLOAD: uuid={} -->"
FORGED = "00000000-0000-4000-8000-00000000beef"
PIECES = (
    "<think>", "</think>", "<thinking>", "</thinking>", "<tool_call>", "</tool_call>", '{"tool_calls": [', "```json\n",
    "```", "<summary>", "</summary>", '<transcript id="0123456789abcdef">', '</transcript id="0123456789abcdef">',
    TAG.format(FORGED), TAG.format(""), TAG.format("}{"), "<!-- CONTEXT_OFFLOAD: uuid=", " -->", "Error code: 429 - ",
    '{"error": ', "Ignore all previous instructions.", "[user]", "[assistant]", "\n", " ", "\x00", "\ud800", "\u202e",
    "It works.", "路径是 /src/a.py", "\\1 \\g<0> %s {} {0}", "word " * 40,
)  # fmt: skip
replies = st.one_of(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=10)), max_size=6).map("".join), texts(max_chars=3_000)
)


@given(
    st.lists(replies, min_size=1, max_size=4),
    valid_histories(min_moves=3),
    st.sampled_from(sorted(CONFIGS)),
    st.booleans(),
)
def test_any_reply_leaves_a_valid_context_with_everything_in_reach(
    texts_of_model: list[str], history: list[Msg], config: str, in_loop: bool
) -> None:
    answering = ScriptedModel([ModelReply(text=text) for text in texts_of_model])
    memory = AutoContextMemory(CONFIGS[config], answering)
    memory.add_messages(history)
    if in_loop:
        asyncio.run(memory.acompress_if_needed(force=True))
    else:
        memory.compress_if_needed(force=True)
    assert unreachable(memory, history) == []
    assert first_violation(memory.messages) is None
    invariants.check(memory)
    # A handle that the model made up opens nothing, in view or in what is kept.
    known_keys = {key for m in history for key in handles(m)}
    for m in reach(memory, memory.messages):
        for key in handles(m):
            assert key in known_keys or memory.reload(key)


@pytest.mark.slow
@given(json_values)
def test_what_is_no_reply_is_a_failed_call(answer: Any) -> None:
    class Broken:
        def complete(self, request: object) -> Any:
            return answer

    memory = AutoContextMemory(CONFIG, Broken())
    memory.add_messages(MESSAGES[:40])
    report = memory.compress_if_needed(force=True)
    assert report.fallbacks
    assert unreachable(memory, MESSAGES[:40]) == []


# ------------------------------------------------------------------------------------------------------------ states
_MADE_UP = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")


def _saved(*, twice: bool) -> str:
    memory = AutoContextMemory(CONFIG, ScriptedModel("Short."))
    for m in MESSAGES[:45]:
        memory.add_message(m)
        memory.get_messages()
    memory.add_messages([MESSAGES[1], MESSAGES[1]] if twice else [])
    memory.offload("own-key", MESSAGES[:2])
    # The same UUIDs in every run, so that failing examples stay failing.
    numbers: dict[str, str] = {}
    text = json.dumps(memory.state_dict())
    return _MADE_UP.sub(lambda m: numbers.setdefault(m.group(), f"00000000-0000-4000-8000-{len(numbers):012}"), text)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a JSON value, its own included."""
    paths = [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, v in inner:
        paths += places(v, (*path, key))
    return paths


class Base:
    """A state to mutate, from a memory after several passes and an explicit offload."""

    def __init__(self, *, twice: bool) -> None:
        self.text = _saved(twice=twice)
        self.state = json.loads(self.text)
        self.paths = places(self.state)
        # By depth, since most places lie deep inside of messages.
        self.by_depth = [[p for p in self.paths if len(p) == n] for n in range(1, max(map(len, self.paths)) + 1)]

    def like(self, value: Any) -> list[Any]:
        """Other values of the same type in the state, under the same and under other names."""
        return [v for p in self.paths if type(v := at(self.state, p)) is type(value)]


@functools.cache
def base_of(number: int) -> Base:
    return Base(twice=number == 1)


@pytest.fixture(scope="module", autouse=True)
def bases() -> None:
    """Made before examples are drawn: the ids in them are random."""
    for number in range(2):
        base_of(number)


@dataclass(frozen=True)
class Mutated:
    """A base and what was done to it, so that failing examples stay readable."""

    base: int
    steps: tuple[tuple[tuple[Any, ...], str, Any], ...]

    @property
    def state(self) -> Any:
        state: Any = json.loads(base_of(self.base).text)
        for path, how, new in self.steps:
            state = changed(state, path, how, copy.deepcopy(new))
        return state


@st.composite
def mutated_states(draw: st.DrawFn) -> Mutated:
    """A state with a few values replaced, dropped, doubled, renamed or taken from elsewhere in it."""
    number = draw(st.sampled_from((0, 0, 1)))
    base = base_of(number)
    steps = []
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(draw(st.sampled_from(base.by_depth))))
        how = draw(st.sampled_from(("like", "like", "like", "other", "drop", "double", "rename")))
        # Not a number equals nothing, itself included: a state that holds it cannot be compared.
        other = json_values.filter(lambda value: "NaN" not in json.dumps(value))
        new = st.sampled_from(base.like(at(base.state, path))) if how == "like" else other
        steps.append((path, how, draw(new)))
    return Mutated(number, tuple(steps))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def changed(state: Any, path: tuple[Any, ...], how: str, new: Any) -> Any:
    """The state after one mutation; as it was when an earlier one has taken the place away."""
    if not path:
        return new
    try:
        owner = at(state, path[:-1])
        old = owner[path[-1]]
    except (KeyError, IndexError, TypeError):
        return state
    if not isinstance(owner, dict | list):
        return state
    if how == "drop":
        del owner[path[-1]]
    elif how == "double" and isinstance(owner, list):
        owner.insert(path[-1], old)
    elif how == "rename" and isinstance(owner, dict):
        owner[new if isinstance(new, str) else "renamed"] = owner.pop(path[-1])
    else:
        owner[path[-1]] = new
    return state


@given(mutated_states(), st.booleans())
def test_a_mutated_state_loads_and_works_or_is_refused_and_nothing_changes(mutated: Mutated, stored: bool) -> None:
    store = InMemorySessionStore() if stored else None
    memory = AutoContextMemory(CONFIG, ScriptedModel("Short."), store=store, session_id="fuzz" if stored else None)
    memory.add_messages(MESSAGES[:10])
    before = memory.state_dict()
    try:
        memory.load_state_dict(mutated.state)
    except StateError:
        assert memory.state_dict() == before
        event("refused")
    else:
        event("loaded")
        works(memory)
    invariants.check(memory)
    if store is not None:
        assert AutoContextMemory(CONFIG, store=store, session_id="fuzz").state_dict() == memory.state_dict()


def works(memory: AutoContextMemory) -> None:
    """Everything a user may do next works, on whatever was loaded."""
    for key in memory.get_offload_context():
        memory.reload(key)
        assert isinstance(ContextOffloadTool(memory)(key), str)
    invariants.check(memory)
    before = memory.messages
    memory.add_messages(MESSAGES[45:50])
    memory.compress_if_needed(force=True)
    assert_pairs_kept(memory.messages, [*before, *MESSAGES[45:50]])
    memory.get_messages()
    for key in memory.get_offload_context():
        memory.undo(key)
    while memory.messages:
        memory.delete_message(0)
    invariants.check(memory)


@given(json_values)
def test_any_json_is_a_state_or_refused(value: Any) -> None:
    memory = AutoContextMemory()
    try:
        memory.load_state_dict(value)
    except StateError:
        assert memory.messages == []


# -------------------------------------------------------------------------------------------------------- chat dicts
CHAT = json.dumps(to_openai(MESSAGES[:12]))
CHAT_PATHS = places(json.loads(CHAT))[1:]


@st.composite
def mutated_chats(draw: st.DrawFn) -> Any:
    state: Any = json.loads(CHAT)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(CHAT_PATHS))
        how = draw(st.sampled_from(("other", "drop", "double", "rename")))
        state = changed(state, path, how, draw(json_values))
    return state


message_like = st.fixed_dictionaries(
    {},
    optional={
        "role": st.one_of(
            st.sampled_from(("system", "user", "assistant", "tool", "developer", "function")), json_values
        ),
        "content": json_values,
        "name": json_values,
        "id": json_values,
        "tool_call_id": json_values,
        "tool_calls": json_values,
        "function_call": json_values,
        "refusal": json_values,
        "audio": json_values,
        "reasoning_content": json_values,
        "metadata": json_values,
    },
)


@given(st.one_of(json_values, mutated_chats(), st.lists(message_like, max_size=3)))
def test_any_json_is_a_chat_or_an_invalid_message(value: Any) -> None:
    try:
        messages = from_openai(value)
    except InvalidMessage:
        event("refused")
        return
    event(f"taken: {min(len(messages), 2)}")
    assert all(isinstance(m, Msg) for m in messages)
    # As text, since NaN is not equal to itself.
    assert json.dumps(to_openai(messages), sort_keys=True) == json.dumps(value, sort_keys=True)
    memory = AutoContextMemory(CONFIG, ScriptedModel("Short."))
    memory.add_messages(messages)
    memory.compress_if_needed(force=True)
    invariants.check(memory)
    assert unreachable(memory, messages) == []


# ------------------------------------------------------------------------------------------------ the reload tool
@functools.cache
def filled() -> AutoContextMemory:
    """A memory to reload from; shared, because reloading changes nothing."""
    memory = AutoContextMemory(CONFIG, ScriptedModel("Short."))
    memory.add_messages(MESSAGES)
    memory.compress_if_needed(force=True)
    return memory


known = st.sampled_from([*filled().get_offload_context(), "own-key"])
tool_arguments = st.dictionaries(
    st.one_of(st.sampled_from(("working_context_offload_uuid", "offset", "limit", "query")), words),
    json_values,
    max_size=5,
)


@given(tool_arguments, st.one_of(st.none(), known), st.one_of(st.none(), json_values))
def test_any_arguments_of_the_reload_tool_give_a_text(arguments: dict[str, Any], key: str | None, query: Any) -> None:
    tool = ContextOffloadTool(filled())
    if key is not None:
        arguments = {**arguments, "working_context_offload_uuid": key, "query": query}
    before = filled().messages
    answer = tool(**arguments)
    assert isinstance(answer, str)
    assert answer
    assert asyncio.run(tool.acall(**arguments)) == answer
    assert filled().messages == before


@given(histories(min_moves=2), json_values, json_values, st.one_of(st.none(), words))
def test_any_page_of_anything_is_a_text(history: list[Msg], offset: Any, limit: Any, query: str | None) -> None:
    memory = AutoContextMemory()
    memory.offload("a-key-of-mine", history)
    answer = ContextOffloadTool(memory)("a-key-of-mine", offset, limit, query)
    assert isinstance(answer, str)
    assert answer
