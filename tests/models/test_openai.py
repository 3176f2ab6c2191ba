"""What is particular to OpenAI: the name of the output limit, its refusals, its bills."""

import pytest

from autocontext.errors import ModelError
from autocontext.models import OpenAIChatModel
from tests.extras import need
from tests.fakes import Raw, Reply
from tests.models.offers import KEY, ask, service


def sent_limit(fake, model):
    model.complete(ask(max_output_tokens=50))
    body = fake.requests[-1].body
    return {name: body[name] for name in ("max_tokens", "max_completion_tokens") if name in body}


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_the_limit_goes_by_the_name_asked_for(field):
    with service("openai", limit_field=field) as (fake, model):
        assert sent_limit(fake, model) == {field: 50}


def test_the_limit_goes_by_the_name_of_the_server():
    need("openai")
    at_openai = OpenAIChatModel("gpt-5-mini", api_key=KEY)
    arguments = at_openai._arguments(ask(max_output_tokens=50), "https://api.openai.com/v1/")
    assert arguments["max_completion_tokens"] == 50
    with service("openai") as (fake, model):
        assert sent_limit(fake, model) == {"max_tokens": 50}


def test_no_limit_and_no_temperature_unless_asked_for():
    with service("openai") as (fake, model):
        model.complete(ask(system=""))
        assert fake.requests[0].body == {"model": "qwen-plus", "messages": [{"role": "user", "content": ask().prompt}]}


def test_a_refusal():
    with service("openai") as (fake, model):
        fake.script([Reply(text=None, message={"refusal": f"I will not, {KEY}."})])
        with pytest.raises(ModelError, match="refused: I will not") as caught:
            model.complete(ask())
        assert not caught.value.retryable
        assert KEY not in str(caught.value)


def test_an_unpaid_bill_is_not_retried():
    with service("openai") as (fake, model):
        fake.script(
            [Raw(429, {"error": {"message": "quota", "type": "x", "param": None, "code": "insufficient_quota"}})]
        )
        with pytest.raises(ModelError) as caught:
            model.complete(ask())
        assert not caught.value.retryable


def test_an_sdk_that_retries_by_itself_when_asked_to():
    with service("openai", max_retries=1) as (fake, model):
        fake.script([Raw(500, {}, {"Retry-After-Ms": "1"}), "second"])
        assert model.complete(ask()).text == "second"
