"""Replays a conversation: what an agent with this memory would have sent at each of its model calls."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autocontext import AutoContextConfig, AutoContextMemory, ChatModel, CompressionEvent, Msg
from autocontext.cli.conversations import Conversation
from autocontext.cli.proof import ReloadCheck, reachable, reload_some
from autocontext.events import Health, UsageTotals
from autocontext.text.chat_rules import first_violation

Watcher = Callable[["ModelCall", int], None]
"""Receives each model call and the number of messages so far."""


class ModelCall(NamedTuple):
    """Tokens of one model call."""

    sent: int
    """In the context from the memory."""
    full: int
    """In the conversation so far: what would be sent without compression."""


@dataclass
class ReplayResult:
    """The result of a replay. Sizes are tokens, times seconds."""

    title: str
    line: int
    messages: int
    tokens: int = 0
    """In the whole conversation."""
    calls: list[ModelCall] = field(default_factory=list)
    events: list[CompressionEvent] = field(default_factory=list)
    over: int = 0
    """Contexts larger than the window; `why_over` is the memory's reason for the first."""
    why_over: str = ""
    invalid: list[str] = field(default_factory=list)
    """Of each context that breaks a rule of strict chat services although the conversation did not, the first rule."""
    came_broken: list[str] = field(default_factory=list)
    """Of each context that is invalid because the conversation is, the first rule that this breaks."""
    passes: int = 0
    in_view: int = 0
    """Messages in the final working view."""
    intact: int = 0
    """Originals identical to what was added, byte for byte."""
    reachable: int = 0
    """Originals that an agent can reach from the final view by reloading notes."""
    reloaded: list[ReloadCheck] = field(default_factory=list)
    usage: UsageTotals = field(default_factory=UsageTotals)
    """Of the model that writes the notes."""
    health: Health = field(default_factory=Health)
    seconds: float = 0.0
    longest_wait: float = 0.0
    """Of a single get_messages()."""

    @property
    def largest(self) -> int:
        """The largest context sent."""
        return max((t.sent for t in self.calls), default=0)

    @property
    def full(self) -> int:
        """Tokens of the conversation at its last model call."""
        return max((t.full for t in self.calls), default=0)

    @property
    def sent(self) -> int:
        """Tokens of all contexts together."""
        return sum(t.sent for t in self.calls)

    @property
    def sent_without(self) -> int:
        """The same without compression."""
        return sum(t.full for t in self.calls)

    @property
    def passed(self) -> bool:
        """Whether every check passed: nothing lost, all contexts valid and within the window."""
        whole = self.intact == self.reachable == self.messages
        return whole and not self.over and not self.invalid and all(r.identical for r in self.reloaded)


def dumps(messages: Sequence[Msg]) -> list[str]:
    """Each message as one line of JSON."""
    return [json.dumps(m.to_dict()) for m in messages]


def replay(
    conversation: Conversation, config: AutoContextConfig, model: ChatModel | None, watch: Watcher
) -> ReplayResult:
    """Add the messages one by one; before each assistant message ask for the context and check it."""
    messages = conversation.messages
    before = dumps(messages)
    memory = AutoContextMemory(config, model)
    result = ReplayResult(conversation.title, conversation.line, len(messages))
    started = time.perf_counter()
    size = 0
    for i, msg in enumerate(messages):
        if msg.role == "assistant":
            size = _call(memory, messages[:i], result, watch)
        memory.add_message(msg)
        result.tokens += memory.token_count - size
        size = memory.token_count
    if messages[-1].role != "assistant":
        _call(memory, messages, result, watch)
    result.seconds = time.perf_counter() - started
    originals = memory.get_original_memory_msgs()
    visible = reachable(memory)
    result.events = memory.get_compression_events()
    result.in_view = len(memory.messages)
    result.intact = sum(a == b for a, b in zip(before, dumps(originals), strict=False))
    result.reachable = sum(line in visible for line in before)
    result.reloaded = reload_some(memory, messages, before)
    result.usage, result.health = memory.usage, memory.health()
    return result


def _call(memory: AutoContextMemory, messages: Sequence[Msg], result: ReplayResult, watch: Watcher) -> int:
    """Ask for the context after these messages, as an agent does, and check it; returns the size of the view."""
    events = len(memory.get_compression_events())
    started = time.perf_counter()
    context = memory.get_messages()
    result.longest_wait = max(result.longest_wait, time.perf_counter() - started)
    size = memory.token_count
    result.calls.append(ModelCall(size, result.tokens))
    result.passes += len(memory.get_compression_events()) > events
    if size > memory.config.max_token:
        result.over += 1
        result.why_over = result.why_over or memory.compress_if_needed().reason
    problem = first_violation(context)
    broken = first_violation(messages) if problem else None
    if broken:
        result.came_broken.append(broken)
    elif problem:
        result.invalid.append(problem)
    watch(result.calls[-1], len(messages))
    return memory.token_count
