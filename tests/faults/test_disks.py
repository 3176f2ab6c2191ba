"""A disk that is read-only, full, failing or gone, a file that is replaced: nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from autocontext import AutoContextMemory, Msg
from autocontext.errors import StoreError
from autocontext.stores import SessionKey, SqliteDatabase, SqliteSessionStore
from tests.faults import preloaded

S = SessionKey("u", "s")


@pytest.mark.slow
@pytest.mark.parametrize("error", ["EROFS", "ENOSPC", "EDQUOT", "EIO"])
def test_a_disk_that_fails_from_any_operation_on_is_told_and_the_same_objects_go_on_once_it_works(error, tmp_path):
    control = tmp_path / "control"
    control.write_bytes(bytes(16))
    told = preloaded.run("disk", "disk_worker", error, 13, DISK_UNDER=tmp_path / "disk", DISK_CONTROL=control)
    print(told)
    assert "StoreError: /agent.db: " in told
    assert ("full" in told) or error != "ENOSPC"


class Talk:
    """A memory in a file, and the messages that it acknowledged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = SqliteSessionStore(SqliteDatabase(path, patience=1))
        self.memory = AutoContextMemory(store=self.store, session_id=S.session_id, user_id=S.user_id)
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.memory.add_message(Msg(role="user", content=text))
        self.said.append(text)

    def check(self) -> None:
        """What was acknowledged is in the file that is there now, and the memory shows that."""
        again = SqliteSessionStore(self.path)
        assert [e.message.text for e in again.read(S)] == self.said
        again.close()
        self.memory.refresh()
        assert [m.text for m in self.memory.get_original_memory_msgs()] == self.said


@contextmanager
def mounted(folder: Path, *options: str):
    """A file system of its own on the folder, as root can mount it."""
    if os.geteuid() or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs root and mkfs.ext4: a disk that goes away was NOT tested")
    image, place = folder / "image", folder / "disk"
    place.mkdir()
    image.write_bytes(b"")
    os.truncate(image, 16 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    if subprocess.run(
        ["mount", "-o", "loop,errors=remount-ro", image, place], check=False, capture_output=True
    ).returncode:
        pytest.skip("mounts are not permitted here: a disk that goes away was NOT tested")
    try:
        yield image, place
    finally:
        subprocess.run(["umount", "-l", place], check=False, capture_output=True)


@pytest.mark.slow
def test_a_file_system_that_turned_read_only_and_is_mounted_anew_is_written_again(tmp_path):
    with mounted(tmp_path) as (image, place):
        talk = Talk(place / "agent.db")
        talk.say("a")
        talk.say("b")
        subprocess.run(["sync", "-f", place], check=True)
        [device] = subprocess.check_output(["findmnt", "-no", "SOURCE", place], text=True).split()
        # As after an error of the disk: the kernel lets nobody write any more.
        Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("by a test")
        for _ in range(2):
            with pytest.raises(StoreError, match=r"agent\.db"):
                talk.say("c")
        assert [m.text for m in talk.memory.get_original_memory_msgs()] == ["a", "b"]
        subprocess.run(["umount", "-l", place], check=True)
        # Another image, because the kernel knows the first one as long as somebody has a file of it open.
        shutil.copy(image, tmp_path / "again")
        subprocess.run(["mount", "-o", "loop", tmp_path / "again", place], check=True)
        talk.say("c")
        talk.check()
        talk.store.database.close()


@pytest.mark.slow
def test_a_file_system_that_is_read_only_is_named_and_opens_once_it_is_not(tmp_path):
    with mounted(tmp_path) as (_, place):
        talk = Talk(place / "agent.db")
        talk.say("a")
        talk.store.database.close()
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        with pytest.raises(StoreError, match=r"agent.db: .*(read-only|cannot be opened)"):
            Talk(place / "agent.db").say("b")
        subprocess.run(["mount", "-o", "remount,rw", place], check=True)
        again = Talk(place / "agent.db")
        again.said += ["a"]
        again.say("b")
        again.check()
        again.store.database.close()


def removed(path: Path) -> None:
    for file in path.parent.glob("agent.db*"):
        file.unlink()


def moved(path: Path) -> None:
    for file in path.parent.glob("agent.db*"):
        file.rename(path.parent / f"old-{file.name}")


def without_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("how", [removed, moved, without_folder])
def test_nothing_is_acknowledged_into_a_file_that_is_not_there_any_more(how, tmp_path):
    (tmp_path / "folder").mkdir()
    talk = Talk(tmp_path / "folder" / "agent.db")
    talk.say("a")
    how(talk.path)
    with pytest.raises(StoreError, match=r"agent\.db"):
        talk.say("b")
    assert not talk.path.exists(), "an empty database in its place would hide that it is gone"
    talk.store.database.close()


def test_a_file_that_is_replaced_by_its_backup_takes_the_next_writes(tmp_path):
    talk, backup = Talk(tmp_path / "agent.db"), tmp_path / "backup"
    talk.say("a")
    talk.store.scrub()
    shutil.copy(talk.path, backup)
    backup.replace(talk.path)
    for side in ("-wal", "-shm"):
        Path(f"{talk.path}{side}").unlink()
    talk.say("b")
    talk.check()
    talk.store.database.close()
