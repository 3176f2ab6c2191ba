"""The texts that replace a stored text in an outgoing message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autocontext.text.rendering import one_line

ANY_REF = "c_" + 12 * "0"
"""As long as a handle, to compute sizes before there is one."""
_LONGEST_NAME = 40
_NUMBERS = r"m\d+(?:-m\d+)?"
_PAGE = re.compile(
    rf"\A\[(c_[0-9a-f]{{12,64}}|[0-9A-Za-z-]{{8,64}}|(?:[\w.-]+/)*{_NUMBERS}(?:,{_NUMBERS})*)"
    r": [^\n]{0,300}? characters; (?:showing (\d+)-(\d+)|\d+ passages? for )"
)
_REST = re.compile(
    r"(?:\A\[Offloaded [^\n]*[:;] [\d,]+ chars\. Read: |\.\.\. \[(?:Truncated, )?[\d,]+ more chars: )"
    r"context_reload\(\"(c_[0-9a-f]{12,64})\"\)\]\Z"
)


def call(ref: str, arguments: Mapping[str, Any] | None = None) -> str:
    """The call of the reload tool that reads it."""
    more = "".join(f", {name}={value!r}" for name, value in (arguments or {}).items())
    return f'context_reload("{ref}"{more})'


def whole(name: str, chars: int, ref: str, error: str = "") -> str:
    """Replaces a whole result; the first line of an error stays."""
    shown = one_line(name)[:_LONGEST_NAME] or "result"
    if error:
        return f"[Offloaded {shown}, an error: {error}; {chars:,} chars. Read: {call(ref)}]"
    return f"[Offloaded {shown}: {chars:,} chars. Read: {call(ref)}]"


def rest(head: str, chars: int, ref: str, note: str = "") -> str:
    """Replaces all but the beginning of a result, or of a user's message, where a note says so."""
    return f"{head}... [{note}{chars - len(head):,} more chars: {call(ref)}]"


def refs(text: str) -> list[str]:
    """The handle that `whole` or `rest` has put into a text; [] for any other text."""
    return _REST.findall(text)


def page(ref: str, arguments: Mapping[str, Any]) -> str:
    """Replaces a page that the reload tool returned; the store has its text already."""
    return f"[A page of it was here. Read: {call(ref, arguments)}]"


def page_source(text: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The handle and arguments that read a page of the reload tool again; None for any other text."""
    match = _PAGE.match(text)
    if match is None:
        return None
    if match.group(2) is None:
        query = arguments.get("query")
        return (match.group(1), {"query": query}) if isinstance(query, str) else None
    start, stop = int(match.group(2)), int(match.group(3))
    return match.group(1), {"offset": start, "limit": stop - start}
