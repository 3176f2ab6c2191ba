"""Peers: found where they are, left out where they are not, never needed."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import peers
import pytest
from chat import Tokens
from peer_notes import Notes
from policies import PEERS, POLICIES, make
from replays import _chosen, options, rows_beside_peers

pytestmark = pytest.mark.repo

PROGRAM = "import peers; print(repr(peers.python_with({!r})))"


def test_this_interpreter_needs_none():
    assert not peers.here("frameworks")
    assert not peers.here("agentscope1")


def test_distributions_are_named_without_versions():
    assert peers.packages("agentscope1") == ["agentscope"]
    assert peers.packages("diskcache") == ["diskcache"]


@pytest.mark.parametrize(
    ("requirements", "complete"),
    [(("pydantic>=2,<3",), True), (("pydantic>=2", "pydantic>=99"), False), (("no-such-library",), False)],
)
def test_an_environment_with_an_older_version_is_not_used(monkeypatch, requirements, complete):
    monkeypatch.setitem(peers.ENVIRONMENTS, "one", requirements)
    assert peers._complete(Path(sys.executable), "one") is complete


@pytest.mark.parametrize("environment", peers.ENVIRONMENTS)
def test_they_can_be_refused(environment):
    there = {**os.environ, "AUTOCONTEXT_BENCH_PEERS": "no"}
    command = [sys.executable, "-c", PROGRAM.format(environment)]
    folder = peers.ROOT / "benchmarks"
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=there, cwd=folder)
    assert done.stdout.strip() == "''"


def test_a_peer_that_is_not_there_says_so():
    with pytest.raises(ImportError):
        make("langchain ClearToolUsesEdit", 4_000, Tokens())
    assert not set(PEERS) & set(POLICIES)


def test_notes_are_short_and_always_the_same():
    texts = [f"The file /src/module_{n}.py fails in line {n}." for n in range(400)]
    count = Tokens()
    one, other = Notes(4_000, count), Notes(4_000, count)
    assert one.of(texts) == other.of(texts)
    assert 0 < count.text(one.of(texts)) <= 400
    assert one.read == 2 * count.text("\n\n".join(texts))


def test_rows_come_in_the_order_they_were_asked_for():
    asked = options("x", ["lines", "truncate"], [2_000, 1_000], [])

    def measured(_, names, windows):
        return [{"policy": name, "window": window} for name in reversed(names) for window in sorted(windows)]

    found = rows_beside_peers("x", measured, asked)
    assert [(row["window"], row["policy"]) for row in found] == [
        (2_000, "lines"), (2_000, "truncate"), (1_000, "lines"), (1_000, "truncate"),
    ]  # fmt: skip


def test_only_the_policies_that_are_asked_for_are_measured(monkeypatch, tmp_path):
    assert _chosen(["strands auto, tuned"]) == ["--policy", "strands auto, tuned"]
    mine = PEERS["strands auto"]._replace(file=tmp_path / "mine.py")
    monkeypatch.setitem(PEERS, "mine", mine)
    assert _chosen(["mine"]) == ["--policy", str(mine.file)]


ASKED = "import peers; print(peers._may_install('diskcache'))"


@pytest.mark.parametrize(("variable", "answer"), [("yes", "True"), ("ask", "False")])
def test_without_a_terminal_a_variable_decides_about_installs(variable, answer):
    done = subprocess.run(
        [sys.executable, "-c", ASKED], cwd=peers.ROOT / "benchmarks", input="y\n", capture_output=True, text=True,
        env={**os.environ, "AUTOCONTEXT_BENCH_PEERS": variable}, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == answer
    assert ("AUTOCONTEXT_BENCH_PEERS=yes installs diskcache into .venv-bench/diskcache" in done.stderr) == (
        variable == "ask"
    )


@pytest.mark.parametrize(("typed", "answer"), [(b"y\n", "True"), (b"all\n", "True"), (b"\n", "False")])
def test_on_a_terminal_installs_are_asked_for(typed, answer):
    here, there = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "AUTOCONTEXT_BENCH_PEERS"}
    process = subprocess.Popen(
        [sys.executable, "-c", ASKED], cwd=peers.ROOT / "benchmarks", stdin=there, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    os.write(here, typed)
    out, err = process.communicate(timeout=60)
    os.close(here)
    os.close(there)
    assert (out.decode().strip(), b"[y/N/all]" in err) == (answer, True)


MINE = """
from chat import truncate

POLICIES = {"newest only": "Newest"}


class Newest:
    def __init__(self, window, count):
        self.window, self.count, self.messages = window, count, []

    def step(self, new):
        self.messages += new
        return truncate(self.messages, self.window, self.count)
"""


def test_a_policy_in_a_file_is_measured_beside_the_others(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    command = [sys.executable, "benchmarks/cost.py", "--json", "--policy", str(file), "--policy", "truncate"]
    done = subprocess.run([*command, "--windows", "8000"], capture_output=True, text=True, check=True, cwd=peers.ROOT)
    bills = {row["policy"]: row["cost"] for row in json.loads(done.stdout)["rows"]}
    assert list(bills) == ["everything", "newest only", "truncate"]
    assert bills["newest only"] == bills["truncate"] < 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tuncate", "no policy 'tuncate'; did you mean 'truncate'?"),
        ("{}/none.py", "No such file or directory"),
        ("{}/empty.py", 'empty.py: has no POLICIES = {"name": "Class"}'),
        ("{}/broken.py", "invalid syntax"),
    ],
)
def test_a_wrong_policy_is_named(tmp_path, capsys, text, problem):
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.py").write_text("def")
    with pytest.raises(SystemExit):
        options("cost", (), (), ["--policy", text.format(tmp_path)])
    assert problem in capsys.readouterr().err


def test_each_library_has_an_environment_of_its_own():
    assert len({plug_in.environment for plug_in in PEERS.values()} - {""}) == len(
        {plug_in.file for plug_in in PEERS.values()}
    )
