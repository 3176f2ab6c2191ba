"""The figures that README.md and the documentation claim are those of the tables in benchmarks/results."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.repo

ROOT = Path(__file__).parents[1]
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
}


def page(clone: Path, option: str) -> str:
    """What `benchmarks/page.py` has to say about a clone; "" when all is well."""
    command = [sys.executable, str(clone / "benchmarks" / "page.py"), option]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == bool(done.stderr)
    return done.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what is compared, in which all figures are right."""
    for folder in ("docs", "benchmarks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "README.md", tmp_path)
    page(tmp_path, "--summary")
    return tmp_path


def test_every_figure_that_is_claimed_stands_in_a_table() -> None:
    assert page(ROOT, "--check") == "", "run benchmarks/page.py --summary"


@pytest.mark.parametrize("name", ["docs/limits.md", "docs/scaling.md"])
def test_a_figure_that_no_table_backs_is_found_and_corrected(clone: Path, name: str) -> None:
    text = (clone / name).read_text()
    wrong = re.sub(r"(\d[\d.,]*)( ?[^\d\s]*<!-- measured: )", r"9\1\2", text, count=1)
    assert wrong != text
    (clone / name).write_text(wrong)
    assert f"{name} says" in page(clone, "--check")
    assert page(clone, "--summary") == ""
    assert (clone / name).read_text() == text


def test_a_summary_that_differs_from_the_tables_is_found_and_corrected(clone: Path) -> None:
    brief = clone / "docs" / "benchmarks.md"
    old = brief.read_text()
    brief.write_text(old.replace(", in context, window 16,000 | ", ", in context, window 16,000 | 1"))
    assert "docs/benchmarks.md says" in page(clone, "--check")
    assert page(clone, "--summary") == ""
    assert brief.read_text() == old


def test_a_figure_without_a_table_is_named(clone: Path) -> None:
    with (clone / "docs" / "limits.md").open("a") as limits:
        limits.write("\nIt shows 91 % of all values.\n")
    assert page(clone, "--check") == "docs/limits.md: no table backs '91 %'\n"


@pytest.mark.parametrize("document", sorted(p.name for p in (ROOT / "docs").glob("*.md")))
def test_the_tests_that_a_page_names_exist(document: str) -> None:
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    assert [path for path in re.findall(r"`(tests/[\w./]+)(?:::\w+)?`", text) if not (ROOT / path).exists()] == []
    assert {*re.findall(r"`(?:tests/[\w./]+::)?(test_\w+)`", text)} - TESTS == set()
