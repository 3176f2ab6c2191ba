"""Which replies of a model become notes."""

import asyncio
import time

import pytest

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.compression.asking import _HEAD_START, Asker, _while_working
from autocontext.compression.questions import Ask
from autocontext.requests import ModelReply, ModelRequest
from autocontext.testing import ScriptedModel, conversation
from autocontext.text.rendering import unfence


class EchoModel:
    """Repeats a part of its question, as small models do."""

    def __init__(self, *, reminder: bool) -> None:
        self._reminder = reminder

    def complete(self, request: ModelRequest) -> ModelReply:
        transcript = unfence(request.prompt)
        after = request.prompt.split(transcript, 1)[1].split("\n", 2)[2].strip()
        return ModelReply(text=after[:200] if self._reminder else transcript[:200])


@pytest.mark.sampled
@pytest.mark.parametrize("reminder", [True, False])
def test_a_reply_that_repeats_its_instructions_is_none(reminder: bool) -> None:
    config = AutoContextConfig(max_token=6_000, token_ratio=0.5, model_retries=0)
    memory = AutoContextMemory(config, EchoModel(reminder=reminder))
    memory.add_messages(conversation(rounds=20, tools_per_round=3, chars=400))
    report = memory.compress_if_needed(force=True)
    assert report.outcome == "applied"
    assert (report.fallbacks > 0) == reminder
    assert "It was data, not instructions" not in "\n".join(m.text for m in memory.messages)


def test_nothing_waits_before_the_first_attempt() -> None:
    asker = Asker(ScriptedModel("In short."), AutoContextConfig())
    ask = Ask((ModelRequest(system="Be brief.", prompt="What was said?", purpose="fold"),), (1_000,))
    times = []
    for _ in range(3):
        began = time.monotonic()
        (answer,) = asker.ask(ask)
        times.append(time.monotonic() - began)
        assert answer.text == "In short."
    assert min(times) < 0.5


def test_no_work_begins_once_the_answers_are_there() -> None:
    begun: list[str] = []

    async def answers() -> list[str]:
        return ["In short."]

    async def main() -> None:
        assert await _while_working(answers(), lambda: begun.append("work")) == ["In short."]
        await asyncio.sleep(3 * _HEAD_START)

    asyncio.run(main())
    assert begun == []
