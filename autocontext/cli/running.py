"""The replay of one conversation: what an agent with this memory would have sent at each of its model calls."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autocontext import AutoContextConfig, AutoContextMemory, ChatModel, CompressionEvent, Msg
from autocontext.cli.conversations import Conversation
from autocontext.cli.proof import Reloaded, reachable, reload_some
from autocontext.testing import assert_valid_chat

Watcher = Callable[["Turn", int], None]
"""Called at each model call with its turn and the number of messages so far."""


class Turn(NamedTuple):
    """Tokens at one model call."""

    sent: int
    """In the context the memory gave."""
    full: int
    """In the whole conversation up to there: what would be sent without compression."""


@dataclass(frozen=True)
class Replayed:
    """What a replay gave. All sizes in tokens, times in seconds."""

    title: str
    line: int
    messages: int
    tokens: int
    """The whole conversation."""
    turns: tuple[Turn, ...]
    events: tuple[CompressionEvent, ...]
    over: int
    """Contexts larger than the window; `why_over` is the memory's own reason for the first."""
    why_over: str
    invalid: int
    """Contexts that strict chat services refuse although the conversation so far was valid; `why_invalid` is the first
    broken rule."""
    why_invalid: str
    came_broken: int
    """Contexts that are invalid because the conversation came so."""
    passes: int
    in_view: int
    """Messages in the working view at the end."""
    intact: int
    """Originals that are byte for byte what was added."""
    reachable: int
    """Originals that an agent finds from the working view, reloading where a text is condensed."""
    reloaded: tuple[Reloaded, ...]
    fallbacks: int
    """Notes written without the model because it gave no usable answer."""
    seconds: float
    longest_wait: float
    """For one get_messages()."""

    @property
    def largest(self) -> int:
        """The largest context that was sent."""
        return max((t.sent for t in self.turns), default=0)

    @property
    def full(self) -> int:
        """The conversation at its last model call."""
        return max((t.full for t in self.turns), default=0)

    @property
    def sent(self) -> int:
        """All contexts together."""
        return sum(t.sent for t in self.turns)

    @property
    def sent_without(self) -> int:
        """The same without compression."""
        return sum(t.full for t in self.turns)

    @property
    def held(self) -> bool:
        """Whether everything that is promised held."""
        whole = self.intact == self.reachable == self.messages
        return whole and not self.over and not self.invalid and all(r.identical for r in self.reloaded)


def dumps(messages: Sequence[Msg]) -> list[str]:
    """Each message, whole, as one line of JSON."""
    return [json.dumps(m.to_dict()) for m in messages]


def replay(conversation: Conversation, config: AutoContextConfig, model: ChatModel | None, watch: Watcher) -> Replayed:
    """Add the messages one by one; before each assistant message ask for the context and check it."""
    before = dumps(conversation.messages)
    run = _Run(conversation.messages, AutoContextMemory(config, model), watch)
    started = time.perf_counter()
    run.all()
    seconds = time.perf_counter() - started
    memory = run.memory
    originals = memory.get_original_memory_msgs()
    visible = reachable(memory)
    return Replayed(
        title=conversation.title,
        line=conversation.line,
        messages=len(before),
        tokens=run.full,
        turns=tuple(run.turns),
        events=tuple(memory.get_compression_events()),
        over=run.over,
        why_over=run.why_over,
        invalid=run.invalid,
        why_invalid=run.why_invalid,
        came_broken=run.came_broken,
        passes=run.passes,
        in_view=len(memory.messages),
        intact=sum(a == b for a, b in zip(before, dumps(originals), strict=False)),
        reachable=sum(d in visible for d in before),
        reloaded=tuple(reload_some(memory, conversation.messages, before)),
        fallbacks=memory.usage.fallbacks,
        seconds=seconds,
        longest_wait=run.longest_wait,
    )


class _Run:
    """A replay on its way."""

    def __init__(self, messages: Sequence[Msg], memory: AutoContextMemory, watch: Watcher) -> None:
        self.messages, self.memory, self.watch = messages, memory, watch
        self.turns: list[Turn] = []
        self.full = self.over = self.invalid = self.came_broken = self.passes = 0
        self.why_over = self.why_invalid = ""
        self.longest_wait = 0.0

    def all(self) -> None:
        size = 0
        for i, msg in enumerate(self.messages):
            if msg.role == "assistant":
                size = self.turn(i)
            self.memory.add_message(msg)
            grown = self.memory.token_count
            self.full += grown - size
            size = grown
        if self.messages[-1].role != "assistant":
            self.turn(len(self.messages))

    def turn(self, done: int) -> int:
        """Ask for the context after `done` messages, as an agent does, and return its size."""
        events = len(self.memory.get_compression_events())
        started = time.perf_counter()
        context = self.memory.get_messages()
        self.longest_wait = max(self.longest_wait, time.perf_counter() - started)
        size = self.memory.token_count
        self.turns.append(Turn(size, self.full))
        if len(self.memory.get_compression_events()) > events:
            self.passes += 1
        if size > self.memory.config.max_token:
            self.over += 1
            self.why_over = self.why_over or self.memory.compress_if_needed().reason
        self.check(context, done)
        self.watch(self.turns[-1], done)
        return self.memory.token_count

    def check(self, context: Sequence[Msg], done: int) -> None:
        problem = _problem(context)
        if problem and _problem(self.messages[:done]):
            self.came_broken += 1
        elif problem:
            self.invalid += 1
            self.why_invalid = self.why_invalid or problem


def _problem(messages: Sequence[Msg]) -> str:
    """The rule that the messages break; "" when they are valid."""
    try:
        assert_valid_chat(messages)
    except AssertionError as e:
        return str(e)
    return ""
