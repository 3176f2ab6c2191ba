"""What the sentences of the user and of the agent are worth, in ten languages."""

import pytest
from hypothesis import given

from autocontext.messages import TextBlock
from autocontext.notes.sentences import (
    ASIDE,
    CLAUSE,
    GREETING,
    OUTPUT,
    PASTE,
    PLAIN,
    RULE,
    goes_on,
    heading_of,
    of_agent,
    of_user,
    sentences,
)
from autocontext.notes.work import WorkLedger
from autocontext.testing import assistant, tool_exchange, user
from autocontext.tokens import get_counter
from tests.conversations import texts
from tests.notes.pages import page
from tests.notes.test_constraints import CONSTRAINTS

GREETINGS = (
    "Thanks!",
    "Hi there",
    "Hello, how are you?",
    "Thank you so much for your help.",
    "ok",
    "OK, great",
    "Perfect, thanks",
    "谢谢",
    "谢谢你！",
    "好的，谢谢",
    "ありがとうございます",
    "こんにちは",
    "안녕하세요",
    "감사합니다",
    "Hola",
    "Muchas gracias",
    "Merci beaucoup !",
    "Danke schön",
    "Vielen Dank",
    "Obrigado",
    "Grazie mille",
    "Спасибо большое",
    "Good morning!",
    "Guten Morgen",
    "You're welcome",
)
PLAIN_WORDS = (
    "No thanks",
    "Yes please",
    "yes",
    "Nice, now delete it",
    "你好，请帮我订票",
    "Bonjour, pouvez-vous m'aider ?",
    "Hi, I want to cancel order #W1",
    "hello world is printed twice",
    "What does the pool do when it is full?",
    "My name is Ann Lee",
    "It crashed again here on my laptop",
    "¿Puedes revisar el fichero?",
    "テストを三回実行した",
    "1533:            except FieldInstanceResolutionError as error:",
    "  if not should_stop:",
    "Requirement already satisfied: pip in /usr/lib",
    "[File: /a/b.py (1997 lines total)]",
    "That one is fine",
)
RULES = (
    "ok but do not push",
    "Great, go ahead and cancel it.",
    "Great! Use the second card.",
    "Always call close() at the end",
    "never use == to compare",
    "- Never touch the tests",
    "1. Never touch the tests",
    "**Important:** keep the API",
    "I confirm the second option",
    "Reply in English",
    "cancel it only if it is refundable",
    "It must fit in 500 MB",
    "at most 3 bags",
    "wait, I meant the other order",
    "请保持接口不变",
    "以后都用中文回答",
    "できれば火曜日までにお願いします",
    "No, stop that",
    "do it without asking me again",
)


def worth(text: str) -> int:
    return max(sentence.worth for sentence in of_user(text))


@pytest.mark.parametrize("text", GREETINGS)
def test_politeness_is_worth_least(text: str) -> None:
    assert worth(text) == GREETING


@pytest.mark.parametrize("text", PLAIN_WORDS)
def test_what_says_something_is_no_greeting_and_no_rule(text: str) -> None:
    assert worth(text) == PLAIN


@pytest.mark.parametrize("text", [*RULES, *CONSTRAINTS])
def test_rules_limits_permissions_corrections(text: str) -> None:
    assert worth(text) == RULE


@pytest.mark.sampled(7)
@pytest.mark.parametrize("constraint", CONSTRAINTS[::3])
@pytest.mark.parametrize("around", ["Hello! {} Thanks.", "I have this:\n{}\nSo go on.", "你好。{}谢谢。", "{}"])
def test_a_rule_among_other_words_is_one_sentence(constraint: str, around: str) -> None:
    text = around.format(constraint)
    found = [text[s.start : s.stop] for s in of_user(text) if s.worth == RULE]
    assert any(constraint.rstrip(".。") in sentence for sentence in found)


def test_a_paste_is_worth_less_inside_but_a_rule_in_it_stays() -> None:
    lines = [f"entry {i} of the list that was pasted here" for i in range(300)]
    lines[150] = "Never delete entry 150."
    text = "\n".join(["Look at this list.", *lines, "What do you see?"])
    found = {text[s.start : s.stop]: s.worth for s in of_user(text)}
    assert found["Look at this list."] == ASIDE
    assert found["What do you see?"] == ASIDE
    assert found[lines[100]] == PASTE
    assert found[lines[150]] == CLAUSE


@pytest.mark.parametrize(("characters", "expected"), [(900, RULE), (1_000, RULE), (1_001, CLAUSE), (1_100, CLAUSE)])
def test_a_rule_among_a_thousand_characters_counts_less_as_it_may_be_pasted(characters: int, expected: int) -> None:
    rule = "Never delete the backups."
    text = f"{rule}\n{'The list of the week goes on and on. ' * 40}"[:characters]
    assert {text[s.start : s.stop]: s.worth for s in of_user(text)}[rule] == expected


@pytest.mark.parametrize(
    "comment",
    [
        "# Never call this twice.",
        "// Do not use the cache here.",
        "/* It must not be empty. */",
        "raise Error('no lock')  # must hold it",
    ],
)
def test_the_lines_of_a_pasted_diff_are_no_rules_of_the_user(comment: str) -> None:
    diff = (
        f"diff --git a/lock.py b/lock.py\n@@ -1,3 +1,3 @@\n def lock():\n-    {comment}\n+    {comment} \n     return 1"
    )
    text = f"Please review this.\n{diff}\nDo not merge it before Friday."
    worths = {text[s.start : s.stop]: s.worth for s in of_user(text)}
    assert not any(worth in (RULE, CLAUSE) for said, worth in worths.items() if comment in said)
    assert worths["Please review this."] == PLAIN
    assert worths["Do not merge it before Friday."] == RULE


def test_of_very_many_sentences_the_best_are_kept_in_order() -> None:
    text = "\n".join("Never say this." if i == 2_000 else f"line number {i}" for i in range(3_000))
    found = of_user(text)
    assert len(found) == 400
    assert list(found) == sorted(found)
    assert any(s.worth == CLAUSE for s in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("version 1.2.3 of a.py is fine.", ["version 1.2.3 of a.py is fine."]),
        ("一。二！三？四", ["一。", "二！", "三？", "四"]),
        ("first line\n\n  second line  \n", ["first line", "second line"]),
        ("really?! yes", ["really?!", "yes"]),
        ("Plan:\n1. Stop it.\n 12. Delete W17.", ["Plan:", "1. Stop it.", "12. Delete W17."]),
        ("? Yes. No.", ["?", "Yes.", "No."]),
        ("", []),
        (" \n\t ", []),
    ],
)
def test_where_sentences_end(text: str, expected: list[str]) -> None:
    assert [text[a:b] for a, b in sentences(text)] == expected


def test_what_never_ends_is_taken_in_pieces_between_words() -> None:
    text = " ".join(f"word{i}" for i in range(1_000))
    pieces = [text[a:b] for a, b in sentences(text)]
    assert " ".join(pieces) == text
    assert max(map(len, pieces)) <= 600


def test_data_without_a_blank_is_no_sentence() -> None:
    assert of_user("0" * 20_000) == ()
    assert [s.worth for s in of_user(f"Never print this key:\n{'aB3' * 300}\nThanks.")] == [RULE, GREETING]
    assert len(of_user("好" * 1_500)) == 3


@given(texts())
def test_sentences_are_in_order_and_leave_out_blanks_only(text: str) -> None:
    end = 0
    for start, stop in sentences(text):
        assert end <= start < stop <= len(text)
        assert not text[end:start].strip()
        assert text[start:stop] == text[start:stop].strip()
        end = stop
    assert not text[end:].strip()


@pytest.mark.parametrize(
    "text",
    [
        "Let me look at the file.",
        "I'll now run the tests.",
        "Now let me check the parser.",
        "让我看一下这个文件的内容。",
        "```python\nthe root cause is in this code\n```",
        "Great.",
    ],
)
def test_announcements_and_what_only_leads_to_a_list_are_no_conclusions(text: str) -> None:
    assert of_agent(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "The root cause is the missing lock in the pool.",
        "So the fix must close the pool before the fork.",
        "I decided to keep the old names because others use them.",
        "根本原因是连接池没有加锁，所以需要先关闭它，然后再继续。",
        "原因はロックがないことなので、修正が必要だと思います。",
    ],
)
def test_conclusions_are_kept(text: str) -> None:
    found = of_agent(f"Let me look at the next file. {text}\nNow let me run the tests.")
    assert [s.worth for s in found] == [2]


@pytest.mark.parametrize(
    "text",
    ["Which of the two orders should I cancel?", "您想取消哪一个订单呢，请告诉我？", "ما هو رقم الطلب الذي تريد؟"],
)
def test_what_the_agent_asked_is_no_conclusion(text: str) -> None:
    assert not of_agent(text)


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("Reservation NM1VX1 is in basic economy.", "Therefore, I cannot upgrade this reservation."),
        ("预订NM1VX1是基础经济舱，不能修改。", "因此，我没有办法为您升级这个预订的舱位，抱歉。"),
    ],
)
def test_a_conclusion_is_told_with_the_sentence_it_stands_on(before: str, text: str) -> None:
    message = f"I have looked at both of the flights. {before} {text}"
    assert f"{before} {text}" in [message[s.start : s.stop] for s in of_agent(message)]


@pytest.mark.parametrize(
    ("heading", "items"),
    [
        ("The hash is computed as follows:", ["1. The seed is 0 for each flag.", "2. Each byte is added to it."]),
        ("Diese Bestellungen sind noch offen:", ["- W2575533 mit zwei Flaschen", "- W5565470 mit einer Lampe"]),
        ("原因如下，有两个问题需要解决，请您先看一下：", ["1. 连接池没有加锁，所以会泄漏", "2. 没有关闭旧的连接"]),
    ],
)
@pytest.mark.parametrize("more", [False, True])
def test_the_heading_of_a_list_is_told_with_its_items(heading: str, items: list[str], more: bool) -> None:
    long = "- " + "a word of it " * 40
    message = "\n".join((heading, *items, *([long] if more else [])))
    told = of_agent(message)
    together = "\n".join((heading, *items))
    (found,) = [s for s in told if message[s.start : s.stop] == together]
    assert not {heading, *items} & {message[s.start : s.stop] for s in told}
    assert goes_on(message, found) is more
    assert heading_of(message, message.index(items[1])) == heading


@pytest.mark.parametrize(
    ("heading", "item"),
    [
        ("I found these six orders:", "#W{} is pending with a lamp and a table, and it can be cancelled today"),
        ("Diese Dateien fehlen noch:", "src/pool_{}.py mit der Klasse für Verbindungen, die geschlossen sind"),
        (
            "以下订单需要处理，请您确认：",
            "订单W{}还没有发货，因为仓库里没有足够的货，需要等待下一批到货之后才能安排发出，大概三天",
        ),
    ],
)
def test_a_list_that_is_cut_says_that_it_goes_on(heading: str, item: str) -> None:
    items = [f"{n}. {item.format(7001 + n)}" for n in range(1, 13)]
    call, result = tool_exchange("look", {"at": "all"}, "ok")
    found = assistant([TextBlock(text="\n".join((heading, *items))), *call.content])
    work = [user("Go on."), found, result, user("Yes."), assistant("Done.")]
    (line,) = [line for line in page(work, budget=3_000).splitlines() if items[0] in line]
    assert heading in line
    assert items[-1] not in line
    assert line.endswith(" …")


@pytest.mark.parametrize(
    "beginning",
    [
        "OBSERVATION",
        "Observation: ",
        "EXECUTION RESULT of [main.py]",
        "Command output",
        "[Tool result]",
        "Function responses",
        "Execution output",
        "<returncode>0</returncode>",
        "<output>",
        "<stdout>",
        "<stderr>",
        "<observation>",
        "<tool_response>",
        "<tool_result>",
        "<function_results>",
    ],
)
def test_a_message_that_begins_as_the_output_of_a_tool_says_nothing_of_the_user_s(beginning: str) -> None:
    printed = "\nNever delete the backups.\nThe list goes on.\n"
    assert {s.worth for s in of_user(f"{beginning}{printed}")} == {OUTPUT}
    assert OUTPUT not in {s.worth for s in of_user(f"In the {beginning} it says this.{printed}")}


def test_what_a_longer_message_rules_out_is_told() -> None:
    rule = "Never delete the backups."
    messages = [user(f"{rule}\n{'The list of the week goes on and on. ' * 40}"), assistant("Very well.")]
    assert rule in page(messages, 200)


def test_few_sentences_of_a_message_are_kept_conclusions_first() -> None:
    text = " ".join(
        [*(f"This is a plain sentence number {i} here." for i in range(9)), "The root cause is the lock here."]
    )
    found = of_agent(text)
    assert len(found) == 6
    assert text[found[-1].start : found[-1].stop] == "The root cause is the lock here."


@pytest.mark.parametrize(
    "text",
    [
        "Bitte nichts vor dem 17.03. legen, nur danach.",
        "Ask Dr. Weber before you send it.",
        "Nimm z. B. den Zug um 9 Uhr, aber nie den Bus.",
        "Not more than 35 EUR p. P. please.",
        "Write to J. Petersen only.",
    ],
)
def test_a_full_stop_inside_a_sentence_does_not_end_it(text: str) -> None:
    assert list(sentences(text)) == [(0, len(text))]


def test_a_full_stop_after_a_number_ends_a_sentence() -> None:
    assert len(list(sentences("Make it 5. Then send it with -r. invalid ones never."))) == 3


@pytest.mark.parametrize(
    "text",
    ["use rgb values in the themes, please!!", "Nimm die blauen Schuhe!", "地址 就写 上海！", "Hex colours, I said!"],
)
def test_what_is_said_with_emphasis_is_kept_like_a_rule(text: str) -> None:
    (sentence,) = of_user(text)
    assert sentence.worth == RULE


@pytest.mark.parametrize(
    "message",
    [
        "These files must change:\n- app/models.py\n- app/views.py is wrong\n  because of the import\n- app/urls.py",
        "Der Plan ist, weil A fehlt:\n1. A-118 anlegen. Danach prüfen.\n2. A-119 löschen.\n3. Fertig.",
    ],
)
def test_a_list_with_longer_items_says_that_it_goes_on(message: str) -> None:
    told = [s for s in of_agent(message) if message[s.start : s.stop].startswith(message.split("\n", maxsplit=1)[0])]
    assert told
    assert goes_on(message, told[0])
    assert not goes_on(message, told[0]._replace(stop=len(message)))


@pytest.mark.parametrize("prompt", ["bash-$", "root@host:~/app#", "PS C:\\work>", "$ ", ">>>"])
@pytest.mark.parametrize(
    "printed",
    [
        "[File: /src/fields.py (9 lines total)]\nPlease review the changes and make sure they are correct.",
        "Installiert: marshmallow 3.13.0\nWARNUNG: nur mit virtueller Umgebung benutzen",
        "已成功安装。\n请不要以 root 身份运行。",
    ],
)
def test_what_a_terminal_prints_up_to_its_prompt_is_not_what_the_user_asks_for(printed: str, prompt: str) -> None:
    assert {s.worth for s in of_user(f"{printed}\n(Current directory: /app)\n{prompt}")} == {OUTPUT}
    assert {s.worth for s in of_user(printed)} != {OUTPUT}
    task = "Never touch the tests.\nAlways run them twice.\nUse only one command at a time."
    assert {s.worth for s in of_user(f"{task}\n(Current directory: /app)\n{prompt}")} & {RULE}, "a task"
    for own in ("Only the old ones:\n<b>the first</b>", "Only these: x\ncosts 5$", "Nur diese:\nalle >"):
        assert {s.worth for s in of_user(own)} & {RULE}, "no prompt"


@pytest.mark.parametrize(
    ("printed", "prompt"),
    [
        ("Requirement already satisfied: part{0} in /usr/lib/python3", "bash-$"),
        ("Paket teil{0} wird eingerichtet und geprüft", "root@host:~#"),
        ("正在安装第{0}个软件包，请稍候", "PS C:\\work>"),
    ],
)
def test_what_a_terminal_prints_takes_a_small_part_of_a_note(printed: str, prompt: str) -> None:
    output = "\n".join(printed.format(n) for n in range(60)) + f"\n{prompt}"
    history = [user("Install it."), assistant("I install it now."), user(output), assistant("It is installed.")]
    text = page(WorkLedger.of(history), 800, get_counter("o200k_base").count_text, only={2, 3})
    assert sum(line.format(0)[:12] in text for line in [printed]) <= 1
    assert len([line for line in text.split("\n") if printed[:6] in line]) <= 10, text
