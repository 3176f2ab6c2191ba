"""Histories that services would refuse, made fit to send: for what a crash, a timeout or a trimmed list leaves behind.

`sendable` is for requests only. What it repairs stays as it is in the memory, where nothing is ever dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, as_messages
from autocontext.text.chat_rules import first_violation

INTERRUPTED = (
    "Error: The process ended before a result, or the turn was cancelled. This call may have taken effect: check that "
    "before you repeat it."
)
"""What the model reads as the result of a call that has none."""


def sendable(messages: Iterable[Msg]) -> list[Msg]:
    """The same messages where strict services take them; otherwise repaired copies.

    A call without a result is answered by `INTERRUPTED`, a result that stands too late is moved behind its call, one
    whose call is gone becomes a text of the user's, and an assistant message that says nothing is left out.
    """
    msgs = list(as_messages(messages))
    return msgs if first_violation(msgs) is None else list(_repaired(msgs))


def _repaired(msgs: list[Msg]) -> Iterator[Msg]:
    taken: set[tuple[int, int]] = set()
    for at, msg in enumerate(msgs):
        said = tuple(b for b in msg.content if not isinstance(b, ToolResultBlock))
        if msg.tool_uses:
            yield msg if len(said) == len(msg.content) and msg.role == "assistant" else _with(msg, "assistant", said)
            for use in msg.tool_uses:
                yield _result(msgs, at, use, taken)
            continue
        for number, block in enumerate(msg.content):
            if isinstance(block, ToolResultBlock) and (at, number) not in taken:
                yield _orphan(msg, number, block)
        if not msg.tool_results:
            if msg.role != "assistant" or _says(msg):
                yield msg
        elif any(not isinstance(b, ThinkingBlock) for b in said):
            yield _with(msg, "user", said)


def _result(msgs: list[Msg], at: int, use: ToolUseBlock, taken: set[tuple[int, int]]) -> Msg:
    """The first result for a call, wherever it stands behind it before the id is used again."""
    for later in range(at + 1, len(msgs)):
        msg = msgs[later]
        for number, block in enumerate(msg.content):
            if isinstance(block, ToolResultBlock) and block.id == use.id and (later, number) not in taken:
                taken.add((later, number))
                return msg if msg.role == "tool" and len(msg.content) == 1 else _with(msg, "tool", (block,), number)
        if any(again.id == use.id for again in msg.tool_uses):
            break
    block = ToolResultBlock(id=use.id, name=use.name, output=INTERRUPTED, is_error=True)
    return Msg(id=f"{msgs[at].id}.{use.id}", role="tool", content=(block,), timestamp=msgs[at].timestamp)


def _orphan(msg: Msg, number: int, block: ToolResultBlock) -> Msg:
    text = f"[What the tool {block.name or 'called before'} said, in an earlier part that is not shown:]\n{block.text}"
    return _with(msg, "user", (TextBlock(text=text),), number)


def _with(msg: Msg, role: str, content: tuple[object, ...], number: int = 0) -> Msg:
    own = f"{msg.id}.{number}" if number else msg.id
    return Msg(id=own, role=role, content=content, timestamp=msg.timestamp, metadata=msg.metadata)  # type: ignore[arg-type]  # checked by the model


def _says(msg: Msg) -> bool:
    return any(b.text.strip() if isinstance(b, TextBlock) else not isinstance(b, ThinkingBlock) for b in msg.content)
