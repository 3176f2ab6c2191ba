"""What every file of a peer keeps to; what its policies do with a conversation, where it is installed."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import peers
import pytest
from packaging.requirements import Requirement
from policies import PEERS, POLICIES, plug_ins
from summary import LIBRARIES, PLAIN

from tests.benchmarks.talk import answer, call, result, user

pytestmark = pytest.mark.repo

FILES = sorted({plug_in.file for plug_in in PEERS.values()})


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def file(request):
    return request.param


def test_its_literals_are_read_without_importing_it(file):
    found = plug_ins(file)
    assert found
    for name, plug_in in found.items():
        assert name not in POLICIES
        assert re.match(LIBRARIES, name), "summary.LIBRARIES must know it"
        assert plug_in.environment == file.stem
    assert all(Requirement(text).specifier for text in plug_in.requires)


def test_its_policies_are_classes_with_a_sentence(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert {plug_in.class_name for plug_in in plug_ins(file).values()} <= classes
    assert ast.get_docstring(tree)


def test_what_is_tuned_is_said(file):
    """Each at its defaults and at its best: what was tuned stands at the top of the file."""
    tuned = [name for name in plug_ins(file) if name.endswith(", tuned")]
    assert bool(tuned) <= ("Tuned" in ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))))


def test_a_plain_method_is_one():
    assert set(PLAIN) <= set(POLICIES)
    assert not any(re.match(LIBRARIES, name) for name in PLAIN)


@pytest.mark.parametrize(
    ("requirement", "name"),
    [("a>=1", "a"), ("a-b[x]>=1,<2", "a-b"), ("a~=1", "a"), ("a!=1", "a"), ("a; python_version>'3'", "a")],
)
def test_the_name_of_a_requirement(monkeypatch, requirement, name):
    monkeypatch.setitem(peers.ENVIRONMENTS, "one", (requirement,))
    assert peers.packages("one") == [name]


# --------------------------------------------------------------------------------------------- where it is installed
TALK = [
    {"role": "system", "content": "You mend programs."},
    user("Mend /src/pool.py, and never push."),
    *[
        message
        for n in range(12)
        for message in (
            call("read_file", f"c{n}", path=f"/src/part_{n}.py"),
            result(f"def part_{n}():\n" + f"    width = {n}00{n}\n" * 60, f"c{n}"),
        )
    ],
    answer("It is mended."),
    user("Thanks. And /src/other.py?"),
    call("read_file", "d1", path="/src/other.py"),
    result("def other():\n    return 7700\n" * 30, "d1"),
    answer("That one is fine."),
    user("Good."),
    answer("Anything else?"),
]
_PROGRAM = """
import json, sys
sys.path.insert(0, "benchmarks")
from chat import Tokens, invalid
from policies import PEERS, Reloading, make
from replays import turns
talk, file = json.loads(sys.stdin.read()), sys.argv[1]
for name in [name for name, plug_in in PEERS.items() if plug_in.file.stem == file]:
    policy, count = make(name, 2_000, Tokens()), Tokens()
    for _, new in turns(talk):
        context = policy.step(new)
    assert isinstance(context, list) and context, name
    assert {m["role"] for m in context} <= {"system", "user", "assistant", "tool"}, name
    assert context[0] == talk[0], f"{name}: the system message is gone"
    assert context[-1]["content"] == "Good.", f"{name}: the newest message is gone"
    assert not invalid(context) or file == "peer_compact_middleware", f"{name}: invalid"
    reached = [text for text in policy.reachable()] if isinstance(policy, Reloading) else []
    assert all(isinstance(text, str) for text in reached), name
    assert getattr(policy, "note_tokens", 0) >= 0, name
    print(name)
"""


@pytest.mark.slow
def test_its_policies_take_a_conversation(file):
    python = Path(peers.ROOT, ".venv-bench", file.stem, "bin", "python")
    if not python.exists():
        pytest.skip(f"{file.stem} is not installed; AUTOCONTEXT_BENCH_PEERS=yes autocontext bench handover installs it")
    done = subprocess.run(
        [python, "-c", _PROGRAM, file.stem], input=json.dumps(TALK), capture_output=True, text=True, check=False,
        cwd=peers.ROOT, timeout=120,
    )  # fmt: skip
    assert not done.returncode, done.stderr[-2000:]
    assert done.stdout.split("\n")[:-1] == list(plug_ins(file))


def test_without_peers_the_benchmark_says_what_is_left_out(tmp_path):
    """In a clone without environments, and nobody to ask."""
    talk = tmp_path / "talk.jsonl"
    talk.write_text(json.dumps({"id": "one", "messages": TALK}) + "\n")
    program = (
        "import pathlib, sys; sys.path.insert(0, 'benchmarks'); import peers\n"
        "made = peers.ROOT; peers.ROOT = pathlib.Path(sys.argv.pop(1)); import handover\n"
        "sys.exit(handover.main())"
    )
    unasked = {name: value for name, value in os.environ.items() if name != "AUTOCONTEXT_BENCH_PEERS"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), "--windows", "2000", str(talk)], capture_output=True, text=True,
        check=True, cwd=peers.ROOT, stdin=subprocess.DEVNULL, timeout=120, env=unasked,
    )  # fmt: skip
    rows = re.findall(r"^(\S+)", done.stdout, re.MULTILINE)
    assert rows[:5] == ["policy", "truncate", "casefile", "lines30", "autocontext"]
    for file in FILES:
        assert f"{file.stem}: the peers are left out" in done.stderr
