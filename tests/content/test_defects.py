"""The defects of the original, one test a row: what must be so instead."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autocontext import AutoContextMemory, ContextOffloadTool, ImageBlock, Msg, TextBlock, ToolResultBlock
from autocontext.content import (
    ContentInfo,
    PrunePolicy,
    SqliteContentStore,
    aprune_messages,
    get_file_content_tool,
    prune_messages,
    restore_messages,
)
from autocontext.content.store import PagedContentStore
from autocontext.errors import ConfigError, StoreCorruptError, StoreError
from autocontext.stores.database import Statement, Work
from autocontext.testing import assert_valid_chat, assistant, system, tool_call, tool_result, user
from autocontext.tokens import get_counter
from tests.content.test_features import files, outputs, rounds

PNG = ImageBlock(source={"type": "url", "url": "https://example.org/a.png"})


class FullStore(SqliteContentStore):
    """A store whose disk is full."""

    def put(self, *_: Any, **__: Any) -> ContentInfo:
        raise StoreError("the disk is full")


def test_each_put_writes_its_own_pages_only(file: SqliteContentStore) -> None:
    """Was: 253 MB written for 5 MB, the whole corpus in memory."""
    texts = [f"{i:06}" * 8_500 for i in range(40)]
    for i, text in enumerate(texts):
        file.put(text, key=str(i))
    stats = file.stats()
    assert stats.pages == 40 * 4
    assert stats.stored_bytes < 0.1 * stats.payload_bytes
    folder = Path(file.database.name).parent
    assert sum(p.stat().st_size for p in folder.iterdir()) <= 1.5 * stats.payload_bytes


@pytest.mark.slow
def test_what_put_has_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    code = (
        "import sys\nfrom autocontext.content import SqliteContentStore\nstore = SqliteContentStore(sys.argv[1])\n"
        "i = 0\nwhile True:\n    store.put(f'{i} ' * 20_000, key=f'k{i}')\n    print(i, flush=True)\n    i += 1\n"
    )
    first = 0
    for attempt in range(5):
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged = [int(process.stdout.readline()) for _ in range(3 + attempt * 2)]
            process.send_signal(signal.SIGKILL)
            acknowledged += [int(line) for line in process.stdout.read().split("\n") if line.strip()]
        first = max(first, acknowledged[-1])
        store = SqliteContentStore(path)
        for i in range(first + 1):
            page = store.read(f"k{i}")
            assert page is not None
            assert page.text == f"{i} " * 20_000
        store.close()


def test_a_damaged_file_is_an_error_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    path.write_bytes(b"not a database " * 1_000)
    with pytest.raises(StoreCorruptError, match=r"agent\.db"):
        SqliteContentStore(path)
    assert path.read_bytes() == b"not a database " * 1_000


def test_a_damaged_page_is_an_error_naming_the_content(file: SqliteContentStore) -> None:
    ref = file.put("text " * 20_000).ref
    file.put("fine", key="fine")

    def damage(sql: str) -> Work[None]:
        yield Statement(sql, {"ref": ref})

    file.database.write(
        lambda: damage("UPDATE autocontext_content_page SET body = x'00' WHERE ref = :ref AND page = 2")
    )
    page = file.read(ref, 0, 100)
    assert page is not None
    assert page.text == ("text " * 20)
    with pytest.raises(StoreCorruptError, match=ref):
        file.read(ref)
    file.database.write(lambda: damage("DELETE FROM autocontext_content_page WHERE ref = :ref AND page = 2"))
    with pytest.raises(StoreCorruptError, match=f"{ref}: a page of 0 to 6 is missing"):
        file.read(ref)
    assert file.has("fine")


@pytest.mark.parametrize(
    ("checksum", "told"), [("checksum", r"page 0: the row has changed"), ("NULL", "its hash differs")]
)
def test_content_that_was_changed_in_place_is_told(file: SqliteContentStore, checksum: str, told: str) -> None:
    """Without a checksum, as in rows of earlier versions, the hash of the whole tells."""
    ref = file.put("the truth").ref
    other = file.put("something else").ref

    def swap() -> Work[None]:
        yield Statement("DELETE FROM autocontext_content_page WHERE ref = :ref", {"ref": ref})
        yield Statement(
            f"UPDATE autocontext_content_page SET ref = :ref, checksum = {checksum} WHERE ref = :other",
            {"ref": ref, "other": other},
        )

    file.database.write(swap)
    with pytest.raises(StoreCorruptError, match=told):
        file.read_bytes(ref)


def test_the_text_stays_when_the_store_fails() -> None:
    store = FullStore(":memory:")
    messages = files()
    result = prune_messages(messages, store=store)
    assert result.messages == messages
    assert result.refs == ()
    assert result.report.changed == 0
    assert result.report.failed == ("StoreError: the disk is full",)
    assert "kept: StoreError: the disk is full" in str(result.report)


def test_every_placeholder_names_a_handle_that_the_reload_tool_takes(memory_store: SqliteContentStore) -> None:
    messages = files(text=lambda i: f"file {i}: " + "".join(chr(97 + (i * j) % 26) for j in range(4_990)))
    result = prune_messages(messages, store=memory_store)
    reload = ContextOffloadTool(AutoContextMemory(), content=memory_store)
    for i, text in enumerate(outputs(result.messages)):
        ref = text.split('context_reload("')[1].split('"')[0]
        head, _, body = reload(ref).partition("\n")
        assert head.startswith(f"[{ref}: get_file_content, ")
        assert body == outputs(messages)[i]


def test_any_tool_s_result_is_stored_before_it_is_replaced(memory_store: SqliteContentStore) -> None:
    messages = rounds(6)
    result = prune_messages(messages, store=memory_store)
    replaced = [(old, new) for old, new in zip(messages, result.messages, strict=True) if old != new]
    assert len(replaced) == result.report.changed == 6
    for old, new in replaced:
        mark = new.tool_results[0].metadata["pruned"]
        page = memory_store.read(mark["ref"])
        assert page is not None
        assert page.text == old.tool_results[0].text
        assert mark["sha256"] == hashlib.sha256(page.text.encode()).hexdigest()
        assert mark["chars"] == 5_000
    assert restore_messages(result.messages, store=memory_store) == messages


def test_a_restore_from_another_store_is_refused(memory_store: SqliteContentStore) -> None:
    pruned = prune_messages(rounds(6), store=memory_store).messages
    with pytest.raises(StoreCorruptError, match="not in this store"):
        restore_messages(pruned, store=SqliteContentStore(":memory:"))


def test_the_first_and_the_latest_user_message_are_never_trimmed(memory_store: SqliteContentStore) -> None:
    long = "important " * 200
    messages = [user(long), assistant("ok"), user(long + "2"), assistant("ok"), user(long + "3"), *rounds(2, 10)[1:4]]
    messages += [assistant("still at it")] * 5
    result = prune_messages(messages, store=memory_store)
    assert result.messages[0] == messages[0]
    assert result.messages[4] == messages[4]
    assert result.messages[2].text.startswith(long[:400])
    assert result.report.user == 1
    off = prune_messages(messages, store=memory_store, policy=PrunePolicy(prune_user=False))
    assert off.messages == messages


def test_short_results_never_grow(memory_store: SqliteContentStore) -> None:
    for size in (0, 50, 69, 79, 131, 200):
        messages = rounds(5, chars=1)
        messages[2] = tool_result("call_0", "r" * size)
        for least in (0, 200):
            policy = PrunePolicy(min_prune_chars=least)
            result = prune_messages(messages, store=memory_store, policy=policy)
            assert result.chars_after <= result.chars_before
            if least or size < 70:
                assert result.messages == messages


def test_pruning_twice_keeps_size_and_origin(memory_store: SqliteContentStore) -> None:
    once = prune_messages(files(), store=memory_store).messages
    later = [*once, user("next"), assistant("one"), assistant("two"), assistant("three")]
    twice = prune_messages(later, store=memory_store)
    blocks = [(old.content[0], new.content[0]) for old, new in zip(once, twice.messages, strict=False)]
    pruned = [(old, new) for old, new in blocks if "pruned" in old.metadata]
    assert pruned
    for old, new in pruned:
        # A beginning that was kept among the newest goes when it is old; what is known of the text stays.
        assert [new.metadata["pruned"][k] for k in ("ref", "chars", "sha256")] == [
            old.metadata["pruned"][k] for k in ("ref", "chars", "sha256")
        ]
        assert old == new or old.metadata["pruned"]["head"] > 0
    again = prune_messages(twice.messages, store=memory_store)
    assert again.messages == twice.messages
    assert again.report.changed == 0


def test_the_kept_tail_is_widened_to_whole_exchanges(memory_store: SqliteContentStore) -> None:
    ids = [f"p{i}" for i in range(5)]
    uses = [tool_call("read", {"n": i}, id=k).tool_uses[0] for i, k in enumerate(ids)]
    calls = Msg(role="assistant", content=uses)
    messages = [user("go"), calls, *(tool_result(k, "d" * 1_000) for k in ids)]
    result = prune_messages(messages, store=memory_store)
    assert result.messages == messages, "the last four would cut the first result off its call"
    before = [*rounds(3), *messages]
    result = prune_messages(before, store=memory_store)
    assert result.messages[-6:] == before[-6:]
    assert result.report.old_tool == 3
    assert_valid_chat(result.messages)


def test_images_and_structure_stay_in_place(memory_store: SqliteContentStore) -> None:
    blocks = [TextBlock(text="page " * 200), PNG, TextBlock(text="short")]
    shot = Msg(role="tool", content=[ToolResultBlock(id="s", name="shot", output=blocks)])
    asked = Msg(role="user", content=[PNG, TextBlock(text="look " * 200)])
    messages = [user("task"), asked, tool_call("shot", id="s"), shot, *rounds(3, chars=10)]
    result = prune_messages(messages, store=memory_store)
    output = result.messages[3].tool_results[0].output
    assert output[1:] == tuple(blocks[1:])
    assert output[0] != blocks[0]
    assert result.messages[1].content[0] == PNG
    assert len(result.messages[1].text) < 500
    assert restore_messages(result.messages, store=memory_store) == messages


def test_system_messages_are_kept_wherever_they_stand_and_index_0_is_nothing_special(
    memory_store: SqliteContentStore,
) -> None:
    call = tool_call("read", id="c0")
    messages = [call, tool_result("c0", "z" * 900), system("rule " * 500), *rounds(3), system("late " * 500)]
    result = prune_messages(messages, store=memory_store)
    assert result.messages[1] != messages[1], "message 0 belongs to no system prompt here"
    assert [m for m in result.messages if m.role == "system"] == [m for m in messages if m.role == "system"]
    first = [tool_result("lost", "z" * 900), *rounds(3)]
    assert prune_messages(first, store=memory_store).messages[0] != first[0]


def test_an_error_keeps_its_flag_and_first_line(memory_store: SqliteContentStore) -> None:
    flagged = tool_result("call_0", "KeyError: 'user_id'\n" + "frame\n" * 300, name="run", is_error=True)
    trace = "Traceback (most recent call last):\n" + "  File 'a.py'\n" * 300 + "ValueError: bad date"
    messages = [tool_call("run", id="call_0"), flagged, tool_call("run", id="call_1"), tool_result("call_1", trace)]
    pruned = prune_messages([*messages, *rounds(3)], store=memory_store).messages
    assert pruned[1].tool_results[0].is_error
    assert "an error: KeyError: 'user_id'; 1,820 chars" in outputs(pruned)[0]
    assert "an error: ValueError: bad date;" in outputs(pruned)[1]


@pytest.mark.slow
def test_a_file_name_that_two_files_have_is_an_error_listing_both(store: PagedContentStore) -> None:
    store.put("one", key="/a/config.py")
    store.put("two", key="/b/config.py")
    store.put("three", key="/b/only.py")
    store.put("windows", key="C:\\src\\win.py")
    store.put("by name", name="named.txt")
    tool = get_file_content_tool(store)
    assert tool("config.py")["available_files"] == ["/a/config.py", "/b/config.py"]
    assert "ambiguous" in tool("config.py")["error"]
    assert tool("/b/config.py")["chunk"] == "two"
    assert tool("only.py")["chunk"] == tool("some/where/only.py")["chunk"] == "three"
    assert tool("win.py")["chunk"] == "windows"
    assert tool("named.txt")["chunk"] == "by name"


def test_odd_ranges_are_clamped_and_said(store: PagedContentStore) -> None:
    store.put("0123456789", key="k")
    page = store.read("k", -3, 2)
    assert page is not None
    assert (page.text, page.offset, page.next_offset) == ("01", 0, 2)
    assert "before the beginning" in page.notice
    for least in (-2, 0):  # a reader goes on at `next_offset`: a page of nothing would never end
        page = store.read("k", 4, least)
        assert page is not None
        assert (page.text, page.next_offset) == ("4", 5)
        assert page.notice == f"limit {least} is less than 1, 1 was taken"
    page = store.read("k", 10**15, 10**15)
    assert page is not None
    assert page.text == ""
    assert not page.has_more
    assert "past the end" in page.notice
    tool = get_file_content_tool(store)
    assert tool("k", "2", "3")["chunk"] == "234"
    assert tool("k", None, "all of it")["chunk"] == "0123456789"
    assert "notice" in tool("k", -5)
    assert "notice" not in tool("k", 5)


def test_no_sign_of_several_characters_is_cut(store: PagedContentStore) -> None:
    family = "👨‍👩‍👧"
    store.put("ab" + family + "cd", key="zwj")
    page = store.read("zwj", 0, 4)
    assert page is not None
    assert page.text == "ab"
    assert page.next_offset == 2
    page = store.read("zwj", 2, 100)
    assert page is not None
    assert page.text == family + "cd"
    store.put("x\ud83d\ude00y", key="pair")
    page = store.read("pair", 0, 2)
    assert page is not None
    assert page.text == "x"
    assert page.next_offset == 1
    page = store.read("pair", 1, 1)
    assert page is not None
    assert page.text == "\ud83d\ude00"
    page = store.read("pair", 2)
    assert page is not None
    assert page.text == "\ud83d\ude00y"
    assert page.offset == 1
    assert "surrogate" in page.notice


def test_a_reloaded_page_is_not_stored_again_and_points_to_its_origin(memory_store: SqliteContentStore) -> None:
    text = "\n".join(f"line {i} of the report" for i in range(1_000))
    ref = memory_store.put(text, name="report").ref
    memory = AutoContextMemory()
    reload = ContextOffloadTool(memory, content=memory_store)
    whole = user("the whole story " * 100)
    memory.offload("0f0f0f0f-aaaa-4bbb-8ccc-000000000000", [whole])
    asked: list[dict[str, Any]] = [
        {"working_context_offload_uuid": ref, "offset": 500, "limit": 4_000},
        {"working_context_offload_uuid": ref, "query": "line 77"},
        {"working_context_offload_uuid": "0f0f0f0f-aaaa-4bbb-8ccc-000000000000"},
        {"working_context_offload_uuid": "c_unknown00000" * 30},
    ]
    messages = [user("go")]
    for i, arguments in enumerate(asked):
        messages += [tool_call("context_reload", arguments, id=f"r{i}"), tool_result(f"r{i}", reload(**arguments))]
    fresh = prune_messages(messages, store=memory_store)
    assert fresh.messages[-4:] == messages[-4:], "among the newest it stays whole"
    before = memory_store.stats().contents
    result = prune_messages([*messages, *rounds(2, chars=10)], store=memory_store)
    assert memory_store.stats().contents == before, "no second copy"
    old = outputs(result.messages)
    assert old[0] == f'[A page of it was here. Read: context_reload("{ref}", offset=500, limit=4000)]'
    assert old[1] == f"[A page of it was here. Read: context_reload(\"{ref}\", query='line 77')]"
    assert '"0f0f0f0f-aaaa-4bbb-8ccc-000000000000", offset=0, limit=' in old[2]
    assert old[3] == outputs(messages)[3], "an answer that leads nowhere stays"
    restored = restore_messages(result.messages, store=memory_store, reload=reload)
    assert restored[: len(messages)] == messages
    again = prune_messages(result.messages, store=memory_store)
    assert again.messages == result.messages


@pytest.mark.parametrize(
    "key", ["m2", "m2,m5", "m2-m8", "m102", "m102-m105", "child/m2", "child/m2,m5", "child/m102-m105"]
)
@pytest.mark.parametrize("line", ["GET /orders/{n} 200", "Ticket {n}: the customer wants the refund on the old card"])
def test_an_old_page_of_messages_becomes_its_call_whatever_its_numbers(
    memory_store: SqliteContentStore, key: str, line: str
) -> None:
    memory = AutoContextMemory()
    whose = memory.child("child") if key.startswith("child/") else memory
    whose.add([user(f"{line.format(n=n)}, {n}. " * 20) for n in range(1, 111)])
    reload = memory.tools("reload")[0]
    arguments = {"working_context_offload_uuid": key}
    messages = [tool_call("context_reload", arguments, id="r"), tool_result("r", reload(**arguments))]
    memory.add(messages)
    result = prune_messages([user("go"), *messages, *rounds(2, chars=10)], store=memory_store)
    assert result.report.page == 1
    assert outputs(result.messages)[0].startswith(f'[A page of it was here. Read: context_reload("{key}", offset=0')
    with pytest.raises(ConfigError, match="pass reload="):
        restore_messages(result.messages, store=memory_store)
    restored = restore_messages(result.messages, store=memory_store, reload=reload)
    assert restored[1:3] == messages
    assert prune_messages(result.messages, store=memory_store).messages == result.messages


def test_other_excluded_tools_stay_whole(memory_store: SqliteContentStore) -> None:
    policy, messages = PrunePolicy(exclude_tools=frozenset({"get_file_content"})), files()
    assert prune_messages(messages, store=memory_store, policy=policy).messages == messages


@pytest.mark.slow
def test_pruning_waits_until_a_batch_frees_enough(memory_store: SqliteContentStore) -> None:
    counter = get_counter("o200k_base")
    messages = rounds(40, chars=1_000)
    policy = PrunePolicy(clear_at_least_tokens=2_000)
    changes, earlier = 0, []
    for size in range(4, len(messages) + 1, 4):
        now = prune_messages(messages[:size], store=memory_store, policy=policy).messages
        differs = [old != new for old, new in zip(earlier, now, strict=False)]
        if any(differs):
            changes += 1
            freed = sum(counter.count(o) - counter.count(n) for o, n in zip(earlier, now, strict=False))
            assert freed >= 2_000
        earlier = now
    assert 1 <= changes <= 10, "39 turns broke the prompt cache only a few times"
    eager = prune_messages(messages, store=memory_store).report.old_tool
    assert prune_messages(messages, store=memory_store, policy=policy).report.old_tool <= eager


def test_sizes_may_be_tokens(memory_store: SqliteContentStore) -> None:
    words = "word " * 1_000
    messages = [user("go"), tool_call("read", id="c"), tool_result("c", words)]
    policy = PrunePolicy(unit="tokens", large_tool_chars=900, recent_tool_keep_chars=50)
    text = outputs(prune_messages(messages, store=memory_store, policy=policy).messages)[0]
    kept = text.split("...")[0]
    assert get_counter("o200k_base").count_text(kept) == 50
    policy = PrunePolicy(unit="tokens", large_tool_chars=1_100)
    assert prune_messages(messages, store=memory_store, policy=policy).messages == messages


def test_async_pruning_does_the_same(memory_store: SqliteContentStore) -> None:
    messages = [*files(), *rounds(5)]
    sync = prune_messages(messages, store=memory_store)
    assert asyncio.run(aprune_messages(messages, store=memory_store)) == sync
    assert asyncio.run(aprune_messages(messages, store=None)).messages == messages
    assert asyncio.run(aprune_messages("text", store=memory_store)).messages == "text"  # type: ignore[arg-type,comparison-overlap]


def test_a_store_without_async_methods_is_used_in_a_thread(memory_store: SqliteContentStore) -> None:
    class SyncOnly:
        def put(self, text: str, **about: Any) -> ContentInfo:
            return memory_store.put(text, **about)

    store: Any = SyncOnly()
    assert asyncio.run(aprune_messages(files(), store=store)).report.changed == 10
    broken: Any = FullStore(":memory:")
    broken.aput = broken.put  # what cannot be awaited fails as well
    assert asyncio.run(aprune_messages(files(), store=broken)).report.failed == ("StoreError: the disk is full",)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("keep_last", -1),
        ("large_tool_chars", "3000"),
        ("keep_unit", "rounds"),
        ("unit", "words"),
        ("min_prune_chars", True),
        ("exclude_tools", "read_file"),
        ("exclude_tools", {"search_orders", 5}),
        ("exclude_tools", 5),
    ],
)
def test_a_wrong_policy_names_the_field(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=field):
        PrunePolicy(**{field: value})  # type: ignore[arg-type]


def test_reading_a_page_of_a_long_text_touches_its_rows_only(file: SqliteContentStore) -> None:
    ref = file.put("0123456789" * 100_000, key="long").ref

    def keep_two() -> Work[None]:
        yield Statement("DELETE FROM autocontext_content_page WHERE ref = :ref AND NOT page IN (30, 31)", {"ref": ref})

    file.database.write(keep_two)
    page = file.read("long", 500_000, 10_000)
    assert page is not None
    assert page.text == "0123456789" * 1_000


@pytest.mark.slow
def test_many_processes_put_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    code = (
        "import sys\nfrom autocontext.content import SqliteContentStore\nstore = SqliteContentStore(sys.argv[1])\n"
        "for i in range(25):\n    store.put(f'shared {i} ' * 500, key=f'{sys.argv[2]}/{i}')\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(4)]
    assert [process.wait(timeout=300) for process in started] == [0] * 4
    store = SqliteContentStore(path)
    assert (store.stats().contents, store.stats().keys) == (25, 100)
    for n in range(4):
        for i in range(25):
            assert store.delete(f"{n}/{i}")
    assert store.stats().contents == store.stats().pages == 0


def test_pinned_messages_and_notes_of_a_compression_stay(memory_store: SqliteContentStore) -> None:
    long = "word " * 300
    pinned = tool_result("call_0", "z" * 900, metadata={"pinned": True})
    note = user(long, metadata={"_compress_meta": {"offloaduuid": "u"}})
    stub = tool_result("call_1", "s" * 900, metadata={"_compress_meta": {"offloaduuid": "v"}})
    messages = [user("task"), tool_call("read", id="call_0"), pinned, note, tool_call("read", id="call_1"), stub]
    messages += [user(long, metadata={"pinned": True}), *rounds(2, chars=10)]
    assert prune_messages(messages, store=memory_store).messages == messages


def test_a_longer_handle_that_makes_the_text_no_shorter_is_not_used(file: SqliteContentStore) -> None:
    text = "r" * 72  # the notice has 71 characters with a handle of 14, 75 with one of 18
    ref = file.put(text).ref

    def disguise() -> Work[None]:
        yield Statement("UPDATE autocontext_content SET sha256 = 'another' WHERE ref = :ref", {"ref": ref})

    messages = rounds(5, chars=1)
    messages[2] = tool_result("call_0", text)
    policy = PrunePolicy(min_prune_chars=0)
    result = prune_messages(messages, store=file, policy=policy)
    assert len(result.messages[2].tool_results[0].text) == 71
    file.database.write(disguise)
    assert prune_messages(messages, store=file, policy=policy).messages == messages
