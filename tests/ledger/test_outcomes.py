"""Whether a call failed, read from what its result says."""
# ruff: noqa: E501 (the tables)

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import autocontext.text.failures
from autocontext.ledger.effects import Effect
from autocontext.ledger.outcomes import outcome_of
from tests.conversations import texts

CODE = Path(autocontext.text.failures.__file__).read_text(encoding="utf-8")
"""A source file that is full of words about errors."""
FAILED: list[tuple[str, Effect | None]] = [
    ("<returncode>1</returncode>\n<output>\nx\n</output>", "runs"),
    ("boom\n[Command finished with exit code 1]", "runs"),
    ("[The command completed with exit code 2.]", "runs"),
    ("Exit code: 127\nOutput:\nzsh: command not found: foo", "runs"),
    ("Process exited with code 1", "runs"),
    ("process exited with status 3", "runs"),
    ("exit status 2", "runs"),
    ("Command exited with code 1", "runs"),
    ('{"output":"x","metadata":{"exit_code":1,"duration_seconds":0.1}}', "runs"),
    ('{"error": "not found"}', "reads"),
    ('{"status":"error","message":"x"}', "reads"),
    ('{"isError": true}', "reads"),
    ('{"success": false, "message":"no"}', None),
    ("Error: user not found", "reads"),
    ("Error executing tool: bad", "reads"),
    ('Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: x', "runs"),
    ('some output\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: x', "runs"),
    ("bash: foo: command not found", "runs"),
    ("/bin/sh: 1: foo: not found", "runs"),
    ("ls: cannot access 'x': No such file or directory", "runs"),
    ("cat: x: Permission denied", "runs"),
    ("====== 1 failed, 3 passed in 0.12s ======", "runs"),
    ("FAILED tests/test_a.py::test_x - AssertionError: 3 != 4\n=== 1 failed in 0.1s ===", "runs"),
    ("E   ModuleNotFoundError: No module named 'x'\n=== 1 error in 0.1s ===", "runs"),
    (
        "src/a.rs:3:5\nerror[E0425]: cannot find value `x` in this scope\n\nerror: could not compile `a` due to previous error",
        "runs",
    ),
    ("a.c:3:5: error: expected ';' before 'return'\nmake: *** [a.o] Error 1", "runs"),
    ("src/a.ts(3,5): error TS2322: Type 'x' is not assignable\nFound 1 error.", "runs"),
    ("npm ERR! code ELIFECYCLE\nnpm ERR! errno 1", "runs"),
    ("fatal: not a git repository (or any of the parent directories): .git", "runs"),
    ("error: pathspec 'x' did not match any file(s) known to git", "runs"),
    ('  File "a.py", line 3\n    x = = 1\n        ^\nSyntaxError: invalid syntax', "runs"),
    (
        "CONFLICT (content): Merge conflict in a.py\nAutomatic merge failed; fix conflicts and then commit the result.",
        "runs",
    ),
    ("No replacement was performed, old_str `x` did not appear verbatim in /a.py.", "changes"),
    ("ERROR:\nNo replacement was performed, old_str `x`", "changes"),
    ("Invalid `path` parameter: /x. The path does not exist", "changes"),
    ("The path /x does not exist. Please provide a valid path.", "reads"),
    ("String to replace not found in file.", "changes"),
    ("<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>", "changes"),
    ("File does not exist.", "reads"),
    (
        "Your proposed edit has introduced new syntax error(s). Please understand the fixes\nERRORS:\n- E999 IndentationError",
        "changes",
    ),
    (
        "Your proposed edit has introduced new syntax error(s).\n\nERRORS:\n- E999 SyntaxError\n\nThis is how it would look:\n1:a\n2:b",
        "runs",
    ),
    ("Wrong flag!\n(Open file: /a.py)\n(Current directory: /)\nbash-$", "runs"),
    ("Incorrect.", "runs"),
    ("错误：文件不存在", "reads"),
    ("エラー: ファイルが見つかりません", "reads"),
    ("执行失败：权限不足", "reads"),
    ("오류: 파일 없음", "reads"),
    ("命令执行失败，错误: 超时", "runs"),
    ("Error: 404 Not Found", "reads"),
    ("HTTP 500 Internal Server Error", "reads"),
    ("Request failed with status code 403", "reads"),
    ("command timed out after 60 seconds", "runs"),
    ("Killed", "runs"),
    ("Segmentation fault (core dumped)", "runs"),
    ("make: *** [all] Error 2", "runs"),
    ("test result: FAILED. 2 passed; 1 failed; 0 ignored", "runs"),
    ("--- FAIL: TestX (0.00s)\nFAIL\nexit status 1\nFAIL\tpkg\t0.1s", "runs"),
    ("Tests: 1 failed, 3 passed, 4 total", "runs"),
    ("2 examples, 1 failure", "runs"),
    ("Ran 3 tests in 0.1s\n\nFAILED (failures=1)", "runs"),
    ("BUILD FAILED in 3s", "runs"),
    ("[ERROR] BUILD FAILURE", "runs"),
    ("Found 3 errors.", "runs"),
    ("Found 2 errors in 1 file (checked 3 source files)", "runs"),
    ("Error: HTTP 429 Too Many Requests", "reads"),
    ("Exception: timeout", "reads"),
    ("Permission denied (publickey).", "runs"),
    ("sudo: command not found", "runs"),
    ("Error code 5", "runs"),
    ("Exit code 1\nls: x", "runs"),
    ("EXIT: 1", "runs"),
    ("returned non-zero exit status 1.", "runs"),
    ("subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1.", "runs"),
    ("exit_code=1", "runs"),
    ("[exit 1]", "runs"),
    ("rc=1", "runs"),
    ("Return code: 1", "runs"),
    ("exited 1", "runs"),
    ("Error while reading file", "reads"),
    ("Unable to find file x", "reads"),
    ("Failed to open x", "reads"),
    ("Could not find x", "reads"),
    ("Cannot read file", "reads"),
    ("Tool execution failed: x", "reads"),
    ("Unknown tool: x", "reads"),
    ("Permission denied.", "changes"),
    ("Unauthorized", "reads"),
    ("The user doesn't want to proceed with this tool use.", "changes"),
    ('{"statusCode": 404, "message": "Cannot GET /v1/customers/99"}', "reads"),
    ('{"status": 422, "title": "Unprocessable Entity", "detail": "due_date must be in the future"}', "changes"),
    ('{"code": 40301, "msg": "权限不足", "data": null}', "changes"),
    ('{"data": null, "errors": [{"message": "Could not resolve to a Repository"}]}', "reads"),
    ('{"message": "the slot is taken", "ok": false}', "changes"),
    ('HTTP/1.1 409 Conflict\nContent-Type: application/json\n\n{"message": "version mismatch"}', "changes"),
    ("POST https://api.example/v1/orders returned 500: Internal Server Error", "changes"),
    ("404 Client Error: Not Found for url: https://x.example/a", "reads"),
    ("403 Forbidden", "reads"),
    ("MCP error -32602: Invalid arguments for tool search_issues", "reads"),
    ("net::ERR_NAME_NOT_RESOLVED at https://x.example", "changes"),
    ("Tool execution timed out after 30 seconds", "reads"),
    ("Error fetching URL: Max retries exceeded", "reads"),
    ("An error occurred (AccessDenied) when calling the PutObject operation: Access Denied", "changes"),
    ("<error>Room not available</error>", "changes"),
    ("Query failed: no such column: revenu", "reads"),
    ("Action failed: element index 12 does not exist", None),
    ("apply_patch verification failed: Failed to find expected lines in a.py:\n  one\n  two\n  three", "changes"),
    ("File has been modified since read. Read it again before attempting to write it.", "changes"),
    ("Found 3 matches of the string to replace, but replace_all is false.\nString: x", "changes"),
    ("The string to replace was not found in the file.", "changes"),
    ("old_string not found in content. No edits were made.", "changes"),
    ("0 occurrences found; file unchanged", "changes"),
    ("[Request interrupted by user for tool use]", "changes"),
    ("exec command rejected by user", "runs"),
    ('{"slot": "17:30", "status": "rejected", "reason": "no technician"}', "changes"),
    ("Permission to use Bash with command rm -rf build has been denied.", "runs"),
    ("Payment declined (insufficient_funds)", "changes"),
    ("The booking could not be completed because the card was declined.", "changes"),
    ("Sorry, I can't do that: the order has already shipped.", "changes"),
    ("Rejected: policy requires manager approval", "changes"),
    ("Fehler beim Senden der E-Mail: Empfänger ungültig", "changes"),
    ("Erreur : le destinataire est introuvable", "changes"),
    ("预订失败，该时间段已被占用", "changes"),
    ("予約できませんでした。その時間は既に埋まっています。", "changes"),
    ("# example.com/app\n./main.go:12:2: undefined: foo\n./main.go:15:9: cannot use x", "runs"),
    ("panic: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n\t/tmp/x.go:8 +0x1d", "runs"),
    (
        "thread 'main' panicked at src/main.rs:4:10:\ncalled `Option::unwrap()` on a `None` value\nnote: x\nnote: y",
        "runs",
    ),
    ("/src/a.js\n  3:1  error  'x' is not defined  no-undef\n\n✖ 1 problem (1 error, 0 warnings)", "runs"),
    (
        (
            "a.js:1080\n  throw err;\n\nError: Cannot find module 'x'\nRequire stack:\n- /app/index.js\n    at load (a.js:1)\n    at b (a.js:2)\n"
            "    at c (a.js:3) {\n  code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v20.11.0"
        ),
        "runs",
    ),
    (
        "╷\n│ Error: Invalid reference\n│ \n│   on main.tf line 12:\n│   12:   ami = data.ami\n│ \n│ A reference must\n│ be\n│ longer\n╵",
        "runs",
    ),
    (
        "[ERROR] COMPILATION ERROR : \n[ERROR] /src/A.java:[3,5] cannot find symbol\n[INFO] BUILD FAILURE\n"
        + "[ERROR] x\n" * 9,
        "runs",
    ),
    ("ssh: connect to host 10.0.0.5 port 22: Connection timed out", "runs"),
    ("rm: cannot remove '/x': Operation not permitted", "runs"),
    ("curl: (7) Failed to connect to localhost port 8080: Couldn't connect to server", "runs"),
    ("The connection to the server localhost:8080 was refused - did you specify the right host or port?", "runs"),
    ("docker: Error response from daemon: pull access denied", "runs"),
    ("E: Unable to locate package foo", "runs"),
    ("patching file a.py\nHunk #1 FAILED at 10.\n1 out of 1 hunk FAILED -- saving rejects to file a.py.rej", "runs"),
    ("/usr/bin/ld: main.o: undefined reference to `foo'\ncollect2: error: ld returned 1 exit status", "runs"),
]
WENT_WELL: list[tuple[str, Effect | None]] = [
    ("<returncode>0</returncode>\n<output>\nError: x\n</output>", "runs"),
    ("ok\n[Command finished with exit code 0]", "runs"),
    ("[The command completed with exit code 0.]", "runs"),
    ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nhi", "runs"),
    ('{"output":"error","metadata":{"exit_code":0,"duration_seconds":0.1}}', "runs"),
    ('{"error": null, "data": 1}', "reads"),
    ('{"errors": []}', "reads"),
    ('{"success": true}', None),
    ("Here is a page about errors.\nError handling is hard.\nUse try.", "reads"),
    (CODE, "reads"),
    (CODE, "runs"),
    ("====== 4 passed in 0.12s ======", "runs"),
    ("grep: results\nsrc/a.py:12: raise ValueError('x')\nsrc/b.py:3: except KeyError:", "runs"),
    ("src/a.py:12:    raise ValueError: x", "runs"),
    ("a.py:3:class MyError(Exception): pass\nb.py:4:from x import NotFoundError", "runs"),
    ("The file /a.py has been edited. Here's the result:\n  1 raise ValueError('x')\n 2 Error: x", "changes"),
    ("本文介绍常见错误和异常处理。\n第一章", "reads"),
    ("0 failed, 3 passed", "runs"),
    ("Your proposed edit has introduced new syntax error(s).\n1\n2\n3\n4\n5", "reads"),
    ("test result: ok. 3 passed; 0 failed; 0 ignored", "runs"),
    ("ok  \tpkg\t0.1s", "runs"),
    ("Tests: 4 passed, 4 total", "runs"),
    ("2 examples, 0 failures", "runs"),
    ("Ran 3 tests in 0.1s\n\nOK", "runs"),
    ("[INFO] BUILD SUCCESS", "runs"),
    ("", "runs"),
    ("done", "runs"),
    ("ok", "changes"),
    ("No matches found", "reads"),
    ("0 errors, 0 warnings", "runs"),
    ("All checks passed!", "runs"),
    ("Success: no issues found in 3 source files", "runs"),
    ("commit abc\n    Fix error: handling of x\n", "runs"),
    ("abc123 Fix TypeError: foo in bar\ndef456 x", "runs"),
    ("def main():\n    return exit_code = 3\n", "reads"),
    ("HTTP/1.1 200 OK\ncode: 5\n", "reads"),
    ('{"order_id":"1","status":"delivered","note":"error in address"}', "reads"),
    ('{"country_code": 49}', "reads"),
    ("zip code: 12345", "reads"),
    ("area code 212", "reads"),
    ("Your verification code: 4711", "reads"),
    ("promo code: 20", "changes"),
    ("status code: 200", "reads"),
    ("Response code: 200", "reads"),
    ("exit code: 0", "runs"),
    ("rc=0", "runs"),
    ("Cannot wait to see it", "reads"),
    ("# Errors\n\nexit code 2 is returned when x fails\nmore\nmore\nmore\nmore\nmore\nmore\n", "reads"),
    ("README\nThe program exits with exit status 3 when the input is bad.\n", "runs"),
    ('{"code": 4711, "title": "Desk lamp", "description": "Not found in shops"}', "reads"),
    ('{"code": 200, "message": "ok"}', "reads"),
    ('{"status": 503, "message": "was answered once", "data": {"retries": 1}}', "reads"),
    ('{"errors": [{"line": 3}], "data": {"checked": 40}}', "reads"),
    ("Message sent to #ops: 'Deploy failed, could not roll back'", "changes"),
    ('Ticket created: BUG-12 "Error: cannot log in"', "changes"),
    ("Link 'Cannot find your order?' now shown", "changes"),
    ("Updated 3 rows, 1 not found", "changes"),
    ('{"application": "A7", "status": "rejected", "reason": "late"}', "reads"),
    ("Page navigated to https://shop.example/cart\n- text: Invalid coupon", "changes"),
    ("Error handling in Rust\n\nTwo kinds of errors", "reads"),
    ("Title: Could not connect to server: how to mend it\nURL: https://x.example", "reads"),
    ("Subject: Delivery failed\nFrom: daemon@x.example", "reads"),
    ("NAME   READY   STATUS\napi-1  0/1     CrashLoopBackOff\napi-2  0/1     Error", "runs"),
    ("2026-01-01T00:00:00Z ERROR db connection lost\n2026-01-01T00:00:02Z INFO ready\n", "runs"),
    ("Plan: 2 to add, 1 to change, 0 to destroy.", "runs"),
]


@pytest.mark.parametrize(("text", "effect"), FAILED, ids=[f"{i}" for i in range(len(FAILED))])
def test_failures(text: str, effect: Effect | None) -> None:
    assert outcome_of(text, is_error=False, effect=effect).failed


@pytest.mark.parametrize(("text", "effect"), WENT_WELL, ids=[f"{i}" for i in range(len(WENT_WELL))])
def test_what_is_no_failure(text: str, effect: Effect | None) -> None:
    assert not outcome_of(text, is_error=False, effect=effect).failed


@pytest.mark.parametrize("text", ["", "all is well", CODE, "<returncode>0</returncode>"])
def test_what_the_service_calls_an_error_is_one(text: str) -> None:
    assert outcome_of(text, is_error=True, effect=None).failed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "starting\nTraceback (most recent call last):\n  File 'a.py'\nValueError: three is not four",
            "ValueError: three is not four",
        ),
        ("x\nE   AssertionError: 3 != 4\nmore", "E   AssertionError: 3 != 4"),
        ("one\nbash: foo: command not found", "bash: foo: command not found"),
        ("错误：文件不存在", "错误：文件不存在"),
        ("boom\n<returncode>3</returncode>", "exit code 3"),
    ],
)
def test_a_failure_keeps_its_own_words(text: str, words: str) -> None:
    found = outcome_of(text, is_error=True, effect="runs")
    assert found.error == words


def test_a_pipe_that_hides_a_failed_run_still_shows_it() -> None:
    found = outcome_of(
        "..F\n=== 1 failed, 2 passed in 0.1s ===\n<returncode>0</returncode>", is_error=False, effect="runs"
    )
    assert not found.failed
    assert "1 failed" in found.error


@pytest.mark.parametrize("filler", ["a fine line of output\n", "数据一切正常。\n"])
def test_an_error_at_either_end_of_a_long_result_is_found(filler: str) -> None:
    error = "ValueError: the pool is closed"
    for text in (
        f"{filler * 5_000}{error}",
        f"{filler * 5_000}Traceback (most recent call last):\n  File 'a.py'\n{error}\n",
    ):
        found = outcome_of(text, is_error=False, effect="runs")
        assert found.failed
        assert found.error == error


def test_error_lines_are_whole_or_marked() -> None:
    line = "Error: " + " ".join(f"word{i}" for i in range(400))
    found = outcome_of(f"{line}\n", is_error=True, effect="runs")
    assert found.error.endswith("…")
    assert line.startswith(found.error.removesuffix("…"))
    assert set(found.error.removesuffix("…").split()) <= set(line.split())
    long = "\n".join(f"{i}: could not find no such thing as the one that was wanted here" for i in range(400))
    assert outcome_of(long, is_error=True, effect="runs").error in long.splitlines()


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n", 1), ("a\n\nb\n", 3)])
def test_lines_are_counted(text: str, lines: int) -> None:
    assert outcome_of(text, is_error=False, effect=None).lines == lines


@given(texts(), st.booleans(), st.sampled_from((*get_args(Effect), None)))
def test_any_result_has_an_outcome(text: str, is_error: bool, effect: Effect | None) -> None:
    found = outcome_of(text, is_error=is_error, effect=effect)
    assert found.failed >= is_error
    assert "\n" not in found.error
    assert len(found.error) <= 400


def test_a_failure_names_its_cause_beside_its_last_words() -> None:
    make = outcome_of(
        "/bin/sh: 1: cd: can't cd to /build\nmake: *** [Makefile:192: build] Error 2", is_error=False, effect="runs"
    )
    assert (make.error, make.cause) == (
        "make: *** [Makefile:192: build] Error 2",
        "/bin/sh: 1: cd: can't cd to /build",
    )
    model = outcome_of(
        "Traceback (most recent call last):\nError with X: 1 validation error\n  See https://errors.example",
        is_error=True,
        effect="runs",
    )
    assert (model.error, model.cause) == ("See https://errors.example", "Error with X: 1 validation error")
