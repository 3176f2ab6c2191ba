"""Which lines of the originals a note quotes."""

import pytest

from autocontext.notes.page import LINES
from autocontext.notes.work import WorkLedger
from autocontext.testing import assistant, tool_exchange, user
from autocontext.tokens import get_counter
from tests.notes.pages import page

COUNT = get_counter("o200k_base").count_text


@pytest.mark.parametrize(
    ("heading", "fact"),
    [
        ("1. GIVEN OR VERIFIED FACTS", "The Queen Anne office is at 107 N Liberty St."),
        ("**Offene Posten**", "Rechnung 4711-A"),
        ("</tool_assistant>", "Tool filesystem_7 writes to /root/markdown/cv.md."),
        ("OPEN ORDERS:", "Order W2575533 holds the water bottle 6777246137."),
        ("(Open file: /srv/shop_7/orders.py)", "Order W2575533 holds the water bottle 6777246137."),
        ("(Current directory: /srv/shop_7)", "Order W2575533 holds the water bottle 6777246137."),
    ],
)
def test_a_heading_is_no_fact(heading: str, fact: str) -> None:
    """Even if later messages use its words: without what stands under it, it says nothing."""
    words = heading.strip("*1.: ")
    messages = [
        user("Go on."),
        *tool_exchange("look_up", {"what": "facts"}, f"{heading}\n{fact}\n" + "nothing of note\n" * 40),
        *tool_exchange("compare", {"left": words, "right": fact.rpartition(" ")[2]}, "done"),
        assistant(f"I go on with {words}, and with {fact}"),
    ]
    ledger = WorkLedger.of(messages)
    lines = page(ledger, 600, COUNT, only={3}).partition(f"{LINES}\n")[2]
    assert f"> {fact}" in lines
    assert f"> {heading}" not in lines


@pytest.mark.parametrize(
    ("old", "new"), [("old_string", "new_string"), ("search", "replace"), ("text_before", "text_after")]
)
@pytest.mark.parametrize(
    ("gone", "here"),
    [
        ("    snake = re.sub(PATTERN_7714, camel)", "    return CAMEL_9921.sub(snake).lower()"),
        ("Lieferung an Kastanienallee 17b", "Lieferung an Lindenweg 203c"),
    ],
)
def test_what_an_edit_replaces_is_not_quoted_as_if_it_stood_there(old: str, new: str, gone: str, here: str) -> None:
    edit = {"path": "a.txt", old: f"head\n{gone}\ntail", new: f"head\n{here}\ntail"}
    messages = [
        user("Go on."),
        *tool_exchange("edit", edit, "ok"),
        assistant(f"I look for what is about {gone.strip()} and {here.strip()} now."),
    ]
    text = page(WorkLedger.of(messages), 600, COUNT, only={2})
    assert here.strip() in text
    assert gone.strip() not in text


@pytest.mark.parametrize(
    ("half", "whole"),
    [
        ("content_77 = re.sub(", "limit_77 = 4096"),
        ("foreach $key_77 (sort(keys %ENV)) {", "port_77 = 8081"),
        ("const preise_77 = [", "const frist_77 = 14;"),
    ],
)
def test_the_first_line_of_a_statement_is_no_fact(half: str, whole: str) -> None:
    name, other = (next(word for word in code.split() if "_77" in word) for code in (half, whole))
    read = f"{half}\n  a,\n  b\n)\n{whole}\n" + "nothing of note\n" * 40
    messages = [
        user("Go on."),
        *tool_exchange("read", {"path": "a.txt"}, read),
        *tool_exchange("compare", {"left": name, "right": other}, "done"),
        assistant(f"I look at {name} and {other} now."),
    ]
    lines = page(WorkLedger.of(messages), 600, COUNT, only={3}).partition(f"{LINES}\n")[2]
    assert f"> {whole}" in lines
    assert f"> {half}" not in lines


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('  "mdCode": "darkCyan-7714",', '  "mdCode": "teal",'),
        ("Lieferung an Kastanienallee 17b-7714", "Lieferung an Lindenweg"),
        ("地址：栗树街 C-7714", "地址：菩提路"),
    ],
)
@pytest.mark.parametrize("number", ["", "   12\t"])
def test_a_line_that_was_replaced_later_is_not_quoted_as_if_it_stood_there(
    before: str, after: str, number: str
) -> None:
    read = f"head of it\n{number}{before}\n" + "nothing of note\n" * 40
    value = before.rsplit(" ", maxsplit=1)[-1].strip('",')
    messages = [
        user("Go on."),
        *tool_exchange("read", {"path": "a.txt"}, read),
        *tool_exchange("compare", {"left": value}, "done"),
        assistant(f"I look at {value} now."),
    ]
    edit = tool_exchange("edit", {"path": "a.txt", "old_text": before, "new_text": after}, "ok")
    assert before.strip() in page(WorkLedger.of(messages), 600, COUNT, only={3})
    assert before.strip() not in page(WorkLedger.of([*messages, *edit]), 600, COUNT, only={3})
    again = tool_exchange("read_again", {"path": "a.txt"}, read)
    assert before.strip() in page(
        WorkLedger.of([*messages, *edit, *again, assistant(f"So {value}.")]), 600, COUNT, only={9}
    )


def test_what_is_quoted_stands_under_the_call_that_it_answers_and_as_a_result_if_it_answers_none() -> None:
    read = tool_exchange("read", {"path": "a.txt"}, "port_77 = 8081\n" + "nothing of note\n" * 40)
    told = [*tool_exchange("compare", {"left": "port_77"}, "done"), assistant("I look at port_77 now.")]
    for messages, heading in (([user("Go on."), *read, *told], "m3 read a.txt:"), ([*read[1:], *told], "m1 result:")):
        at = int(heading[1])
        lines = page(WorkLedger.of(messages), 600, COUNT, only={at}).partition(f"{LINES}\n")[2]
        assert lines.splitlines()[:2] == [heading, "> port_77 = 8081"]


def test_lines_of_one_answer_pay_for_its_heading_once() -> None:
    names = [f"port_{n}77" for n in range(8)]
    read = "".join(f"{name} = 80{n}1\n" for n, name in enumerate(names)) + "nothing of note\n" * 40
    path = "src/services/accounts/internal/handlers/settings.txt"
    messages = [
        user("Go on."),
        *tool_exchange("read", {"path": path}, read),
        *tool_exchange("compare", {"left": " ".join(names)}, "done"),
        assistant(f"I look at {' '.join(names)}."),
    ]
    whole = page(messages, 4_000, len, only={3})
    assert all(f"> {name} = " in whole for name in names)
    assert page(messages, len(whole), len, only={3}) == whole
    less = page(messages, len(whole) - 1, len, only={3})
    assert [line in less for line in whole.splitlines()].count(False) == 1


@pytest.mark.parametrize(("name", "other"), [("port_77", "port_771"), ("W-7714", "W-77145")])
def test_a_value_is_told_by_itself_and_not_as_a_part_of_another(name: str, other: str) -> None:
    messages = [
        user("Go on."),
        *tool_exchange("read", {"path": "a.txt"}, f"{name} = closed\n" + "nothing of note\n" * 40),
        *tool_exchange("compare", {"left": name}, "done"),
        assistant(f"I look at {name} now."),
        *tool_exchange("open", {"what": other}, "ok"),
    ]
    text = page(WorkLedger.of(messages), 600, COUNT, only={3, 7, 8})
    assert other in text
    assert f"> {name} = closed" in text
