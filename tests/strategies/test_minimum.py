"""When `min_compression_token_threshold` counts: where a model would be asked, until nothing else helps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, CompressionReport, Msg
from autocontext.config import STRATEGIES
from autocontext.testing import ScriptedModel, assistant, tool_exchange, user
from tests.profiles import share

SEED = AutoContextConfig(msg_threshold=30, last_keep=10)
BUILT = AutoContextConfig.builder().msgThreshold(30).lastKeep(10).maxToken(128 * 1024).tokenRatio(0.75).build()
PRESET = AutoContextConfig.agentscope_java(msg_threshold=30, last_keep=10)
SHORT, LONG = 6, 60
"""Lines of a tool's result: in a round of one call about 150 and 1,000 tokens."""


def a_round(number: int, lines: int = SHORT, calls: int = 1) -> list[Msg]:
    result = f"def f{number}(): return {number}  # used by the scheduler\n" * lines
    exchanges = [tool_exchange("read_file", {"path": f"src/m{number}_{n}.py"}, result) for n in range(calls)]
    answer = assistant(f"It returns {number}, which the scheduler needs.")
    return [user(f"What does m{number}.py do?"), *(m for e in exchanges for m in e), answer]


def one_pass(config: AutoContextConfig, model: ScriptedModel | None, messages: list[Msg]) -> CompressionReport:
    memory = AutoContextMemory(config, model)
    memory.add_messages(messages)
    return memory.compress_if_needed()


def applied(report: CompressionReport) -> list[str]:
    return [s.name for s in report.strategies if s.applied]


@pytest.mark.slow
@settings(max_examples=share(30))
@given(
    st.sampled_from([SEED, BUILT]),
    st.sampled_from([None, "It returns a number."]),
    st.lists(st.tuples(st.integers(SHORT, 40), st.integers(1, 5)), min_size=9, max_size=14),
)
def test_a_threshold_that_is_exceeded_by_short_rounds_is_answered_by_the_strategies(
    config: AutoContextConfig, reply: str | None, shapes: list[tuple[int, int]]
) -> None:
    messages = [m for n, (lines, calls) in enumerate(shapes) for m in a_round(n, lines, calls)]
    report = one_pass(config, None if reply is None else ScriptedModel(reply), messages)
    assert report.messages_after <= 24, "the target of 30 messages; a fold of two at the target may not be shorter"
    assert applied(report)[0] in STRATEGIES
    left = 2 * (len(shapes) - 1) + 2 * shapes[-1][1] + 2  # of each round two messages, and the newest round whole
    assert left >= 24 or "fold" not in applied(report)


@pytest.mark.slow
@pytest.mark.parametrize("config", [SEED, BUILT], ids=["fields", "builder"])
@pytest.mark.parametrize("reply", [None, "It returns a number."], ids=["rules", "model"])
def test_every_pass_of_a_long_conversation_in_short_rounds_begins_with_the_strategies(
    config: AutoContextConfig, reply: str | None
) -> None:
    memory = AutoContextMemory(config, None if reply is None else ScriptedModel(reply))
    passes: list[CompressionReport] = []
    memory.on_compression(passes.append)
    for number in range(40):
        for msg in a_round(number):
            memory.add_message(msg)
            memory.get_messages()
    assert len(passes) > 10
    assert all(applied(report)[0] == "rounds" for report in passes)


def test_while_long_rounds_are_enough_a_model_is_not_asked_about_short_ones() -> None:
    model = ScriptedModel("It returns a number.")
    config = SEED.model_copy(update={"min_compression_token_threshold": 1_000})
    long = [m for n in range(4) for m in a_round(n, LONG, calls=2)]
    short = [m for n in range(4, 6) for m in a_round(n)]
    report = one_pass(config, model, [*long, *short, *a_round(6)])
    assert applied(report) == ["rounds"]
    assert len(model.requests) == 4
    assert not any("m4_0.py" in request.prompt for request in model.requests)


def test_without_a_model_short_rounds_are_condensed_with_the_long_ones() -> None:
    report = one_pass(SEED, None, [m for n in range(10) for m in a_round(n, LONG if n < 2 else SHORT)])
    (rounds,) = [s for s in report.strategies if s.applied]
    assert rounds.name == "rounds"
    assert "in 9 edits" in rounds.reason


def test_short_rounds_give_way_before_the_current_one() -> None:
    current = a_round(9, calls=3)[:-1]
    for model in (None, ScriptedModel("It returns a number.")):
        report = one_pass(SEED, model, [*(m for n in range(6) for m in a_round(n)), *current])
        assert applied(report) == ["rounds"]


def test_a_minimum_that_is_set_falls_too_and_0_asks_once() -> None:
    messages = [m for n in range(9) for m in a_round(n)]
    for least in (None, 5000, 100, 0):
        model = ScriptedModel("It returns a number.")
        config = SEED.model_copy(update={"min_compression_token_threshold": least})
        assert applied(one_pass(config, model, messages)) == ["rounds"]
        assert len(model.requests) == 8


@pytest.mark.parametrize("model", [None, ScriptedModel("SUMMARY")], ids=["none", "model"])
def test_in_the_preset_short_rounds_stay_whole(model: ScriptedModel | None) -> None:
    report = one_pass(PRESET, model, [m for n in range(10) for m in a_round(n)])
    assert report.outcome == "partly"
    assert applied(report) == []
    assert [s.name for s in report.strategies] == [*STRATEGIES[:4], "current_round_large_messages", "current_round"]


def test_a_pass_of_one_strategy_lets_the_minimum_fall_where_there_is_a_last_resort() -> None:
    messages = [m for n in range(10) for m in a_round(n)]
    single = SEED.model_copy(update={"escalation": "single"})
    assert applied(one_pass(single, ScriptedModel("SUMMARY"), messages)) == ["rounds"]
    strict = single.model_copy(update={"last_resort": False})
    assert applied(one_pass(strict, ScriptedModel("SUMMARY"), messages)) == []


def test_own_strategies_come_once_and_in_their_place() -> None:
    proposed: list[str] = []

    class Watching:
        def __init__(self, name: str) -> None:
            self.name = name

        def propose(self, view: object) -> list[object]:
            proposed.append(self.name)
            return []

    config = SEED.model_copy(update={"strategies": (Watching("before"), "rounds", Watching("after"))})
    report = one_pass(config, ScriptedModel("SUMMARY"), [m for n in range(16) for m in a_round(n)])
    assert proposed == ["before", "after"]
    assert [s.name for s in report.strategies][:4] == ["before", "rounds", "rounds", "after"]
