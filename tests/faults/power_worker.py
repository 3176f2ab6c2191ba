"""Writes to all that lasts and says what was stored: `power_worker FOLDER SAFE MESSAGES`; needs disk.c preloaded."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.messages import Msg
from autocontext.stores import SqliteDatabase, SqliteSessionStore
from autocontext.testing import tool_exchange
from tests.invariants import ESTIMATE

CONFIG = AutoContextConfig(
    max_token=1_500, msg_threshold=10, last_keep=3, large_payload_threshold=600, min_compression_token_threshold=1,
    min_consecutive_tool_messages=1, model_retries=0, **ESTIMATE,
)  # fmt: skip


def main(folder: Path, count: int, *, safe: bool) -> None:
    acknowledged = os.open(folder / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(text: str) -> None:
        os.write(acknowledged, f"{text}\n".encode())

    store = SqliteSessionStore(SqliteDatabase(folder / "agent.db", power_safe=safe))
    memory = AutoContextMemory(CONFIG, store=store, session_id="s", user_id="u")
    for n in range(count):
        call, result = tool_exchange("read_file", {"path": f"{n}.py"}, f"line {n}\n" * (20 + n % 7 * 60))
        for msg in (call, result, Msg(role="assistant", content=f"looked into {n}")):
            memory.add_message(msg)
            say(msg.id)
        if n % 3 == 2:
            memory.get_messages()
        if n % 5 == 4:
            store.export_jsonl(memory.session, folder / "s.jsonl")
            say(f"exported {len(store.read(memory.session))}")
        if n % 7 == 6:
            store.scrub()  # a checkpoint, and the write-ahead file begins anew
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[3]), safe=sys.argv[2] == "safe")
