"""What calls of the tools of common agents do, and which things they change."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.ledger import WorkLedger
from autocontext.ledger.effects import VERBS, Effect, changes_of, command_line, effect_of, path_of, verb_of
from autocontext.ledger.pages import CHANGED
from autocontext.testing import tool_result, user
from tests.conversations import json_objects
from tests.ledger.desks import calls, use

CALLS: list[tuple[str, dict[str, Any], Effect | None, list[tuple[str, str]]]] = [
    ("bash", {"command": "ls"}, "runs", []),
    ("str_replace_editor", {"command": "view", "path": "/a.py"}, "reads", []),
    ("str_replace_editor", {"command": "create", "path": "/a.py", "file_text": "x"}, "changes", [("/a.py", "created")]),
    (
        "str_replace_editor",
        {"command": "str_replace", "path": "/a.py", "old_str": "x"},
        "changes",
        [("/a.py", "edited")],
    ),
    ("str_replace_editor", {"command": "insert", "path": "/a.py"}, "changes", [("/a.py", "edited")]),
    ("str_replace_editor", {"command": "undo_edit", "path": "/a.py"}, "changes", [("/a.py", "edit undone")]),
    ("str_replace_based_edit_tool", {"command": "view", "path": "/a.py"}, "reads", []),
    ("execute_bash", {"command": "rm x.py"}, "runs", [("x.py", "deleted")]),
    ("execute_ipython_cell", {"code": "1+1"}, "runs", []),
    ("finish", {"message": "x"}, None, []),
    ("think", {"thought": "write a file"}, "reads", []),
    ("Read", {"file_path": "/a"}, "reads", []),
    ("Edit", {"file_path": "/a", "old_string": "x", "new_string": "y"}, "changes", [("/a", "edited")]),
    ("Write", {"file_path": "/a", "content": "x"}, "changes", [("/a", "written")]),
    ("MultiEdit", {"file_path": "/a", "edits": [{}]}, "changes", [("/a", "edited")]),
    ("NotebookEdit", {"notebook_path": "/a.ipynb", "new_source": "x"}, "changes", [("/a.ipynb", "edited")]),
    ("NotebookRead", {"notebook_path": "/a"}, "reads", []),
    ("TodoWrite", {"todos": [{"content": "x", "status": "pending"}]}, "changes", []),
    ("TodoRead", {}, "reads", []),
    ("Bash", {"command": "echo > x", "description": "write x"}, "runs", [("x", "written")]),
    ("Glob", {"pattern": "*"}, "reads", []),
    ("Grep", {"pattern": "x", "path": "src"}, "reads", []),
    ("LS", {"path": "/"}, "reads", []),
    ("WebFetch", {"url": "http"}, "reads", []),
    ("WebSearch", {"query": "x"}, "reads", []),
    ("Task", {"description": "d", "prompt": "p"}, None, []),
    ("BashOutput", {"bash_id": "1"}, "runs", []),
    ("KillShell", {"shell_id": "1"}, "runs", []),
    ("KillBash", {"shell_id": "1"}, "runs", []),
    ("ExitPlanMode", {"plan": "x"}, None, []),
    ("shell", {"command": ["bash", "-lc", "sed -i 's/a/b/' f.py"]}, "runs", [("f.py", "edited by sed")]),
    (
        "shell",
        {"command": ["apply_patch", "*** Begin Patch\n*** Update File: a/b.py\n@@\n-x\n+y\n*** End Patch"]},
        "runs",
        [("a/b.py", "edited")],
    ),
    (
        "apply_patch",
        {"input": "*** Begin Patch\n*** Add File: n.py\n+x\n*** Delete File: o.py\n*** End Patch"},
        "changes",
        [("n.py", "created"), ("o.py", "deleted")],
    ),
    ("update_plan", {"plan": [{"step": "a", "status": "pending"}]}, "changes", []),
    ("local_shell", {"command": ["ls"]}, "runs", []),
    ("exec_command", {"cmd": "rm a"}, "runs", [("a", "deleted")]),
    ("write_stdin", {"session_id": 1, "chars": "x"}, "runs", []),
    ("open", {"path": "a.py"}, "reads", []),
    ("goto", {"line_number": 3}, "reads", []),
    ("scroll_down", {}, "reads", []),
    ("search_dir", {"search_term": "x"}, "reads", []),
    ("search_file", {"search_term": "x"}, "reads", []),
    ("find_file", {"file_name": "x.py"}, "reads", []),
    ("edit", {"search": "a", "replace": "b"}, "changes", [("edit", "done")]),
    ("create", {"filename": "x.py"}, "changes", [("x.py", "created")]),
    ("submit", {}, "runs", []),
    ("book_reservation", {"user_id": "u_1", "origin": "SFO"}, "changes", [("u_1", "book_reservation")]),
    ("cancel_reservation", {"reservation_id": "R1"}, "changes", [("R1", "cancel_reservation")]),
    (
        "update_reservation_flights",
        {"reservation_id": "R1", "cabin": "economy", "payment_id": "gift_1"},
        "changes",
        [("R1", "update_reservation_flights (gift_1)")],
    ),
    ("update_reservation_baggages", {"reservation_id": "R1"}, "changes", [("R1", "update_reservation_baggages")]),
    ("send_certificate", {"user_id": "u", "amount": 100}, "changes", [("u", "send_certificate")]),
    ("search_direct_flight", {"origin": "SFO"}, "reads", []),
    ("get_user_details", {"user_id": "u"}, "reads", []),
    ("list_all_airports", {}, "reads", []),
    ("transfer_to_human_agents", {"summary": "s"}, "changes", [("transfer_to_human_agents", "done")]),
    ("calculate", {"expression": "1+1"}, "reads", []),
    (
        "exchange_delivered_order_items",
        {"order_id": "#W1", "item_ids": ["1"], "new_item_ids": ["2"], "payment_method_id": "p"},
        "changes",
        [("#W1", "exchange_delivered_order_items (p)")],
    ),
    ("return_delivered_order_items", {"order_id": "#W1"}, "changes", [("#W1", "return_delivered_order_items")]),
    ("modify_pending_order_address", {"order_id": "#W1"}, "changes", [("#W1", "modify_pending_order_address")]),
    ("modify_user_address", {"user_id": "u"}, "changes", [("u", "modify_user_address")]),
    ("find_user_id_by_email", {"email": "e"}, "reads", []),
    ("list_all_product_types", {}, "reads", []),
    ("read_file", {"path": "x"}, "reads", []),
    ("read_multiple_files", {"paths": ["a", "b"]}, "reads", []),
    ("write_file", {"path": "x", "content": "c"}, "changes", [("x", "written")]),
    ("edit_file", {"path": "x", "edits": []}, "changes", [("x", "edited")]),
    ("create_directory", {"path": "d"}, "changes", [("d", "created")]),
    ("list_directory", {"path": "d"}, "reads", []),
    ("directory_tree", {"path": "d"}, None, []),
    ("move_file", {"source": "a.py", "destination": "b.py"}, "changes", [("a.py", "moved to b.py")]),
    ("search_files", {"path": "d", "pattern": "x"}, "reads", []),
    ("get_file_info", {"path": "d"}, "reads", []),
    ("list_allowed_directories", {}, "reads", []),
    ("create_issue", {"owner": "o", "repo": "r", "title": "t"}, "changes", [("t", "create_issue")]),
    (
        "create_pull_request",
        {"owner": "o", "repo": "r", "title": "t", "head": "h", "base": "b"},
        "changes",
        [("t", "create_pull_request")],
    ),
    ("get_issue", {"issue_number": 3}, "reads", []),
    ("create_or_update_file", {"path": "x", "repo": "r"}, "changes", [("x", "created")]),
    ("push_files", {"files": [{"path": "a"}]}, "changes", [("a", "pushed")]),
    ("search_repositories", {"query": "x"}, "reads", []),
    ("add_issue_comment", {"issue_number": 3, "body": "x"}, "changes", [("3", "add_issue_comment")]),
    ("merge_pull_request", {"pull_number": 2}, "changes", [("2", "merge_pull_request")]),
    ("list_commits", {"repo": "r"}, "reads", []),
    ("get_commit", {"sha": "x"}, "reads", []),
    ("fork_repository", {"repo": "r"}, "changes", [("fork_repository", "done")]),
    ("get_pull_request_status", {"pull_number": 3}, "reads", []),
    ("create_branch", {"branch": "b"}, "changes", [("b", "create_branch")]),
    ("github__create_issue", {"title": "t"}, "changes", [("t", "github__create_issue")]),
    ("mcp__filesystem__write_file", {"path": "x"}, "changes", [("x", "written")]),
    ("browser_click", {"ref": "x"}, None, []),
    ("browser_navigate", {"url": "u"}, None, []),
    ("run_python", {"code": "x"}, "runs", []),
    ("python", {"code": "open('a','w')"}, "runs", []),
    ("sendEmail", {"to": "a@b", "subject": "s"}, "changes", [("a@b", "sendEmail (s)")]),
    ("send_email", {"to": "a@b.c", "subject": "s", "body": "b"}, "changes", [("a@b.c", "send_email (s)")]),
    ("query_database", {"sql": "select"}, "reads", []),
    ("execute_sql", {"query": "insert"}, "runs", []),
    ("get_order", {"order_id": "1"}, "reads", []),
    ("check_order_status", {"order_id": "1"}, "reads", []),
    ("open_file", {"path": "x"}, "reads", []),
    ("closeIssue", {"id": 3}, "changes", [("3", "closeIssue")]),
    ("list_updates", {}, "reads", []),
    ("get_address", {}, "reads", []),
    ("getUserInfo", {}, "reads", []),
    ("read_email", {"id": 1}, "reads", []),
    ("search_orders", {}, "reads", []),
    ("order_status", {"order_id": "1"}, "reads", []),
    ("reply_email", {"message_id": "m1"}, "changes", [("m1", "reply_email")]),
    ("set_reminder", {"title": "x"}, "changes", [("x", "set_reminder")]),
    ("context_reload", {"uuid": "m1"}, "reads", []),
    ("context_append", {"x": 1}, "reads", []),
    ("delete_rows", {"table": "t", "row_ids": [1, 2]}, "changes", [("1", "delete_rows (2)")]),
    ("post_message", {"channel": "c", "text": "t"}, "changes", [("c", "post_message")]),
    ("slack_post_message", {"channel_id": "C1", "text": "t"}, "changes", [("C1", "slack_post_message")]),
    ("", {}, None, []),
    ("添加", {}, None, []),
    ("update", {"id": ""}, "changes", [("update", "done")]),
    ("ls", {"path": 5}, "reads", []),
    ("edit", {"path": ["a", "b"]}, "changes", [("a", "edited"), ("b", "edited")]),
    ("rename_file", {"path": "a", "new_path": "b"}, "changes", [("a", "renamed to b")]),
    ("copy_file", {"path": "a", "destination": "b"}, "changes", [("a", "copied to b")]),
    ("toggle_roaming", {}, "changes", [("toggle_roaming", "done")]),
    ("enable_roaming", {"customer_id": "C1", "line_id": "L1"}, "changes", [("L1", "enable_roaming (C1)")]),
    ("refuel_data", {"customer_id": "C1", "line_id": "L1", "gb_amount": 2}, "changes", [("L1", "refuel_data (C1)")]),
    ("view_file", {"AbsolutePath": "/x"}, "reads", []),
    ("replace_in_file", {"path": "x", "diff": "d"}, "changes", [("x", "edited")]),
    ("write_to_file", {"path": "x", "content": "c"}, "changes", [("x", "written")]),
    ("execute_command", {"command": "rm x"}, "runs", [("x", "deleted")]),
    ("list_files", {"path": "."}, "reads", []),
    ("attempt_completion", {"result": "x"}, None, []),
    ("ask_followup_question", {"question": "q"}, "reads", []),
    ("str_replace", {"path": "x"}, "changes", [("x", "edited")]),
    ("insert_line", {"path": "x"}, "changes", [("x", "edited")]),
    ("append_to_file", {"path": "x"}, "changes", [("x", "appended to")]),
    ("delete_file", {"path": "x"}, "changes", [("x", "deleted")]),
    ("undo_edit", {"path": "x"}, "changes", [("x", "edit undone")]),
    ("create_file", {"filePath": "/x"}, "changes", [("/x", "created")]),
    ("run_in_terminal", {"command": "rm x"}, "runs", [("x", "deleted")]),
    ("edit_notebook_file", {"filePath": "n"}, "changes", [("n", "edited")]),
    (
        "multi_replace_string_in_file",
        {"replacements": [{"filePath": "a"}, {"filePath": "b"}]},
        "changes",
        [("a", "edited"), ("b", "edited")],
    ),
    ("replace_string_in_file", {"filePath": "a", "oldString": "x"}, "changes", [("a", "edited")]),
    ("search_replace", {"file_path": "a"}, "changes", [("a", "edited")]),
    ("run_terminal_cmd", {"command": "rm x", "is_background": False}, "runs", [("x", "deleted")]),
    ("codebase_search", {"query": "q"}, "reads", []),
    ("grep_search", {"query": "q"}, "reads", []),
    ("edit_file", {"target_file": "a", "code_edit": "x"}, "changes", [("a", "edited")]),
]


@pytest.mark.parametrize(
    ("tool", "arguments", "effect", "expected"), CALLS, ids=[f"{i}-{c[0]}" for i, c in enumerate(CALLS)]
)
def test_what_a_call_does(
    tool: str, arguments: dict[str, Any], effect: Effect | None, expected: list[tuple[str, str]]
) -> None:
    assert effect_of(tool, arguments) == effect
    assert [tuple(change) for change in changes_of(tool, arguments, effect)] == expected


@pytest.mark.parametrize(
    ("table", "tool", "expected"),
    [
        ({"deploy": "changes"}, "deploy", "changes"),
        ({"deploy": "reads"}, "deploy", "reads"),
        ({"ship": "changes"}, "ship_parcel", "changes"),
        ({"ship": "changes"}, "shipParcel", "changes"),
        ({"ship_parcel": "reads", "ship": "changes"}, "ship_parcel", "reads"),
        ({"ship": "changes"}, "relationship", None),
        ({"get": "changes"}, "get_order", "changes"),
        ({}, "frobnicate", None),
    ],
)
def test_the_users_table_goes_first(table: dict[str, Effect], tool: str, expected: Effect | None) -> None:
    assert effect_of(tool, {}, table) == expected


def test_the_users_table_reaches_the_notes() -> None:
    work = [user("Ship it."), calls("", use("a", "ship_parcel", parcel_id="P77")), tool_result("a", "gone")]
    assert CHANGED not in WorkLedger.of(work).render(2_000, len)
    assert "P77: ship_parcel" in WorkLedger.of(work, effects={"ship": "changes"}).render(2_000, len)
    memory = AutoContextMemory(AutoContextConfig.for_window(2_000, tool_effects={"ship": "changes"}))
    memory.add_messages(work)
    for i in range(30):
        memory.add_messages(
            [calls("", use(f"r{i}", "read_file", path=f"{i}.txt")), tool_result(f"r{i}", f"line {i}\n" * 80)]
        )
        memory.get_messages()
    assert any("P77: ship_parcel" in m.text for m in memory.messages)


def test_every_verb_has_an_effect_that_there_is() -> None:
    assert set(VERBS.values()) <= set(get_args(Effect))
    assert all(verb_of(verb) == verb for verb in VERBS)


def test_the_script_of_a_shell_is_its_command() -> None:
    assert command_line({"command": ["bash", "-lc", "rm 'a b'"]}) == "rm 'a b'"
    assert command_line({"cmd": ["rm", "a b"]}) == "rm 'a b'"
    assert command_line({"command": "view", "path": "a"}) == ""
    assert command_line({"command": 3}) == ""


@given(st.text(max_size=30), json_objects())
def test_any_call_is_read_without_an_exception(tool: str, arguments: dict[str, Any]) -> None:
    effect = effect_of(tool, arguments)
    assert effect in (*get_args(Effect), None)
    for thing, done in changes_of(tool, arguments, effect):
        assert isinstance(thing, str)
        assert isinstance(done, str)
        assert effect in ("changes", "runs")
    assert "\n" not in path_of(arguments)


def test_the_file_that_swe_agents_edit_changes_is_the_one_its_result_calls_open() -> None:
    prompt = "\n(Open file: /repo/pool/a.py)\n(Current directory: /repo)\nbash-$"
    refusal = "Your proposed edit has introduced new syntax error(s).\n\n- E999 SyntaxError: unmatched ')'\n\n1:x\n2:y"
    history = [
        calls("", use("1", "bash", command="create pool/a.py")),
        tool_result("1", "[File: /repo/pool/a.py (1 lines total)]\n1:" + prompt),
        calls("", use("2", "bash", command="edit 1:1\nx = (1\nend_of_edit")),
        tool_result("2", refusal + prompt),
        calls("", use("3", "bash", command="edit 1:2\nx = 1\nend_of_edit")),
        tool_result("3", "[File: /repo/pool/a.py (1 lines total)]\n1:x = 1\nFile updated." + prompt),
        calls("", use("4", "bash", command="edit 3:3\ny\nend_of_edit")),
        tool_result("4", "ok"),
    ]
    ledger = WorkLedger.of(history)
    assert ledger == WorkLedger.of(history[:5]) + WorkLedger.of(history[5:])
    text = ledger.render(4_000, len)
    assert "m5 /repo/pool/a.py: created, edited" in text
    assert "edit 1:1 (+2 lines) -> failed: - E999 SyntaxError: unmatched ')'" in text
    assert "(the open file): edited" in text
