"""What counts as a value that an agent needs, by example."""

import string

import pytest
from chat import Tokens
from hypothesis import given
from hypothesis import strategies as st
from needs import MOST_VALUES, Need, decisions, fewest_reloads, identifiers, occurs, surroundings, values

from tests.benchmarks.talk import answer, call, result, user

pytestmark = pytest.mark.repo

WORDS = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=8)
SIGNS = st.text(" .,:/()[]\n", min_size=1, max_size=3)


@given(WORDS, SIGNS, SIGNS, st.text(), st.text())
def test_a_word_between_signs_occurs(word, left, right, before, after):
    assert occurs(word, before + left + word + right + after)


@given(WORDS, WORDS)
def test_a_word_grown_on_either_side_does_not_occur(word, more):
    assert not occurs(word + "!", word + more)
    assert occurs(word, more + word) is (f" {word} " in f" {more + word} ")
    assert occurs(word, word + more) is False


@pytest.mark.parametrize(
    ("value", "text", "there"),
    [
        ("a.py", "src/a.py:3", True),
        ("a.py", "aa.py", False),
        ("a.py", "aa.py and a.py", True),
        ("42", "142", False),
        ("/etc/", "x/etc/y", True),  # its own edges are no word characters
        ("数据", "看数据", False),
        ("数据", "看 数据。", True),
    ],
)
def test_occurs_by_example(value, text, there):
    assert occurs(value, text) is there


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": "/src/a.py"}, {"/src/a.py": True}),
        ({"mode": "read", "flag": "None", "on": True}, {}),  # a word, literals
        ({"port": 5432, "line": 42, "share": 0.125}, {"5432": True, "0.125": True}),
        ({"title": "Fix it now", "x": "---"}, {"Fix it now": True}),
        ({"名": "数据"}, {"数据": True}),
        ({"deep": [{"user_id": "u_17"}]}, {"u_17": True}),
        ({"command": "cd /src && grep -rn KeyError ./a.py $it"}, {"/src": False, "KeyError": False, "./a.py": False}),
        ({"note": "two\nlines of tests/test_a.py"}, {"tests/test_a.py": False}),
        ({"note": "word " * 50 + "v1.2"}, {"v1.2": False}),
    ],
)
def test_values_of_arguments(arguments, expected):
    [only] = call("read", **arguments)["tool_calls"]
    assert values(only) == expected


def test_white_space_makes_a_command_only_under_a_command_like_key_or_tool():
    [told] = call("note", text="see a_b.py")["tool_calls"]
    [run] = call("run_tests", text="see a_b.py")["tool_calls"]
    assert values(told) == {"see a_b.py": True}
    assert values(run) == {"a_b.py": False}


def test_broken_arguments_are_one_text():
    broken = {"function": {"name": "f", "arguments": '{"path": "/src/a.py'}}
    assert values(broken) == {'{"path": "/src/a.py': True}


def test_identifiers_leave_flags_and_words_out():
    assert identifiers("python -m pytest --cov=autocontext tests/test_a.py::test_x -k NotNull ls a1") == [
        "tests/test_a.py::test_x",
        "NotNull",
    ]


def test_a_decision_needs_what_occurred_before_and_is_not_always_visible():
    messages = [
        {"role": "system", "content": "Work in /home/me."},
        user("Look at /src/a.py in /home/me, port 5432."),
        call(path="/src/a.py", home="/home/me", other="/src/never.py", id="x1"),
        result("in /src/b.py line 901"),
        answer("I will read /src/c.py next."),  # the assistant's own words give nothing
        call(path="/src/b.py", line=901, said="/src/c.py", again="/src/a.py", id="x2"),
    ]
    first, second = decisions(messages, Tokens())
    assert [(n.value, n.where) for n in first.needs] == [("/src/a.py", [1])]
    assert [(n.value, n.where) for n in second.needs] == [("/src/b.py", [3]), ("901", [3]), ("/src/a.py", [1, 2])]
    count = Tokens()
    assert (second.at, second.tokens, second.system_tokens) == (5, count(messages[:5]), count(messages[:1]))


def test_a_decision_is_scored_when_the_history_is_larger_than_the_window():
    messages = [user("see /src/a.py " * 50), call(path="/src/a.py")]
    [decision] = decisions(messages, Tokens())
    assert decision.scored(decision.tokens - 1)
    assert not decision.scored(decision.tokens)
    decision.system_tokens = decision.tokens
    assert not decision.scored(decision.tokens - 1)


def test_at_most_fifty_values():
    names = [f"/f{n}.py" for n in range(80)]
    [decision] = decisions([user(" ".join(names)), call(paths=names)], Tokens())
    assert [n.value for n in decision.needs] == names[:MOST_VALUES]


def test_surroundings_stay_on_the_line_and_twenty_characters():
    text = "first\n" + "a" * 30 + "VALUE" + "b" * 30 + "\nlast VALUE"
    assert surroundings("VALUE", [text]) == ["a" * 20 + "VALUE" + "b" * 20, "last VALUE"]


def test_surroundings_of_the_first_and_last_texts_only():
    texts = [f"{n} VALUE" for n in range(12)]
    assert surroundings("VALUE", texts) == [f"{n} VALUE" for n in (0, 1, 2, 3, 4, 7, 8, 9, 10, 11)]
    assert len(surroundings("VALUE", ["\n".join(texts)])) == 3


def test_fewest_reloads():
    one, two, three = (Need("v", whole=True, where=where, surroundings=[]) for where in ([1, 2], [2, 3], [4]))
    assert fewest_reloads([]) == 0
    assert fewest_reloads([one, two]) == 1
    assert fewest_reloads([one, two, three]) == 2
