"""What comes when the strategies are spent: the oldest rounds in one note, and texts cut where they stand."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, Msg
from autocontext.history.edits import apply
from autocontext.history.proposals import build
from autocontext.messages import PINNED, is_user_turn
from autocontext.strategies import View
from autocontext.strategies.fold import Fold
from autocontext.strategies.last_resort import Previews
from autocontext.testing import assistant, conversation, system, tool_call, tool_exchange, user
from autocontext.text.rendering import written_note
from tests.conversations import histories
from tests.desk import Desk
from tests.invariants import assert_pairs_kept

CONFIG = AutoContextConfig(max_token=4_000, protected_tools=frozenset({"context_reload", "load_skill"}))
LONG = "a line of output that is long enough to be cut " * 40


def size(msg: Msg) -> int:
    return sum(len(str(b)) for b in msg.content) // 4 + 1


def folded(messages: list[Msg], *, count: float = 0, tokens: float = 0, hard: bool = False) -> list[Msg]:
    """The view after one fold."""
    desk = Desk(messages, CONFIG, size)
    desk.make(desk.fold(messages=count, tokens=tokens, last_resort=hard))
    return desk.messages


def shortened(messages: list[Msg], excess: int, *, unread: bool = False) -> list[Msg]:
    """The view after the texts were cut."""
    view = View.of(messages, size)
    found = Previews(CONFIG, lambda _: None, excess, unread=unread).propose(view)
    return list(apply(view, [build(p, []) for p in found], size, strict=True).view)


# -------------------------------------------------------------------------------------------------------------- fold
@given(histories(), st.integers(0, 40), st.integers(0, 3_000), st.booleans())
def test_a_fold_takes_the_oldest_and_keeps_every_rule(history: list[Msg], count: int, tokens: int, hard: bool) -> None:
    after = folded(history, count=count, tokens=tokens, hard=hard)
    assert_pairs_kept(after, history)
    assert [m for m in after if m.role == "system"] == [m for m in history if m.role == "system"]
    view = View.of(history)
    assert view.latest_user < 0 or history[view.latest_user] in after
    unread = max(view.unread, view.latest_user) if hard else view.unread
    assert all(m in after for m in history[unread:])
    assert [m for m in history if is_user_turn(m)][:1] == [m for m in after if is_user_turn(m)][:1]


@given(histories(), st.integers(0, 40), st.integers(0, 3_000), st.booleans(), st.booleans())
def test_whatever_is_folded_every_original_is_shown_or_stands_behind_a_note(
    history: list[Msg], count: int, tokens: int, hard: bool, again: bool
) -> None:
    desk = Desk(history, CONFIG, size)
    for _ in range(2 if again else 1):
        desk.make(desk.fold(messages=count, tokens=tokens, last_resort=hard))
    behind = desk.log.covered(desk.log.view_ids)
    assert set(desk.log.original) == {*behind, *desk.log.view_ids} - {m.id for m in desk.messages if m.origin}
    for m in desk.messages:
        if m.origin is not None:
            assert desk.log.originals_of(m.origin.uuid) == desk.log.read(desk.log.covered([m.id]))


WORK = conversation(rounds=6, tools_per_round=2, chars=400)
"""A system message, then rounds of six messages: a question, two exchanges, a reply."""


@pytest.mark.parametrize(("count", "last"), [(1, 5), (2, 5), (3, 6), (4, 7), (5, 9), (6, 9), (7, 11)])
def test_as_many_messages_are_folded_as_is_needed_and_up_to_the_end_of_an_exchange(count: int, last: int) -> None:
    """The system message and the first of the user stay; a note takes the place of what follows them."""
    after = folded(WORK, count=count, tokens=-(10**6))
    assert after[:2] == WORK[:2]
    assert [m.origin.kind for m in after if m.origin] == ["fold"]
    assert after[2].origin is not None
    gone = [m for m in WORK if m not in after]
    assert gone == WORK[2 : last + 1]
    assert len(WORK) - len(after) > count


@pytest.mark.slow
@given(st.integers(1, 900))
def test_as_many_tokens_are_folded_as_is_needed_and_not_an_exchange_more_than_the_note_may_take(tokens: int) -> None:
    before = sum(map(size, WORK))
    after = folded(WORK, tokens=tokens)
    assert sum(map(size, after)) <= before - tokens
    gone = [m for m in WORK if m not in after]
    share = int(CONFIG.max_token * CONFIG.ledger_ratio)
    assert sum(map(size, gone[:-2])) < tokens + share


def test_nothing_is_folded_where_nothing_is_over() -> None:
    assert folded(WORK, count=0, tokens=-(10**6)) == WORK


def test_a_later_fold_takes_the_earlier_note_in() -> None:
    desk = Desk(WORK, CONFIG, size)
    seen = []
    for _ in range(3):
        desk.make(desk.fold(messages=5, tokens=-(10**6)))
        assert [m.origin.kind for m in desk.messages if m.origin] == ["fold"]
        assert desk.messages[:2] == WORK[:2]
        seen.append([desk.log.place[id_] + 1 for id_ in desk.log.covered(desk.log.view_ids[2:3])])
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(seen))
    assert len({len(numbers) for numbers in seen}) == 3
    assert all(f"m{numbers[0]}-m{numbers[-1]}" in note for numbers, note in [(seen[-1], desk.messages[2].text)])


@pytest.mark.parametrize("ask", ["Please check order #W{0}.", "Prüfe bitte Rechnung {0}.", "请检查文件 a{0}.py。"])
def test_a_note_that_takes_one_more_round_in_keeps_its_room(ask: str) -> None:
    rounds = [
        m
        for n in range(40)
        for m in (
            user(ask.format(n)),
            *tool_exchange("get", {"id": n}, f"total {n * 17} EUR\n" * 3),
            assistant("Done."),
        )
    ]
    desk = Desk([user("Go."), *rounds, user("Go on."), assistant("Yes.")], CONFIG, size)
    desk.make(desk.fold(messages=120, tokens=-(10**6)))
    first = size(desk.messages[1])
    desk.make(desk.fold(messages=3, tokens=-(10**6)))
    assert len([m for m in desk.messages if m.origin]) == 1
    assert size(desk.messages[1]) >= 0.95 * first


def test_the_note_tells_what_the_user_said_what_was_called_and_what_came_of_it() -> None:
    work = [
        user("please look into it"),
        user("please rename it to b.txt, but do not touch c.txt"),
        *tool_exchange("rename", {"path": "a.txt", "to": "b.txt"}, LONG),
        *tool_exchange(
            "bash", {"command": "pytest tests/test_b.py"}, LONG + "\nValueError: 3 is not 4\n[exit code: 1]"
        ),
        assistant("Renamed. " + LONG),
        user("next"),
    ]
    note = folded(work, count=4)[1]
    assert note.origin is not None
    assert "please rename it to b.txt, but do not touch c.txt" in note.text
    assert "m3 rename a.txt b.txt -> " in note.text
    assert "ValueError: 3 is not 4" in note.text
    assert "m5 bash" in note.text
    assert LONG not in note.text


@pytest.mark.parametrize(
    ("proposal", "answer"),
    [
        ("I can 1. rename it, 2. delete it, 3. leave it. Which?", "1, and then 3"),
        ("Soll ich den Flug am 3. Mai umbuchen? Er kostet 84 EUR mehr.", "Ja, bitte."),
        ("我可以先备份数据库，再升级。可以吗？", "可以"),
    ],
)
def test_what_the_users_latest_message_answers_stays_beside_it(proposal: str, answer: str) -> None:
    earlier = [user("go"), *tool_exchange("read", {}, LONG), assistant(LONG), user("and now?")]
    before = [*earlier, assistant(proposal), user(answer)]
    after = folded([*before, *tool_exchange("read", {}, LONG)], count=2)
    assert after[-4:-2] == before[-2:]
    assert any(m.origin for m in after)
    # A long one is told in the note, and where nothing else is left to give, so is every one.
    assert not any(m.text == LONG * 2 for m in folded([*earlier, assistant(LONG * 2), user(answer)], count=9))
    assert before[-2] not in folded(before, count=9, hard=True)


def test_protected_tools_are_folded_only_as_a_last_resort() -> None:
    protected = tool_exchange("load_skill", {}, LONG)
    messages = [user("0"), user(LONG), *protected, assistant("b"), user("c"), assistant("d"), user("e")]
    assert all(m in folded(messages, count=9) for m in protected)
    assert not any(m in folded(messages, count=9, hard=True) for m in protected)


def test_a_reloaded_page_is_folded_when_its_round_is_over() -> None:
    page = tool_exchange("context_reload", {}, LONG)
    work = tool_exchange("read", {}, LONG)
    going_on = [user("0"), user(LONG), assistant("b"), user("c"), *page, *work, assistant("d"), *tool_exchange("ls")]
    after = folded(going_on, count=9)
    assert all(m in after for m in page)
    assert not any(m in after for m in work)
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
    work = [user(LONG), assistant(LONG), pin, user(LONG), assistant(LONG * 2), user("now")]
    for hard in (False, True):
        after = folded([user("first"), *work], count=9, hard=hard)
        assert [bool(m.origin) for m in after] == [False, True, False, True, False]
        assert after[2] == pin


# ---------------------------------------------------------------------------------------------------------- previews
@given(histories(), st.integers(1, 20_000), st.booleans())
def test_cuts_keep_every_rule_and_every_fixed_message(history: list[Msg], excess: int, unread: bool) -> None:
    after = shortened(history, excess, unread=unread)
    assert_pairs_kept(after, history)
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


@pytest.mark.parametrize("excess", [1_000, 2_000, 4_000])
def test_unread_texts_are_cut_no_more_than_needed_and_a_result_keeps_twice_as_much_as_an_argument(excess: int) -> None:
    lines = "\n".join(f"row {n}: {n * 7919 % 1000} pieces are left" for n in range(400))
    messages = [user("go"), *tool_exchange("write", {"rows": lines}, lines)]
    after = shortened(messages, excess, unread=True)
    freed = sum(map(size, messages)) - sum(map(size, after))
    assert 0.97 * excess < freed < 1.1 * excess
    kept, argument = len(after[2].tool_results[0].text), len(after[1].tool_uses[0].input["rows"])
    assert kept == len(lines) or 1.8 < kept / argument < 2.2


def test_what_is_hardly_longer_than_a_note_is_folded_only_if_messages_must_leave() -> None:
    def folds(characters: int, **excess: float) -> int:
        exchange = tool_exchange("read", {}, "x" * characters)
        desk = Desk([user("Go."), *exchange, user("Go on."), assistant("Yes.")], CONFIG, size)
        return len(desk.fold(**excess))

    assert folds(300, tokens=1) == 0
    assert folds(300, messages=1) == 1
    assert folds(3_000, tokens=1) == 1


def test_in_the_very_last_resort_a_note_has_what_was_said_and_done_and_no_other_words() -> None:
    read = tool_exchange("read", {}, LONG * 3)
    desk = Desk([user("Go. " * 300), *read, user("On."), assistant("Yes.")], CONFIG, size)
    fold = Fold(CONFIG, desk.hand_over, (0, 500), bare=True)
    [note] = (build(p, []).messages[0] for p in fold.propose(desk.view))
    assert written_note(note) == ""
    assert "\nm1: … Go.\n" in note.text


def test_work_that_no_user_began_is_folded_from_its_first_message() -> None:
    reads = [m for n in range(6) for m in tool_exchange("read", {"n": n}, LONG)]
    after = folded([*reads, assistant("Done.")], tokens=10**6)
    assert [m.origin is not None for m in after] == [True, False]
    assert "12 earlier messages (m1-m12)" in after[0].text
