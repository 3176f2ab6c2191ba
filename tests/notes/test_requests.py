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


@pytest.mark.parametrize(
    ("typed", "tool", "pasted", "printed"),
    [
        (
            (
                "Punkte sind Tausender. Der Betrag wird je Zeitraum auf den Cent gerundet, halbe Cent nach oben, dann "
                "summiert. Was falsch gesetzt ist, zählt als ungültig."
            ),
            "edit",
            "dienst: Zeile gelesen und geprüft, Stufe",
            "Datei geändert, Version",
        ),
        (
            (
                "Los puntos son miles. El importe se redondea por periodo al céntimo más cercano y luego se suman los "
                "tres. Un punto mal puesto es una lectura no válida."
            ),
            "修改",
            "servicio: línea leída y comprobada, paso",
            "已修改 版本",
        ),
        (
            "点号是千位分隔符。金额按时段四舍五入到分，然后再相加。位置不对的点号视为无效读数。",
            "run",
            "服务：已读取并检查第几行，步骤",
            "built and tested, version",
        ),
    ],
)
@pytest.mark.parametrize("budget", [700, 900, 1_200])
def test_what_a_user_has_typed_is_quoted_whole_before_calls_and_what_they_have_pasted(
    typed: str, tool: str, pasted: str, printed: str, budget: int
) -> None:
    log = "\n".join(f"{pasted} {n} / {n * 7919 % 997}." for n in range(80))
    calls = [m for n in range(40) for m in tool_exchange(tool, {"path": f"src/m{n}.c"}, f"{printed} {n * 31}")]
    text = page([user(typed), *calls[:40], user(f"{log}\n"), *calls[40:]], budget)
    assert f"m1: {typed}" in text
    assert f"{printed} 1209" in text.partition("\nCalls:")[2]
