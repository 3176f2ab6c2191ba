"""Messages of providers in and out of a memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from autocontext.flows.threads import in_thread
from autocontext.formats.anthropic_messages import sendable_messages
from autocontext.formats.openai_chat import to_openai
from autocontext.formats.openai_responses import to_responses
from autocontext.formats.reading import Message, read_messages
from autocontext.formats.sendable import sendable
from autocontext.messages import Msg, ToolResultBlock

T = TypeVar("T")


class ProviderMessages(ABC):
    """Takes dicts in providers' formats, and gives the context in them.

    What comes out is what a strict service takes: a call without a result is answered by a line that says so
    (`adapters.sendable`).
    """

    @property
    @abstractmethod
    def messages(self) -> list[Msg]:
        """The working view, without compressing."""

    @abstractmethod
    def add_messages(self, msgs: Iterable[Msg]) -> None:
        """Add messages at the end, in order, all or none."""

    @abstractmethod
    def get_messages(self) -> list[Msg]:
        """What the model should see; compresses first if a threshold is reached."""

    @abstractmethod
    async def aget_messages(self) -> list[Msg]:
        """What the model should see; compresses first, without blocking the event loop."""

    @abstractmethod
    async def amake_readable(self, provider: str) -> None:
        """`make_readable` without blocking the event loop."""

    @abstractmethod
    def make_readable(self, provider: str) -> None:
        """Put the originals of compactions that this provider ("openai", "anthropic", "") cannot read into the view."""

    def as_sent(self, messages: Iterable[Msg]) -> list[Msg]:
        """The messages of a request in a form that strict services take: see `adapters.sendable`."""
        return sendable(messages)

    def add(self, messages: Message | Iterable[Message]) -> None:
        """Add one message or several, all or none: Msgs, or dicts (or SDK objects) in a provider's format.

        OpenAI chat messages, items of the Responses API and Anthropic messages are told apart by their shape.

            memory.add({"role": "user", "content": "Hello"})

        Raises InvalidMessage naming index and key.
        """
        self.add_messages(self._with_tool_names(read_messages(messages)))

    def to_openai(self) -> list[dict[str, Any]]:
        """The context as OpenAI chat messages; compresses first, as `get_messages` does."""
        return self._context("", to_openai)

    async def ato_openai(self) -> list[dict[str, Any]]:
        """`to_openai` without blocking the event loop."""
        return await self._acontext("", to_openai)

    def to_responses(self) -> list[dict[str, Any]]:
        """The context as items of OpenAI's Responses API; compresses first."""
        return self._context("openai", _items)

    async def ato_responses(self) -> list[dict[str, Any]]:
        """`to_responses` without blocking the event loop."""
        return await self._acontext("openai", _items)

    def to_anthropic(self) -> list[dict[str, Any]]:
        """The context as Anthropic messages; compresses first. `adapters.anthropic_messages.request` adds `system`."""
        return self._context("anthropic", sendable_messages)

    async def ato_anthropic(self) -> list[dict[str, Any]]:
        """`to_anthropic` without blocking the event loop."""
        return await self._acontext("anthropic", sendable_messages)

    def _context(self, provider: str, convert: Callable[[list[Msg]], T]) -> T:
        self.make_readable(provider)
        return convert(self.as_sent(self.get_messages()))

    async def _acontext(self, provider: str, convert: Callable[[list[Msg]], T]) -> T:
        await self.amake_readable(provider)
        messages = await self.aget_messages()
        # In a thread: `as_sent` may wait for another thread's change, and a long context takes time.
        return await in_thread(lambda: convert(self.as_sent(messages)))

    def _with_tool_names(self, msgs: list[Msg]) -> list[Msg]:
        """The messages, with the tool's name in results whose call was added earlier."""
        if all(block.name for msg in msgs for block in msg.tool_results):
            return msgs
        names: dict[str, str] = {}
        for msg in self.messages:
            names.update((use.id, use.name) for use in msg.tool_uses)
        named: list[Msg] = []
        for msg in msgs:  # an id may be used again: a result belongs to the latest call before it
            named.append(_named(msg, names))
            names.update((use.id, use.name) for use in msg.tool_uses)
        return named


def _items(msgs: list[Msg]) -> list[dict[str, Any]]:
    """Responses items without a key that the API gives and does not take."""
    items = to_responses(msgs)
    return [{k: v for k, v in i.items() if k != "created_by" or i.get("type") != "compaction"} for i in items]


def _named(msg: Msg, names: dict[str, str]) -> Msg:
    blocks: Sequence[Any] = [
        block.model_copy(update={"name": names[block.id]})
        if isinstance(block, ToolResultBlock) and not block.name and block.id in names
        else block
        for block in msg.content
    ]
    return msg.model_copy(update={"content": tuple(blocks)}) if msg.tool_results else msg
