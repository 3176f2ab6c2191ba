"""What the agent answered the user, in a note: line by line, the newest first as far as there is room."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.messages import Msg
from autocontext.notes.page import HEADINGS, REPLIES
from autocontext.testing import assistant, tool_exchange, user
from tests.notes.pages import page

REPORTS = [
    (
        "Here is what contradicts what:\n1. S04 is in room B2 twice.\n2. README says 12 talks, the list has 14.",
        "To 2: 14.",
    ),
    ("Das ist offen:\n1. RE-17 ist doppelt gebucht.\n2. Der Kurs vom 3.5. fehlt.", "Zu 2: nimm den vom 2.5."),
    ("还有两个问题：\n1. 客户 K-34 与 K-60 重复。\n2. 订单 W-26 的金额是 330000。", "第二条不用动。"),
]


def answered(text: str) -> list[str]:
    """The lines of the part."""
    part = text.partition(f"{REPLIES}\n")[2].split("\n")
    return part[: next((i for i, line in enumerate(part) if line in HEADINGS), len(part))]


@pytest.mark.parametrize(("report", "then"), REPORTS)
def test_an_answer_that_the_user_goes_on_from_stands_whole(report: str, then: str) -> None:
    work = [m for n in range(9) for m in tool_exchange("read", {"path": f"part_{n}.txt"}, f"line {n}\n" * 30)]
    messages = [user("Look for contradictions."), *work, assistant(report), user(then), *work]
    lines = answered(page(messages, 2_400, only={*range(2, 21)}))
    assert lines == ["m20:", *(f"> {line}" for line in report.split("\n"))]


@pytest.mark.parametrize(("report", "then"), REPORTS)
def test_the_newest_answer_goes_before_older_ones_and_one_that_is_cut_says_so(report: str, then: str) -> None:
    messages = [user("Go on.")]
    for n in range(4):
        messages += [assistant(f"Round {n}, file part_{n}.txt.\n{report}"), user(then)]
    whole = answered(page(messages, 9_000, only={*range(2, 9, 2)}))
    assert [line for line in whole if line.startswith("m")] == ["m2:", "m4:", "m6:", "m8:"]
    for budget in range(200, 2_000, 40):
        lines = answered(page(messages, budget, only={*range(2, 9, 2)}))
        shown = [int(head[1]) for line in lines if (head := re.match(r"m(\d+):", line))]
        assert shown == [2, 4, 6, 8][4 - len(shown) :], budget
        parts = re.split(r"^m\d+:", "\n".join(lines), flags=re.MULTILINE)[1:]
        assert all(f"> {report.splitlines()[-1]}" in part for part in parts[1:])
        assert not parts or (f"> {report.splitlines()[-1]}" in parts[0]) or parts[0].rstrip().endswith(" …"), budget


@pytest.mark.parametrize(
    "said",
    [
        "I can help you with that. Could you please tell me your user id?",
        "Das mache ich gern für Sie, einen Moment bitte.",
        "好的，我来看看。",
    ],
)
def test_an_answer_that_names_nothing_is_left_out(said: str) -> None:
    messages = [user("Cancel my order."), assistant(said), user("It is W-7714.")]
    assert said not in page(messages, 4_000, only={2})


def test_what_is_in_view_and_what_stands_there_already_is_not_told_again() -> None:
    report = "The cause is in pool.py, line 12.\nIt never closes, so W-7714 waits."
    messages = [user("Why?"), assistant(report), user("And?"), assistant(report), user("Go on.")]
    assert page(messages, 4_000, only={2, 4}).count("The cause is in pool.py") == 1
    assert "pool.py" not in page(messages, 4_000, only={2}, shown=messages[2:])


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=80) | st.sampled_from(["a-1", "b_2\nc", "\n"]), max_size=9),
    st.integers(60, 900),
)
def test_each_row_stands_in_its_message(texts: list[str], budget: int) -> None:
    messages: list[Msg] = [m for text in texts for m in (user("Go on."), assistant(text or "x-1"))]
    number = 0
    for line in answered(page(messages, budget)):
        if head := re.match(r"m(\d+):", line):
            number = int(head[1])
        if line := re.sub(r"^m\d+: ?", "", line):
            said = "".join(ch if ch.isprintable() else " " for ch in messages[number - 1].text)
            own = line.removeprefix("> ").removesuffix(" …").replace("<! ", "<!-- ")
            assert "".join(own.split()) in "".join(said.split())


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ("Options:\n1. paint it red\n2. paint it blue\n3. leave it white", "to your 2: no"),
        ("Zur Wahl:\n1. rot\n2. blau\n3. weiß lassen", "zu 2: nein"),
        ("可以选：\n1. 红色\n2. 蓝色\n3. 不变", "不要第二个"),
    ],
)
def test_a_list_that_names_nothing_is_an_answer_too(options: str, chosen: str) -> None:
    text = page([user("The wall?"), assistant(options), user(chosen)], 900, only={1, 2})
    assert all(f"> {line}" in text for line in options.splitlines())


def test_a_long_paragraph_is_cut_and_stops_no_older_answer() -> None:
    messages = [user("How?"), assistant("1. Fly SK123\n2. Train T45\n3. Bus B67"), user("And?")]
    messages += [assistant("It takes 14 hours with SK124 by way of Oslo. " * 60), user("to your 3: no")]
    text = page(messages, 2_400, only={2, 4})
    assert "> 3. Bus B67" in text
    assert text.count("It takes 14 hours") < 15
    assert re.search(r"m4: It takes .*…", text)


def test_an_answer_of_which_the_end_is_not_read_says_so() -> None:
    rows = [f"row {n} has the value_{n}" for n in range(1_000)]
    lines = answered(page([user("List."), assistant("\n".join(rows)), user("Go on.")], 90_000, only={2}))
    assert 500 < len(lines) < 1_000
    assert lines[-1].endswith(" …")


def test_a_conclusion_that_begins_in_an_answer_that_is_cut_is_not_told_again() -> None:
    items = "\n".join(f"{n}. src/part_{n}.py lacks the lock, because pool_{n} never takes it." for n in range(1, 40))
    messages = [user("Look."), assistant(f"These lack it:\n{items}"), user("Go on.")]
    for budget in range(300, 1_500, 100):
        text = page(messages, budget, only={1, 2})
        assert text.count("1. src/part_1.py lacks the lock") <= 1, text


def test_where_the_whole_is_longer_than_its_lines_the_oldest_rows_go_and_no_number() -> None:
    report = "\n".join(f"{n}. part_{n}.py is done." for n in range(12))
    messages = [m for n in range(4) for m in (user(f"Go on with {n}."), assistant(f"Round {n}.\n{report}"))]
    for budget in range(400, 4_000, 60):
        lines = answered(page(messages, budget, lambda text: len(text) + 12 * text.count("\n")))
        assert not lines or not lines[0].startswith("> "), budget


FAILED = [
    (
        "Forwarding invoice d48 bounced because karin@lindqvist.se is unknown.",
        "karin.holm@ledgerly.se",
        "Done, it is sent.",
    ),
    ("Der Test test_pool.py schlägt fehl, weil die Sperre fehlt.", "Dann setze sie.", "Jetzt laufen alle."),
    ("订单 W-7714 无法取消，因为已经发货。", "再试一次。", "好了，已取消。"),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("failed", "then", "done"), FAILED)
@pytest.mark.parametrize("between", [0, 2])
def test_a_failure_is_not_the_last_word_where_a_later_answer_in_few_words_follows(
    failed: str, then: str, done: str, between: int
) -> None:
    call = tool_exchange("run", {"it": "again"}, "ok")
    more = [m for n in range(9) for m in tool_exchange("make", {"target": f"part_{n}"}, f"built {n * 7919}")]
    messages = [user("Go on."), *call, assistant(failed), user(then), *call]
    messages += [m for _ in range(between) for m in (assistant("Hm."), user(then), *call)]
    messages += [assistant(done), user("Fine."), *more, assistant("The build of part_8 works."), user("Next?"), *more]
    seen = set[bool]()
    for budget in range(60, 1_200, 20):
        lines = answered(page(messages, budget, only={*range(1, len(messages))}))
        seen.add(f"m4: {failed}" in lines)
        assert any(done in line for line in lines) or f"m4: {failed}" not in lines, budget
        assert "Hm." not in "".join(lines)
    assert seen == {True, False}


def test_an_answer_in_few_words_that_follows_no_call_or_no_other_answer_is_left_out() -> None:
    call = tool_exchange("find", {"id": "W-7714"}, "found")
    first = [user("Cancel W-7714."), *call, assistant("Sure."), user("And?")]
    later = [
        assistant("It waits, because W-7714 is paid."),
        user("So?"),
        assistant("One moment, please."),
        user("Well?"),
    ]
    text = page([*first, *later], 4_000, only={*range(1, 9)})
    assert "Sure." not in text
    assert "One moment" not in text
