"""Searching everything that was ever said in a conversation, and in the user's others where the owner allows it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from autocontext.history.entries import Added, Cleared, Entry, Snapshot
from autocontext.history.log import Log
from autocontext.messages import Msg
from autocontext.steering.steered import Refusal, Steered, as_text, counted
from autocontext.stores.in_memory import InMemorySessionStore
from autocontext.stores.protocol import SessionKey
from autocontext.text.rendering import one_line

_DEFAULT = 8
"""Results of one search."""
_MOST = 50
_OWN = ("context_search", "context_status", "context_reload", "context_archive", "context_restore", "context_pin")


class Said(NamedTuple):
    """An original message, with the tools that it calls or that it is a result of."""

    msg: Msg
    tools: tuple[str, ...]

    @property
    def is_own(self) -> bool:
        """Whether it is a call or a result of these tools, which say nothing new; the agent's notes do."""
        return bool(self.tools) and not self.msg.text and all(name.endswith(_OWN) for name in self.tools)


class Filters(NamedTuple):
    """What a message has to be, besides fitting the words."""

    numbers: frozenset[int] | None
    tool: str
    since: datetime | None
    until: datetime | None

    def fit(self, number: int, said: Said) -> bool:
        """Whether a message is what was asked for."""
        if said.is_own or (self.numbers is not None and number not in self.numbers):
            return False
        if self.tool and self.tool not in said.tools:
            return False
        at = _moment(said.msg.timestamp) if self.since or self.until else None
        if at is None:
            return not (self.since or self.until)
        return (self.since is None or at >= self.since) and (self.until is None or at <= self.until)

    def __bool__(self) -> bool:
        return self.numbers is not None or bool(self.tool or self.since or self.until)


def _said(log: Log) -> dict[int, Said]:
    """The originals by number. Some frameworks' results do not name their tool: the latest call with their id does."""
    names: dict[str, str] = {}
    said: dict[int, Said] = {}
    for number, msg in enumerate(log.read(log.original), 1):
        tools = [block.name or names.get(block.id, "") for block in msg.tool_results]
        for use in msg.tool_uses:
            names[use.id] = use.name
            tools.append(use.name)
        said[number] = Said(msg, tuple(dict.fromkeys(filter(None, tools))))
    return said


def search(
    memory: Steered,
    query: Any,
    *,
    messages: Any = None,
    tool: Any = None,
    since: Any = None,
    until: Any = None,
    limit: Any = None,
    all_sessions: Any = False,
) -> str:
    """The messages that fit some words best, and are of these numbers, this tool, and this time."""
    words, most = as_text(query), _limit(limit)
    if not words:
        raise Refusal("the query is empty. Pass the words to look for.")
    others = all_sessions is True
    with memory.lock:
        numbers = None if messages in (None, "") else frozenset(memory.numbers(messages))
    filters = Filters(numbers, as_text(tool), _time("since", since), _time("until", until))
    if others and (memory.config.search_scope != "user" or not memory.session.user_id):
        raise Refusal("only this conversation may be searched here. Leave all_sessions out.")
    if others and filters.numbers is not None:
        raise Refusal("numbers belong to this conversation. Leave messages out, or all_sessions.")
    lines = _everywhere(memory, words, most, filters) if others else _here(memory, words, most, filters)
    if not lines:
        return f"Nothing that was said matches {words[:200]!r}{' and the filters' if filters else ''}. Try other words."
    way = 'Read a message of this conversation with context_reload("m...").'
    return "\n".join([f"{counted(len(lines), 'message')} for {words[:200]!r}, best first:", *lines, way])


def _here(memory: Steered, words: str, most: int, filters: Filters) -> list[str]:
    with memory.lock:
        entries, originals = list(memory.log.entries), _said(memory.log)
    find = getattr(memory.store, "search", None)
    if filters or find is None:
        chosen = {n: said.msg for n, said in originals.items() if filters.fit(n, said)}
        return [_line(n, originals[n], snippet) for n, snippet in _best(words, chosen, most)]
    number_of = _Numbers(entries)
    own = sum(said.is_own for said in originals.values())  # an earlier search has the same words
    found = find(
        words, user_id=memory.session.user_id, session_id=memory.session.session_id, limit=most + min(own, _MOST)
    )
    numbered = ((number_of(hit.sequence, hit.message_id), hit.snippet) for hit in found)
    others = ((n, snippet) for n, snippet in numbered if n in originals and not originals[n].is_own)
    return [_line(n, originals[n], snippet) for n, snippet in others][:most]


def _everywhere(memory: Steered, words: str, most: int, filters: Filters) -> list[str]:
    if memory.store is None or not hasattr(memory.store, "search"):
        return _here(memory, words, most, filters)
    asked = most + _MOST
    logs: dict[SessionKey, tuple[_Numbers, dict[int, Said]]] = {}
    lines: list[str] = []
    for hit in memory.store.search(words, user_id=memory.session.user_id, session_id=None, limit=asked):
        if hit.session not in logs:
            entries = memory.store.read(hit.session)
            logs[hit.session] = _Numbers(entries), _said(Log(entries))
        number_of, originals = logs[hit.session]
        number = number_of(hit.sequence, hit.message_id)
        if number in originals and filters.fit(number, originals[number]):
            own = tuple(hit.session) == tuple(memory.session)
            where = "" if own else f"[session {one_line(hit.session[1])}] "
            lines.append(where + _line(number, originals[number], hit.snippet))
    return lines[:most]


def _best(words: str, messages: dict[int, Msg], most: int) -> list[tuple[int, str]]:
    """The numbers of the best of these messages, each with its snippet."""
    numbers, key = sorted(messages), SessionKey("", "these")
    store = InMemorySessionStore()
    store.append(key, [Added(message=messages[n]) for n in numbers], after=0)
    found = store.search(words, user_id="", session_id=key.session_id, limit=most)
    return [(numbers[hit.sequence], hit.snippet) for hit in found]


class _Numbers:
    """The numbers of messages by the number of their log entry."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._added: list[int] = []
        """Numbers of the entries that added a message, since the state was last replaced."""
        self._before: dict[str, int] = {}
        """The numbers of the messages that the state had then, by id."""
        for sequence, entry in enumerate(entries):
            if isinstance(entry, Cleared | Snapshot):
                old = entry.original if isinstance(entry, Snapshot) else ()
                messages = entry.messages if isinstance(entry, Snapshot) else {}
                self._before = {messages[id_].id: n for n, id_ in enumerate(old, 1)}
                self._base = len(old)
                self._added = []
            elif isinstance(entry, Added):
                self._added.append(sequence)

    _base = 0

    def __call__(self, sequence: int, message_id: str) -> int:
        """The number of a message that came with an entry; 0 if it has none any more."""
        at = bisect_left(self._added, sequence)
        if at < len(self._added) and self._added[at] == sequence:
            return self._base + at + 1
        return self._before.get(message_id, 0)


def _line(number: int, said: Said, snippet: str) -> str:
    kind = "call of" if said.msg.tool_uses else "result of"
    what = f"{kind} {', '.join(said.tools)}" if said.tools else said.msg.role
    return f"m{number} {one_line(what)[:80]}, {said.msg.timestamp[:16]}: {one_line(snippet)}"


def _limit(value: Any) -> int:
    try:
        return max(1, min(_MOST, int(value or _DEFAULT)))
    except (TypeError, ValueError, OverflowError):
        return _DEFAULT


def _time(argument: str, value: Any) -> datetime | None:
    text = as_text(value)
    moment = _moment(text) if text else None
    if text and moment is None:
        raise Refusal(f'{argument} is no time: {one_line(text)[:80]!r}. Write "2026-11-22" or "2026-11-22T16:30".')
    if moment is not None and argument == "until" and len(text) <= len("2026-11-22"):
        return moment.replace(hour=23, minute=59, second=59, microsecond=999_999)
    return moment


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
