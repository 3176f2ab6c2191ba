"""What the documentation site takes from outside docs/: benchmark pages, changes, contributing, linked sources.

MkDocs calls these functions (`hooks:` in mkdocs.yml). A page from elsewhere keeps its path in the repository as its
address; a linked Python file becomes a page that shows it. Links are rewritten accordingly, so that the same page
reads well in a clone and on the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "NOTICE"]
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def _source(src_uri: str) -> str:
    """The repository path that a page of the site comes from."""
    name = src_uri.removesuffix(".md")
    if name.endswith((".py", "LICENSE", "NOTICE")):
        return name
    return src_uri if (ROOT / src_uri).is_file() else f"docs/{src_uri}"


def _page(path: str) -> str:
    """The page of the site that shows a file of the repository; README is the home page."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return path if path.endswith(".md") else f"{path}.md"


def _rewritten(markdown: str, src_uri: str) -> str:
    here = posixpath.dirname(_source(src_uri))

    def link(match: re.Match[str]) -> str:
        target = match[2]
        if ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(here, target))
        if not (ROOT / path).is_file():
            return match[0]
        return match[1] + posixpath.relpath(_page(path), posixpath.dirname(src_uri) or ".") + match[3]

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def _linked_files(pages: list[Path]) -> set[str]:
    """Files of the repository outside docs/ that pages link to."""
    found = set()
    for page in pages:
        for match in _LINK.finditer(page.read_text(encoding="utf-8")):
            path = posixpath.normpath(posixpath.join(page.parent.relative_to(ROOT).as_posix(), match[2]))
            if ":" not in match[2] and not path.startswith("docs/") and path != "README.md" and (ROOT / path).is_file():
                found.add(path)
    return found


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that live outside docs/."""
    paths = {*PAGES, *(path.relative_to(ROOT).as_posix() for path in ROOT.glob("benchmarks/results/*.md"))}
    while (
        missing := _linked_files([*ROOT.glob("docs/**/*.md"), *(ROOT / p for p in paths if p.endswith(".md"))]) - paths
    ):
        paths |= missing
    for path in sorted(paths):
        text = (ROOT / path).read_text(encoding="utf-8")
        if path.endswith(".py"):
            text = f"# {path}\n\n```python\n{text}```\n"
        elif not path.endswith(".md"):
            text = f"# {path}\n\n```text\n{text}```\n"
        files.append(File.generated(config, _page(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links at the site's pages."""
    del config, files
    return _rewritten(markdown, page.file.src_uri)
