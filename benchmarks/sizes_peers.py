"""The other libraries' stores of `sizes.py`, in their environment; which part of which one, it reads from stdin."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import uuid
import zlib
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

from sizes_measure import QUESTION, Message, grow
from storage_peers import own_database, size

PAGE = 50
DIMENSIONS = 384
"""Of the vectors, as those of small embedding models."""


class Agents:
    """openai-agents: an item is a row."""

    page = None

    def __init__(self, folder: Path, _server: str) -> None:
        from agents import SQLiteSession

        self._path = folder / "a.db"
        self._open = partial(SQLiteSession, db_path=self._path)
        self._loop = asyncio.Runner()
        self._session = self._open("session")

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run(work)

    def close(self) -> None:
        self._session.close()
        self._loop.close()


def _items(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in messages]


class AgentsSession(Agents):
    def fill(self, messages: Sequence[Message]) -> None:
        self._run(self._session.add_items(_items(messages)))

    def save(self, message: Message) -> None:
        self._run(self._session.add_items(_items([message])))

    def held(self) -> int:
        return len(self._run(self._session.get_items()))

    def opened(self) -> int:
        again = self._open("session")
        try:
            return len(self._run(again.get_items()))
        finally:
            again.close()

    def disk(self) -> int:
        return size(self._path)


class AgentsSessions(Agents):
    """Each session of its own, over connections that are opened for it: it has no other way."""

    def fill(self, begin: int, pairs: Sequence[Sequence[Message]]) -> None:
        for number, pair in enumerate(pairs, begin):
            self._session.session_id = f"s{number}"  # else each would open the file anew
            self._run(self._session.add_items(_items(pair)))

    def save(self, number: int, message: Message) -> None:
        session = self._open(f"s{number}")
        self._run(session.add_items(_items([message])))
        session.close()

    def opened(self, number: int) -> int:
        session = self._open(f"s{number}")
        try:
            return len(self._run(session.get_items()))
        finally:
            session.close()


class Checkpoints:
    """langgraph: a checkpoint for each step; what else is kept depends on the channel of the messages."""

    def __init__(self, folder: Path, server: str, *, delta: bool = False) -> None:
        self._stack = ExitStack()
        self._path = folder / "l.db"
        self._delta = delta
        if server:
            from langgraph.checkpoint.postgres import PostgresSaver

            url = self._stack.enter_context(own_database(server))
            self._connect: Callable[[], Any] = lambda: PostgresSaver.from_conn_string(url)
        else:
            from langgraph.checkpoint.sqlite import SqliteSaver

            self._connect = lambda: SqliteSaver.from_conn_string(str(self._path))
        self._saver = self._stack.enter_context(self._connect())
        self._saver.setup()
        self._app = self._graph(self._saver)
        self._server = server

    def _graph(self, saver: Any) -> Any:
        from langgraph.channels.delta import DeltaChannel
        from langgraph.graph import END, START, StateGraph
        from langgraph.graph.message import add_messages

        reducer = DeltaChannel(_appended) if self._delta else add_messages
        graph = StateGraph(TypedDict("State", {"messages": Annotated[list[Any], reducer]}))
        graph.add_node("nothing", lambda _: {})
        graph.add_edge(START, "nothing")
        graph.add_edge("nothing", END)
        return graph.compile(checkpointer=saver)

    def _update(self, thread: str, messages: Sequence[Message]) -> None:
        self._app.update_state(_thread(thread), {"messages": [list(message) for message in messages]})

    def _read(self, app: Any, thread: str) -> int:
        return len(app.get_state(_thread(thread)).values["messages"])

    def _again(self, thread: str) -> int:
        with self._connect() as saver:
            return self._read(self._graph(saver), thread)

    def close(self) -> None:
        self._stack.close()


def _thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


def _appended(state: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    """What `add_messages` does with new messages, in the form that a DeltaChannel asks for."""
    from langchain_core.messages import convert_to_messages

    return [*state, *(message for write in writes for message in convert_to_messages(write))]


class CheckpointsSession(Checkpoints):
    def fill(self, messages: Sequence[Message]) -> None:
        self._update("session", messages)

    def save(self, message: Message) -> None:
        self._update("session", [message])

    def held(self) -> int:
        return self._read(self._app, "session")

    def opened(self) -> int:
        return self._again("session")

    def disk(self) -> int | None:
        return None if self._server else size(self._path)


class CheckpointsSessions(Checkpoints):
    def fill(self, begin: int, pairs: Sequence[Sequence[Message]]) -> None:
        for number, pair in enumerate(pairs, begin):
            self._update(f"s{number}", pair)

    def save(self, number: int, message: Message) -> None:
        self._update(f"s{number}", [message])

    def opened(self, number: int) -> int:
        return self._read(self._app, f"s{number}")

    def page(self) -> int:
        """It lists checkpoints, of which a session has several."""
        return len(list(self._saver.list(None, limit=PAGE)))


def _vector(text: str) -> list[float]:
    """A vector of the words of a text: each has a place and a sign by its checksum. No model, no network."""
    import numpy as np

    vector = np.zeros(DIMENSIONS, dtype="float32")
    for word in re.findall(r"\w+", text.lower()):
        sum_ = zlib.crc32(word.encode())
        vector[sum_ % DIMENSIONS] += 1 if sum_ >> 31 else -1
    return list(map(float, vector / (np.linalg.norm(vector) or 1)))


class Mem0:
    """mem0 with a vector store on this machine, `infer=False` and vectors of `_vector`."""

    def __init__(self, folder: Path, _server: str, *, kind: str) -> None:
        # Read when mem0 is imported: nothing is sent, and its settings stay in a folder of their own.
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": tempfile.mkdtemp(dir=folder), "OPENAI_API_KEY": "none"}
        place = {"path": str(folder / kind), "collection_name": "m", "embedding_model_dims": DIMENSIONS}
        if kind == "qdrant":
            place["on_disk"] = True
        self._config = {
            "vector_store": {"provider": kind, "config": place},
            "history_db_path": str(folder / f"{kind}.history"),
        }
        self._open()

    def _open(self) -> None:
        from mem0 import Memory
        from mem0.embeddings.base import EmbeddingBase

        class Words(EmbeddingBase):
            def embed(self, text: str, memory_action: str | None = None) -> list[float]:  # noqa: ARG002
                return _vector(text)

        self._memory = Memory.from_config(self._config)
        self._memory.embedding_model = Words()

    def fill(self, texts: Sequence[str]) -> None:
        """Straight into its vector store, in parts: `add` would write faiss' whole file for each."""
        now = "2026-01-01T00:00:00+00:00"
        for at in range(0, len(texts), 20_000):
            some = texts[at : at + 20_000]
            payloads = [
                {"data": text, "hash": "", "created_at": now, "updated_at": now, "user_id": "u"} for text in some
            ]
            ids = [str(uuid.uuid4()) for _ in some]
            self._memory.vector_store.insert(vectors=list(map(_vector, some)), payloads=payloads, ids=ids)

    def add(self, text: str) -> str:
        return str(self._memory.add(text, user_id="u", infer=False)["results"][0]["id"])

    def search(self) -> int:
        # With the threshold of 0.1 that it has for real vectors, these could find less than asked for.
        found = self._memory.search(QUESTION, filters={"user_id": "u"}, top_k=5, threshold=0.0)
        return len(found["results"])

    def delete(self, id_: str) -> None:
        self._memory.delete(id_)

    def reopen(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        self._memory.close()
        if hasattr(self._memory.vector_store, "client"):
            self._memory.vector_store.client.close()


class Diskcache:
    """diskcache, with values as JSON."""

    def __init__(self, folder: Path, _server: str) -> None:
        from diskcache import Cache, JSONDisk

        self._cache = Cache(str(folder / "cache"), disk=JSONDisk, size_limit=2**40)

    def fill(self, begin: int, values: Sequence[str]) -> None:
        with self._cache.transact():
            for number, value in enumerate(values, begin):
                self.set(number, value)

    def set(self, number: int, value: str) -> None:
        self._cache.set(f"look_up:{number}", {"page": value})

    def get(self, number: int) -> object:
        return self._cache.get(f"look_up:{number}")

    def erase(self, said: str) -> None:
        """It cannot tell which values hold a text, so each is read."""
        for key in list(self._cache):
            if said in self._cache.get(key)["page"]:
                self._cache.delete(key)

    def close(self) -> None:
        self._cache.close()


if __name__ == "__main__":
    grow(
        {
            ("messages", "openai-agents SQLiteSession"): AgentsSession,
            ("messages", "langgraph SqliteSaver"): CheckpointsSession,
            ("messages", "langgraph SqliteSaver, DeltaChannel"): partial(CheckpointsSession, delta=True),
            ("messages", "langgraph PostgresSaver"): CheckpointsSession,
            ("messages", "langgraph PostgresSaver, DeltaChannel"): partial(CheckpointsSession, delta=True),
            ("sessions", "openai-agents SQLiteSession"): AgentsSessions,
            ("sessions", "langgraph SqliteSaver"): CheckpointsSessions,
            ("sessions", "langgraph PostgresSaver"): CheckpointsSessions,
            ("memories", "mem0, qdrant"): partial(Mem0, kind="qdrant"),
            ("memories", "mem0, faiss"): partial(Mem0, kind="faiss"),
            ("results", "diskcache"): Diskcache,
        }
    )
