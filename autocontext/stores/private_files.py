"""Writes files with what users said: readable by their owner only, and never half written."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from autocontext.errors import ConfigError

SQLITE = b"SQLite format 3\0"
"""What a SQLite database begins with."""


def write_private(path: str | Path, text: str) -> None:
    """Write a text file that only its owner can read and write (0600); a crash leaves the old file or the new one.

    When it returns, the new one survives a power failure. A pipe or a device is written to as it is. Raises OSError,
    and ConfigError for a SQLite database, which holds more than any text that would replace it.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")
        return
    with suppress(FileNotFoundError, PermissionError), target.open("rb") as old:
        if old.read(len(SQLITE)) == SQLITE:
            raise ConfigError(f"{path} is a SQLite database and is not replaced; give the name of another file")
    try:
        # Not with the whole name in it, which may be as long as the file system takes.
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:20]}.", suffix=".part", dir=target.parent)
    except OSError as e:
        raise type(e)(e.errno, e.strerror, str(path)) from None  # the caller's file, not the one beside it
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(target)
        _sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


def _sync_folder(folder: Path) -> None:
    """Let the names in a folder survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as e:
        if e.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise
    finally:
        os.close(handle)
