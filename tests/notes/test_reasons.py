"""The agent's words in a note: reasons, findings and plans first."""

import pytest

from autocontext import TextBlock
from autocontext.history.runs import Runs
from autocontext.notes.shown import InView
from autocontext.notes.speech import reasons
from autocontext.notes.work import WorkLedger
from autocontext.testing import assistant, tool_exchange, user
from tests.notes.pages import page


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("filler", "finding"),
    [
        ("I am glad to help you with all of that today.", "Order W5565470 was shipped twice because of the retry."),
        ("Das mache ich gern für Sie, einen Moment bitte.", "Der Auftrag A-118 fehlt, weil der Import abbrach."),
        ("Con mucho gusto le ayudo con su pedido ahora.", "El pedido P-77 no llegó porque cambió la dirección."),
    ],
)
def test_what_names_nothing_and_gives_no_reason_is_left_out(filler: str, finding: str) -> None:
    messages = [user("What happened?")]
    for n in range(12):
        said = filler.replace(" ", f" {'i' * n} ", 1) if n < 6 else f"{finding[:-1]}{n % 6}."
        messages += [assistant(said), *tool_exchange("get_log", {"day": n}, f"{n} rows")]
    text = page(messages, 2_400)
    assert all(f"m{2 + 3 * n}: " in text for n in range(6, 12))
    assert not any(f"m{2 + 3 * n}: " in text for n in range(6))


@pytest.mark.parametrize(
    "said",
    [
        "The pool leaks because nothing ever closes it.",
        "Order W5565470 went out to the second address.",
        "Das Lager ist leer, weil niemand bestellt hat.",
        "库存是空的，因为没有人订货，大家都在等。",
    ],
)
def test_a_reason_that_names_nothing_and_a_name_without_a_reason_are_more_than_words(said: str) -> None:
    ledger = WorkLedger.of([user("What happened?"), assistant(said), assistant("I am glad to help you with all that.")])
    shown = InView(()).without(0, 0, "")
    assert [reason.text for reason in reasons(ledger, Runs.of([2, 3]), shown)] == [said]


@pytest.mark.parametrize(
    ("again", "new"),
    [
        ("The cause is that pool.py never closes its connections.", "In line 12 pool.close() must be called."),
        ("Der Fehler liegt in pool.py: sie schließt nichts.", "In Zeile 12 muss pool.close() stehen."),
        ("问题在于 pool.py 从不关闭连接，所以会泄漏。", "第 12 行必须调用 pool.close()。"),
    ],
)
def test_what_the_agent_says_again_and_again_is_told_once(again: str, new: str) -> None:
    messages = [user("Why does it leak?")]
    for n in range(4):
        messages += [assistant(f"{again}\n{new}" if n == 1 else again), *tool_exchange("run", {"n": n}, f"{n} rows")]
    text = page(messages, 900)
    assert (text.count(again), text.count(new)) == (1, 1)
    assert f"m11: {again}" in text, "the newest"


@pytest.mark.parametrize(
    "said",
    [
        "I can see the staff page, but I don't see Mr. Lu listed here.",
        "I can see that theme.ts still uses chalk.",
        "Auf der Seite steht Herr Lu nicht.",
        "La page ne mentionne pas monsieur Lu.",
        "页面上没有鲁先生的名字，名单里找不到。",
    ],
)
def test_what_was_seen_or_not_found_is_no_announcement(said: str) -> None:
    messages = [
        user("Where is he?"),
        assistant(said),
        *tool_exchange("fetch", {"page": 7}, "A list."),
        assistant("So."),
    ]
    assert f"m2: {said}" in page(messages, 900)


@pytest.mark.parametrize(
    "sentences",
    [
        ["The pool leaks because it never closes.", "Also, A-118 must be opened first, since B needs it."],
        ["Zuerst fehlt der Import, weil A-7 abbrach.", "Also muss A-9 danach laufen, weil B-2 ihn braucht."],
        ["首先，订单A-118缺失，因为导入失败了。", "其次，A-119必须先打开，因为B-2需要它。"],
    ],
)
def test_sentences_of_a_message_stand_in_its_order(sentences: list[str]) -> None:
    for said in (sentences, sentences[::-1]):
        messages = [user("What happened?"), assistant("\n".join(said)), *tool_exchange("get_log", {"day": 1}, "2 rows")]
        text = page(messages, 4_000)
        assert text.index(said[0]) < text.index(said[1])


@pytest.mark.parametrize(
    ("said", "other"),
    [
        ("Please open the page of order A-118 at FedEx.", "The form lacks the postal code, because A-118 has none."),
        ("Bitte öffne die Seite des Auftrags A-118 bei DHL.", "Der Auftrag A-118 fehlt, weil der Import abbrach."),
        ("请打开订单 A-118 的页面，看看价格。", "订单 A-118 缺失，因为导入失败了 3 次。"),
    ],
)
def test_what_a_message_says_in_its_call_is_told_once(said: str, other: str) -> None:
    messages = [user("What happened?"), assistant(f"{said}\n{other}"), *tool_exchange("get_log", {"day": 1}, "2 rows")]
    assert said in page(messages, 4_000)
    for written, more in ((f"{said}\n{other}", ""), (f'"answer": "{said}"\n{other}', " Then read the page." * 9)):
        use, result = tool_exchange("browse", {"do": said + more}, "A page.", id="c1")
        both = assistant([TextBlock(text=written), *use.content])
        text = page([user("What happened?"), both, result], 4_000)
        assert text.count(said) == 1
        assert other in text


@pytest.mark.parametrize(
    "said",
    [
        "The pool leaks because A-118 never closes it.",
        "Der Auftrag A-118 fehlt, weil er abbrach.",
        "订单A-118缺失，因为昨天晚上的导入任务失败了两次。",
    ],
)
def test_a_reason_that_a_long_argument_has_too_stands_in_the_note(said: str) -> None:
    content = "\n".join([*(f"line {n} of the page" for n in range(40)), said, *(f"line {n}" for n in range(40))])
    use, result = tool_exchange("write_file", {"path": "a.md", "content": content}, "ok", id="c1")
    text = page([user("Write."), assistant([TextBlock(text=said), *use.content]), result], 4_000)
    assert said in text


@pytest.mark.parametrize(
    ("finding", "tool", "printed"),
    [
        ("Order W{n}17 was charged twice because the retry had no key.", "run", "row {n} read and checked"),
        ("Der Beleg RE-{n}05 fehlt, weil er im Folgemonat gebucht ist.", "sql", "{n} Zeilen gelesen und geprüft"),
        ("系列 T{n}5 的残差偏大，因为稀释倍数没有除。", "拟合", "k = 0.0{n} 已完成"),
    ],
)
def test_what_the_agent_found_out_takes_the_rest_of_the_room_before_calls(
    finding: str, tool: str, printed: str
) -> None:
    messages = [user("Find out why.")]
    for n in range(10, 34):
        call = tool_exchange(tool, {"file": f"data/part_{n * 37}.csv", "limit": n}, printed.format(n=n * 31))
        messages += [assistant(finding.format(n=n)), *call]
    text = page(messages, 2_400 if finding.isascii() or "RE-" in finding else 1_500)
    found = sum(finding.format(n=n) in text for n in range(10, 34))
    told = sum(printed.format(n=n * 31) in text for n in range(10, 34))
    assert found > told >= 4
