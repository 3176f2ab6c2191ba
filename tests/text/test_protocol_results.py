"""The words of a tool inside the answer that a client of the Model Context Protocol printed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.text.protocol_results import Said, said

WORDS = st.text(st.sampled_from("ab1 '\"\\\n{}[]:,é错"), max_size=60)


def as_json(text: str, *, is_error: bool = False) -> str:
    content = [{"type": "text", "text": text, "annotations": None}]
    return json.dumps({"_meta": None, "content": content, "isError": is_error}, ensure_ascii=False, indent=2)


def as_printed(text: str, *, is_error: bool = False) -> str:
    return f"meta=None content=[TextContent(type='text', text={text!r}, annotations=None)] isError={is_error}"


def is_plain(text: str) -> bool:
    """Whether a text is no answer of the protocol by itself."""
    return said(text) == Said(text, is_error=False)


@given(WORDS, st.booleans())
def test_the_words_come_back_as_they_were_from_either_form_and_from_one_within_the_other(
    text: str, is_error: bool
) -> None:
    if not is_plain(text):
        return
    for printed in (as_json(text, is_error=is_error), as_printed(text, is_error=is_error)):
        assert said(printed) == Said(text, is_error)
    inner = as_json(text, is_error=is_error)
    assert said(as_printed(inner)) == Said(text, is_error)
    assert said(as_json(inner)) == Said(text, is_error)


def test_several_blocks_stand_one_below_the_other() -> None:
    blocks = ", ".join(f"TextContent(type='text', text={text!r}, annotations=None)" for text in ("eins", "二"))
    assert said(f"content=[{blocks}] isError=False") == Said("eins\n二", is_error=False)
    content = [{"type": "text", "text": text} for text in ("eins", "二")]
    assert said(json.dumps({"content": content})) == Said("eins\n二", is_error=False)


@pytest.mark.parametrize(
    "text",
    [
        "content is king",
        '{"content": "a page", "isError": true}',
        '{"content": [{"type": "image", "data": "aGk="}]}',
        '{"content": [{"type": "text", "text": "a"}, {"type": "image", "data": "aGk="}]}',
        '{"content": [{"type": "text", "text": "cut off',
        "meta=None content=[TextContent(type='text', text='cut off",
        "meta=None content=[ImageContent(type='image', data='aGk=')] isError=False",
        '{"content": [1, 2]}',
        '{"content": [{"type": "text", "text": "Hello"}], "role": "assistant", "usage": {"tokens": 3}}',
        r"content=[TextContent(type='text', text='C:\data', annotations=None)] isError=False",
        "content=[TextContent(type='text', text='two\nlines', annotations=None)] isError=False",
    ],
)
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert said(text) == Said(text, is_error=False)


def test_an_error_is_what_the_protocol_marks_and_not_what_the_words_say() -> None:
    assert not said(as_printed("isError=True")).is_error
    assert not said(as_json('the field "isError": true marks it')).is_error
    assert said(as_printed("all is well", is_error=True)).is_error
