"""The fake services refuse what the real ones refuse: a fake that takes anything proves nothing."""

import json

import pytest
import requests

from tests.fakes import FakeAnthropic, FakeDashScope, FakeOpenAI
from tests.fakes.http_server import Refusal
from tests.fakes.openai_responses import as_chat

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


TOOL_USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "42"}
WORDS = {"type": "text", "text": "hm"}
MARKED = {**WORDS, "cache_control": {"type": "ephemeral"}}


def claude(*contents):
    """Messages of the user and the assistant in turn."""
    return [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]


def picture(**source):
    return claude([{"type": "image", "source": source}])


REFUSED = {
    "assistant first": [{"role": "assistant", "content": "hi"}, USER],
    "results in two messages": [
        *claude("go", [TOOL_USE, {**TOOL_USE, "id": "t2"}], [TOOL_RESULT]),
        {"role": "user", "content": [{**TOOL_RESULT, "tool_use_id": "t2"}]},
    ],
    "text before a result": claude("go", [TOOL_USE], [WORDS, TOOL_RESULT]),
    "two calls with one id": claude("go", [TOOL_USE, TOOL_USE], [TOOL_RESULT, TOOL_RESULT]),
    "an id used again": claude("go", [TOOL_USE], [TOOL_RESULT], [TOOL_USE], [TOOL_RESULT]),
    "an id with other characters": claude("go", [{**TOOL_USE, "id": "f:0"}], [{**TOOL_RESULT, "tool_use_id": "f:0"}]),
    "no id": claude("go", [{**TOOL_USE, "id": ""}], [{**TOOL_RESULT, "tool_use_id": ""}]),
    "a name with other characters": claude("go", [{**TOOL_USE, "name": "a.b"}], [TOOL_RESULT]),
    "five cache marks": claude([MARKED, MARKED, MARKED], "hm", [MARKED, MARKED]),
    "marks in results": claude([MARKED] * 4, [TOOL_USE], [{**TOOL_RESULT, "content": [MARKED]}]),
    "a text of blanks": claude([{**WORDS, "text": " "}]),
    "image/jpg": picture(type="base64", media_type="image/jpg", data="AAAA"),
    "an address that is no HTTPS": picture(type="url", url="http://a.b/c.png"),
}


def ask_claude(messages, **parameters):
    with FakeAnthropic() as service:
        sent = {"model": "m", "max_tokens": 10, "messages": messages, **parameters}
        headers = {"x-api-key": "test-key"}
        with requests.post(service.base_url + service.path, json=sent, headers=headers, timeout=10) as response:
            return response.status_code


@pytest.mark.sampled(7)
@pytest.mark.parametrize("fault", REFUSED)
def test_what_claude_s_api_refuses(fault):
    assert ask_claude(REFUSED[fault]) == 400


def test_marks_of_the_tools_and_the_system_prompt_count():
    messages = claude([MARKED, MARKED], "hm", "on")
    assert ask_claude(messages, system=[MARKED], tools=[{"name": "f", "input_schema": {}}]) == 200
    assert ask_claude(messages, system=[MARKED, MARKED]) == 200
    assert ask_claude(messages, system=[MARKED, MARKED], tools=[{"name": "f", **MARKED}]) == 400


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}
CALLED = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
ANSWERED = {"type": "function_call_output", "call_id": "c1", "output": "42"}
SAID = {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "Done."}]}
BAD_ITEMS = {
    "a call without its reasoning": ([USER, CALLED, ANSWERED], "required 'reasoning' item: 'rs_1'"),
    "reasoning without its call": ([USER, THOUGHT, USER], "required following item"),
    "a shell call with the output of a function": (
        [USER, {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}}, ANSWERED],
        "No tool call found for function call output with call_id c1",
    ),
    "a computer call with a text": (
        [
            USER,
            {"type": "computer_call", "call_id": "c1", "action": {"type": "wait"}},
            {"type": "computer_call_output", "call_id": "c1", "output": "42"},
        ],
        "must be a computer_screenshot",
    ),
    "a custom call without a result": (
        [USER, {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "x"}],
        "No tool output found",
    ),
    "reasoning before words that it did not lead to": ([USER, THOUGHT, SAID], "required following item"),
    "reasoning at the end": ([USER, THOUGHT], "required following item"),
}


@pytest.mark.parametrize(("items", "said"), BAD_ITEMS.values(), ids=BAD_ITEMS)
def test_items_that_the_responses_api_refuses(items, said):
    with pytest.raises(Refusal, match=said):
        as_chat({"input": items}, [[THOUGHT, CALLED]])


def test_items_that_the_responses_api_takes():
    assert len(as_chat({"input": [USER, THOUGHT, CALLED, ANSWERED]}, [[THOUGHT, CALLED]])) == 3
