"""The fake services refuse what the real ones refuse: a fake that takes anything proves nothing."""

import json

import pytest
import requests

from tests.fakes import FakeDashScope, FakeOpenAI

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}
USER = {"role": "user", "content": "hi"}

INVALID = {
    "no messages": [],
    "not a list": "hi",
    "unknown role": [{"role": "bot", "content": "hi"}],
    "no content": [{"role": "user"}],
    "content of a wrong type": [{"role": "user", "content": 3}],
    "parts without type": [{"role": "user", "content": [{"text": "hi"}]}],
    "orphan result": [USER, RESULT],
    "unanswered call": [USER, ASKED],
    "call answered too late": [USER, ASKED, USER, RESULT],
    "answered twice": [USER, ASKED, RESULT, RESULT],
    "call without id": [USER, {**ASKED, "tool_calls": [{"type": "function", "function": CALL["function"]}]}, RESULT],
    "arguments not a string": [USER, {**ASKED, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {}}}]}],
    "calls of the user": [{**ASKED, "role": "user", "content": "x"}, RESULT],
}


def post(fake, body, key="test-key"):
    headers = {"Authorization": f"Bearer {key}"}
    with requests.post(fake.base_url + fake.path, json=body, headers=headers, timeout=10) as response:
        return response.status_code, response.json()


def body(fake, messages, **parameters):
    if isinstance(fake, FakeOpenAI):
        return {"model": "m", "messages": messages, **parameters}
    return {"model": "m", "input": {"messages": messages}, "parameters": {"result_format": "message", **parameters}}


@pytest.fixture(params=[FakeOpenAI, FakeDashScope])
def fake(request):
    with request.param() as running:
        yield running


@pytest.mark.sampled(7)
@pytest.mark.parametrize("fault", INVALID)
def test_invalid_messages(fake, fault):
    assert post(fake, body(fake, INVALID[fault]))[0] == 400


def test_valid_messages(fake):
    assert post(fake, body(fake, [{"role": "system", "content": "s"}, USER, ASKED, RESULT, USER]))[0] == 200


def test_a_wrong_key_and_unknown_parameters(fake):
    assert post(fake, body(fake, [USER]), key="other")[0] == 401
    assert post(fake, body(fake, [USER], surprise=1))[0] == 400
    assert post(fake, body(fake, [USER], max_tokens=0))[0] == 400


def test_the_script_is_followed_then_the_default(fake):
    fake.script(["one", "two"])
    answers = [json.dumps(post(fake, body(fake, [USER]))[1]) for _ in range(3)]
    assert ['"one"' in answers[0], '"two"' in answers[1], '"SUMMARY"' in answers[2]] == [True] * 3
    assert len(fake.requests) == 3


def test_a_compaction_is_taken_back_only_as_it_was_given():
    """The sealed text of one character is enough to tell; so are keys that only replies have."""
    with FakeOpenAI() as service:

        def answered(path, items):
            headers = {"Authorization": "Bearer test-key"}
            url = service.base_url + path
            with requests.post(url, json={"model": "m", "input": items}, headers=headers, timeout=10) as response:
                return response.status_code, response.json()

        status, window = answered("/responses/compact", [USER, {"role": "assistant", "content": "hello"}])
        assert (status, [item["type"] for item in window["output"]]) == (200, ["message", "compaction"])
        item = window["output"][1]
        assert answered("/responses", [*window["output"], USER])[0] == 200
        assert answered("/responses", [{**item, "created_by": "me"}, USER])[0] == 400
        changed = item["encrypted_content"].replace(item["encrypted_content"][0], "_", 1)
        status, refusal = answered("/responses", [{**item, "encrypted_content": changed}, USER])
        assert (status, refusal["error"]["code"]) == (400, "invalid_encrypted_content")
