"""Runs a tool for the model: answers from the cache if possible, stores a large result, returns a compact message."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autocontext.content.policy import PrunePolicy
from autocontext.content.pruning import PruneResult, aprune_messages, prune_messages
from autocontext.errors import told
from autocontext.flows import Flow, Operation, operation
from autocontext.flows.threads import in_thread, run_to_end
from autocontext.messages import Msg, ToolResultBlock
from autocontext.text.results import result_output

if TYPE_CHECKING:
    from autocontext.cache import ResultCache
    from autocontext.memory import AutoContextMemory
    from autocontext.suite import AutoContext

_HEAD = 1_000
"""Characters of a large result that the message shows."""


@dataclass(slots=True)
class ToolCall:
    """One call in progress. With `cache_options` None the tool runs every time."""

    fn: Callable[..., Any]
    args: Mapping[str, Any]
    call_id: str
    name: str
    cache: ResultCache
    cache_options: Mapping[str, Any] | None
    memory: AutoContextMemory
    context: AutoContext

    def flow(self) -> Flow[Msg]:
        """Look up or run the tool, then build the message; a failing tool gives an error result.

        Results of more than `large_payload_threshold` characters are stored, and the message shows the beginning.
        """
        try:
            value = yield Operation(self._run, self._arun)
        except Exception as e:  # noqa: BLE001 (any tool error is a result: the turn goes on)
            block = ToolResultBlock(id=self.call_id, name=self.name, output=f"Error: {told(e)}", is_error=True)
        else:
            block = _result(value, self.call_id, self.name)
        msg = Msg(role="tool", name=self.name, content=[block])
        large = self.memory.config.large_payload_threshold
        policy = PrunePolicy(keep_last=1, large_tool_chars=large, recent_tool_keep_chars=min(_HEAD, large))
        store, namespace = self.context.content, self.context.namespace(self.memory.session.user_id)
        pruned: PruneResult = yield operation(
            prune_messages, aprune_messages, [msg], store=store, policy=policy, namespace=namespace
        )
        return pruned.messages[0]

    def _run(self) -> Any:
        return copy_context().run(self._do)

    def _do(self) -> Any:
        self._begin()
        if self.cache_options is None:
            return _sync(self.fn)(**self.args)
        return self.cache.get_or_compute(self.name, self.args, _sync(self.fn), **self.cache_options)

    async def _arun(self) -> Any:
        calling, before = self._begin()
        try:
            if self.cache_options is None:
                return await _async(self.fn)(**self.args)
            return await self.cache.aget_or_compute(self.name, self.args, _async(self.fn), **self.cache_options)
        finally:
            calling.set(before)

    def _begin(self) -> tuple[ContextVar[Any], Any]:
        """Let the cache know whose call asks it, for erasing; returns what to set back."""
        from autocontext.cache.invalidating import ToolCall as Call  # noqa: PLC0415 (only needed for caching)
        from autocontext.cache.invalidating import calling  # noqa: PLC0415 (as above)

        before = calling.get()
        calling.set(Call.of(*self.memory.session, self.call_id))
        return calling, before


def _sync(fn: Callable[..., Any]) -> Callable[..., Any]:
    if not inspect.iscoroutinefunction(fn):
        return fn
    return lambda **args: run_to_end(fn(**args))


def _async(fn: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(fn):
        return fn

    async def call(**args: Any) -> Any:
        # In a thread of its own, so a blocking tool does not block the event loop.
        return await in_thread(lambda: fn(**args))

    return call


def _result(value: Any, call_id: str, name: str) -> ToolResultBlock:
    """A tool's return value as a result block: texts and blocks unchanged, other values as JSON."""
    if isinstance(value, ToolResultBlock):
        return value.model_copy(update={"id": call_id, "name": name})
    return ToolResultBlock(id=call_id, name=name, output=result_output(value))
