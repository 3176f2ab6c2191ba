"""What a process keeps of a user's sessions between searches: their segments, and the words of the short ones.

Sessions are in shards, each a range of their ids, so that after a change a few are read again and not all. Of a shard
the words of its short sessions are one text: a search for a rare word finds the sessions that may have it in one go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

Key: TypeAlias = tuple[str, str, int, int, int, int]
"""User, session, identity, edition, start and until: with these, the content of a segment never changes."""

Outline: TypeAlias = tuple[int, int, bytes]
"""Of the only segment of a session: messages, their words, and a text with all different ones. A plain tuple, which the
garbage collector need not look at."""

Sums: TypeAlias = tuple[int, ...]
LOW = 2**32 - 1
"""The lower half of a number, so that no sum is too large for a database."""
_PER_KEY = 300
"""Bytes of a session beside its words."""


class Shard:
    """Some sessions of a user: the segments of each, and what is known of those with one short segment."""

    def __init__(self, keys: Sequence[Key], outlines: Mapping[Key, Outline]) -> None:
        """`keys` are those of a session together and in order.

        The next segments of a session go by the first one, by what it numbers, so its outline alone would not do.
        """
        self.keys = keys
        last = {key[1]: key for key in keys}.values()
        self.sums: Sums = sum(key[5] for key in last), sum(key[3] for key in last), sum(key[2] & LOW for key in last)
        """Of the indexed entries of the sessions, their editions, and the lower halves of their identities.

        Any change of a session changes them: while the sessions are the same ones, entries and editions only grow, and
        another session brings 32 random bits.
        """
        several = {key[1] for key in keys if key[4]}
        self.outlines = {key: outlines[key] for key in keys if key in outlines and key[1] not in several}
        self._known = list(self.outlines.items())
        self._unknown = [key for key in keys if key not in self.outlines]
        self._words = b"".join(words + b"\n" for *_, words in self.outlines.values())
        self._ends = list(accumulate(len(words) + 1 for *_, words in self.outlines.values()))
        self._messages = sum(messages for messages, *_ in self.outlines.values())
        self._length = sum(length for _, length, _ in self.outlines.values())
        self.size = 2 * len(self._words) + _PER_KEY * len(keys)
        """About so many bytes of memory."""

    def also(self, outlines: Mapping[Key, Outline]) -> Shard:
        """The shard with the outlines of further ones of its sessions."""
        new = {key: outlines[key] for key in self.keys if key in outlines}
        return Shard(self.keys, self.outlines | new) if new else self

    def holding(self, signs: Sequence[bytes]) -> tuple[list[Key], int, int]:
        """The segments that may have one of these texts; of the others the number of messages, and their length."""
        found = set[int]()
        for sign in signs:
            at = self._words.find(sign)
            while at >= 0:
                n = bisect_right(self._ends, at)
                found.add(n)
                at = self._words.find(sign, self._ends[n])
        holders = [self._known[n] for n in sorted(found)]
        messages = self._messages - sum(messages for _, (messages, *_) in holders)
        length = self._length - sum(length for _, (_, length, _) in holders)
        return [*self._unknown, *(key for key, _ in holders)], messages, length
