"""The calls of one message: they run at the same time, and each result is stored as soon as it is there.

Whatever ends a run (Ctrl-C, a tool that raises SystemExit, a cancelled task), the results that are there are stored
first. A call that has none by then is answered in the next request: see `formats.sendable`.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from contextvars import copy_context
from itertools import takewhile
from queue import Empty, SimpleQueue

from autocontext.errors import AutoContextError
from autocontext.flows import lazy
from autocontext.flows.threads import LONGEST_WAIT, in_thread
from autocontext.loop.tools import Toolset
from autocontext.memory import AutoContextMemory
from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock
from autocontext.text.results import Output


class Calls:
    """The calls of the message `asked`, the last one in the memory."""

    def __init__(self, memory: AutoContextMemory, tools: Toolset, asked: Msg) -> None:
        self._memory, self._tools, self._asked = memory, tools, asked
        self._finished: list[tuple[ToolUseBlock, tuple[Output, bool] | BaseException]] = []
        """In the order in which they finished: the output and whether it is an error, or what ended the tool."""
        self._stored = 0
        """How many of them are in the memory."""
        self._begun = -1
        """The one whose storing has begun: an interrupt may come when it is in the memory and not yet in `_stored`."""
        self._lock = threading.Lock()

    def run(self) -> None:
        """Run the calls in threads, to the end; then raise what a tool raised that is no Exception.

        The threads are daemons: a tool that hangs keeps no program from ending.
        """
        finished: SimpleQueue[None] = SimpleQueue()

        def work(use: ToolUseBlock) -> None:
            try:
                self._finished.append((use, self._tools.call(use)))
            except BaseException as e:  # noqa: BLE001 (raised by `run`)
                self._finished.append((use, e))
            finished.put(None)

        try:
            for use in self._asked.tool_uses:
                threading.Thread(target=copy_context().run, args=(work, use), daemon=True).start()
            left = len(self._asked.tool_uses)
            while left:
                with suppress(Empty):
                    finished.get(timeout=LONGEST_WAIT)
                    left -= 1
                    with suppress(AutoContextError):  # tried again when the others have finished
                        self._store()
            self._store()
        except BaseException:
            with suppress(AutoContextError):  # what ends the run is what the caller hears of
                self._store()
            raise
        self._raise()

    async def arun(self) -> None:
        """`run` for asynchronous callers: coroutine functions are awaited, other tools run in threads."""
        asyncio = lazy.asyncio

        async def work(use: ToolUseBlock) -> None:
            try:
                self._finished.append((use, await self._tools.acall(use)))
            except BaseException as e:
                if asyncio.current_task().cancelling():  # type: ignore[union-attr]  # this runs in a task
                    raise
                self._finished.append((use, e))

        tasks = [asyncio.create_task(work(use)) for use in self._asked.tool_uses]
        try:
            running = set(tasks)
            while running:
                _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                with suppress(AutoContextError):
                    await in_thread(self._store)
            await in_thread(self._store)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)  # until they have cleaned up
            with suppress(AutoContextError):
                await in_thread(self._store)
            raise
        self._raise()

    def _store(self) -> None:
        """Store each result that is there and not in the memory yet."""
        with self._lock:
            while self._stored < len(self._finished):
                number = self._stored
                use, outcome = self._finished[number]
                if not isinstance(outcome, BaseException) and not (self._begun == number and self._is_stored(number)):
                    self._begun = number
                    output, failed = outcome
                    block = ToolResultBlock(id=use.id, name=use.name, output=output, is_error=failed)
                    self._memory.add_message(Msg(role="tool", content=(block,)))
                self._stored = number + 1

    def _is_stored(self, number: int) -> bool:
        """Whether the memory has the result of this number: only asked after a failure, as it reads every message."""
        id_ = self._finished[number][0].id
        before = [outcome for use, outcome in self._finished[:number] if use.id == id_]
        since = takewhile(lambda m: m.id != self._asked.id, reversed(self._memory.get_original_memory_msgs()))
        there = sum(block.id == id_ for msg in since for block in msg.tool_results)
        return there > sum(not isinstance(outcome, BaseException) for outcome in before)

    def _raise(self) -> None:
        for _, outcome in self._finished:
            if isinstance(outcome, BaseException):
                raise outcome
