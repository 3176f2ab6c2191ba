"""The power fails at any point of a conversation: what was acknowledged is there, or what is there is its beginning."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from autocontext import AutoContextMemory
from autocontext.errors import InvalidMessage, StoreCorruptError, StoreError
from autocontext.history.entries import Added
from autocontext.stores import InMemorySessionStore, SessionKey, SqliteSessionStore
from autocontext.stores.database import Statement
from tests.faults import preloaded
from tests.faults.power_loss import Disk, Operation, recorded
from tests.faults.power_worker import CONFIG

pytestmark = pytest.mark.slow
S = SessionKey("u", "s")


class Run(NamedTuple):
    """What a process wrote."""

    home: Path
    operations: list[Operation]
    said: list[str]
    """All that it acknowledged, in order."""


@pytest.fixture(scope="module", params=["safe", "fast"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def run(kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("power")
    home = folder / "disk"
    home.mkdir()
    preloaded.run("disk", "power_worker", home, kind, 24, DISK_UNDER=home, DISK_RECORD=folder / "record")
    operations = recorded(folder / "record")
    assert len(operations) > 100, "hardly any operation was seen: SQLite is linked statically"
    return Run(home, operations, (home / "acknowledged").read_text().split("\n")[:-1])


def lost_at(run: Run, end: int, chance: random.Random, *, lies: bool) -> tuple[dict[str, bytes], int]:
    """The files after a power loss before operation `end`, and how much was acknowledged until then."""
    disk, acknowledged = Disk(lies=random.Random(chance.random()) if lies else None), 0
    for operation in run.operations[:end]:
        if operation.path.endswith("/acknowledged"):
            acknowledged += operation.kind == "w"
        else:
            disk.do(operation)
    return disk.lose_power(chance), acknowledged


def written(files: dict[str, bytes], run: Run, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for path, content in files.items():
        (to / Path(path).relative_to(run.home)).write_bytes(content)
    return to


def ids_in(folder: Path) -> list[str]:
    """The messages in the file, after all that checks it: SQLite, the chain, and a memory."""
    store = SqliteSessionStore(folder / "agent.db")
    try:
        entries = store.read(S)
        memory = AutoContextMemory(CONFIG, store=store, session_id="s", user_id="u")
        assert len(memory.get_original_memory_msgs()) == len({m.id for m in memory.get_original_memory_msgs()})
        assert store.database.read(_integrity) == [("ok",)]
        return [e.message.id for e in entries if isinstance(e, Added) and e.message.origin is None]
    finally:
        store.close()


def _integrity():
    return (yield Statement("PRAGMA integrity_check"))


def check_export(folder: Path, said: list[str], *, sure: bool) -> None:
    """The exported file is whole: one of those that were written, and with `sure` none older than the last one said."""
    path = folder / "s.jsonl"
    sizes = [int(text.split()[1]) for text in said if text.startswith("exported")]
    if not path.exists():
        assert not (sizes and sure)
        return
    count = InMemorySessionStore().import_jsonl(S, path)
    assert not (sizes and sure) or count >= sizes[-1]


@pytest.mark.parametrize("rounds", [150])
def test_after_a_power_loss_what_is_there_is_whole(run, kind, rounds, tmp_path):
    chance, lost, fullest = random.Random(7), 0, 0
    everything = [text for text in run.said if not text.startswith("exported")]
    for _ in range(rounds):
        files, acknowledged = lost_at(run, chance.randrange(len(run.operations) + 1), chance, lies=False)
        folder = written(files, run, tmp_path / "after")
        said = run.said[:acknowledged]
        told = [text for text in said if not text.startswith("exported")]
        there = ids_in(folder)
        assert there == everything[: len(there)]
        lost += len(there) < len(told)
        fullest = max(fullest, len(there))
        check_export(folder, said, sure=True)
        assert kind == "fast" or len(there) >= len(told), "an acknowledged message is gone"
    assert fullest > len(everything) // 2
    print(f"{kind}: {rounds} power losses among {len(run.operations)} operations; {lost} lost the last moments")


@pytest.mark.parametrize("rounds", [250])
def test_after_a_disk_that_lied_nothing_false_is_read(run, kind, rounds, tmp_path):
    chance, told, shorter = random.Random(11), 0, 0
    everything = [text for text in run.said if not text.startswith("exported")]
    for _ in range(rounds):
        files, acknowledged = lost_at(run, chance.randrange(len(run.operations) + 1), chance, lies=True)
        folder = written(files, run, tmp_path / "after")
        try:
            there = ids_in(folder)
        except (StoreCorruptError, StoreError):
            told += 1
        else:
            assert there == everything[: len(there)]
            shorter += len(there) < acknowledged
        with suppress(InvalidMessage):
            check_export(folder, [], sure=False)
    print(f"{kind}: {rounds} power losses of a disk that lies; {told} told, {shorter} gave an earlier state")
