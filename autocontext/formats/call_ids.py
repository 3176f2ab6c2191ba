"""What the ids of calls are for, which say which result answers which call; and ids that a service takes.

In the memory every id stays as it came: others are given to the copies of messages that a request sends.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_not
from typing import Any

from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock


def with_own_ids(
    messages: Sequence[Msg], fits: Callable[[ToolUseBlock], bool] = lambda use: use.id != "", *, in_all: bool = False
) -> list[Msg]:
    """The messages with another id in calls whose id does not fit, or that an earlier call of their message has.

    `in_all`: that an earlier call of any message has. Results go with their calls: in their order where an id stands
    several times, and an id that is used again belongs to the latest message before. The same id in the same place
    gets the same new one, so that the provider's cache stays valid.
    """
    all_uses = [use for msg in messages for use in msg.tool_uses]
    if len({use.id for use in all_uses}) == len(all_uses) and all(map(fits, all_uses)):
        return list(messages)
    used, times = set[str](), Counter[str]()
    answers: dict[str, deque[dict[str, str]]] = {}
    made: list[Msg] = []
    for msg in messages:
        content: list[Any] = [_answered(block, answers) for block in msg.content]
        ids = [use.id for use in msg.tool_uses]
        several = len({*ids}) < len(ids)
        if ids and not in_all:
            used, times = set(), Counter()
        answers.update((id_, deque()) for id_ in ids)
        for at, use in enumerate(content) if ids else ():
            if isinstance(use, ToolUseBlock):
                own = use
                while own.id in used or not fits(own):
                    own = use.model_copy(update={"id": _made(use.id, times[use.id])})
                    times[use.id] += 1
                used.add(own.id)
                content[at] = own
                # A result without a name of its own got that of the last call with this id.
                answers[use.id].append({"id": own.id, "name": use.name} if several else {"id": own.id})
        changed = any(map(is_not, content, msg.content))
        made.append(msg.model_copy(update={"content": tuple(content)}) if changed else msg)
    return made


def named_results(msgs: Iterable[Msg], names: dict[str, str]) -> list[Msg]:
    """The messages, with the name of its tool in each result without one; `names` are those of earlier calls, by id."""
    named: list[Msg] = []
    for msg in msgs:  # an id may be used again: a result belongs to the latest call before it
        named.append(_named(msg, names))
        names.update((use.id, use.name) for use in msg.tool_uses)
    return named


def _named(msg: Msg, names: Mapping[str, str]) -> Msg:
    if not any(result.id in names and not result.name for result in msg.tool_results):
        return msg
    content = [
        block.model_copy(update={"name": block.name or names.get(block.id, "")})
        if isinstance(block, ToolResultBlock)
        else block
        for block in msg.content
    ]
    return msg.model_copy(update={"content": tuple(content)})


def _made(call_id: str, number: int) -> str:
    digest = hashlib.sha256(f"{number}:{call_id}".encode("utf-8", "backslashreplace")).hexdigest()
    return f"call_{digest[:24]}"


def _answered(block: Any, answers: Mapping[str, deque[dict[str, str]]]) -> Any:
    """The block; a result with the id of the call that it answers."""
    waiting = answers.get(block.id) if isinstance(block, ToolResultBlock) else None
    if not waiting:
        return block
    about = waiting.popleft() if len(waiting) > 1 else waiting[0]
    same = all(getattr(block, key) == value for key, value in about.items())
    return block if same else block.model_copy(update=about)
