"""Searching everything that was ever said in a conversation, and in the user's others where the owner allows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from autocontext.formats.call_ids import named_results
from autocontext.history.children import path_between
from autocontext.history.log import Log
from autocontext.history.runs import Runs
from autocontext.messages import Msg
from autocontext.notes.notes import LOOKING
from autocontext.steering.parts import MemoryParts, Refusal, as_bool, counted
from autocontext.stores.checks import whole_or
from autocontext.stores.protocol import SessionKey
from autocontext.text.rendering import one_line
from autocontext.tools import as_text

if TYPE_CHECKING:
    from autocontext.stores.search import Filters, Found

_DEFAULT = 8
"""Results of one search."""
_MOST = 50
_ECHO = 200
"""Characters of the words that an answer repeats."""


def search(
    memory: MemoryParts,
    query: Any = "",
    *,
    messages: Any = None,
    tool: Any = None,
    after: Any = None,
    before: Any = None,
    limit: Any = None,
    all_sessions: Any = False,
) -> str:
    """The messages that fit some words best, and are of these numbers, this tool, and this time."""
    words, most = as_text(query), whole_or(_DEFAULT, limit or _DEFAULT, 1, _MOST)
    everywhere = as_bool("all_sessions", all_sessions)
    with memory.lock:
        numbers = memory.numbers(messages) if as_text(messages) else None
    filters: Filters = {
        "tool": as_text(tool) or None,
        "after": as_text(after) or None,
        "before": as_text(before) or None,
    }
    if numbers is not None:
        filters["numbers"] = numbers.pairs[0][0], numbers.pairs[-1][1]
    if not words and not any(filters.values()):
        raise Refusal("there is nothing to look for. Pass words as query, or a tool, messages, after or before.")
    if everywhere:
        if memory.config.search_scope != "user" or not memory.session.user_id or memory.store is None:
            raise Refusal("only this conversation may be searched here. Leave all_sessions out.")
        if numbers is not None:
            raise Refusal("numbers belong to this conversation. Leave messages out, or all_sessions.")
    lines = list(_lines(memory, _found(memory, words, filters, everywhere=everywhere), numbers))[:most]
    if not lines:
        return f"Nothing that was said matches{f' {words[:_ECHO]!r}' if words else ''}. Try other words or filters."
    head = f"{counted(len(lines), 'message')}, {'best' if words else 'newest'} first:"
    path = next((f"{path}/" for line in lines if (path := line.partition(" ")[0].rpartition("/")[0])), "")
    others = f', one of a sub-agent with context_reload("{path}m...")' if path else ""
    return "\n".join([head, *lines, f'Read a message of this conversation with context_reload("m..."){others}.'])


def _found(memory: MemoryParts, words: str, filters: Filters, *, everywhere: bool) -> list[Found]:
    """The hits: more than are shown, as calls of these very tools are among them."""
    user, session = memory.session
    asked = 2 * _MOST
    in_store = getattr(memory.store, "search", None)
    if in_store is not None:
        hits: list[Found] = in_store(
            words, user_id=user, session_id=None if everywhere else session, limit=asked, **filters
        )
        return hits
    from autocontext.stores.search import find  # noqa: PLC0415 (only searches need it)

    with memory.lock:
        entries = list(memory.log.entries)
    return find({memory.session: entries}, words, limit=asked, **filters)


def _lines(memory: MemoryParts, hits: list[Found], numbers: Runs | None) -> Iterator[str]:
    own = SessionKey(*memory.session)
    with memory.lock:
        said = {own: _said(memory.log)}
    for hit in hits:
        if hit.session not in said and memory.store is not None:
            said[hit.session] = _said(Log(memory.store.read(hit.session)))
        msg = said[hit.session].get(hit.number or 0)
        if msg is None or _is_own(msg) or (numbers is not None and hit.number not in numbers):
            continue
        path = path_between(own.session_id, hit.session.session_id)
        where = f"[session {one_line(hit.session.session_id)}] " if path is None else path
        yield f"{where}m{hit.number} {_kind(msg)}, {msg.timestamp[:16]}: {one_line(hit.snippet)}"


def _said(log: Log) -> dict[int, Msg]:
    """The originals by number. Some frameworks' results do not name their tool: the latest call with their id does."""
    return dict(enumerate(named_results(log.originals, {}), 1))


def _tools(msg: Msg) -> list[str]:
    """The tools that a message calls or is a result of."""
    names = *(result.name for result in msg.tool_results), *(use.name for use in msg.tool_uses)
    return list(dict.fromkeys(filter(None, names)))


def _kind(msg: Msg) -> str:
    """What a message is, for a line about it."""
    name = one_line(", ".join(_tools(msg)))[:80]
    return f"{'call of' if msg.tool_uses else 'result of'} {name}" if name else msg.role


def _is_own(msg: Msg) -> bool:
    """Whether it is a call or a result of these tools, which say nothing new; the agent's notes do."""
    return bool(tools := _tools(msg)) and not msg.text and all(name.endswith(LOOKING) for name in tools)
