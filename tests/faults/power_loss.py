"""What a disk may hold after the power has failed, from the record that disk.c makes of what a process wrote.

Until a file is synced, each of its writes may have reached the disk wholly, in part (by sectors) or not at all, in any
order. Names (made, renamed, removed) reach it in their order, at the latest with a sync of their folder, or of the file
itself. A disk that lies has not done what it was told to sync.

Source of the model: Pillai et al., All File Systems Are Not Created Equal, OSDI 2014.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HEAD = struct.Struct("=IIQQ")
_SECTOR = 512


class Operation(NamedTuple):
    """One operation of the process: `w`rite, `t`runcate, `s`ync, `u`nlink, `r`ename, `o`pen (makes a file)."""

    kind: str
    path: str
    at: int
    data: bytes


def recorded(at: Path) -> list[Operation]:
    """The operations in a record, in order."""
    return list(_operations(at.read_bytes()))


def _operations(raw: bytes) -> Iterator[Operation]:
    place = 0
    while place < len(raw):
        kind, name, at, size = _HEAD.unpack_from(raw, place)
        place += _HEAD.size
        path = raw[place : place + name].decode()
        place += name
        yield Operation(chr(kind), path, at, raw[place : place + size])
        place += size


class _File:
    def __init__(self) -> None:
        self.synced = b""
        self.pending: list[Operation] = []

    def after(self, chance: random.Random, loss: str) -> bytes:
        content = self.synced
        lost = False
        for operation in self.pending:
            if loss == "all" or lost:
                break
            if loss == "reordered" and chance.random() < 0.5:
                continue
            if loss == "tail" and chance.random() < 0.1:
                lost = True
            content = _applied(content, operation, chance if lost or loss == "reordered" else None)
        return content


def _applied(content: bytes, operation: Operation, torn: random.Random | None = None) -> bytes:
    if operation.kind == "t":
        return content[: operation.at].ljust(operation.at, b"\0")
    at, data = operation.at, operation.data
    if torn is not None and torn.random() < 0.3:
        data = data[: _SECTOR * torn.randrange(len(data) // _SECTOR + 1)]
        if not data:
            return content
    return content[:at].ljust(at, b"\0") + data + content[at + len(data) :]


class Disk:
    """The files of a process up to one of its operations."""

    def __init__(self, *, lies: random.Random | None = None) -> None:
        self._lies = lies
        self._names: dict[str, _File] = {}
        self._synced_names: dict[str, _File] = {}
        self._pending: list[Operation] = []

    def do(self, operation: Operation) -> None:
        """Take the next operation."""
        kind, path = operation.kind, operation.path
        if kind == "s":
            if self._lies is None or self._lies.random() < 0.5:
                self._sync(path)
            return
        if kind in "our":
            self._named(self._names, operation)
            self._pending.append(operation)
            return
        self._names.setdefault(path, _File()).pending.append(operation)

    def _named(self, names: dict[str, _File], operation: Operation) -> None:
        if operation.kind == "o":
            names[operation.path] = self._names.setdefault(operation.path, _File())
        elif operation.kind == "u":
            names.pop(operation.path, None)
        elif operation.path in names:
            names[operation.data.decode()] = names.pop(operation.path)

    def _sync(self, path: str) -> None:
        file = self._names.get(path)
        if file is None:  # a folder
            self._synced_names, self._pending = dict(self._names), []
            return
        for operation in file.pending:
            file.synced = _applied(file.synced, operation)
        file.pending = []
        self._synced_names[path] = file
        self._pending = [o for o in self._pending if o.path != path or o.kind != "o"]

    def lose_power(self, chance: random.Random) -> dict[str, bytes]:
        """The files that are there afterwards, by path."""
        names = dict(self._synced_names)
        for operation in self._pending[: chance.randrange(len(self._pending) + 1)]:
            if operation.kind == "o":
                names.setdefault(operation.path, self._names.get(operation.path) or _File())
            else:
                self._named(names, operation)
        loss = chance.choice(("all", "tail", "reordered", "nothing"))
        return {path: file.after(chance, loss) for path, file in names.items()}
