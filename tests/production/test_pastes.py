"""A long text that a user pasted is at most half of the window once it was answered, and causes no pass a turn."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, ImageBlock, TextBlock
from autocontext.messages import is_user_turn
from autocontext.strategies.pastes import in_part
from autocontext.testing import assert_valid_chat, assistant, system, tool_exchange, user
from autocontext.tokens import get_counter
from tests.test_replay import CONVERSATIONS

COUNT = get_counter("o200k_base").count
RULE = "Everything goes past Maria first."


def paste(characters: int) -> str:
    lines = (f"Line {n}: item {n * 37 % 1000} costs {n * 91 % 5000}." for n in range(characters))
    text, size = [], 0
    for line in lines:
        text.append(line)
        size += len(line) + 1
        if size > characters:
            break
    return f"{RULE}\n" + "\n".join(text)


def talked(memory: AutoContextMemory, first: str, turns: int) -> int:
    """A conversation about a paste; returns its passes."""
    passes = 0

    def look() -> None:
        nonlocal passes
        before = len(memory.get_compression_events())
        assert_valid_chat(memory.get_messages())
        assert memory.token_count <= memory.config.max_token
        passes += len(memory.get_compression_events()) > before

    memory.add_messages([system("You are an agent."), user(first)])
    for turn in range(turns):
        look()
        memory.add_message(assistant(f"Answer {turn}: item {turn} is fine."))
        if turn % 2:
            memory.add_messages(tool_exchange("read", {"n": turn}, f"page {turn} " * 60))
        look()
        memory.add_message(user(f"Turn {turn}: and the next one?"))
        look()
    return passes


@pytest.mark.slow
@settings(max_examples=40)
@given(st.sampled_from((4_000, 8_000, 16_000)), st.floats(0.3, 5.0))
def test_a_first_message_of_any_length_causes_a_pass_in_a_third_of_the_turns_at_most(window: int, size: float) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(window))
    assert talked(memory, paste(int(size * window * 4)), 40) <= 13


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.6, 1.2, 3.0])
def test_an_answered_paste_is_at_most_half_of_the_window_and_keeps_its_beginning(size: float) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    assert talked(memory, paste(int(size * 16_000)), 24) <= 6
    first = next(m for m in memory.messages if is_user_turn(m))
    assert len(first.text) <= 4 * 2_000
    assert RULE in first.text
    assert re.search(r"\[m2: [\d,]+ of [\d,]+ characters left out\]", first.text)


@pytest.mark.slow
@pytest.mark.parametrize("window", [4_000, 8_000])
def test_an_answered_paste_gives_way_to_a_long_request(window: int) -> None:
    """The open request stays whole, and the earlier one and it together leave half of the window for the work."""
    memory = AutoContextMemory(AutoContextConfig.for_window(window))
    request = "Now do it for these:\n" + "\n".join(f"Order W{n}: book {n * 7} seats." for n in range(window // 40))
    memory.add_messages([user(paste(window * 3)), assistant("I have read the demonstration."), user(request)])
    for n in range(30):
        memory.add_messages(tool_exchange("read", {"n": n}, f"page {n} of seats " * 40))
        assert_valid_chat(memory.get_messages())
    first, latest = (m for m in memory.messages if is_user_turn(m))
    assert latest.text == request
    assert RULE in first.text
    assert sum(COUNT(m) for m in (first, latest)) < 0.5 * window


def test_a_paste_in_the_middle_gives_way_once_it_was_answered() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    memory.add_messages([user("Hello."), assistant("Hello.")])
    assert talked(memory, paste(20_000), 12) <= 3
    assert len(memory.messages) > 8


@pytest.mark.slow
@settings(max_examples=40)
@given(st.sampled_from((4_000, 8_000)), st.floats(0.3, 2.0), st.floats(0.2, 1.5), st.booleans())
def test_an_answered_paste_gives_way_to_a_new_result(window: int, size: float, share: float, asked: bool) -> None:
    """A result that fits beside a third of the window stays whole; for one that never fits, nothing is cut."""
    memory = AutoContextMemory(AutoContextConfig.for_window(window))
    result = "\n".join(
        f"{n:05} reading of sensor {n * 13 % 97}: {n * 7919 % 1000}" for n in range(int(window * share / 16))
    )
    memory.add_messages([user(paste(int(size * window * 2))), assistant("I have read it.")])
    memory.get_messages()
    first = next(m for m in memory.messages if is_user_turn(m))
    memory.add_messages([user("Read the sensors.")] if asked else [])
    exchange = tool_exchange("read", {}, result)
    new = sum(map(COUNT, exchange))
    memory.add_messages(exchange)
    context = memory.get_messages()
    now = next(m for m in context if is_user_turn(m))
    assert RULE in now.text
    if new < 0.55 * window:
        assert context[-1].tool_results[0].text == result
    elif new > 0.9 * window:
        assert COUNT(now) >= min(COUNT(first), 0.4 * window)


ASKED = {
    "en": ("Please review this change.", "When you are done, you can submit it by running the submit command."),
    "de": ("Bitte prüfe diese Änderung.", "Wenn alles stimmt, schick sie mit dem Befehl submit ab."),
    "zh": ("请检查这个修改。", "完成之后，运行 submit 命令提交。"),
}
PASTED = {
    "code": ("```python", "    total_{0} = price_{0} * {1}", "```"),
    "diff": ("diff --git a/shop.py b/shop.py\n@@ -1,9 +1,9 @@", "+    total_{0} = price_{0} * {1}", " return total"),
    "log": ("", "2026-01-13 10:{0:02} INFO pool_{1} connected", ""),
}


@pytest.mark.parametrize("language", ASKED)
@pytest.mark.parametrize("kind", PASTED)
@pytest.mark.parametrize("answered", [True, False])
def test_what_the_user_pasted_gives_way_before_their_own_words(language: str, kind: str, answered: bool) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    begin, line, end = PASTED[kind]
    block = "\n".join([begin, *(line.format(n, n * 7919 % 1000) for n in range(600)), end])
    first, last = ASKED[language]
    memory.add_messages([user(f"{first}\n\n{block}\n\n{last}\n\n{block}"), *([assistant("…")] if answered else [])])
    shown = memory.get_messages()[0].text
    assert first in shown
    assert last in shown


@pytest.mark.parametrize("fence", ["```", ""])
def test_the_words_between_many_pastes_stay_before_any_line_of_them(fence: str) -> None:
    names = [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "zeta",
        "eta",
        "theta",
        "iota",
        "kappa",
        "my",
        "sigma",
        "tau",
    ]
    lines = [f"    {a}_{b} = load_{b}({a}, [{len(a)}]) if {b}.x else {{}}" for a in names for b in names if a != b]
    own = [f"The {name} part reads the invoices of the month." for name in names[:12]]
    pasted = ["\n".join(lines[13 * n : 13 * n + 13]) for n in range(len(own))]
    text = "\n\n".join(f"{said}\n\n{fence}\n{code}\n{fence}" for said, code in zip(own, pasted, strict=True))
    assert [said for said in own if said not in in_part(text, 800, 1)] == []


EXAMPLES = {
    "code": "```pony\nactor Main\n  new create(env: Env) =>\n    match env.root\n    | let a: A => a(1)\n    end\n```",
    "log": "~~~\n2026-11-02 14:00 booked seat 12C\n2026-11-02 14:01 seat 12C is free\n~~~",
    "table": "```\nMenge;Preis;Summe\n3;4,50;12,50\n```",
}


@pytest.mark.sampled
@pytest.mark.parametrize("language", ASKED)
@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_short_example_is_part_of_the_users_words(language: str, kind: str) -> None:
    first, last = ASKED[language]
    terms = "\n".join(f"{n}. {first} {last}" for n in range(60))
    log = "\n".join(f"2026-01-13 10:{n:02} INFO pool connected" for n in range(60))
    text = f"{first}\n\n{EXAMPLES[kind]}\n\n{terms}\n\n```\n{log}\n```"
    for characters in range(1_500, 4_000, 100):
        assert EXAMPLES[kind].split("\n", 1)[1].rpartition("\n")[0] in in_part(text, characters, 1)


def test_of_an_issue_the_example_stays() -> None:
    text = CONVERSATIONS["openhands_multiswe/ponylang__ponyc-4595"][1].text
    begin, end = text.index("type CrashIt is"), text.index("    // | (789")
    for characters in range(2_200, len(text), 200):
        shown = in_part(text, characters, 1)
        assert text[begin:end] in shown
        assert "segfaults when trying to match using a single element tuple form" in shown


@pytest.mark.slow
def test_of_a_very_long_message_the_ends_are_read() -> None:
    middle = "\n".join(f"{n} ERROR of pool {n * 7919 % 1000}" for n in range(200_000))
    shown = in_part(f"Please find the cause.\n{middle}\nDo not touch vendor.", 2_000, 3)
    assert shown.startswith("Please find the cause.\n")
    assert "\nDo not touch vendor.\n[m3: " in shown
    missing, size = (int(n.replace(",", "")) for n in re.findall(r"[\d,]{5,}", shown.rpartition("[m3: ")[2]))
    assert size == len(middle) + 44
    assert size - missing == len(re.sub(r"\n…\n", "", shown.rpartition("\n[m3: ")[0]))


@pytest.mark.slow
def test_of_a_very_long_message_as_much_stays_as_there_is_room_for() -> None:
    text = "\n".join(f"row {n}: alpha{n % 97} beta{n % 89}" for n in range(60_000))
    assert len(text) > 1_400_000
    kept = in_part(text, 1_300_000, 1)
    assert 1_200_000 < len(kept) <= 1_310_000


@pytest.mark.slow
def test_a_message_with_images_is_cut_once() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    images = [ImageBlock(source={"type": "url", "url": f"https://example.org/{n}.png"}) for n in range(2)]
    memory.add_messages([user([TextBlock(text=paste(3_000)), *images]), assistant("I have seen them.")])
    seen = set()
    for n in range(30):
        memory.add_messages(tool_exchange("read", {"n": n}, f"page {n} of seats " * 40))
        seen.add(next(m.text for m in memory.get_messages() if is_user_turn(m)))
    assert len(seen) <= 2


@pytest.mark.sampled
@pytest.mark.parametrize("size", [1_200_000, 1_560_000])
@pytest.mark.parametrize("end", ["", "\n"])
def test_of_a_message_in_one_line_as_much_stays_as_of_any(size: int, end: str) -> None:
    words = " ".join(f"word{n * 7919 % 99991}" for n in range(size // 9))
    short = in_part(f"Task: fix it\n{words}{end}", 5_000, 1)
    assert 4_000 < len(short) < 5_100
    assert "Task: fix it" in short


@pytest.mark.parametrize(
    "task",
    [
        ("Check the logs for new hashes.", "If a relay was open, dump its table.", "Search both shares, too."),
        ("Prüfe die Protokolle der Nacht.", "War eine Buchung offen, schließe sie ab.", "Suche in beiden Ordnern."),
        ("检查昨晚的日志。", "如果有未完成的订单，请先处理。", "同时搜索两个共享文件夹。"),
    ],
)
@pytest.mark.parametrize("fence", ["```", "", "~~~~"])
def test_what_is_to_be_done_stays_also_between_fences(task: tuple[str, ...], fence: str) -> None:
    steps = "\n".join(f"{n}. Host {chr(64 + n)}: {line}" for n, line in enumerate(4 * task, 1))
    hints = "\n".join(f"Host {n} was seen {n} times" for n in range(1, 60))
    text = f"Do this:\n\n{fence}\n{steps}\n{fence}\n\nWhat is known:\n{hints}\nReport in short."
    assert steps in in_part(text, len(text) // 3 * 2, 2)
