"""What came back: what the structure says, and the words that tell it. Nothing judges."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import Msg
from autocontext.history.runs import Runs
from autocontext.messages import ToolResultBlock
from autocontext.notes.answers import (
    Answer,
    _word_of_error,
    answer_of,
    came_back,
    quoted,
    telling,
)
from autocontext.notes.deeds import Deeds
from autocontext.notes.work import WorkLedger
from autocontext.testing import tool_exchange, user
from autocontext.text.lines import without_number
from autocontext.text.signs import ERROR, WORDS_OF_ERRORS
from tests.notes.pages import page


def told(
    text: str,
    *,
    is_error: bool = False,
    characters: int = 160,
    call: str = "",
    looks: bool = False,
) -> str:
    answer = answer_of(ToolResultBlock(id="a", output=text, is_error=is_error))
    pieces = telling(text, answer, call=call, looks=looks)
    return came_back(pieces, answer, characters)


@pytest.mark.parametrize(
    ("text", "status", "empty"),
    [
        ("", "", True),
        ("[]", "", True),
        ('{"results": [], "count": 0}', "", True),
        ("<output></output>\n<returncode>0</returncode>", "", True),
        ("<returncode>1</returncode>\n<output>\n</output>", "exit 1", True),
        ("Traceback (most recent call last):\nKeyError: 'id'\nexit code: 1", "exit 1", False),
        ('{"exit_code": 2, "stdout": "no such file"}', "exit 2", False),
        ("HTTP/1.1 404 Not Found\n\nGone.", "HTTP 404", False),
        ('{"error": "仓库已接单"}', "error", False),
        ('{"isError": "true", "text": "no such order"}', "error", False),
        ('{"return_status": 3, "order": "D-7"}', "", False),
        ("Order A1 was cancelled by the user on May 3", "", False),
        ("Forbidden Planet (1956)", "", False),
        ('{"status": "rejected"}', "", False),
        ("The page explains exit code 1 of grep.", "", False),
        ("Keine Treffer.", "", False),
    ],
)
def test_a_status_is_what_the_structure_says(text: str, status: str, empty: bool) -> None:
    assert answer_of(ToolResultBlock(id="a", output=text)) == Answer(status, empty)
    assert answer_of(ToolResultBlock(id="a", output=text, is_error=True)).status in (status, "error")


@pytest.mark.parametrize(
    "text",
    [
        '{"available": false}',
        '{"allergic": false, "reactions": 0}',
        '{"on_hand": 0}',
        '{"余票": 0, "备注": ""}',
        '{"frei": false, "alternativen": []}',
        "✗",
        "✅",
        "×",
    ],
)
def test_no_and_zero_are_answers(text: str) -> None:
    shown = told(text)
    assert "nothing" not in shown
    assert any(sign in shown for sign in ("false", ": 0", text))


@pytest.mark.parametrize(
    "text",
    [
        '{"exit_code": 0, "stdout": "", "stderr": ""}',
        "{'returncode': 0, 'output': ''}",
        '{"is_error": false, "rows": [], "total": 0}',
        '{"data": {"Treffer": [], "Anzahl": 0.0}, "next": null}',
        '{"stdout": "", "stderr": "", "interrupted": false, "isImage": false}',
        '{"matches": [], "truncated": false, "took": 0}',
        "[{}, []]",
        '{"a": ' * 700 + "null" + "}" * 700,
        "┌────┐\n└────┘",
        "------",
    ],
)
def test_a_wrapper_or_list_that_holds_nothing_is_told_as_nothing(text: str) -> None:
    assert told(text) == "nothing"


OUTPUT = "Compiling module after module of the project\n" * 40


@pytest.mark.parametrize(
    "line", ["exit 9", "  exit 3;", "[ $rc -eq 0 ] || exit 1", "sys.exit(2)", "sub fail { exit 4 }"]
)
@pytest.mark.parametrize("after", ["", "\n", "\nesac\n"])
def test_a_line_of_a_script_is_no_exit_code(line: str, after: str) -> None:
    assert answer_of(ToolResultBlock(id="a", output=f"14 passed\n#!/bin/sh\n{line}{after}")).status == ""


@pytest.mark.parametrize(
    "mark", ["[exit 9]", "(exit 9)", "[exit: 9]\n", "exit code 9", "Exited with 9", "exit status: 9"]
)
def test_what_a_tool_says_of_its_exit_is_one(mark: str) -> None:
    assert answer_of(ToolResultBlock(id="a", output=f"14 passed\n{mark}")).status == "exit 9"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (f"make: the first try exited with code 2\n{OUTPUT}[exit code: 0]", ""),
        (f"make: the first try exited with code 2\n{OUTPUT}[exit code: 3]", "exit 3"),
        (f"{OUTPUT}npm: lint exited with code 2\n[exit code: 0]", ""),
        (f"exit code: 1\nnpm: lint exited with code 2\n{OUTPUT}", "exit 1"),
        (f"exit code: 0\nnpm: lint exited with code 2\n{OUTPUT}", ""),
    ],
)
def test_the_exit_code_is_the_one_of_the_wrapper_around_the_output(text: str, status: str) -> None:
    """It stands last, or first if the end says nothing: what stands further inside is a part's."""
    assert answer_of(ToolResultBlock(id="a", output=text)).status == status


@pytest.mark.parametrize(("more", "status"), [(0, "exit 3"), (1, "")])
def test_an_exit_code_stands_in_600_characters_at_either_end(more: int, status: str) -> None:
    code, middle = "exit code: 3", "x" * 700
    around = "\n" * 600
    foot = around[-(600 - len(code) - 1 + more) :]
    assert answer_of(ToolResultBlock(id="a", output=f"{middle}\n{code}\n{foot}")).status == status
    head = around[-(600 - len(code) + more) :]
    assert answer_of(ToolResultBlock(id="a", output=f"{head}{code}\n{middle}")).status == status


@pytest.mark.parametrize(
    "text",
    [
        "Name: web-1\nState: Running\nLast State: Terminated\n  Exit Code: 137\nReady: True",
        "Name: web-1\nLast State: Terminated\n  Reason: OOMKilled\n  Exit Code: 137",
        "job 7 build: exit code 0\njob 8 test: exit code 1\njob 9 lint: exit code 1",
        "Hi, the nightly backup on db-2 stopped yesterday with exit code 2\nCan you look?",
        "Der Auftrag von gestern:\nexit code: 4\nBitte prüfen Sie ihn.",
        "昨天的任务：\nexit status 4\n请检查。",
        "Ticket 7\n\nThe import fails:\nexit code: 2\nOutput:\nno such table",
        '{"State": {"Status": "running"}, "LastRun": {"exit_code": 3}}',
        '{"jobs": [{"name": "lint", "exit_code": 1, "output": "x"}]}',
        '{"valid": true, "errors": {"checked": 12, "found": 0}}',
        '{"requests": 100812, "errors": 3}',
    ],
)
def test_a_code_or_count_within_what_was_read_is_not_the_call_s(text: str) -> None:
    """Also of a part of its output, if the call's own stands at an end."""
    assert answer_of(ToolResultBlock(id="a", output=text)).status == ""
    for wrapped in (
        f"{text}\n[exit code: 9]",
        f"Exit code: 9\n{text}",
        f"Wall time: 1 s\nexit code: 9\nOutput:\n{text}",
    ):
        assert answer_of(ToolResultBlock(id="a", output=wrapped)).status == "exit 9"


@pytest.mark.parametrize(
    "text",
    [
        "Chunk ID: a1\nWall time: 0.05 seconds\nProcess exited with code 9\nOutput:\nrows: 3\nexit code: 2",
        "<result><output>rows: 3</output><exit_code>9</exit_code></result>",
        "rows: 3\n[The command completed with exit code 9.]\n[Current working directory: /srv/orders]\n",
        "Command: ls\nOutput: rows: 3\nExit Code: 9\nSignal: (none)\nProcess Group PGID: 1234",
        "exitcode: 9 (execution failed)\nCode output: \nrows: 3",
        "rows: 3\n\nCommand exited with code 9",
        "Error: Exit code 9\nrows: 3",
        '{"output": "rows: 3", "metadata": {"exit_code": 9, "duration_seconds": 0.2}}',
        '{"result": {"exitCode": 9, "stdout": "rows: 3", "stderr": ""}}',
        '{"name": "a", "stdout": "' + "rows " * 11_000 + '", "return_code": 9}',
        "{'returncode': 9, 'stdout': 'rows: 3'}",
        '{"exit_code": 9, "output": "test ok\\ntest ok … [truncated]',
    ],
)
def test_an_exit_code_is_told_however_a_program_s_output_is_wrapped(text: str) -> None:
    assert answer_of(ToolResultBlock(id="a", output=text)) == Answer("exit 9", empty=False)


@pytest.mark.parametrize("errors", ['["no seat"]', '"kein Platz"', "true", '{"邮箱": ["必填"]}', '{"mail": "missing"}'])
def test_a_field_that_holds_errors_is_a_status(errors: str) -> None:
    assert answer_of(ToolResultBlock(id="a", output=f'{{"id": 7, "errors": {errors}}}')).status == "error"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Order A1 was cancelled by the user on May 3", '"Order A1 was cancelled by the user on May 3"'),
        ("Forbidden Planet (1956)", '"Forbidden Planet (1956)"'),
        ('{"status": "rejected"}', '{"status": "rejected"}'),
        ("344\n(Open file: n/a)\nbash-$", '"344"'),
        ("3 rows\nuser@host:~$ ", '"3 rows"'),
        ("", "nothing"),
        ("<returncode>1</returncode>\n<output>\n</output>", "exit 1, nothing"),
    ],
)
def test_short_answers_are_quoted_whole(text: str, words: str) -> None:
    assert told(text) == words


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ERROR:\nNo module named pytest\n</output>\nexit code: 1", "No module named pytest"),
        ("x = 1\nTraceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'id'", "KeyError: 'id'"),
        ("string not found in src/auth.py\n</error>", "string not found in src/auth.py"),
        ("Lade Daten\nFehler: Die Rechnung 4711 ist gesperrt\n[exit code: 1]", "Die Rechnung 4711 ist gesperrt"),
        ("正在提交\n错误：仓库已接单，不能修改规格\n", "错误：仓库已接单，不能修改规格"),
        ('{"code": 17, "data": {"a": [1, 2]}, "message": "No seat left on ICE 71"}', "No seat left on ICE 71"),
        ("Downloading ━━━━━━━━━━━━━━━━ 100% 0:00:00\nHash mismatch for wheel 2.1", "Hash mismatch for wheel 2.1"),
        ("Zamówienie 77 zostało odrzucone\n```", "Zamówienie 77 zostało odrzucone"),
    ],
)
def test_the_words_are_the_line_with_the_reason(text: str, reason: str) -> None:
    assert reason in told(text, is_error=True, characters=90)


@pytest.mark.parametrize(
    "text",
    [
        "meta=None content=[TextContent(type='text', text='Seat 12A is held', annotations=None)] isError=False",
        'content=[TextContent(text=\'{\\n  "_meta": null,\\n  "text": "Seat 12A is held",\\n  "isError": false\\n}\')]',
        '{"content": [{"type": "text", "text": "Seat 12A is held", "annotations": null}], "isError": false}',
        '{\n  "座席": "Seat 12A is held",\n  "is_error": false,\n  "warnings": []\n}',
    ],
)
def test_that_there_is_no_error_is_no_answer(text: str) -> None:
    assert "Seat 12A" in told(text, characters=60)
    assert told('{"id": 7, "delivered": false}') == '{"id": 7, "delivered": false}'


def test_an_echo_of_the_call_is_no_answer() -> None:
    assert told("pytest -q tests\n3 passed", call="bash pytest -q tests", characters=20) == '"3 passed"'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Seat 12A held\nPlease note that seats are held for 20 minutes and are given to others then", "Seat 12A held"),
        ("def close(self):\n    " + "self.pool.release(connection), " * 9, "def close(self):"),
        (
            "Zug ICE 71, Gleis 8\n" + "Bitte beachten Sie die geänderte Wagenreihung am Bahnsteig und die " * 3,
            "Gleis 8",
        ),
        (
            "rows\n" + "No such table: orders, and none of the names that are like it " * 3,
            "No such table: orders",
        ),
    ],
)
def test_a_whole_line_goes_before_the_beginning_of_one_that_gives_no_reason(text: str, words: str) -> None:
    assert words in told(text, characters=40)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (
            "db.pg16: Creating...\ndb.pg16: complete\nApply complete! Resources: 1 added, 1 changed, 1 destroyed.",
            '"Apply complete! Resources: 1 added, 1 ',
        ),
        (
            '{"visa": "required unless the traveller holds a valid US visa", "source": "timatic 2026-05-09"}',
            '"required unless the traveller ',
        ),
        (
            "Lager 4 wird gelesen.\nLager 5 wird gelesen.\nFertig: 12 Artikel neu, 3 Artikel geändert, 1 gelöscht",
            '"Fertig: 12 Artikel neu, 3 ',
        ),
    ],
)
def test_an_outcome_that_is_a_little_too_long_is_cut_and_gives_way_to_no_other_line(text: str, outcome: str) -> None:
    assert outcome in told(text, characters=48)


@pytest.mark.parametrize(
    ("entry", "failed"),
    [
        ("Mar 12 10:0{0}:4{0} cron-1 systemd[1]: Started {1}.service.", "E: Could not get lock /var/lib/dpkg"),
        ("2026-05-0{0} 08:1{0} Kasse Beleg {1} gebucht", "Fehler: Beleg 17 ohne Konto"),
        ("5月{0}日 仓库 订单 {1} 已发货", "错误：订单 D99 未找到"),
    ],
)
def test_the_last_entry_of_a_log_does_not_sum_it_up(entry: str, failed: str) -> None:
    before = " ".join(entry.split()[:3]).format(1)
    names = ("amber", "größe", "仓库", "raven", "tee", "kasse")
    log = "\n".join((f"{before} {failed}", *(entry.format(n, name) for n, name in enumerate(names, 2))))
    assert failed in told(log, characters=70)


@pytest.mark.parametrize(("language", "words"), WORDS_OF_ERRORS.items())
def test_each_language_finds_its_own_words(language: str, words: str) -> None:
    example = {
        "en": "Permission denied", "zh": "操作失败", "ja": "見つかりません", "ko": "오류가 있습니다", "de": "Fehler 3",
        "fr": "introuvable", "es": "no se pudo abrir", "pt": "o envio falhou", "it": "non trovato", "ru": "ошибка 5",
    }[language]  # fmt: skip
    assert words
    assert ERROR.search(example)


@pytest.mark.parametrize(
    ("quiet", "reason"),
    [
        (
            "Despite the forged ticket, all of the services issued theirs without error",
            "the replication call was denied",
        ),
        ("Der Dienst hat alle zwölf Sendungen ohne Fehler angenommen, doch", "die Zahlung wurde abgelehnt"),
        ("所有十二个包裹都没有错误地收到了，标签也都打印好了，但是", "付款被拒绝"),
    ],
)
def test_a_line_is_cut_to_its_reason_not_to_words_that_deny_one(quiet: str, reason: str) -> None:
    assert reason.rpartition(" ")[2] in told(f"{quiet} {reason}.", characters=len(reason) + 30)


@pytest.mark.parametrize(
    ("before", "clause"),
    [
        ("Null logins were accepted on all three controllers of the domain, but ", "shares are denied"),
        ("Die Anmeldung gelang auf allen drei Servern des Hauses; ", "nur die Freigaben: Zugriff abgelehnt"),
        ("三台服务器都接受了空登录，一切正常，", "但是共享目录拒绝访问"),
    ],
)
def test_what_one_clause_says_is_not_told_of_what_another_begins_with(before: str, clause: str) -> None:
    text = f"{before}{clause}"
    answer = told(text, characters=len(clause) + 4)
    assert before[:6] not in answer
    assert clause in answer


@pytest.mark.parametrize(
    ("head", "more"),
    [
        ("arXiv:2402.{n:05}", "Comments: {n} pages, 8 figures, accepted for publication"),
        ("{n}. Hotel am Markt", "   Preis: {n}9 Euro je Nacht, Frühstück inbegriffen"),
        ("订单#{n:06} 已付款", "  收货人：第{n}位客户，地址在{n}号楼"),
    ],
)
def test_lines_of_two_records_of_a_list_never_stand_in_one(head: str, more: str) -> None:
    listed = "\n".join(f"{head.format(n=n)}\n{more.format(n=n)}" for n in range(11, 19))
    answer = told(f"Found these:\n{listed}", looks=True, characters=110)
    shown = [n for n in range(11, 19) if str(n) in answer.replace("2402", "")]
    assert len(shown) == 1


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("arXiv paper on bursts [astro-ph.HE]", "44 pages, 8 figures, accepted"),
        ("Anmeldung am Server erfolgreich", "3 Freigaben gelesen, 2 Rechner offen"),
        ("登录成功，权限为只读", "共找到3个共享目录"),
    ],
)
def test_lines_from_different_places_stand_in_quotes_of_their_own(first: str, last: str) -> None:
    text = "\n".join([f"{first}!", *("-" * 40 for _ in range(18)), last])
    assert f'{first}!" … "{last}"' in told(text, characters=100)


@given(st.text(max_size=3_000), st.booleans(), st.integers(20, 200))
def test_every_quoted_piece_stands_in_the_answer(text: str, is_error: bool, characters: int) -> None:
    words = told(text, is_error=is_error, characters=characters)
    assert "\n" not in words
    if '"' in words and "…" not in text:
        inside = words[words.index('"') + 1 : words.rindex('"')].replace('\\"', '"')
        flat = "".join("".join(ch if ch.isprintable() else " " for ch in text).split())
        for piece in inside.split("…"):
            assert "".join(piece.split()) in flat.replace("<!--CONTEXT_OFFLOAD", "<!CONTEXT_OFFLOAD"), piece


@given(st.text(st.sampled_from('a" ->\\x'), max_size=40))
def test_no_text_ends_its_own_quotation(text: str) -> None:
    inside = quoted(text)[1:-1]
    assert '" ->' not in inside.replace('\\"', "")
    assert re.sub(r'\\"(?=\s*->)', '"', inside) == text


@pytest.mark.parametrize(
    ("frame", "one", "other"),
    [
        ("<h1>Upload</h1>\n{}\n<meta charset='utf-8'>\n<p>Page not found? Contact us.</p>", "root:x:0", "file gone"),
        ('{{"status": "ok", "message": "Kein Fehler", "Ort": "{}"}}', "Ulm", "Augsburg"),
        ("查询完成，没有错误 123\n{}\n如有错误请联系客服 400-820", "耳机已退货", "雨靴已发货"),
    ],
)
def test_lines_that_other_answers_have_do_not_tell_one_from_them(frame: str, one: str, other: str) -> None:
    history = [m for n, words in enumerate((other, one)) for m in tool_exchange("get", {"n": n}, frame.format(words))]
    deeds = Deeds(WorkLedger.of(history), Runs([(1, 4)]), 56)
    assert one in deeds.answer(deeds.calls[1], 24)
    assert one not in told(frame.format(one), characters=24)


@pytest.mark.parametrize(
    ("failing", "summary"),
    [
        ("* FAILED tests/test_hooks.py::test_many", "70 passed. 16 failed. 0 errors."),
        ("--- FAIL: TestHooks (0.31s)", "FAIL shop/hooks 1.943s"),
        ("失败: 测试_多个钩子", "共 86 项，失败 16 项"),
    ],
)
def test_what_still_fails_after_each_change_of_a_file_is_told(failing: str, summary: str) -> None:
    history: list[Msg] = []
    for n in range(4):
        around = "\n".join(f"{70 + k}\t    hooks.append(value_{n})" for k in range(5))
        foot = f"Review the changes and make sure they are as expected.\nat <Request object at 0x7f41c6ed5e{n}0>"
        answer = f"The file has been edited.\n{around}\n{foot}\n{failing}\n{summary}"
        history += tool_exchange("edit", {"path": "shop/hooks.py", "new": f"hooks.append(value_{n})"}, answer)
    deeds = Deeds(WorkLedger.of(history), Runs([(1, len(history))]), 56)
    assert [call for call in deeds.calls if summary not in deeds.answer(call, 60)] == []


@pytest.mark.parametrize(
    ("frame", "answers"),
    [
        (
            "Chunk ID: 30d4e{0}\nWall time: 0.05{0} seconds\nOriginal token count: 346{0}\nOutput:\n{1}",
            ["RESEARCH-TASK.md", "README_de.md", "systems.md"],
        ),
        (
            "{1}\n<usage>total_tokens: 6182{0}\ntool_uses: 1{0}\nduration_ms: 4443{0}</usage>",
            ["The pool is closed too late.", "Der Preis steht in Zeile 12.", "名单在第三页。"],
        ),
    ],
)
def test_what_a_tool_measures_of_its_own_work_does_not_stand_for_its_answer(frame: str, answers: list[str]) -> None:
    history: list[Msg] = []
    for n, words in enumerate(answers):
        history += tool_exchange("run", {"command": f"step {n}"}, frame.format(n, words))
    deeds = Deeds(WorkLedger.of(history), Runs([(1, len(history))]), 56)
    told_of = [deeds.answer(call, 30) for call in deeds.calls]
    assert told_of[1:] == [quoted(words) for words in answers][1:]


@pytest.mark.parametrize(
    "outcome",
    [
        "**Status: SUCCESS** — all objectives met.",
        "**Task not achieved** – the server rejects the ticket.",
        "## Ergebnis: nur zum Teil gelungen",
        "## Summary — Task complete ✅",
        "**导出已完成。** 共三个文件。",
    ],
)
def test_a_report_is_told_by_the_outcome_that_its_writer_set_in_bold(outcome: str) -> None:
    steps = [f"- step {n} on 10.0.0.{n}: connection refused, then tried again" for n in range(9)]
    report = "\n".join(("## Summary", outcome, "### Steps", *steps, "**Add more information**", "Files: `/root/a.txt`"))
    assert told(report, characters=60).startswith(f'"{outcome}')


@pytest.mark.parametrize(
    "line",
    [
        "Here is a screenshot of [Access to this page has been denied](https://homes.example/sold?id=02cc217276166b12)",
        "Die Überweisung auf das Konto der Firma ist fehlgeschlagen:https://bank.example/auftrag?id=02cc217276166b12",
        "The build of the second stage for the new machine failed/artifacts/logs/stage-two/02cc217276166b121324341677",
    ],
)
def test_a_line_that_is_cut_keeps_the_word_that_tells_what_happened(line: str) -> None:
    start, end = ERROR.search(line).span()  # type: ignore[union-attr]
    for characters in range(end, end + 12):
        assert line[start:end] in told(line, characters=characters)


@pytest.mark.parametrize(
    ("before", "field", "after"),
    [
        (
            "# How it stores\nEach note has such a record:",
            '"schema_version": 2,',
            "The tool reads it at each start of 4.",
        ),
        ("# Aufbau\nJeder Auftrag sieht so aus:", '"auftrag": "A-17",', "Er wird alle 40 Minuten gelesen."),
        ("# 结构\n每个订单如下：", '"订单": "W-17",', "每四十分钟读取一次。"),
    ],
)
def test_an_example_in_a_text_is_not_told_as_the_record_that_came_back(before: str, field: str, after: str) -> None:
    shown = told(f"{before}\n{field}\n{after}", characters=24, looks=True)
    assert not shown.startswith("{"), shown


@pytest.mark.parametrize("words", ["Failed to fetch the page", "订单不存在", "Konto nicht gefunden"])
@pytest.mark.parametrize("level", [1, 2])
def test_what_a_tool_behind_a_protocol_says_is_told_without_the_protocol(words: str, level: int) -> None:
    """Its mark of an error is a status; its frame is no answer."""
    text = json.dumps(
        {"_meta": None, "content": [{"type": "text", "text": words}], "isError": True}, ensure_ascii=False
    )
    if level == 2:
        text = f"meta=None content=[TextContent(type='text', text={text!r}, annotations=None)] isError=False"
    assert told(text) == f'error: "{words}"'


@pytest.mark.parametrize(
    "names", [("server_name", "tool_name", "fetch"), ("Konto", "Inhaber", "Müller"), ("服务", "工具", "查询")]
)
def test_of_a_list_of_records_no_word_of_an_error_in_one_of_them_stands_for_all(names: tuple[str, str, str]) -> None:
    head, name, value = names
    said = ("opens a page", "reads the table below", "if it failed, do not ask again", "adds up what is there")
    more = ("and its links", "of each quarter", "even where it was refused", "in the end")
    records = [f"- {head}: {value}\n  {name}: {value}\n  {said[n]}\n  {more[n]}" for n in range(4)]
    assert "failed" not in told("\n".join(("found: 4", *records)), characters=40)


REPORTS = [
    (
        "Validate the credentials of missandei and enumerate the users of essos.local",
        "# Summary",
        "Validate the credentials of missandei and enumerate all users of essos.local.",
        "**Task complete.** The credentials hold on all five hosts, and 14 users were found.",
        "| {n} | host {n} | login | ❌ denied |",
    ),
    (
        "Prüfe die Rechnungen vom Mai gegen die Kontoauszüge der Bank",
        "## Bericht",
        "Die Rechnungen vom Mai gegen die Kontoauszüge der Bank prüfen.",
        "**Abgeschlossen.** 38 von 40 Rechnungen stehen auch auf dem Konto der Firma.",
        "{n}. Rechnung {n}: Fehler beim ersten Abruf, danach gelesen",
    ),
    (
        "检查 五月 所有 订单 的 库存 和 价格",
        "## 报告",
        "检查 五月 所有 订单 的 库存 和 价格。",
        "**检查已经全部完成。** 四十个订单中有三十八个库存充足，价格也正确。",
        "{n}. 订单 W{n}：第一次查询失败，重试成功",
    ),
]


@pytest.mark.parametrize(("task", "heading", "aim", "outcome", "record"), REPORTS)
def test_a_report_is_told_by_its_outcome_and_not_by_what_failed_on_the_way(
    task: str, heading: str, aim: str, outcome: str, record: str
) -> None:
    """Its lists are no lists of hits, and a line that repeats the task is no outcome; in little room it is cut."""
    records = [record.format(n=n) for n in range(1, 30)]
    report = "\n".join((heading, "", aim, "", outcome, "", *records, "", "- report.md"))
    for characters in (160, 44):
        assert told(report, characters=characters, call=task).startswith(f'"{outcome[:16]}'), characters
    without = "\n".join((heading, "", aim, *records))
    assert aim[:12] not in told(without, characters=44, call=task)


def test_what_a_command_prints_of_itself_is_no_answer_however_long_it_is() -> None:
    parts = " && ".join(f"echo '=== Teil {n} ===' && cat /var/log/service_{n}.log" for n in range(40))
    history = tool_exchange("sh", {"command": parts}, "=== Teil 38 ===\nready in 5 ms\n=== Teil 39 ===")
    deeds = Deeds(WorkLedger.of(history), Runs([(1, len(history))]), 56)
    assert deeds.answer(deeds.calls[0], 60) == quoted("ready in 5 ms")


@pytest.mark.parametrize("command", ["terraform", "kubectl-x get pods"])
def test_an_answer_that_names_its_whole_command_is_one(command: str) -> None:
    answer = f"See the page of the tool for how it is set up here\nbash: line 1: {command}: command not found"
    history = tool_exchange("sh", {"command": command}, answer)
    deeds = Deeds(WorkLedger.of(history), Runs([(1, len(history))]), 56)
    assert f"{command}: command not found" in deeds.answer(deeds.calls[0], 60)


@pytest.mark.parametrize(
    "announced",
    [
        "Perfect. Now let me compile all my findings:",
        "I have all the information I need. Let me write a report of my findings.",
        "已经找到所有信息。让我整理一份完整的报告。",
    ],
)
def test_an_announcement_does_not_stand_for_the_report_behind_it(announced: str) -> None:
    report = f"{announced}\n\n- the flag is defined in `main.go`, line 1291\n- `watch.go` has no flag for it at all"
    assert announced[:20] not in told(report, characters=45)
    assert told("Order 7 was cancelled. The money comes back.\nThanks", characters=70).startswith('"Order 7 was')


def test_what_is_left_of_the_room_is_no_reason_to_quote_what_tells_little() -> None:
    words = ("pool", "hook", "Vorrat", "request", "eine", "session", "datei")
    steps = [" ".join(words[(n * k) % 7] for k in range(1, n % 5 + 5)) + f" {n} {'x' * 40}" for n in range(30)]
    answer = "\n".join((*steps, "t = a.b", "FAILED tests/test_pool.py::test_close - AssertionError: None != ''"))
    assert "t = a.b" not in told(answer, characters=90)


@pytest.mark.parametrize("sign", ["\t", ": ", "→", " | "])
def test_what_stands_around_a_change_is_no_answer(sign: str) -> None:
    code = "\n".join(f"{n}{sign}print('{n} errors, no such file')" for n in range(11, 18))
    assert told(f"[File: /src/pool.py]\n{code}\nFile updated.", characters=60).endswith('File updated."')
    log = "\n".join(f"10:0{n}:00 error {n}" for n in range(4))
    assert "10:03:00 error 3" in told(log, characters=30), "times are no numbers of lines"


def test_the_progress_of_a_download_is_no_answer() -> None:
    meter = "100   669    0   652  100    17   7037    183 --:--:-- --:--:-- --:--:--  7516"
    assert told(f"{meter}\nYour name is test.") == '"Your name is test."'


@pytest.mark.parametrize(
    "code", ['1→import (\n2→"os"\n3→)\n4→func Close(pool *Pool) error {', "1\timport os\n2\t\n3\tdef close(pool):"]
)
def test_of_code_that_is_read_imports_are_not_told_beside_a_function(code: str) -> None:
    shown = told(code, characters=60, looks=True)
    assert '"os"' not in shown
    assert "import" not in shown
    assert shown.endswith(('error {"', 'close(pool):"'))


@pytest.mark.parametrize(
    ("answer", "told_once"),
    [
        ("The file has been updated successfully.", True),
        ("Die Datei wurde erfolgreich gespeichert.", True),
        ("文件已经成功保存，所有的更改都已写入磁盘。", True),
        ("String not found in the file, nothing changed.", False),
        ("70 passed, none left of the others", False),
        ("Cabin W-118 booked for Mr. Lu", False),
    ],
)
def test_a_phrase_that_a_tool_answers_again_and_again_stands_in_a_note_once(answer: str, told_once: bool) -> None:
    history = [user("Go on.")]
    for n in range(5):
        history += tool_exchange("edit", {"path": f"src/part_{n}.py", "new": f"value = {n}"}, answer)
    text = page(history, 900)
    assert text.count(answer) == (1 if told_once else 5)
    assert len(re.findall(r" -> as m2$", text, re.MULTILINE)) == (4 if told_once else 0)


@pytest.mark.parametrize(
    ("items", "price", "name", "bottle"),
    [
        ("items", "price", "name", "Water Bottle"),
        ("Posten", "Preis", "Name", "Große Flasche"),
        ("商品", "价格", "名称", "大号水瓶"),
    ],
)
def test_a_field_of_an_inner_record_is_not_told_as_one_of_the_record(
    items: str, price: str, name: str, bottle: str
) -> None:
    more = {"options": {"colour": "x" * 90, "of]": ["}", "[{"]}, "sku": "y" * 90}
    inner = [{name: bottle, price: 47.76, **more}, {name: "Lamp", price: 12.5, **more}]
    record = {"id": "#W1", items: inner, "status": "delivered", "total": 1186.47}
    for characters in (70, 140, 280):
        shown = told(json.dumps(record, ensure_ascii=False), characters=characters)
        assert '"status": "delivered"' in shown
        for value in (f'"{price}": 47.76', f'"{name}": "{bottle}"'):
            before = shown.partition(value)[0] if value in shown else f'"{items}": … '
            assert re.search(rf'"{items}": … (?:"[^"]+": [^{{}}…]*, )?$', before)
    assert f'"{items}": … "{name}": "{bottle}", "{price}": 47.76' in shown


@pytest.mark.parametrize("text", ["All is as expected.", "Wie erwartet: as expected"])
def test_what_is_as_expected_is_no_error(text: str) -> None:
    assert not ERROR.search(text)
    assert ERROR.search("expected 3, got 4")


def test_a_long_first_line_is_told_up_to_the_end_of_its_sentence() -> None:
    text = "The page has been saved. Here is what the server has made of it, with all of its links: below"
    assert told(text, characters=40) == '"The page has been saved.…"'


@pytest.mark.parametrize(
    "skipped", ["[-] CCache file is not found. Skipping...", "Warnung: Datei fehlt, Fehler 7", "缓存未找到"]
)
def test_a_failure_on_the_way_does_not_stand_for_a_long_line_that_came_back(skipped: str) -> None:
    found = f"$krb5tgs$23$*sql_svc*${'bd5e1c184a8dad01' * 9}"
    assert "krb5tgs" in told(
        "\n".join((*["MSSQLSvc/braavos.essos.local:1433 sql_svc 2026-04-27 04:17:15"] * 4, skipped, found)),
        characters=50,
    )


def order(number: str, status: str, *, cancelled: str | None = None) -> str:
    items = [{"name": f"Part {n} of {number}", "item_id": str(n) * 9, "price": 7.5 * n} for n in range(1, 5)]
    return json.dumps({"order_id": number, "items": items, "status": status, "cancelled": cancelled})


@pytest.mark.parametrize(("then", "now"), [("pending", "cancelled"), ("待发货", "已取消"), ("offen", "storniert")])
@pytest.mark.parametrize(
    ("first", "then_called"), [("get_order", "cancel_order"), ("read_ticket", "close_ticket"), ("查询订单", "取消订单")]
)
def test_what_an_action_changed_is_told_before_what_stood_there(
    then: str, now: str, first: str, then_called: str
) -> None:
    history = [
        *tool_exchange(first, {"order_id": "#W11"}, order("#W11", then)),
        *tool_exchange(first, {"order_id": "#W12"}, order("#W12", then)),
        *tool_exchange(then_called, {"order_id": "#W11"}, order("#W11", now)),
        *tool_exchange(then_called, {"order_id": "#W12"}, order("#W12", now)),
    ]
    lines = [line for line in page(history, budget=600).splitlines() if re.match(rf"m\d+ {then_called}\b", line)]
    assert len(lines) == 2
    assert all(json.dumps(now)[1:-1] in line for line in lines)


@pytest.mark.parametrize(
    ("paid", "new"),
    [
        ({"type": "payment", "amount": 1429.81}, {"type": "refund", "amount": 1429.81}),
        ({"步骤": "下单", "金额": 88}, {"步骤": "退款", "金额": 88}),
        ({"event": "opened", "by": "ada"}, {"event": "closed", "by": "ada"}),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_of_a_list_that_an_action_has_made_longer_the_new_entry_is_told(
    paid: dict[str, Any], new: dict[str, Any], indent: int | None
) -> None:
    def record(*entries: dict[str, Any]) -> str:
        return json.dumps({"id": "#W11", "history": entries, "more": "as ever"}, ensure_ascii=False, indent=indent)

    history = [
        *tool_exchange("get_order", {"order_id": "#W11"}, record(paid)),
        *tool_exchange("cancel_order", {"order_id": "#W11"}, record(paid, new)),
    ]
    deeds = Deeds(WorkLedger.of(history), Runs([(1, 4)]), 56)
    assert next(iter(new.values())) in deeds.answer(deeds.calls[1], 45)


@pytest.mark.parametrize("tool", ["route", "match", "路由"])
def test_of_a_list_of_records_the_first_names_are_told_whatever_the_tool_is_named(tool: str) -> None:
    servers = "".join(
        f"- server_name: {name}\n  tool_name: {name}_file\n  description: What it does ({n}).\n    And more of it.\n"
        for n, name in enumerate(("write", "stage", "edit"))
    )
    steps = [*tool_exchange(tool, {"asked": "save a page"}, f"success: true\nmatched_tools:\n{servers}")]
    assert "server_name: write" in page(steps, 500).partition(" -> ")[2]


def test_a_record_s_own_fields_are_told_before_those_of_records_in_it() -> None:
    assert '"status": "pending"' in told(order("#W7", "pending"), call="get_order #W7", characters=60)


def test_an_id_that_only_repeats_the_call_comes_last() -> None:
    text = json.dumps({"reservation_id": "NM1VX1", "membership": "gold", "bags": 2})
    assert told(text, call="get_reservation NM1VX1", characters=40) == '{… "membership": "gold", "bags": 2}'
    assert "NM1VX1" in told(text, call="get_reservations", characters=40)
    assert told(text, call="get_reservation NM1VX1", characters=90) == text


@pytest.mark.parametrize(
    ("call", "record", "said", "new"),
    [
        ("cancel_order #W7, no longer needed", {"cancel_reason": "no longer needed", "refund": 31.5}, "needed", "31.5"),
        ("umbuchen auf die erste Klasse", {"wunsch": "auf die erste Klasse", "aufpreis": 88}, "Klasse", "88"),
        ("close_ticket 4, sent by courier", {"note": "sent by courier", "closed_by": "ada"}, "courier", "ada"),
    ],
)
def test_a_phrase_that_only_repeats_the_call_comes_last(
    call: str, record: dict[str, object], said: str, new: str
) -> None:
    answer = told(json.dumps(record), call=call, characters=30)
    assert new in answer
    assert said not in answer
    assert told(json.dumps(record), call=call, characters=90) == json.dumps(record)


@pytest.mark.parametrize(
    ("key", "other"), [("item_id", "price"), ("kunden_number", "betrag_total"), ("trackingId", "开始时间_date")]
)
def test_a_key_that_the_next_call_may_need_is_told_before_other_values(key: str, other: str) -> None:
    record = json.dumps({"order": "W7", other: "236.57", key: "8277474082", "more": "as ever"}, ensure_ascii=False)
    assert "8277474082" in told(record, call="get_order W7", characters=32)
    assert "8277474082" not in told(record, call="get_order 8277474082", characters=32)


def test_an_error_in_the_words_of_the_call_is_told() -> None:
    record = json.dumps({"error": "users not found in database", "hint": "look elsewhere"})
    assert "users not found" in told(record, call="find users not found in database", characters=40)


@pytest.mark.parametrize(
    ("call", "record"),
    [
        ("list unpaid invoices", {"status": "paid", "total": 31}),
        ("drop users", {"deleted": "users", "kept": "backup"}),
        ("cancelled?", {"ok": True, "status": "cancelled"}),
        ("find users not found in database", {"error": "users not found in database", "table": "x"}),
    ],
)
def test_what_the_call_s_words_are_in_by_chance_is_told(call: str, record: dict[str, object]) -> None:
    assert json.dumps(record) in told(json.dumps(record), call=call, characters=90)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            """OBSERVATION:
Traceback (most recent call last):
  File "a.py", line 3
    from pydantic.alias_generators import to_snake
ModuleNotFoundError: No module named 'pydantic_core'
(Open file: n/a)
(Current directory: /testbed)
3 files were not found
bash-$""",
            "ModuleNotFoundError: No module named 'pydantic_core'",
        ),
        ("at Main.java:3\njava.lang.IllegalStateException: Konto gesperrt\nBUILD FAILED in 3s", "Konto gesperrt"),
        (
            "ERROR:\nNo replacement was performed, old_str `DEF(a)\n  DONE();` did not appear verbatim in 3 files.",
            "No replacement was performed",
        ),
        ("请求失败\nrequests.exceptions.ConnectionError: 连接被拒绝\n请求失败 3 次", "连接被拒绝"),
    ],
)
def test_an_exception_is_told_before_other_lines(text: str, reason: str) -> None:
    assert reason in told(text, characters=60)


@pytest.mark.parametrize(
    ("call", "text", "answer"),
    [
        ("ps aux | grep ntlmrelayx", "84449 python relay -socks\n90001 bash -c ps aux | grep ntlmrelayx", "84449"),
        ("curl -s http://laden.de/preise; echo fertig", "Preis: 12 €\n+ curl -s http://laden.de/preise 200", "Preis"),
        ("查询 订单 || echo 没有订单记录", "订单 4711 已付款\n+ echo 没有订单记录 1", "4711"),
        ("ps aux | grep ntlmrelayx", f"84449 python relay {'-socks ' * 9}\n90001 grep ntlmrelayx", "84449"),
    ],
)
def test_a_line_with_a_part_of_the_command_is_an_echo(call: str, text: str, answer: str) -> None:
    assert answer in told(text, call=call, characters=26)
    assert told(text, call=call, characters=400) == told(text.split("\n", maxsplit=1)[0], call=call, characters=400)


@pytest.mark.parametrize(
    "records",
    [
        [{"id": "gift_card_7480005", "amount": 6}, {"id": "certificate_1", "amount": 113}],
        [{"Kunde": "Weber", "status": "bezahlt"}, {"Kunde": "Maier", "status": "offen"}],
        [{"订单": "D88120", "status": "已签收"}, {"订单": "D88121", "status": "待发货"}],
    ],
)
@pytest.mark.parametrize("characters", [30, 60, 160])
def test_a_field_of_a_short_record_stands_in_its_record(records: list[dict[str, object]], characters: int) -> None:
    answer = told(json.dumps({"all": records, "page": 1}, ensure_ascii=False), characters=characters)
    keys = '"(?:amount|status)": '
    for found in re.finditer(keys, answer):
        assert '"id": ' in answer[: found.start()] or '"Kunde": ' in answer or '"订单": ' in answer
    assert len(re.findall(keys, answer)) <= answer.count("{")


@pytest.mark.parametrize(
    ("key", "field", "values"),
    [
        ("payment_methods", "amount", (6, 157, 113)),
        ("Zimmer", "Preis", (80, 95, 120)),
        ("座位", "价格", (553, 884, 1748)),
    ],
)
@pytest.mark.parametrize("characters", [40, 90, 400])
@pytest.mark.parametrize("named", [True, False])
def test_one_of_several_records_does_not_look_like_the_only_one(
    key: str, field: str, values: tuple[int, ...], characters: int, named: bool
) -> None:
    records = [{"id": f"W{n}", field: value} for n, value in enumerate(values)]
    text = json.dumps({key: {f"X{n}": r for n, r in enumerate(records)} if named else records}, ensure_ascii=False)
    answer = told(text, characters=characters)
    shown = [n for n, value in enumerate(values) if f'"{field}": {value}' in answer]
    assert shown
    assert all(f'"X{n}": {{' in answer for n in shown if named)
    assert ("…" in answer.replace('": … ', '": ')) is (len(shown) < len(records))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("release/1.4 26-06-01 open", "main 26-06-02 closed"),
        ("-rw-r--r-- 1 625 größe.md", "-rw-r--r-- 1 1532 preise.csv"),
        ("совпало 14, разошлось 0", "прогонов 120, разошлось 0"),
    ],
)
def test_two_rows_do_not_read_as_one(first: str, second: str) -> None:
    assert f'"{first}" "{second}"' in told(f"{first}\n{second}", characters=100)


@pytest.mark.parametrize(
    ("table", "last"),
    [
        (
            "+----+----------+\n| id | state    |\n+----+----------+\n| 17 | refunded |\n+----+----------+",
            "| 17 | refunded |",
        ),
        ("| id | état |\n+----+------+\n| 1 | payé |\n+----+------+\n| 2 | rendu |\n+----+------+", "| 2 | rendu |"),
        ("品名 数量\n---- ----\n茶叶 700\n咖啡 120\n---- ----\n合计 820", "咖啡 120"),
    ],
)
def test_a_row_above_a_later_rule_is_no_head(table: str, last: str) -> None:
    assert f'"{last}"' in told(table, characters=400)


TABLES = {
    "psql": [" kundennummer | segment | betrag ", "--------------+---------+--------", " K-100{0} | gross | {0}33.84"],
    "markdown": ["| 单号 | 状态 | 金额 |", "| --- | --- | --- |", "| D-20{0} | 已付款 | {0}7.50 |"],
    "pip": ["Paket        Fassung", "------------ -------", "größe_{0}     {0}.7"],
}


@pytest.mark.parametrize(("head", "rule", "row"), TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("characters", [40, 60])
def test_the_names_of_columns_do_not_stand_for_what_came_back(
    head: str, rule: str, row: str, looks: bool, characters: int
) -> None:
    rows = [" ".join(row.format(n).split()) for n in range(10, 14)]
    answer = told("\n".join((head, rule, *rows)), characters=characters, looks=looks)
    assert any(line in answer for line in rows)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" max_connections \n-----------------\n 300\n(1 row)\n", "300"),
        ("count(*)\n5531\n", "5531"),
        (
            "+------------+\n| sum(preis) |\n+------------+\n|    1204.50 |\n+------------+\n1 row in set",
            "1204.50",
        ),
        ("订单数\n------\n1873\n(1 行)", "1873"),
        ("Exit code: 0\nWall time: 0.05 seconds\nOutput:\n anzahl \n--------\n     17\n(1 Zeile)", "17"),
    ],
)
@pytest.mark.parametrize("looks", [True, False])
def test_the_one_number_that_a_query_returned_is_told(text: str, value: str, looks: bool) -> None:
    assert value in told(text, characters=18, looks=looks)
    assert value in told(text, characters=56, looks=looks)


@pytest.mark.parametrize(
    ("text", "verdict"), [("DIFFERENT\n16", "DIFFERENT"), ("FEHLER\n500", "FEHLER"), ("✗\n3", "✗"), ("失敗\n3", "失敗")]
)
def test_a_verdict_stands_beside_the_number(text: str, verdict: str) -> None:
    assert told(text, characters=26).startswith(f'"{verdict}"')


@pytest.mark.parametrize("text", ["Order W-7 was cancelled\n0", "Seite gesichert\n12\nGäste benachrichtigt\n13"])
def test_a_number_beside_sentences_does_not_stand_for_them(text: str) -> None:
    assert re.search("cancelled|gesichert|benachrichtigt", told(text, characters=26))


@pytest.mark.parametrize(
    ("key", "field", "values"),
    [
        ("legs", "flight_number", ("HAT084", "HAT175", "HAT266")),
        ("Zimmer", "Zimmernummer", ("Nr. 80", "Nr. 95", "Nr. 120")),
        ("座位", "number", ("12A", "12B", "12C")),
    ],
)
def test_the_fields_of_one_of_several_records_do_not_look_like_those_of_the_only_one(
    key: str, field: str, values: tuple[str, ...]
) -> None:
    more = {"seats": {"economy": list(range(40))}}
    text = json.dumps({key: [{field: value, **more} for value in values]}, ensure_ascii=False)
    answer = told(text, characters=60)
    assert sum(value in answer for value in values) == 1
    assert answer.endswith("(1 of several)")
    alone = told(json.dumps({key: [{field: values[0], **more}]}, ensure_ascii=False), characters=60)
    assert values[0] in alone
    assert "several" not in alone


@pytest.mark.parametrize(
    ("key", "record"),
    [
        ("payment_history", {"payment_id": "gift_card_7480005", "amount": 11750}),
        ("Zahlungen", {"Beleg": "R-4711", "Betrag": 80}),
        ("付款", {"订单": "D88120", "金额": 553}),
    ],
)
def test_a_record_of_a_list_is_told_with_the_name_of_the_list_where_there_is_room(
    key: str, record: dict[str, object]
) -> None:
    text = json.dumps({"seats": [[1, 2]], key: [record]}, ensure_ascii=False)
    said = json.dumps(record, ensure_ascii=False)
    assert told(text, characters=120) == f'{{"{key}": … {said} …}}'
    assert said in told(text, characters=len(said))


@pytest.mark.parametrize(
    ("lines", "telling_line"),
    [
        (
            ["success: true", "matched_tools:", "- name: get_ticker_news of server 7"],
            "- name: get_ticker_news of server 7",
        ),
        (["Kunde: Weber", "Adresse: Ulm", "Status 3: gesperrt, nicht gefunden"], "Status 3: gesperrt, nicht gefunden"),
        (["查询结果", "客户 王", "订单 D88120 未找到 3 次"], "订单 D88120 未找到 3 次"),
    ],
)
def test_the_lines_of_a_printed_string_are_lines(lines: list[str], telling_line: str) -> None:
    text = "meta=None content=[TextContent(type='text', text='" + "\\n".join([*lines, ""]) + "', annotations=None)]"
    assert telling_line in told(text, characters=60)


def test_a_long_line_is_searched_once_whatever_notes_tell_of_it() -> None:
    block = ToolResultBlock(id="c1", name="fetch", output="The dog barked all night long, number 7; " * 40)
    answer, pieces = answer_of(block), [((0, 0), block.text), ((3, 0), block.text + "and no more")]
    _word_of_error.cache_clear()
    for width in (40, 56, 90, 160, 300):
        assert came_back(pieces, answer, width)
    assert _word_of_error.cache_info().misses <= len(pieces)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("WARNING: Running pip as the 'root' user\nSuccessfully installed pydantic-2.5", "Successfully installed"),
        (
            "The file a.py has been edited. A snippet:\n   41\tdef f(x):\n   42\t    raise Error(x)\n   43\treturn 7",
            "The file a.py has been edited",
        ),
        (
            "Datei geändert, 2 Zeilen:\n 7| def preis(x):\n 8|     return x * 1.19\n 9| def steuer(x): return preis(x)",
            "Datei geändert",
        ),
    ],
)
def test_the_outcome_is_told_before_what_stands_around_it(text: str, outcome: str) -> None:
    assert outcome in told(text, characters=50)


def test_what_was_looked_at_is_told_with_its_numbers() -> None:
    assert "raise" in told("   41\tdef f(x):\n   42\t    raise Error(x)\n   43\treturn 7", characters=50, looks=True)


@pytest.mark.parametrize(
    ("first", "rest", "last"),
    [
        ("I clicked 'Colombia'.", "Rates and services\nMenu 3", "We use cookies to improve the page"),
        ("Ich habe 'Preis berechnen' gedrückt.", "Format: Brief 2\nMenü", "Datenschutz und Impressum"),
        ("我点击了“国际邮件”。", "邮费 3\n菜单", "关于我们 隐私条款 2"),
        ('Found 2 matches for "fields.py" in /src:', "/src/fields.py\n/src/old/fields.py", "(end of the list)"),
    ],
)
@pytest.mark.parametrize("looks", [True, False])
def test_the_sentence_that_a_result_begins_with_is_told(first: str, rest: str, last: str, looks: bool) -> None:
    assert first in told(f"{first}\n\n{rest}\n{last}", characters=50, looks=looks)


@pytest.mark.parametrize(
    ("line", "definition"),
    [
        ("        count_{0} += step_{0}", "class Ceiling(RoundFunction):"),
        ("  summe{0} = summe{0} + rabatt{0};", "public static int summe(Auftrag auftrag) {"),
        ("    合计_{0} = 单价_{0} * 数量_{0}", "def 合计金额(订单, 折扣):"),
    ],
)
@pytest.mark.parametrize("number", ["", "{}\t", "{}:", "{}→"])
def test_what_is_defined_in_a_file_tells_more_than_its_last_line(line: str, definition: str, number: str) -> None:
    lines = [f"{' ' * (n % 5)}{chr(97 + n % 26) * (2 + n % 7)} {line.format(n)}" for n in range(60)]
    lines[30] = definition
    text = "\n".join(number.format(n) + each for n, each in enumerate(lines, 1))
    assert definition in told(text, characters=56, looks=True)


@pytest.mark.parametrize(
    "listed",
    [
        "total 16\ndrwxr-xr-x 3 root root 4096 Apr 30 08:32 lib\n-rw-r--r-- 1 root root 9545 Apr 30 08:32 Makefile\n",
        "/testbed/.venv/plugins/aliases.py\n/testbed/pydantic/alias_generators.py\n/testbed/tests/test_aliases.py\n",
        "Rechnung-0417.pdf\nRechnung-0418.pdf\nMahnung-0419.pdf\n",
        "订单-0417.pdf\n订单-0418.pdf\n发票-0419.pdf\n",
        "LDAP 10.0.0.12 MEEREEN viserys.targaryen\nLDAP 10.0.0.12 MEEREEN jorah.mormont\n",
        "Buchung Konto 4711 über 17 Euro\nBuchung Konto 4712 über 19 Euro\n",
        "订单 已付款 417 元 王先生，明天送到\n订单 已付款 418 元 李先生，后天送到\n",
    ],
)
@pytest.mark.parametrize("looks", [True, False])
def test_one_entry_of_a_listing_does_not_look_like_the_only_one(listed: str, looks: bool) -> None:
    answer = told(listed, characters=22, looks=looks)
    assert answer.startswith("… ") or answer.endswith(" …")
    only = listed.splitlines()[-1]
    assert told(only, characters=56, looks=looks) == f'"{only}"'


@pytest.mark.parametrize(
    ("failure", "rest"),
    [
        (
            "[-] CCache file is not found. Skipping...",
            "{} hash of sql_svc, etype 23: $krb5tgs$23$*sql_svc$ESSOS.LOCAL*bd5e1c",
        ),
        ("Warnung: Datei preise.csv nicht gefunden", "{} Zeilen der Tabelle bestellungen sind übernommen worden"),
        ("警告：文件 价格.csv 未找到", "{} 行订单数据已经导入到数据库中，一共用了四秒钟，没有跳过任何一行"),
    ],
)
def test_a_failure_on_the_way_does_not_look_like_what_came_of_it(failure: str, rest: str) -> None:
    goes_on = "\n".join([failure, *(rest.format(n) for n in range(3))])
    assert told(goes_on, characters=50) == f'"{failure}" …'
    at_end = "\n".join([*(rest.format(n) for n in range(3)), failure])
    assert told(at_end, characters=50) == f'… "{failure}"'
    both = told(goes_on, characters=500)
    assert rest.format(2) in both


@pytest.mark.parametrize(
    ("key", "field", "said"),
    [
        ("sha", "date", "fixed the parser of dates once more"),
        ("Belegnummer", "Datum", "die Rechnung wurde doppelt gebucht"),
        ("订单", "日期", "该订单已经退款，请尽快通知客户本人"),
    ],
)
@pytest.mark.parametrize("characters", [60, 100, 160, 300])
@pytest.mark.parametrize("whole", [True, False])
def test_fields_of_two_records_never_stand_in_one(
    key: str, field: str, said: str, characters: int, whole: bool
) -> None:
    records = [
        {
            key: f"{n}{n}{n}-417",
            "status": f"{said} {n}. " * (1 + 4 * n),
            field: f"2026-0{n}-17",
            "by": {"id": n, "of": [n]},
        }
        for n in range(1, 5)
    ]
    text = json.dumps({"total": 4, "all": records} if whole else records, ensure_ascii=False)
    status = answer_of(ToolResultBlock(id="a", output=text))
    pieces = telling(text, status, changed=(f'"{key}": "333-417"', f'"{field}": "2026-02-17"'))
    answer = came_back(pieces, status, characters)
    shown = {n for n in range(1, 5) for part in (f"{n}{n}{n}-417", f"{said} {n}", f"2026-0{n}-17") if part in answer}
    assert len(shown) <= 1, answer


def test_of_two_kinds_of_records_no_count_is_told() -> None:
    users = [{"user": f"u{n}", "age": n} for n in range(3)]
    text = json.dumps({"users": users, "orders": [{"order": f"W{n}", "total": n * 9} for n in range(4)]})
    assert "of several" not in told(text, characters=150)


# ------------------------------------------------------------------------------------ sentences, announcements, pages
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "Although originally you did not have internet access, and were advised to refuse",
            "such tasks, you may do them now.",
        ),
        ("Die Rückgabe ist nach dreißig Tagen nicht mehr möglich, es sei denn", "die Ware war beschädigt."),
        ("Les billets de cette classe ne sont jamais remboursés sauf lorsque le vol", "est annulé par la compagnie."),
    ],
)
def test_no_half_of_a_sentence_stands_alone(first: str, second: str) -> None:
    text = f"{first}\n{second}\n\n" + "- ok\n" * 5
    for characters in (200, len(first), 50):
        shown = told(text, characters=characters, looks=True)
        if first in shown:
            assert f"{first} {second}" in shown or f"{first}…" in shown, shown


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("root 84449 0.0 2.4 803328 Ssl 15:14 python3 relay.py", "root 84788 0.0 0.0 6544 S 15:34 grep relay"),
        ("total of all open orders is 12 in store four", "paid orders: 3"),
        ("return self._get(name) or self.default_value", "def other(self, name):"),
    ],
)
def test_rows_and_code_are_no_sentence(above: str, below: str) -> None:
    assert f"{above} {below}" not in told(f"{above}\n{below}\n", characters=len(above) + 3)


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        (
            "Here's the result of running `cat -n` on /srv/v0.1/pool.c:",
            ["  652\tRULE(prefix);", "  653\tDONE(postfix);"],
        ),
        ("Hier sind die Zeilen der Datei, nach denen gefragt war:", ["  7\tgrenze = 40", "  8\tfrist = 14"]),
        ("以下是文件的内容：", ["  12\tport = 8080", "  13\thost = localhost_of_store"]),
    ],
)
def test_what_only_announces_is_no_answer(head: str, lines: list[str]) -> None:
    shown = told("\n".join((head, *lines)), characters=60, looks=True)
    assert head not in shown
    assert without_number(lines[0]) in shown or without_number(lines[1]) in shown


def test_lines_below_the_name_of_their_file_are_told_with_it() -> None:
    pool = "src/pool.py\n12:def close(self):\n40:    limit = 4711"
    shop = "src/shop.py\n7:class Shop(Base):\n99:    rate = 19"
    shown = told("\n\n".join((pool, shop) * 8), characters=200, looks=True)
    for name, line in (("src/pool.py", "def close(self):"), ("src/shop.py", "class Shop(Base):")):
        assert shown.index(name) < shown.index(line)


def test_a_head_that_counts_or_refuses_is_an_answer() -> None:
    assert "Found 3 open orders:" in told("Found 3 open orders:\n- a\n- b\n- c", looks=True)
    assert "Not allowed for guests:" in told("Not allowed for guests:\n- read\n- write", looks=True)


@pytest.mark.parametrize("lines", ["  1\tx = 1", "  1\tx = 1\n  2\ty"])
def test_what_was_done_is_told_without_what_it_announces(lines: str) -> None:
    text = f"The file /srv/a.py has been edited. Here's the result of running `cat -n` on a snippet:\n{lines}"
    assert told(text).startswith('"The file /srv/a.py has been edited.')
    assert "Here's the result" not in told(text)


@pytest.mark.parametrize("body", ["<p>Name is Kim.</p>", "Age: <input>", "<b>价格</b>"])
def test_the_head_of_a_page_is_no_answer(body: str) -> None:
    head = (
        '<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml">\n<meta content="text/html; charset=iso-8859-1" />'
    )
    assert told(f"{head}\n{body}\n</html>", characters=len(body)) == f'… "{body}"'


@pytest.mark.parametrize(
    ("command", "case", "then", "now", "wrong"),
    [
        ("python check.py", "to_snake('HTTPIt') = ", "httpit", "http_it", "Error: 1 value is invalid"),
        ("./prüfe.sh Lager", "Bestand von Regal acht: ", "fehlt", "gezählt", "Fehler: Regal neun ist ungültig"),
        ("核对 账单", "三月的账单：", "未付", "已付", "错误：四月的账单不存在"),
    ],
)
def test_equal_calls_are_told_by_what_differs_between_their_answers(
    command: str, case: str, then: str, now: str, wrong: str
) -> None:
    """What the change between them did is not in the line that both have."""

    def answer(word: str, hour: int) -> str:
        return f"job 7f{hour}a begins\nall cases of the table:\n{case}{word}\n== more ==\n== end ==\n{wrong}"

    history = [
        *tool_exchange("bash", {"command": command}, answer(then, 1)),
        *tool_exchange("edit", {"path": "a", "new": "x"}, "ok"),
        *tool_exchange("bash", {"command": command}, answer(now, 2)),
    ]
    deeds = Deeds(WorkLedger.of(history), Runs([(1, 6)]), 56)
    after = deeds.answer(deeds.calls[-1], len(case) + len(wrong) + 18)
    assert f"{case}{now}" in after
    assert "job 7f" not in after, "an id that is another one in each run is no outcome"


@pytest.mark.parametrize(
    ("name", "price", "where"),
    [
        ("Blue house with 3 rooms", "Sold for $555,000 in 2024", "12 Taylor Avenue, unit 204"),
        ("Haus mit 3 Zimmern", "Verkauft für 555.000 € im Jahr 2024", "Lindenstraße 12, Wohnung 4"),
        ("三居室", "2024年以555000元成交", "泰勒大道12号204室"),
    ],
)
def test_beside_a_line_of_a_page_stand_those_next_to_it(name: str, price: str, where: str) -> None:
    """A line from far away would read as if it were about the same."""
    chatter = [f"{word} of the page, which says nothing" for word in ("one", "two", "three", "four", "five")] * 6
    text = "\n".join([*chatter, "Report 2402.12084 on something else", *chatter, name, price, where, *chatter])
    pieces = telling(text, answer_of(ToolResultBlock(id="a", output=text)), changed=(price,))
    assert pieces[0][1] == price
    shown = came_back(pieces, Answer("", empty=False), 160)
    assert f'"{name}" "{price}" "{where}"' in shown
    assert "2402.12084" not in shown


@pytest.mark.parametrize("label", ["Expected: {}", "expected value = {}", '"expected": {}'])
def test_what_a_test_expects_is_no_error(label: str) -> None:
    assert ERROR.search(label.format("5")) is None
    assert ERROR.search("expected 5 rows, got 3") is not None
    assert ERROR.search("Unexpected end of input") is not None


@pytest.mark.parametrize("word", ["ERROR cannot resolve", "FEHLER bei", "错误"])
def test_all_failures_of_a_long_log_stand_before_the_lines_next_to_one(word: str) -> None:
    log = [f"Checking module {n} of the tree" for n in range(60)]
    for n, name in ((11, "alpha"), (29, "beta"), (47, "gamma")):
        log.insert(n, f"{word} {name} package")
    answer = told("\n".join(log), characters=130)
    assert all(name in answer for name in ("alpha", "beta", "gamma"))


def test_lines_on_both_sides_of_what_was_not_read_are_not_next_to_each_other() -> None:
    head = [*(f"{n} opens." for n in range(19)), "The lawsuit against Acme failed on its merits."]
    tail = "\n".join(["Globex paid its fine in full, counsel wrote.", *(f"{n} closes." for n in range(40))])
    between = [f"Other story {n} about Initech." for n in range(9_000)]
    text = "\n".join([*head, *between, "x" * (63_999 - len(tail)), tail])
    answer = told(text, characters=120)
    assert "Acme" in answer
    assert "Globex" not in answer


@pytest.mark.parametrize(
    "line",
    [
        "calc_test.go:12: expected: 3, got: 4",
        "FooTest.testBar:12 expected:<3> but was:<4>",
        "assertEquals expected=3 actual=4",
        "Expected status: 200, received 500",
    ],
)
def test_what_was_expected_beside_what_came_is_an_error(line: str) -> None:
    assert ERROR.search(line) is not None


def test_another_tool_with_the_same_arguments_is_no_equal_call() -> None:
    def state(version: str) -> str:
        return f"state of the service\nrelease {version} live\nall else\nas it was"

    history = [
        *tool_exchange("read_state", {"path": "srv"}, state("v1.4.2")),
        *tool_exchange("sync_state", {"path": "srv"}, state("v1.5.0")),
    ]
    deeds = Deeds(WorkLedger.of(history), Runs([(1, 4)]), 56)
    assert "v1.5.0" in deeds.answer(deeds.calls[1], 30)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("358 tried\n502 52\nFAIL query_wait_timeout 10s is above 5 s\n", "FAIL query_wait_timeout 10s is above 5 s"),
        ("Zeile gelesen\nZeile gelesen\nFehler: Betrag 12,5 fehlt\n", "Fehler: Betrag 12,5 fehlt"),
        ("读取\n读取\n错误：订单 D88120 未找到\n", "错误：订单 D88120 未找到"),
    ],
)
@pytest.mark.parametrize("wrapper", ["output", "stdout", "结果"])
def test_of_a_program_s_output_in_a_record_its_lines_are_told(output: str, line: str, wrapper: str) -> None:
    wrapped = json.dumps({"ok": True, "exit_code": 0, wrapper: output})
    assert told(wrapped, characters=60) == told(output, characters=60)
    assert line in told(wrapped, characters=60)
    assert told(f'<result tool="{wrapper}">\n{output}</result>', characters=60) == told(output, characters=60)


@pytest.mark.parametrize("wrapped", [{"exit_code": 1, "out": "a\nb c\nd"}, {"return_code": 3, "log": "x y\nz\n"}])
def test_its_exit_code_is_told_too(wrapped: dict[str, object]) -> None:
    code = next(iter(wrapped.values()))
    assert told(json.dumps(wrapped)).startswith(f"exit {code}: ")


@pytest.mark.parametrize("value", ["INVSYNC_DB", "größe_7", "D88121"])
def test_a_value_at_the_start_of_a_line_of_it_is_known_and_its_line_quoted(value: str) -> None:
    filler = "".join(f"nothing of note {n}\n" for n in range(30))
    output = json.dumps({"exit_code": 0, "stdout": f"{filler}{value}=orders of today\n{filler}"}, ensure_ascii=False)
    history = [
        user("Go on."),
        *tool_exchange("run", {"command": "cat env"}, output),
        *[m for n in range(4) for m in tool_exchange("run", {"command": f"step {n}"}, "done")],
        user(f"What about {value}?"),
    ]
    text = page(history, 1_500, only={*range(2, 12)})
    assert f"{value}=orders of today" in text


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("===== site/notice-{0}.html", ["Rabatt {0} %, höchstens {0}00 EUR.", "Gilt bis zum {0}. Dezember."]),
        ("--- envs/prod/{0}.yaml", ["size: m{0}", "disk {0}50 gb"]),
        ("==> 收据{0}.txt <==", ["供应商：第{0}家，金额 {0}00 元", "日期 10 月 {0} 日"]),
    ],
)
@pytest.mark.parametrize("characters", [60, 160])
def test_of_several_files_lines_of_one_are_told_and_that_there_are_others(
    head: str, body: list[str], characters: int
) -> None:
    files = {n: [head.format(n), *(line.format(n) for line in body)] for n in range(11, 15)}
    answer = told("\n".join(line for lines in files.values() for line in lines), characters=characters)
    assert sum(any(line in answer for line in lines) for lines in files.values()) == 1
    assert "…" in answer


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("Compiling of the pool begins", "12 passed in 3 s"),
        ("Die Tabelle wird geladen", "31 Zeilen übernommen"),
        ("正在读取订单数据", "共导入 31 行"),
    ],
)
def test_what_stands_above_and_below_what_is_told_is_marked(first: str, last: str) -> None:
    text = f"{first}\nall is as it was before\n{last}"
    assert told(text, characters=len(last)) == f'… "{last}"'
    assert "…" not in told(text, characters=1_000)
    assert told(last) == f'"{last}"'
    assert told(f"{last}\n{last}\n{last}") == f'"{last}"'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Message-ID: <n1@mx>\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nX-Spam-Score: 1.0\n\n{}",
            "Paguei eu o envio no balcão",
        ),
        ('"MIME-Version: 1.0\\n"\n"Content-Transfer-Encoding: 8bit\\n"\n{}', "msgstr bokningen är bekräftad"),
        ("drwxr-xr-x 4 ann ann 4096 Nov 28 .\ndrwxr-xr-x 9 ann ann 4096 Nov 28 ..\n{}", "größe.md"),
        (
            "#!/usr/bin/env python3\nimport mpmath.libmp as mlib2\nfrom .errors import Cron5Error\n{}",
            "limit_of_rows: yes",
        ),
        ('<div id="content" class="page2">\n<p><a id="7">\n{}\n</a></p>\n</body></html>', "예약은 사흘 전까지 취소"),
    ],
)
@pytest.mark.parametrize("looks", [True, False])
def test_what_only_says_what_a_text_is_gives_way_to_what_it_is_about(text: str, words: str, looks: bool) -> None:
    assert words in told(text.format(words), characters=len(words), looks=looks)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Payment run of the day\nReceived: 3 of 4 payments\nclosing the books now", "Received: 3 of 4 payments"),
        (
            "patient seen in ward\nX-ray: fracture of left wrist 12\nsigned by someone",
            "X-ray: fracture of left wrist 12",
        ),
        ("import finished: 3 rows in, 2 rejected\nbye bye then all", "import finished: 3 rows in, 2 rejected"),
        ("some log line of words\n<Response [404]>\nsome other line here", "<Response [404]>"),
        ('starting the suite\n<testcase name="pay" message="Error: 3 is not 4"/>\nwriting it', "Error: 3 is not 4"),
    ],
)
def test_what_looks_like_the_frame_of_a_text_but_says_something_is_told(text: str, words: str) -> None:
    assert words in told(text, characters=60)


@pytest.mark.parametrize(
    ("answer", "command"), [("t", "psql -tc 'select paid'"), ("ok", "lookup bob"), ("否", "查询 是否")]
)
def test_a_short_answer_is_no_echo_of_a_call_that_has_its_letters(answer: str, command: str) -> None:
    assert quoted(answer) in told(f"Exit code: 0\nWall time: 0.05 seconds\nOutput:\n{answer}", call=command)


@pytest.mark.parametrize(
    ("record", "marked"),
    [
        ({"id": "o-1", "items": ["chair", "table"]}, False),
        ({"Nr": "A-7", "Mengen": [3, 4]}, False),
        ({"id": "o-1", "items": [f"part {n}" for n in range(40)]}, True),
        ({"订单": "D8", "标签": [["急"], []]}, True),
        ({"id": "o-1", "items": [], "note": None, "of": {}}, False),
        ({"id": "o-1", "paid": True, "by": {"name": "Ann"}}, False),
    ],
)
def test_fields_beside_a_list_of_values_do_not_look_like_the_whole_record(record: dict[str, Any], marked: bool) -> None:
    answer = told(json.dumps(record, ensure_ascii=False), characters=300)
    assert ("…" in answer.replace('": … ', '": ')) is marked
    assert marked or all(json.dumps(value) in answer for value in record.values() if value)


@pytest.mark.parametrize(
    ("record", "which"),
    [
        ({"success": True, "deleted": [4], "failed": [5, 6]}, '"failed": [5, 6]'),
        ({"status": "sent", "accepted": ["a@x.org"], "rejected": ["b@x.org"]}, '"rejected": ["b@x.org"]'),
        ({"ok": True, "geändert": ["SMS"], "ohne": ["Mail: Pflicht"]}, '"ohne": ["Mail: Pflicht"]'),
        ({"success": True, "已取消": ["D8"], "未取消": ["D9"]}, '"未取消": ["D9"]'),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_success_is_not_told_without_what_failed(record: dict[str, Any], which: str, indent: int | None) -> None:
    def flat(text: str) -> str:
        return "".join(text.split())

    assert flat(which) in flat(told(json.dumps(record, ensure_ascii=False, indent=indent), characters=80))


@pytest.mark.parametrize("record", [{"names": ["a", "b"]}, {"Mengen": [3, 4]}, {"标签": ["急"]}])
def test_a_record_without_fields_stands_in_its_own_braces(record: dict[str, Any]) -> None:
    text = json.dumps(record, ensure_ascii=False)
    assert told(text) == text
