"""What the content store and pruning do, one test a feature."""

from __future__ import annotations

import asyncio
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autocontext import Msg, TextBlock, ToolResultBlock
from autocontext.content import (
    ContentStore,
    PrunePolicy,
    SqliteContentStore,
    aprune_messages,
    get_file_content_tool,
    prune_messages,
)
from autocontext.content.store import PagedContentStore
from autocontext.errors import ConfigError, InvalidMessage
from autocontext.testing import assistant, system, tool_call, tool_result, user
from tests.content.conftest import Clock


def files(count: int = 10, chars: int = 5_000, text: Callable[[int], str] | None = None) -> list[Msg]:
    """The original's benchmark conversation: system, then question, announcement and file, `count` times."""
    made = [system("You are a helpful assistant.")]
    for i in range(count):
        made.append(user(f"Get content from file_{i}.txt"))
        made.append(assistant(f"I'll retrieve file_{i}.txt"))
        made.append(tool_result(f"c{i}", text(i) if text else "x" * chars, name="get_file_content"))
    return made


def rounds(count: int, chars: int = 5_000) -> list[Msg]:
    """Question, call, result and answer, `count` times."""
    made = []
    for i in range(count):
        call = tool_call("read_file", {"path": f"/src/{i}.py"}, id=f"call_{i}")
        made += [user(f"Question {i}"), call, tool_result(f"call_{i}", f"{i}" * chars), assistant(f"Answer {i}")]
    return made


def outputs(messages: list[Msg]) -> list[str]:
    return [r.text for m in messages for r in m.tool_results]


@pytest.mark.slow
def test_000_1_content_survives_the_process_and_is_seen_by_another_instance(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    code = (
        "from autocontext.content import SqliteContentStore\nimport sys\n"
        "SqliteContentStore(sys.argv[1]).put('text ' * 1000, key='/docs/a.txt', name='a', path='/docs/a.txt', "
        "type='md', summary='about a')"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=300)
    one, two = SqliteContentStore(path), SqliteContentStore(path)
    for store in (one, two):
        page = store.read("/docs/a.txt")
        info = store.info("/docs/a.txt")
        assert page is not None
        assert page.text == "text " * 1000
        assert info is not None
        assert (info.name, info.path, info.type, info.summary) == ("a", "/docs/a.txt", "md", "about a")
    two.put("more", key="b")
    assert one.has("b"), "a second instance on the same file sees what the first stores, and the other way round"


def test_000_2_put_returns_the_record_without_the_content(store: PagedContentStore) -> None:
    info = store.put("hello", key="k", name="n", path="p", type="t", summary="s")
    assert (info.key, info.name, info.path, info.type, info.summary, info.chars) == ("k", "n", "p", "t", "s", 5)
    assert not hasattr(info, "text")
    bare = store.put("hello", key="bare")
    assert (bare.name, bare.path, bare.summary) == ("", "", "")
    store.put("other", key="k")
    page = store.read("k")
    assert page is not None
    assert page.text == "other", "putting again replaces"


def test_000_3_reading_a_slice(store: PagedContentStore) -> None:
    store.put(string.ascii_uppercase, key="abc")
    page = store.read("abc", 5, 10)
    assert page is not None
    assert page.text == "FGHIJKLMNO"
    page = store.read("abc", 20)
    assert page is not None
    assert page.text == "UVWXYZ"
    page = store.read("abc", 100)
    assert page is not None
    assert page.text == ""
    assert store.read("unknown") is None


def test_000_4_has_summary_info_and_clear(store: PagedContentStore) -> None:
    info = store.put("hello", key="k", summary="greets")
    assert store.has("k")
    assert store.has(info.ref)
    assert not store.has("x")
    assert store.summary("k") == "greets"
    assert store.summary("x") is None
    assert store.info("k") == info
    assert store.info("x") is None
    store.clear()
    assert not store.has("k")
    assert not store.has(info.ref)
    assert store.stats(None).contents == store.stats(None).pages == store.stats(None).keys == 0


def test_000_5_the_file_tool_gives_compact_chunks(store: PagedContentStore) -> None:
    text = "".join(f"line {i}\n" for i in range(3_000))
    store.put(text, key="/data/long.txt")
    tool = get_file_content_tool(store)
    first = tool("long.txt")
    assert first == {
        "file_name": "long.txt", "chunk": text[:5_000], "start_char": 0, "end_char": 5_000,
        "total_length": len(text), "has_more": True,
    }  # fmt: skip
    assert len(tool("long.txt", 0, 50_000)["chunk"]) == 10_000
    last = tool("long.txt", start_char=len(text) - 10)
    assert last["chunk"] == text[-10:]
    assert last["end_char"] == len(text)
    assert not last["has_more"]
    unknown = tool("short.txt")
    assert set(unknown) == {"error", "available_files"}
    assert "'short.txt' not found" in unknown["error"]
    assert unknown["available_files"] == ["/data/long.txt"]


@pytest.mark.parametrize("length", [0, -1, -(10**30), False, None, "none", float("nan")])
def test_a_length_that_reads_nothing_means_the_default(memory_store: SqliteContentStore, length: Any) -> None:
    text = "".join(f"line {i}\n" for i in range(900))
    memory_store.put(text, key="stored.txt")
    tool = get_file_content_tool(memory_store, fallback={"fallback.txt": text})
    for name in ("stored.txt", "fallback.txt"):
        read, at, more = "", 0, True
        while more:
            page = tool(name, start_char=at, length=length)
            assert page["end_char"] > at
            read, at, more = read + page["chunk"], page["end_char"], page["has_more"]
        assert read == text


def test_000_6_the_constants_are_the_defaults_and_can_be_set(memory_store: SqliteContentStore) -> None:
    p = PrunePolicy()
    assert (p.keep_last, p.large_tool_chars, p.large_user_chars, p.user_keep_chars) == (4, 3_000, 800, 400)
    assert (p.recent_tool_keep_chars, p.old_tool_keep_chars, p.min_prune_chars) == (500, 0, 200)
    assert p.keep_unit == "messages"
    assert p.prune_user
    assert p.exclude_tools == {"context_reload"}
    kept = prune_messages(files(), store=memory_store, policy=PrunePolicy(keep_last=31, large_tool_chars=6_000))
    assert kept.chars_after == kept.chars_before
    headed = prune_messages(files(), store=memory_store, policy=PrunePolicy(old_tool_keep_chars=50))
    assert all(text.startswith("x" * 50 + "... [4,950 more chars") for text in outputs(headed.messages)[:8])


def test_000_7_system_prompts_stay(memory_store: SqliteContentStore) -> None:
    messages = [system("s" * 9_000), *files()]
    assert prune_messages(messages, store=memory_store).messages[0] == messages[0]


def test_000_8_the_last_four_messages_stay_unless_very_large(memory_store: SqliteContentStore) -> None:
    messages = rounds(5, chars=2_000)
    pruned = prune_messages(messages, store=memory_store).messages
    assert pruned[-4:] == messages[-4:]
    assert pruned[-6] != messages[-6]
    by_turn = prune_messages(messages, store=memory_store, policy=PrunePolicy(keep_last=2, keep_unit="turns")).messages
    assert by_turn[-8:] == messages[-8:]
    assert by_turn[-10] != messages[-10]


def test_000_9_every_older_result_becomes_a_handle(memory_store: SqliteContentStore) -> None:
    result = prune_messages(files(), store=memory_store)
    old = outputs(result.messages)[:8]
    assert result.report.old_tool == 8
    for text in old:
        assert text == f'[Offloaded get_file_content: 5,000 chars. Read: context_reload("{result.refs[0]}")]'
        assert len(text) <= 132


def test_000_10_a_very_large_recent_result_keeps_its_beginning(memory_store: SqliteContentStore) -> None:
    result = prune_messages(files(), store=memory_store)
    assert result.report.recent_tool == 2
    for text in outputs(result.messages)[8:]:
        assert text == "x" * 500 + f'... [4,500 more chars: context_reload("{result.refs[0]}")]'
        assert len(text) <= 572
    small = files(text=lambda i: "y" * (3_000 if i == 9 else 10))
    assert prune_messages(small, store=memory_store).messages[-1] == small[-1], "3,000 is not more than 3,000"


def test_000_11_a_long_older_user_message_keeps_its_beginning(memory_store: SqliteContentStore) -> None:
    long = "Please look at this: " + "word " * 300
    messages = [user("task"), user(long), *rounds(3, chars=10)]
    result = prune_messages(messages, store=memory_store)
    text = result.messages[1].text
    assert text == long[:400] + f'... [Truncated, {len(long) - 400:,} more chars: context_reload("{result.refs[0]}")]'
    page = memory_store.read(result.refs[0])
    assert page is not None
    assert page.text == long
    exact = [user("task"), user("u" * 800), *rounds(3, chars=10)]
    assert prune_messages(exact, store=memory_store).messages == exact


def test_000_12_pruning_is_pure(memory_store: SqliteContentStore) -> None:
    messages = files()
    dumped = [m.to_dict() for m in messages]
    result = prune_messages(messages, store=memory_store)
    assert [m.to_dict() for m in messages] == dumped
    assert len(result.messages) == len(messages)
    assert [m.role for m in result.messages] == [m.role for m in messages]
    assert prune_messages([], store=memory_store).messages == []
    one = [user("alone " * 1_000)]
    assert prune_messages(one, store=memory_store).messages == one
    text: object = "not a list"
    assert prune_messages(text, store=memory_store).messages is text  # type: ignore[arg-type,comparison-overlap]
    with pytest.raises(InvalidMessage, match=r"messages\[1\] is a dict"):
        prune_messages([user("a"), {"role": "user"}], store=memory_store)  # type: ignore[list-item]


def test_000_13_one_store_serves_all_and_its_absence_is_no_error(memory_store: SqliteContentStore) -> None:
    assert isinstance(memory_store, ContentStore)
    state = {"notes.txt": "held by the caller " * 500}
    without = get_file_content_tool(None, fallback=state)
    assert without("notes.txt")["chunk"] == state["notes.txt"][:5_000]
    assert without("notes.txt", 9_000)["chunk"] == state["notes.txt"][9_000:]
    assert without("other")["available_files"] == ["notes.txt"]
    memory_store.put("stored", key="notes.txt")
    assert get_file_content_tool(memory_store, fallback=state)("notes.txt")["chunk"] == "stored"
    messages = files()
    result = prune_messages(messages, store=None)
    assert result.messages == messages
    assert result.report.failed == ("LookupError: there is no content store",)


@pytest.mark.slow
def test_000_14_compression_ttl_figures_and_search(store: PagedContentStore, clock: Clock) -> None:
    english = "The deployment key rotates on Fridays. " + "Nothing else of note. " * 2_000
    chinese = "项目使用 PostgreSQL 数据库。" + "没有别的内容。" * 2_000
    ref = store.put(english, key="ops.md").ref
    store.put(chinese, key="zh.md")
    store.put(english, key="copy.md")
    store.put("short-lived secret", key="tmp", ttl=60)
    hits = store.search("when does the deployment key rotate?")
    assert hits[0].ref == ref
    assert hits[0].text.startswith("The deployment key rotates")
    assert hits[0].offset == 0
    assert store.search("数据库", limit=1)[0].key == "zh.md"
    assert [hit.ref for hit in store.search("rotates", ref="ops.md")] == [ref], "by a key, too"
    assert store.search("rotates", ref="unknown") == []
    assert store.search("rotates", ref=store.info("zh.md").ref) == []  # type: ignore[union-attr]
    assert store.search("") == store.search("xylophone quartz") == []
    stats = store.stats()
    assert (stats.contents, stats.keys) == (3, 4)
    assert 0 < stats.compression_ratio < 0.1
    assert stats.usage["puts"] == 4
    clock.now += 59_000
    assert store.has("tmp")
    clock.now += 2_000
    assert not store.has("tmp")
    assert store.read("tmp") is None
    assert store.purge_expired() == 1
    assert store.purge_expired() == 0
    assert store.stats().contents == 2


@pytest.mark.slow
def test_000_15_the_claimed_figures_hold_with_handles(memory_store: SqliteContentStore) -> None:
    small = prune_messages(files(), store=memory_store)
    assert small.chars_before == 50_538
    assert small.chars_after <= 2_738
    assert small.reduction >= 0.946
    assert small.chars_before // 31 == 1_630
    assert small.chars_after // 31 <= 88
    large = prune_messages(files(100, text=lambda i: f"{i:05}" * 10_000), store=memory_store)
    assert large.chars_after <= 50_000
    assert large.reduction >= 0.99
    assert all("context_reload(" in text for text in outputs(large.messages))


def test_text_in_a_tool_message_without_a_result_block_is_pruned_as_well(memory_store: SqliteContentStore) -> None:
    bare = [Msg(role="tool", name="grep", content="z" * 1_000), *rounds(3)]
    result = prune_messages(bare, store=memory_store)
    assert result.messages[0].text.startswith("[Offloaded grep: 1,000 chars.")
    blocks = [TextBlock(text="a" * 1_000), TextBlock(text="b")]
    listed = [Msg(role="tool", content=[ToolResultBlock(id="x", output=blocks)]), *rounds(3)]
    output = prune_messages(listed, store=memory_store).messages[0].tool_results[0].output
    assert output[0].text.startswith("[Offloaded result: 1,000 chars")  # type: ignore[union-attr]
    assert output[1] == blocks[1]


def test_a_store_or_a_policy_that_is_none_is_refused_by_name() -> None:
    history: list[Msg] = []
    with pytest.raises(ConfigError, match=r"prune_messages\.store: 'a\.db' is not a content store; write Sqlite"):
        prune_messages(history, store="a.db")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"prune_messages\.policy: 4 is not a PrunePolicy"):
        prune_messages(history, store=None, policy=4)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"aprune_messages\.store: 7 is not a content store"):
        asyncio.run(aprune_messages(history, store=7))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"FileContentTool\.store: 'a\.db' is not a content store"):
        get_file_content_tool("a.db")  # type: ignore[arg-type]
