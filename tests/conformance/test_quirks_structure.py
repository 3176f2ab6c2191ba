"""Reference faults about the shape of messages: pairs, several results, other blocks, plan tools, previews."""

from __future__ import annotations

import pytest

from autocontext import AutoContextMemory, ImageBlock, Msg, ThinkingBlock, ToolResultBlock
from autocontext.testing import ScriptedModel, assert_valid_chat
from tests.conformance.play import QUIRKS, ids, play, preset, uuid_of
from tests.invariants import owed


def _result(msg: Msg, call: str) -> ToolResultBlock:
    return next(b for b in msg.tool_results if b.id == call)


def test_q01_parallel_results_are_never_split() -> None:
    """The limit of last_keep falls between the results of one call; the run is not cut there."""
    played = play("Q01").run()
    assert "TOOL_INVOCATION_COMPRESS" not in [kind for kind, _ in played.events]
    assert played.entries in ([], [["m1", "m2", "m3", "m4"]])
    assert played.working[-1] == "m5"
    assert_valid_chat(played.memory.messages)


def test_q02a_all_results_of_a_message_are_kept_when_it_is_shortened() -> None:
    played = play("Q02a").run()
    assert played.working == ["m0", "m1", "new", "m3", "m4", "m5"]
    assert played.events == [("LARGE_MESSAGE_OFFLOAD_WITH_PROTECTION", 1)]
    stub = played.new[0]
    assert [(b.id, b.name) for b in stub.tool_results] == [("c1", "read_file"), ("c2", "search")]
    assert _result(stub, "c1").text == f"{'x' * 10}...\n<!-- CONTEXT_OFFLOAD: uuid={uuid_of(stub)} -->"
    assert _result(stub, "c2").text == f"{'y' * 10}...\n<!-- CONTEXT_OFFLOAD: uuid={uuid_of(stub)} -->"
    assert played.entries == [["m2"]]


def test_q02b_a_second_result_that_is_large_is_seen() -> None:
    played = play("Q02b").run()
    assert played.working == ["m0", "m1", "new", "m3", "m4", "m5"]
    assert _result(played.new[0], "c1").text == "s"
    assert _result(played.new[0], "c2").text.startswith("y" * 50 + "...\n<!-- CONTEXT_OFFLOAD")
    assert played.prompts == []


def test_q03_all_results_of_a_message_are_kept_when_it_is_summarised() -> None:
    played = play("Q03").run()
    assert played.working == ["m0", "m1", "new"]
    assert played.events == [("CURRENT_ROUND_LARGE_MESSAGE_SUMMARY", 1)]
    assert [b.id for b in played.new[0].tool_results] == ["c1", "c2"]
    assert all(b.text.startswith("SUMMARY") for b in played.new[0].tool_results)
    shown = "".join(played.prompts)
    assert "x" * 200 in shown
    assert "y" * 200 in shown


def test_q04_a_tool_result_is_shown_to_the_model_as_text() -> None:
    played = play("Q04").run()
    (request,) = played.model.requests
    assert request.purpose == "large_message"
    assert "x" * 200 in request.prompt
    assert set(type(request).model_fields) == {"system", "prompt", "purpose", "max_output_tokens"}
    assert [b.id for b in played.new[0].tool_results] == ["c1"]


def test_q16a_a_run_of_plan_tools_alone_makes_no_model_call() -> None:
    played = play("Q16a").run()
    assert played.prompts == []
    assert played.events == [("TOOL_INVOCATION_COMPRESS", 4)]
    assert "create_plan" in played.new[0].text
    assert "finish_subtask" in played.new[0].text


def test_q16b_a_round_of_plan_tools_alone_makes_no_model_call() -> None:
    played = play("Q16b").run()
    assert played.prompts == []
    assert played.events == [("CURRENT_ROUND_MESSAGE_COMPRESS", 4)]
    assert "create_plan" in played.new[0].text
    assert "finish_subtask" in played.new[0].text


def test_q16c_only_the_plan_call_of_a_parallel_call_is_left_out_of_what_the_model_sees() -> None:
    played = play("Q16c").run()
    (prompt,) = played.prompts
    assert "read_file" in prompt
    assert "data" in prompt.split("[result read_file", 1)[1]
    assert "create_plan" not in prompt
    assert "create_plan" in played.new[0].text
    assert played.entries == [["m0", "m1", "m2", "m3", "m4"]]


def test_q16d_a_result_beside_a_plan_result_is_shown_to_the_model() -> None:
    played = play("Q16d").run()
    (prompt,) = played.prompts
    assert "read_file" in prompt
    assert "data" in prompt.split("[result read_file", 1)[1]
    assert "create_plan" not in prompt
    assert played.entries == [["m0", "m1", "m2", "m4"]]


def test_q22_images_thinking_and_metadata_survive_shortening() -> None:
    played = play("Q22").run()
    assert played.working == ["new", "new", "m2", "m3"]
    picture, thought = played.new
    assert [b.type for b in picture.content] == ["text", "image"]
    assert picture.content[1] == played.added[0].content[1]
    assert isinstance(picture.content[1], ImageBlock)
    assert picture.metadata["source"] == "web"
    assert thought.content[0] == ThinkingBlock(thinking="t")
    assert [b.type for b in thought.content] == ["thinking", "text"]


def test_q22b_an_image_in_a_tool_result_survives_shortening() -> None:
    played = play("Q22b").run()
    assert played.events == [("LARGE_MESSAGE_OFFLOAD_WITH_PROTECTION", 1)]
    output = _result(played.new[0], "c1").output
    assert [b.type for b in output] == ["text", "image"]
    assert output[1] == _result(played.added[2], "c1").output[1]
    assert len(_result(played.new[0], "c1").text) < 100


def test_q23_a_parallel_call_is_compressed_with_all_its_results_or_not_at_all() -> None:
    played = play("Q23").step(2)
    assert not played.reports[0]
    assert played.working == ["m0", "m1", "m2"]
    played.run()
    assert played.working == ["m0", "new"]
    assert played.entries == [["m1", "m2", "m3", "m4"]]


def test_q27_a_preview_ends_at_a_whole_character() -> None:
    """Large counts UTF-16 units as the reference does (200 emoji are 400); the preview never ends inside one."""
    played = play("Q27").run()
    assert played.working == ["new", "m1", "m2", "m3"]
    shown = played.new[0].text.split("...\n")[0]
    assert shown
    assert set(shown) == {"😀"}
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert played.memory.reload(uuid_of(played.new[0])) == [played.added[0]]


@pytest.mark.parametrize("size", range(7, 29))
def test_q27_a_preview_ends_at_a_whole_grapheme(size: int) -> None:
    """A family of four is seven code points and one character to whoever reads it."""
    family = "👩\u200d👩\u200d👧\u200d👦"
    memory = AutoContextMemory(preset(QUIRKS["Q27"], offload_single_preview=size), ScriptedModel())
    memory.add_messages([Msg(role="user", content=family * 100), *QUIRKS["Q27"].messages[1:]])
    assert memory.compress_if_needed()
    shown = memory.messages[0].text.split("...\n")[0]
    assert shown == family * (size // len(family))


def test_q29_deleting_one_half_of_a_pair_removes_the_whole_exchange_from_the_view() -> None:
    played = play("Q29").run()
    assert played.working == ["m0", "m5"]
    assert ids(played.memory.get_original_memory_msgs()) == ["m0", "m1", "m2", "m3", "m4", "m5"]
    assert not any(owed(played.memory.messages))
