"""One strategy off, one of your own in: whatever a strategy proposes, it cannot break a promise."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg
from autocontext.config import STRATEGIES
from autocontext.errors import ConfigError, InvalidEdit
from autocontext.strategies import Proposal, Question, Span, View
from autocontext.testing import ScriptedModel, assert_valid_chat, assistant, system, user
from autocontext.text.chat_rules import first_violation
from tests import invariants
from tests.conversations import valid_histories
from tests.invariants import assert_pairs_kept, unreachable
from tests.production.agents import day, rounds_only, small

ROOT = Path(__file__).parent.parent.parent


# ------------------------------------------------------------------------------------- one strategy needed off
@pytest.mark.parametrize("name", STRATEGIES)
def test_switches_only_the_strategies_named_are_tried(name: str) -> None:
    memory = AutoContextMemory(small(strategies=(name,), last_resort=False, max_token=300), ScriptedModel("In short."))
    memory.add_messages(day(10))
    tried = [s.name for s in memory.compress_if_needed().strategies]
    steps = {"current_round": ["current_round_large_messages", "current_round"]}
    assert tried == steps.get(name, [name])


def test_switches_the_order_given_is_the_order_tried() -> None:
    config = small(strategies=("rounds", "large_messages"), last_resort=False, max_token=300)
    memory = AutoContextMemory(config, ScriptedModel("In short."))
    memory.add_messages(day(10))
    assert [s.name for s in memory.compress_if_needed().strategies] == ["rounds", "large_messages"]


# --------------------------------------------------------------------------------------------------- own strategies
@pytest.mark.slow
def test_the_example_of_an_own_strategy_runs() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "own_strategy.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.stderr == ""
    assert "repaired_runs: " in run.stdout
    assert "m3,m7 shortened" in run.stdout


class Own:
    """A strategy made of a function."""

    def __init__(self, name: str, propose: Callable[[View], Any]) -> None:
        self.name = name
        self._propose = propose

    def propose(self, view: View) -> Iterable[Proposal]:
        return self._propose(view)


def raises(_: View) -> Any:
    raise KeyError("a bug")


def raises_halfway(view: View) -> Any:
    yield Proposal(view.span(0, 5), "a note", role="assistant")
    raise KeyError("a bug")


def at(view: View, start: int, stop: int, **fields: Any) -> list[Proposal]:
    return [Proposal(view.span(start, stop), **{"text": "a note", **fields})]


def asks(purpose: Any = "tool_run", parts: Any = ("some text " * 40,), target: Any = 50, sizes: Any = (100,)) -> Any:
    return lambda view: at(view, 2, 4, text=Question(purpose, parts, target, sizes))


MISBEHAVING: dict[str, tuple[Callable[[View], Any], str]] = {
    # Not proposals at all.
    "raises": (raises, "propose() failed: KeyError"),
    "raises halfway": (raises_halfway, "propose() failed: KeyError"),
    "returns nothing": (lambda _: None, "propose() failed: TypeError"),
    "returns garbage": (lambda _: ["fold everything", 7, None], "proposal 1 of "),
    "changes the view": (lambda view: setattr(view, "messages", ()), "a view is frozen"),
    "changes the view's index": (lambda view: view.position.clear(), "propose() failed"),
    # Proposals that nothing can be built from.
    "no text": (lambda view: at(view, 2, 4, text=None), "proposal 1 of "),
    "a number as text": (lambda view: at(view, 2, 4, text=12), "proposal 1 of "),
    "blocks that are none": (lambda view: at(view, 3, 4, text=None, blocks=["short"]), "proposal 1 of "),
    "a ledger that is none": (lambda view: at(view, 2, 4, ledger="a"), "proposal 1 of "),
    "a ledger that raises": (lambda view: at(view, 2, 4, ledger=raises), "proposal 1 of "),
    "a ledger that is no text": (lambda view: at(view, 2, 4, ledger=len), "proposal 1 of "),
    "a kind that is none": (lambda view: at(view, 2, 4, kind="magic"), "proposal 1 of "),
    "a kind of earlier releases": (lambda view: at(view, 2, 4, kind="ledger"), "proposal 1 of "),
    "a system message": (lambda view: at(view, 2, 4, role="system"), "proposal 1 of "),
    "a tool message": (lambda view: at(view, 2, 4, role="tool"), "proposal 1 of "),
    "an event that is none": (lambda view: at(view, 2, 4, event_type=None), "proposal 1 of "),
    "a context that is none": (lambda view: at(view, 2, 4, context="before"), "proposal 1 of "),
    "a span that is none": (lambda _: [Proposal(Span((1, 2), (None, None)), "x")], "proposal 1 of "),
    "other messages under these ids": (
        lambda view: [Proposal(Span(view.ids[2:4], (user("x"), user("y"))), "a note")],
        "proposal 1 of ",
    ),
    "a question without a prompt": (asks(purpose="write a poem"), "`purpose` must be one of tool_run, "),
    "a question about nothing": (asks(parts=(), sizes=()), "proposal 1 of "),
    "a question about numbers": (asks(parts=(1, 2), sizes=(1, 2)), "proposal 1 of "),
    "a question without sizes": (asks(sizes=()), "proposal 1 of "),
    "a question of any length": (asks(target="long"), "proposal 1 of "),
    # Proposals that the gate refuses.
    "takes a system message": (lambda view: at(view, 0, 4), "system messages stay"),
    "takes a pinned message": (lambda view: at(view, 1, 4), "pinned messages stay"),
    "takes a call without its result": (lambda view: at(view, 2, 6), "lose their partners"),
    "takes a result without its call": (lambda view: at(view, 6, 8), "lose their partners"),
    "takes the last message": (lambda view: at(view, len(view) - 1, len(view)), "must not come last"),
    "takes stale ids": (lambda _: [Proposal(Span(("gone",), (user("gone"),)), "a note")], "are not contiguous"),
    "takes what is not contiguous": (
        lambda view: [
            Proposal(Span((view.ids[2], view.ids[7]), (view.messages[2], view.messages[7])), "a note"),
        ],
        "are not contiguous",
    ),
    "offloads what is not there": (
        lambda view: at(view, 2, 4, context=Span(("nowhere",), (user("forged"),))),
        "is not in this view",
    ),
    "grows": (lambda view: at(view, 2, 4, text="a very long note " * 500), "not make the context smaller"),
}


def conversation() -> list[Msg]:
    """A system message, a pinned one, then rounds of four; index 5 is a call, 6 its result."""
    first = [system("You are the shop's agent."), user("Never delete data.", metadata={"pinned": True})]
    return [*first, user("Hello there. " * 40), assistant("Hello! " * 40), *day(8), user("And now?")]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", MISBEHAVING)
def test_a_misbehaving_strategy_is_named_in_the_report_and_the_others_go_on(kind: str) -> None:
    propose, reason = MISBEHAVING[kind]
    config = rounds_only(strategies=(Own("mine", propose), "rounds"), max_token=3_000)
    memory = AutoContextMemory(config, ScriptedModel("In short.", strict=False))
    memory.add_messages(added := conversation())
    report = memory.compress_if_needed()
    mine = report.strategies[0]
    assert (mine.name, mine.applied) == ("mine", False)
    assert reason in mine.reason
    assert report.strategies[1].applied
    assert_valid_chat(memory.messages)
    assert memory.messages[:2] == added[:2]
    assert memory.get_original_memory_msgs() == added
    assert unreachable(memory, added) == []
    for uuid in memory.get_offload_context():
        assert "Error" not in ContextOffloadTool(memory)(uuid)[:10]
    invariants.check(memory)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", [kind for kind in MISBEHAVING if kind != "grows"])
def test_with_a_scripted_model_a_misbehaving_strategy_fails_the_test(kind: str) -> None:
    propose, reason = MISBEHAVING[kind]
    memory = AutoContextMemory(rounds_only(strategies=(Own("mine", propose), "rounds")), ScriptedModel("In short."))
    memory.add_messages(added := conversation())
    with pytest.raises(InvalidEdit, match=f"mine: .*{re.escape(reason)}"):
        memory.compress_if_needed(force=True)
    assert memory.messages == added
    invariants.check(memory)


class Plain:
    """A model that says nothing of being strict."""

    def complete(self, *_: Any, **__: Any) -> str:
        return "In short."


@pytest.mark.parametrize("model", [None, Plain()])
def test_without_a_strict_model_a_misbehaving_strategy_raises_nothing(model: Any) -> None:
    propose, reason = MISBEHAVING["takes a system message"]
    memory = AutoContextMemory(rounds_only(strategies=(Own("mine", propose), "rounds")), model)
    memory.add_messages(conversation())
    report = memory.compress_if_needed(force=True)
    assert reason in report.strategies[0].reason


def test_a_class_in_place_of_an_object_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"strategies: Own is a class; write Own\(\)"):
        AutoContextConfig(strategies=(Own,))


def test_what_only_turned_out_too_long_is_nobodys_mistake() -> None:
    propose, reason = MISBEHAVING["grows"]
    config = rounds_only(strategies=(Own("mine", propose), "rounds"), max_token=3_000)
    memory = AutoContextMemory(config, ScriptedModel("In short."))
    memory.add_messages(conversation())
    report = memory.compress_if_needed(force=True)
    assert reason in report.strategies[0].reason
    assert report.strategies[1].applied


def test_one_bad_proposal_does_not_cost_the_good_ones_beside_it() -> None:
    both = Own("mine", lambda view: [*at(view, 0, 4), *at(view, 2, 4), "garbage"])
    memory = AutoContextMemory(rounds_only(strategies=(both,)), ScriptedModel("In short.", strict=False))
    memory.add_messages(conversation())
    report = memory.compress_if_needed(force=True)
    assert report.strategies[0].applied
    assert [r.reason for r in report.refused] == ["system messages stay"]


def test_two_proposals_for_the_same_messages_are_one_edit() -> None:
    greedy = Own("mine", lambda view: at(view, 2, 4) * 3)
    memory = AutoContextMemory(rounds_only(strategies=(greedy,)), ScriptedModel("In short.", strict=False))
    memory.add_messages(conversation())
    report = memory.compress_if_needed(force=True)
    assert len(memory.get_offload_context()) == 1
    assert len(report.refused) == 2


def test_a_proposal_with_a_question_is_answered_by_the_model_in_the_note() -> None:
    own = Own("mine", asks())
    memory = AutoContextMemory(rounds_only(strategies=(own,)), ScriptedModel("They said hello."))
    memory.add_messages(conversation())
    assert memory.compress_if_needed(force=True).model_calls == 1
    assert "They said hello." in memory.messages[2].text


def test_a_ledger_that_fails_on_what_the_model_wrote_costs_nothing_but_itself() -> None:
    def picky(written: str) -> str:
        return {".": "fine"}[written]  # what it is tried with when it is proposed

    ask = Question("tool_run", ("some text " * 40,), 50, (100,))
    own = Own("mine", lambda view: at(view, 2, 4, text=ask, ledger=picky))
    memory = AutoContextMemory(rounds_only(strategies=(own,)), ScriptedModel("They said hello."))
    memory.add_messages(conversation())
    assert memory.compress_if_needed(force=True)
    assert "They said hello." in memory.messages[2].text
    assert "fine" not in memory.messages[2].text
    invariants.check(memory)


def test_a_ledger_of_one_s_own_follows_what_the_model_wrote() -> None:
    ask = Question("tool_run", ("some text " * 40,), 50, (100,))
    own = Own("mine", lambda view: at(view, 2, 4, text=ask, ledger=lambda written: f"{len(written)} characters"))
    memory = AutoContextMemory(rounds_only(strategies=(own,)), ScriptedModel("They said hello."))
    memory.add_messages(conversation())
    assert memory.compress_if_needed(force=True)
    assert "They said hello.\n16 characters\n" in memory.messages[2].text


ODD = st.fixed_dictionaries(
    {},
    optional={
        "text": st.sampled_from(("x", "", None, 3, "long " * 200)),
        "blocks": st.sampled_from(({}, {0: "x"}, {-1: "x"}, {99: "x"}, {0: 1}, {"a": "x"})),
        "role": st.sampled_from(("user", "assistant", "system", "tool", "nobody")),
        "kind": st.sampled_from(("tool_run", "stub", "fold", "round_summary", "ledger", "magic")),
        "arguments_to": st.sampled_from((None, 10, -1, "x")),
        "ledger": st.sampled_from((None, str, len, "x")),
        "footer": st.sampled_from(("", "note", None)),
    },
)
FIT = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(("user", "assistant")),
        "kind": st.sampled_from(("tool_run", "fold", "round_summary")),
        "ledger": st.sampled_from((None, str)),
        "footer": st.sampled_from(("", "note")),
    },
)
"""Fields that nothing is wrong with: without these the gate refuses almost everything."""


@given(
    valid_histories(),
    st.lists(
        st.tuples(st.integers(-3, 60), st.integers(-3, 60), st.one_of(FIT, FIT, FIT, ODD)), min_size=1, max_size=6
    ),
    st.sampled_from((False, False, False, True)),
)
@example(drawn=[], places=[(2, 4, {})], wild=False)
def test_whatever_a_strategy_proposes_no_promise_is_broken(
    drawn: list[Msg], places: list[tuple[int, int, dict[str, Any]]], wild: bool
) -> None:
    """`wild`: the places are taken as they are drawn, else as the start and the length of a span in the view."""

    def propose(view: View) -> Iterable[Proposal]:
        for a, b, fields in places:
            start = a if wild else a % len(view)
            stop = b if wild else min(start + 1 + b % 6, len(view))
            yield Proposal(view.span(start, stop), **{"text": "x", **fields})

    history = [*drawn, *day(3)]
    config = small(strategies=(Own("mine", propose),), last_resort=False)
    memory = AutoContextMemory(config, ScriptedModel("In short.", strict=False))
    memory.add_messages(history)
    before = memory.messages
    report = memory.compress_if_needed(force=True)
    event("applied" if any(step.applied for step in report.strategies) else "nothing applied")
    assert first_violation(memory.messages) is None
    assert_pairs_kept(memory.messages, before)
    assert unreachable(memory, history) == []
    fixed = [m for m in before if m.role == "system" or m.metadata.get("pinned")]
    assert [m for m in memory.messages if m.role == "system" or m.metadata.get("pinned")] == fixed
    assert json.loads(json.dumps(memory.state_dict()))
    invariants.check(memory)
