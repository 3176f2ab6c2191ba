"""Other kinds of agents (clusters, databases, other coding tools): what their notes say is true, and no noise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.ledger import WorkLedger
from autocontext.ledger.effects import effect_of
from autocontext.ledger.pages import CALLS, CHANGED, FOUND, PLAN, SAID
from autocontext.ledger.sentences import RULE, of_agent, of_user
from autocontext.ledger.shell import changed_before_failure, only_shows, sql_changes
from autocontext.messages import Msg
from autocontext.testing import tool_exchange, user
from tests.ledger.readings import parts_of


def note(messages: list[Msg], budget: int = 4_000) -> dict[str, list[str]]:
    return parts_of(WorkLedger.of(messages).render(budget, len))


def run(command: str, result: str) -> list[Msg]:
    return tool_exchange("run_command", {"cmd": command}, result)


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("CREATE TABLE scratch.a AS SELECT 1", [("scratch.a", "created")]),
        ("create or replace temp view v as select 1", [("v", "created")]),
        ("-- why\nSELECT 1; UPDATE b SET x = 1", [("b", "rows updated")]),
        ("DELETE FROM ONLY t WHERE 1", [("t", "rows deleted")]),
        ("INSERT INTO a VALUES (1);\nINSERT INTO b VALUES (2)", [("a", "rows inserted"), ("b", "rows inserted")]),
        ('DROP TABLE IF EXISTS "a"', [("a", "dropped")]),
        ("TRUNCATE TABLE logs", [("logs", "emptied")]),
        ("SELECT updated FROM t", []),
        ("Update prices for phones", []),
    ],
)
def test_statements_change_tables(statement: str, tables: list[tuple[str, str]]) -> None:
    assert sql_changes(statement) == tables


@given(st.text(st.sampled_from("UPDATE SET from;\n \"`'a.1"), max_size=60))
def test_any_statement_is_read(text: str) -> None:
    assert all(table and action for table, action in sql_changes(text))


def test_a_database_is_changed_by_statements_that_succeeded() -> None:
    messages = [
        user("Only write to scratch."),
        *tool_exchange("run_query", {"sql": "CREATE TABLE scratch.a AS SELECT 1"}, "SELECT 4680"),
        *tool_exchange("run_query", {"sql": "UPDATE mart.b SET x = 1"}, "ERROR:  permission denied for table b"),
        *tool_exchange("web_search", {"query": "create table in markdown"}, "Use pipes."),
    ]
    assert note(messages)[CHANGED] == ["m2 scratch.a: created"]


def test_a_cluster_is_changed_by_its_programs() -> None:
    messages = [
        *run("kubectl --context prod -n orders set env deploy/api POOL=25", "deployment.apps/api env updated"),
        *run("kubectl -n orders get pods", "NAME READY\napi-1 1/1"),
        *run("terraform plan", "Plan: 0 to add"),
        *run("systemctl restart nginx", ""),
        *run("helm upgrade api ./chart --dry-run=client", "ok"),
    ]
    assert note(messages)[CHANGED] == [
        "m1 kubectl set env deploy/api POOL=25: done",
        "m7 systemctl restart nginx: done",
    ]


def test_an_edit_before_a_command_that_failed_was_made() -> None:
    line = "cd src && sed -i 's/a/b/' a.py && pytest -q"
    assert note(run(line, "E   AssertionError: 3 != 4\n1 failed in 0.1s"))[CHANGED] == [
        "m1 a.py: edited by sed, then the command failed"
    ]
    assert CHANGED not in note(run(line, "sed: can't read a.py: No such file or directory"))
    assert CHANGED not in note(run("pytest -q && sed -i 's/a/b/' a.py", "E   AssertionError\n1 failed in 0.1s"))
    assert changed_before_failure("cat > a.py <<'E'\nx\nE\npython a.py", "SyntaxError: x") == {"a.py"}
    assert changed_before_failure("rm a && cp b c", "cp: cannot stat 'b': No such file or directory") == frozenset()


@pytest.mark.parametrize(
    "command", ["cat app.log", "tail -n 50 a.log | grep ERROR", "kubectl -n x logs api | tail -60"]
)
def test_an_error_in_a_log_is_no_failure_of_reading_it(command: str) -> None:
    log = "\n".join(f"line {i}" for i in range(20)) + "\nERROR: pool is closed\n\tat a.B.c(B.java:1)\nCaused by: X: y"
    assert only_shows(command)
    assert not any("failed" in line for line in note(run(command, log))[CALLS])
    missing = note(run(command, "cat: app.log: No such file or directory"))[CALLS]
    assert any("failed" in line for line in missing)


@pytest.mark.parametrize(
    "command", ["cat a && pytest", "cat a > b", "cat a | python", "sed -i s/a/b/ c && cat c", "echo $(rm a)"]
)
def test_other_commands_do_more_than_show(command: str) -> None:
    failed = "\n".join(f"line {i}" for i in range(20)) + "\nValueError: x"
    assert any("failed" in line for line in note(run(command, failed))[CALLS])


def test_a_failed_test_is_named_not_the_runners_last_word() -> None:
    result = "--- FAIL: TestStream (0.01s)\n    stream_test.go:22: got 9 rows\nFAIL\nFAIL\tacme.dev/csvx\t0.4s\nFAIL"
    (line,) = note(run("go test ./...", result))[CALLS]
    assert "TestStream" in line or "stream_test.go:22" in line


def test_line_numbers_with_an_arrow_are_no_values() -> None:
    lines = [f"{i:6}→{'}' if i % 3 else ''}" for i in range(1, 200)]
    lines[120] = "   121→export const maxRetries = 3;"
    found = note([*tool_exchange("Read", {"file_path": "/a/b.ts"}, "\n".join(lines)), user("Go on.")])[FOUND]
    assert [line for line in found if "→" in line] == [">    121→export const maxRetries = 3;"]


def test_what_all_results_begin_with_is_not_quoted() -> None:
    messages: list[Msg] = []
    for i in range(6):
        rows = "\n".join(f"row {k}" for k in range(30))
        messages += run(f"show {i}", f"Exit code: 0\nOutput:\n{rows}\nodd one out {'abcdef'[i]}")
    found = "\n".join(note(messages, 8_000)[FOUND])
    assert "Exit code" not in found
    assert "Output:" not in found
    assert found.count("odd one out") == 6


def test_a_plan_and_what_a_command_is_for_are_told_once() -> None:
    steps = [{"content": "Find the bug", "status": "completed", "activeForm": "Finding the bug in A1"}]
    messages = [
        *tool_exchange("TodoWrite", {"todos": steps}, "Todos have been modified successfully."),
        *tool_exchange("Bash", {"command": "make a1", "description": "Build target A1 again"}, "ok"),
        *tool_exchange("TodoWrite", {"todos": steps}, "Todos have been modified successfully."),
    ]
    parts = note(messages)
    assert parts[PLAN] == ["> - Find the bug: completed"]
    assert [line for line in parts[CALLS] if "TodoWrite" in line] == ["m5 TodoWrite: 2x"]
    text = "\n".join(parts.get(FOUND, []))
    assert "Finding" not in text
    assert "Build target" not in text


def test_what_was_booked_is_named_when_it_has_no_number() -> None:
    messages = [
        *tool_exchange("reserve_train", {"train": "のぞみ210号", "seat": "指定席"}, "予約を受け付けました。"),
        *tool_exchange("modify_booking", {"booking": "HM-5521", "nights": 1}, '{"status": "confirmed"}'),
        *tool_exchange("book_hotel", {"hotel": "みなと12"}, "予約に失敗しました: 満室"),
    ]
    assert note(messages)[CHANGED] == ["m1 のぞみ210号: reserve_train (指定席)", "m3 HM-5521: modify_booking"]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ('{"success": false, "error_code": "LIMIT", "message": "Above 50.00 EUR a supervisor decides"}', None),
        ('{"error": {"code": 7, "message": "Above 50.00 EUR a supervisor decides"}}', None),
        ('{"data": null, "errors": [{"message": "Above 50.00 EUR a supervisor decides"}]}', None),
        ('{"status": "error", "path": "/credits"}', '{"status": "error", "path": "/credits"}'),
    ],
)
def test_a_failure_in_json_says_why(result: str, words: str | None) -> None:
    (line,) = note(tool_exchange("issue_credit", {"amount": 62.0, "reason": "outage"}, result))[CALLS]
    assert line.endswith(f"-> failed: {words or 'Above 50.00 EUR a supervisor decides'}")


def test_a_tool_with_an_unknown_verb_may_fail_too() -> None:
    sent = tool_exchange("email_senden", {"an": "a@b.example"}, "E-Mail konnte nicht gesendet werden: Postfach voll.")
    assert "failed" in note(sent)[CALLS][0]


@pytest.mark.parametrize(
    ("tool", "effect"),
    [
        ("mcp__schedule__list_events", "reads"),
        ("mcp__book-store__get_title", "reads"),
        ("mcp__github__issue_read", "reads"),
        ("mcp__billing__issue_credit", "changes"),
        ("mcp__postgres__query", "reads"),
        ("mcp__fetch__x", "reads"),
    ],
)
def test_a_servers_name_says_nothing_about_its_tools(tool: str, effect: str) -> None:
    assert effect_of(tool, {}) == effect


def test_a_patch_is_named_by_its_files() -> None:
    patch = "*** Begin Patch\n*** Update File: a/b.go\n@@\n-x\n+y\n*** Add File: c.go\n+z\n*** End Patch"
    (line,) = note(tool_exchange("apply_patch", {"input": patch}, "apply_patch verification failed: no x"))[CALLS]
    assert line.startswith("m1 apply_patch: a/b.go, c.go -> failed")


def test_a_commands_output_in_the_users_role_is_not_what_the_user_said_first() -> None:
    """Agents that write commands into their text get the output as a message of the user."""
    output = "<returncode>0</returncode>\n<output>\n" + "\n".join(f"you must not row {i}" for i in range(60))
    messages = [
        user("Never touch the tests."),
        user("Keep it short, as I said."),
        user(output),
        user("And be quick, it is late."),
    ]
    said = note(messages, 160)[SAID]
    assert said[0] == "m1: Never touch the tests."
    assert any("be quick" in line for line in said)


def test_the_elements_of_a_page_that_was_left_are_not_quoted() -> None:
    names = ("Home", "Menu", "Cart", "Help")
    page = "\n".join(f'- link "{names[i % 4]}" [ref=e{200 + i}]' for i in range(40))
    messages = [
        *tool_exchange("browser_navigate", {"url": "https://a.example"}, page + "\n- text: Order LT-90417 confirmed"),
        *tool_exchange("browser_navigate", {"url": "https://b.example"}, page),
    ]
    found = "\n".join(note(messages)[FOUND])
    assert "LT-90417" in found
    assert "[ref=" not in found


def test_what_the_agent_found_comes_before_what_it_asked() -> None:
    """A sentence full of numbers is prose, too."""
    found, asked = of_agent("Lotus has only 18:30 or 20:45 on 14 March. Shall I look elsewhere then?")
    assert found.worth > asked.worth


def test_a_limit_that_is_mostly_numbers_is_a_rule() -> None:
    (limit,) = of_user("Max 200 MB for a 2 GB file.")
    assert limit.worth == RULE
