"""How what was last seen long ago counts less."""

from __future__ import annotations

FLOOR = 0.1
"""Share of its worth that a value keeps for ever."""
_HALF = 40.0
"""Messages after which a value that was not seen again has lost half of its worth."""
FADED = 400
"""Messages after which only the floor is left."""
FADING = [FLOOR + 0.5 ** (age / _HALF) for age in range(FADED)]


def fading(number: int, now: int) -> float:
    """The share of its worth that something keeps that was last seen in this message."""
    return FADING[now - number] if now - number < FADED else FLOOR
