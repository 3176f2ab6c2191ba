"""Sessions of AgentScope-Java: everything arrives, damage is named by file and line."""

import json
import shutil
from pathlib import Path

import pytest

from autocontext import AutoContextMemory, ImageBlock, TextBlock, ToolResultBlock
from autocontext.errors import Conflict, InvalidMessage
from autocontext.stores import InMemorySessionStore, SqliteSessionStore, import_agentscope_java
from autocontext.stores.agentscope_java import KEPT
from autocontext.testing import assert_valid_chat
from tests.stores.stores import KINDS, stored

DATA = Path(__file__).parent.parent / "data" / "agentscope_java_session"
UUID = "0b9d4f3e-7c1a-4b52-9a3f-2f6f0a1f7d11"


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(DATA, tmp_path / "session"))


def lines(name):
    return [json.loads(line) for line in (DATA / f"autoContextMemory_{name}.jsonl").read_text().splitlines()]


def test_messages_arrive_with_their_ids_times_roles_and_texts():
    memory = import_agentscope_java(DATA)
    for there, here in (
        (lines("originalMessages"), memory.get_original_memory_msgs()),
        (lines("workingMessages"), memory.messages),
    ):
        assert [(m.id, m.role.upper(), m.name, m.timestamp) for m in here] == [
            (m["id"], m["role"], m["name"], m["timestamp"]) for m in there
        ]
        texts = [[b["text"] for b in m["content"] if b["type"] == "text"] for m in there]
        assert [
            [b.text for b in m.content if isinstance(b, TextBlock) and KEPT not in b.metadata] for m in here
        ] == texts
    assert_valid_chat(memory.messages)


def test_what_was_offloaded_can_be_reloaded():
    memory = import_agentscope_java(DATA)
    assert [m.id for m in memory.reload(UUID)] == ["5f0c3c52-0003", "5f0c3c52-0004"]
    assert memory.reload(UUID) == memory.get_original_memory_msgs()[2:4]


def test_blocks_keep_what_they_held():
    messages = import_agentscope_java(DATA).get_original_memory_msgs()
    [_, url, data] = messages[1].content
    assert isinstance(url, ImageBlock)
    assert url.source == {"type": "url", "url": "https://example.org/a.png"}
    assert data.source["media_type"] == "image/png"
    call = messages[2].tool_uses[0]
    assert call.input == {"path": "/var/log/deploy.log", "lines": 200}
    assert call.metadata[KEPT] == {"content": json.dumps(dict(call.input), separators=(",", ":")), "state": "FINISHED"}
    assert messages[2].metadata["_chat_usage"]["inputTokens"] == 812
    assert [b.is_error for m in messages for b in m.content if isinstance(b, ToolResultBlock)] == [False, True]
    hint = messages[5].content[1]
    assert hint.metadata[KEPT] == {"type": "hint", "hint": "from the knowledge base", "source": "rag"}


def test_events_arrive():
    [event] = import_agentscope_java(DATA).get_compression_events()
    assert event.event_type == "TOOL_INVOCATION_COMPRESS"
    assert (event.timestamp, event.token_reduction) == (1767607208108, 480)
    assert event.compressed_message_id == "5f0c3c52-0009"
    assert event.metadata == {"inputToken": 600, "outputToken": 25, "time": 1.5, "tokenBefore": 520, "tokenAfter": 40}


def test_the_session_goes_on_in_a_store(tmp_path):
    store = SqliteSessionStore(tmp_path / "agent.db")
    memory = import_agentscope_java(DATA, store=store, user_id="u")
    assert memory.session == ("u", "agentscope_java_session")
    again = AutoContextMemory(store=store, user_id="u", session_id="agentscope_java_session")
    assert again.state_dict() == memory.state_dict()
    assert store.search("端口", user_id="u")
    again.compress_if_needed(force=True)
    assert_valid_chat(again.messages)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_session_that_exists_is_not_replaced(kind, goes_on, tmp_path):
    with stored(kind, tmp_path) as store:
        memory = import_agentscope_java(DATA, store=store, user_id="u")
        memory.add({"role": "user", "content": "a new question"}) if goes_on else memory.clear()
        with pytest.raises(Conflict, match="'agentscope_java_session' exists already; import it under another id"):
            import_agentscope_java(DATA, store=store, user_id="u")
        again = AutoContextMemory(store=store, user_id="u", session_id="agentscope_java_session")
        assert again.state_dict() == memory.state_dict()
        assert import_agentscope_java(DATA, store=store, user_id="u", session_id="2").session.session_id == "2"
        assert import_agentscope_java(DATA, store=store, user_id="v").session.user_id == "v"


@pytest.mark.parametrize("directory", [".", "../session", "../session/.", ""])
def test_the_session_has_the_name_of_its_directory_however_that_is_written(copy, directory, monkeypatch):
    monkeypatch.chdir(copy)
    assert import_agentscope_java(directory).session.session_id == "session"
    assert import_agentscope_java(directory, store=InMemorySessionStore()).session.session_id == "session"


@pytest.mark.parametrize("nested", [True, False])
def test_one_file_with_all_keys_reads_the_same(tmp_path, nested):
    keys = {
        "autoContextMemory_workingMessages": lines("workingMessages"),
        "autoContextMemory_originalMessages": lines("originalMessages"),
        "autoContextMemory_offloadContext": json.loads((DATA / "autoContextMemory_offloadContext.json").read_text()),
        "autoContextMemory_compressionEvents": lines("compressionEvents"),
    }
    path = tmp_path / "s7.json"
    path.write_text(json.dumps({"agent": {"name": "Friday"}, "autoContextMemory": keys} if nested else keys, indent=1))
    memory = import_agentscope_java(path)
    assert memory.session.session_id == "s7"
    assert memory.state_dict() == import_agentscope_java(DATA).state_dict()


def test_an_older_session_without_offloads_events_or_originals_reads_too(copy):
    for name in ("offloadContext.json", "compressionEvents.jsonl", "originalMessages.jsonl"):
        (copy / f"autoContextMemory_{name}").unlink()
    memory = import_agentscope_java(copy)
    assert memory.messages == memory.get_original_memory_msgs()
    assert memory.get_compression_events() == []


def test_a_note_is_found_only_where_it_is_all_that_is_left(copy, tmp_path):
    [note] = [m["id"] for m in lines("workingMessages") if "_compress_meta" in m["metadata"]]
    for is_left in (False, True):
        if is_left:
            (copy / "autoContextMemory_originalMessages.jsonl").unlink()
        store = SqliteSessionStore(tmp_path / f"{is_left}.db")
        import_agentscope_java(copy, store=store, user_id="u")
        found = [hit.message_id for hit in store.search("port 5432 is taken", user_id="u")]
        assert found
        assert (note in found) is is_left


def replace_line(path, number, by):
    old = path.read_text().split("\n")
    old[number - 1] = by
    path.write_text("\n".join(old))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"id":"x","role":"USER","content":[{"type":"te', r"it is not JSON \(.*was the file cut off\?"),
        ('"text"', "it is a str, not an object"),
        ('{"id":"x","content":[]}', "role"),
        ('{"id":"x","role":"WIZARD","content":[]}', "role"),
        ('{"id":"x","role":"USER","content":[{"text":"no type"}]}', "a block is an object with the text `type`"),
        ('{"id":"x","role":"USER","content":7}', "it is a int, not a list of blocks"),
        ('{"id":"x","role":"USER","content":[],"metadata":[1]}', "it is a list, not an object"),
    ],
)
def test_a_damaged_line_is_named_by_file_and_line(copy, tmp_path, line, told):
    replace_line(copy / "autoContextMemory_originalMessages.jsonl", 4, line)
    store = SqliteSessionStore(tmp_path / "agent.db")
    with pytest.raises(InvalidMessage, match=rf"autoContextMemory_originalMessages\.jsonl:4: .*{told}"):
        import_agentscope_java(copy, store=store)
    assert store.sessions() == []


def test_bytes_that_are_no_utf8_are_named(copy):
    path = copy / "autoContextMemory_workingMessages.jsonl"
    path.write_bytes(path.read_bytes() + b"\xff\n")
    with pytest.raises(InvalidMessage, match=r"workingMessages\.jsonl:8: it is not UTF-8"):
        import_agentscope_java(copy)


def test_a_damaged_offload_context_is_named(copy):
    (copy / "autoContextMemory_offloadContext.json").write_text('{\n "offloadContext": {"u": 1}}')
    with pytest.raises(InvalidMessage, match=r"offloadContext\.json: it does not map UUIDs to lists"):
        import_agentscope_java(copy)
    (copy / "autoContextMemory_offloadContext.json").write_text('{\n "offloadContext": {"u": ')
    with pytest.raises(InvalidMessage, match=r"offloadContext\.json:2: it is not JSON"):
        import_agentscope_java(copy)


def test_what_is_no_session_is_told(tmp_path):
    with pytest.raises(InvalidMessage, match="give the directory of one session"):
        import_agentscope_java(tmp_path)
    with pytest.raises(InvalidMessage, match="there is no such file or directory"):
        import_agentscope_java(tmp_path / "nowhere")
