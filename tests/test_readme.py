"""The README's two commands are those that CI runs, and every page of the documentation links to what exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool
from autocontext.cli.show import before_last_reply
from autocontext.tokens import get_counter
from scripts.build_handover_page import conversation

pytestmark = pytest.mark.repo

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")]
PAGES += sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "benchmarks" / "results").glob("*.md"))


def shell_commands(page: str) -> list[str]:
    """The lines of a page's ```sh blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def ends_that_ci_looks_for() -> list[str]:
    """What .ci/run passes to its readme_command."""
    return re.findall(r"\$\(readme_command '(.+)'\)", (ROOT / ".ci" / "run").read_text())


def test_readme_shows_two_commands_each_one_line_from_a_fresh_clone() -> None:
    commands = shell_commands((ROOT / "README.md").read_text())
    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv .venv && .venv/bin/pip install ") for command in commands)


def test_ci_runs_exactly_the_commands_of_the_readme() -> None:
    commands = shell_commands((ROOT / "README.md").read_text())
    ends = ends_that_ci_looks_for()
    assert len(ends) == 2
    for end in ends:
        assert len([command for command in commands if command.endswith(end)]) == 1
    script = (ROOT / ".ci" / "run").read_text()
    assert script.count('-c "$test_command"') == script.count('-c "$demo_command"') == 1


def test_ci_runs_every_test_with_every_package() -> None:
    """All but the soak; README's command leaves out what is long, of the repository, or in need of other packages."""
    script = (ROOT / ".ci" / "run").read_text()
    assert script.count('-m pytest -q -n auto --dist worksteal -m "not soak" --hypothesis-profile=full') == 1
    assert (
        script.index('-c "$test_command"')
        < script.index("export AUTOCONTEXT_REQUIRE_ALL=1")
        < script.index('"not soak"')
    )


def test_ci_waits_for_all_that_it_runs_beside_the_tests() -> None:
    """And so fails if it fails."""
    script = (ROOT / ".ci" / "run").read_text()
    started, waited_for = (re.findall(rf"^{word} (\w+)$", script, re.MULTILINE) for word in ("beside", "finish"))
    assert sorted(started) == sorted(waited_for) == ["documents", "frameworks_and_packages"]


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.name if page.parent == ROOT else f"{page.parent.name}/{page.name}"
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_are_named_exist(page: str) -> None:
    named = re.findall(r"`([\w/.]+(?:\.\w{2,4}|/))`", (ROOT / page).read_text())
    # NAME stands for what a reader is going to add.
    files = [name for name in named if "NAME" not in name]
    assert len(files) > 15
    assert [name for name in files if not any((ROOT / at / name).exists() for at in ("", "autocontext"))] == []


def test_functions_on_the_path_of_one_message_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\d+\. .*?: (`.*?): (`.*?)$", page, re.MULTILINE)
    assert len(rows) > 15
    for files, functions in rows:
        source = "".join((ROOT / "autocontext" / name).read_text() for name in re.findall(r"`(.+?)`", files))
        names = re.findall(r"`(.+?)`", functions)
        assert [name for name in names if not re.search(rf"\b(?:def|class) {name}\b", source)] == []


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [p.name for p in (ROOT / "docs").glob("*.md") if p.name != "index.md" and f"({p.name})" not in index] == []


def test_configuration_page_is_what_the_class_says() -> None:
    check = [sys.executable, str(ROOT / "scripts" / "build_config_reference.py"), "--check"]
    assert subprocess.run(check, capture_output=True, text=True, check=False, timeout=600).stderr == ""


@pytest.fixture
def page_runner(tmp_path: Path):
    def run(text: str) -> subprocess.CompletedProcess[str]:
        page = tmp_path / "page.md"
        page.write_text(text)
        runner = [sys.executable, str(ROOT / "scripts" / "run_doc_blocks.py"), str(page)]
        return subprocess.run(runner, capture_output=True, text=True, check=False, timeout=600)

    return run


def test_block_runner_accepts_a_page_that_works(page_runner) -> None:
    run = page_runner("```python\nx = 2\nprint(x)\n```\n\n```text\n2\n```\n\n```python\nassert x == 2\n```\n")
    assert (run.returncode, "ok  page.md: 2 blocks" in run.stdout) == (0, True)


@pytest.mark.parametrize(
    "text",
    [
        "```python\nassert False\n```\n",
        "```python\nx = (\n```\n",
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\nimport warnings\nwarnings.warn('old')\n```\n",
        "```python\nraise SystemExit(3)\n```\n",
    ],
)
def test_block_runner_refuses_a_page_that_does_not(page_runner, text: str) -> None:
    run = page_runner(text)
    assert (run.returncode, "FAILED  page.md" in run.stdout) == (1, True)


AIRLINE = ("tests/data/replay_dev.jsonl", "taubench/gpt4o-airline-33-0", 4_000)
"""The recorded conversation of README's first example, and its window."""


def test_the_airline_example_is_what_the_library_makes() -> None:
    """Its numbers, and each line of it in the context before the agent's last message, in this order."""
    page = (ROOT / "README.md").read_text()
    messages = conversation(*AIRLINE[:2])
    size = sum(map(get_counter("o200k_base").count, messages))
    assert f"A recorded airline agent: {len(messages)} messages, {size:,} tokens. In a window of 4,000," in page
    memory = AutoContextMemory(AutoContextConfig.for_window(AIRLINE[2]))
    view = before_last_reply(memory, messages)
    [example] = re.findall(r"^```text\n(m1-.*?)^```$", page, re.DOTALL | re.MULTILINE)
    head, *note, tail = (re.sub(r"^\S+  +", "", line).strip() for line in example.splitlines())
    assert head == "unchanged"
    assert tail.startswith("unchanged, but three results in short: ")
    ranges = [[int(n) for n in re.findall(r"m(\d+)", line.split()[0])] for line in example.splitlines()]
    (first, before), (after, last) = ranges[0], ranges[-1]
    assert (first, last, len(view)) == (1, len(messages[:-2]), before + 1 + last - after + 1)
    assert view[:before] == messages[:before]
    behind = memory.reload(view[before].origin.uuid if view[before].origin else "")
    assert behind == messages[before : after - 1]
    changed = [(m, said) for m, said in zip(view[before + 1 :], messages[after - 1 : last], strict=True) if m != said]
    assert len(changed) == 3
    # The number of characters left out depends on the length of ids, which are drawn.
    mark = re.sub(
        r"\d+(?= of)", r"\\d+", re.escape(tail.partition("… ")[2]).replace(r"\ \[", r"\n\[").replace(r"\ ", " ")
    )
    assert re.search(mark, changed[0][0].tool_results[0].text)
    text, at = view[before].text, 0
    for line in note:
        for piece in filter(None, (piece.strip() for piece in line.removesuffix("}").split("…"))):
            assert piece in text[at:], f"README quotes {piece!r}, which the note does not say there"
            at = text.index(piece, at) + len(piece)
    assert ContextOffloadTool(memory)("m50").endswith(messages[49].tool_results[0].text)
