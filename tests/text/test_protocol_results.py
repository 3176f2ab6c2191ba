"""The words of a tool inside what wraps them: an answer of the Model Context Protocol, a record, an element."""

import json
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autocontext.text.protocol_results import Said, printed, said

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
    for form in (as_json(text, is_error=is_error), as_printed(text, is_error=is_error)):
        assert said(form) == Said(text, is_error)
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


# --------------------------------------------------------------------------------- what a program printed, in a record
OUTPUTS = (
    "FAIL tests/test_pool.py::test_drain\nE   assert 3 == 4\n1 failed, 12 passed in 0.31s\n",
    "datei: src/größe.c\n  Zeile 12: Überlauf\nabgebrochen nach 3 Fehlern",
    "订单 D88120：已签收\n订单 D88121：待发货\n共 2 条\n",
)
WRAPPED = {
    "record": lambda text: json.dumps({"ok": True, "exit_code": 0, "output": text}),
    "two streams": lambda text: json.dumps({"stdout": text, "stderr": "", "code": 1}, indent=2, ensure_ascii=False),
    "nested": lambda text: json.dumps({"result": {"stdout": text, "truncated": False}, "ms": 31}),
    "python": lambda text: str({"returncode": 1, "stdout": text, "stderr": "", "seconds": 0.31}),
    "element": lambda text: f'<result tool="run" status="ok">\n{text}\n</result>\n',
    "bare element": lambda text: f"<output>{text}</output>",
    "protocol": as_json,
}


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_what_a_program_printed_is_read_without_what_wraps_it(output: str, wrap: Callable[[str], str]) -> None:
    assert printed(wrap(output)).strip("\n") == output.strip("\n")


@pytest.mark.parametrize("line", ["src/app.py edited", "31 Zeilen geschrieben\n", "已写入 31 行\n"])
def test_so_is_a_single_line_beside_which_only_stands_how_it_ended(line: str) -> None:
    assert printed(json.dumps({"ok": True, "exit_code": 0, "output": line})) == line
    assert printed(str({"returncode": 1, "stdout": "", "stderr": line})) == line
    kept = json.dumps({"ok": True, "cancelled": line, "order": 7})
    assert printed(kept) == kept


@pytest.mark.parametrize("wrap", [json.dumps, str])
def test_a_failure_and_a_key_beside_it_are_not_lost(wrap: Callable[[object], str]) -> None:
    failed = wrap({"ok": False, "output": "all is well"})
    assert printed(failed) == failed
    failed = wrap({"success": False, "output": "all\nis\nwell"})
    assert printed(failed) == failed
    told = printed(wrap({"stdout": "one line\ntwo lines\nthree", "order_id": "ORD-77", "session_id": 12, "ms": 31}))
    assert told.replace("'", '"') == '"order_id": "ORD-77"\n"session_id": 12\none line\ntwo lines\nthree'


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"title": "One line", "id": 7}),
        json.dumps({"title": "One line"}),
        json.dumps({"ok": True, "status": "cancelled"}),
        json.dumps({"note": "a\nb", "rows": list(range(100))}),
        '{"note": "a\\nb',
        "<b>bold</b> and more\n<b>of it</b> here",
        "a < b\nc > d",
        "{\n",
        "",
    ],
)
def test_what_wraps_nothing_is_read_as_it_is(text: str) -> None:
    assert printed(text) == text


@pytest.mark.filterwarnings("error")
@given(st.text(st.sampled_from('<>/ab{}"\\n:, '), max_size=80))
@example("{'a': '\\d\\n'}")
@example("{'a': " + "-" * 9_000 + "1}\\n")
@example("{'a': 0x" + "f" * 5_000 + ", 'b': '\\n'}")
@example("{'a': " + "[" * 9_000 + "\\n")
def test_any_text_may_be_printed(text: str) -> None:
    assert isinstance(printed(text), str)
