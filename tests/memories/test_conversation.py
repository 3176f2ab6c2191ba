"""What is taken for the talk, and what is kept out of it."""

import pytest

from autocontext.errors import ConfigError
from autocontext.memories import extract_conversation_context
from autocontext.messages import ImageBlock, Msg, Origin, TextBlock
from autocontext.testing import assistant, system, tool_call, tool_exchange, user


def test_004_5_the_last_three_turns_oldest_first() -> None:
    call, result = tool_exchange("search", {"q": "x"}, "RESULT")
    talk = [
        system("SYS"), user("one"), assistant("1"), user("two"), assistant("2"), user("three"), call, result,
        tool_call("again", text="calling"), assistant("3"), user("four"), assistant("4"),
    ]  # fmt: skip
    assert extract_conversation_context(talk) == "two 2 three 3 four 4"
    assert extract_conversation_context(talk, max_turns=1) == "four 4"
    assert extract_conversation_context(talk, 0) == extract_conversation_context([]) == ""


def test_004_5_of_several_parts_the_text_counts() -> None:
    image = ImageBlock(source={"type": "url", "url": "http://x/y.png"})
    assert extract_conversation_context([Msg(role="user", content=[TextBlock(text="look"), image])]) == "look"
    assert extract_conversation_context([Msg(role="user", content=[image]), user("hi")], max_turns=2) == "hi"
    chat = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "content": None, "tool_calls": [{}]},
        {"role": "tool", "content": "RESULT"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": 7},
    ]
    assert extract_conversation_context(chat) == "look done"


def test_injected_messages_and_notes_are_no_talk() -> None:
    note = Msg(role="user", content="NOTE", origin=Origin(uuid="u", kind="fold"))
    injected = Msg(role="user", content="<memory>", metadata={"_injected": "memory_context"})
    assert extract_conversation_context([note, user("a"), injected, user("b")], max_turns=2) == "a b"


@pytest.mark.parametrize("turns", [-1, 1.5, True, None])
def test_a_number_of_turns_that_is_none_is_named(turns) -> None:
    with pytest.raises(ConfigError, match="max_turns"):
        extract_conversation_context([], turns)
