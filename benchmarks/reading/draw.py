"""Which readings are laid: kinds of conversations and windows spread evenly, conversation and place drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from chat import Tokens
from replays import Row, source_of

from .contexts import places


class Reading(NamedTuple):
    """One place of one conversation at one window."""

    conversation: Row
    window: int
    place: int
    """Index of the assistant message that comes next."""


def drawn(
    conversations: Sequence[Row], windows: Sequence[int], number: int, dice: random.Random, count: Tokens
) -> list[Reading]:
    """Up to `number` readings, in turn from each kind; a kind gets another window in each round.

    A conversation comes again only when all of its kind were drawn. Fewer than `number` where no place is left.
    """
    kinds: dict[str, list[Row]] = {}
    for conversation in conversations:
        kinds.setdefault(source_of(conversation), []).append(conversation)
    names = sorted(kinds)
    dice.shuffle(names)
    for name in names:
        dice.shuffle(kinds[name])
    readings: list[Reading] = []
    taken: set[tuple[str, int, int]] = set()
    for turn in range(number):
        before = len(readings)
        for n, name in enumerate(names):
            if len(readings) == number:
                return readings
            order = [windows[(n + turn + k) % len(windows)] for k in range(len(windows))]
            if reading := _one(kinds[name], order, taken, dice, count):
                readings.append(reading)
                taken.add((reading.conversation["id"], reading.window, reading.place))
        if len(readings) == before:
            break
    return readings


def _one(
    kind: list[Row], windows: Sequence[int], taken: set[tuple[str, int, int]], dice: random.Random, count: Tokens
) -> Reading | None:
    """A free place in the kind's next conversation that has one; the conversation goes to the end of the line."""
    for window in windows:
        for conversation in list(kind):
            messages = conversation["messages"]
            free = [p for p in places(messages, window, count) if (conversation["id"], window, p) not in taken]
            if free:
                kind.remove(conversation)
                kind.append(conversation)
                return Reading(conversation, window, dice.choice(free))
    return None
