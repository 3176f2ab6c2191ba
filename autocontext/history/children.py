"""Ids of sub-agents' sessions, and the paths under which the agent that has them reads their messages: researcher/m12.

Such an id is made of its parent's and a name, "42/researcher~1f3a9c2d", so nothing else has to be stored. Its end is a
hash of the rest: a session that happens to be called "42/researcher" is nobody's child.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from autocontext.errors import ConfigError, short
from autocontext.history import numbering

LONGEST_NAME = 64
"""Characters."""
MOST_LEVELS = 8
"""Names in a path: what a model writes must not make us open sessions without end."""
_NAME = rf"\w[\w.-]{{0,{LONGEST_NAME - 1}}}"
_ID = re.compile(rf"(.+)/({_NAME})~([0-9a-f]{{8}})", re.DOTALL)
_PATH = re.compile(rf"(?:{_NAME}/){{1,{MOST_LEVELS}}}")
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")


class Child(NamedTuple):
    """Whose child a session is, and what its parent calls it."""

    parent: str
    """The parent's session id."""
    name: str


def child_of(session_id: str) -> Child | None:
    """Whose child a session is by its id; None for any other id."""
    match = _ID.fullmatch(session_id)
    return Child(match[1], match[2]) if match and _id(match[1], match[2]) == session_id else None


def child_id(parent: str, name: str) -> str:
    """The session id of a child. Raises ConfigError for a name that no path can have, and for a child too deep."""
    if not isinstance(name, str) or not re.fullmatch(_NAME, name):
        better = _NOT_IN_NAMES.sub("_", name).strip("_.-")[:LONGEST_NAME] if isinstance(name, str) else ""
        raise ConfigError(
            f"child: a name has 1 to {LONGEST_NAME} letters, digits, _, - and ., the first a letter, digit or _ (got "
            f"{short(name)}); write {better or 'researcher'!r}"
        )
    if len(ancestors(parent)) >= MOST_LEVELS:
        raise ConfigError(f"child: {name!r} would be {MOST_LEVELS + 1} levels below its first session; do with fewer")
    return _id(parent, name)


def id_at(session_id: str, path: str) -> str:
    """The session id at a path, such as "researcher/" or "researcher/reader/", from a session on."""
    for name in path.split("/")[:-1]:
        session_id = _id(session_id, name)
    return session_id


def path_between(session_id: str, child: str) -> str | None:
    """The path to a child from a session on, such as "researcher/reader/"; "" for itself, None for no child of it."""
    path = ""
    while child != session_id:
        found = child_of(child)
        if found is None:
            return None
        path, child = f"{found.name}/{path}", found.parent
    return path


def ancestors(session_id: str) -> list[str]:
    """The ids of a session's parent, its parent's parent, and so on; [] for a session that is nobody's child."""
    found = []
    while (child := child_of(session_id)) is not None:
        found.append(session_id := child.parent)
    return found


def split(text: str) -> tuple[str, str]:
    """The path in the name of a child's messages, and the rest: "researcher/m1,m7" is "researcher/" and "m1,m7".

    The path is "" if there is none. A list may repeat it before each number.
    """
    if "/" not in text:
        return "", text
    text = numbering.bare(text)
    match = _PATH.match(text)
    if match is None:
        return "", text
    path = match[0]
    first, *others = text[match.end() :].split(",")
    rest = ",".join([first, *(item.strip().removeprefix(path) for item in others)])
    return (path, rest) if rest and "/" not in rest else ("", text)


def _id(parent: str, name: str) -> str:
    start = f"{parent}/{name}"
    return f"{start}~{hashlib.sha256(start.encode()).hexdigest()[:8]}"
