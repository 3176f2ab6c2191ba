"""The original's files: `{"tasks": {key: result}}`, written and read as a whole.

Beside `tasks`, which other programs read, an exported file says under `autocontext` what each result was computed from
and how long it lives, so that importing it again loses nothing.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from autocontext.cache.options import Options
from autocontext.cache.rows import Entry
from autocontext.cache.shelf import Shelf
from autocontext.cache.values import decoded, encoded
from autocontext.errors import ConfigError, StoreCorruptError, UncacheableError
from autocontext.stores.database import Work

_KEPT: dict[str, type] = {
    "task": str, "version": str, "args": str, "tags": str, "cost": int, "created": int, "expires": int, "gone": int,
}  # fmt: skip


class Imported(NamedTuple):
    """One result of a file, ready to be stored."""

    store: Callable[[], Work[bool]]


def write(path: Path, entries: Sequence[Entry]) -> int:
    """Write the file in one step: at any moment the old one is there or the new one."""
    document = {
        "tasks": {entry.key: decoded(entry.body, entry.key) for entry in entries if entry.kind == "value"},
        "autocontext": {
            entry.key: {name: getattr(entry, name) for name in _KEPT} for entry in entries if entry.kind == "value"
        },
    }
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            json.dump(document, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            Path(file.name).unlink()
            raise
    Path(file.name).replace(path)
    return len(document["tasks"])


def read(path: Path, shelf: Shelf, *, quarantine: bool) -> list[Imported]:
    """The results of a file whose time is not over. Raises StoreCorruptError, FileNotFoundError."""
    try:
        return _results(path, shelf)
    except StoreCorruptError as error:
        if not quarantine:
            raise
        aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
        path.rename(aside)
        warnings.warn(f"{error}; it is kept as {aside}, nothing was imported", stacklevel=3)
        return []


def quarantines(on_corrupt: str) -> bool:
    """Whether a damaged file is set aside. Raises ConfigError."""
    if on_corrupt not in ("raise", "quarantine"):
        raise ConfigError(f'on_corrupt must be "raise" or "quarantine" (got {on_corrupt!r})')
    return on_corrupt == "quarantine"


def importing(found: Sequence[Imported]) -> Callable[[], Work[None]]:
    """The one transaction that stores all results of a file."""

    def work() -> Work[None]:
        for imported in found:
            yield from imported.store()

    return work


def _results(path: Path, shelf: Shelf) -> list[Imported]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreCorruptError(f"{path}: it is no JSON ({error})") from error
    tasks = document.get("tasks") if isinstance(document, dict) else None
    if not isinstance(tasks, dict):
        raise StoreCorruptError(f'{path}: it is no {{"tasks": {{key: result}}}}')
    origins = document.get("autocontext", {})
    found = []
    for key, value in tasks.items():
        try:
            entry = shelf.entry(key, "value", encoded(value), Options())
        except UncacheableError as error:
            raise StoreCorruptError(f"{path}: {key!r}: {error}") from error
        if isinstance(origins, dict) and key in origins:
            entry = _restored(path, entry, origins[key])
        if entry.expires > shelf.now() and shelf.fits(entry):
            found.append(Imported(shelf.storing(entry)))
    return found


def _restored(path: Path, entry: Entry, origin: Any) -> Entry:
    if not isinstance(origin, dict) or not all(isinstance(origin.get(name), kind) for name, kind in _KEPT.items()):
        raise StoreCorruptError(f"{path}: what it says about {entry.key!r} is not what export_json writes")
    restored = entry._replace(**{name: origin[name] for name in _KEPT})
    return restored._replace(size=len(entry.key) + len(restored.args) + len(entry.body))


# ------------------------------------------------------------------------------------------- the original's settings
def place(config: Mapping[str, Any]) -> Path:
    """The database file in the folder `ltm_path`, which is made if it is not there."""
    folder = Path(config.get("ltm_path") or "LTM")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "autocontext.db"


def namespace(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Supervisor and agent. Raises ConfigError without an agent."""
    if not config.get("agent_id"):
        raise ConfigError("agent_id: each agent has a memory of its own, so it needs a name")
    return tuple(str(config[name]) for name in ("supervisor_id", "agent_id") if config.get(name))


def enabled(config: Mapping[str, Any]) -> bool:
    """The switch `enable_ltm_cache`, on unless it says otherwise."""
    return bool(config.get("enable_ltm_cache", True))
