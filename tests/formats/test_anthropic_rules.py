"""Requests for Claude's API keep its rules, however the messages came into the memory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextMemory, Msg, TextBlock
from autocontext.formats.anthropic_messages import request, to_anthropic
from autocontext.formats.anthropic_rules import EMPTY
from autocontext.formats.sendable import INTERRUPTED
from autocontext.messages import ToolResultBlock
from autocontext.testing import system, tool_call
from tests.fakes.anthropic_server import _check_marks, _check_pairs, check_messages

Json = dict[str, Any]
MARK = {"cache_control": {"type": "ephemeral"}}


def use(call_id: str) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "pay", "input": {}}


def result(call_id: str) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": f"paid {call_id}"}


def text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def users(*content: Any) -> Json:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def assistants(*content: Any) -> Json:
    return {**users(*content), "role": "assistant"}


def sent(*messages: Any) -> list[Json]:
    memory = AutoContextMemory()
    for message in messages:
        memory.add(message)
    made = memory.to_anthropic()
    check_messages(made)
    _check_pairs(made)
    return made


@pytest.mark.parametrize(
    "then",
    [
        [users(result("t1"))],  # the process was killed after the first
        [users(result("t1")), users("Are both paid?")],
        [users(result("t1")), users(result("t2"))],  # each as its tool ended
        [users(result("t1")), users("hurry"), users(result("t2"))],
        [users(result("t2"), text("one more comes")), users(result("t1"))],
        [users(text("Here:"), result("t1")), users(text("and"), result("t2"))],
        [users(result("t1")), Msg(role="tool", content=[ToolResultBlock(id="t2", name="pay", output="paid t2")])],
        [],
    ],
)
def test_the_message_after_the_calls_has_all_results_first(then: list[Any]) -> None:
    made = sent(users("Pay both."), assistants(use("t1"), use("t2")), *then)
    answers = [b for b in made[2]["content"] if b["type"] == "tool_result"]
    came = str(then)
    wanted = {i: f"paid {i}" if f"paid {i}" in came else INTERRUPTED for i in ("t1", "t2")}
    assert {b["tool_use_id"]: b["content"] for b in answers} == wanted
    words = ("Are both paid?", "hurry", "one more comes", "Here:")
    assert [w for w in words if w in came] == [w for w in words if w in str(made)]


MESSAGES = st.one_of(
    st.lists(st.sampled_from([text("hm"), result("t1"), result("t2")]), min_size=1, max_size=3).map(
        lambda c: users(*c)
    ),
    st.lists(st.sampled_from([text("hm"), use("t1"), use("t2"), use("f:0")]), min_size=1, max_size=3).map(
        lambda c: assistants(*c)
    ),
    st.sampled_from([users("hurry"), assistants("ok"), Msg(role="tool", content="done"), tool_call("f", id="t1")]),
)


@given(st.lists(MESSAGES, min_size=1, max_size=7))
def test_any_messages_become_a_request_that_the_service_takes(messages: list[Any]) -> None:
    sent(*messages)


@pytest.mark.parametrize("more", [[], [ToolResultBlock(id="t1", name="pay", output="ok")]])
def test_a_tool_s_message_without_a_result_is_the_user_s(more: list[Any]) -> None:
    said = [Msg(role="tool", content="42"), Msg(role="tool", content="进度"), Msg(role="tool", content=[])]
    answered = [Msg(role="tool", content=more)] if more else []
    made = sent(users("go"), assistants(use("t1")), *answered, *said, users("and?"))
    assert [m["content"] for m in made[3:]] == ["42", "进度", "and?"]
    assert to_anthropic(said[:2]) == [{"role": "user", "content": "42"}, {"role": "user", "content": "进度"}]


@pytest.mark.parametrize(
    "messages",
    [
        [assistants("Hello, I am your travel agent."), users("A flight to Lyon.")],
        [users(" "), assistants("Your message was empty."), users("A flight to Lyon.")],
        [assistants(use("t1")), users(result("t1"))],
    ],
)
def test_where_the_assistant_is_first_a_line_stands_in_the_user_s_place(messages: list[Json]) -> None:
    made = sent(*messages)
    assert made[0] == {"role": "user", "content": "[The conversation begins with the assistant:]"}
    assert made[1]["role"] == "assistant"


@pytest.mark.parametrize("place", ["text", "result"])
def test_the_newest_cache_marks_are_sent(place: str) -> None:
    memory = AutoContextMemory()
    for n in range(6):
        inner = text(f"question {n}", **MARK)
        if place == "result":
            memory.add([users("go"), assistants(use(f"t{n}")), users({**result(f"t{n}"), "content": [inner]})])
        else:
            memory.add(users(inner))
        made = memory.to_anthropic()
        check_messages(made)
        assert [f"question {k}" for k in range(7) if f"'question {k}', 'cache_control'" in str(made)] == [
            f"question {k}" for k in range(max(0, n - 1), n + 1)
        ]
        memory.add(assistants("ok"))
    assert str(to_anthropic(memory.get_original_memory_msgs())).count("cache_control") == 6


@pytest.mark.parametrize("in_result", [False, True])
@pytest.mark.parametrize("kind", ["document", "search_result"])
def test_marks_in_documents_and_search_results_count(kind: str, in_result: bool) -> None:
    texts = [text(f"line {n}", **MARK) for n in range(3)]
    found = {"type": "search_result", "source": "https://e.org", "title": "a", "content": texts}
    document = {"type": "document", "source": {"type": "content", "content": texts}}
    holds = found if kind == "search_result" else document
    memory = AutoContextMemory()
    if in_result:
        memory.add([users("go"), assistants(use("t1")), users({**result("t1"), "content": [holds]}, text("x", **MARK))])
    else:
        memory.add(users(holds, text("x", **MARK)))
    made = request([*memory.messages])["messages"]
    marked = [words for words in ("line 0", "line 1", "line 2", "x") if f"'{words}', 'cache_control'" in str(made)]
    assert marked == ["line 1", "line 2", "x"]
    assert str(to_anthropic(memory.messages)).count("cache_control") == 4  # as they were given


@pytest.mark.parametrize("marks", range(5))
def test_marks_of_the_system_prompt_leave_fewer_for_messages(marks: int) -> None:
    prompts = [system([TextBlock(text=f"rule {n}", metadata={"_anthropic": {"rest": MARK}})]) for n in range(marks)]
    memory = AutoContextMemory()
    memory.add_messages(prompts)
    memory.add([users(text(f"question {n}", **MARK)) for n in range(4)])
    made = request(memory.messages)
    blocks = [*made.get("system", ()), *(b for m in made["messages"] for b in m["content"])]
    _check_marks([*blocks, {"name": "f", **MARK}])
    assert sum("cache_control" in b for b in blocks) == 3
    assert "cache_control" in blocks[-1]


def picture(url: str) -> Json:
    return users(text("see"), {"type": "image_url", "image_url": {"url": url}})


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("data:image/jpg;base64,/9j/4AAQ", {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQ"}),
        ("data:image/png;base64,AAAA", {"type": "base64", "media_type": "image/png", "data": "AAAA"}),
        ("https://a.b/c.png", {"type": "url", "url": "https://a.b/c.png"}),
        ("data:IMAGE/PNG;base64,AAAA", {"type": "base64", "media_type": "image/png", "data": "AAAA"}),
        ("DATA:image/jpg;x=y;base64,AAAA", {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}),
        ("data:image/png;charset=utf-8;base64,AAAA", {"type": "base64", "media_type": "image/png", "data": "AAAA"}),
        ("HTTPS://a.b/C.png", {"type": "url", "url": "https://a.b/C.png"}),
        ("data:image/tiff;base64," + "A" * 400, None),
        ("http://a.b/c.png", None),
    ],
)
def test_an_image_is_sent_in_a_form_that_is_taken_or_named(url: str, source: Any) -> None:
    block = sent(picture(url))[0]["content"][1]
    if source is None:
        assert block["type"] == "text"
        assert block["text"].startswith("[image")
        assert "AAAA" not in block["text"]
    else:
        assert block == {"type": "image", "source": source}


@pytest.mark.parametrize("kind", ["url", "base64"])
def test_images_in_results_too(kind: str) -> None:
    url = {"type": "url", "url": "data:image/jpg;base64,AAAA"}
    source = url if kind == "url" else {"type": "base64", "media_type": "image/jpg", "data": "AAAA"}
    inner = {"type": "image", "source": source}
    made = sent(users("go"), assistants(use("t1")), users({**result("t1"), "content": [inner]}))
    shown = made[2]["content"][0]["content"][0]["source"]
    assert shown == {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}


@pytest.mark.parametrize("blank", [" ", "\n", "", [{"type": "text", "text": " "}]])
@pytest.mark.parametrize("before", [[], [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yes?"}]])
def test_a_last_message_of_the_user_that_is_blank_is_one_all_the_same(before: list[Any], blank: Any) -> None:
    """Speech without words: the request would end with the assistant's words, which Claude would write on."""
    memory = AutoContextMemory()
    memory.add([*before, {"role": "user", "content": blank}])
    assert memory.to_anthropic() == [*before, {"role": "user", "content": EMPTY}]
