"""Running a tool for the model: found in the cache or run once, its large result stored, a compact message made."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from autocontext.content.policy import PrunePolicy
from autocontext.content.pruning import aprune_messages, prune_messages
from autocontext.flows.threads import in_thread, run_to_end
from autocontext.messages import (
    AudioBlock,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    VideoBlock,
)
from autocontext.suite.steps import Flow, Step

if TYPE_CHECKING:
    from autocontext.cache import ResultCache
    from autocontext.content import ContentStore

_OUTPUT_BLOCKS = (TextBlock, ThinkingBlock, ImageBlock, AudioBlock, VideoBlock)
_HEAD = 1_000
"""Characters of a large result that the model sees at once."""


@dataclass(slots=True)
class ToolCall:
    """One call on its way; `cached` are the cache's options, None to run the tool each time."""

    fn: Callable[..., Any]
    args: Mapping[str, Any]
    call_id: str
    name: str
    cache: ResultCache
    cached: Mapping[str, Any] | None
    content: ContentStore
    namespace: str
    large: int
    """Characters; a longer result is stored and shown by its beginning."""

    def flow(self) -> Flow[Msg]:
        """Look up or run, then make the message; a tool that fails gives an error result."""
        try:
            value = yield Step(self._run, self._arun)
        except Exception as e:  # noqa: BLE001 (whatever a tool raises is its result: the turn goes on)
            block = ToolResultBlock(id=self.call_id, name=self.name, output=_error(e), is_error=True)
        else:
            block = _result(value, self.call_id, self.name)
        msg = Msg(role="tool", name=self.name, content=[block])
        head = min(_HEAD, self.large)
        policy = PrunePolicy(keep_last=1, large_tool_chars=self.large, recent_tool_keep_chars=head)
        options: dict[str, Any] = {"store": self.content, "policy": policy, "namespace": self.namespace}
        compact = yield Step(partial(prune_messages, [msg], **options), partial(aprune_messages, [msg], **options))
        compact_msg: Msg = compact.messages[0]
        return compact_msg

    def _run(self) -> Any:
        if self.cached is None:
            return _sync(self.fn)(**self.args)
        return self.cache.get_or_compute(self.name, self.args, _sync(self.fn), **self.cached)

    async def _arun(self) -> Any:
        if self.cached is None:
            return await _async(self.fn)(**self.args)
        return await self.cache.aget_or_compute(self.name, self.args, _async(self.fn), **self.cached)


def _sync(fn: Callable[..., Any]) -> Callable[..., Any]:
    if not inspect.iscoroutinefunction(fn):
        return fn
    return lambda **args: run_to_end(fn(**args))


def _async(fn: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(fn):
        return fn

    async def call(**args: Any) -> Any:
        # A tool may block for as long as it likes: it has a thread of its own.
        return await in_thread(lambda: fn(**args))

    return call


def _error(error: Exception) -> str:
    said = str(error).strip()
    return f"Error: {type(error).__name__}: {said}" if said else f"Error: {type(error).__name__}"


def _result(value: Any, call_id: str, name: str) -> ToolResultBlock:
    """What a tool returned as a result block: texts and blocks as they are, everything else as JSON."""
    if isinstance(value, ToolResultBlock):
        return value.model_copy(update={"id": call_id, "name": name})
    if isinstance(value, list | tuple) and value and all(isinstance(v, _OUTPUT_BLOCKS) for v in value):
        return ToolResultBlock(id=call_id, name=name, output=value)
    if isinstance(value, _OUTPUT_BLOCKS):
        return ToolResultBlock(id=call_id, name=name, output=[value])
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return ToolResultBlock(id=call_id, name=name, output=text)
