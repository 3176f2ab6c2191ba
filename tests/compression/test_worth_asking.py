"""Proposals that need no draft: only such as the gate would let through."""

from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.compression.worth_asking import surely_shorter
from autocontext.history.edits import apply
from autocontext.history.proposals import Proposal, Question, build
from autocontext.history.view import View
from autocontext.testing import ScriptedModel, assistant, conversation, user
from tests.conversations import histories


def size(msg):
    return sum(len(str(b)) for b in msg.content) // 4 + 1


def asked(view, start, stop, role="user"):
    question = Question("tool_run", ("x",), 64, (1,))
    return Proposal(view.span(start, stop), question, role=role)


def drafted(p):
    return build(p, ["."] * len(p.questions))


def sure(view, proposals):
    return surely_shorter(view, proposals, lambda p: sum(map(size, drafted(p).messages)))


@given(histories(), st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=4))
def test_what_is_sure_passes_the_gate(history, spans):
    view = View.of(history, size)
    proposals = [asked(view, a, a + n) for a, n in spans if view.ids[a : a + n]]
    certain = sure(view, proposals)
    passed = {e.ids for e in apply(view, [drafted(p) for p in proposals], size).edits}
    assert all(p.span.ids in passed for p in proposals if id(p) in certain)


def test_whole_rounds_are_sure_and_short_last_or_overlapping_spans_are_not():
    view = View.of([*conversation(rounds=3, tools_per_round=2, chars=400), user("so?"), assistant("yes")], size)
    first, second, short, last = (asked(view, a, b) for a, b in ((2, 6), (8, 12), (19, 20), (20, 21)))
    assert sure(view, [first, second, short, last]) == {id(first), id(second)}
    assert sure(view, [first, asked(view, 3, 7)]) == set()


class Answers:
    """Proposes a note for each of the agent's answers."""

    name = "answers"

    def propose(self, view):
        spans = [view.span(i, i + 1) for i, m in enumerate(view.messages) if m.role == "assistant"]
        return [Proposal(span, Question("tool_run", ("said " * 200,), 64, (200,)), role="assistant") for span in spans]


def test_only_what_the_gate_would_let_through_is_asked_about():
    model = ScriptedModel("In short.")
    memory = AutoContextMemory(AutoContextConfig(strategies=(Answers(),), last_resort=False), model)
    long = "All rings of the second shop are sold. " * 40
    memory.add_messages([user("Go."), assistant("Ok."), user("And?"), assistant(long)])
    assert memory.compress_if_needed(force=True)
    assert len(model.requests) == 1
    assert memory.messages[1].text == "Ok."
