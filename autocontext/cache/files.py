"""Results as JSON files, `{"tasks": {key: result}}`, and the settings that `ResultCache.from_config` takes.

Next to `tasks` an exported file has an object `autocontext` with the arguments, tags and times of each result, so that
importing it again loses nothing.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from autocontext.cache.namespace import CacheEntry, CacheNamespace
from autocontext.cache.options import DEFAULTS, tag_list
from autocontext.cache.rows import fits, storing
from autocontext.cache.values import encoded
from autocontext.errors import ConfigError, StoreCorruptError, UncacheableError
from autocontext.flows.logs import logger
from autocontext.stores.database import Database, Statement, Work, rows_of, safe
from autocontext.stores.private_files import write_private

_log = logger("autocontext.cache")

_FIELDS: dict[str, type] = {
    "task": str, "version": str, "args": str, "tags": str, "cost": int, "created": int, "expires": int, "gone": int,
}  # fmt: skip
_BITS = 63
"""Of a number, beside its sign: the databases take no larger ones."""


def write(path: Path, entries: Sequence[CacheEntry]) -> int:
    """Write the file, for its owner only, and return the number of results. Until it is complete the old one stays."""
    document: dict[str, dict[str, Any]] = {"tasks": {}, "autocontext": {}}
    for entry in entries:
        with suppress(StoreCorruptError) if entry.kind != "value" else nullcontext():
            document["tasks"][entry.key] = entry.value()
            document["autocontext"][entry.key] = {name: getattr(entry, name) for name in _FIELDS}
    write_private(path, json.dumps(document, indent=2))
    return len(document["tasks"])


def read(path: Path, namespace: CacheNamespace, *, on_corrupt: str) -> list[CacheEntry]:
    """The results of a file that have not expired. Raises ConfigError, StoreCorruptError, FileNotFoundError."""
    if on_corrupt not in ("raise", "quarantine"):
        raise ConfigError(f'on_corrupt must be "raise" or "quarantine" (got {on_corrupt!r})')
    try:
        return _entries(path, namespace)
    except StoreCorruptError as error:
        if on_corrupt == "raise":
            raise
        aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
        path.rename(aside)
        warnings.warn(f"{error}; it was renamed to {aside}, nothing was imported", stacklevel=3)
        return []


def importing(namespace: CacheNamespace, entries: Sequence[CacheEntry]) -> Callable[[], Work[None]]:
    """The one transaction that stores all results of a file."""
    works = [storing(namespace, entry) for entry in entries]

    def work() -> Work[None]:
        for each in works:
            yield from each()

    return work


def import_once(path: Path, namespace: CacheNamespace, database: Database) -> None:
    """Store the results of a file unless this namespace has read it before; results that it has stay.

    Raises StoreCorruptError. The database remembers the name of the file, so what is deleted later stays deleted.
    """
    file = {"ns": namespace.text, "file": safe(path.name)}

    known = "SELECT 1 FROM autocontext_cache_file WHERE namespace = :ns AND file = :file"
    if database.read(lambda: rows_of(known, file)):
        return
    try:
        entries = _entries(path, namespace)
    except StoreCorruptError as error:
        raise StoreCorruptError(f"{error}; repair it, or move it away to begin without its results") from error

    def work() -> Work[int]:
        mark = (
            "INSERT INTO autocontext_cache_file (namespace, file) VALUES (:ns, :file) "
            "ON CONFLICT (namespace, file) DO NOTHING RETURNING file"
        )
        if not (yield Statement(mark, file)):
            return 0
        new = 0
        for entry in entries:
            if (yield from namespace.lookup(entry.key)) is None:
                yield from storing(namespace, entry)()
                new += 1
        return new

    _log.info("%s: read once, %d results; from now on they are in %s", path, database.write(work), database.name)


def _entries(path: Path, namespace: CacheNamespace) -> list[CacheEntry]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise StoreCorruptError(f"{path} is not JSON ({error})") from error
    tasks = document.get("tasks") if isinstance(document, dict) else None
    if not isinstance(tasks, dict):
        raise StoreCorruptError(f'{path} does not have the form {{"tasks": {{key: result}}}}')
    details = document.get("autocontext", {})
    entries = []
    for key, value in tasks.items():
        try:
            entry = namespace.entry(key, "value", encoded(value), DEFAULTS)
        except UncacheableError as error:
            raise StoreCorruptError(f"{path}: {key!r}: {error}") from error
        if isinstance(details, dict) and key in details:
            entry = _with_details(path, entry, details[key])
        now = namespace.now()
        if entry.expires > now and not entry.is_ahead(now) and fits(namespace, entry):
            entries.append(entry)
    return entries


def _with_details(path: Path, entry: CacheEntry, details: Any) -> CacheEntry:
    if not isinstance(details, dict) or not _are_written(details):
        raise StoreCorruptError(f"{path}: the details of {entry.key!r} are not what export_json writes")
    restored = entry._replace(**{name: details[name] for name in _FIELDS})
    return restored._replace(size=len(entry.key) + len(restored.args) + len(entry.body))


def _are_written(details: dict[str, Any]) -> bool:
    """Whether the tables take these details."""
    if not all(type(details.get(name)) is kind for name, kind in _FIELDS.items()):
        return False
    if any(kind is int and details[name].bit_length() > _BITS for name, kind in _FIELDS.items()):
        return False
    try:
        tags = json.loads(details["tags"])
        return details["args"][:1] in ("", "{") and isinstance(tags, list) and tag_list(tags) == sorted(tags)
    except (ValueError, RecursionError, ConfigError):
        return False


# ----------------------------------------------------------------------------------------------------------- settings
def places(config: Mapping[str, Any]) -> tuple[Path, Path | None]:
    """The database file beside the file `ltm_path` ("LTM/memory.json"), or in the folder; and the file, if it is one.

    Makes missing folders. The file is only read.
    """
    path = Path(config.get("ltm_path") or "LTM")
    folder = path.parent if path.suffix and not path.is_dir() else path
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "autocontext.db", path if path.suffix and path.is_file() else None


def namespace_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Supervisor and agent. Raises ConfigError without an agent."""
    if not config.get("agent_id"):
        raise ConfigError("agent_id: name the agent, as each has a cache of its own")
    return tuple(str(config[name]) for name in ("supervisor_id", "agent_id") if config.get(name))
