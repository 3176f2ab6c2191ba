"""Reference faults about failing models, messages added meanwhile, clearing and loading."""

from __future__ import annotations

import asyncio

from autocontext import AutoContextMemory, ModelRequest
from autocontext.models import CallableModel
from autocontext.testing import ScriptedModel
from tests.conformance.play import QUIRKS, Play, default, ids, play, preset, reachable, uuid_of


def _nothing_leaked(played: Play) -> bool:
    """Whether every offload entry and every event belongs to a message in view, or to one reachable from it."""
    new = [m for m in reachable(played.memory) if uuid_of(m)]
    made = {e.compressed_message_id for e in played.memory.get_compression_events()}
    return set(played.memory.get_offload_context()) == {uuid_of(m) for m in new} and made == {m.id for m in new}


def test_q17a_a_failing_model_leaks_nothing_and_a_later_pass_makes_up_for_it() -> None:
    played = play("Q17a").step(3)
    assert not played.reports[0]
    assert played.reports[0].outcome == "failed"
    assert played.memory.get_offload_context() == {}
    played.step(2)
    assert _nothing_leaked(played)
    played.run()
    assert played.working == ["m0", "new", "m4", "new", "m8", "m9"]
    assert _nothing_leaked(played)
    assert played.events == [("PREVIOUS_ROUND_CONVERSATION_SUMMARY", 3)] * 2


def test_q17b_a_failing_model_changes_nothing() -> None:
    played = play("Q17b").run()
    assert [r.outcome for r in played.reports] == ["failed", "failed"]
    assert played.working == ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"]
    assert played.memory.get_offload_context() == {}
    assert played.events == []


def test_q17b_by_default_the_note_is_written_without_the_model_and_marked() -> None:
    played = play("Q17b", default).run()
    assert played.reports[0]
    assert played.reports[0].fallbacks > 0
    assert all(m.origin is not None and m.origin.fallback for m in played.new)
    assert _nothing_leaked(played)


def test_q17c_an_error_at_the_second_large_message_leaks_nothing() -> None:
    played = play("Q17c").run()
    assert _nothing_leaked(played)
    assert [b.id for m in played.memory.messages for b in m.tool_results] == ["c1", "c2"]


def test_q18a_an_empty_reply_is_a_failure_and_changes_nothing() -> None:
    played = play("Q18a").run()
    assert [r.outcome for r in played.reports] == ["failed"]
    assert played.working == ["m0", "m1", "m2", "m3", "m4"]
    assert played.memory.get_offload_context() == {}
    assert played.events == []


def test_q18b_a_reply_without_text_is_a_failure_and_no_empty_summary() -> None:
    """A reply that is a tool call has no text; the by-default note then comes from the extractive summariser."""
    played = play("Q18b").run()
    assert [r.outcome for r in played.reports] == ["failed"]
    assert played.memory.get_offload_context() == {}
    by_default = play("Q17b", default).step(2)
    by_default.reply = played.reply
    by_default.run()
    assert by_default.new
    assert all("search" in m.text.split("<!--")[0] for m in by_default.new)


def test_q19_a_message_added_while_compressing_is_kept() -> None:
    played = play("Q19").run()
    assert played.working == ["m0", "new", "m5"]
    assert ids(played.memory.get_original_memory_msgs()) == ["m0", "m1", "m2", "m3", "m4", "m5"]


def test_q19_a_message_added_while_compressing_is_kept_in_the_async_path_too() -> None:
    quirk = QUIRKS["Q19"]

    async def run() -> AutoContextMemory:
        asked, added = asyncio.Event(), asyncio.Event()

        async def answer(_: ModelRequest) -> str:
            asked.set()
            await added.wait()
            return "SUMMARY"

        memory = AutoContextMemory(preset(quirk), CallableModel(answer))
        memory.add_messages(quirk.messages[:5])
        compressing = asyncio.create_task(memory.acompress_if_needed())
        await asyncio.wait_for(asked.wait(), 240)
        memory.add_message(quirk.messages[5])
        added.set()
        assert await compressing
        return memory

    memory = asyncio.run(run())
    assert ids(memory.messages) == ["m0", "new", "m5"]
    assert memory.get_original_memory_msgs() == list(quirk.messages)


def test_q20a_clear_empties_all_four_stores() -> None:
    played = play("Q20a").run()
    memory = played.memory
    assert len(played.keys) == 1
    assert memory.messages == []
    assert memory.get_original_memory_msgs() == []
    assert memory.get_offload_context() == {}
    assert memory.get_compression_events() == []
    assert played.reloaded == [[]]
    assert memory.token_count == 0


def test_q20b_loading_replaces_everything_and_brings_nothing_forgotten_back() -> None:
    played = play("Q20b").run()
    assert len(played.keys) == 1
    assert played.reloaded == [[]]
    assert played.memory.get_offload_context() == {}
    assert played.working == ["m0", "new"]
    other = play("Q20b").step(2)
    other.memory.load_state_dict(AutoContextMemory(preset(other.quirk), ScriptedModel()).state_dict())
    assert other.memory.messages == []
    assert other.memory.get_original_memory_msgs() == []
    assert other.memory.get_offload_context() == {}
