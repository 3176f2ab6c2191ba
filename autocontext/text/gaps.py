"""When messages came, for agents that work for days: moments in UTC, and the gaps between messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_LEAST = timedelta(hours=1)
"""A shorter pause says nothing."""


def moment(timestamp: str) -> str:
    """A message's time, as "2026-11-26 09:12 UTC"; "" if it is not one."""
    time = parsed(timestamp)
    return f"{time:%Y-%m-%d %H:%M} UTC" if time is not None else ""


def gap(before: str, after: str) -> str:
    """How much later a message came, and when: "3 days later, 2026-11-26 09:12 UTC"; "" up to an hour.

    Takes the timestamps of the message before it and its own. One without a zone is in UTC.
    """
    start, end = parsed(before), parsed(after)
    if start is None or end is None or end - start <= _LEAST:
        return ""
    hours = (end - start) // timedelta(hours=1)
    count, unit = (hours // 24, "day") if hours >= 24 else (hours, "hour")
    return f"{count} {unit}{'s' if count != 1 else ''} later, {moment(after)}"


def parsed(timestamp: str) -> datetime | None:
    """A message's time; None if it is not one."""
    try:
        time = datetime.fromisoformat(timestamp)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
