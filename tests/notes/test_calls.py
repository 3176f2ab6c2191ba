"""What a call says of itself: its label, the thing it names, what it writes, and whether it only looks."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.history.runs import Runs
from autocontext.messages import ToolResultBlock, ToolUseBlock
from autocontext.notes.calls import Call, Effect, call_of, label_of, looks, new_text, thing_of
from autocontext.notes.commands import LONGEST_COMMAND
from autocontext.notes.deeds import Deeds
from autocontext.notes.work import WorkLedger
from autocontext.testing import assistant, tool_exchange, tool_result, user
from tests.conversations import json_objects
from tests.notes.desks import calls, use
from tests.notes.pages import page

PATCH = (
    "*** Begin Patch\n*** Update File: src/pool.py\n@@\n-def close(self):\n+def close(self, timeout):\n*** End Patch"
)
DIFF = "--- a/kasse.py\n+++ b/kasse.py\n@@ -1 +1 @@\n-steuer = 16\n+steuer = 19\n"


@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        ({}, ""),
        ({"command": "pytest -q\ncd x"}, "pytest -q"),
        ({"origin": "SFO", "destination": "JFK", "date": "2024-05-20"}, "SFO, JFK, 2024-05-20"),
        ({"note": "x" * 90, "order_id": "W1"}, "W1"),
        ({"files": [{"file_path": "requests/models.py", "span_ids": ["Request"]}]}, "requests/models.py, Request"),
        ({"query": "first\nsecond"}, "first"),
        ({"path": "src/a.py", "view_range": [10, 40]}, "src/a.py view_range 10-40"),
        ({"command": "view", "path": "src/a.py"}, "src/a.py view"),
        ({"file": "données/été.csv", "colonne": "prix"}, "données/été.csv prix"),
        ({"patch": PATCH}, "src/pool.py"),
    ],
)
def test_a_label_names_what_tells_most(arguments: dict[str, Any], label: str) -> None:
    assert label_of(arguments) == label


@pytest.mark.parametrize(
    ("arguments", "thing"),
    [
        ({"path": "src/a.py", "content": "x"}, "src/a.py"),
        ({"order_id": "#W5565470", "user_id": "ann_1"}, "#W5565470"),
        ({"订单": "1", "id": 7}, "7"),
        ({"patch": DIFF}, "kasse.py"),
        ({"command": "ls"}, ""),
        ({"query": "lamp"}, ""),
    ],
)
def test_the_thing_of_a_call_is_the_file_or_record_that_it_names(arguments: dict[str, Any], thing: str) -> None:
    assert thing_of(arguments) == thing


@pytest.mark.parametrize(
    ("arguments", "new"),
    [
        ({"path": "a.py", "old_str": "x = 1\ny = 2\n", "new_str": "x = 1\ny = 3\n"}, "y = 3"),
        ({"path": "a.py", "old_string": "tax = 16", "new_string": "tax = 19"}, "tax = 19"),
        (
            {"path": "a.json", "oldText": '"text": "gray"\n}', "newText": '"text": "gray",\n"link": "blue"\n}'},
            '"link": "blue"',
        ),
        ({"path": "a.sql", "old_str": "steuer INT", "new_str": "steuer INT,\nrabatt INT"}, "rabatt INT"),
        ({"path": "a.py", "old_str": "pay(a)", "new_str": "pay(a);"}, "pay(a);"),
        ({"path": "a.py", "content": "# Copyright\nimport os\n\ndef pool():\n    pass\n"}, "def pool():…"),
        ({"path": "a.py", "edits": [{"oldText": "a\nb", "newText": "a\nclass Pool:"}]}, "class Pool:"),
        ({"patch": PATCH}, "+def close(self, timeout):"),
        ({"patch": DIFF}, "+steuer = 19"),
        ({"command": "cat > a.txt <<'EOF'\nGuten Tag, Frau Weiß\nEOF"}, "Guten Tag, Frau Weiß…"),
        ({"to": "ann@example.org", "body": "Dear Ann,\nyour parcel left Ulm on 3 May."}, "Dear Ann,…"),
        ({"标题": "退货", "正文": "您好！\n您的退货申请已经批准，请在七天内寄回商品。"}, "您好！…"),
        (
            {"path": "a.py", "old_string": "import os\ndef login(user):\n", "new_string": "import os\n"},
            "- def login(user):",
        ),
        ({"path": "a.py", "edits": [{"oldText": "steuer = 19", "newText": ""}]}, "- steuer = 19"),
        ({"path": "a.py", "new_str": "else:\n    melde(fehler)\n"}, "melde(fehler)…"),
        ({"path": "a.yaml", "content": "services:\n  db:\n"}, "services:…"),
        ({"search": "steuer", "path": "src"}, ""),
        ({"command": "pytest -q"}, ""),
        ({"order_id": "#W1"}, ""),
    ],
)
def test_what_a_call_writes_is_told_by_its_first_new_line_and_a_mark_if_there_are_more(
    arguments: dict[str, Any], new: str
) -> None:
    assert new_text(arguments) == new


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("read_file", {"path": "a"}, True),
        ("mcp__shop__get_order", {"id": 1}, True),
        ("str_replace_editor", {"command": "view", "path": "a"}, True),
        ("bash", {"command": "cd src && grep -n x a.py | head -3"}, True),
        ("bash", {"command": "git log --oneline"}, True),
        ("str_replace_editor", {"command": "create", "path": "a"}, False),
        ("bash", {"command": "cat a > b"}, False),
        ("bash", {"command": "find . -name x -delete"}, False),
        ("bash", {"command": "cd src && pytest -q"}, False),
        ("search_replace", {"path": "a"}, False),
        ("get_or_create_user", {"name": "ann"}, False),
        ("reopen_ticket", {"id": 1}, False),
        ("buy_item", {"id": 1}, False),
        ("обновить", {"id": 1}, False),
    ],
)
def test_an_unknown_call_counts_as_doing(tool: str, arguments: dict[str, Any], expected: bool) -> None:
    assert looks(tool, arguments) is expected


@pytest.mark.parametrize(
    ("table", "tool", "expected"),
    [
        ({"deploy": "changes"}, "deploy_app", False),
        ({"deploy": "reads"}, "deploy_app", True),
        ({"get_lock": "changes"}, "get_lock", False),
        ({"bash": "reads"}, "bash", True),
    ],
)
def test_the_users_table_goes_first(table: dict[str, Effect], tool: str, expected: bool) -> None:
    assert looks(tool, {"command": "make"}, table) is expected


LONG_PATH = "/home/ana/work/ledger-service/services/accounts/internal/handlers/transfer_handler_test.go"


@pytest.mark.parametrize("tool", ["Edit", "write_file", "notebook_update"])
def test_what_was_changed_stands_under_its_whole_name_and_what_was_read_may_begin_later(tool: str) -> None:
    other = "/home/ana/work/ledger-service/services/accounts/internal/handlers/account_handler.go"
    messages = [calls("", use("a", tool, file_path=LONG_PATH)), tool_result("a", "Saved, 2 hunks applied.")]
    messages += [calls("", use("b", "Read", file_path=other)), tool_result("b", "package handlers")]
    deeds = Deeds(WorkLedger.of(messages), Runs([(1, 4)]), 56)
    done, looked = deeds.lines(deeds.groups)
    assert done == f'm1 {tool} {LONG_PATH} -> "Saved, 2 hunks applied."'
    assert looked == 'm3 Read …/services/accounts/internal/handlers/account_handler.go -> "package handlers"'


def test_a_label_that_is_shortened_at_its_end_begins_as_it_is() -> None:
    query = "the price of a crossing from Ulm to Bregenz with two bicycles and a dog in May"
    messages = tool_exchange("search", {"query": query}, "12 EUR")
    deeds = Deeds(WorkLedger.of(messages), Runs([(1, 2)]), 40)
    assert deeds.label(deeds.calls[0], 40) == "the price of a crossing from Ulm to…"


def test_what_a_call_writes_stands_in_its_line_beside_its_label() -> None:
    messages = tool_exchange("write_file", {"path": "a.py", "content": "limit = 12\nwidth = 30\n"}, "Saved.")
    deeds = Deeds(WorkLedger.of(messages), Runs([(1, 2)]), 40)
    assert deeds.lines(deeds.groups) == ['m1 write_file a.py "limit = 12…" -> "Saved."']


def test_the_users_table_reaches_the_notes() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(1_000, tool_effects={"fahrplan": "reads"}))
    memory.add_message(user("Wann fährt der Zug?"))
    for i in range(40):
        memory.add_message(calls("", use(f"c{i}", "fahrplan", zug=f"ICE {i}")))
        memory.add_message(tool_result(f"c{i}", f"ICE {i} ab Ulm 14:0{i}\n" + "Halt in Augsburg, Günzburg\n" * 20))
    texts = "\n".join(m.text for m in memory.get_messages())
    assert "Looked at" in texts
    assert "\nDone" not in texts


@given(st.text(), json_objects())
def test_any_call_is_read_without_an_exception(tool: str, arguments: dict[str, Any]) -> None:
    call = call_of(use("c", tool or "x", **{f"k{k}": v for k, v in arguments.items()}), 1, {})
    for line in (call.name, call.label, call.thing, call.new):
        assert "\n" not in line
        assert line == line.strip()


def test_equal_calls_are_those_of_one_tool_with_equal_arguments() -> None:
    def digest(tool: str, **arguments: Any) -> int:
        return call_of(use("c1", tool, **arguments), 1, {}).digest

    assert digest("read_file", path="a.py", line=1) == digest("read_file", line=1, path="a.py")
    assert digest("read_file", path="a.py", line=1) != digest("read_file", path="a.py", line=2)
    assert digest("read_file", path="a.py") != digest("delete_file", path="a.py")


def test_a_call_does_not_say_its_main_argument_twice() -> None:
    task = "Open the page of the July paper and read the time span of the profile from its second diagram, in seconds."
    messages = tool_exchange("WebSurfer", {"instruction": task}, "The span is 0.8 s.")
    deeds = Deeds(WorkLedger.of(messages), Runs([(1, 2)]), 56)
    (line,) = deeds.lines(deeds.groups)
    assert line.count("Open the page of the July paper") == 1
    assert "read the time span of the profile" in line


def test_calls_that_differ_in_their_last_word_have_different_labels() -> None:
    messages = []
    for n, part in enumerate(("summary", "readme", "tree", "tree main", "languages")):
        command = f"python /mnt/skills/public/github-deep-research/scripts/github_api.py bytedance deer-flow {part}"
        messages += [calls("", use(f"c{n}", "bash", command=command)), tool_result(f"c{n}", f"{n} lines")]
    deeds = Deeds(WorkLedger.of(messages), Runs([(1, 10)]), 56)
    lines = deeds.lines(deeds.groups)
    assert [line.split(" -> ")[0].rsplit("deer-flow ")[-1] for line in lines] == [
        "summary", "readme", "tree", "tree main", "languages",
    ]  # fmt: skip
    assert not any("… " in line for line in lines)


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("for f in docs/*.md; do head -n 5 $f; done", True),
        ("for f in docs/*.md; do rm $f; done", False),
        ("if [ -f a ]; then cat a; fi", True),
        ("if make; then cat a; fi", False),
        ("ps aux | grep relay", True),
        ('find /srv -name "*.py" | grep -i alias', True),
        ('grep -n "DECL(pattern);" parser.c', True),
        ("grep -rn 'a|b' src 2>&1 | sort | head -3", True),
        ("find . -name '*.py' | xargs -n 5 grep -l pool", True),
        ("grep \"a > b\" f; awk '{ print $1 }' f", True),
        ("find . -name '*.pyc' | xargs rm", False),
        ("ls&&rm x", False),
        ("ls & rm x", False),
        ("sed -i s/a/b/ f", False),
        ("perl -pi -e 's/a/b/' f", False),
        ("echo 'a' > f", False),
        ("grep '$(x) `y`' f", True),
        ('echo "$(rm -rf build)"', False),
        ("sort -uo a.txt a.txt", False),
        ("find . -name x -execdir rm {} +", False),
        ("awk '{print > \"out.txt\"}' in.csv", False),
        ("awk 'BEGIN{system(\"rm -rf build\")}'", False),
        ("cat a # it's old\nrm -rf build\necho 'done'", False),
        ("git -C /srv/app diff --stat && git status && git blame a.py && git grep x && git show HEAD", True),
        ("git commit -n -m 'log'", False),
        ("git -C /srv/app push", False),
        ("git stash", False),
        ("git logout", False),
        ("sed -n 3,9p f", True),
        ("cat " + "a" * 5_000, False),
        ("while read line; do echo $line; done < a.txt", False),
    ],
)
def test_a_loop_only_looks_if_what_it_runs_does(command: str, reads: bool) -> None:
    assert looks("bash", {"command": command}) is reads


@pytest.mark.parametrize(
    ("tool", "reads"), [("SemanticSearch", True), ("web_search", True), ("search_and_replace", False)]
)
def test_a_tool_that_is_named_a_search_looks(tool: str, reads: bool) -> None:
    assert looks(tool, {"query": "orders"}) is reads


@pytest.mark.parametrize(
    ("statement", "reads"),
    [
        ("select monat, sum(netto) from kinds.belege group by 1", True),
        ("-- wie viele?\n  WITH n AS (SELECT * FROM r) SELECT count(*) FROM n;", True),
        ("explain analyze select 1", True),
        ("select 1; update belege set netto = 0", False),
        ("with n as (select 1) insert into belege select * from n", False),
        ("create or replace view v as select 1", False),
        ("drop  table belege", False),
        ("begin; delete from belege", False),
        ("\\copy belege to 'a.csv'", False),
        ("select 1; drop database prod", False),
        ("select 1; truncate t", False),
        ("select 1; UPDATE t AS x SET a=1", False),
        ("select 1; grant all on t to bob", False),
        ("select * into backup from t", False),
        ("select setval('s', 1)", False),
        ("select 'drop table t; --', \"update\" from t -- delete it", True),
        ("select 1, " + "a" * 5_000 + " from t; drop table t", False),
    ],
)
@pytest.mark.parametrize("tool", ["sql", "run_sql", "数据库"])
@pytest.mark.parametrize("key", ["query", "sql", "statement"])
def test_a_statement_that_only_selects_looks_whatever_the_tool_is_named(
    statement: str, reads: bool, tool: str, key: str
) -> None:
    assert looks(tool, {key: statement}) is reads


@pytest.mark.parametrize(("tool", "key", "begin"), [("bash", "command", "cat "), ("run_sql", "query", "select 1, ")])
def test_a_command_that_is_too_long_to_read_counts_as_doing(tool: str, key: str, begin: str) -> None:
    longest = begin.ljust(LONGEST_COMMAND, "a")
    assert looks(tool, {key: longest}) is True
    assert looks(tool, {key: f"{longest}a"}) is False


@pytest.mark.parametrize("query", ["table for two", "with sea view", "set of chairs", "show me all"])
def test_a_question_in_words_is_no_statement(query: str) -> None:
    assert looks("book", {"query": query}) is False
    assert looks("web_search", {"query": query}) is True


def test_a_query_that_inserts_looks_at_nothing() -> None:
    assert looks("query", {"sql": "insert into belege values (1)"}) is False
    assert looks("query", {"sql": "show belege"}) is True
    assert looks("run_db", {"sql": "show belege"}) is True


@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        (
            {"server_name": "investor", "tool_name": "get_data", "params": {"ticker": "SPY", "max_news": 10}},
            "investor, get_data, SPY, 10",
        ),
        ({"query": "<tool_assistant>\nserver: news or finance\n</tool_assistant>"}, "server: news or finance"),
        ({"aktion": "suchen", "filter": {"Kunde": "Weber"}}, "suchen, Weber"),
        ({"操作": "查询", "参数": {"订单": "D88120"}}, "查询, D88120"),
        ({"id": "i-77", "tags": ["prod", "keep"]}, "i-77, prod, keep"),
        ({"flüge": [{"nummer": "LH12", "fenster": True}, {"nummer": "LH34"}]}, "LH12, fenster=true, LH34"),
        (
            {"sheet": "May", "rows": [*range(100, 140)]},
            "May, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111,…",
        ),
        ({"file": "Budget.xlsx", "cells": [{"cell": "B7", "value": 12}]}, "Budget.xlsx B7, 12"),
        ({"file": "Budget.xlsx", "columns": ["A", "C"]}, "Budget.xlsx A, C"),
        ({"path": "a.py", "edits": [{"oldText": "tax = 16", "newText": "tax = 19"}]}, "a.py"),
    ],
)
def test_a_label_names_what_stands_inside_an_object(arguments: dict[str, Any], label: str) -> None:
    assert label_of(arguments) == label


@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        ({"enabled": False, "name": "new_checkout"}, "new_checkout, enabled=false"),
        ({"confirm": True, "ids": ["c3", "d4"]}, "c3, d4, confirm=true"),
        ({"path": "src/a.py", "dry_run": True, "line": 7}, "src/a.py line 7 dry_run=true"),
        ({"id": "T-9", "labels": []}, "T-9, labels=[]"),
        ({"通过": False, "发票": "I-9"}, "I-9, 通过=false"),
        (
            {"folder": "2024", "file": "a.pdf", "note": "", "meta": {"text": "x" * 90}, "force": True},
            "a.pdf 2024 force=true",
        ),
    ],
)
def test_what_says_nothing_without_its_key_stands_with_it_behind_the_rest(
    arguments: dict[str, Any], label: str
) -> None:
    assert label_of(arguments) == label


@pytest.mark.parametrize(("tool", "key"), [("set_flag", "name"), ("ablegen", "ordner"), ("批准", "发票")])
def test_calls_that_differ_in_a_boolean_or_a_list_alone_have_different_lines(tool: str, key: str) -> None:
    name = "the checkout of the shop for those who come from Ulm or Bregenz"
    told = [{"enabled": True}, {"enabled": False}, {"days": ["Mon", "Tue"]}, {"days": ["Mon", "Wed"]}, {"days": []}]
    messages = [m for more in told for m in tool_exchange(tool, {key: name, **more}, "done")]
    deeds = Deeds(WorkLedger.of(messages), Runs([(1, len(messages))]), 56)
    assert len({deeds.label(call, 56) for call in deeds.calls}) == len(told)


@pytest.mark.parametrize(
    ("tool", "argument", "things"),
    [
        ("edit", "path", ["src/pool.py", "src/main.rs", "docs/préface.md"]),
        ("cancel_order", "order_id", ["#W7001", "#W7002", "#W7003"]),
        ("search", "query", ["pool size of the server", "Größe des Vorrats", "连接池的大小"]),
    ],
)
def test_calls_without_a_line_are_named_by_what_they_were_about(tool: str, argument: str, things: list[str]) -> None:
    work = [user("Go on.")]
    for n in range(60):
        about = things[0] if n % 2 else things[1] if n % 4 else things[2] if n % 8 else f"other {n}"
        work += tool_exchange(tool, {argument: about, "n": n}, f"row {n} " * 9)
    lines = page(work, budget=500, count=lambda text: len(text) // 4).splitlines()
    (line,) = [line for line in lines if "more calls" in line]
    assert [thing for thing in things if thing in line or any(thing in other for other in lines)] == things
    told = sum(" -> " in other for other in lines)
    assert int(re.findall(r"(\d+) more calls", line)[0]) >= 60 - told


@pytest.mark.parametrize(
    ("read", "write", "argument", "thing"),
    [
        ("read_file", "edit_file", "path", "shop/{0}.py"),
        ("get_order", "update_order", "order_id", "#W{0}"),
        ("read_page", "write_page", "path", "Rechnung/{0}.md"),
        ("read_page", "write_page", "path", "第{0}章.md"),
    ],
)
def test_lines_give_way_before_the_names_of_what_was_changed(read: str, write: str, argument: str, thing: str) -> None:
    things = [thing.format(7_000 + n) for n in range(20)]
    work = [user("Go on.")]
    for n, about in enumerate(things):
        work += tool_exchange(read, {argument: about}, f"row {n}\n" * 40)
        work += tool_exchange(write, {argument: about, "text": f"the rate is {n} percent of {n * 7}"}, "1 replacement")
    text = page(work, budget=560, count=lambda text: len(text) // 4)
    done, looked = text.split("\nLooked at:\n")
    assert [about for about in things if about not in done] == []
    (others,) = [line for line in looked.splitlines() if "more calls" in line]
    assert [about for about in things if about in others] == []  # what was changed, was looked at


@pytest.mark.parametrize("thing", ["src/parser.c", "#W4711", "第二章.md"])
def test_calls_about_one_thing_stand_under_the_numbers_of_all_of_them(thing: str) -> None:
    """Also of the older ones of equal calls, which share the line of the newest."""
    view = {"path": thing, "view": "all"}
    steps = [
        *tool_exchange("open", view, "one row"),
        *tool_exchange("edit", {"path": thing, "text": "a rate of 19 percent"}, "done"),
        *tool_exchange("open", view, "two rows"),
    ]
    deeds = Deeds(WorkLedger.of(steps), Runs([(1, len(steps))]), 60)
    assert deeds.lines(deeds.groups)[0] == f"m1-m5 {thing}:"


@pytest.mark.parametrize("thing", ["src/parser.c", "#W4711", "第二章.md"])
def test_calls_of_one_message_about_one_thing_stand_under_its_number(thing: str) -> None:
    edits = {"c1": "a rate of 19 percent", "c2": "a rate of 7 percent"}
    made = [ToolUseBlock(id=id_, name="edit", input={"path": thing, "text": text}) for id_, text in edits.items()]
    results = [ToolResultBlock(id=id_, output=f"done {id_}") for id_ in edits]
    steps = [Msg(role="assistant", content=made), Msg(role="tool", content=results)]
    deeds = Deeds(WorkLedger.of(steps), Runs([(1, len(steps))]), 60)
    assert deeds.lines(deeds.groups)[0] == f"m1 {thing}:"


@pytest.mark.parametrize(
    ("read", "write"), [("read_file", "edit_file"), ("get_order", "buchen"), ("read_page", "修改")]
)
def test_calls_that_only_looked_are_counted_where_those_that_did_something_are(read: str, write: str) -> None:
    work = [user("Go on.")]
    for n in range(30):
        work += tool_exchange(
            write, {"id": f"A{n}", "text": f"the rate is {n} percent of {n * 7}"}, f"row {n} is stored"
        )
        work += tool_exchange(read, {"id": f"B{n} " + f"word{n} " * 9}, f"row {n} says a lot of what is {n} " * 40)
    bare = [
        text
        for budget in range(120, 200, 4)
        if "\nLooked at:\n" in (text := page(work, budget=budget, count=lambda text: len(text) // 4))
        and " -> " not in text.split("\nLooked at:\n")[1]
    ]
    assert bare
    assert all(re.search(r"Looked at:\nm\d+-m\d+: 30 more calls", text) for text in bare)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("tool", "named"), [("get_order", False), ("search_orders", False), ("cancel_order", True), ("stornieren", True)]
)
def test_of_calls_without_a_line_those_that_did_something_are_named_by_what_they_were_about(
    tool: str, named: bool
) -> None:
    work = [user("Go."), *(m for n in range(30) for m in tool_exchange(tool, {"order_id": f"#W{n}00"}, f"row {n}"))]
    pages = [page(work, budget=budget, count=lambda text: len(text) // 4) for budget in range(120, 400, 8)]
    more = [line for text in pages for line in text.splitlines() if "more call" in line]
    assert more
    assert any("#W" in line for line in more) is named


@pytest.mark.parametrize(("tool", "key"), [("edit", "path"), ("buchen", "order_id"), ("修改", "file_path")])
def test_the_names_of_calls_without_a_line_are_those_of_all_or_end_with_a_mark(tool: str, key: str) -> None:
    """Also of what has a line of its own: "4 more calls: b" would say that all four were about b."""
    work = [user("Go.")]
    for n in range(16):
        about = "a/first.py" if n % 4 else f"b/other{n}.py"
        work += [
            *tool_exchange(tool, {key: about, "new": f"value {n} of it"}, f"row {n} is stored"),
            assistant("Next."),
        ]
    seen = 0
    for budget in range(150, 500, 10):
        lines = page(work, budget=budget, count=lambda text: len(text) // 4).splitlines()
        for named in (line.split(": ", 2)[2] for line in lines if line.count(": ") > 1 and "more call" in line):
            told = {int(n) for line in lines if "more call" not in line for n in re.findall(r"\bm(\d+) ", line)}
            hidden = {f"b/other{n}.py" if n % 4 == 0 else "a/first.py" for n in range(16) if 2 + 3 * n not in told}
            assert named.endswith("…") or all(name in named for name in hidden)
            seen += 1
    assert seen > 3


@pytest.mark.parametrize(
    ("answers", "marked", "words"),
    [
        (["", ""], False, "X 2x -> nothing"),
        (["", "one row"], False, "X 2x (1 with nothing)"),
        (["one row", "another row"], False, "X 2x"),
        (["one row", None], False, "X 2x (1 without an answer)"),
        (["no", "another row"], True, "X 2x (1 with an error status)"),
        (
            ["String not found in X", "another row"],
            False,
            'X 2x, m1 -> "String not found in…", then m3 -> "another row"',
        ),
        (
            ["Datei nicht gefunden", "another row"],
            False,
            'X 2x, m1 -> "Datei nicht gefunden", then m3 -> "another row"',
        ),
        (
            ["Error: no such card", "refund 7 is sent"],
            False,
            'X 2x, m1 -> "Error: no such card", then m3 -> "refund 7 is sent"',
        ),
        (["no such row, error", "not found", "row 3"], False, 'X 3x, m3 -> "not found", then m5 -> "row 3"'),
        (["row 3", "no such row, error", "Datei nicht gefunden"], False, 'X 3x, m5 -> "Datei nicht gefunden"'),
        (["一行", "找不到文件，失败"], False, 'X 2x, m3 -> "找不到文件，失败"'),
        (["Error: no such order"], False, 'X -> "Error: no such order"'),
    ],
)
def test_calls_without_a_line_say_what_the_structure_says(answers: list[str | None], marked: bool, words: str) -> None:
    ledger = WorkLedger()
    for n, answer in enumerate(answers):
        call, result = tool_exchange("edit", {"path": "X", "n": n}, answer or "")
        if marked and not n:
            result = Msg(role="tool", content=[result.tool_results[0].model_copy(update={"is_error": True})])
        ledger.append(call)
        if answer is not None:
            ledger.append(result)
    deeds = Deeds(ledger, Runs([(1, len(ledger))]), 60)
    assert deeds.in_short("X", deeds.calls) == words
    assert deeds.in_short("X", deeds.calls[::-1]) == words  # a note asks for the newest first


@pytest.mark.parametrize(
    "name", ["deploy.log -> exit 1; tests.py 7x", "make clean; make test", "a.txt 3x", "a (2 with nothing)"]
)
def test_what_a_call_is_about_forges_no_list(name: str) -> None:
    ledger = WorkLedger()
    for msg in tool_exchange("run", {"path": name}, "one row"):
        ledger.append(msg)
    deeds = Deeds(ledger, Runs([(1, 2)]), 60)
    about = deeds.in_short(name, deeds.calls)
    assert about[0] == about[-1] == '"'


class _Read(list[Call]):
    """Calls, and how many of them were asked for."""

    read = 0

    def __getitem__(self, at: Any) -> Any:
        self.read += len(range(len(self))[at]) if isinstance(at, slice) else 1
        return super().__getitem__(at)

    def __iter__(self) -> Iterator[Call]:
        self.read += len(self)
        return super().__iter__()


def test_of_many_calls_few_are_looked_at_to_say_how_often_each_tool_was_called() -> None:
    ledger = WorkLedger.of(m for n in range(1_000) for m in tool_exchange("bash", {"command": f"ls {n}"}, id=f"c{n}"))
    calls = ledger.calls = _Read(ledger.calls)
    assert ledger.tools(Runs([(2, 1_900)])) == {"bash": 949}
    assert 0 < calls.read < 50


@pytest.mark.parametrize(
    ("tool", "key"), [("update_claim", "claim_id"), ("buchen", "auftrag_id"), ("修改", "order_id")]
)
def test_below_the_name_of_its_record_a_label_begins_with_the_next_argument(tool: str, key: str) -> None:
    work = [m for n in range(2) for m in tool_exchange(tool, {key: "CLM-240317", "part": f"reserve_{n}"}, f"row {n}")]
    lines = page(work, 900, len).splitlines()
    assert [line.partition(" -> ")[0] for line in lines[-2:]] == [f"m1 {tool} reserve_0", f"m3 {tool} reserve_1"]


def test_below_a_name_a_label_loses_no_part_of_a_value_and_none_of_several() -> None:
    """Below "7:", "70" is no "0"; below "c3:", a call for c3 and d4 is none for d4."""
    work = [m for n in (70, 71) for m in tool_exchange("set_price", {"item_id": 7, "code": n}, f"row {n}")]
    for tool, more in (("tag", {"id": "c3"}), ("tag", {"id": "c3", "tag": "vip"}), ("delete", {"ids": ["c3", "d4"]})):
        work += tool_exchange(tool, more, "done")
    text = page(work, 900, len)
    assert "m1 set_price 70, 7 ->" in text
    assert "m5-m9 c3:\nm5 tag -> " in text
    assert "m9 delete c3, d4 -> " in text
