"""Compactions of the providers: kept as they came, first where Claude wants them, and never in two places at once."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.errors import ConfigError
from autocontext.formats.anthropic_messages import from_anthropic, to_anthropic
from autocontext.formats.openai_responses import from_responses, to_responses
from autocontext.history.log import Log
from autocontext.messages import PINNED, compacted_by, is_compressed
from autocontext.stores import SqliteSessionStore
from autocontext.stores.erasing import erase_messages
from autocontext.testing import assert_valid_chat, assistant, system, tool_exchange, user
from tests.fakes.anthropic_server import ON_DEMAND, THRESHOLD, FakeAnthropic
from tests.fakes.openai_responses import as_chat, compacted
from tests.fakes.sealing import seal

WINDOW = 1_500
MODES = ("keep", "instead")
WORDS = "the lock in /srv/queue.py waits 30 s before it gives up; "


def config(mode: str, **fields: Any) -> AutoContextConfig:
    return AutoContextConfig.for_window(WINDOW, provider_compaction=mode, model_retries=0, **fields)


# ---------------------------------------------------------------------------------------------------- conversations
def turns(provider: str) -> st.SearchStrategy[list[str]]:
    """What happens, in order: the user speaks, the model answers or calls tools, the provider compacts."""
    happens = ["say", "say", "work", "work", "long", "pin", "compact", "compact alone"]
    return st.lists(st.sampled_from([*happens, "failed"] if provider == "anthropic" else happens), max_size=14)


def claude(steps: list[str]) -> Iterator[list[dict[str, Any]]]:
    """The messages that each step adds. One kind of compaction in a conversation, as one application asks for one."""
    signed = sum(map(ord, "".join(steps))) % 2
    for n, step in enumerate(steps):
        text = f"{step} {n}: " + WORDS * (40 if step == "long" else 2)
        block: dict[str, Any] = {"type": "compaction", "content": f"Summary {n}. " + WORDS}
        block |= {"signature": seal(block["content"])} if signed else {"encrypted_content": seal(block["content"])}
        reply = [{"type": "text", "text": f"Answer {n}."}]
        asked = {"role": "user", "content": text}
        if step == "work":
            uses = [{"type": "tool_use", "id": f"t{n}{k}", "name": "read", "input": {"n": n}} for k in "ab"]
            results = [{"type": "tool_result", "tool_use_id": u["id"], "content": text * 3} for u in uses]
            yield [asked, {"role": "assistant", "content": uses}, {"role": "user", "content": results}]
            yield [{"role": "assistant", "content": reply}]
        elif step == "compact alone":
            yield [{"role": "assistant", "content": [block]}]
        elif step == "compact":
            yield [asked, {"role": "assistant", "content": [block] if signed else [block, *reply]}]
        elif step == "failed":
            yield [asked, {"role": "assistant", "content": [{"type": "compaction", "content": None}, *reply]}]
        else:
            yield [asked, {"role": "assistant", "content": reply}]


def responses(steps: list[str]) -> Iterator[list[dict[str, Any]]]:
    for n, step in enumerate(steps):
        text = f"{step} {n}: " + WORDS * (40 if step == "long" else 2)
        item = {**compacted([{"n": n, "text": WORDS * 9}]), "id": f"cmp_{n}"}
        thought = {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": seal(text)}
        part = {"type": "output_text", "text": f"Answer {n}.", "annotations": []}
        reply = {"type": "message", "role": "assistant", "id": f"msg_{n}", "content": [part]}
        asked = {"role": "user", "content": text}
        if step == "work":
            calls = [{"type": "function_call", "call_id": f"t{n}{k}", "name": "read", "arguments": "{}"} for k in "ab"]
            outputs = [{"type": "function_call_output", "call_id": c["call_id"], "output": text * 3} for c in calls]
            yield [asked, thought, *calls, *outputs]
            yield [reply]
        elif step == "compact alone":
            yield [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}, item]
        elif step == "compact":
            yield [asked, item, thought, reply]
        else:
            yield [asked, reply]


FORMATS: dict[str, Any] = {
    "anthropic": (claude, from_anthropic, to_anthropic),
    "openai": (responses, from_responses, to_responses),
}


def is_compaction(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "compaction" and value.get("content", "") is not None


def compactions(sent: Any) -> list[Any]:
    """All compactions in what was sent, as they stand there."""
    inner = [b for m in sent for b in (m["content"] if isinstance(m.get("content"), list) else [])]
    return [value for value in [*sent, *inner] if is_compaction(value)]


@pytest.fixture(scope="module")
def anthropic_api() -> Iterator[FakeAnthropic]:
    with FakeAnthropic() as service:
        yield service


def accept(sent: list[dict[str, Any]], provider: str, api: FakeAnthropic) -> None:
    """Raise if the service would refuse these messages."""
    if provider == "openai":
        as_chat({"input": sent})
        return
    signed = any("signature" in block for block in compactions(sent))
    body = {"model": "m", "max_tokens": 9, "messages": [*sent, {"role": "user", "content": "Go on."}]}
    api.check({**body, "_betas": [ON_DEMAND if signed else THRESHOLD]})


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("provider", FORMATS)
@given(st.data())
def test_compactions_pass_through_whatever_the_passes_do(
    provider: str, mode: str, anthropic_api: FakeAnthropic, data: st.DataObject
) -> None:
    make, read, write = FORMATS[provider]
    steps = data.draw(turns(provider))
    added: list[dict[str, Any]] = []
    with SqliteSessionStore(":memory:") as store:
        memory = AutoContextMemory(config(mode), store=store, session_id="s")
        memory.add_message(system("You are thorough."))
        for step, messages in zip(expanded(steps), make(steps), strict=True):
            msgs = read(messages)
            if step == "pin":
                msgs[0] = msgs[0].model_copy(update={"metadata": {**msgs[0].metadata, PINNED: True}})
            memory.add_messages(msgs)
            added += messages
            if data.draw(st.booleans()):
                memory = AutoContextMemory(config(mode), store=store, session_id="s")
            sent = request_to(provider, memory)
            accept(sent, provider, anthropic_api)
            check_sent(sent, added, mode, provider)
            # The round trip: what came in stands in the log, encrypted content and all, in its order.
            originals = memory.get_original_memory_msgs()[1:]
            assert exact(write(originals)) == exact(added)
            assert [m.id for m in memory.reload(f"m2-m{len(originals) + 1}")] == [m.id for m in originals]
            assert memory.count(memory.get_messages()) <= WINDOW
        snapshot = AutoContextMemory(config(mode))
        snapshot.load_state_dict(memory.state_dict())
        assert snapshot.messages == memory.messages
        sent = request_to(provider, snapshot)
        check_sent(sent, added, mode, provider)


def request_to(provider: str, memory: AutoContextMemory) -> list[dict[str, Any]]:
    return memory.to_anthropic() if provider == "anthropic" else memory.to_responses()


def exact(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def expanded(steps: list[str]) -> list[str]:
    return [step for step in steps for _ in range(2 if step == "work" else 1)]


def check_sent(sent: list[Any], added: list[Any], mode: str, provider: str) -> None:
    found, given_ = compactions(sent), compactions(added)
    assert all(block in given_ for block in found)
    if not given_:
        assert not found
    elif mode == "keep":
        assert found[-1] == given_[-1]
        if provider == "anthropic":
            assert found == given_[-1:]
            assert sent[0]["content"][0] == given_[-1]
        else:
            before = sent[: sent.index(found[-1])]
            assert found == given_[-1:]
            assert all(item.get("role") in ("system", "user") for item in before)
    else:
        # One is sent only if nobody has said anything before it that it could stand for.
        for block in found:
            before = added[: next(i for i, m in enumerate(added) if compactions([m]) == [block])]
            alone = [m for m in before if compactions([m]) and len(m.get("content") or "x") == 1]
            assert all(m.get("role") == "user" or m in alone for m in before)


# ------------------------------------------------------------------------------------------------------ the two ways
BLOCK = {"type": "compaction", "content": "Summary: all about locks.", "signature": seal("Summary: all about locks.")}


def claude_memory(mode: str = "keep", **fields: Any) -> AutoContextMemory:
    memory = AutoContextMemory(config(mode, **fields))
    memory.add_message(system("Be brief."))
    memory.add_messages([user("Read it."), *tool_exchange("read", {"n": 1}, WORDS), assistant("Read.")])
    memory.add({"role": "assistant", "content": [BLOCK]})
    return memory


def test_keep_sends_the_block_in_the_place_of_what_it_stands_for() -> None:
    memory = claude_memory()
    memory.add({"role": "user", "content": "And now?"})
    assert memory.to_anthropic() == [{"role": "assistant", "content": [BLOCK]}, {"role": "user", "content": "And now?"}]
    [event] = memory.get_compression_events()
    assert (event.event_type, event.compressed_message_count) == ("PROVIDER_COMPACTION", 4)
    assert memory.reload(str(event.metadata["uuid"]))[0].text == "Read it."
    assert len(memory.reload("m2-m5")) == 4
    assert memory.compress_if_needed().outcome == "not_needed"


def test_instead_sends_the_originals_and_not_the_block() -> None:
    memory = claude_memory("instead")
    memory.add({"role": "user", "content": "And now?"})
    assert [m["role"] for m in memory.to_anthropic()] == ["user", "assistant", "user", "assistant", "user"]
    assert not compactions(memory.to_anthropic())
    assert compactions(to_anthropic(memory.get_original_memory_msgs())) == [BLOCK]


def test_instead_keeps_the_words_beside_a_block() -> None:
    memory = AutoContextMemory(config("instead"))
    memory.add_messages([user("Read it."), assistant("Read."), user("More.")])
    said = {"type": "text", "text": "More it is."}
    memory.add({"role": "assistant", "content": [BLOCK, said]})
    assert memory.to_anthropic()[-1] == {"role": "assistant", "content": [said]}


def test_a_block_that_came_without_its_originals_stays() -> None:
    memory = AutoContextMemory(config("instead"))
    memory.add([{"role": "assistant", "content": [BLOCK]}, {"role": "user", "content": "And now?"}])
    assert memory.to_anthropic()[0] == {"role": "assistant", "content": [BLOCK]}


def test_from_keep_to_instead_the_originals_come_back(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    with AutoContextMemory.open(path, session_id="s", config=config("keep")) as memory:
        memory.add_messages(claude_memory().get_original_memory_msgs())
        assert [m.role for m in memory.get_messages()] == ["system", "assistant"]
    for _ in range(2):
        with AutoContextMemory.open(path, session_id="s", config=config("instead")) as memory:
            assert [m.role for m in memory.get_messages()] == ["system", "user", "assistant", "tool", "assistant"]
            assert not any(map(compacted_by, memory.messages))
    with AutoContextMemory.open(path, session_id="s", config=config("keep")) as memory:
        assert len(memory.get_messages()) == 5


def test_pinned_messages_follow_the_block() -> None:
    memory = AutoContextMemory(config("keep"))
    memory.add_messages([user("Never push.", metadata={PINNED: True}), assistant("Right."), user("Go.")])
    reply = {"type": "text", "text": "Going."}
    memory.add({"role": "assistant", "content": [BLOCK, reply]})
    contents = [m["content"] for m in memory.to_anthropic()]
    assert contents == [[BLOCK], "Never push.", [reply]]


@pytest.mark.parametrize("provider", ["chat", "anthropic"])
def test_another_service_reads_the_originals_of_an_encrypted_item(provider: str) -> None:
    memory = AutoContextMemory(config("keep"))
    added = [message for step in responses(["say", "work", "compact", "say", "compact", "work"]) for message in step]
    memory.add(added)
    assert len(compactions(memory.to_responses())) == 1
    texts = json.dumps(memory.to_openai() if provider == "chat" else memory.to_anthropic())
    assert "work 1: " in texts or "m2" in texts  # the words, or the note that names the message
    assert "encrypted" not in texts
    assert memory.token_count <= WINDOW
    assert_valid_chat(memory.get_messages())
    before = len(memory.get_compression_events())
    memory.to_openai()
    assert len(memory.get_compression_events()) == before
    assert not compactions(memory.to_responses())


def test_a_readable_compaction_is_text_for_other_services() -> None:
    memory = claude_memory()
    assert [m["content"] for m in memory.to_openai()] == ["Be brief.", BLOCK["content"]]
    assert memory.to_responses()[-1] == {"role": "assistant", "content": BLOCK["content"]}


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_erased_is_erased_from_a_compaction_too(whole: bool) -> None:
    """Nobody can take a sentence out of a signed or encrypted text: all of it goes, and the rest of the log stays."""
    memory = claude_memory()
    memory.get_messages()
    entries = [memory._log.snapshot()] if whole else memory._log.entries
    msg = memory.get_original_memory_msgs()[1]
    _, changes, _ = erase_messages(entries, frozenset({msg.id}))
    log = Log([changes.get(n, entry) for n, entry in enumerate(entries)])
    assert BLOCK["content"] not in json.dumps([m.to_dict() for m in log.messages.values()])
    assert not log.compactions
    assert len(log.original) == len(memory.get_original_memory_msgs())
    _, later, _ = erase_messages(memory._log.entries, frozenset({memory.get_original_memory_msgs()[-1].id}))
    assert len(later) == 1


# ----------------------------------------------------------------------------------------------------------- details
def found(characters: int, **more: Any) -> dict[str, Any]:
    """What a search of the web has found, as Claude has it."""
    page = {"type": "web_search_result", "title": "Page", "url": "https://e.org", "page_age": None}
    return {**page, "encrypted_content": "x" * characters, **more}


@pytest.mark.parametrize(
    "blocks",
    [
        lambda n: [{"type": "redacted_thinking", "data": "x" * 2 * n}],
        lambda n: [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [found(n), found(n)]},
        ],
        lambda n: [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "1"}},
            {
                "type": "code_execution_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": {"type": "encrypted_code_execution_result", "encrypted_stdout": "x" * 2 * n},
            },
        ],
    ],
    ids=["thinking", "search", "code"],
)
@pytest.mark.parametrize("name", ["o200k_base", "bytes4"])
def test_what_claude_has_sealed_counts_by_its_length(blocks: Callable[[int], list[Any]], name: str) -> None:
    def sizes(characters: int) -> tuple[int, int]:
        memory = AutoContextMemory(AutoContextConfig(token_counter=name))
        said = {"role": "assistant", "content": [*blocks(characters), {"type": "text", "text": "Found."}]}
        memory.add([{"role": "user", "content": "Look."}, said])
        assert memory.to_anthropic()[-1] == said
        return memory.token_count, memory.counter.bound(memory.messages[-1])

    small, large = sizes(2_000), sizes(8_000)
    assert [large[0] - small[0], large[1] - small[1]] == pytest.approx([2_250] * 2, abs=2)


def test_encrypted_content_counts_by_its_length() -> None:
    memory = AutoContextMemory(config("keep"))
    memory.add({"type": "compaction", "id": "cmp_1", "encrypted_content": "x" * 1_600})
    assert memory.token_count == 300 + 4
    memory.add({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x" * 160})
    assert memory.token_count == 300 + 4 + 30 + 4
    assert AutoContextMemory(config("keep")).counter.bound(memory.messages[0]) >= 304


def test_reply_keys_and_unknown_keys_of_items_are_not_sent() -> None:
    memory = AutoContextMemory(config("keep"))
    memory.add({"role": "user", "content": "Go."})
    memory.add({"role": "assistant", "id": "msg_1", "type": "message", "usage": {}, "content": [BLOCK]})
    assert [set(m) for m in memory.to_anthropic()] == [{"role", "content"}]
    other = AutoContextMemory(config("keep"))
    other.add({"type": "compaction", "id": "cmp_1", "encrypted_content": seal("x"), "created_by": "u"})
    assert other.to_responses() == [{"type": "compaction", "id": "cmp_1", "encrypted_content": seal("x")}]


def test_a_pass_in_the_background_does_not_delay_it() -> None:
    memory = AutoContextMemory(config("keep", background=True))
    memory.add_messages([assistant("Read."), assistant("Done.")])
    memory.add(compacted([]))
    assert [compacted_by(m) for m in memory.get_messages()] == ["openai"]


def test_a_loaded_state_reloads_the_originals_behind_the_notes_that_left() -> None:
    memory = AutoContextMemory(config("keep"))
    for n in range(12):
        memory.add_messages([user(f"{n}: {WORDS * 8}"), assistant("ok")])
        memory.get_messages()
    memory.add({"role": "assistant", "content": [BLOCK]})
    memory.get_messages()
    key = str(memory.get_compression_events()[-1].metadata["uuid"])
    loaded = AutoContextMemory(config("keep"))
    loaded.load_state_dict(memory.state_dict())
    assert any(map(is_compressed, memory.get_offload_context()[key]))
    assert memory.reload(key) == loaded.reload(key) == memory.get_original_memory_msgs()[:-1]


def test_a_bad_value_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"provider_compaction.*'keep' or 'instead'"):
        AutoContextConfig(provider_compaction="both")


@pytest.mark.slow
def test_no_strategy_proposes_what_a_compaction_stands_for() -> None:
    """Over the window the passes cut elsewhere; the block and what belongs to it is what it was."""
    memory = AutoContextMemory(config("keep", last_keep=0, msg_threshold=2))
    item = compacted([{"role": "user", "content": "x"}])
    memory.add([{"role": "user", "content": "Keep this."}, item])
    for n in range(12):
        memory.add_messages([user(f"{n}: {WORDS * 8}"), *tool_exchange("read", {"n": n}, WORDS * 20), assistant("ok")])
        sent = memory.to_responses()
        assert sent[0]["content"] == "Keep this."
        assert sent[1] == item
        assert memory.token_count <= WINDOW
    assert any(map(is_compressed, memory.messages))
    assert Log([memory._log.snapshot()]).compactions == memory._log.compactions
