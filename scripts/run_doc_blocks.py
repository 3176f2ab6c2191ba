"""Runs every Python block of the documentation, so that no page shows code that does not work.

Usage: `python scripts/run_doc_blocks.py README.md docs/**/*.md` (no argument: exactly those). The ```python blocks of
one page share a namespace and run in order, each page in a process of its own. A ```text block that directly follows a
```python block is what the block prints, compared line by line after trailing spaces are stripped. A block
that fails, warns or prints something else is reported by page and line, and the exit code is 1. `--write PAGE` puts
what the blocks print now into a page whose blocks run: read the difference before you commit it.

A page that names a `gpt-` or `claude-` model talks to a scripted one on this machine (tests/fakes/page_server.py).

A page that begins with `<!-- environment: NAME -->` needs an agent framework. It runs where it is named, which
scripts/adapter_environments.sh does in that environment; without an argument it is only listed.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_ENVIRONMENT = re.compile(r"<!-- environment: (\w+) -->\n")
_MODEL = re.compile(r"\b(gpt|claude)-")
_SECONDS_A_PAGE = 120
_WARNINGS = ("-W", "error", "-W", "ignore:unclosed transport", "-W", "ignore:unclosed <socket")
"""Errors, but for the connections that frameworks' clients leave open."""


@dataclass(frozen=True)
class Block:
    """One Python block: its code, the line its code starts on (1-based), and what it must print, if the page says."""

    code: str
    line: int
    printed: str | None


def blocks(page: str) -> Iterator[Block]:
    """The Python blocks of a page, in order."""
    fences = list(_FENCE.finditer(page))
    for i, match in enumerate(fences):
        if match[1] != "python":
            continue
        following = fences[i + 1] if i + 1 < len(fences) else None
        shows_output = following and following[1] == "text" and not page[match.end() : following.start()].strip()
        yield Block(
            code=match[2],
            line=page.count("\n", 0, match.start(2)) + 1,
            printed=following[2] if following and shows_output else None,
        )


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def run_page(path: Path) -> str:
    """Run a page's blocks in one namespace; "" when all is well, else what is wrong and where."""
    if not _MODEL.search(path.read_text(encoding="utf-8")):
        return _run_blocks(path)
    sys.path.insert(0, str(ROOT))
    from tests.fakes.page_server import page_server  # noqa: PLC0415 (only pages that call a model need it)

    with page_server():
        return _run_blocks(path)


def _run_blocks(path: Path) -> str:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(path.read_text(encoding="utf-8")):
        printed = io.StringIO()
        # Leading newlines make a traceback show the page's own line numbers.
        source = "\n" * (block.line - 1) + block.code
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(source, str(path), "exec"), namespace)  # noqa: S102 (running the page is the purpose)
        except (Exception, SystemExit):  # noqa: BLE001 (whatever a block raises is the finding)
            return f"{path}:{block.line}: a block failed\n{traceback.format_exc(limit=-3)}"
        if block.printed is not None and _lines(printed.getvalue()) != _lines(block.printed):
            difference = difflib.unified_diff(
                _lines(block.printed), _lines(printed.getvalue()), "the page", "the run", lineterm=""
            )
            return f"{path}:{block.line}: a block prints something else\n" + "\n".join(difference)
    return ""


def written(page: str) -> str:
    """The page with what its blocks print now."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(block.code, namespace)  # noqa: S102 (running the page is the purpose)
        if block.printed is not None:
            old = f"```python\n{block.code}```\n\n```text\n{block.printed}```\n"
            now = "\n".join(_lines(printed.getvalue()))
            page = page.replace(old, f"```python\n{block.code}```\n\n```text\n{now}\n```\n", 1)
    return page


def main() -> int:
    """Run the named pages, or all of them."""
    parser = argparse.ArgumentParser(description="Run the Python blocks of documentation pages.")
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--here", action="store_true", help="run one page in this very process")
    parser.add_argument("--write", action="store_true", help="put what the blocks print into the named pages")
    options = parser.parse_args()
    if options.write:
        for page in options.pages:
            page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    pages: list[Path] = options.pages or [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    if options.here:
        problem = run_page(pages[0])
        sys.stderr.write(problem)
        return bool(problem)
    failed = 0
    for page in pages:
        needs = _ENVIRONMENT.match(page.read_text(encoding="utf-8"))
        if needs and not options.pages:
            sys.stdout.write(f"not run here  {page.name}: scripts/adapter_environments.sh {needs[1]} runs it\n")
            continue
        count = sum(1 for _ in blocks(page.read_text(encoding="utf-8")))
        if not count:
            continue
        # In a folder of its own: what a page writes must not be there when it is run again. It may read tests/data.
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "tests").symlink_to(ROOT / "tests")
            run = subprocess.run(  # noqa: S603 (this very interpreter and file)
                [sys.executable, *_WARNINGS, str(Path(__file__).resolve()), "--here", str(page.resolve())],
                cwd=folder, capture_output=True, text=True, check=False, timeout=_SECONDS_A_PAGE,
            )  # fmt: skip
        failed += run.returncode != 0
        sys.stdout.write(f"{'ok' if run.returncode == 0 else 'FAILED'}  {page.name}: {count} blocks\n{run.stderr}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
