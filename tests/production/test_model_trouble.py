"""A model that fails, hangs or rambles costs quality: never the turn, never data, and its words never leak."""

import asyncio
import threading
import time
from collections import defaultdict

import pytest

from autocontext import AutoContextMemory, ModelReply, ModelRequest, Usage
from autocontext.errors import ModelError
from autocontext.models import CallableModel
from autocontext.testing import (
    EMPTY,
    WHITESPACE,
    Delayed,
    ScriptedModel,
    assert_valid_chat,
    assistant,
    longer_than_source,
    tool_exchange,
    user,
)
from autocontext.text.rendering import unfence
from tests.invariants import unreachable
from tests.production.agents import day, notes, rounds_only, small

UNUSABLE = {
    "empty": EMPTY,
    "whitespace": WHITESPACE,
    "reasoning only": "<think>The user asked for prices, so LEAK</think>",
    "reasoning that never ends": "<think>Let me see LEAK",
    "tool call": '<tool_call>{"name": "read_file", "arguments": {"path": "LEAK"}}</tool_call>',
    "tool call as JSON": '{"tool_calls": [{"name": "LEAK"}]}',
    "longer than the source": longer_than_source,
    "error text": "Error code: 429 - LEAK",
    "error as JSON": '{"error": {"message": "LEAK"}}',
    "gateway page": "502 Bad Gateway LEAK",
    "truncated": ModelReply(text="The module computes LEAK", truncated=True),
    "exception": ConnectionError("LEAK"),
    "a refused key": ModelError("LEAK", retryable=False),
}


def everything(memory: AutoContextMemory) -> str:
    """All that is stored or shown."""
    return str(memory.state_dict()) + str([m.to_dict() for m in memory.messages])


# --------------------------------------------------------- a model error kills the turn; error text becomes the history
@pytest.mark.sampled(7)
@pytest.mark.parametrize("trouble", UNUSABLE)
def test_an_unusable_reply_ends_as_a_fallback_note_that_is_marked_and_nothing_leaks(trouble: str) -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel(UNUSABLE[trouble]))
    memory.add_messages(day(4))
    report = memory.compress_if_needed(force=True)
    assert report.outcome == "applied"
    assert report.fallbacks == report.model_calls == 3
    assert [m.origin.fallback for m in notes(memory) if m.origin] == [True] * 3
    assert "LEAK" not in everything(memory)
    assert "blah" not in everything(memory)
    assert "no usable answer" in report.strategies[0].reason
    assert "SHOP-4000" in notes(memory)[0].text
    assert_valid_chat(memory.messages)
    assert unreachable(memory, memory.get_original_memory_msgs()) == []


@pytest.mark.slow
@pytest.mark.parametrize("trouble", UNUSABLE)
def test_without_the_fallback_an_unusable_reply_changes_nothing_at_all(trouble: str) -> None:
    memory = AutoContextMemory(rounds_only(extractive_fallback=False), ScriptedModel(UNUSABLE[trouble]))
    memory.add_messages(day(4))
    before = memory.state_dict()
    report = memory.compress_if_needed(force=True)
    assert (report.outcome, bool(report), report.fallbacks) == ("failed", False, 0)
    assert memory.state_dict() == before


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [name for name in UNUSABLE if name != "a refused key"])
def test_an_unusable_reply_is_asked_for_again_before_the_fallback(trouble: str) -> None:
    model = ScriptedModel([UNUSABLE[trouble], "It computes price_0; SHOP-4000."])
    memory = AutoContextMemory(rounds_only(model_retries=1), model)
    memory.add_messages(day(2))
    report = memory.compress_if_needed(force=True)
    assert (report.model_calls, report.fallbacks) == (2, 0)
    assert model.requests[0] == model.requests[1]
    assert "It computes price_0; SHOP-4000." in notes(memory)[0].text
    assert "LEAK" not in everything(memory)


def test_an_error_that_retrying_cannot_help_is_not_retried() -> None:
    model = ScriptedModel(ModelError("401: invalid key", retryable=False))
    memory = AutoContextMemory(rounds_only(model_retries=5), model)
    memory.add_messages(day(2))
    report = memory.compress_if_needed(force=True)
    assert (len(model.requests), report.model_calls) == (1, 1)
    assert "401: invalid key" in report.strategies[0].reason


def test_only_the_failed_notes_are_fallbacks_and_the_good_ones_are_the_models() -> None:
    def moody(request: ModelRequest) -> str | ModelError:
        return ModelError("overloaded") if "module_1" in request.prompt else "In short."

    memory = AutoContextMemory(rounds_only(), ScriptedModel(moody))
    memory.add_messages(day(4))
    report = memory.compress_if_needed(force=True)
    assert report.fallbacks == 1
    assert [m.origin.fallback for m in notes(memory) if m.origin] == [False, True, False]


def test_what_quotes_an_error_of_the_transcript_is_no_error() -> None:
    memory = AutoContextMemory(rounds_only(), ScriptedModel("Error code: 500 came from the shop's server."))
    memory.add_messages([user("Try it."), *tool_exchange("curl", {}, "Error code: 500\n" * 40), assistant("It fails.")])
    memory.add_messages(day(1))
    assert memory.compress_if_needed(force=True).fallbacks == 0


def test_nothing_is_committed_while_the_model_is_being_asked() -> None:
    seen: list[dict[str, object]] = []

    def look(_: ModelRequest) -> str:
        seen.append(memory.state_dict())
        return "In short."

    memory = AutoContextMemory(rounds_only(model_retries=1), ScriptedModel([EMPTY, look]))
    memory.add_messages(day(2))
    before = memory.state_dict()
    memory.compress_if_needed(force=True)
    assert seen == [before]
    assert memory.state_dict() != before


# ----------------------------------------------------------------------------------- hangs: timeout, retries, jitter
@pytest.mark.parametrize("how", ["sync", "async"])
def test_timeout_a_model_that_hangs_is_given_up_and_the_turn_goes_on(how: str) -> None:
    model = ScriptedModel(Delayed(30, "too late"))
    memory = AutoContextMemory(rounds_only(model_timeout=0.05), model)
    memory.add_messages(day(4))
    began = time.monotonic()
    run = memory.compress_if_needed if how == "sync" else lambda **k: asyncio.run(memory.acompress_if_needed(**k))
    report = run(force=True)
    assert time.monotonic() - began < 25
    assert report.fallbacks == 3
    assert "no answer within 0.05 s" in report.strategies[0].reason
    assert "too late" not in everything(memory)


def test_timeout_a_synchronous_model_that_ignores_it_neither_blocks_the_turn_nor_speaks_later() -> None:
    asked, go = threading.Event(), threading.Event()
    working: list[threading.Thread] = []

    def stubborn(_: ModelRequest) -> str:
        working.append(threading.current_thread())
        asked.set()
        go.wait(60)
        return "too late"

    memory = AutoContextMemory(rounds_only(model_timeout=0.05), CallableModel(stubborn))
    memory.add_messages(day(2))
    assert memory.compress_if_needed(force=True).fallbacks == 1
    after = everything(memory)
    assert asked.wait(60)
    go.set()
    working[0].join(60)
    assert not working[0].is_alive()
    assert everything(memory) == after


def test_retries_pause_with_jitter_so_that_clients_do_not_march_in_step() -> None:
    lock = threading.Lock()
    times: dict[str, list[float]] = defaultdict(list)

    def failing(request: ModelRequest) -> Exception:
        with lock:
            times[request.prompt].append(time.monotonic())
        return ConnectionError("down")

    memory = AutoContextMemory(rounds_only(model_retries=1), ScriptedModel(failing))
    memory.add_messages(day(13))
    report = memory.compress_if_needed(force=True)
    assert report.model_calls == 24
    assert [len(calls) for calls in times.values()] == [2] * 12
    pauses = [second - first for first, second in times.values()]
    # Twelve pauses drawn from half a second lie within a tenth of it less than once in 10**9 runs.
    assert max(pauses) - min(pauses) > 0.05


# ------------------------------------------------------------------------ the summariser's own window overflows
def long_round(lines: int = 600) -> list[object]:
    return [
        user("Read the whole log."),
        *tool_exchange("read_log", {}, "".join(f"line {n}: request took {n * 7 % 90} ms\n" for n in range(lines))),
        assistant("Read."),
        *day(1),
    ]


def part(request: ModelRequest) -> str:
    """A note of one chunk; all of them together are longer than the note that is asked for."""
    transcript = unfence(request.prompt)
    size = len(transcript)
    return f"part of {size} characters" + f", and so it went on to {transcript[-9:-4]}" * (size // 160)


def test_chunks_a_transcript_over_the_limit_is_cut_asked_in_parallel_and_merged() -> None:
    end = time.monotonic() + 60

    def reply(request: ModelRequest) -> str:
        if request.purpose == "merge":
            return "MERGED"
        while model.max_concurrent < 8 and time.monotonic() < end:
            time.sleep(0.005)
        return part(request)

    model = ScriptedModel(reply)
    memory = AutoContextMemory(rounds_only(summary_max_input_tokens=1_000, note_ratio=0.004), model)
    memory.add_messages(long_round())
    report = memory.compress_if_needed(force=True)
    asked = [r for r in model.requests if r.purpose == "round_summary"]
    merges = [r for r in model.requests if r.purpose == "merge"]
    assert len(asked) == model.max_concurrent == 8
    assert len(merges) == 1
    assert report.model_calls == len(asked) + 1
    # By their bytes: no count of these texts is above a token per byte, most are near one per four.
    assert all(len(unfence(r.prompt)) < 1_000 * 8 for r in asked)
    text = "".join(unfence(r.prompt).replace("\n", "") for r in asked)
    assert all(f"line {n}: request took" in text for n in range(600))
    assert "MERGED" in notes(memory)[0].text
    assert all(f"part of {len(unfence(r.prompt))} characters" in merges[0].prompt for r in asked)


def test_chunks_whose_notes_are_short_enough_together_are_not_merged() -> None:
    model = ScriptedModel(lambda request: f"[{request.prompt.count('took')} requests]")
    memory = AutoContextMemory(rounds_only(summary_max_input_tokens=1_000), model)
    memory.add_messages(long_round())
    report = memory.compress_if_needed(force=True)
    asked = [r for r in model.requests if "took" in r.prompt]
    assert len(asked) > 5
    assert {r.purpose for r in model.requests} == {"round_summary"}
    assert all(f"[{r.prompt.count('took')} requests]" in notes(memory)[0].text for r in asked)
    assert report.fallbacks == 0


def test_chunks_are_cut_between_messages_where_these_are_small_enough() -> None:
    model = ScriptedModel("In short.")
    memory = AutoContextMemory(rounds_only(summary_max_input_tokens=300), model)
    memory.add_message(user("Read them all."))
    for n in range(12):
        memory.add_messages(tool_exchange("read_file", {"path": f"{n}.py"}, f"begin {n} " + "text " * 100 + f"end {n}"))
    memory.add_messages([assistant("Done."), *day(1)])
    memory.compress_if_needed(force=True)
    transcripts = [unfence(r.prompt) for r in model.requests if r.purpose == "round_summary"]
    assert len(transcripts) >= 6
    for n in range(12):
        begins, ends = ([mark in f"{t}\n" for t in transcripts] for mark in (f"begin {n} ", f" end {n}\n"))
        assert begins == ends


def test_chunks_that_are_finished_are_not_asked_again_when_one_fails() -> None:
    failed: list[str] = []

    def once(request: ModelRequest) -> str | Exception:
        if "line 300:" in request.prompt and not failed:
            failed.append(request.prompt)
            return ConnectionError("down")
        return "In short."

    model = ScriptedModel(once)
    memory = AutoContextMemory(rounds_only(summary_max_input_tokens=1_000, model_retries=1), model)
    memory.add_messages(long_round())
    report = memory.compress_if_needed(force=True)
    prompts = [r.prompt for r in model.requests]
    assert report.fallbacks == 0
    assert {p for p in prompts if prompts.count(p) > 1} == set(failed)
    assert prompts.count(failed[0]) == 2


def test_chunks_the_model_fails_on_are_written_without_it_and_the_rest_is_kept() -> None:
    def reply(request: ModelRequest) -> str | Exception:
        failing = "line 300:" in request.prompt and request.purpose != "merge"
        return ConnectionError("down") if failing else "GOOD " + part(request)

    model = ScriptedModel(reply)
    memory = AutoContextMemory(rounds_only(summary_max_input_tokens=1_000, note_ratio=0.004), model)
    memory.add_messages(long_round())
    report = memory.compress_if_needed(force=True)
    (merge,) = [r for r in model.requests if r.purpose == "merge"]
    assert "GOOD part" in merge.prompt
    assert "line 300" in merge.prompt or "ms" in merge.prompt
    assert report.fallbacks == 1


def test_chunks_merging_ends_whatever_a_rambling_model_answers() -> None:
    model = ScriptedModel(lambda request: unfence(request.prompt)[:-1])
    memory = AutoContextMemory(rounds_only(summary_max_input_tokens=200), model)
    memory.add_messages(long_round())
    report = memory.compress_if_needed(force=True)
    assert report.outcome == "applied"
    assert len(model.requests) < 250
    assert report.model_calls == len(model.requests)


def test_by_default_a_request_holds_half_of_the_window() -> None:
    model = ScriptedModel("In short.")
    memory = AutoContextMemory(small(max_token=4_000, strategies=("rounds",)), model)
    memory.add_messages(long_round())
    memory.compress_if_needed()
    assert len([r for r in model.requests if r.purpose == "round_summary"]) > 2


# ------------------------------------------------------------------------------------- token counts of calls are 0
def test_usage_of_failed_attempts_counts_too() -> None:
    paid = ModelReply(text=EMPTY, usage=Usage(input_tokens=1_000, output_tokens=7, seconds=0.5))
    good = ModelReply(text="In short.", usage=Usage(input_tokens=1_000, output_tokens=3, seconds=0.25))
    memory = AutoContextMemory(rounds_only(model_retries=1), ScriptedModel([paid, good]))
    memory.add_messages(day(2))
    report = memory.compress_if_needed(force=True)
    assert report.usage == Usage(input_tokens=2_000, output_tokens=10, seconds=0.75)
    event = memory.get_compression_events()[0]
    assert (event.metadata["inputToken"], event.metadata["outputToken"], event.metadata["time"]) == (2_000, 10, 0.75)
