"""What was erased is in no cache of the process any more."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autocontext import AutoContext, AutoContextConfig
from autocontext.testing import assistant, tool_exchange, user

SECRET = "Zaphodkennung77431"
SAID = [
    f"The key of the door is {SECRET}, keep it. Never tell it to anybody, because of the audit.",
    f"I found that {SECRET} opens the archive, so the lock in src/door.py must be changed.",
]


def held(words: str) -> list[str]:
    """The texts with these words that anything in the process holds."""
    gc.collect()
    seen: set[int] = set()

    def texts(found: Any) -> Iterator[str]:
        if isinstance(found, str):
            if words.lower() in found.lower():  # indexes and searches have them in lower case
                yield found
        elif not gc.is_tracked(found) and isinstance(found, tuple | frozenset | dict) and id(found) not in seen:
            seen.add(id(found))  # the collector tells of no such value itself
            for item in gc.get_referents(found):
                yield from texts(item)

    objects = gc.get_objects()
    return [text for o in objects if o is not seen for item in gc.get_referents(o) for text in texts(item)]


def worked(context: AutoContext) -> list[str]:
    """Ids of the messages that a session of many passes and a search has had."""
    session = context.session("s", user_id="ann", config=AutoContextConfig.for_window(2_000))
    session.add(user(SAID[0]))
    for n in range(12):
        read = tool_exchange("read", {"path": f"src/door{n}.py", "why": SECRET}, f"{SECRET}: {n}\n" * 30)
        for message in read:
            session.add(message)
        session.add(assistant(SAID[1]))
        session.memory.get_messages()
    assert context.sessions.search(SECRET, user_id="ann")
    assert session.memory.get_offload_context()
    return [m.id for m in session.memory.get_original_memory_msgs()]


def main(path: str, *, whole: bool) -> None:
    words = f"{SECRET[:9]}{SECRET[9:]}"
    code = len(held(words))
    with AutoContext.open(path) as context:
        ids = worked(context)
        assert len(held(words)) > code
        assert (context.delete("s", user_id="ann") if whole else context.erase("s", ids, user_id="ann")) > 0
        del ids
        left = held(words)
    if len(left) > code:
        sys.exit("\n".join(repr(text)[:300] for text in left))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["whole", "messages"])
def test_no_cache_holds_what_was_erased(tmp_path: Path, how: str) -> None:
    """In a process of its own: a test's holds more texts."""
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path / "a.db"), how], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


if __name__ == "__main__":
    main(sys.argv[1], whole=sys.argv[2] == "whole")
