"""What a process keeps of a user's sessions between searches: their segments, and the words of the short ones.

Sessions are in shards by their identity, so that after a change a few are read again and not all. Of a shard the words
of its short sessions are one text: a search for a rare word finds the sessions that may have it in one go.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

from autocontext.flows.forking import fork_lock
from autocontext.stores.database import Row

Key: TypeAlias = tuple[str, str, int, int, int, int]
"""User, session, identity, edition, start and until: with these, the content of a segment never changes."""

Outline: TypeAlias = tuple[int, int, bytes]
"""Of the only segment of a session: messages, their words, and a text with all different ones. A plain tuple, which the
garbage collector need not look at."""

_MOST = 128_000_000
"""Bytes of what is kept of all users: about 200,000 short sessions."""
_PER_KEY = 300
"""Bytes of a session beside its words."""


class Shard:
    """Some sessions of a user: the segments of each, and what is known of those with one short segment."""

    def __init__(self, mark: Row | None, keys: Sequence[Key], outlines: Mapping[Key, Outline]) -> None:
        """`keys` are those of a session together and in order; `mark` changes when the sessions do (None: they have).

        The next segments of a session go by the first one, by what it numbers, so its outline alone would not do.
        """
        self.mark, self.keys = mark, keys
        several = {key[1] for key in keys if key[4]}
        self._outlined = [i for i, key in enumerate(keys) if key in outlines and key[1] not in several]
        self._known = frozenset(keys[i] for i in self._outlined)
        self._unknown = sorted(set(range(len(keys))).difference(self._outlined))
        known = [outlines[keys[i]] for i in self._outlined]
        self._messages = array("q", [messages for messages, _, _ in known])
        self._lengths = array("q", [length for _, length, _ in known])
        self._ends = array("q", accumulate(len(words) + 1 for *_, words in known))
        self._words = b"".join(words + b"\n" for *_, words in known)
        self._all = sum(self._messages), sum(self._lengths)

    @property
    def size(self) -> int:
        """About so many bytes of memory."""
        return len(self._words) + _PER_KEY * len(self.keys)

    def outlines(self) -> dict[Key, Outline]:
        """What is known of its short sessions."""
        begins = [0, *self._ends[:-1]]
        return {
            self.keys[i]: (self._messages[n], self._lengths[n], self._words[begins[n] : self._ends[n] - 1])
            for n, i in enumerate(self._outlined)
        }

    def knows(self, key: Key) -> bool:
        """Whether there is an outline of this segment."""
        return key in self._known

    def also(self, outlines: Mapping[Key, Outline]) -> Shard:
        """The shard with the outlines of further ones of its sessions."""
        new = {key: outlines[key] for key in self.keys if key in outlines}
        return Shard(self.mark, self.keys, self.outlines() | new) if new else self

    def holding(self, signs: Sequence[bytes]) -> tuple[list[Key], int, int]:
        """The segments that may have one of these texts; of the others the number of messages, and their length."""
        found = set[int]()
        for sign in signs:
            at = self._words.find(sign)
            while at >= 0:
                n = bisect_right(self._ends, at)
                found.add(n)
                at = self._words.find(sign, self._ends[n])
        messages, length = self._all
        wanted = sorted([*self._unknown, *(self._outlined[n] for n in found)])
        messages -= sum(self._messages[n] for n in found)
        length -= sum(self._lengths[n] for n in found)
        return [self.keys[i] for i in wanted], messages, length


class Shards:
    """The shards of all users, within a limit of bytes: those of who was searched last."""

    def __init__(self) -> None:
        self._lock = fork_lock()
        self._users: OrderedDict[str, tuple[Mapping[int, Shard], int]] = OrderedDict()
        self._size = 0

    def of(self, user_id: str) -> Mapping[int, Shard]:
        """The shards of a user that are kept, by number."""
        with self._lock:
            return self._users[user_id][0] if user_id in self._users else {}

    def put(self, user_id: str, shards: Mapping[int, Shard]) -> None:
        """Keep the shards of a user in the place of those before, as far as they fit."""
        kept, size = dict[int, Shard](), 0
        for number, shard in shards.items():
            if size + shard.size <= _MOST:
                kept[number], size = shard, size + shard.size
        with self._lock:
            self._drop(user_id)
            self._users[user_id] = kept, size
            self._size += size
            while self._size > _MOST:
                self._drop(next(iter(self._users)))

    def forget(self, user_id: str) -> None:
        """Keep nothing of a user."""
        with self._lock:
            self._drop(user_id)

    def _drop(self, user_id: str) -> None:
        if user_id in self._users:
            self._size -= self._users.pop(user_id)[1]
