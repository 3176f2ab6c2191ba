"""The pass that an agent asks for, and the status that says that one is near."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, ModelReply, ModelRequest, Msg, ToolUseBlock
from autocontext.config import STRATEGIES
from autocontext.loop.tools import Toolset
from autocontext.testing import ScriptedModel, assert_valid_chat, assistant, tool_exchange, user

WINDOW = 8_000
ASK = ToolUseBlock(id="now", name="context_condense", input={})


def coding(n: int) -> list[Msg]:
    text = "\n".join(f"line {i} of f{n}: lock_{n}_{i} = acquire(timeout={i})" for i in range(30))
    return list(tool_exchange("read_file", {"path": f"src/f{n}.py"}, text, id=f"c{n}"))


def support(n: int) -> list[Msg]:
    mail = f"My order A-{7700 + n} of 3 May has not arrived. " + f"I wrote on day {n}, and nobody answered me. " * 20
    return [user(mail), assistant(f"Order A-{7700 + n} was sent to depot {n}. " + "We are sorry for the delay. " * 15)]


def research(n: int) -> list[Msg]:
    page = f"Study {n}: the yield was {n * 13 % 90}.{n} %. " + f"Table {n} has the measurements of field {n}.\n" * 30
    call, result = tool_exchange("fetch", {"url": f"https://example.org/study/{n}"}, page, id=f"c{n}")
    return [call, result, assistant(f"Study {n} says {n * 13 % 90}.{n} %.")]


PRESETS: dict[str, dict[str, Any]] = {
    "window": {},
    "one strategy a pass": {"escalation": "single", "strategies": STRATEGIES},
    "no last resort": {"last_resort": False},
}
WORK: dict[str, Callable[[int], list[Msg]]] = {"coding": coding, "support": support, "research": research}


def filled(work: str, share: float, model: Any = None, **fields: Any) -> AutoContextMemory:
    """A memory in which so much of the window is used, and the agent has just called the tool."""
    memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW, **fields), model)
    memory.add_messages([Msg(role="system", content="You help."), user("Do the work. Never delete anything.")])
    for n in range(1, 500):
        if memory.token_count >= WINDOW * share:
            break
        memory.add_messages(WORK[work](n))
    memory.add_messages([user("Go on."), Msg(role="assistant", content=(ASK,))])
    return memory


def condense(memory: AutoContextMemory, *, in_loop: bool = False, **arguments: Any) -> str:
    [tool] = memory.tools("condense")
    return asyncio.run(tool.acall(**arguments)) if in_loop else str(tool(**arguments))


def shown(messages: Sequence[Msg]) -> str:
    return "\n".join(text for m in messages for text in m.texts())


@given(
    what=st.tuples(st.sampled_from(sorted(WORK)), st.sampled_from(sorted(PRESETS))),
    share=st.floats(0, 1.1),
    focus=st.none() | st.text(max_size=20) | st.integers() | st.sampled_from(("lock_1_7", "A-7702", "study 3")),
    parallel=st.integers(0, 2),
    in_loop=st.booleans(),
)
def test_whenever_it_is_called_the_call_stays_and_nothing_is_lost(
    what: tuple[str, str], share: float, focus: Any, parallel: int, in_loop: bool
) -> None:
    memory = filled(what[0], share, **PRESETS[what[1]])
    # Beside other calls, the first of which is already answered.
    others = tuple(ToolUseBlock(id=f"other{n}", name="bash", input={"n": n}) for n in range(parallel))
    memory.delete_message(len(memory) - 1)
    memory.add_message(Msg(role="assistant", content=(*others, ASK)))
    answers = [tool_exchange("bash", {}, "done", id=use.id)[1] for use in others]
    memory.add_messages(answers[:1])
    originals, step, tokens = (
        memory.get_original_memory_msgs(),
        memory.messages[-1 - len(answers[:1]) :],
        memory.token_count,
    )
    text = condense(memory, in_loop=in_loop, focus=focus)
    assert text.startswith(("Condensed from ", "Nothing was condensed: "))
    assert text.endswith(".")
    assert len(text.splitlines()) == 1
    assert memory.messages[-len(step) :] == step
    assert memory.get_original_memory_msgs() == originals
    assert memory.token_count <= tokens
    memory.add_messages([*answers[1:], tool_exchange("context_condense", {}, text, id="now")[1]])
    assert_valid_chat(memory.messages)


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize(("work", "focus"), [("coding", "lock_2_17"), ("support", "A-7702"), ("research", "study 2")])
def test_what_is_old_gives_way_long_before_a_pass_is_due(work: str, focus: str, in_loop: bool) -> None:
    memory = filled(work, 0.75)
    assert not memory.compress_if_needed()
    before = memory.token_count
    text = condense(memory, in_loop=in_loop, focus=focus)
    assert text.startswith(f"Condensed from {before:,} to {memory.token_count:,} tokens: m")
    assert text.endswith(" messages out of view, all can be restored.")
    assert memory.token_count < WINDOW * 0.55
    assert focus in shown(memory.messages).lower() or focus in shown(memory.messages)


@pytest.mark.parametrize("work", sorted(WORK))
def test_with_little_in_the_context_it_says_so_and_changes_nothing(work: str) -> None:
    memory = filled(work, 0.3)
    state = memory.state_dict()
    assert re.fullmatch(
        r"Nothing was condensed: [\d,]+ of 8,000 tokens are used, and a pass is worth it from [\d,]+ on\.",
        condense(memory),
    )
    assert memory.state_dict() == state


@pytest.mark.sampled
@pytest.mark.parametrize("work", sorted(WORK))
@pytest.mark.parametrize("pinned", [0.0, 0.24])
def test_a_model_that_calls_it_at_every_step_pays_for_few_passes(work: str, pinned: float) -> None:
    model = ScriptedModel(lambda _: "The agent did the work.")
    memory = AutoContextMemory(AutoContextConfig.for_window(2 * WINDOW), model)
    memory.add_messages([user("Do the work."), user("rule " * int(2 * WINDOW * pinned)), assistant("Yes.")])
    if pinned:
        [pin] = memory.tools("pin")
        assert pin(messages="m2").startswith("Pinned m2")
    passes = added = 0
    for n in range(1, 41):
        size = memory.token_count
        memory.add_messages([*WORK[work](n), *([user("Go on.")] if work == "support" else [])])
        memory.add_message(Msg(role="assistant", content=(ASK.model_copy(update={"id": f"now{n}"}),)))
        added += memory.token_count - size
        text = condense(memory)
        passes += text.startswith("Condensed from ")
        again, asked = memory.messages, len(model.requests)
        assert condense(memory).startswith("Nothing was condensed: ")
        assert (memory.messages, len(model.requests)) == (again, asked)
        memory.add_message(tool_exchange("context_condense", {}, text, id=f"now{n}")[1])
    # Each pass needs a tenth of the window that is new.
    assert 2 <= passes <= added / (2 * WINDOW * 0.098) + 1


class InItsLoop:
    """A model that may only be awaited in one event loop, as many clients."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.asked = 0

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        assert asyncio.get_running_loop() is self.loop
        self.asked += 1
        return ModelReply(text="The agent read files.")


@pytest.mark.parametrize("by_loop", [False, True])
def test_an_asynchronous_agent_awaits_its_model_in_its_own_event_loop(by_loop: bool) -> None:
    async def go() -> None:
        model = InItsLoop()
        memory = filled("coding", 0.9, model, strategies=("tool_runs", "rounds"))
        [tool] = memory.tools("condense")
        answer = (await Toolset([tool]).acall(ASK))[0] if by_loop else await tool.acall()
        assert answer.startswith("Condensed from ")
        assert model.asked
        assert not memory.health().failed

    asyncio.run(go())


def test_within_a_pass_it_refuses_and_does_not_wait_for_ever() -> None:
    said: list[str] = []

    def answer(_: ModelRequest) -> str:
        said.append(condense(memory))
        return "The agent read files."

    memory = filled("coding", 0.9, ScriptedModel(answer), strategies=("tool_runs", "rounds"))
    assert condense(memory).startswith("Condensed from ")
    assert set(said) == {"Error: a compression of this conversation is running or has just ended; call the tool again."}


def test_a_failing_model_costs_nothing_but_its_words() -> None:
    memory = filled("coding", 0.9, ScriptedModel(lambda _: ""), model_retries=0)
    assert condense(memory).startswith("Condensed from ")
    assert memory.messages[-1].tool_uses == (ASK,)


# ------------------------------------------------------------------------------------------------- the word before
@pytest.mark.sampled
@pytest.mark.parametrize("work", sorted(WORK))
@pytest.mark.parametrize("window", [4_000, 16_000])
def test_the_last_status_before_a_pass_says_so(work: str, window: int) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(window, show_status=True))
    [status] = memory.tools("status")
    memory.add_message(user("Do the work."))
    said, passes = list[bool](), 0
    for n in range(1, 25 + window // 400):
        # What is new since the last request: an answer and the next mail, or a call and its result.
        step = WORK[work](n)
        memory.add_messages(step[::-1] if work == "support" else step[:2])
        if memory.compress_if_needed():
            assert said[-1], n
            passes += 1
        line = str(memory.to_openai()[-1]["content"])
        said.append("probably after this step: what matters may be noted first" in line)
        assert said[-1] == status().splitlines()[2].endswith(", probably after this step.")
    assert passes > 1
    assert sum(said) <= passes * 3  # it does not stand there always


def test_a_pass_that_has_to_wait_is_not_announced() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, show_status=True, last_resort=False, strategies=()))
    for n in range(1, 5):
        memory.add_messages([user("Read it."), *coding(n)])
    while memory.token_count < 3_920:
        memory.add_messages([assistant("Yes."), user("Go on.")])
    assert memory.compress_if_needed().outcome == "partly"
    assert "probably" not in str(memory.to_openai()[-1]["content"])


def test_the_line_is_counted_with_the_word() -> None:
    plain, shows = filled("coding", 0.0), filled("coding", 0.0, show_status=True)
    line = str(filled("coding", 0.0, show_status=True).to_openai()[-2:])
    assert "probably" not in line
    word = "probably after this step: what matters may be noted first"
    assert shows.token_count - plain.token_count > shows.counter.count_text(word) + 30


def test_a_configuration_that_leaves_less_than_half_is_kept_to() -> None:
    sizes = []
    for ratio in (0.25, 0.8):
        memory = filled("coding", 0.7, target_ratio=ratio)
        condense(memory)
        sizes.append(memory.token_count)
    assert sizes[0] < sizes[1] <= WINDOW * 0.55


@pytest.mark.parametrize("work", WORK)
def test_a_pass_that_a_program_asks_for_goes_as_far_as_one_of_the_agent(work: str) -> None:
    memory, same = filled(work, 0.7), filled(work, 0.7)
    assert memory.compress_if_needed(force=True)
    assert memory.token_count <= WINDOW * 0.55
    assert not same.compress_if_needed(force=True, max_token=WINDOW), "with a window of its own, the configured target"
