"""What a note is to keep first: lines of the originals with its words."""

import pytest

from autocontext.notes.mentions import lines_about
from autocontext.notes.page import LINES
from autocontext.testing import assistant, tool_exchange, user
from autocontext.text.words import terms
from tests.notes.pages import page

CASES = [
    ("the lock of the pool", "pool.py:41: the lock is taken twice", "read", {"path": "pool.py"}),
    ("Rechnung RE-17", "Rechnung RE-17 ist doppelt gebucht", "suche", {"wonach": "offene Posten"}),
    ("订单 W26 的 金额", "订单 W26 的 金额 是 330000", "查询", {"表": "订单"}),
]


@pytest.mark.parametrize(("focus", "line", "tool", "asked"), CASES)
def test_lines_with_its_words_are_quoted_under_their_source(
    focus: str, line: str, tool: str, asked: dict[str, str]
) -> None:
    filler = [f"nothing of note in row {n}" for n in range(40)]
    messages = [user("Go on."), *tool_exchange(tool, asked, "\n".join((*filler, line, *filler))), assistant("Read.")]
    assert f"{LINES}\nm3 {tool}: > {line}" in page(messages, 900, only={2, 3}, focus=focus)
    assert LINES not in page(messages, 900, only={2, 3})
    assert LINES not in page(messages, 900, only={2, 3}, focus=focus, shown=[user(f"It said:\n{line}")])


def test_lines_with_more_of_its_words_go_before_newer_ones() -> None:
    found = ["the pool waits", "the lock of the pool waits", "a lock"]
    messages = [m for n, line in enumerate(found) for m in tool_exchange("read", {"part": n}, line)]
    rated = lines_about(frozenset(terms("lock pool")), messages, range(6, 0, -1))
    assert [(share, line.number) for share, line in rated] == [(0.5, 6), (1.0, 4), (0.5, 2)]
    for budget, shown in ((160, [4]), (230, [4, 6]), (900, [2, 4, 6])):
        text = page(messages, budget, focus="lock pool").partition(f"{LINES}\n")[2]
        assert [int(line[1]) for line in text.splitlines()] == shown


def test_a_long_line_is_cut_around_the_word_and_an_equal_one_stands_once() -> None:
    far = '{"a": "' + "x y z " * 300 + '", "state": "zebra_token is set"}'
    messages = [m for n in range(6) for m in tool_exchange("read", {"part": n}, far)]
    lines = page(messages, 900, focus="zebra_token").partition(f"{LINES}\n")[2].splitlines()
    assert len(lines) == 1
    assert "zebra_token is set" in lines[0]
