"""The middle distance: long results and arguments in short, everything else as it was, and nothing lost."""

import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg
from autocontext.formats.openai_chat import from_openai
from autocontext.history.view import Answered
from autocontext.strategies import View
from autocontext.strategies.shorten import Shorten, _repeats
from autocontext.strategies.worth import _MARKUP, Worth
from autocontext.testing import assert_valid_chat, assistant, tool_exchange, user
from autocontext.text.pieces import _cached_pieces
from autocontext.text.reformatting import reformatted
from tests.conversations import histories
from tests.invariants import ESTIMATE, assert_pairs_kept, check, unreachable

REPLAY = Path(__file__).parent.parent / "data" / "replay_dev.jsonl"
ALONE = AutoContextConfig(max_token=4_000, strategies=("shorten",), last_resort=False, target_ratio=0.1, **ESTIMATE)
"""A forced pass of this one step, down to very little."""
MARK = re.compile(r"\[m(\d+): (?:reformatted, )?([\d,]+) of ([\d,]+) characters left out\]")


def log(n: int) -> str:
    lines = [f"10:{i:02}:00 INFO worker {i} of day {n} is fine" for i in range(60)]
    lines.insert(31, f"disk {n}77 failed: ticket SHOP-{n}")
    return "\n".join(lines)


def page(n: int) -> str:
    return "\n".join(f"{sha256(b'%d of %d' % (i, n)).hexdigest()[:28]} checked" for i in range(50))


def work(days: int = 6, read: Callable[[int], str] = log) -> list[Msg]:
    made = [user("Read the logs of each day. Überweise nichts ohne mich.")]
    for n in range(days):
        made += [*tool_exchange("read_log", {"day": n}, read(n)), assistant(f"Day {n} shows a disk that failed.")]
    return [*made, user("And now?")]


def passed(messages: list[Msg], config: AutoContextConfig = ALONE) -> AutoContextMemory:
    memory = AutoContextMemory(config)
    memory.add_messages(messages)
    memory.compress_if_needed(force=True, max_token=config.max_token)  # to the configured target, not to half
    return memory


def test_results_are_short_and_say_what_is_missing_under_their_number() -> None:
    memory = passed(work())
    short = [m for m in memory.messages if m.origin is not None]
    assert short
    for m in short:
        (result,) = m.tool_results
        found = MARK.search(result.text)
        assert found is not None
        number, missing, size = (int(g.replace(",", "")) for g in found.groups())
        original = memory.get_original_memory_msgs()[number - 1]
        assert memory.reload(f"m{number}")[-1] == original
        assert size == len(original.tool_results[0].text)
        kept = re.sub(r"(?:\A|\n)…(?:\n|\Z)", "", result.text.removesuffix(f"\n{found.group()}"))
        assert size - missing == len(kept)
        assert original.tool_results[0].text in ContextOffloadTool(memory)(found.group())
    assert_valid_chat(memory.messages)


@pytest.mark.parametrize(
    ("line", "focus", "wanted"),
    [
        (
            "day 2 line {n} request handled in {ms} ms",
            "line 173 of it",
            "day 2 line 173 request handled in 214 ms",
        ),
        ("Rechnung {n}: Zahlung nach {ms} Tagen", "Zahlung der Rechnung 173", "Rechnung 173: Zahlung nach 214 Tagen"),
        ("订单 {n}：退款 {ms} 元", "订单 173 退款", "订单 173：退款 214 元"),
    ],
)
def test_the_focus_of_a_pass_chooses_what_stays_of_a_long_result(line: str, focus: str, wanted: str) -> None:
    text = "\n".join(line.format(n=n, ms=n * 7 % 997) for n in range(400)).replace("{", "")
    messages = [user("Go."), *tool_exchange("read_list", {"page": 2}, text), assistant("Read."), user("And?")]
    memory = AutoContextMemory(ALONE)
    memory.add_messages(messages)
    assert memory.compress_if_needed(force=True, focus=focus)
    [shown] = [r.text for m in memory.messages for r in m.tool_results]
    assert MARK.search(shown)
    assert wanted in shown
    plain = [r.text for m in passed(messages).messages for r in m.tool_results]
    assert wanted not in plain[0], "only the focus asks for it"


def test_what_stands_out_and_what_was_taken_up_stays() -> None:
    later = tool_exchange("open_ticket", {"id": "worker 17 of day 2"}, "opened")
    memory = passed([*work(), *later, assistant("Opened."), user("Go on.")])
    shown = "\n".join(r.text for m in memory.messages for r in m.tool_results)
    assert all(f"ticket SHOP-{n}" in shown for n in range(6))


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("Read the report of plant", "The list was saved."),
        ("Lies den Bericht von Werk", "Gespeichert."),
        ("读取工厂报告", "已保存。"),
    ],
)
def test_of_a_result_that_repeats_its_call_only_what_it_adds_stays(step: str, said: str) -> None:
    todos = [{"content": f"{step} {chr(65 + n)} {n}", "status": "pending"} for n in range(20)]
    answer = json.dumps({"saved": said, "todos": todos}, ensure_ascii=False, indent=1)
    messages = [
        user("Go."),
        *tool_exchange("save_list", {"todos": todos}, answer),
        assistant("Saved."),
        user("And now?"),
    ]
    [result] = [r.text for m in passed(messages).messages for r in m.tool_results]
    assert said in result
    assert result.count(step) <= 1  # the first item, as the name of what stands beside it
    assert MARK.search(result)


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        ("edit", "    print(f'case {n}: {value}')"),
        ("write_page", "Rechnung {n} ist bezahlt."),
        ("保存", "第 {n} 项：已发货"),
    ],
)
def test_a_result_that_shows_again_what_its_call_has_written_gives_way_first(tool: str, line: str) -> None:
    new = [line.replace("{n}", str(n)) for n in range(150)]
    numbered = "\n".join(f"{n:6}\t{text}" for n, text in enumerate(new, start=1))
    older = tool_exchange("read_log", {"day": 1}, log(1))
    messages = [user("Go."), *older, *tool_exchange(tool, {"new": "\n".join(new)}, f"The file was edited:\n{numbered}")]
    size = sum(AutoContextMemory(ALONE).count([m]) for m in [*messages, assistant("Done."), user("And now?")])
    config = ALONE.model_copy(update={"target_ratio": (size - 150) / 4_000})
    view = passed([*messages, assistant("Done."), user("And now?")], config).messages
    [read, shown] = [r.text for m in view for r in m.tool_results]
    assert MARK.search(shown)
    assert (read, [use.input for m in view for use in m.tool_uses][-1]) == (log(1), {"new": "\n".join(new)})


@pytest.mark.parametrize(
    ("head", "line", "foot"),
    [
        ("", "  CC drivers/net/unit{n}.o", "\nroot@box:/src$ "),
        ("Observation: ", "Zeile {n} des Berichts ist geprüft", ""),
        ("<output>\n", "第{n}项检查完毕", "\n</output>"),
    ],
)
def test_what_a_terminal_has_printed_in_the_users_role_is_shortened_and_no_words_of_the_user(
    head: str, line: str, foot: str
) -> None:
    printed = head + "\n".join([line.replace("{n}", str(n)) for n in range(120)] + ["error: disk 77 failed"]) + foot
    told = "Nimm danach den zweiten Weg, nicht den ersten. " * 12
    messages = [user(told), assistant("```\nmake\n```"), user(printed), assistant("It failed."), user(told)]
    messages += [assistant("```\nmake\n```"), user(printed)]
    memory = passed(messages)
    texts = [m.text for m in memory.messages]
    assert [text == m.text for text, m in zip(texts, messages, strict=True)] == [True, True, False, *[True] * 4]
    assert "error: disk 77 failed" in texts[2]
    assert MARK.search(texts[2])
    assert memory.reload("m3")[0].text == printed
    assert_valid_chat(memory.messages)


@pytest.mark.parametrize("said", ["118 passed, 5 failed", "5 Fehler in 118 Rechnungen", "118项通过，5项失败"])
def test_what_came_of_a_command_of_an_agent_without_tools_stays(said: str) -> None:
    lines = [f"{chr(97 + n % 26) * (3 + n % 5)} step {n} of {n * 7919 % 1000}" for n in range(150)]
    printed = "\n".join([*lines, said, "bash-$ "])
    later = assistant("Now step 7 of 433 and step 9 of 271.\n```\nls\n```")
    messages = [user("Go."), assistant("```\nmake test\n```"), user(printed), later, user("a\nbash-$ ")]
    messages += [assistant("```\nls\n```"), user("b\nbash-$ ")]
    short = passed(messages).messages[2].text
    assert MARK.search(short)
    assert said in short


FLOODS: list[tuple[str, dict[str, str], str, str]] = [
    ("bash", {"command": "make"}, "  CC       drivers/net/unit{n}.o", "{digest} is what I found."),
    ("suche", {"muster": "Rechnung"}, "./archiv/jahr{n}/liste.txt: Rechnung Nummer {n}", "{digest}: bezahlt."),
    ("运行测试", {"目标": "全部"}, "=== 测试用例{n} 通过 (0.00 秒)", "{digest}：已发货。"),
]


@pytest.mark.parametrize(("tool", "asked", "line", "told"), FLOODS)
def test_a_flood_gives_way_before_an_older_page(tool: str, asked: dict[str, str], line: str, told: str) -> None:
    flood = "\n".join(line.replace("{n}", str(n)) for n in range(150))
    read = "\n".join(told.replace("{digest}", sha256(b"%d" % n).hexdigest()[:40]) for n in range(60))
    messages = [
        user("Go."),
        *tool_exchange("read_page", {"page": 1}, read),
        *tool_exchange(tool, asked, flood),
        assistant("Done."),
        user("And now?"),
    ]
    size = sum(AutoContextMemory(ALONE).count([m]) for m in messages)
    config = ALONE.model_copy(update={"target_ratio": (size - 150) / 4_000})
    first, second = [r.text for m in passed(messages, config).messages for r in m.tool_results][:2]
    assert first == read
    assert len(second) < 1_000


@pytest.mark.parametrize("broken", ["\ud800 row of {n}", "\udfff{n} \ud83d"])
def test_lone_surrogates_make_a_flood_like_any_other(broken: str) -> None:
    text = "\n".join(broken.replace("{n}", str(n)) for n in range(200))
    view = passed(
        [user("Go."), *tool_exchange("bash", {"command": "make"}, text), assistant("Done."), user("?")]
    ).messages
    assert MARK.search(view[2].tool_results[0].text)


@pytest.mark.parametrize(
    ("tool", "item"),
    [
        ("write_todos", "Compare what provider {n} offers with the offers of the other ones, and note the price"),
        ("plan_setzen", "Rechnung {n} mit dem Lieferschein vergleichen und jede Abweichung dem Einkauf melden"),
        (
            "更新计划",
            "检查第{n}家供应商的报价、交货时间和付款条件，把和去年相比的所有变化写进报告，再请采购部确认一次，然后归档并通知财务部和仓库",
        ),
    ],
)
def test_a_list_that_a_tool_says_again_gives_way_first(tool: str, item: str) -> None:
    todos = [{"content": item.format(n=n), "status": "pending"} for n in range(20)]
    asked, again = {"todos": todos}, f"Updated the list to {todos}"
    messages = [user("Go."), *tool_exchange("read_page", {"page": 1}, page(1)), *tool_exchange(tool, asked, again)]
    messages += [assistant("Done."), user("And now?")]
    size = sum(AutoContextMemory(ALONE).count([m]) for m in messages)
    config = ALONE.model_copy(update={"target_ratio": (size - 60) / ALONE.token_trigger})
    view = passed(messages, config).messages
    read, shown = [r.text for m in view for r in m.tool_results]
    assert read == page(1)
    assert len(shown) < len(again) // 2
    assert [use.input for m in view for use in m.tool_uses][-1] == asked


@pytest.mark.parametrize(
    ("tool", "key", "step"),
    [
        ("write_todos", "todos", "Read the settings of part {} and write down what they mean"),
        ("update_plan", "plan", "Schritt {}: die Rechnungen prüfen und ablegen"),
        ("更新计划", "步骤", "第{}步：查看订单并写下结果，然后通知客户和仓库，再核对付款和发票"),
    ],
)
def test_a_list_of_steps_that_a_later_call_tells_again_goes_first(tool: str, key: str, step: str) -> None:
    steps = [step.format(n) for n in range(12)]
    made = [user("Do all of it.")]
    for done in range(4):
        listed = [{"content": text, "status": "done" if n < done else "open"} for n, text in enumerate(steps)]
        made += [*tool_exchange(tool, {key: listed}, "ok"), *tool_exchange("read_log", {"day": done}, page(done))]
    messages = [*made, assistant("Done so far."), user("And now?")]
    config = ALONE.model_copy(update={"max_token": 8_000})
    memory = AutoContextMemory(config)
    memory.add_messages(messages)
    ratio = (memory.token_count - 60) / config.token_trigger
    memory = passed(messages, config.model_copy(update={"target_ratio": ratio}))
    lists = [use.input[key] for m in memory.messages for use in m.tool_uses if use.name == tool]
    assert [len(told) for told in lists][::3] == [2, 12]
    first, gap = lists[0]
    assert first == {"content": steps[0], "status": "open"}
    assert gap == "[... 11 items ...] [the rest: m2]"
    assert lists[-1] == [use.input[key] for m in messages for use in m.tool_uses if use.name == tool][-1]
    assert memory.reload("m2")[0] == memory.get_original_memory_msgs()[1]
    assert_valid_chat(memory.messages)


def test_lists_of_other_things_stay_whole() -> None:
    """Paths and ids are no steps that are told again."""
    made = [user("Read them.")]
    for n in range(4):
        paths = [f"src/part_{n}/module_{k}.py" for k in range(20)]
        made += tool_exchange("read_files", {"paths": paths}, page(n))
    memory = passed([*made, assistant("Read."), user("And now?")])
    assert all(len(use.input["paths"]) == 20 for m in memory.messages for use in m.tool_uses)


@pytest.mark.parametrize("said", ["tests FAILED in shop", "Test fehlgeschlagen: Rechnung", "测试失败：订单模块出错"])
def test_what_a_command_prints_of_its_own_words_stays_if_it_tells_what_happened(said: str) -> None:
    command = f"make test && echo all is well || echo {said}; make all"
    lines = [f"{chr(97 + n % 26) * (3 + n % 5)} step {n} of {n * 7919 % 1000}" for n in range(300)]
    messages = [
        user("Go."),
        *tool_exchange("bash", {"command": command}, "\n".join([*lines[:200], said, *lines[200:]])),
        assistant("Run."),
        user("And now?"),
    ]
    [result] = [r.text for m in passed(messages).messages for r in m.tool_results]
    assert said in result


def test_the_agent_s_and_the_user_s_words_and_short_arguments_stay() -> None:
    long = "Zeile eins der neuen Datei\n" * 60
    messages = [
        user("Schreibe die Datei. " + "Bitte genau so. " * 60),
        *tool_exchange("write_file", {"path": "src/überweisung.py", "content": long}, "ok"),
        assistant("Geschrieben, weil die alte Datei fehlte. " * 20),
        *work(),
    ]
    memory = passed(messages)
    assert [m.text for m in memory.messages] == [m.text for m in messages]
    use = memory.messages[1].tool_uses[0]
    assert use.input["path"] == "src/überweisung.py"
    assert use.input["content"].endswith("[the rest: m2]")
    assert long.startswith(use.input["content"].partition("...")[0])
    assert memory.reload("m2")[0].tool_uses[0].input["content"] == long


def test_the_newest_messages_stay_as_they_are() -> None:
    config = ALONE.model_copy(update={"keep_recent": 0.3})
    memory = passed(work(), config)
    assert memory.messages[-4:] == memory.get_original_memory_msgs()[-4:]


@pytest.mark.parametrize("excess", [0.4, 0.6, 0.7])
def test_no_more_is_shortened_than_needed_oldest_first(excess: float) -> None:
    memory = AutoContextMemory(ALONE)
    memory.add_messages(work(read=page))
    before = memory.token_count
    config = ALONE.model_copy(update={"target_ratio": excess * before / ALONE.token_trigger})
    memory = passed(work(read=page), config)
    places = [i for i, m in enumerate(memory.messages) if m.origin is not None]
    results = [i for i, m in enumerate(memory.messages) if m.tool_results]
    assert places == results[: len(places)]
    assert excess * before * 0.85 <= memory.token_count <= excess * before


@given(histories(max_moves=8))
def test_nothing_is_lost_and_a_second_pass_shortens_nothing_again(history: list[Msg]) -> None:
    memory = passed(history)
    view = memory.messages
    assert_pairs_kept(view, history)
    assert unreachable(memory, history) == []
    assert len(view) == len(history)
    check(memory)
    again = memory.compress_if_needed(force=True)
    assert (bool(again), memory.messages) == (False, view)
    for key in list(memory.get_offload_context()):
        assert memory.undo(key)
    assert memory.messages == history


@pytest.mark.slow
@given(st.integers(3, 12))
def test_a_loaded_memory_knows_what_was_shortened(days: int) -> None:
    memory = passed(work(days))
    other = AutoContextMemory(ALONE)
    other.load_state_dict(memory.state_dict())
    assert other.messages == memory.messages
    assert unreachable(other, other.get_original_memory_msgs()) == []


def test_long_results_give_way_before_small_records_do() -> None:
    """A record of a customer stays whole while a page is cut, also if the record is older."""
    record = "\n".join(f"Feld {n}: Wert {n * 7}" for n in range(20))
    page = "\n".join(f"{n} Treffer zu {chr(97 + n % 26) * 4}" for n in range(300))
    work = [user("Wer ist das?"), *tool_exchange("get_customer", {"id": 1}, record)]
    for n in range(4):
        work += tool_exchange("search", {"page": n}, page.replace("Treffer", f"Treffer {n}"))
    config = ALONE.model_copy(update={"target_ratio": 0.8})
    memory = passed([*work, assistant("Gesucht."), user("Und jetzt?")], config)
    results = [r.text for m in memory.messages for r in m.tool_results]
    assert results[0] == record
    assert all("characters left out" in text for text in results[1:4])


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        ("read_file", "    total_{0}_{1} = tax(order_{2})  # step {1}"),
        ("get_bookings", "Buchung {2}: Zimmer {1}, bezahlt am {0}. Mai"),
        ("lister_les_colis", "colis {2} : rangé au quai {1}, pesé le {0} mai"),
    ],
)
def test_in_large_windows_old_results_give_way_before_newer_ones(tool: str, line: str) -> None:
    """A short form of 800 characters or more says enough of an old result; two half ones say less than one whole."""
    work = [user("Read them all.")]
    for n in range(10):
        lines = [line.format(n, k, sha256(b"%d of %d" % (k, n)).hexdigest()[:20]) for k in range(140)]
        work += tool_exchange(tool, {"nr": n}, "\n".join(lines))
    messages = [*work, assistant("Read."), user("And now?")]
    config = ALONE.model_copy(update={"max_token": 20_000, "target_ratio": 0.55})
    memory = passed(messages, config)
    whole = [" characters left out]" not in r.text for m in memory.messages for r in m.tool_results]
    assert whole == sorted(whole)
    assert any(whole)


@pytest.mark.parametrize(
    ("shared", "own"),
    [
        ("Menü {}: Rechnung {} ändern, Fehler melden", "Kunde K{0}-{0} zahlte"),
        ("warning: unused value x{} in pool.c line {}", "test_pool_{} passed"),
        ("客服 {} 如有错误请拨打 400-820-{}", "订单 W{0}-{0} 已发货"),
    ],
)
def test_what_a_later_result_has_too_goes_first(shared: str, own: str) -> None:
    frame = [shared.format(n, n * 37) for n in range(12)]
    work = [user("Go on.")]
    for n in range(8):
        lines = [*frame[:6], *(own.format(100 * n + k) for k in range(4)), *frame[6:]]
        work += tool_exchange("read", {"n": n}, "\n".join(lines))
    memory = passed([*work, assistant("Read."), user("And?")])
    short = [r.text for m in memory.messages for r in m.tool_results if "left out" in r.text]
    assert len(short) >= 4
    for n, text in enumerate(short[:-1]):
        assert all(own.format(100 * n + k) in text for k in range(4))


def test_fields_that_a_later_record_has_too_go_first() -> None:
    shared = {f"street_{n}": f"{n * 37} Elm Avenue, Suite {n}, with a word about the place" for n in range(8)}
    work = [user("Go on.")]
    for n in range(8):
        own = {
            f"state_{n}": f"shipped on day {n * 11}",
            "total": 700.5 + n,
            "note": f"no word of {n} was said about it",
        }
        work += tool_exchange("get", {"id": n}, json.dumps({**shared, **own}))
    memory = passed([*work, assistant("Read."), user("And?")])
    short = [(n, r.text) for n, m in enumerate(memory.messages) for r in m.tool_results if "left out" in r.text]
    assert len(short) >= 4
    assert all(f"shipped on day {(n // 2 - 1) * 11}" in text for n, text in short[:-1])


def test_fields_that_hold_nothing_go_first() -> None:
    told = {f"place_{n}": f"shelf {n * 7}" for n in range(8)}
    fields = {
        key: part
        for n, key in enumerate(told)
        for key, part in [*((f"x{n}_{k}", None) for k in range(3)), (key, told[key])]
    }
    work = [user("Where is it?"), *tool_exchange("get", {"id": 1}, json.dumps(fields, indent=1)), assistant("Here.")]
    for n in range(8):
        work += tool_exchange("note", {"n": n}, f"noted {n} " * 100)
    result = passed([*work, assistant("Noted."), user("And?")]).messages[2].tool_results[0].text
    assert "left out" in result
    assert all(place in result for place in told.values())


@pytest.mark.parametrize(
    ("head", "line", "foot"),
    [
        (
            ["<!DOCTYPE html>", '<html lang="ko">', "<head>", '<meta charset="utf-8">', "</head>", "<body>"],
            "<p>자전거 {0}번: {0},000원</p>",
            ["</main>", "</body>", "</html>"],
        ),
        (
            ['<?xml version="1.0" encoding="UTF-8"?>', "<lager>", "<halle>", "<raum>", "<bestand>"],
            "<artikel>Schraube M{0}</artikel>",
            ["</bestand>", "</raum>", "</halle>", "</lager>"],
        ),
        (["<results>", "<page>", "<items>"], "<item>order {0} is late</item>", ["</items>", "</page>", "</results>"]),
    ],
)
def test_markup_without_a_word_goes_before_what_it_is_around(head: list[str], line: str, foot: list[str]) -> None:
    page = "\n".join([*head, *(line.format(n) for n in range(60)), *foot])
    work = [user("Where is it?"), *tool_exchange("fetch", {"url": "a"}, page), assistant("Read.")]
    for n in range(8):
        work += tool_exchange("note", {"n": n}, f"noted {n} " * 100)
    result = passed([*work, assistant("Noted."), user("And?")]).messages[2].tool_results[0].text
    assert "left out" in result
    shown = result.split("\n")
    assert sum(line.format(n) in shown for n in range(60)) >= 3
    of_page = [tag for tag in head if tag.startswith(("<!", "<html", "<head", "<meta", "</", "<body"))]
    assert not {*of_page, *foot} & {*shown}


@pytest.mark.parametrize(
    "tag",
    [
        '<link rel="stylesheet" href="/static/old-theme.css">',
        '<meta property="og:price:amount" content="1299.95">',
        "<none>",
    ],
)
def test_markup_that_a_later_step_is_about_says_something(tag: str) -> None:
    page = [user("Go on."), *tool_exchange("fetch", {"url": "a"}, f"{tag}\n<p>a row</p>\n</main>")]
    messages = [*page, *tool_exchange("edit", {"old": tag, "new": "<br>"}, "done")]
    rate = Worth(View([m.id for m in messages], messages, lambda *_: 1)).after(2)
    assert rate(tag) > 0
    assert rate("</main>") == 0


def test_markup_is_read_in_time_by_its_length() -> None:
    assert _MARKUP.fullmatch("<body>" * 2_000 + "x") is None


@pytest.mark.parametrize(
    ("line", "said", "edited"),
    [
        ("def pool_{0}(size): return [connect({0})] * size", "Now `pool_{0}` must close what it connects.", ""),
        ("    rate = tariff[{0}] * days", "Let me fix this.", "    rate = tariff[{0}] * days"),
        ("Artikel {0}: die Frist endet mit der Abnahme", "Artikel {0} nennt die Frist.", ""),
    ],
)
def test_what_the_next_step_is_about_stays(line: str, said: str, edited: str) -> None:
    work = [user("Go on.")]
    for n in range(1, 9):
        lines = [line.format(1000 * n + k) for k in range(120)]
        work += tool_exchange("read", {"n": n}, "\n".join(lines))
        at = 1000 * n + 17 * n % 120
        if edited:
            work += tool_exchange("edit", {"old": f"# one\n{edited.format(at)}\n# two", "new": "# gone"}, f"done {n}")
        else:
            work.append(assistant(said.format(at)))
            work.append(user("Yes."))
    memory = passed([*work, assistant("Read."), user("And?")])
    short = [r.text for m in memory.messages for r in m.tool_results if "left out" in r.text]
    assert len(short) >= 4
    kept = [
        any(line.format(1000 * n + 17 * n % 120).strip() in text for text in short) for n in range(1, len(short) + 1)
    ]
    assert all(kept)


@pytest.mark.parametrize(
    ("head", "line"),
    [
        (
            "Chunk ID: b{0}77e1\nWall time: 0.05{0} seconds\nOutput:",
            "The store of system {0} keeps its notes in branches.",
        ),
        ("Request: q{0}77\nDauer: {0}7 ms\nErgebnis:", "Die Pumpe {0} braucht vierzig Liter am Tag."),
        ("耗时: {0}7 ms", "第{0}台水泵每天用水四十升，比上周少了两成。"),
    ],
)
def test_what_a_tool_measures_of_each_of_its_calls_goes_first(head: str, line: str) -> None:
    others = ["\n".join(f"{c}{d * 4} und so weiter" for c in "abcdefgh") for d in "ikmpr"]
    texts = [f"{head.format(n)}\n" + "\n".join((*others[:2], line.format(n), *others[2:])) for n in range(1, 7)]
    made = [m for n, text in enumerate(texts) for m in tool_exchange("read", {"path": f"{n}.md"}, text)]
    memory = passed([user("Read them."), *made, assistant("Read."), user("And now?")])
    short = [m.tool_results[0].text for m in memory.messages if m.origin is not None]
    assert len(short) >= 4
    for n, text in enumerate(short[:4], 1):
        assert line.format(n) in text
        assert not any(measured in text for measured in head.format(n).split("\n")), text


@pytest.mark.parametrize("line", ["Rows written: 47{0}1", "Gewicht: 47{0}1 kg", "水位: 47{0}1 cm"])
def test_of_what_is_measured_in_several_results_the_last_one_stays(line: str) -> None:
    others = ["\n".join(f"{c}{d * 4} und so weiter" for c in "abcdefgh") for d in "ikmpr"]
    texts = ["\n".join((*others[:2], line.format(n), *others[2:])) for n in range(1, 4)]
    more = ["\n".join(others)] * 3
    made = [m for n, text in enumerate(texts + more) for m in tool_exchange("read", {"path": f"{n}.md"}, text)]
    memory = passed([user("Read them."), *made, assistant("Read."), user("And now?")])
    short = [m.tool_results[0].text for m in memory.messages if m.origin is not None][:3]
    assert [line.format(n) in text for n, text in enumerate(short, 1)] == [False, False, True]


def test_the_newest_messages_are_shortened_before_they_are_folded() -> None:
    """Beside a long system text, the messages that stay whole are most of the rest: once they all became a note."""
    with REPLAY.open(encoding="utf-8") as lines:
        messages = next(json.loads(line)["messages"] for line in lines if "sweagent/f36674" in line[:200])
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, **ESTIMATE))
    for place in (16, 34, 42):
        memory.add_messages(from_openai(messages[len(memory) : place]))
        *shortened, newest = [m for m in memory.get_messages() if m.tool_results]
        assert shortened
        assert newest.tool_results[0].text in str(messages[place - 1]["content"])


FRAMES = "\n".join(
    f'  File "/shop/{name}.py", line {n}, in {name}_total\n    return {name}_sum(order_{n}, rebate_{n})'
    for n, name in enumerate(("cart", "price", "rebate", "order", "stock", "mail", "basket", "ledger"), 40)
)


@pytest.mark.parametrize(
    ("command", "printed", "line"),
    [
        (
            "python checkout.py",
            f"Traceback (most recent call last):\n{FRAMES}\nModuleNotFoundError: No module named 'tax_rates'",
            "ModuleNotFoundError: No module named 'tax_rates'",
        ),
        (
            "pip install -e .",
            f"Obtaining file:///shop\n{FRAMES}\nSuccessfully installed shop-2.1\nWARNING: Running as the 'root' user",
            "Successfully installed shop-2.1",
        ),
        (
            "./buchen.sh 0417",
            f"Lese Belege\n{FRAMES}\nFehler: Konto 4711 nicht gefunden\n\nHilfe: buchen.sh --hilfe",
            "Fehler: Konto 4711 nicht gefunden",
        ),
        ("./记账 0417", f"读取凭证\n{FRAMES}\n错误：账户 4711 不存在\n\n帮助：见手册", "错误：账户 4711 不存在"),
    ],
)
def test_what_came_of_a_command_stays_whatever_is_used_later(command: str, printed: str, line: str) -> None:
    later = [tool_exchange("edit", {"path": f"/shop/{n}.py", "new": FRAMES}, "ok") for n in ("cart", "price")]
    end = [*later[0], *later[1], assistant("Edited."), user("Go on.")]
    memory = passed([user("Mend the shop."), *tool_exchange("bash", {"command": command}, printed), *end])
    short = memory.messages[2].tool_results[0].text
    assert MARK.search(short)
    assert line in short


FLIGHTS = [
    {"flight": f"HAT{n}", "from": "MSP", "leaves": f"{n:02}:00:00", "seats": {"economy": n * 7 % 20, "business": n % 9}}
    for n in range(1, 13)
]
RESULTS = {
    "flights": json.dumps(FLIGHTS),
    "orders": json.dumps(
        {"客户": "K-204", "订单": [{"编号": f"W{n}", "金额": n * 7.5, "状态": "已付"} for n in range(40)]},
        ensure_ascii=False,
    ),
    "protocol": json.dumps({"content": [{"type": "text", "text": f'Zeile "{n}" der Liste'} for n in range(20)]}),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_what_can_be_told_whole_in_less_is_before_anything_is_left_out(kind: str) -> None:
    """The newest that the model has answered, too; what it has not read stays as it is, and so does its number."""
    text, told = RESULTS[kind], reformatted(RESULTS[kind])
    assert told is not None
    messages = [
        user("Go."),
        *tool_exchange("find", {"page": 1}, text),
        *tool_exchange("find", {"page": 2}, f"{text} "),
        assistant("Seen."),
        *tool_exchange("find", {"page": 3}, f"{text}  "),
    ]
    size = AutoContextMemory(ALONE).count(messages)
    least = (size - 1.5 * (len(text) - len(told)) / 4) / 4_000
    memory = passed(messages, ALONE.model_copy(update={"target_ratio": least, "keep_recent": 0.9}))
    assert [r.text for m in memory.messages for r in m.tool_results] == [
        f"{told}\n[m3: reformatted, nothing left out]",
        f"{told}\n[m5: reformatted, nothing left out]",
        f"{text}  ",
    ]
    assert unreachable(memory, messages) == []
    check(memory)
    assert memory.reload("m5")[-1] == messages[4]


@pytest.mark.parametrize("older", [log(1), page(1)], ids=["a flood", "what can only be cut"])
def test_a_file_that_the_agent_is_changing_stays_as_it_is_written(older: str) -> None:
    """Its lines are what the next edit has to name."""
    text = json.dumps({"strecken": FLIGHTS}, indent=1)
    messages = [
        user("Go."),
        *tool_exchange("read_log", {"day": 1}, older),
        *tool_exchange("read_file", {"path": "strecken.json"}, text),
        *tool_exchange("edit", {"path": "strecken.json", "new_string": "x"}, "ok"),
        assistant("Done."),
        user("And now?"),
    ]
    results = [
        r.text
        for m in passed(messages, ALONE.model_copy(update={"target_ratio": 0.3})).messages
        for r in m.tool_results
    ]
    assert results[1] == text
    assert results[0] != older


@pytest.mark.parametrize("empty", [None, "", [], {}])
def test_a_field_that_holds_nothing_takes_no_room_of_one_that_does(empty: object) -> None:
    items = [{"name": f"Tee {n}", "item_id": f"{n}82{n}", "price": n * 7.5} for n in range(40)]
    record = {"order": "W7", **{f"return_of_kind_{n}": empty for n in range(12)}, "items": items}
    messages = [user("Go."), *tool_exchange("get_order", {"order": "W7"}, json.dumps(record))]
    messages += [assistant("Seen."), user("And now?")]
    (result,) = (r.text for m in passed(messages).messages for r in m.tool_results)
    assert "reformatted" in result
    assert "left out]" in result
    assert "return_of_kind" not in result


def test_a_record_that_the_agent_is_working_on_is_told_whole_before_others_are_cut() -> None:
    """A record in one line is no text to edit: its table says the same, and leaves room for the older ones."""
    orders = {f"W{n}": json.dumps({"order": f"W{n}", "customer": "K2", "items": FLIGHTS[:6]}) for n in range(4)}
    messages = [user("Go.")]
    for id_, text in orders.items():
        messages += tool_exchange("get_order", {"order": id_}, text)
    messages += [
        *tool_exchange("change_order", {"order": "W3", "to": "K7"}, "ok"),
        assistant("Done."),
        user("And now?"),
    ]
    size = AutoContextMemory(ALONE).count(messages)
    saved = sum(len(text) - len(reformatted(text) or "") - 60 for text in orders.values())
    config = ALONE.model_copy(update={"target_ratio": (size - saved / 4) / 4_000, "keep_recent": 0.2})
    results = [r.text for m in passed(messages, config).messages for r in m.tool_results]
    told = [
        f"{reformatted(text)}\n[m{2 * n + 3}: reformatted, nothing left out]" for n, text in enumerate(orders.values())
    ]
    assert results == [*told, "ok"]


@pytest.mark.parametrize(("status", "field"), [("active", "open"), ("gesperrt", "offen"), ("未付款", "逾期")])
def test_figures_of_records_that_a_call_names_are_no_echo_of_it(status: str, field: str) -> None:
    """A figure of one or two digits stands in any list of numbers."""
    numbers = list(range(100_000, 100_040))
    rows = [{"account": n, "status": status, field: n % 9, "late": n % 4} for n in numbers]
    asked = {"status": status, "accounts": numbers}
    messages = [
        user("Go."),
        *tool_exchange("get_accounts", asked, json.dumps(rows, ensure_ascii=False)),
        assistant("Seen."),
    ]
    config = ALONE.model_copy(update={"max_token": 8_000, "target_ratio": 0.05})
    [result] = [r.text for m in passed([*messages, user("And?")], config).messages for r in m.tool_results]
    assert "reformatted" in result
    assert result.count(f"|{status}|") > 5


def answered(arguments: dict[str, object], text: str) -> Answered:
    (pair,) = View.of(tool_exchange("write", arguments, text), len).answers
    return pair


@pytest.mark.parametrize(("others", "repeats"), [(40, True), (41, False)])
def test_a_result_of_which_three_fifths_repeat_its_call_says_nothing_new(others: int, repeats: bool) -> None:
    items = [f"item, part {n}" for n in range(5)]
    assert sum(map(len, items)) == 60
    assert _repeats(answered({"items": items}, "".join(items) + "-" * others)) is repeats
    assert _repeats(answered({"text": "\n".join(items)}, "\n".join([*items, "-" * others]))) is repeats


@pytest.mark.parametrize("used", [True, False])
def test_the_same_line_over_and_over_is_a_flood_whoever_has_used_it(used: bool) -> None:
    asked, hits = tool_exchange("search", {"query": "orders"}, "order W-7714 was read again by the job\n" * 60)
    history = [user("Go on."), asked, hits, assistant(f"I look at {'W-7714' if used else 'it'} now."), user("Yes.")]
    view = View.of(history, lambda m: len(m.text) // 4)
    shorten = Shorten(AutoContextConfig.for_window(4_000), None, lambda: 0)  # type: ignore[arg-type]
    assert shorten._is_flood(view, view.answers[0])


def test_what_is_written_is_a_result_of_several_lines_about_what_the_agent_works_on() -> None:
    messages = [
        user("Go."),
        *tool_exchange("read_file", {"path": "a.py"}, "x = 1\ny = 2"),
        *tool_exchange("get_order", {"order_id": "W-1"}, '{"state": "open"}'),
        *tool_exchange("search", {"query": "orders"}, "one hit\ntwo hits"),
    ]
    shorten = Shorten(AutoContextConfig.for_window(4_000), None, lambda: 0)  # type: ignore[arg-type]
    assert shorten._written(View.of(messages, lambda m: len(m.text) // 4)) == {2}


@pytest.mark.parametrize("rows", [22, 26, 34, 42])
def test_nothing_is_folded_where_what_is_shortened_is_enough(rows: int) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(2_000, **ESTIMATE))
    memory.add_message(user("Go on."))
    days = 0
    while memory.token_count < 2_000 * 0.97:
        days += 1
        read = "\n".join(f"row {row} of {days} says {row * days % 97}" for row in range(rows))
        memory.add_messages([*tool_exchange("get", {"day": days}, read), assistant("so it is. " * 20)])
    memory.add_message(user("And?"))
    kinds = {m.origin.kind for m in memory.get_messages() if m.origin is not None}
    assert kinds == {"stub"}


@pytest.mark.parametrize(
    "line", ["The page {} has row {} of the list", "Die Seite {} hat Zeile {} der Liste", "row={} id={} ok"]
)
@pytest.mark.parametrize(("lines", "cut"), [(9, False), (40, True)])
def test_what_would_save_a_few_tokens_stays_as_it_is(line: str, lines: int, cut: bool) -> None:
    work = [user("Go on.")]
    for n in range(40):
        text = "\n".join(line.format(n, n * 31 + k) for k in range(lines))
        work += tool_exchange("visit", {"page": n}, text[: 350 if not cut else None])
    memory = passed([*work, assistant("Read."), user("And?")])
    assert any("left out" in r.text for m in memory.messages for r in m.tool_results) is cut


def test_a_pass_does_not_read_results_again_that_an_earlier_one_has_read() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    found = []
    for msg in work(days=16):
        memory.add_message(msg)
        before, passes = _cached_pieces.cache_info().misses, memory.usage.passes
        memory.get_messages()
        found += [_cached_pieces.cache_info().misses - before] * (memory.usage.passes - passes)
    assert len(found) > 4
    assert max(found) <= 5
