"""The history of a stored session: the size of its context over time, what each pass did, where each message is now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from autocontext import CompressionEvent, Msg
from autocontext.compression.receipt import receipt
from autocontext.compression.repeats import RepeatMeter
from autocontext.events import Repeats
from autocontext.history.edits import Edit
from autocontext.history.entries import Entry
from autocontext.history.log import Log, ViewChange
from autocontext.tokens import TokenCounter

KINDS = ("system", "user", "assistant", "calls", "results", "notes")
Point = tuple[int, ...]
"""A model call: messages before it, tokens sent, tokens without compression, then tokens of each of KINDS."""


@dataclass
class Pass:
    """What a pass did; sizes are tokens."""

    at: int
    """Number of messages added before it."""
    before: int
    messages_before: int
    view: tuple[str, ...]
    """Ids in the view before it."""
    after: int = 0
    messages_after: int = 0
    kept: int = 0
    """Tokens at the start of the context that did not change, so a prompt cache keeps them."""
    edits: list[tuple[Edit, CompressionEvent]] = field(default_factory=list)
    """Each with the event that reports it."""
    receipt: str = ""
    """What left the view, in one line."""


@dataclass
class CallTotals:
    """Tokens that the model read in all its calls, one before each assistant message."""

    calls: int = 0
    tokens: int = 0
    cached: int = 0
    """Of these, tokens that the previous call sent at the same position."""
    largest: int = 0


class SessionHistory:
    """Replays a session's entries one by one."""

    def __init__(self, entries: Iterable[Entry], counter: TokenCounter) -> None:
        self.log = Log()
        self.calls: list[Point] = []
        self.passes: list[Pass] = []
        self.sent, self.without = CallTotals(), CallTotals()
        self.messages: dict[str, Msg] = {}
        """All messages by id, including removed ones. After a clear or a load, ids refer to the newer messages."""
        self._counter = counter
        self._meter = RepeatMeter()
        self._sizes: dict[str, int] = {}
        self._parts = dict.fromkeys(KINDS, 0)
        self._uncompressed: dict[str, None] = {}
        """Ids of the originals that would be sent without compression."""
        self.full = self._last_sent = self._last_full = 0
        """`full`: tokens of the conversation without compression."""
        self._pass: Pass | None = None
        for entry in entries:
            self._follow(entry)
            self._meter.follow((entry,))
        self._close()

    def tokens(self, id_: str) -> int:
        """Tokens of a message in the log, counted once."""
        if id_ not in self._sizes:
            self._sizes[id_] = self._counter.count(self.log.messages[id_])
        return self._sizes[id_]

    def tokens_of(self, id_: str) -> int:
        """Tokens of any message, including removed ones."""
        return self.tokens(id_) if id_ in self.log.messages else self._counter.count(self.messages[id_])

    def originals_behind(self, uuid: str) -> list[str]:
        """Ids of the messages that a reload of an offload entry returns."""
        # A message that was added twice has two ids in the log, so compare the objects.
        originals = {id(m) for m in self.log.originals_of(uuid)}
        return [id_ for id_, m in self.log.messages.items() if id(m) in originals]

    @property
    def parts(self) -> tuple[int, ...]:
        """Tokens of each of KINDS in the current context."""
        return tuple(self._parts.values())

    @property
    def size(self) -> int:
        """Tokens of the current context."""
        return sum(self._parts.values())

    @property
    def repeats(self) -> Repeats:
        """The calls around the passes, and how many repeat earlier ones."""
        return self._meter.repeats

    def _follow(self, entry: Entry) -> None:
        if entry.type == "edited" and not entry.only_recalls:
            if self._pass is None:
                view = tuple(self.log.view_ids)
                self._pass = Pass(len(self.log.original), self.size, len(view), view)
        else:
            self._close()
        if entry.type == "added" and entry.message.role == "assistant" and self.log.view_ids:
            self._record_call()
        covered = [*self.log.covered(entry.ids), *entry.behind] if entry.type == "removed" else []
        view = tuple(self.log.view_ids)
        change = self.log.record(entry)
        self._change(entry, change, covered)
        if entry.type == "edited" and self._pass is not None:
            self._pass.edits += zip(entry.edits, entry.events, strict=False)
        elif entry.type not in ("added", "edited"):
            self._last_sent = min(self._last_sent, self._shared(view))

    def _change(self, entry: Entry, change: ViewChange, covered: Sequence[str]) -> None:
        log = self.log
        if change.all_new:
            self._sizes, self._uncompressed = {}, {}
            self._parts = dict.fromkeys(KINDS, 0)
            self.full = self._last_full = 0
            self.messages.update(log.messages)
            self._add_uncompressed(log.original)
        for id_ in change.removed:
            self._weigh(id_, -1)
        for id_ in change.added:
            self.messages[id_] = log.messages[id_]
            self._weigh(id_, 1)
        if entry.type == "added":
            self._add_uncompressed(change.added)
        elif entry.type == "removed":
            for id_ in {*covered, *entry.ids} & self._uncompressed.keys():
                del self._uncompressed[id_]
                self.full -= self.tokens(id_)
            self._last_full = min(self._last_full, self.full)

    def _add_uncompressed(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            self._uncompressed[id_] = None
            self.full += self.tokens(id_)

    def _weigh(self, id_: str, sign: int) -> None:
        self._parts[kind_of(self.log.messages[id_])] += sign * self.tokens(id_)

    def _record_call(self) -> None:
        for totals, size, last in ((self.sent, self.size, self._last_sent), (self.without, self.full, self._last_full)):
            totals.calls += 1
            totals.tokens += size
            totals.cached += min(size, last)
            totals.largest = max(totals.largest, size)
        self._last_sent, self._last_full = self.size, self.full
        self.calls.append((len(self.log.original), self.size, self.full, *self.parts))

    def _shared(self, before: Sequence[str]) -> int:
        """Tokens of the messages at the start of the view that are the same as before."""
        tokens = 0
        for old, new in zip(before, self.log.view_ids, strict=False):
            if old != new:
                break
            tokens += self.tokens(new)
        return tokens

    def _close(self) -> None:
        """End the current pass."""
        done, self._pass = self._pass, None
        if done is None:
            return
        done.kept = self._shared(done.view)
        done.receipt = receipt(self.log, done.view, self.tokens)
        done.after, done.messages_after = self.size, len(self.log.view_ids)
        self._last_sent = min(self._last_sent, done.kept)
        self.passes.append(done)


def kind_of(msg: Msg) -> str:
    """Which of KINDS a message counts as."""
    if msg.origin is not None and not msg.tool_results and not msg.tool_uses:
        return "notes"
    if msg.tool_results:
        return "results"
    if msg.tool_uses:
        return "calls"
    return msg.role if msg.role in KINDS else "results"


def holders(log: Log) -> dict[str, str]:
    """For each original out of view, the id of the message in view that replaces it."""
    in_view = set(log.view_ids)
    return {id_: note for note in log.view_ids for id_ in log.covered([note]) if id_ not in in_view}


def tool_sizes(log: Log, counter: TokenCounter) -> dict[str, int]:
    """Tokens in view by tool: its calls and their results."""
    names = {use.id: use.name for m in log.messages.values() for use in m.tool_uses}
    sizes: dict[str, int] = {}
    for m in log.view_messages:
        tools = {names.get(r.id, r.name) or "?" for r in m.tool_results} | {use.name for use in m.tool_uses}
        for tool in tools:
            # Tokens are counted per message, so a message of several tools is divided equally.
            sizes[tool] = sizes.get(tool, 0) + counter.count(m) // len(tools)
    return dict(sorted(sizes.items(), key=lambda pair: -pair[1]))
