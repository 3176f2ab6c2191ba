"""What a call changes for later ones: where the agent is, and what goes on after its answer.

What the patterns do not know is left out, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SEARCHED = 4_000
"""Characters of a command."""
_LONGEST = 160
"""Characters of a command that says where the agent is."""
_PARTS = re.compile(r"&&|\|\||[;\n]")
_PLACES = {
    "folder": re.compile(r"(?:cd|pushd) +(?!-)\S.*"),
    "branch": re.compile(
        r"git (?:-C \S+ )?(?:(?:checkout|switch) +-[bBcC] +\S+.*|switch +[^-\s]\S*|checkout +[^-.\s][^.\s]*"
        r"|worktree add +\S.*)"
    ),
    "environment": re.compile(
        r"(?:source|\.) +\S*activate\S*|(?:conda|mamba) +activate +\S+|(?:nvm|pyenv|rbenv) +(?:use|shell|local) +\S+"
    ),
    "host": re.compile(r"ssh +(?:-\S+ +(?:\d+ +)?)*[\w.@-]+"),
    "context": re.compile(
        r"(?:kubectl +config +(?:use-context|set-context)|kubectx|kubens|gcloud +config +set|az +account +set) +\S.*"
    ),
    "database": re.compile(r"use +[`\"\w.]+|\\c(?:onnect)? +\S+", re.IGNORECASE),
}
"""By what they change, commands after which others run somewhere else."""
_BROWSES = re.compile(r"navigate|goto|go_to|open_url", re.IGNORECASE)
"""In the names of tools that go to a page."""
_STARTS = re.compile(
    r"(?<![&>|])&\s*(?:$|\n)|(?:^|[;&]\s*)(?:nohup|setsid)\s|\btmux +new(?:-session)?\b[^\n]* -d"
    r"|\bscreen +-dm|\bdocker +(?:run|compose +up)\b[^\n]* (?:-d|--detach)\b",
    re.MULTILINE,
)
"""A command that goes on after its answer."""
_BACKGROUND = re.compile(r"background|detach", re.IGNORECASE)
"""In an argument that says so of a call."""


def places_of(tool: str, arguments: Mapping[str, Any], command: str) -> tuple[tuple[str, str], ...]:
    """What a call changes of where the agent is, each with the words that say so."""
    texts = (command or next((v for v in arguments.values() if isinstance(v, str)), ""))[:_SEARCHED]
    found: list[tuple[str, str]] = []
    for part in filter(None, (part.strip() for part in _PARTS.split(texts))):
        if len(part) <= _LONGEST:
            found += [(kind, part) for kind, pattern in _PLACES.items() if pattern.fullmatch(part)]
    url = arguments.get("url")
    if isinstance(url, str) and len(url) <= _LONGEST and _BROWSES.search(tool):
        found.append(("page", url))
    return tuple(found)


def starts(arguments: Mapping[str, Any], command: str) -> bool:
    """Whether what a call starts goes on after its answer."""
    flag = any(v in (True, "true") and _BACKGROUND.search(k) for k, v in arguments.items())
    return flag or _STARTS.search(command[:_SEARCHED]) is not None
