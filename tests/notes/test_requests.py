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


CHATTER = [
    user(text)
    for text in (
        "The logo on page two looks odd to me somehow, a bit like a melting traffic cone in the rain.",
        "Rosa called about the summer party and the bus that takes us there from the old station.",
        "Der Lüfter klingt heute wie ein kleines Flugzeug, und der Bildschirm flackert in der Sonne.",
    )
]
ANSWERS = [
    ("Shall I cancel booking SB-2 now?", "No thanks.", "Never cancel before the 5th."),
    (
        "I can merge it into main. Shall I? Tell me.",
        "OK.",
        "But never without a green build, whatever Tom says.",
    ),
    ("Soll ich anfragen?", "Ja bitte.", "Höchstens 1.000 Euro insgesamt."),
    ("予約しますか？", "はい。", "カードは使わないでください。"),
]


@pytest.mark.parametrize(("question", "answer", "rule"), ANSWERS)
@pytest.mark.parametrize("blank", [" ", "\n"])
def test_a_yes_or_no_stays_as_long_as_its_question_or_the_rest_of_its_message(
    question: str, answer: str, rule: str, blank: str
) -> None:
    messages = [user("Go."), *WORK, assistant(question), user(f"{answer}{blank}{rule}"), *CHATTER]
    seen = set[bool]()
    for budget in range(20, 600, 10):
        text = page(messages, budget)
        seen.add(rule in text)
        assert answer in text or not (rule in text or question in text), text
    assert seen == {True, False}


@pytest.mark.parametrize(("question", "answer", "rule"), ANSWERS)
def test_an_answer_is_no_greeting_whatever_its_words(question: str, answer: str, rule: str) -> None:
    calls = [m for n in range(40) for m in tool_exchange("book", {"id": f"SB-{n}"}, f"booked as {n * 7919 % 997}")]
    text = page([user("Go."), assistant(question), user(answer), *calls, assistant(rule)], 400)
    assert f"m3: {answer}" in text
    assert "more calls" in text


def test_what_a_terminal_prints_after_a_question_is_no_answer_to_it() -> None:
    printed = user("Observation: ok\nNever run this as root.\nroot@web-1:~# ")
    assert "Observation: ok" not in page([user("Go."), assistant("Shall I? `ls`"), printed, *CHATTER], 330)


@pytest.mark.parametrize(
    ("rule", "other", "changed"),
    [
        (
            "You can order hardware up to 500 euros without asking.",
            "The API must stay backwards compatible.",
            "Hardware orders go through Lena again.",
        ),
        (
            "Storniert wird niemals ohne Rückfrage.",
            "Rechnungen gehen nur an die Buchhaltung.",
            "Stornierungen macht jetzt das Sekretariat in Kiel.",
        ),
        ("カードは絶対に使わないでください。", "返事は必ず日本語で。", "カードの件、会計がもういいと言っていました。"),
    ],
)
def test_what_the_user_says_later_about_a_rule_that_is_told_stands_beside_it(
    rule: str, other: str, changed: str
) -> None:
    said = [m for text in (rule, other, changed) for m in (user(text), assistant("Noted."))]
    messages = [*said, *(m for told in CHATTER for m in (told, assistant("Noted."))), user("Book the bus to Bergen.")]
    seen = set[bool]()
    for budget in range(len(rule) + len(other) + len(changed) + 90, 600, 10):
        text = page(messages, budget)
        assert rule in text
        assert "Book the bus to Bergen." in text
        seen.add(changed in text and any(told.text not in text for told in CHATTER))
        assert changed in text or not any(told.text in text for told in CHATTER), text
    assert True in seen
