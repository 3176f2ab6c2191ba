"""Ctrl-C that is not lost.

Python raises KeyboardInterrupt wherever the main thread is. In a destructor it is printed and ignored; in a callback of
pydantic's C code it becomes another error, or is ignored too.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interrupts:
    """Notes each SIGINT while a command runs, besides raising KeyboardInterrupt."""

    came = False
    """Whether there was one."""

    def __enter__(self) -> Self:
        in_main = threading.current_thread() is threading.main_thread()
        self._ours = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._ours:
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (a handler's signature)
        self.came = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if one came and the command went on all the same."""
        if self.came:
            raise KeyboardInterrupt
