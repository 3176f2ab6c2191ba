"""What no strategy touches: system, pinned and protected messages, what is unread, recent, or being answered."""

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext import (
    AutoContextConfig,
    AutoContextMemory,
    CompressionReport,
    ContextOffloadTool,
    Msg,
    ToolResultBlock,
)
from autocontext.history.proposals import Proposal, Question, build
from autocontext.messages import PINNED, is_compressed, is_note
from autocontext.strategies import Strategy, View, steps
from autocontext.strategies.selection import is_large, question, stays
from autocontext.testing import (
    assert_valid_chat,
    assistant,
    conversation,
    system,
    tool_call,
    tool_exchange,
    tool_result,
    user,
)
from autocontext.tokens import get_counter
from tests.conversations import histories
from tests.invariants import CONFIGS, EAGER, LONG


def size(msg: Msg) -> int:
    return len(str(msg.content)) // 4


def proposals(messages: list[Msg], config: AutoContextConfig = EAGER, name: str | None = None) -> list[Proposal]:
    """What the strategies, or one of them, would like to replace."""
    view = View.of(messages, size)
    return [p for s in steps(config) if name in (None, s.name) for p in s.propose(view)]


def named(name: str, config: AutoContextConfig = EAGER) -> Strategy:
    return next(s for s in steps(config) if s.name == name)


def touched(messages: list[Msg], config: AutoContextConfig = EAGER, name: str | None = None) -> set[str]:
    return {id_ for p in proposals(messages, config, name) for id_ in p.span.ids}


def worked(output: str = LONG, **fields: Any) -> list[Msg]:
    """A finished round with two tool exchanges, and another round that goes on."""
    first = [user("look into it"), *tool_exchange("read", {"n": 1}, output), *tool_exchange("grep", {"n": 2}, output)]
    going = [user("go on"), *tool_exchange("read", {"n": 3}, output), assistant("So far so good."), user("and now?")]
    messages = [system(LONG), *first, assistant("Done. " + LONG), *going, *tool_exchange("read", {}, output)]
    return [m.model_copy(update={"id": f"m{i}", **fields}) for i, m in enumerate(messages)]


# ------------------------------------------------------------------------------------------------------------ always
@given(histories(), st.sampled_from(sorted(CONFIGS)))
def test_proposals_keep_what_must_stay_and_do_not_overlap(history: list[Msg], config: str) -> None:
    view, chosen = View.of(history, size), CONFIGS[config]
    keep = stays(chosen, view)
    for strategy in steps(chosen):
        found = list(strategy.propose(view))
        spans = [id_ for p in found for id_ in p.span.ids]
        assert len(set(spans)) == len(spans)
        for p in found:
            assert p.well_formed
            assert not any(map(keep, p.span.messages))
            start = view.position[p.span.ids[0]]
            assert view.span(start, start + len(p.span)) == p.span
            assert view.latest_user < 0 or view.ids[view.latest_user] not in p.span.ids


def test_a_reloaded_page_stays_though_only_its_call_names_the_tool() -> None:
    call = tool_call("context_reload", {"working_context_offload_uuid": "m2"}, id="c9")
    page = tool_result("c9", LONG)
    going = [*worked(), call, page]
    assert stays(EAGER, View.of(going, size))(page)
    assert not stays(EAGER, View.of([*going, user("thanks")], size))(page), "the round is over"
    assert {call.id, page.id}.isdisjoint(touched(going))


# ---------------------------------------------------------------------------------------------------- reloaded pages
def reloading(
    config: AutoContextConfig, reloads: list[int], lines: int = 60, name: str = "m{}", *, pins: int = 0
) -> AutoContextMemory:
    """A round that goes on, of results of many lines; after some of them, messages are read again, by `name`.

    `pins`: the agent pins so many of the pages.
    """
    memory = AutoContextMemory(config)
    ask, logs = ContextOffloadTool(memory), list[int]()
    memory.add_message(user("Find out why the nightly build fails; look at all logs."))
    for n, back in enumerate(reloads):
        log = "\n".join(f"{k:03} worker {(n * 7919 + k) ** 3 % 10**6} step {k * n}" for k in range(lines))
        memory.add_messages(tool_exchange("read_log", {"n": n}, log))
        logs.append(len(memory.get_original_memory_msgs()))
        memory.get_messages()
        if back:
            number = name.format(logs[back - 1], logs[back - 1] - 1)
            memory.add_messages(tool_exchange(ask.name, {"working_context_offload_uuid": number}, ask(number)))
            if pins > 0:
                [pin] = memory.tools("pin")
                assert str(pin(messages=f"m{len(memory.get_original_memory_msgs())}")).startswith("Pinned")
                pins -= 1
            memory.get_messages()
    return memory


def pages_of(memory: AutoContextMemory) -> list[tuple[int, Msg]]:
    """The pages in view that the reload tool gave, with the numbers that were asked for."""
    found = [p for p in View.of(memory.messages).answers if p.use.name == "context_reload" and len(p.output.text) > 300]
    asked = [p.use.input["working_context_offload_uuid"].partition(",")[0].partition("-")[0][1:] for p in found]
    return [(int(number), memory.messages[p.result]) for number, p in zip(asked, found, strict=True)]


def back_to_earlier(steps: int) -> st.SearchStrategy[list[int]]:
    """For each step, the number of an earlier result that is read again after it; 0 for none."""
    return st.tuples(*(st.integers(0, n) for n in range(steps))).map(list)


@pytest.mark.slow
@given(back_to_earlier(10))
@settings(max_examples=4, deadline=None)
def test_reloaded_pages_take_a_quarter_of_the_window_at_most_and_lead_back_in_one_step(reloads: list[int]) -> None:
    config = AutoContextConfig.for_window(8_000)
    memory = reloading(config, reloads)
    passed: list[CompressionReport] = []
    memory.on_compression(passed.append)
    memory.add_message(assistant("I have read them all."))
    memory.compress_if_needed(force=True)
    assert_valid_chat(memory.messages)
    counter, pages = get_counter("o200k_base"), pages_of(memory)
    whole = [m for _, m in pages if not is_compressed(m)]
    if any(passed):
        assert sum(map(counter.count, whole)) <= 8_000 // 4
    for asked, m in pages:
        if is_compressed(m):
            assert re.findall(r"\[(m\d+): [\d,]+ of [\d,]+ characters left out\]\Z", m.tool_results[0].text) == [
                f"m{asked}"
            ]
            answer = ContextOffloadTool(memory)(m.tool_results[0].text[-60:])
            assert answer.startswith(f"[m{asked - 1}-m{asked}: 2 messages, "), "the original, no page"
            assert memory.numbered(f"m{asked}")[asked].tool_results[0].text in answer
    originals = memory.get_original_memory_msgs()
    assert len(originals) == 2 + 2 * len(reloads) + 2 * sum(map(bool, reloads))


@pytest.mark.parametrize("name", ["m{1}-m{0}", "m{0},m{1}", "m{0},m1"])
def test_pages_of_several_messages_count_as_pages(name: str) -> None:
    memory = reloading(AutoContextConfig.for_window(8_000), [0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0], name=name)
    memory.add_message(assistant("I have read them all."))
    memory.compress_if_needed(force=True)
    pages, count = [m for _, m in pages_of(memory)], get_counter("o200k_base").count
    assert any(map(is_compressed, pages))
    assert sum(count(m) for m in pages if not is_compressed(m)) <= 8_000 // 4
    for m in filter(is_compressed, pages):
        number = re.findall(r"\[(m\d+): [\d,]+ of [\d,]+ characters left out\]\Z", m.tool_results[0].text)
        assert memory.numbered(*number), "its own"


@pytest.mark.parametrize("pins", [0, 1])
def test_a_pinned_page_stays_whole_however_many_are_reloaded(pins: int) -> None:
    memory = reloading(AutoContextConfig.for_window(8_000), [0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0], pins=pins)
    memory.add_message(assistant("I have read them all."))
    memory.compress_if_needed(force=True)
    assert is_compressed(pages_of(memory)[0][1]) is not bool(pins)


def test_pages_that_were_asked_for_together_are_whole_until_the_agent_has_read_them() -> None:
    memory = reloading(AutoContextConfig.for_window(8_000), [0] * 10)
    ask, handle = ContextOffloadTool(memory), "working_context_offload_uuid"
    asked = [tool_call(ask.name, {handle: number}, id=number) for number in ("m3", "m5", "m7", "m9", "m11")]
    memory.add_message(Msg(role="assistant", content=tuple(use for m in asked for use in m.tool_uses)))
    memory.add_messages([tool_result(use.id, ask(use.input[handle])) for m in asked for use in m.tool_uses])
    memory.compress_if_needed(force=True)
    assert [is_compressed(m) for _, m in pages_of(memory)] == [False] * 5
    memory.add_messages([assistant("I have read them all."), *tool_exchange("read_log", {"n": 10}, "ok\n" * 900)])
    memory.add_message(assistant("That one is fine."))
    memory.compress_if_needed(force=True)
    assert any(is_compressed(m) for _, m in pages_of(memory))


def test_without_a_limit_reloaded_pages_stay_until_the_user_writes() -> None:
    reloads = [0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0]

    def in_short(**fields: Any) -> int:
        memory = reloading(AutoContextConfig.for_window(8_000, **fields), reloads)
        return sum(is_compressed(m) for _, m in pages_of(memory))

    assert in_short() > 0
    assert in_short(reloaded_share=1.0) == 0


@pytest.mark.slow
def test_reloads_cost_few_passes() -> None:
    def passes(reloaded: dict[int, str]) -> int:
        memory = AutoContextMemory(AutoContextConfig.for_window(16_000))
        ask, drawn, reports = ContextOffloadTool(memory), random.Random(1), list[CompressionReport]()
        memory.on_compression(reports.append)
        memory.add_message(user("Find out why the nightly build fails; look at all logs."))
        for n in range(60):
            log = "\n".join(f"{k:03} worker {drawn.randrange(10**6)} step {drawn.randrange(10**8)}" for k in range(120))
            memory.add_messages(tool_exchange("read_log", {"n": n}, log))
            memory.get_messages()
            if n in reloaded:
                number = reloaded[n]
                memory.add_messages(tool_exchange(ask.name, {"working_context_offload_uuid": number}, ask(number)))
                memory.get_messages()
        return len(list(filter(None, reports)))

    without = passes({})
    for reloads in (("m3", "m7", "m11", "m15"), ("m2-m3", "m6-m7", "m11,m15", "m3,m7"), ("m3",) * 4):
        assert 0 < passes(dict(zip((20, 25, 30, 35), reloads, strict=True))) <= 1.5 * without


@given(histories(), st.sampled_from(sorted(CONFIGS)))
def test_every_question_is_text_and_no_handle(history: list[Msg], config: str) -> None:
    for p in proposals(history, CONFIGS[config]):
        for asked in p.questions:
            assert len(asked.parts) == len(asked.sizes)
            assert all(isinstance(part, str) for part in asked.parts)
            assert not any("<!-- CONTEXT_OFFLOAD" in part for part in asked.parts)
            assert 0 < asked.target_tokens <= max(64, CONFIGS[config].max_token * CONFIGS[config].note_ratio)


# ----------------------------------------------------------------------------------------------- protected and pinned
def test_protected_tools_stay_with_their_results() -> None:
    config = EAGER.model_copy(update={"protected_tools": frozenset({"grep"})})
    messages = worked()
    protected = {m.id for m in messages if any(b.name == "grep" for b in (*m.tool_uses, *m.tool_results))}
    assert len(protected) == 2
    assert not protected & touched(messages, config)
    assert protected <= touched(messages)


def test_a_result_of_a_protected_tool_is_known_by_its_call() -> None:
    """A result need not repeat the name of the tool it comes from: it stays because its call does."""
    config = EAGER.model_copy(update={"protected_tools": frozenset({"grep"})})
    messages = worked()
    blocks = [[b.model_copy(update={"name": ""}) for b in m.tool_results] or m.content for m in messages]
    nameless = [m.model_copy(update={"content": tuple(b)}) for m, b in zip(messages, blocks, strict=True)]
    calls = [i for i, m in enumerate(nameless) if any(use.name == "grep" for use in m.tool_uses)]
    for name in ("tool_runs", "rounds", "current_round"):
        assert not {f"m{i + k}" for i in calls for k in (0, 1)} & touched(nameless, config, name)


def test_a_pinned_message_stays_and_its_exchange_with_it() -> None:
    messages = worked()
    for i, m in enumerate(messages):
        pinned = [*messages[:i], m.model_copy(update={"metadata": {PINNED: True}}), *messages[i + 1 :]]
        assert m.id not in touched(pinned)
        for p in proposals(pinned):
            assert (
                p.blocks
                or View.of(pinned).exchange(i) == [i]
                or not set(p.span.ids) & {pinned[k].id for k in View.of(pinned).exchange(i)}
            )


# ------------------------------------------------------------------------------------------------------------ unread
def test_unread_results_stay_and_read_ones_go() -> None:
    read = [*tool_exchange("read", {}, LONG, id="r"), assistant("I see.")]
    unread = list(tool_exchange("read", {}, LONG, id="u"))
    messages = [user("go"), *read[:2], *unread]
    for name in ("current_round_large_messages", "current_round"):
        assert touched(messages, EAGER, name) <= {m.id for m in read}
        assert touched(messages, EAGER, name)


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_without_keep_unread_a_note_in_the_user_s_role_still_never_comes_last(role: str) -> None:
    config = EAGER.model_copy(update={"keep_unread": False, "note_role": role})
    messages = [user("go"), *tool_exchange("read", {}, LONG, id="u")]
    assert bool(touched(messages, config, "current_round")) == (role == "assistant")


def test_unanswered_calls_stay() -> None:
    messages = [user("go"), *tool_exchange("read", {}, LONG), assistant("Next."), tool_call("read", id="open")]
    assert messages[-1].id not in touched(messages)
    parallel = Msg(role="assistant", content=[*tool_call("a", id="a").content, *tool_call("b", id="b").content])
    half = [user("go"), parallel, tool_result("a", LONG), assistant("Only one came.")]
    assert parallel.id not in touched(half)


# ------------------------------------------------------------------------------------------------------- note_role
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_notes_have_the_configured_role_and_summaries_are_the_assistant_s(role: str) -> None:
    config = EAGER.model_copy(update={"note_role": role})
    work = [m for i in range(3) for m in tool_exchange("read", {"n": i}, LONG)]
    messages = [user("a"), *work, assistant("b"), user("c"), assistant("d")]
    (note,) = proposals(messages, config, "tool_runs")
    (summary,) = proposals(messages, config, "rounds")
    assert (note.role, summary.role) == (role, "assistant")
    made = build(note, ["What came of it."]).messages[0]
    assert is_note(made)
    assert ("Not a request" in made.text) == (role == "user")


# --------------------------------------------------------------------------------------------------------- last_keep
@pytest.mark.parametrize("keep", [0, 3, 6, 50])
def test_the_newest_messages_stay_for_strategies_1_and_2_but_not_for_3(keep: int) -> None:
    config = EAGER.model_copy(update={"last_keep": keep})
    messages = [user("a"), *(m for i in range(4) for m in tool_exchange("read", {"n": i}, LONG)), assistant("b")]
    newest = {m.id for m in messages[len(messages) - keep :]}
    for name in ("tool_runs", "large_messages_protected"):
        assert not touched(messages, config, name) & newest
    results = {m.id for m in messages if m.tool_results}
    assert touched(messages, config, "large_messages") == results


def test_recent_messages_stay_as_long_as_configured() -> None:
    messages = [
        m for i in range(4) for m in (user(f"ask {i}"), *tool_exchange("read", {"n": i}, LONG), assistant("ok"))
    ]
    config = EAGER.model_copy(update={"max_token": sum(map(size, messages)), "keep_recent": 0.5})
    start = View.of(messages, size).recent(config.max_token // 2)
    assert 0 < start < len(messages)
    assert not touched(messages, config) & {m.id for m in messages[start:]}
    assert touched(messages, config)


# -------------------------------------------------------------------------------------------------------------- size
@given(st.text(st.sampled_from("a漢👍"), max_size=40), st.integers(21, 40))
def test_large_is_measured_as_the_reference_measures(text: str, limit: int) -> None:
    config = EAGER.model_copy(update={"large_payload_threshold": limit})
    assert is_large(text, config) == (len(text.encode("utf-16-le")) // 2 > limit)


def test_plan_tools_alone_are_no_question() -> None:
    view = View.of(tool_exchange("create_plan", {}, LONG), size)
    assert question("tool_run", view, range(2), 0.3, EAGER) is None


def test_large_results_are_cut_one_by_one_in_their_message() -> None:
    blocks = [ToolResultBlock(id=str(i), name="t", output=o) for i, o in enumerate((LONG, "short", LONG))]
    calls = [b for i in range(3) for b in tool_call("t", id=str(i)).content]
    messages = [
        user("a"),
        Msg(role="assistant", content=calls),
        Msg(role="tool", content=blocks),
        assistant("b"),
    ]
    (p,) = named("large_messages").propose(View.of(messages, size))
    assert set(p.blocks) == {0, 2}
    assert not any(isinstance(text, Question) for text in p.blocks.values())
    made = build(p, []).messages[0]
    assert [len(b.text) < len(LONG) for b in made.tool_results] == [True, True, True]
    assert made.tool_results[1].text == "short"


@pytest.mark.parametrize("strategy", steps(EAGER), ids=lambda s: s.name)
def test_a_made_up_conversation_is_worth_every_strategy(strategy: Strategy) -> None:
    read, unread = tool_exchange("read", {}, LONG), tool_exchange("read", {}, LONG)
    messages = [*conversation(rounds=3, chars=900), user("go"), *read, *unread]
    assert list(strategy.propose(View.of(messages, size)))
