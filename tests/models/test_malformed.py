"""Answers that are malformed: a reply all the same, or a ModelError, and never anything else."""

import asyncio

import pytest

from autocontext.errors import ModelError
from autocontext.requests import ModelReply
from tests.fakes.http_server import Raw, Reply
from tests.fakes.spoiled import spoiled
from tests.models.offers import SERVICES, ask, service

BODIES = [None, [], "x", 3, {}, True, b"", b"{", b"<html>busy</html>", b"\xff"]
EMPTY = [{"choices": []}, {"choices": None}, {"choices": [None]}, {"choices": [{"message": None}]}]


@pytest.mark.parametrize("share", [29, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SERVICES)
def test_a_field_that_is_missing_or_wrong_is_a_reply_or_a_model_error(name: str, share: int) -> None:
    with service(name) as (fake, model):
        valid = fake.answer(Reply(text="Hm."), {"model": "m"})
        bodies = [*BODIES, *list(spoiled(valid))[::share]]
        told = 0
        for body in bodies:
            fake.script([Raw(200, body)])
            try:
                assert isinstance(model.complete(ask()), ModelReply)
            except ModelError:
                told += 1
        assert len(BODIES) <= told < len(bodies)


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("name", SERVICES)
def test_an_answer_without_a_message_is_told(name: str, empty: dict) -> None:
    with service(name) as (fake, model):
        valid = fake.answer(Reply(), {"model": "m"})
        body = {**valid, "output": {**valid["output"], **empty}} if "output" in valid else {**valid, **empty}
        fake.script([Raw(200, body)] * 2)
        with pytest.raises(ModelError):
            model.complete(ask())
        with pytest.raises(ModelError):
            asyncio.run(model.acomplete(ask()))
