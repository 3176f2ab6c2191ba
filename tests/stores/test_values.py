"""Values in messages: what a message takes, every store gives back; the rest is refused by name and not stored."""

import math
import sys
from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg, TextBlock, ToolResultBlock, ToolUseBlock
from autocontext.errors import ConfigError, InvalidMemory, InvalidMessage
from autocontext.history.entries import Added, dump_entry, load_entry
from autocontext.messages import LONGEST_NUMBER, _FrozenDict, thaw
from autocontext.stores import SessionKey
from autocontext.stores.checks import json_text
from tests.profiles import WITH_FIXTURES, share
from tests.stores.stores import KINDS, stored

CONFIG = AutoContextConfig(msg_threshold=10**6, max_token=10**9)
LARGEST = 10**LONGEST_NUMBER - 1
TOO_LONG = 10**5000 + 7
NUMBER = "is a whole number of more than 4,300 digits"
_keys = count()


@pytest.fixture(scope="module", params=KINDS)
def store(request, tmp_path_factory):
    with stored(request.param, tmp_path_factory.mktemp("values")) as opened:
        yield opened


def new_session():
    return SessionKey("u", f"s{next(_keys)}")


def opened(store, session):
    return AutoContextMemory(CONFIG, store=store, user_id=session.user_id, session_id=session.session_id)


def spelled(msg):
    """All of a message, in which 1, 1.0 and True, 0.0 and -0.0 differ, and NaN is itself."""
    return repr(thaw(msg.model_dump()))


def deep(levels, inside):
    value = inside
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


class Power(NamedTuple):
    """sign * (10**exponent + more): Hypothesis cannot show the number itself."""

    sign: int
    exponent: int
    more: int


def made(value):
    """A drawn value with its powers worked out."""
    if isinstance(value, Power):
        return value.sign * (10**value.exponent + value.more)
    if isinstance(value, dict):
        return {key: made(inner) for key, inner in value.items()}
    return type(value)(map(made, value)) if isinstance(value, list | tuple) else value


POWERS = st.builds(
    Power, st.sampled_from([1, -1]), st.sampled_from([4299, 4300, 4301, 5000, 20_000]), st.integers(-1, 1)
)
NUMBERS = st.one_of(
    st.sampled_from([0, -0.0, 1e400, -1e400, math.nan, 5e-324, 2**53, 2**63, 2**64, -(2**63)]),
    POWERS,
    st.integers(),
    st.floats(),
)
TEXTS = st.one_of(
    st.text(st.characters(codec=None), max_size=5), st.sampled_from(["\ud800", "\udc00\ud800", "\x00", "k" * 70_000])
)
ODD = st.one_of(st.binary(max_size=2), st.just({1, 2}), st.just(object), st.just(1j))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, st.integers(95, 103).map(lambda levels: deep(levels, 1)), ODD),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(TEXTS, inner, max_size=3),
        st.dictionaries(st.one_of(st.integers(0, 1), st.booleans(), st.none()), inner, max_size=2),
    ),
    max_leaves=6,
)
OBJECTS = st.one_of(VALUES, st.dictionaries(TEXTS, VALUES, max_size=3))


def in_message(place, value):
    match place:
        case "metadata":
            return Msg(role="user", content="x", metadata=value)
        case "input":
            return Msg(role="assistant", content=[ToolUseBlock(id="c", name="f", input=value)])
        case "block":
            return Msg(role="user", content=[TextBlock(text="x", metadata=value)])
        case "output":
            return Msg(role="tool", content=[ToolResultBlock(id="c", output=[TextBlock(text="", metadata=value)])])
        case "copied":
            return Msg(role="user", content="x").model_copy(update={"metadata": value})
        case _:
            return value


PLACES = st.sampled_from(["metadata", "input", "block", "output", "copied"])


@pytest.mark.sampled
@settings(max_examples=share(200), suppress_health_check=WITH_FIXTURES)
@given(place=PLACES, value=OBJECTS)
def test_what_a_message_takes_comes_back_and_the_rest_is_refused(store, place, value):
    session = new_session()
    memory = opened(store, session)
    try:
        message = in_message(place, made(value))
    except InvalidMessage:
        return
    memory.add_message(Msg(role="user", content="before"))
    memory.add_messages([message, Msg(role="user", content="after")])
    found = opened(store, session)
    assert list(map(spelled, found.get_original_memory_msgs())) == list(map(spelled, memory.get_original_memory_msgs()))
    assert found.token_count == memory.token_count
    load_entry(dump_entry(Added(message=message)))


@pytest.mark.sampled
@settings(max_examples=share(100), suppress_health_check=WITH_FIXTURES)
@given(metadata=OBJECTS, arguments=OBJECTS)
def test_what_add_takes_as_dicts_comes_back_or_nothing_is_stored(store, metadata, arguments):
    session = new_session()
    memory = opened(store, session)
    call = {"type": "tool_use", "id": "c", "name": "f", "input": made(arguments)}
    items = [{"role": "user", "content": "q", "extra": made(metadata)}, {"role": "assistant", "content": [call]}]
    try:
        memory.add(items)
    except InvalidMessage:
        assert len(memory) == len(opened(store, session)) == 0
        return
    found = opened(store, session)
    assert list(map(spelled, found.get_original_memory_msgs())) == list(map(spelled, memory.get_original_memory_msgs()))


@pytest.mark.parametrize("number", [LARGEST + 1, -TOO_LONG, 10**100_000], ids=["least", "negative", "large"])
def test_a_number_that_no_json_reader_takes_is_refused_by_name_with_the_way_out(number):
    for place, field in {
        "metadata": r"Msg\.metadata", "input": r"ToolUseBlock\.input", "block": r"TextBlock\.metadata",
        "output": r"TextBlock\.metadata", "copied": r"Msg\.metadata",
    }.items():  # fmt: skip
        with pytest.raises(InvalidMessage, match=rf"^{field}: a\.b\[1\]\.c {NUMBER}.*pass it as text"):
            in_message(place, {"a": {"b": [1, {"c": number}]}})
    with pytest.raises(ConfigError, match=rf"^plan cannot be written as JSON: \[0\] {NUMBER}"):
        json_text("plan", [number])
    with pytest.raises(InvalidMemory, match=rf"^metadata cannot be written as JSON: value {NUMBER}"):
        json_text("metadata", number, InvalidMemory)


def test_a_long_number_in_the_text_of_a_call_stays_text(store):
    """Providers send arguments as text, and a text may hold any number."""
    arguments = f'{{"n": {"9" * 5000}}}'
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    items = [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    limit = sys.get_int_max_str_digits()
    try:
        for digits in (limit, 0):  # 0: a process that has lifted Python's limit
            sys.set_int_max_str_digits(digits)
            session = new_session()
            memory = opened(store, session)
            memory.add(items)
            sent = opened(store, session).to_openai()[1]
            assert sent["tool_calls"][0]["function"]["arguments"] == arguments
    finally:
        sys.set_int_max_str_digits(limit)


def test_a_session_with_such_a_number_opens_names_it_and_goes_on(store):
    """As release 0.9.0 stored them: its messages took any whole number."""
    earlier = [
        Msg(role="user", content="first"),
        Msg(role="user", content="x", metadata=_FrozenDict(n=TOO_LONG, small=7)),
        Msg(role="assistant", content=[ToolUseBlock(id="c", name="f", input=_FrozenDict(a=_FrozenDict(b=-TOO_LONG)))]),
        Msg(role="tool", content=[ToolResultBlock(id="c", name="f", output="done")]),
        Msg(role="user", content="last"),
    ]
    session = new_session()
    store.append(session, [Added(message=m) for m in earlier], after=0)
    memory = opened(store, session)
    held = memory.get_original_memory_msgs()
    assert [m.text for m in held] == ["first", "x", "", "", "last"]
    digits = "1" + "0" * 4999 + "7"
    if store.read(session)[1] != Added(message=earlier[1]):  # a store in memory has the number itself
        assert held[1].metadata == {"n": f"whole number of 5,001 digits: {digits}", "small": 7}
        assert held[2].tool_uses[0].input == {"a": {"b": f"whole number of 5,001 digits: -{digits}"}}
        assert memory.to_openai()
    store.erase(session, [held[0].id])
    memory = opened(store, session)
    memory.add_message(Msg(role="user", content="on"))
    assert memory.get_original_memory_msgs()[-1].text == "on"
