"""What the user said last is marked while no reply follows it, by structure alone."""

import pytest

from autocontext import Msg
from autocontext.notes.page import SAID
from autocontext.testing import assistant, tool_exchange, user
from tests.notes.pages import page

WORK = tool_exchange("read_file", {"path": "src/pool.py"}, "text")


@pytest.mark.parametrize(
    ("first", "second", "reply"),
    [
        ("Only ever use the staging database.", "Now drain the pool.", "The pool is drained."),
        ("Bestelle nie mehr als 4 Lampen.", "Bestelle die rote.", "Die rote ist bestellt."),
        ("不要修改计费模块。", "现在检查订单 A-7714。", "订单已检查。"),
    ],
)
def test_what_has_no_reply_yet_is_marked_and_comes_last(first: str, second: str, reply: str) -> None:
    answered = [user(first), *WORK, assistant(reply), user(second), *WORK, assistant(reply)]
    assert lines(answered) == [f"m1: {first}", f"m5: {second}"]
    assert lines(answered[:-1]) == [f"m1: {first}", f"m5 (open): {second}"]
    interrupted = [user(first), *WORK, user(second), *WORK]
    assert lines(interrupted) == [f"m1: {first}", f"m4 (open): {second}"]
    assert lines([*interrupted, assistant(reply)]) == [f"m1: {first}", f"m4: {second}"]


def lines(messages: list[Msg]) -> list[str]:
    return page(messages, 2_000).partition(f"{SAID}\n")[2].partition("\nLooked at:")[0].splitlines()
