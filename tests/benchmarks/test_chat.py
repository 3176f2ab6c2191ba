"""Truncation and validity as the replays understand them."""

import pytest
from chat import Tokens, groups, invalid, truncate, visible_text
from hypothesis import given
from hypothesis import strategies as st

from autocontext.adapters.openai_chat import from_openai
from autocontext.testing import assert_valid_chat
from autocontext.tokens import get_counter
from tests.benchmarks.talk import answer, call, result, talks, user

pytestmark = pytest.mark.repo

COUNT = Tokens()


def test_tokens_are_texts_and_four_for_each_message_and_call():
    text = get_counter("o200k_base").count_text
    [only] = call(path="/src/a.py")["tool_calls"]
    arguments = only["function"]["arguments"]
    assert COUNT([user("Hello there")]) == 4 + text("Hello there")
    assert COUNT([call(path="/src/a.py")]) == 4 + 4 + text("read_file") + text(arguments)


def test_a_changed_copy_is_counted_anew():
    message = user("Hello there")
    assert COUNT.message(message) < COUNT.message({**message, "content": "Hello there, and more"})


@given(talks(), st.integers(60, 2_000))
def test_truncation_fits_and_stays_valid(messages, window):
    shown = truncate(messages, window, COUNT)
    assert COUNT(shown) <= window
    assert not invalid(shown)
    assert_valid_chat(from_openai(shown))
    if COUNT(messages) <= window:
        assert shown == messages


@given(talks(), st.integers(60, 2_000))
def test_truncation_keeps_the_newest_groups_and_the_system_message(messages, window):
    shown = truncate(messages, window, COUNT)
    assert [m for m in shown if m["role"] == "system"] == [m for m in messages if m["role"] == "system"]
    first = messages.index(next(m for m in messages if m["role"] == "user"))
    rest = messages[first + 1 :]
    newest = [m for m in shown if m["role"] != "system"][1:]
    names = [(m["role"], m.get("tool_call_id")) for m in newest]
    assert names == [(m["role"], m.get("tool_call_id")) for m in rest[len(rest) - len(newest) :]]


def test_the_first_user_message_gets_a_quarter_at_most():
    messages = [user("start " * 900), answer("a " * 400), user("now")]
    first, *others = truncate(messages, 400, COUNT)
    assert COUNT.message(first) <= 100
    assert "[... cut ...]" in first["content"]
    assert others == messages[2:]


def test_a_newest_group_that_is_too_large_is_cut_in_the_middle():
    messages = [user("go"), call(path="/a"), result("x1 " * 900)]
    shown = truncate(messages, 200, COUNT)
    assert shown[:2] == messages[:2]
    assert shown[2]["content"].startswith("x1 ")
    assert shown[2]["content"].endswith("x1 ")
    assert COUNT(shown) <= 200


def test_groups_are_calls_with_their_results():
    messages = [user("go"), call(), result("a"), result("b"), answer(), user("on")]
    assert [len(group) for group in groups(messages)] == [1, 3, 1, 1]


@pytest.mark.parametrize(
    ("messages", "broken"),
    [
        ([user("go"), call(), result("a"), answer()], False),
        ([user("go"), call()], True),
        ([user("go"), call(), user("stop"), result("a")], True),
        ([user("go"), result("a")], True),
        ([call(), result("a"), result("a")], True),
    ],
)
def test_invalid(messages, broken):
    assert invalid(messages) is broken


def test_what_is_said_is_decoded():
    assert visible_text(call(text='one "two"\nthree')) == '\none "two"\nthree'
