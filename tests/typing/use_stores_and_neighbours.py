"""The stores and the neighbouring systems as a user has them; `mypy --strict` must accept it, and it must run."""

import asyncio
from typing import Any, assert_type

from autocontext import AutoContext, AutoContextMemory, Msg
from autocontext.cache import MISS, ResultCache, canonical_key
from autocontext.content import (
    ContentInfo,
    Page,
    PrunePolicy,
    SqliteContentStore,
    get_file_content_tool,
    prune_messages,
)
from autocontext.memories import Memory, MemoryInjector, MemoryStore, format_memory_for_injection
from autocontext.sessions import OptimizationReport, SessionState, StateConfig, StateOptimizer
from autocontext.stores import InMemorySessionStore, SessionKey, SessionStore, SqliteSessionStore
from autocontext.suite import Prepared, SaveReport, Session


def stored(store: SessionStore) -> list[Msg]:
    memory = AutoContextMemory(store=store, session_id="s", user_id="u")
    memory.add_message(Msg(role="user", content="hello"))
    assert store.read(SessionKey("u", "s"))
    return memory.messages


def together() -> None:
    with AutoContext.open(":memory:") as ac:
        session = ac.session("42", user_id="u")
        assert_type(session, Session)
        session.add(Msg(role="user", content="hi"))
        assert_type(session.prepare("hi", max_tokens=1_000), Prepared)
        assert_type(session.call_tool(len, {"obj": "abc"}, "c1", name="len"), Msg)
        assert_type(session.save(), SaveReport)


async def together_in_async_code() -> None:
    async with AutoContext.open() as ac:
        session = ac.session(user_id="u")
        await session.aadd(Msg(role="user", content="hi"))
        prepared = await session.aprepare()
        assert_type(prepared.messages, list[Msg])
        await session.asave()


async def contents_in_async_code() -> None:
    content = SqliteContentStore(":memory:")
    put = asyncio.create_task(content.aput(b"bytes", key="k", ttl=60))
    assert_type(await put, ContentInfo)
    assert_type(await content.aread("k", 0, limit=2), Page | None)
    assert_type(content.keys(limit=5), list[str])
    assert_type(await content.apurge_expired(), int)


def neighbours() -> None:
    content = SqliteContentStore(":memory:")
    info = content.put("text " * 1_000, name="a.txt")
    page = content.read(info.ref, 5, 10)
    assert page is not None
    assert_type(page.text, str)
    assert prune_messages([], store=content, policy=PrunePolicy(keep_last=2)).messages == []
    assert "chunk" in get_file_content_tool(content)("a.txt")
    cache = ResultCache(namespace=("u", "agent"))
    key = canonical_key("add", {"a": 1})
    assert cache.get(key) is MISS
    assert cache.get_or_compute("add", {"a": 1}, lambda a: a + 1) == 2

    @cache.memoize(ttl=60)
    def double(n: int) -> int:
        return 2 * n

    assert_type(double(2), int)
    memories = MemoryStore(":memory:")
    assert_type(memories.add("Likes tea", user_id="u"), Memory)
    messages, report = MemoryInjector(memories, user_id="u").inject([Msg(role="user", content="tea?")])
    assert_type(messages, list[Msg])
    assert report.tokens <= 2_000
    document: dict[str, Any] = memories.export_json(user_id="u")
    assert_type(format_memory_for_injection(document, 500, "tea"), str)
    state, optimized = StateOptimizer(StateConfig(), content).optimize(SessionState("s", "u"))
    assert_type(state, SessionState)
    assert_type(optimized, OptimizationReport)


if __name__ == "__main__":
    assert stored(InMemorySessionStore())
    assert stored(SqliteSessionStore(":memory:"))
    together()
    asyncio.run(together_in_async_code())
    asyncio.run(contents_in_async_code())
    neighbours()
