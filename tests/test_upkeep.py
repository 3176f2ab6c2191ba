"""The evidence ledger during a pass: what is prepared while the model is asked saves time and changes nothing."""

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, Msg, TextBlock
from autocontext.limits import Settings
from autocontext.log import Log
from autocontext.log_entries import Added
from autocontext.messages import is_ledger
from autocontext.questions import Ask
from autocontext.rendering import untagged
from autocontext.requests import Answer
from autocontext.tally import Tally
from autocontext.testing import ScriptedModel, conversation
from autocontext.tokens import get_counter

CONFIG = AutoContextConfig(
    msg_threshold=30, min_compression_token_threshold=0, strategies=("rounds",), target_ratio=1.0, last_keep=4
)
# Long enough that the budget does not cut: how many tokens a random UUID takes would decide where.
HISTORY = [
    m.model_copy(update={"content": (*m.content, TextBlock(text=f"See src/part_{i}.py:{i * 37} and job-{i:04x}."))})
    for i, m in enumerate(conversation(rounds=8, tools_per_round=2, chars=900))
]


def ledger_lines(messages: list[Msg]) -> str:
    found = [m.text for m in messages if is_ledger(m)]
    assert len(found) == 1
    return untagged(found[0])


def after_a_pass(*, prepared: bool) -> str:
    """The ledger after a pass whose driver did the work that may be done meanwhile, or did not."""
    from autocontext.engine import Commit, compress
    from autocontext.ledger import Evidence

    log = Log()
    for m in HISTORY:
        log.record(Added(message=m))
    tally = Tally(get_counter("o200k_base"), log)
    steps = compress(log, tally, Evidence(), Settings(CONFIG))
    step = next(steps)
    works = 0
    try:
        while True:
            if isinstance(step, Ask):
                assert step.meanwhile is not None
                works += 1
                if prepared:
                    step.meanwhile()
                step = steps.send([Answer(text="What it came to.", calls=1)] * len(step.requests))
            else:
                assert isinstance(step, Commit)
                tally.update(log.record(step.entry))
                step = steps.send(None)
    except StopIteration:
        assert works == 1
        return ledger_lines(log.view_messages)


def test_the_ledger_is_the_same_whether_or_not_it_was_prepared():
    assert after_a_pass(prepared=True) == after_a_pass(prepared=False)


@pytest.mark.parametrize("latency", [0.0, 0.05])
def test_a_model_that_takes_its_time_gets_the_same_ledger(latency):
    memory = AutoContextMemory(CONFIG, ScriptedModel("What it came to.", latency=latency))
    memory.add_messages(HISTORY)
    assert ledger_lines(memory.get_messages()) == after_a_pass(prepared=False)
