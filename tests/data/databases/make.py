"""Writes a small database, NAME.db, with the code of the folder it is run in, and what that code reads of it, NAME.json.

See README.md beside it.
"""

import hashlib
import json
import sqlite3
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, ".")

from autocontext import AutoContext, AutoContextConfig, AutoContextMemory, Msg  # noqa: E402
from autocontext import TextBlock, ToolResultBlock, ToolUseBlock  # noqa: E402
from autocontext.cache import ResultCache  # noqa: E402
from autocontext.content import SqliteContentStore  # noqa: E402
from autocontext.memories import MemoryStore  # noqa: E402
from autocontext.stores import SqliteSessionStore  # noqa: E402

HERE = Path(__file__).resolve().parent
STAMP = "2026-11-20T10:00:00.000+00:00"


def said(number):
    return f"what was said {number}: " + "the build fails in module seven, see the log. " * (number % 7)


def messages():
    yield Msg(id="sys", role="system", content="You are careful.", timestamp=STAMP)
    for n in range(12):
        yield Msg(id=f"u{n}", role="user", content=said(n), timestamp=STAMP)
        call = ToolUseBlock(id=f"c{n}", name="read_file", input={"path": f"src/{n}.py", "lines": [n, n + 1]})
        yield Msg(id=f"a{n}", role="assistant", content=[TextBlock(text=f"I look at {n}."), call], timestamp=STAMP)
        result = ToolResultBlock(id=f"c{n}", name="read_file", output=f"line {n}\n" * (1 + 90 * n), is_error=n == 3)
        yield Msg(id=f"t{n}", role="tool", content=[result], timestamp=STAMP)
        yield Msg(id=f"r{n}", role="assistant", content=f"Module {n} is fine.", timestamp=STAMP)
    yield Msg(id="u3", role="user", content="an id that was there before", timestamp=STAMP)
    odd = 'é "quoted" \\ id'
    yield Msg(id=odd, role="user", content="数据库 \x01 \x00 \ud800 ü", timestamp=STAMP, metadata={"large": 1e308})


def digest(value):
    """What stands for a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def seen(memory):
    """What a memory holds: digests of its originals, of its view and of its offload entries."""
    offloads = {key: [m.to_dict() for m in found] for key, found in memory.get_offload_context().items()}
    originals = [m.to_dict() for m in memory.get_original_memory_msgs()]
    return [digest(part) for part in (originals, [m.to_dict() for m in memory.messages], offloads)]


CONTENTS = {"report": "line of the report\n" * 3000, "short": "few words", "中文": "数据库 \u0001 ü"}
CACHED = {"answer": {"n": 42, "text": "ü"}, "large": ["x" * 1000] * 50}
MEMORIES = ["The user prefers tabs.", "用户喜欢简短的回答", "The build runs on module seven."]


def fill(path):
    """Contents, cached results, memories and a saved state."""
    with SqliteContentStore(path) as contents:
        for key, text in CONTENTS.items():
            contents.put(text, key=key, name=f"{key}.txt", summary=f"about {key}", namespace="u")
    with ResultCache(path, namespace=("u", "agent")) as cache:
        for key, value in CACHED.items():
            cache.set(key, value, tags=["all"])
    with MemoryStore(path) as memories:
        for text in MEMORIES:
            memories.add(text, user_id="u", tags=["kept"], importance=7)
    with AutoContext(path) as context:
        session = context.session("worked", user_id="u")
        session.add(list(messages())[:10])
        session.save()


def held(path):
    """What there is of that: digests of the contents, results, memories and the state."""
    with SqliteContentStore(path) as contents:
        texts = {key: contents.read(key, namespace="u").text for key in CONTENTS}
        summaries = [contents.info(key, namespace="u").summary for key in CONTENTS]
    with ResultCache(path, namespace=("u", "agent")) as cache:
        cached = {key: cache.get(key) for key in CACHED}
    with MemoryStore(path) as memories:
        known = sorted([m.content, [*m.tags], m.importance, m.created_at] for m in memories.all(user_id="u"))
    with AutoContext(path) as context:
        state = context.session("worked", user_id="u").state().to_dict()["messages"]
    return {name: digest(part) for name, part in zip(PARTS, ([texts, summaries], cached, known, state))}


PARTS = ("contents", "cache", "memories", "state")


def main(name):
    path = HERE / f"{name}.db"
    path.unlink(missing_ok=True)
    store = SqliteSessionStore(path)
    config = AutoContextConfig(msg_threshold=20, last_keep=6, max_token=10**6, large_payload_threshold=500)
    memory = AutoContextMemory(config, store=store, session_id="long", user_id="u")
    for n, message in enumerate(messages()):
        memory.add_message(message)
        if n in (25, 40):
            memory.compress_if_needed(force=True)
    memory.offload("mine", [Msg(id="o", role="user", content="set aside", timestamp=STAMP)])
    memory.delete_message(len(memory.messages) - 2)
    short = AutoContextMemory(config, store=store, session_id="short", user_id="u")
    short.add_messages([Msg(id="s1", role="user", content="hello", timestamp=STAMP)])
    loaded = AutoContextMemory(config, store=store, session_id="loaded", user_id="v")
    loaded.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    found = {}
    for key in (("u", "long"), ("u", "short"), ("v", "loaded")):
        found["/".join(key)] = seen(AutoContextMemory(config, store=store, session_id=key[1], user_id=key[0]))
    store.close()
    fill(path)
    found["parts"] = held(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")
    (HERE / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1])
