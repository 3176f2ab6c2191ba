"""The scores of a decision, and whole replays of tiny conversations."""

import pytest
from chat import Tokens
from hypothesis import given
from needs import Need
from policies import POLICIES, Lines
from recall import Conversation, Scores, measured, row
from replays import percent, source_of, turns

from tests.benchmarks.talk import answer, call, result, talks, user

pytestmark = pytest.mark.repo

FILLER = "The quick brown fox jumps over the lazy dog. " * 60
RECORD = {
    "id": "tiny",
    "source": "github:someone/project@1",
    "messages": [
        user("Start with config key retry_limit please."),
        call(id_="c1", path="/src/old.py"),
        result("the old file names max_width=640 here\n" + FILLER, "c1"),
        *(m for n in range(2, 6) for m in (call(id_=f"c{n}"), result(FILLER, f"c{n}"))),
        call(id_="c6", key="retry_limit", width=640, path="/src/old.py"),
        result("done", "c6"),
        answer(),
    ],
}


def need(value, *surroundings, whole=True):
    return Need(value, whole=whole, where=[0], surroundings=list(surroundings))


def test_scores_of_one_decision():
    scores = Scores("x")
    needs = [
        need("alpha_1", "the alpha_1 is"),
        need("beta_2", "beta_2 was"),
        need("gamma_3", whole=False),
        need("d_4", "d_4"),
    ]
    scores.score(needs, "the alpha_1 is, beta_2, d_44", plain="alpha_1", more=["gamma_3"])
    assert (scores.values, scores.visible, scores.in_context, scores.reachable) == (4, 2, 1, 3)
    assert (scores.whole, scores.whole_visible) == (3, 2)
    assert (scores.old, scores.old_visible) == (3, 1)
    assert scores.reloads == [1]


def test_a_row_pools_over_values_and_averages_over_conversations():
    large = Scores(
        "a", values=9, visible=9, in_context=9, reachable=9, whole=9, whole_visible=9, used=[0.5], reloads=[0]
    )
    small = Scores("b", values=1, used=[1.0], reloads=[1], over=1, invalid=1, retrievable=50.0)
    found = row("autocontext", 4_000, [large, small])
    assert (found["visible"], found["per_conversation"], found["used"]) == (0.9, 0.5, 0.75)
    assert (found["over"], found["invalid"], found["retrievable"]) == (0.5, 1, 50.0)
    assert (found["reloads"], found["no_reload"]) == (0.5, 0.5)
    assert found["goal"] == "91% missed"
    assert found["sources"]["a"] == {"conversations": 1, "values": 9, "visible": 1.0}


def test_a_policy_is_asked_before_every_assistant_message():
    assert [at for at, _ in turns(RECORD["messages"])] == [1, 3, 5, 7, 9, 11, 13]
    assert [m for _, new in turns(RECORD["messages"]) for m in new] == RECORD["messages"][:13]


def test_truncation_shows_the_first_user_message_and_forgets_the_first_result():
    [found] = measured([RECORD], ["truncate"], [1_200])
    assert (found["decisions"], found["values"]) == (1, 3)
    assert found["visible"] == pytest.approx(1 / 3)
    assert found["old"] == 0
    assert found["old_values"] == 2


def test_a_context_larger_than_the_window_counts_as_over_and_is_truncated():
    [all_, cut] = measured([RECORD], ["everything", "truncate"], [1_200])
    assert (all_["over"], cut["over"]) == (1.0, 0.0)
    assert {**all_, "policy": "", "over": 0, "seconds": 0} == {**cut, "policy": "", "over": 0, "seconds": 0}


def test_lines_show_values_with_their_surroundings():
    [found] = measured([RECORD], ["lines30"], [1_200])
    assert (found["visible"], found["in_context"], found["old"]) == (1.0, 1.0, 1.0)


def test_this_library_reaches_everything():
    [found] = measured([RECORD], ["autocontext"], [1_200])
    assert (found["reachable"], found["retrievable"], found["over"], found["invalid"]) == (1.0, 100.0, 0.0, 0)


def test_nothing_is_scored_in_a_window_that_holds_everything():
    assert list(measured([RECORD], ["truncate"], [100_000])) == []


@pytest.mark.parametrize("name", POLICIES)
@given(messages=talks())
def test_every_policy_stays_valid_and_keeps_the_share_it_promises(name, messages):
    count, window = Tokens(), 1_000
    policy = POLICIES[name](window, count)
    scores = Conversation({"messages": messages, "source": "x"}, count).replay(policy, window)
    assert scores.invalid == 0
    assert scores.retrievable in (None, 100.0)
    assert scores.in_context <= scores.visible <= scores.reachable <= scores.values
    if name == "truncate":
        assert scores.old_visible == scores.over == 0


def test_lines_cut_to_their_share_with_a_note_inside_its_budget():
    count = Tokens()
    policy = Lines(2_000, count, low=0.75, share=0.3)
    notes = []
    for n in range(200):
        context = policy.step([user(f"value_{n} and value_{n // 2} " + "word " * 100)])
        assert count(context) <= policy.window
        if policy.note is not None and policy.note not in notes:
            notes.append(policy.note)
            assert 800 < count(context) <= 1_500
            assert count.message(policy.note) <= policy.budget
            lines, rest = policy.note["content"], "\n".join(m["content"] for m in context if m is not policy.note)
            assert not any(f"value_{n} " in lines and f"value_{n} and" in rest for n in range(n))
    assert len(notes) > 5
    assert count.message(notes[-1]) > 400


@pytest.mark.parametrize(
    ("source", "name"), [("github:a/b@c/d", "b"), ("github:a/b", "b"), ("hand/made", "hand"), ("", "?")]
)
def test_source(source, name):
    assert source_of({"source": source}) == name


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0.0 %"), (0.9994, "99.9 %"), (0.9999, ">99.9 %"), (1.0, "100.0 %"), (0.12345, "12.3 %")]
)
def test_what_is_not_all_is_not_shown_as_all(share, text):
    assert percent(share) == text
