"""The parts of a memory that the tools work on, and the numbers that an agent names."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autocontext.compression.runner import PassRunner
from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig
from autocontext.history import numbering
from autocontext.history.log import Log
from autocontext.history.runs import Runs
from autocontext.stores.protocol import SessionKey, SessionStore
from autocontext.text.rendering import one_line
from autocontext.tools import as_text

if TYPE_CHECKING:
    from autocontext.stores.journal import Journal

BUSY = "a compression of this conversation is running or has just ended; call the tool again."
_TRUE = frozenset({"true", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "no", "n", "off", "0", "", "none", "null"})
_DIGITS = re.compile(r"[0-9]+")
_ECHO = 80
"""Characters of an argument that an error repeats."""


class Refusal(Exception):
    """What the agent asked for cannot be done: one sentence that says why, and the way out. Nothing has changed."""


@dataclass(frozen=True)
class MemoryParts:
    """What a memory lends to its tools; `lock` is held while they read `log`, before anything that follows it."""

    token_sum: TokenSum
    config: AutoContextConfig
    runner: PassRunner
    journal: Journal
    lock: threading.RLock
    session: SessionKey
    store: SessionStore | None

    @property
    def log(self) -> Log:
        """The log, whole, also after an interrupt."""
        return self.journal.log

    def numbers(self, argument: Any) -> Runs:
        """The message numbers in an argument. Raises Refusal for anything else, and for numbers that do not exist."""
        text = as_text(argument)
        total = len(self.log.original)
        found = numbering.parse(text, total)
        there = f"m1 to {numbering.name(total)}" if total else "no messages yet"
        if found is None:
            raise Refusal(
                f'{one_line(text)[:_ECHO]!r} names no messages. Pass numbers such as "m12", "m12-m40" or "m1,m7"; this '
                f"conversation has {there}."
            )
        beyond = [digits for digits in _DIGITS.findall(text) if len(digits) > 15 or int(digits) > total]
        if beyond or not found:
            raise Refusal(f"there is no m{(beyond or ['0'])[0][:_ECHO]}: this conversation has {there}.")
        return found

    def in_view(self) -> dict[int, int]:
        """The index in view of each original that is there as it was said, by number."""
        places = self.log.place
        return {places[id_] + 1: i for i, id_ in enumerate(self.log.view_ids) if id_ in places}


def as_bool(name: str, argument: Any) -> bool:
    """True or false, which some models pass as a text or a number. Raises Refusal for anything else."""
    text = as_text(argument)
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise Refusal(f"{name} must be true or false, and is {one_line(text)[:_ECHO]!r}.")


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 message", "1,200 tokens"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
