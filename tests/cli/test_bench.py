"""`autocontext bench`: benchmarks of a clone, the ranker on data of one's own, and what is said about what is none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autocontext.cli import bench
from autocontext.cli.screen import Screen
from tests.cli.terminal import ROOT, chat, run, write

FACTS = [{"id": f"f{i}", "content": text} for i, text in enumerate(["Likes tea", "Drives a Volvo", *["Knows it"] * 20])]
GOOD = {
    "id": "ann",
    "facts": FACTS,
    "queries": [
        {"text": "tea?", "evidence": ["f0"], "category": "drinks"},
        {"text": "Which Volvo does she drive?", "evidence": ["f1", "f21"], "category": 2},
        {"text": "nothing", "evidence": ["unknown"], "category": "drinks"},
    ],
}
TOTAL = ["all", "2", "0.750", "0.750", "0.750"]
"""The row of all categories, for GOOD alone."""
DATA = Path(__file__).parents[1] / "data"


@pytest.mark.slow
def test_a_row_for_each_category_and_one_for_all(tmp_path: Path) -> None:
    done = run("bench", "facts", write(tmp_path / "facts.jsonl", [GOOD, b"", GOOD]))
    assert (done.code, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[0] == ["category", "n", "recall@5", "recall@10", "recall@15"]
    assert rows[1] == ["2", "2", "0.500", "0.500", "0.500"]
    assert rows[2] == ["drinks", "2", "1.000", "1.000", "1.000"]
    assert rows[4] == ["all", "4", "0.750", "0.750", "0.750"]
    assert "2 queries skipped: none of their evidence is among the facts." in done.out


@pytest.mark.slow
def test_standard_input() -> None:
    done = run("bench", "facts", "-", stdin=json.dumps(GOOD).encode())
    assert done.code == 0
    assert TOTAL in [line.split() for line in done.out.splitlines()]


@pytest.mark.slow
def test_lines_that_cannot_be_read_are_named_and_the_rest_is_measured(tmp_path: Path) -> None:
    bad = [b"{", b"\xff", [], {"facts": 3}, {"facts": [{"id": 1}], "queries": []}, {"facts": [], "queries": [{}]}]
    bad.append(b"1" * 5_000)  # no text of JSON that Python reads
    file = write(tmp_path / "facts.jsonl", [*bad, GOOD])
    done = run("bench", "facts", file)
    assert done.code == 1
    assert [line.split(":")[1] for line in done.err.splitlines()] == [str(n) for n in range(1, 8)]
    problems = (
        "not JSON",
        "not UTF-8",
        "not an object",
        "`facts` must be a list",
        "facts[0] needs",
        "queries[0] needs",
    )
    for problem in (*problems, "not readable as JSON"):
        assert problem in done.err
    assert TOTAL in [line.split() for line in done.out.splitlines()]


@pytest.mark.slow
def test_nothing_to_measure_is_told(tmp_path: Path) -> None:
    done = run("bench", "facts", write(tmp_path / "none.jsonl", [{"facts": [], "queries": []}]))
    assert (done.code, "no query has evidence" in done.err) == (2, True)
    assert run("bench", "facts", str(tmp_path / "missing")).code == 2
    assert run("bench", "facts", "one", "two").code == 2
    for order in (("one", "--json"), ("--json", "one")):
        assert "leave out --json" in run("bench", "facts", *order).err


@pytest.mark.slow
def test_benchmarks_are_named_with_what_they_measure() -> None:
    done = run("bench", COLUMNS="200")
    assert (done.code, done.err) == (0, "")
    named = {line.split()[0] for line in done.out.splitlines()[1:-1] if line.strip()}
    assert named == set(bench.list_benchmarks(ROOT))
    assert {"recall", "handover", "cost", "turn", "overhead", "latency", "blocking", "storage", "pruning"} < named
    assert {"cache", "optimiser", "facts", "injection"} < named


@pytest.mark.slow
def test_a_benchmark_is_run_on_files_of_ones_own(tmp_path: Path) -> None:
    talk = {"id": "mine", "messages": chat(rounds=12)}
    file = write(tmp_path / "chats.jsonl", [talk])
    done = run("bench", "cost", file, "--json", AUTOCONTEXT_BENCH_PEERS="no")
    assert done.code == 0
    rows = {row["policy"]: row for row in json.loads(done.out)["rows"]}
    assert rows["autocontext"]["retrievable"] == 100
    assert not [name for name in rows if name.startswith("langchain")]


@pytest.mark.slow
def test_what_cannot_be_run_is_told() -> None:
    unknown = run("bench", "nope")
    assert (unknown.code, "choose one of recall, handover, cost" in unknown.err) == (2, True)
    surplus = run("bench", "turn", "file")
    assert (surplus.code, "unrecognized arguments: file" in surplus.err) == (2, True)


def test_without_a_clone_it_says_where_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = bench.list_benchmarks(tmp_path)
    assert known == {}
    bench.show(Screen(width=200, unicode=True), known)
    assert "the project's repository" in capsys.readouterr().out


@pytest.mark.slow
def test_without_a_clone_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "autocontext").symlink_to(ROOT / "autocontext")
    elsewhere = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    for words, named in (("facts", "FILE is missing"), ("facts --json", "FILE is missing"), ("recall", "NAME")):
        done = run("bench", *words.split(), prelude=elsewhere)
        assert (done.code, done.err.startswith(f"autocontext bench: {named}: The benchmarks are not")) == (2, True)


@pytest.mark.slow
def test_the_default_ranker_on_the_labelled_sets_of_this_project() -> None:
    """Not a proof of quality, only that nothing has been broken: the figures are in docs/injection.md."""
    for name, least in (("facts.jsonl", 0.73), ("dialogues.jsonl", 0.68)):
        done = run("bench", "facts", str(DATA / name))
        recall_at_10 = float(done.out.splitlines()[-1].split()[3])
        assert recall_at_10 >= least


@pytest.mark.slow
def test_a_policy_of_ones_own_is_measured_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from policies import Truncate\nPOLICIES = {'mine': 'Mine'}\n\n\nclass Mine(Truncate):\n    pass\n"
    )
    command = [
        sys.executable,
        "-m",
        "autocontext",
        "bench",
        "cost",
        "--policy",
        "mine.py",
        "--windows",
        "8000",
        "--json",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert {row["policy"] for row in json.loads(done.stdout)["rows"]} == {"everything", "mine"}


@pytest.mark.slow
def test_options_that_a_benchmark_does_not_take_are_named() -> None:
    done = run("bench", "cache", "--windows", "8000")
    assert (done.code, "unrecognized arguments: --windows 8000" in done.err) == (2, True)
    assert done.err.strip().endswith("cache does not take this; `autocontext bench cache --help` says what it takes")


@pytest.mark.slow
def test_a_benchmark_says_what_it_takes() -> None:
    done = run("bench", "cost", "--help")
    assert done.code == 0
    assert {"--policy", "--windows", "--json", "--markdown"} <= set(done.out.replace("[", " ").split())
    done = run("bench", "facts", "--help", AUTOCONTEXT_BENCH_PEERS="no")
    assert "`autocontext bench facts FILE` ranks your own data" in " ".join(done.out.split())
