"""JSON as tables and answers without their wrapping: shorter, and nothing is left out."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.text.excerpts import Excerpts, excerpt
from autocontext.text.reformatting import in_lines, reformatted

FLIGHTS = [
    {"flight_number": "HAT141", "from": "MSP", "leaves": "14:00:00", "seats": {"economy": 17, "business": 2}},
    {"flight_number": "HAT196", "from": "MSP", "leaves": "11:00:00", "seats": {"economy": 15, "business": 16}},
    {"flight_number": "HAT300", "from": "MSP", "leaves": "06:00:00", "seats": {"economy": 0, "business": 20}},
]


# ------------------------------------------------------------------------------- a reader of the form to compare with
def read(told: str) -> Any:
    """The value that a text of `in_lines` tells; numbers as texts with "#" before them."""
    last = re.search(r'^("(?:[^"\\]|\\.)*"|[\w-]+): <<([-+]?)\n', told, re.MULTILINE)
    told, rest = (told[: last.start()].removesuffix("\n"), told[last.end() :]) if last else (told, "")
    value = _read(told) if told else {}
    if last:
        assert not rest.endswith("\n") or last[2]
        value[_key(f"{last[1]}:")[0]] = _unescaped(rest) + "\n" * (last[2] != "-")
    return value


def _read(told: str) -> Any:
    lines = [((len(line) - len(line.lstrip(" "))), line.lstrip(" ")) for line in told.split("\n")]
    value, rest = _block(lines, lines[0][0])
    assert not rest
    return value


def _block(lines: list[tuple[int, str]], indent: int) -> tuple[Any, list[tuple[int, str]]]:
    if lines[0][1].startswith("|"):
        return _rows(lines, indent)
    found: Any = [] if lines[0][1].startswith("-") and not re.match(r"-[\w-]*:", lines[0][1]) else {}
    while lines and lines[0][0] == indent:
        line, lines = lines[0][1], lines[1:]
        if isinstance(found, list):
            key, own = None, line[2:]
        else:
            key, own = _key(line)
        if (text := re.fullmatch(r"\|([-+]?)", own)) is not None:
            value, lines = _text(lines, indent + 1, text[1])
        elif own:
            value = _value(own)
        else:
            value, lines = _block(lines, indent + 1)
        found.append(value) if isinstance(found, list) else found.update({key: value})
    return found, lines


def _text(lines: list[tuple[int, str]], indent: int, ends: str) -> tuple[str, list[tuple[int, str]]]:
    own = next((k for k, (at, _) in enumerate(lines) if at < indent), len(lines))
    said = "\n".join(" " * (at - indent) + line for at, line in lines[:own])
    assert said.endswith("\n") is (ends == "+") or not said or ends == "-"
    return _unescaped(said) + "\n" * (ends != "-"), lines[own:]


def _unescaped(text: str) -> str:
    """A text whose backslashes begin the escapes of invisible characters, if there are any of those."""
    escapes = re.findall(r"\\u[0-9a-f]{4}|\\.", text)
    hidden = escapes and all(re.fullmatch(r"\\(?:u[0-9a-f]{4}|[bf])", escape) for escape in escapes)
    return json.loads(f'"{json.dumps(text)[1:-1].replace(chr(92) * 2, chr(92))}"') if hidden else text


def _key(line: str) -> tuple[str, str]:
    quoted = re.match(r'"(?:[^"\\]|\\.)*"', line)
    key = quoted[0] if quoted else re.match(r"[\w-]+", line)[0]  # type: ignore[index]
    assert line[len(key)] == ":"
    return json.loads(key) if quoted else key, line[len(key) + 2 :]


def _rows(lines: list[tuple[int, str]], indent: int) -> tuple[Any, list[tuple[int, str]]]:
    rows = []
    while lines and lines[0][0] == indent and lines[0][1].startswith("|"):
        cells = re.split(r"(?<!\\)\|", lines[0][1])[1:-1]
        rows.append([cell.replace(r"\|", "|") for cell in cells])
        lines = lines[1:]
    head, rule, *body = rows
    assert set(rule) == {"-"}
    keyed = head[0] == ""
    paths = [_path(cell) for cell in head]
    records = []
    for row in body:
        record: dict[str, Any] = {}
        for path, cell in zip(paths[keyed:], row[keyed:], strict=True):
            inside = record
            for key in path[:-1]:
                inside = inside.setdefault(key, {}) if cell else inside
            if cell:
                inside[path[-1]] = _value(cell)
        records.append((_value(row[0]) if keyed else None, record))
    return dict(records) if keyed else [record for _, record in records], lines


def _path(cell: str) -> list[str]:
    return [json.loads(cell)] if cell.startswith('"') else cell.split(".")


def _value(told: str) -> Any:
    value, rest = _scalar(told, within=False)
    assert not rest, told
    return value


def _scalar(told: str, *, within: bool) -> tuple[Any, str]:
    if told.startswith("{"):
        record, told = {}, told[1:]
        while not told.startswith("}"):
            key, told = _key(told)
            record[key], told = _scalar(told, within=True)
            told = told.removeprefix(", ")
        return record, told[1:]
    if told.startswith("["):
        items, told = [], told[1:]
        while not told.startswith("]"):
            item, told = _scalar(told, within=True)
            items.append(item)
            told = told.removeprefix(", ")
        return items, told[1:]
    if told.startswith('"'):
        end = re.match(r'"(?:[^"\\]|\\.)*"', told)[0]  # type: ignore[index]
        return json.loads(end), told[len(end) :]
    word = re.match(r"[^][{},]+" if within else r".+", told)[0]  # type: ignore[index]
    return _named(word), told[len(word) :]


def _named(word: str) -> Any:
    if word in ("true", "false", "null"):
        return json.loads(word)
    is_number = re.fullmatch(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|NaN|-?Infinity", word)
    return f"#{word}" if is_number else word


def plain(text: str) -> Any:
    """The value of a JSON text, with numbers as `read` has them."""
    sign = "#{}".format
    return json.loads(text, parse_float=sign, parse_int=sign, parse_constant=sign)


# --------------------------------------------------------------------------------------------------------- properties
TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "12",
            "<<",
            "<<-",
            "-3.50",
            "true",
            "null",
            "NaN",
            "a|b",
            "a, b",
            "{x}",
            "k: v",
            "- a",
            "ende:",
            '"q"',
        ]
    ),
    st.sampled_from(
        [
            "東京都",
            "Größe",
            "a\nb",
            "a\n  b\nc",
            " a\n\nb\n",
            "\n\n",
            "\u202e",
            "\ud800",
            "\\",
            "\\|",
            "|-|",
            "#1",
            "> x",
            "a.b",
            "2024-05-25",
        ]
    ),
    st.text(max_size=8).filter(lambda text: not text.startswith("#")),
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), TEXTS)
KEYS = st.sampled_from(["id", "name", "größe", "数量", "a b", "a.b", "x|y", "", "-", "k:", "12", 'say "hi"'])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        st.lists(
            st.fixed_dictionaries({"id": SCALARS, "of": inner}, optional={"note": SCALARS}), min_size=2, max_size=4
        ),
        st.dictionaries(KEYS, st.fixed_dictionaries({"id": SCALARS, "at": SCALARS}), min_size=2, max_size=4),
    ),
    max_leaves=30,
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_tables_hold_every_key_and_value_as_it_was(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps([value, FLIGHTS], indent=indent, ensure_ascii=ascii_only)
    told = in_lines(text)
    assert told is not None
    assert read(told) == plain(text)


@given(VALUES)
def test_so_does_the_form_of_a_record_that_python_printed(value: Any) -> None:
    record = {"ok": True, "of": value, "found": FLIGHTS}
    told = in_lines(repr(record))
    if "nan" in repr(record) or "inf" in repr(record):  # names, which no literal is
        assert told is None or read(told) == plain(json.dumps(record))
    else:
        assert told is not None
        assert read(told) == plain(json.dumps(record))


@pytest.mark.parametrize(
    "printed",
    [
        "{'at': (1, 2), 'log': 'a\\nb\\nc'}",
        "{'b': b'x', 'log': 'a\\nb\\nc'}",
        "{'log': 'a\\nb\\nc', 'log': 'd'}",
        "{'log': 'a\\nb' 'c\\nd'}",
    ],
)
def test_what_json_does_not_know_or_python_would_print_otherwise_stays_as_it_is(printed: str) -> None:
    assert in_lines(printed) is None


@given(st.text(alphabet='{}[]",:|-\n\\ab1 .e', max_size=60))
def test_any_text_is_told_as_it_was_or_not_at_all(text: str) -> None:
    told = in_lines(text)
    if told is not None:
        assert read(told) == plain(text)


# ----------------------------------------------------------------------------------------------------------- examples
@pytest.mark.parametrize("name", ["赵\u3000佳宁", "10\u00a0000 €", "Ö\u2003x"])
def test_a_wide_blank_is_no_reason_for_escapes(name: str) -> None:
    rows = [{"kunde": f"{name} {n}", "tel": "１３９１７３３２２６３"} for n in range(3)]
    told = reformatted(json.dumps(rows))
    assert told is not None
    assert f"{name} 1" in told


def test_each_key_of_a_list_of_records_stands_once() -> None:
    assert reformatted(json.dumps(FLIGHTS)) == (
        "|flight_number|from|leaves|seats.economy|seats.business|\n"
        "|-|-|-|-|-|\n"
        "|HAT141|MSP|14:00:00|17|2|\n"
        "|HAT196|MSP|11:00:00|15|16|\n"
        "|HAT300|MSP|06:00:00|0|20|"
    )


def test_a_record_has_its_lists_in_lines_below_their_keys() -> None:
    order = {
        "订单": "W-20391",
        "状态": "已发货",
        "商品": [
            {"名称": "键盘", "编号": "0012", "价格": 1.50, "备注": "红|黑"},
            {"名称": "鼠标", "编号": "0044", "价格": 20, "备注": None},
            {"名称": "灯", "编号": "0107", "价格": 3e2},
        ],
        "地址": {"城市": "上海", "邮编": "200000"},
    }
    told = in_lines(json.dumps(order, ensure_ascii=False))
    assert told == (
        "订单: W-20391\n状态: 已发货\n商品:\n |名称|编号|价格|备注|\n |-|-|-|-|\n"
        ' |键盘|"0012"|1.5|红\\|黑|\n |鼠标|"0044"|20|null|\n |灯|"0107"|300.0||\n地址: {城市: 上海, 邮编: "200000"}'
    )


def test_records_by_their_keys_are_a_table_whose_first_column_is_the_key() -> None:
    limits = {"eu-west": {"cpu": 4, "speicher": "8Gi"}, "us-east": {"cpu": 16, "speicher": "64Gi"}}
    assert in_lines(json.dumps({"zonen": limits})) == (
        "zonen:\n ||cpu|speicher|\n |-|-|-|\n |eu-west|4|8Gi|\n |us-east|16|64Gi|"
    )


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("\ufeffconto;dare\n10;5,00\n11;6,00\n", "\\ufeffconto;dare\n10;5,00\n11;6,00"),
        ("ok\n\x1b[31mFEHLER\x1b[0m in Zeile 3\nEnde\n", "ok\n\\u001b[31mFEHLER\\u001b[0m in Zeile 3\nEnde"),
        ("一\n二\u202e\n三\U000e0041\n", "一\n二\\u202e\n三\\udb40\\udc41"),
    ],
)
def test_what_is_invisible_in_a_printed_text_is_escaped(printed: str, told: str) -> None:
    for record in (json.dumps({"code": 0, "out": printed}), repr({"code": 0, "out": printed})):
        assert reformatted(record) == f"code: 0\nout: <<\n{told}"
    assert reformatted(json.dumps({"code": 0, "out": f"{printed}C:\\users\n"})) is None


@pytest.mark.parametrize(
    "text",
    [
        "plain words",
        '{"name": "pool", "size": 4}',
        '[{"a": 1, "a": 2}, {"a": 3}]',
        '[{"a": 1}, {"a": 2}',
        '{"a": 1}\n{"a": 2}',
        "[" * 2_000 + "]" * 2_000,
        "[" * 30 + '{"a": 1}, {"a": 2}' + "]" * 30,
        json.dumps([{"a": 1}, {"b": 2}, {"c": 3}, {"d": 4}]),
        json.dumps([{"url": "https://example.org/" + "seite/" * 40, "n": n} for n in range(3)]),
        json.dumps({"farben": {"rot": "#ff0000", "blau": "#0000ff"}, "name": "dunkel"}, indent=2),
    ],
)
def test_what_has_no_table_or_is_hardly_shorter_stays(text: str) -> None:
    assert reformatted(text) is None


SPOKEN = "Bild gespeichert: /tmp/karte.png\nBreite: 1200"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (f"meta=None content=[TextContent(type='text', text={SPOKEN!r}, annotations=None)] isError=False", SPOKEN),
        (
            (
                f"meta=None content=[TextContent(type='text', text={SPOKEN!r}, annotations=None, meta=None)] "
                "structuredContent=None isError=True"
            ),
            f"isError: true\n{SPOKEN}",
        ),
        (json.dumps({"content": [{"type": "text", "text": "已保存"}], "isError": False}), "已保存"),
        (json.dumps([{"type": "text", "text": "已保存"}, {"type": "text", "text": SPOKEN}]), f"已保存\n{SPOKEN}"),
        (json.dumps([{"text": SPOKEN, "type": "text"}], indent=2), SPOKEN),
        (
            json.dumps({"_meta": None, "content": [{"type": "text", "text": "denied"}], "isError": True}),
            "isError: true\ndenied",
        ),
        (json.dumps({"content": [{"type": "text", "text": json.dumps(FLIGHTS)}]}), reformatted(json.dumps(FLIGHTS))),
    ],
)
def test_an_answer_of_the_protocol_is_what_the_tool_said(answer: str, told: str) -> None:
    assert reformatted(answer) == told


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps({"content": [{"type": "text", "text": "three"}], "structuredContent": {"hits": 3}}),
        json.dumps([{"type": "text", "text": "three"}, {"type": "image", "data": "iVB"}]),
        json.dumps([{"type": "text", "text": "three", "lang": "en"}]),
        json.dumps([{"text": "deploy ok", "success": False, "error": "quota exceeded"}]),
        json.dumps({"content": [{"type": "text", "text": "\\u001b[1mok\nb\nc"}]}),
        json.dumps({"content": [{"type": "text", "text": "a\u200bb\u200bc\u200bd\n" * 50}]}, ensure_ascii=False),
        json.dumps({"content": [{"type": "text", "text": "three", "annotations": {"audience": ["user"]}}]}),
        json.dumps({"content": [{"type": "text", "text": "three"}], "_meta": {"cursor": "abc"}}),
        (
            "content=[TextContent(type='text', text='three', annotations=None), ImageContent(type='image', data='iVB')]"
            " isError=False"
        ),
        "meta={'cursor': 'abc'} content=[TextContent(type='text', text='three', annotations=None)] isError=False",
        (
            "content=[TextContent(type='text', text='three', annotations=None)]"
            " structuredContent={'hits': 3} isError=False"
        ),
    ],
)
def test_an_answer_with_more_than_words_stays(answer: str) -> None:
    assert reformatted(answer) is None


# ----------------------------------------------------------------------------------------------------------- excerpts
def test_rows_stay_with_the_head_of_their_table_and_its_key() -> None:
    legs = [{"von": f"BER{n}", "nach": f"MUC{n}", "flug": f"LH{n}07", "am": f"2024-05-{n:02}"} for n in range(1, 30)]
    booking = json.dumps({"buchung": "OBUT9V", "strecken": legs, "stand": "bezahlt"})
    short = Excerpts(booking, lambda piece: 1.0 * ("LH1707" in piece)).of(160)
    assert short.reformatted
    above, found, _ = short.text.partition("\n |BER17|MUC17|LH1707|2024-05-17|")
    assert above.endswith("strecken:\n |von|nach|flug|am|\n |-|-|-|-|\n…")
    assert found
    assert short.characters == len(booking)
    assert 0 < short.missing < len(booking)


def test_no_head_of_a_table_stands_without_a_row() -> None:
    rows = [{"datum": f"2024-06-{n:02}", "betrag": n * 10, "an": "Stadtwerke " * 4} for n in range(1, 25)]
    text = json.dumps({"konto": "DE02", "posten": rows, "saldo": "1.204,50 EUR"})
    short = Excerpts(text, lambda piece: 1.0 * ("saldo" in piece or "konto" in piece)).of(60)
    assert "saldo" in short.text
    assert "|" not in short.text


def test_without_room_for_a_row_the_text_itself_is_cut() -> None:
    flights = [{f"scheduled_{name}_time_of_the_flight_in_hours": name * 2 for name in "abcdefg"} for _ in range(3)]
    flights[1] = {key: f"{value}7" for key, value in flights[1].items()}
    short = excerpt(json.dumps(flights), 200, lambda piece: 1.0)
    assert short.text
    assert not short.reformatted


@pytest.mark.parametrize(
    ("sign", "escaped"),
    [("\ud83d", r"\ud83d"), ("\x00", r"\u0000"), ("\x1b[2J", r"\u001b[2J"), ("\u202e", r"\u202e")],
)
def test_signs_that_were_escaped_stay_so(sign: str, escaped: str) -> None:
    """A tool that cuts an emoji in two must not make a request that cannot be encoded."""
    lines = "\n".join(f'Zeile "{n}" der Liste {sign}' for n in range(20))
    answer = json.dumps({"content": [{"type": "text", "text": lines}]})
    assert answer.isascii()
    told = lines.replace(sign, escaped)
    assert reformatted(answer) == told
    printed = f"meta=None content=[TextContent(type='text', text={lines!r}, annotations=None)] isError=False"
    assert reformatted(printed) == told
    assert reformatted(json.dumps({"content": [{"type": "text", "text": f"C:\\u{lines}"}]})) is None


@pytest.mark.parametrize(
    "answer",
    [
        '{"content": [{"type": "text", "text": "deleted 5 rows", "text": "fine"}]}',
        '{"content": [{"type": "text", "text": "a"}], "content": [{"type": "text", "text": "b"}]}',
        '{"content": [{"type": "text", "text": "x"}], "isError": "disk full on /dev/sda1"}',
    ],
)
def test_what_only_looks_like_the_protocol_stays(answer: str) -> None:
    assert reformatted(answer) is None


def test_blocks_of_other_kinds_keep_their_kind() -> None:
    told = reformatted('{"content": [{"type": "heading", "text": "Alt"}, {"type": "deleted", "text": "weg"}]}')
    assert told == "content:\n |type|text|\n |-|-|\n |heading|Alt|\n |deleted|weg|"


def test_deep_records_take_time_by_their_size() -> None:
    """Names of columns are joined some levels deep only."""
    deep = "{" + ", ".join(f'"k{n}": {n}' for n in range(500)) + "}"
    for _ in range(150):
        deep = f'{{"a": {deep}}}'
    told = in_lines(f"[{deep}, {deep}]")
    assert told is not None
    assert told.startswith("|a.a.a.a|\n|-|\n|{a: {")
    assert read(told) == plain(f"[{deep}, {deep}]")


@pytest.mark.parametrize(
    ("output", "sign"),
    [("2 failed\n  src/größe.c\n7 passed\n", ""), ("读取\n\n共 2 条", "-"), ("a:\n b\n\n", "+")],
)
def test_a_text_of_several_lines_stands_below_its_key(output: str, sign: str) -> None:
    body = output.removesuffix("\n")
    lines = body.replace("\n", "\n ")
    assert reformatted(json.dumps({"output": output, "exit_code": 0})) == f"exit_code: 0\noutput: <<{sign}\n{body}"
    assert reformatted(json.dumps({"output": output})) == f"output: <<{sign}\n{body}"
    assert in_lines(json.dumps({"err": output, "out": output + output})) == "\n".join(
        (f"err: |{sign}", f" {lines}", f"out: <<{sign}", (output + output).removesuffix("\n"))
    )


@pytest.mark.parametrize("text", ["one line", "two\nlines", "C:\\a\nb\x1b[0m\nc", "\\ud800\nb\ud800\nc"])
def test_one_of_fewer_lines_or_with_escapes_of_its_own_does_not(text: str) -> None:
    assert reformatted(json.dumps({"exit_code": 0, "output": text})) is None


@pytest.mark.parametrize("line", ["FAIL query_wait_timeout {}", "Fehler: Betrag {}", "错误：订单 {}"])
def test_an_excerpt_of_it_is_one_of_its_lines(line: str) -> None:
    output = "\n".join(line.format(n) if n % 20 == 3 else f"row {n} is as it was" for n in range(100))
    short = excerpt(json.dumps({"ok": True, "output": output}), 400, lambda piece: 1.0 * (line[:5] in piece) + 0.01)
    assert short.reformatted
    assert {line.format(n) for n in range(3, 100, 20)} <= {*map(str.strip, short.text.split("\n"))}
