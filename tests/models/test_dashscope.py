"""What is particular to DashScope: settings that are global in its SDK, and its older reply form."""

import asyncio

from tests.extras import need

need("dashscope")

import dashscope

from tests.fakes import Raw
from tests.models.offers import ask, service


def test_the_sdks_global_settings_are_neither_used_nor_changed():
    before = (dashscope.api_key, dashscope.base_http_api_url)
    with service("dashscope") as (_, model):
        model.complete(ask())
        asyncio.run(model.acomplete(ask()))
    assert (dashscope.api_key, dashscope.base_http_api_url) == before


def test_models_that_answer_with_a_plain_text():
    with service("dashscope") as (fake, model):
        fake.script([Raw(200, {"output": {"text": "plain", "finish_reason": "length"}, "usage": {"input_tokens": 4}})])
        reply = model.complete(ask())
        assert (reply.text, reply.truncated, reply.usage.input_tokens) == ("plain", True, 4)


def test_further_parameters_go_along():
    with service("dashscope", enable_thinking=False) as (fake, model):
        model.complete(ask())
        assert fake.requests[0].body["parameters"] == {"enable_thinking": False, "result_format": "message"}
