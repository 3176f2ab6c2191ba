"""What a call is about, what it changed and whether it failed, by example."""

import pytest
from calls import Call, Calls, written_by

from tests.benchmarks.talk import answer, call, result, user

pytestmark = pytest.mark.repo


def made(name="read_file", answered="done", /, **arguments):
    return Calls([call(name, **arguments), result(answered)]).all[0]


@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        ({"note": "x", "path": "/src/a.py"}, "/src/a.py"),
        ({"command": "\n cd  /src\nls"}, "cd /src"),
        ({"order_id": 4711, "note": "x"}, "4711"),
        ({"cmd": "make", "query": "tea"}, "tea"),  # queries tell more than commands
        ({"path": " ", "depth": [1], "text": "the first\nof two"}, "the first"),
        ({"depth": [1]}, "read_file"),
        ({}, "read_file"),
    ],
)
def test_the_label_is_the_telling_argument(arguments, label):
    assert made(**arguments).label == label


@pytest.mark.parametrize(("raw", "label"), [('{"path": ', '{"path":'), ("[1, 2]", "f"), ('"text"', "text"), ("", "f")])
def test_arguments_that_are_no_object_have_a_label(raw, label):
    found = Call.of({"id": "1", "function": {"name": "f", "arguments": raw}})
    assert found.label == label
    assert found.changed() == []


@pytest.mark.parametrize(
    ("label", "text", "named"),
    [
        ("/src/deep/module.py", "in module.py", True),
        ("/src/deep/module.py", "in /src/deep", False),
        (
            "pytest -q tests/test_io.py --maxfail 1",
            "ran pytest -q tests/test_io. and",
            True,
        ),  # 24 characters are enough
        ("pytest -q tests/test_io.py --maxfail 1", "ran test_io.py", False),  # a command is no path
        ("ls", "ls", False),
    ],
)
def test_a_text_names_a_call(label, text, named):
    assert made(query=label).named_in(text) is named


@pytest.mark.parametrize(
    ("name", "arguments", "changed"),
    [
        ("edit_file", {"path": "/src/a.py"}, ["/src/a.py"]),
        ("read_file", {"path": "/src/a.py"}, []),
        ("editor", {"command": "view", "path": "/src/a.py"}, []),
        ("file_tool", {"command": "str_replace", "path": "/src/a.py"}, ["/src/a.py"]),
        ("cancel_order", {"reason": "late", "order_id": "#W12"}, ["#W12"]),
        ("get_order", {"order_id": "#W12"}, []),
        ("bash", {"command": "echo x > out.txt"}, ["out.txt"]),
        ("send_mail", {"to": "ann"}, []),
    ],
)
def test_what_a_call_changed(name, arguments, changed):
    assert made(name, **arguments).changed() == changed
    assert made(name, "Error: no", **arguments).changed() == []
    assert Calls([call(name, **arguments)]).all[0].changed() == []


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("ls -l a.txt 2>/dev/null | grep x 2>&1", []),
        ("echo x >> log.txt && cat a.txt", ["log.txt"]),
        ("sed -i 's/a/b/' src/a.py", ["src/a.py"]),
        ("sed -n -i.bak \"s/a/b/\" 'x' ", []),
        ("rm -rf build; mkdir -p out/deep\ntouch new.txt", ["build", "out/deep", "new.txt"]),
        ("mv old.py new.py; cp -r a bbb", ["new.py", "bbb"]),
        ("date | tee -a run.log", ["run.log"]),
        ("cat > made.py << 'EOF'\nrm gone.py\nx > y.txt\nEOF\necho done > last.txt", ["made.py", "last.txt"]),
        ("echo $((3 > 123))", []),
    ],
)
def test_what_a_command_writes(command, files):
    assert written_by(command) == files


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("Traceback (most recent call last):\n...", True),
        ("fine\n  ValueError: no", True),
        ("bash: foo: command not found", True),
        ("x\nError: it broke", True),
        ("no errors", False),
        ("exit code: 1", True),
        ("Error in the log\n<returncode>0</returncode>", False),  # the exit code knows better
        ("Process finished with exit code -9", True),
        ("The file a.py has been edited:\nraise ValueError: no", False),
        ("a" * 4_000 + "\n" + "b\n" * 1_500 + "FAILED\n" + "c\n" * 1_500, False),  # only head and tail are read
    ],
)
def test_a_result_tells_of_a_failure(text, failed):
    assert made("bash", text, command="x").failed() is failed


def test_the_error_line_is_the_last_one():
    found = made("bash", "Error: one\nKeyError: 'two'  \nbye", command="x")
    assert found.error_line() == "KeyError: 'two'"
    assert made("bash", "bye", command="x").error_line() == ""
    assert len(made("bash", "Error " + "x" * 900, command="x").error_line()) == 200


def test_the_latest_of_equal_calls_counts():
    messages = [
        user("go"),
        *(call("bash", "1", command="make"), result("Error: no", "1")),
        *(call("bash", "2", command="ls"), result("a", "2")),
        *(call("bash", "3", command="make"), result("ok", "3")),
        *(call("edit", "4", path="/a.py"), result("ok", "4")),
        *(call("edit", "5", path="/b.py"), result("ok", "5")),
        *(call("edit", "6", path="/a.py"), result("ok", "6")),
        call("bash", "7", command="ls"),
        answer(),
    ]
    calls = Calls(messages)
    assert [c.id for c in calls] == list("1234567")
    assert [c.id for c in calls.latest()] == list("2356")  # 7 has no result yet
    assert {t: [c.id for c in by] for t, by in calls.changes().items()} == {"/b.py": ["5"], "/a.py": ["4", "6"]}
    assert [c.id for c in calls.of(messages[2])] == [c.id for c in calls.of(messages[1])] == ["1"]
    assert calls.of(messages[0]) == calls.of(result("x", "9")) == []


def test_the_first_result_counts():
    assert Calls([call(path="/a"), result("one"), result("two"), result("three", "9")]).all[0].result == "one"
