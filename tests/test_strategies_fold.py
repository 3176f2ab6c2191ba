"""What comes when the strategies are spent: the oldest rounds in one note, and texts cut where they stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, Msg
from autocontext.edits import apply
from autocontext.messages import PINNED
from autocontext.proposals import build
from autocontext.strategies import View
from autocontext.strategies.fold import Fold
from autocontext.strategies.last_resort import Previews
from autocontext.testing import assistant, conversation, system, tool_call, tool_exchange, user
from tests.conversations import histories
from tests.invariants import owed

CONFIG = AutoContextConfig(max_token=4_000, protected_tools=frozenset({"context_reload", "load_skill"}))
LONG = "a line of output that is long enough to be cut " * 40


def size(msg: Msg) -> int:
    return sum(len(str(b)) for b in msg.content) // 4 + 1


def folded(messages: list[Msg], *, count: float = 0, tokens: float = 0, hard: bool = False) -> list[Msg]:
    """The view after one fold."""
    view = View.of(messages, size)
    fold = Fold(CONFIG, excess_messages=count, excess_tokens=tokens, last_resort=hard)
    return list(apply(view, [build(p, []) for p in fold.propose(view)], size, strict=True).view)


def shortened(messages: list[Msg], excess: int, *, unread: bool = False) -> list[Msg]:
    """The view after the texts were cut."""
    view = View.of(messages, size)
    found = Previews(CONFIG, excess, unread=unread).propose(view)
    return list(apply(view, [build(p, []) for p in found], size, strict=True).view)


# -------------------------------------------------------------------------------------------------------------- fold
@given(histories(), st.integers(0, 40), st.integers(0, 3_000), st.booleans())
def test_a_fold_takes_the_oldest_and_keeps_every_rule(history: list[Msg], count: int, tokens: int, hard: bool) -> None:
    after = folded(history, count=count, tokens=tokens, hard=hard)
    assert owed(after) == owed(history)
    assert [m for m in after if m.role == "system"] == [m for m in history if m.role == "system"]
    view = View.of(history)
    assert view.latest_user < 0 or history[view.latest_user] in after
    unread = max(view.unread, view.latest_user) if hard else view.unread
    assert all(m in after for m in history[unread:])
    if not (count or tokens):
        assert after == history


def test_as_much_is_folded_as_is_needed_and_up_to_a_round() -> None:
    messages = conversation(rounds=6, tools_per_round=2, chars=80)
    after = folded(messages, count=7)
    assert after[0] == messages[0]
    assert after[1].origin is not None
    assert after[1].origin.kind == "fold"
    assert after[2:] == messages[13:]  # two rounds of six messages; the third begins after them
    assert len(folded(messages, tokens=1)) > len(after)


def test_a_later_fold_takes_the_earlier_note_in() -> None:
    messages = conversation(rounds=6, tools_per_round=2, chars=80)
    twice = folded(folded(messages, count=7), count=7)
    assert [m.origin.kind for m in twice if m.origin] == ["fold"]
    assert all(f"Round {r}, step 0" in twice[1].text for r in range(3))


def test_the_note_quotes_the_user_and_the_first_words_of_what_came_of_it() -> None:
    messages = [user("please rename it"), *tool_exchange("mv", {"to": "b"}), assistant("Renamed. " + LONG)] * 2
    unique = [m.model_copy(update={"id": f"m{i}"}) for i, m in enumerate([*messages, user("next")])]
    note = folded(unique, count=3)[0]
    assert "User: please rename it" in note.text
    assert "Then: Renamed." in note.text
    assert "mv x1" in note.text
    assert LONG not in note.text


def test_protected_tools_are_folded_only_as_a_last_resort() -> None:
    protected = tool_exchange("load_skill", {}, LONG)
    messages = [user("a"), *protected, assistant("b"), user("c"), assistant("d"), user("e")]
    assert all(m in folded(messages, count=9) for m in protected)
    assert not any(m in folded(messages, count=9, hard=True) for m in protected)


def test_a_reloaded_page_is_folded_when_its_round_is_over() -> None:
    page = tool_exchange("context_reload", {}, LONG)
    going_on = [user("a"), assistant("b"), user("c"), *page, *tool_exchange("read", {}, LONG)]
    assert all(m in folded(going_on, count=9) for m in page)
    after = folded([user("a"), *page, assistant("b"), user("c"), assistant("d"), user("e")], count=9)
    assert not any(m in after for m in page)


@pytest.mark.parametrize("hard", [False, True])
def test_what_the_model_has_not_read_is_folded_only_as_a_last_resort(hard: bool) -> None:
    """The user has written before the model could answer the results."""
    messages = [user("a"), assistant(LONG), user("b"), *tool_exchange("read", {}, LONG), user("wait")]
    after = folded(messages, count=9, hard=hard)
    assert (messages[4] in after) != hard
    assert messages[1] not in after


def test_what_is_pinned_stays_where_it_is() -> None:
    pin = user("keep this", metadata={PINNED: True})
    messages = [user(LONG), assistant(LONG), pin, user(LONG), assistant(LONG), user("now")]
    for hard in (False, True):
        after = folded(messages, count=9, hard=hard)
        assert [bool(m.origin) for m in after] == [True, False, True, False]
        assert after[1] == pin


# ---------------------------------------------------------------------------------------------------------- previews
@given(histories(), st.integers(1, 20_000), st.booleans())
def test_cuts_keep_every_rule_and_every_fixed_message(history: list[Msg], excess: int, unread: bool) -> None:
    after = shortened(history, excess, unread=unread)
    assert owed(after) == owed(history)
    assert len(after) == len(history)
    view = View.of(history)
    for i, (new, old) in enumerate(zip(after, history, strict=True)):
        if old.role == "system" or old.metadata.get(PINNED) or i == view.latest_user or (i >= view.unread) != unread:
            assert new == old
        assert [b.type for b in new.content if b.type != "text"] == [b.type for b in old.content if b.type != "text"]


def test_the_longest_texts_give_up_what_is_needed() -> None:
    texts = [f"{'x' * 100}", LONG, LONG * 3]
    messages = [user("a"), *(assistant(t, id=str(i)) for i, t in enumerate(texts)), user("b")]
    total = sum(map(size, messages))
    for excess in (100, 700, 1_500):
        after = shortened(messages, excess)
        assert sum(map(size, after)) <= total - 0.98 * excess
        assert after[1] == messages[1]
    assert shortened(messages, 100)[2] == messages[2]
    assert shortened(messages, 1_500)[2] != messages[2]


@pytest.mark.parametrize("unread", [False, True])
def test_unread_results_keep_both_ends(unread: bool) -> None:
    output = "BEGIN " + LONG + " END"
    messages = [system("s"), user("go"), *tool_exchange("read", {}, output)]
    if not unread:
        messages.append(assistant("I have seen it."))
    result = shortened(messages, 300, unread=unread)[3].tool_results[0]
    assert result.text.startswith("BEGIN")
    assert ("END" in result.text) == unread
    assert len(result.text) < len(output)


def test_long_arguments_are_cut_too() -> None:
    call = tool_call("write", {"path": "/a", "text": LONG}, id="c")
    messages = [user("go"), call, *tool_exchange("read", id="d"), assistant("b")]
    use = shortened(messages, 300)[1].tool_uses[0]
    assert (use.id, use.name, use.input["path"]) == ("c", "write", "/a")
    assert len(use.input["text"]) < len(LONG)
