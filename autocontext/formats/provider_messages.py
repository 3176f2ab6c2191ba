"""Messages of providers in and out of a memory."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from autocontext.errors import ContextOverflowError, InvalidMessage, short
from autocontext.flows import DoesSteps, Flow, compute, operation, sync_and_async
from autocontext.flows.logs import logger
from autocontext.formats.anthropic_messages import sendable_messages
from autocontext.formats.call_ids import named_results, with_own_ids
from autocontext.formats.openai_chat import write_chat
from autocontext.formats.openai_responses import KEY, to_responses
from autocontext.formats.reading import Message, read_messages
from autocontext.formats.sendable import sendable
from autocontext.formats.strict import allowed, strict_chat, strict_items
from autocontext.messages import Msg, with_words_of_user

_LONGEST_ID = 64
"""Characters of a call's id that the Responses API takes."""
_WORDS = r"(.{1,20000}?)"
_MARKED = re.compile(
    # Claude Code and OpenCode
    r"<system-reminder>\n?The user sent (?:a new message while you were working|the following message):\n" + _WORDS +
    r"(?:\n\s*(?:IMPORTANT: After completing your current task|This is how Claude Code surfaces messages"
    r"|Please address this message and continue)[^<\n]{0,1000})?\s*</system-reminder>"
    # Claude Code, later
    r"|The user sent a new message while you were working:\n" + _WORDS + r"\n\nThis is how Claude Code surfaces"
    # Hermes
    r"|\[OUT-OF-BAND USER MESSAGE\b[^\]\n]{0,1000}\]\n" + _WORDS + r"\n\[/OUT-OF-BAND USER MESSAGE\]",
    re.DOTALL,
)  # fmt: skip


def marked_words(text: str) -> list[str]:
    """What stands between the marks in a result's text."""
    found = (next(filter(None, match.groups())).strip() for match in _MARKED.finditer(text))
    return [words for words in found if words]


def with_said(messages: Sequence[Msg], said: str | bool) -> Sequence[Msg]:
    """The messages, with the user's words in their results named. Raises InvalidMessage if no result has the words."""
    if said is True:
        return with_words_of_user(messages, marked_words)
    if not said:
        return messages
    if not isinstance(said, str) or not said.strip():
        raise InvalidMessage(f"said_by_user: {short(said)} must be the user's words as the result has them, or True")
    if not any(said in result.text for m in messages for result in m.tool_results):
        raise InvalidMessage(
            f"said_by_user: no result among these messages has the text {short(said)}; pass the words as it has them"
        )
    return with_words_of_user(messages, lambda text: [said] if said in text else [])


T = TypeVar("T")
_log = logger("autocontext.messages")  # the name that docs/production.md gives


class ProviderMessages(DoesSteps):
    """Takes dicts in providers' formats, and gives the context in them.

    What comes out is what a strict service takes: a call without a result is answered by a line that says so
    (`adapters.sendable`).
    """

    unsent: set[str]
    """Names of fields that were added and that no provider takes; each is warned of once."""

    # What the memory has:
    _names_of_calls: Callable[[AbstractSet[str]], dict[str, str]]
    """By id, the tool of the latest call in the working view that has it."""
    add_messages: Callable[[Iterable[Msg]], None]
    get_messages: Callable[[], list[Msg]]
    aget_messages: Callable[[], Awaitable[list[Msg]]]
    overflow: Callable[[], str]
    """Why the view does not fit its window; "" if it does."""
    make_readable: Callable[[str], None]
    """Puts the originals of compactions that this provider ("openai", "anthropic", "") cannot read into the view."""
    amake_readable: Callable[[str], Awaitable[None]]

    def as_sent(self, messages: Iterable[Msg]) -> list[Msg]:
        """The messages of a request in a form that strict services take: see `adapters.sendable`."""
        return sendable(messages)

    def add(self, messages: Message | Iterable[Message], *, said_by_user: str | bool = False) -> None:
        """Add one message or several, all or none: Msgs, or dicts (or SDK objects) in a provider's format.

        OpenAI chat messages, items of the Responses API and Anthropic messages are told apart by their shape.

            memory.add({"role": "user", "content": "Hello"})

        `said_by_user`: the user's words inside a tool's result, where an agent puts what was said while a tool ran.
        They count as the user's in notes, and stay in view when the result is shortened. True takes them from the marks
        of Claude Code, OpenCode and Hermes; pass it only if no tool can have written those marks.

        Fields that no provider takes are stored and not sent; the first time, a warning names them. Raises
        InvalidMessage naming index and key, and the nearest field for a misspelt one; also if no result has the words.
        """
        self.add_messages(with_said(self._with_tool_names(self.read(messages)), said_by_user))

    def read(self, messages: Message | Iterable[Message], *, by_service: bool = False) -> list[Msg]:
        """The messages that `add` would add, with the same warning and errors.

        `by_service`: they are a service's own answer as dicts, whose fields are neither warned of nor refused.
        """
        unsent: list[str] = []
        msgs = read_messages(messages, unsent, by_service=by_service)
        if new := {place.rpartition(".")[2]: place for place in unsent if place.rpartition(".")[2] not in self.unsent}:
            self.unsent.update(new)
            _log.warning(
                "%s: no provider takes %s; stored, and left out of requests. Leave such fields out, or add the SDK's "
                "own object",
                ", ".join(new.values()),
                "this field" if len(new) == 1 else "these fields",
            )
        return msgs

    def _to_openai(self, *, strict: bool = False) -> Flow[list[dict[str, Any]]]:
        """The context as OpenAI chat messages; compresses first, as `get_messages` does.

        A context that does not fit its window is given all the same, with a warning; `strict` raises
        ContextOverflowError naming the largest part instead.
        """
        return (yield from self._context("", chat_request, strict=strict))

    to_openai, ato_openai = sync_and_async(_to_openai)

    def _to_responses(self, *, strict: bool = False) -> Flow[list[dict[str, Any]]]:
        """The context as items of OpenAI's Responses API; compresses first."""
        return (yield from self._context("openai", items_request, strict=strict))

    to_responses, ato_responses = sync_and_async(_to_responses)

    def _to_anthropic(self, *, strict: bool = False) -> Flow[list[dict[str, Any]]]:
        """The context as Anthropic messages; compresses first. `adapters.anthropic_messages.request` adds `system`."""
        return (yield from self._context("anthropic", sendable_messages, strict=strict))

    to_anthropic, ato_anthropic = sync_and_async(_to_anthropic)

    def _context(self, provider: str, convert: Callable[[list[Msg]], T], *, strict: bool) -> Flow[T]:
        yield operation(self.make_readable, self.amake_readable, provider)
        messages: list[Msg] = yield operation(self.get_messages, self.aget_messages)

        def written() -> T:
            if strict and (reason := self.overflow()):
                raise ContextOverflowError(reason)
            return convert(self.as_sent(messages))

        # Async in a thread: `as_sent` may wait for another thread's change, and a long context takes time.
        return (yield from compute(written))

    def _with_tool_names(self, msgs: list[Msg]) -> list[Msg]:
        """The messages, with the tool's name in results whose call was added earlier, or stands before them here."""
        called, before = set[str](), set[str]()
        for msg in msgs:
            before |= {block.id for block in msg.tool_results if not block.name} - called
            called |= {use.id for use in msg.tool_uses}
        return named_results(msgs, self._names_of_calls(before) if before else {})


def chat_request(msgs: list[Msg]) -> list[dict[str, Any]]:
    """Messages that are `sendable` as OpenAI chat messages that strict services take."""
    # Long ids stay as they are: this format goes back to the service that gave them, and some hold what it needs.
    sent = with_own_ids(msgs)
    return strict_chat(write_chat(sent, media_after=True), allowed(sent))


def items_request(msgs: list[Msg]) -> list[dict[str, Any]]:
    """Messages that are `sendable` as items that the Responses API takes."""
    # An id that came from this API goes back to it as it came.
    sent = with_own_ids(msgs, lambda use: KEY in use.metadata or 1 <= len(use.id) <= _LONGEST_ID)
    return strict_items(to_responses(sent), allowed(sent))
