"""The working memory as a value: messages in order, each with an id, and their structure (pairs, rounds, tool runs).

Calls and results are matched like brackets, per tool-call id: a result answers the latest open call with its id. So
ids may be reused within a conversation, and unanswered calls and orphan results are well defined. One without a
partner is complete once it is passed: the model has gone on after a later message of the user or a later call's result.
Before, its partner may still come.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, islice, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from autocontext.history.cached import cached_property
from autocontext.messages import (
    COMPACTION,
    Msg,
    ToolResultBlock,
    ToolUseBlock,
    compacted_by,
    is_compressed,
    is_final_reply,
    is_note,
    is_pinned,
    is_reasoning,
    is_tool_message,
    is_user_turn,
    leads_on,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenPairs:
    """Results without their call and calls without their result, in a list of messages."""

    orphan_results: tuple[str, ...] = ()
    unanswered_calls: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.orphan_results or self.unanswered_calls)


def open_pairs(messages: Iterable[Msg]) -> OpenPairs:
    """The calls and results of consecutive messages whose partner is not among them, both sorted by id."""
    _, orphans, unanswered = _matched(messages)
    return OpenPairs(tuple(sorted(r.id for _, r in orphans)), tuple(sorted(use.id for _, use in unanswered)))


def passed(messages: Sequence[Msg]) -> int:
    """Index of the last step that the model has gone on from: before it no partner is awaited. 0 without one.

    A step begins with a message of the user that the model has answered, or with a message of the model after which
    a result came that the model has read.
    """
    replied = read = False
    for i in range(len(messages) - 1, -1, -1):
        said = _model_wrote(messages[i])
        if (read and said) or (replied and is_user_turn(messages[i])):
            return i
        read = read or (replied and bool(messages[i].tool_results))
        replied = replied or said
    return 0


def _last(messages: Sequence[Msg], holds: Callable[[Msg], object]) -> int:
    """Index of the last message for which this holds; -1 without one."""
    return next((i for i in range(len(messages) - 1, -1, -1) if holds(messages[i])), -1)


def _model_wrote(msg: Msg) -> bool:
    return msg.role == "assistant" and not is_note(msg)


class Answered(NamedTuple):
    """A call with its result."""

    call: int
    """Index of the message with the call."""
    use: ToolUseBlock
    result: int
    """Index of the message with the result."""
    block: int
    """Index of the result in its message."""
    output: ToolResultBlock


def _matched(
    messages: Iterable[Msg],
) -> tuple[list[Answered], list[tuple[int, ToolResultBlock]], list[tuple[int, ToolUseBlock]]]:
    """Calls with results, in the order of the results; then results without a call, and calls without one.

    Those stand with the index of their message.
    """
    answers: list[Answered] = []
    orphans: list[tuple[int, ToolResultBlock]] = []
    waiting: dict[str, list[tuple[int, ToolUseBlock]]] = {}
    for i, m in enumerate(messages):
        # Results first: a message answers calls before it, never its own.
        own: list[ToolUseBlock] = []
        for k, block in enumerate(m.content):
            if block.type == "tool_result":
                if calls := waiting.get(block.id):
                    answers.append(Answered(*calls.pop(), i, k, block))
                else:
                    orphans.append((i, block))
            elif block.type == "tool_use":
                own.append(block)
        for use in own:
            waiting.setdefault(use.id, []).append((i, use))
    return answers, orphans, list(chain.from_iterable(waiting.values()))


def exchange_of(index: int, messages: Sequence[Msg]) -> list[int]:
    """What `View.exchange` returns for a message of a long history: it reads only as far as the partners are away.

    For a call without a result, and a result without a call, it reads up to the end.
    """
    exchange, todo = {index}, [index]
    while todo:
        new = set(_partners(todo.pop(), messages)) - exchange
        exchange |= new
        todo += new
    return sorted(exchange)


def _partners(index: int, messages: Sequence[Msg]) -> Iterator[int]:
    """The messages with the results of a message's calls, with the calls of its results, and with its reasoning."""
    own = messages[index]
    if index + 1 < len(messages) and leads_on(own, messages[index + 1]):
        yield index + 1
    if index and leads_on(messages[index - 1], own):
        yield index - 1
    results, calls = [r.id for r in own.tool_results], [use.id for use in own.tool_uses]
    for k, id_ in enumerate(results):
        between = results[:k].count(id_)
        for i in range(index - 1, -1, -1):
            between -= sum(use.id == id_ for use in messages[i].tool_uses)
            if between < 0:
                yield i
                break
            between += sum(result.id == id_ for result in messages[i].tool_results)
    for k, id_ in enumerate(calls):
        between = calls[k + 1 :].count(id_)
        for i in range(index + 1, len(messages)):
            between -= sum(result.id == id_ for result in messages[i].tool_results)
            if between < 0:
                yield i
                break
            between += sum(use.id == id_ for use in messages[i].tool_uses)


class _Pairs:
    """The pairs of calls and results in a list of messages, by index."""

    def __init__(self, messages: Sequence[Msg]) -> None:
        size = len(messages)
        self.answers, orphans, unanswered = _matched(messages)
        self.first = list(range(size))
        """Smallest index among a message and its calls; -1 when it holds a result whose call may still come."""
        self.last = list(range(size))
        """Largest index among a message and its results; len(messages) when a call of it waits for its result.

        Of reasoning that was added by itself, that of its whole output: all of it is refused without the reasoning.
        """
        self._reasoning = [i for i, pair in enumerate(pairwise(messages)) if leads_on(*pair)]
        for pair in self.answers:
            self.first[pair.result] = min(self.first[pair.result], pair.call)
            self.last[pair.call] = pair.result
        for i in self._reasoning:
            behind = (k for k in range(i + 2, size) if messages[k].role != "assistant" or is_reasoning(messages[k]))
            self.last[i] = next(behind, size) - 1
        start = passed(messages) if orphans or unanswered else 0
        for i, _ in orphans:
            self.first[i] = -1 if i >= start else self.first[i]
        for i, _ in unanswered:
            self.last[i] = size if i >= start else self.last[i]

    @cached_property
    def partners(self) -> dict[int, set[int]]:
        """The results of each message's calls, the calls of its results, and what its reasoning led to."""
        partners: dict[int, set[int]] = {}
        for one, other in [*((p.call, p.result) for p in self.answers), *((i, i + 1) for i in self._reasoning)]:
            partners.setdefault(one, set()).add(other)
            partners.setdefault(other, set()).add(one)
        return partners


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive messages of one view, with their ids."""

    ids: tuple[str, ...]
    messages: tuple[Msg, ...]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Round:
    """A finished round: the user's message at index `user`, and [start, stop) up to the final reply."""

    user: int
    start: int
    stop: int


class View:
    """The working memory at one moment. Indices are valid in this view only.

    `ids` are unique: each is the message's own id, with a suffix if that id was added before.
    """

    def __init__(
        self, ids: Iterable[str], messages: Iterable[Msg], tokens: Callable[[str, Msg], int] | None = None
    ) -> None:
        self.ids: tuple[str, ...]
        self.messages: tuple[Msg, ...]
        self.tokens_of: Callable[[str, Msg], int] | None
        """Tokens of a message; None without a counter."""
        self._memo: dict[Hashable, Any]
        vars(self).update(ids=tuple(ids), messages=tuple(messages), tokens_of=tokens, _memo={})

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: all strategies read the same view."""
        raise AttributeError(f"a view is frozen: propose a change instead of setting {name}")

    @classmethod
    def of(cls, messages: Iterable[Msg], tokens: Callable[[Msg], int] | None = None) -> View:
        """A view of messages with unique ids, for trying out a strategy."""
        messages = tuple(messages)
        return cls((m.id for m in messages), messages, None if tokens is None else lambda _, m: tokens(m))

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Msg]:
        return iter(self.messages)

    def span(self, start: int, stop: int) -> Span:
        """The messages [start, stop)."""
        return Span(self.ids[start:stop], self.messages[start:stop])

    def tokens(self, start: int, stop: int) -> int:
        """Tokens of the messages [start, stop); 0 without a counter."""
        sums = self._tokens
        return (sums[stop] if stop < len(sums) else sums[-1]) - sums[start] if sums and start < stop else 0

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` finds in this view, found once: most strategies of a pass ask which messages have to stay."""
        if key not in self._memo:
            self._memo[key] = make()
        found: T = self._memo[key]
        return found

    @cached_property
    def _tokens(self) -> list[int]:
        """Tokens of all messages before each index; empty without a counter."""
        if self.tokens_of is None:
            return []
        return [0, *accumulate(map(self.tokens_of, self.ids, self.messages))]

    @cached_property
    def _pairs(self) -> _Pairs:
        return _Pairs(self.messages)

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Index of each id."""
        return MappingProxyType({id_: i for i, id_ in enumerate(self.ids)})

    def closed(self, start: int, stop: int) -> bool:
        """Whether every call and result in [start, stop) has its partner there, too, or was passed without one."""
        if start >= stop:
            return True
        return min(self._pairs.first[start:stop]) >= start and max(self._pairs.last[start:stop]) < stop

    def ends(self, start: int, stop: int) -> list[int]:
        """The ends of all closed spans that begin at `start` within a span [start, stop) of `closed_spans`."""
        return [i + 1 for i, last in enumerate(accumulate(self._pairs.last[start:stop], max), start) if last <= i]

    def recent(self, tokens: int) -> int:
        """Start index of the newest messages that together have at most `tokens`."""
        start = len(self)
        while start and tokens >= 0:
            tokens -= self.tokens(start - 1, start)
            start -= tokens >= 0
        return start

    def exchange(self, index: int) -> list[int]:
        """Sorted indices of the message and of all messages paired with it, directly or through others."""
        exchange, new = {index}, {index}
        while new:
            new = {p for i in new for p in self._pairs.partners.get(i, ())} - exchange
            exchange |= new
        return sorted(exchange)

    def is_running(self, index: int) -> bool:
        """Whether a call in the message's exchange still waits for its result."""
        return any(self._pairs.last[i] >= len(self) for i in self.exchange(index))

    @property
    def is_waiting(self) -> bool:
        """Whether a call still waits for its result."""
        return max(self._pairs.last, default=-1) >= len(self)

    @property
    def answers(self) -> Sequence[Answered]:
        """The calls with their results, in the order of the results."""
        return self._pairs.answers

    @cached_property
    def latest_word(self) -> int:
        """Index of the last message that the model wrote; -1 without one. It has seen what stands before it."""
        return _last(self.messages, _model_wrote)

    @cached_property
    def latest_reply(self) -> int:
        """Index of the last final reply; -1 without one. Messages before it are historical."""
        return _last(self.messages, is_final_reply)

    @cached_property
    def first_user(self) -> int:
        """Index of the first message the user wrote; -1 without one."""
        return next((i for i, m in enumerate(self.messages) if is_user_turn(m)), -1)

    @cached_property
    def latest_user(self) -> int:
        """Index of the last message the user wrote; -1 without one. The current round follows it."""
        return _last(self.messages, is_user_turn)

    @cached_property
    def compacted(self) -> int:
        """Index of the last message with a provider's compaction, which stands for all before it; -1 without one."""
        return _last(self.messages, compacted_by)

    def holds_compacted(self, index: int) -> bool:
        """Whether what the compaction at `index` stands for is in view before it, as originals or as notes."""
        return any(
            is_compressed(m) or m.role != "user"
            for m in self.messages[:index]
            if m.role != "system" and not is_pinned(m) and any(COMPACTION not in b.metadata for b in m.content)
        )

    @cached_property
    def unread(self) -> int:
        """Index of the first unread message: results after the model's last message, and the calls they answer.

        A result without a call, such as a second one for the same call, is unread from its own place on.
        """
        start = len(self)
        for i in range(len(self) - 1, self.latest_word, -1):
            if self.messages[i].tool_results:
                start = min(start, i, *self._pairs.partners.get(i, ()))
        return start

    def tool_runs(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Maximal runs [a, b) of tool calls and results inside [start, stop)."""
        for of_tools, run in groupby(range(start, stop), lambda i: is_tool_message(self.messages[i])):
            if of_tools:
                places = [*run]
                yield places[0], places[-1] + 1

    def rounds(self) -> Iterator[Round]:
        """Finished rounds in order: a user message, at least one message, and the first final reply after it.

        A user message without a reply before the next one starts no round (the reference's rule).
        """
        user = -1
        for i, m in enumerate(self.messages):
            if m.role == "user":
                user = i if is_user_turn(m) else user
            elif user >= 0 and is_final_reply(m):
                if i > user + 1:
                    yield Round(user, user + 1, i + 1)
                user = -1

    def closed_spans(self, start: int, stop: int, stays: Callable[[Msg], bool]) -> list[tuple[int, int]]:
        """Closed spans [a, b) of [start, stop), in order, between the messages that must stay.

        Messages paired with one that stays, or with one outside, stay as well.
        """
        first, last, messages = self._pairs.first, self._pairs.last, self.messages
        cuts = [i for i in range(start, stop) if first[i] < start or last[i] >= stop or stays(messages[i])]
        if not cuts:  # as in most rounds
            return [(start, stop)] if start < stop else []
        spans = []
        todo = list(zip([start, *(i + 1 for i in cuts)], [*cuts, stop], strict=True))
        while todo:
            a, b = todo.pop()
            if a >= b:
                continue
            # From both ends, so that a cut costs no more than the shorter of the two parts that it makes.
            ends_first = chain.from_iterable(zip(range(a, b), range(b - 1, a - 1, -1), strict=True))
            cut = next((i for i in islice(ends_first, b - a) if not self._inside(i, a, b)), None)
            if cut is not None:
                todo += [(a, cut), (cut + 1, b)]
            else:
                spans.append((a, b))
        return sorted(spans)

    def _inside(self, index: int, start: int, stop: int) -> bool:
        """Whether all that a message is paired with is in [start, stop)."""
        return self._pairs.first[index] >= start and self._pairs.last[index] < stop
