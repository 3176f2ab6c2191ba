"""What every model promises, whatever stands behind it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext.models import AsyncChatModel, ChatModel
from autocontext.requests import ModelReply, ModelRequest, Usage
from tests.models.offers import OFFERS, ask, offer
from tests.profiles import WITH_FIXTURES, share

# Everything a history may hold, lone surrogates too.
texts = st.text(st.characters(exclude_categories=()), min_size=1, max_size=200).filter(str.strip)


@pytest.fixture(params=OFFERS)
def model(request):
    with offer(request.param) as found:
        yield found


def test_it_is_both_kinds_of_model(model):
    assert isinstance(model, ChatModel)
    assert isinstance(model, AsyncChatModel)


@settings(max_examples=share(25), deadline=None, suppress_health_check=WITH_FIXTURES)
@given(system=st.one_of(st.just(""), texts), prompt=texts, limit=st.one_of(st.none(), st.integers(1, 500)))
def test_any_request_gets_a_text_and_its_usage(model, system, prompt, limit):
    reply = model.complete(ModelRequest(system=system, prompt=prompt, purpose="merge", max_output_tokens=limit))
    assert isinstance(reply, ModelReply)
    assert reply.text.strip()
    assert isinstance(reply.usage, Usage)
    assert not reply.truncated


def test_sync_and_async_agree(model):
    request = ask("[user] Please look at src/app.py.\n[assistant] It fails with error 42." * 5)
    assert asyncio.run(model.acomplete(request)).text == model.complete(request).text


QUESTIONS = [ask("question " + "?" * i) for i in range(16)]


def one_by_one(model):
    return [model.complete(question).text for question in QUESTIONS]


@pytest.mark.sampled
def test_sixteen_questions_at_once_from_threads(model):
    with ThreadPoolExecutor(16) as threads:
        replies = list(threads.map(model.complete, QUESTIONS))
    assert [reply.text for reply in replies] == one_by_one(model)


@pytest.mark.sampled
def test_sixteen_questions_at_once_in_one_loop(model):
    async def all_at_once():
        return await asyncio.gather(*map(model.acomplete, QUESTIONS))

    assert [reply.text for reply in asyncio.run(all_at_once())] == one_by_one(model)


@pytest.mark.sampled
def test_one_loop_after_another(model):
    assert [asyncio.run(model.acomplete(question)).text for question in QUESTIONS[:3]] == one_by_one(model)[:3]


@pytest.mark.sampled
def test_several_loops_at_once(model):
    async def twice(question):
        first = await model.acomplete(question)
        await asyncio.sleep(0.02)
        return first.text, (await model.acomplete(question)).text

    with ThreadPoolExecutor(4) as threads:
        results = [threads.submit(asyncio.run, twice(question)) for question in QUESTIONS]
        assert [result.result() for result in results] == [(text, text) for text in one_by_one(model)]


def test_sync_inside_a_running_loop(model):
    async def blocking():
        return model.complete(ask())

    assert asyncio.run(blocking()).text == model.complete(ask()).text


def test_its_repr_is_one_short_line(model):
    assert "\n" not in repr(model)
    assert len(repr(model)) < 120
