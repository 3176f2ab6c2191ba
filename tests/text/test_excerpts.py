"""An excerpt: pieces of a text word for word and in order, the ones that tell most."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.text.excerpts import excerpt
from autocontext.text.lines import alone, without_number
from autocontext.text.outlines import documents, frames, parents
from autocontext.text.pieces import pieces
from autocontext.text.reformatting import reformatted

TEXTS = st.text(st.sampled_from('ab1 .,;\n"{}[]:…错。\\'), max_size=1_500) | st.lists(
    st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=30), max_size=5), max_size=30
).map(json.dumps)


def worth(piece: str) -> float:
    return sum(map(str.isdigit, piece))


@given(TEXTS)
def test_pieces_cover_all_that_is_not_blank_in_order(text: str) -> None:
    found = pieces(text)
    assert "".join("".join(text[p.start : p.stop].split()) for p in found) == "".join(text.split())
    assert all(p.start < p.stop for p in found)
    assert all(first.stop <= second.start for first, second in pairwise(found))


@given(TEXTS, st.integers(1, 600))
def test_an_excerpt_is_short_and_stands_in_the_text(text: str, characters: int) -> None:
    short, missing, size, in_other_form = excerpt(text, characters, worth)
    assert size == len(text)
    if len(text) <= characters:
        assert (short, missing) == (text, 0)
        return
    assert len(short) <= characters
    if in_other_form:
        text = reformatted(text) or ""
        assert (missing == 0) == (short == text)
    elif "…" not in text:
        assert missing >= len(text) - len(short)
        assert missing - (len(text) - len(short)) <= 4 * (short.count("…") + 1)
    if "…" not in text and short:
        at = 0
        for part in (p.strip() for p in short.split("…")):
            at = text.find(part, at)
            assert at >= 0, part
            at += len(part)


def test_records_of_a_long_line_are_cut_between_fields() -> None:
    records = [{"flight": f"HAT{n}", "price": n * 7, "note": "aisle, window"} for n in range(60)]
    text = json.dumps(records)[:-1]  # cut at the limit of a tool, so that it is no JSON
    short, *_ = excerpt(text, 500, lambda piece: 5.0 * ("HAT41" in piece))
    assert '"flight": "HAT41", "price": 287, "note": "aisle, window"' in short
    for part in short.split("…"):
        assert part.count('"') % 2 == 0, part


@pytest.mark.parametrize("indent", [None, 2, 4])
def test_a_field_stands_under_the_first_field_of_its_own_record(indent: int | None) -> None:
    records = [{"id": f"W{n}", "note": "word " * 30, "price": 7 * n, "state": "pending"} for n in range(40)]
    text = json.dumps({"orders": records}, indent=indent)[:-1]  # cut at the limit of a tool, so that it is no JSON
    short, *_ = excerpt(text, 900, lambda piece: 5.0 * ('"price": 217' in piece or '"price": 35,' in piece))
    for n in (31, 5):
        before = short[: short.index(f'"price": {7 * n}')]
        assert before.rindex('"id": ') == before.index(f'"id": "W{n}"')


@pytest.mark.parametrize(
    ("head", "more"),
    [
        ("{n}. [Result {n}](https://example.org/{n})", "Date published: May {n}, 2025\n\nWhat page {n} says of it."),
        ("{n}) Auftrag W{n}", "Kunde K{n}\nBetrag {n},50 EUR"),
        ("  {n}. 订单 W{n}", "  客户 K{n}\n  金额 {n}.50"),
    ],
)
def test_a_line_of_a_list_stands_under_the_first_line_of_its_own_item(head: str, more: str) -> None:
    items = [f"{head.format(n=n)}\n{more.format(n=n)}" for n in range(1, 31)]
    wanted = [more.format(n=n).split("\n")[-1].strip() for n in (4, 17, 30)]
    short, *_ = excerpt("Found:\n" + "\n\n".join(items), 600, lambda piece: 9.0 * (piece in wanted))
    for n, line in zip((4, 17, 30), wanted, strict=True):
        before = short[: short.index(line)]
        heads = [head.format(n=k).strip() for k in range(1, 31)]
        assert max(heads, key=before.rfind) == head.format(n=n).strip()


def test_lines_after_a_list_belong_to_none_of_its_items() -> None:
    after = [f"Then {n} other things happened." for n in range(60)]
    text = "\n".join(["1. first", "2. second", "3. third", *after[:30], "Disk 77 failed.", *after[30:]])
    short, *_ = excerpt(text, 30, lambda piece: 90.0 * ("Disk" in piece))
    assert "Disk 77 failed." in short
    assert "3. third" not in short


@pytest.mark.parametrize(
    ("line", "odd"),
    [
        ("12:0{}:07 INFO worker {} is fine", "12:31:07 WARN disk 74 failed"),
        ("{}. Überweisung über {} EUR ausgeführt", "Überweisung an Frau Weiß abgelehnt"),
        ("第{}行：库存 {} 件", "第九行：仓库已接单"),
    ],
)
def test_the_line_that_is_like_no_other_stays(line: str, odd: str) -> None:
    lines = [line.format(n % 10, n) for n in range(200)]
    lines.insert(123, odd)
    assert alone(lines) == {123}
    assert odd in excerpt("\n".join(lines), 300, lambda _: 0.0).text


@pytest.mark.parametrize(
    ("passed", "failed"),
    [
        ("--- PASS: TestPool_missing_{0} (0.{0}s)", "--- FAIL: TestPool_close_{0} (0.{0}s)"),
        ("OK    Rechnung R{0} an Kunde K{0} verschickt", "OFFEN Rechnung R{0} an Kunde K{0} zurückgekommen"),
        ("已完成 订单 W{0} 发货", "未完成 订单 W{0} 发货"),
    ],
)
def test_of_many_lines_those_tell_most_that_begin_as_few_do(passed: str, failed: str) -> None:
    lines = [passed.format(n) for n in range(120)]
    few = [failed.format(n) for n in (17, 38, 55, 71, 90, 104)]
    for n, line in enumerate(few):
        lines.insert(n * 19 + 3, line)
    short, *_ = excerpt("\n".join(lines), 420, lambda _: 1.0)
    assert all(line in short for line in few)


def test_no_few_words_are_cut_off_a_line() -> None:
    for more in range(1, 90):
        text = "x" * 10 + " word" * 38 + " " + "y" * more
        assert all(p.stop - p.start >= 40 for p in pieces(text)), more


def test_equal_pieces_stand_once() -> None:
    short, *_ = excerpt("rolled back\n" * 50 + "commit 77123\n", 200, worth)
    assert short.count("rolled back") == 1
    assert "commit 77123" in short


CODE = """\
import os


def opened(path):
    return open(path)


class Pool:
    def __init__(self, size):
        self.size = size
        self.free = []

    def acquire(self, timeout):
        if not self.free:
            raise PoolEmpty(self.size)
        return self.free.pop()

    def release(self, connection):
        self.free.append(connection)


def main():
    print(opened("a"))
"""
LOG = (
    "\n".join(f"{n:02}:00 Auftrag {n} gebucht" for n in range(20))
    + ("\n20:01 Auftrag 77 geöffnet\n20:02 Konto gesperrt\n20:03 Auftrag 77 verworfen\n")
    + "\n".join(f"{n:02}:30 Auftrag {n} gebucht" for n in range(21, 24))
)
CHAPTERS = (
    "\n".join(f"第{n}章\n今天没有什么要说的。" for n in range(20))
    + ("\n第二十一章\n王先生退了订单。\n仓库收到了耳机。\n退款明天到账。\n")
    + "\n".join(f"第{n}节\n明天也没有什么。" for n in range(20))
)


@pytest.mark.parametrize(
    ("text", "word", "block", "characters"),
    [
        (
            CODE,
            "PoolEmpty",
            "        if not self.free:\n            raise PoolEmpty(self.size)\n        return self",
            200,
        ),
        (LOG, "gesperrt", "20:01 Auftrag 77 geöffnet\n20:02 Konto gesperrt\n20:03 Auftrag 77 verworfen", 130),
        (CHAPTERS, "仓库", "王先生退了订单。\n仓库收到了耳机。\n退款明天到账。", 45),
    ],
)
def test_a_line_stays_with_the_lines_around_it_as_they_are_indented(
    text: str, word: str, block: str, characters: int
) -> None:
    short, *_ = excerpt(text, characters, lambda piece: 3.0 * (word in piece))
    assert block in short


@pytest.mark.parametrize(
    ("define", "line", "end"),
    [
        ("    async def price_{}(self, order):", "        return order.total_{}", ""),
        ("  private static int price{}(Order order) {{", "    return order.total{};", "  }"),
        ("func (s *Shop) Price{}(o Order) (int, error) {{", "\tif o.Ok {{ return o.Total{}, nil }}", "}"),
        ("export default function price{}(order) {{", "  return order.total{};", "}"),
        ("def 价格_{}(订单):", "    return 订单.合计_{}", ""),
    ],
)
@pytest.mark.parametrize("number", ["", "{:6}\t", "{}→", "{}: "])
def test_a_line_stands_under_the_function_that_it_is_part_of(define: str, line: str, end: str, number: str) -> None:
    lines = [
        part
        for n in range(30)
        for part in (define.format(n), *("        # a step\n" * 3).splitlines(), line.format(n), end)
    ]
    text = "\n".join(number.format(at) + each for at, each in enumerate(lines, 1))
    short, *_ = excerpt(
        text, 500, lambda piece: 5.0 * piece.endswith(line.format(17).strip()) + 0.1 * ("def" not in piece)
    )
    kept = short.split("\n")
    [at] = [i for i, each in enumerate(kept) if each.endswith(line.format(17))]
    assert [each for each in kept[:at] if "rice" in each or "价格" in each][-1].endswith(define.format(17))


@pytest.mark.parametrize(
    ("record", "value"),
    [
        (
            "- server_name: s{0}\n  tool_name: tool_{0}\n  description: '{1}'\n  schema:\n    limit_{0}: number",
            "limit_{0}: number",
        ),
        ("- name: dienst-{0}\n  art: Dienst\n  zweck: {1}\n  spec:\n    kopien: {0}07", "kopien: {0}07"),
        ("- title: 报告{0}\n  url: https://example.org/{0}\n  摘要: {1}\n  页数: {0}03", "页数: {0}03"),
    ],
)
@pytest.mark.parametrize("printed", [False, True])
def test_a_line_stands_under_what_names_its_record(record: str, value: str, printed: bool) -> None:
    text = "\n".join(record.format(n, "so und so " * 6) for n in range(10, 40))
    text = "text='" + text.replace("\n", "\\n") + "\\n', annotations=None" if printed else text
    wanted = [value.format(n) for n in (17, 29)]
    short, *_ = excerpt(text, 500, lambda piece: 5.0 * any(value in piece for value in wanted) + 0.1)
    for n, shown in zip((17, 29), wanted, strict=True):
        above = short[: short.index(shown)].replace("\\n", "\n")
        names = [
            line
            for line in record.format(n, "").split("\n")[:2]
            if "name:" in line or "title:" in line or "url:" in line
        ]
        assert names
        for name in names:
            assert name.strip() in above[above.rindex("- ") :]


@pytest.mark.parametrize(
    ("outer", "inner", "line"),
    [
        (
            "class Shop{}:",
            "    def url(\n        self,\n        x: int,\n    ) -> str:",
            "        return 'https://shop{}.example.org'",
        ),
        ("## System {}", "### Port", "The port is {}01."),
        ("## Anlage {}", "**Verbrauch**", "Im Jahr: {}03 kWh"),
    ],
)
def test_a_line_stands_under_all_that_it_is_part_of(outer: str, inner: str, line: str) -> None:
    lines = [part for n in range(20) for part in (outer.format(n), inner, line.format(n), "")]
    short, *_ = excerpt(
        "\n".join(lines), 300, lambda piece: 5.0 * (piece == line.format(11).strip()) + 0.1 * (n_of(piece) > 15)
    )
    above = short[: short.index(line.format(11))]
    assert above.rindex(outer.format(11)) < above.rindex(inner.split("\n", maxsplit=1)[0])
    assert outer.format(10) not in above[above.rindex(outer.format(11)) :]


def n_of(piece: str) -> int:
    digits = "".join(filter(str.isdigit, piece))
    return int(digits[:2] or 0)


def test_a_comment_or_a_docstring_heads_nothing() -> None:
    text = (
        '## Notes\nfirst\n# Costs\nb = 2\n\ndef f():\n    """Adds.\n\n    **Parameters:**\n    """\n\nx = 77\n'
        + "y\n" * 50
    )
    short, *_ = excerpt(text, 60, lambda piece: 5.0 * (piece in ("b = 2", "x = 77")))
    assert "x = 77" in short
    assert "Parameters" not in short
    assert "Notes" not in short


@pytest.mark.parametrize("heading", ["## Uptake of arm {}", "**Verbrauch in Gruppe {}**", "### 第{}组的结果"])
def test_a_value_stands_under_its_own_heading(heading: str) -> None:
    parts = [f"{heading.format(n)}\nwith transplant: +{n}0 %\nwith sham: -{n} %\n" for n in range(1, 30)]
    short, *_ = excerpt(
        "\n".join(parts), 300, lambda piece: 5.0 * piece.startswith(("with sham: -7", "with sham: -19")) + 0.1
    )
    for n in (7, 19):
        above = short[: short.index(f"with sham: -{n} %")]
        assert above.rfind(heading.format(n)) > above.rfind(heading.format(n - 1))


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("    if key[{}] != digest[{}]:", "        return False\n    else:\n        i += 1\n"),
        ("  PERFORM ABSCHNITT-{}-{}", "    IF FEHLER\n      STOP RUN\n    END-IF"),
        ("步骤{}：检查第{}项", "  如果不对\n    就停下\n  不然继续"),
    ],
)
def test_short_lines_between_those_that_stay_stay_too(head: str, tail: str) -> None:
    heads = [head.format(n, n * 7) for n in range(3, 11)]
    block = "\n".join(f"{line}\n{tail}" for line in heads)
    text = "\n".join(("# a comment about nothing at all" * 3, block, *("nothing else is said here" * 3,) * 9))
    short, *_ = excerpt(text, len(block), lambda piece: 4.0 if piece in map(str.strip, heads) else 0.1)
    assert f"{heads[2]}\n{tail}\n{heads[3]}\n{tail}\n{heads[4]}" in short


@pytest.mark.parametrize(
    "line", ["    value_{0} = table[{0}] or limit", "步骤{0}：检查表格第{0}行", "12:00:{0} job {0} taken"]
)
def test_long_excerpts_have_few_gaps(line: str) -> None:
    lines = [
        line.format(n) if n % 8 < 4 else f"nothing of note in this line, {n * 13 % 97} times" for n in range(100, 900)
    ]
    text, tells = "\n".join(lines), {line.format(n).strip() for n in range(100, 900, 8)}
    short, *_ = excerpt(text, len(text) * 6 // 10, lambda piece: 4.0 if piece in tells else 0.01)
    assert short.count("…") <= 3


@pytest.mark.parametrize(
    "sentence", ["The page of part {0} may not be read by machines. ", "第{0}页不允许机器读取。", "Wort{0} " * 5]
)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_long_part_of_a_printed_string_is_cut_too(sentence: str, depth: int) -> None:
    text: Any = "\n".join("".join(sentence.format(k) for k in range(n, n + 40)) for n in range(1, 200, 40))
    for _ in range(depth):  # answers of tools that are printed, and printed again
        text = json.dumps({"type": "text", "text": text}, ensure_ascii=False, indent=2)
    short, missing, *_ = excerpt(f"[{text!r}]", 900, worth)
    assert 500 < len(short) <= 900
    assert missing > 0


@pytest.mark.parametrize("key", ["text", "内容", "Inhalt"])
def test_a_long_value_of_a_record_is_cut_under_the_name_of_its_record(key: str) -> None:
    said = "Sentence {0} of {1} says something. "
    pages = [{"title": f"Page {p}", key: "".join(said.format(n, p) for n in range(60))} for p in "ABC"]
    short, *_ = excerpt(json.dumps(pages, ensure_ascii=False), 1_500, worth)
    assert len(short) > 1_000
    for found in re.finditer("of ([ABC]) says", short):
        assert re.findall('"title": "Page ([ABC])"', short[: found.start()])[-1] == found[1]


@pytest.mark.parametrize("sign", ["\t", "  ", ":", "→"])
def test_the_number_of_an_empty_line_is_no_line(sign: str) -> None:
    lines = [
        f"{n}{sign}" if n % 4 == 0 else f"{n}{sign}    }}" if n % 4 == 1 else f"{n}{sign}text {n}" for n in range(1, 81)
    ]
    text = "\n".join([*lines, f"81{sign}"])
    short, *_ = excerpt(text, 300, lambda piece: float(any(map(str.isdigit, piece))))
    kept = [line for line in short.split("\n") if line != "…"]
    alone = [i for i, line in enumerate(kept) if "text" not in line]
    # They stay only between two lines that do.
    assert all(0 < i < len(kept) - 1 for i in alone)
    assert "81" not in short


def test_numbers_that_a_program_prints_are_no_line_numbers() -> None:
    short, *_ = excerpt("\n".join(map(str, range(900, 400, -7))), 40, worth)
    assert short.replace("…", "").strip()


def test_what_says_nothing_by_itself_stays_only_beside_what_does() -> None:
    text = "\n".join(f"{n}\tnothing of note in {chr(97 + n % 26) * 3}" for n in range(100))
    short, *_ = excerpt(text, 400, lambda piece: 9.0 * piece.startswith("50\t"))
    numbers = {int(line.split("\t")[0]) for line in short.split("\n") if line != "…"}
    assert {49, 50, 51} <= numbers
    assert all({n - 1, n + 1} & numbers for n in numbers - {0, 99})


def test_no_gap_is_as_short_as_its_mark() -> None:
    text = "\n".join(f"{n}\t" if n % 5 == 0 else f"{n}\tcall {n} of {'x' * (n % 7)}" for n in range(1, 200))
    short, *_ = excerpt(text, 900, lambda piece: float("call" in piece))
    kept = short.split("\n")
    for before, gap, after in zip(kept, kept[1:], kept[2:], strict=False):
        if gap == "…":
            assert int(after.split("\t")[0]) - int(before.split("\t")[0]) > 2


SECTIONS = {
    "fences": "{0}\n```\n{1}\n      # ...\n{2}\n```\n\n",
    "numbers": "{0}\n{1}\n--\n{2}\n\n",
    "tildes": "{0}\n~~~\n{1}\n{2}\n~~~\n",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", SECTIONS)
@pytest.mark.parametrize("name", ["src/pool_{0}.py", "Rechnungen/Kunde {0}.txt", "第{0}章.md"])
def test_lines_of_several_files_stand_under_their_own(kind: str, name: str) -> None:
    names = [name.format(n) for n in range(6)]
    text = "Found 6 files.\n\n"
    for n, file in enumerate(names):
        first, last = (
            "\n".join(f"{at + k:6}\trow {n}-{at + k}: {'pay 7' if k % 5 == n % 5 else 'open'}" for k in range(9))
            for at in (10, 200)
        )
        text += SECTIONS[kind].format(file, first, last)
    for characters in range(120, len(text), 60):
        above = ""
        for line in excerpt(text, characters, lambda piece: 3.0 if "pay" in piece else 0.1).text.split("\n"):
            above = line if line in names else above
            if row := re.search(r"row (\d)-", line):
                assert above == names[int(row[1])]


@pytest.mark.parametrize(
    "summary", ["71 passed. 15 failed. 0 errors.", "Tests: 15 failed, 71 passed", "共 86 项，失败 15 项"]
)
def test_the_last_line_with_a_count_stays(summary: str) -> None:
    words = ("pool", "hook", "Vorrat", "request", "eine", "session", "datei")
    lines = [" ".join(words[(n * k) % 7] for k in range(n % 5 + 5)) + f" {'x' * n}" for n in range(60)]
    text = "\n".join((*lines, summary))
    assert summary in excerpt(text, 300, lambda piece: float(piece == lines[7])).text
    for own in ("duration_ms: 10248", "Wall time: 0.05 seconds", "60\t    return hooks"):
        assert own not in excerpt(f"{text}\n{own}", 300, lambda piece: float(piece == lines[7])).text


@pytest.mark.parametrize(
    "line",
    [
        "11:28:{:02} INFO Parsing session file=/data/{:08x}-{}.jsonl",
        "{:03}.log: Datei a{:x} gelesen am Tag x{}",
        "文件f{}已经读取完毕（编号a{:x}），批次b{}，没有任何错误",
    ],
)
def test_of_lines_that_differ_in_hours_and_ids_a_few_are_shown(line: str) -> None:
    alike = [line.format(n, n * 7919, n + 3) for n in range(40)]
    text = "\n".join(("The test fails, why?", *alike, "FAIL session f805 not found"))
    shown = excerpt(text, len(text) * 9 // 10, lambda piece: 1.0, repeats=False).text
    assert [x for x in alike if x in shown] == [*alike[:2], alike[-1]]
    assert shown.startswith("The test fails, why?")
    assert shown.endswith("FAIL session f805 not found")
    rows = "\n".join(f"Item {n} costs {n * n} EUR" for n in range(400))
    assert len(excerpt(rows, len(rows) * 9 // 10, lambda piece: 1.0, repeats=False).text) > len(rows) * 7 // 10, (
        "figures"
    )


@pytest.mark.parametrize(
    ("heading", "line"),
    [
        ("## Challenge {}: how sessions are stored", "Sessions are kept in notes of branch number {}, one a commit."),
        ("### Ergebnis der Gruppe {}", "Der Verbrauch der Pumpe {} lag bei vierzig Litern am Tag."),
        ("### 第{}组的结果", "水泵{}每天用水四十升，比上周少了两成。"),
    ],
)
@pytest.mark.parametrize("rule", ["", "---\n"])
@pytest.mark.parametrize("part", ["", "\n##### Details\n"])
def test_no_heading_stands_without_a_line_below_it(heading: str, line: str, rule: str, part: str) -> None:
    text = "\n".join(f"{heading.format(n)}\n{part}\n{line.format(n)}\n{rule}" for n in range(1, 12))
    for characters in (130, 200, 300):
        short, *_ = excerpt(text, characters, lambda piece: 0.1 + 0.5 * ("stored" in piece or "果" in piece))
        shown = [piece for piece in short.split("\n") if piece not in ("", "…", "---")]
        headings = {heading.format(n): 1 for n in range(1, 12)} | {"##### Details": 2}
        assert shown
        for above, below in pairwise([*shown, heading.format(1)]):
            assert above not in headings or headings.get(below, 3) > headings[above], short


def test_headings_alone_are_what_a_search_for_headings_found() -> None:
    text = "\n".join(f"## {name} of parts" for name in ("storage", "blame", "rebase", "squash", "notes", "hooks"))
    assert "## squash of parts" in excerpt(text, 40, lambda piece: 0.1 + 5.0 * ("squash" in piece))[0]


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("| Account | Password | Found |", "| user{0} | pass-{0}{0} | by spraying |"),
        ("| Rechnung | Betrag | Stand |", "| R{0} | {0}4,20 EUR | offen |"),
        ("| 航班 | 价格 | 座位 |", "| CA{0} | {0}50元 | 有 |"),
    ],
)
@pytest.mark.parametrize("rule", ["|---|---|---|", "| :-- | :--: | --: |"])
def test_a_row_stands_under_the_head_of_its_table(head: str, row: str, rule: str) -> None:
    wanted = row.format(17)
    rows = map(row.format, range(1, 30))
    text = "\n".join(
        ("There is a table.", "ok\n" * 9, head, rule, *rows, "", "That is all that there is to say.", "ok\n" * 9)
    )
    worths = {wanted: 999.0, "There is a table.": 3.0, head: 0.1, rule: 0.1}
    short, *_ = excerpt(text, len(head) + len(wanted) + 24, lambda piece: worths.get(piece, 0.0))
    assert short.index(head) < short.index(wanted)
    alone, *_ = excerpt(text, 50, lambda piece: 5.0 * piece.startswith("That") + 2.0 * (piece in (head, rule)))
    assert head not in alone
    assert rule not in alone


def test_a_part_of_a_long_row_stands_behind_the_name_of_its_record() -> None:
    rows = (
        f"| {n} | account{n}@example.org | {'Found in a file of the share. ' * 9}Password: pw-{n}. |" for n in range(9)
    )
    text = "\n".join(("| Id | Account | Context |", "|----|----|----|", *rows))
    short, *_ = excerpt(text, 400, lambda piece: 9.0 * ("pw-6" in piece) + 0.01)
    assert short.index("| Id | Account") < short.index("account6@example.org") < short.index("pw-6")


@pytest.mark.parametrize("label", ["Output:", "Args:", "Eingabe:"])
@pytest.mark.parametrize("number", ["", "{:6d}\t", "{}: "])
def test_what_a_tool_puts_above_its_output_is_not_shown_instead_of_it(label: str, number: str) -> None:
    lines = [label, *(f"{c * 9} is what part {c} of the report says" for c in "abcdefghijk")]
    text = "\n".join(number.format(n) + line for n, line in enumerate(lines, 28))
    assert label not in excerpt(text, 70, lambda piece: 0.1)[0]


@pytest.mark.parametrize(
    "words",
    [
        "\n<clipped>This is a part of the file.",
        "\n(noch 40 Zeilen darunter, mit einem Teil der Tabelle)\nWeiter mit dem Befehl für die nächste Seite",
        "\n后面还有四十行没有显示",
        " <clipped><NOTE>Only a part of this file is shown. "
        + "You should search in it before you call this again. " * 3
        + "</NOTE>",
    ],
)
def test_what_a_tool_says_below_a_file_stays(words: str) -> None:
    names = [f"{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(200)]
    text = "\n".join(f"{n:6}\t{name * 3} = {name}[{n * 7}]" for n, name in enumerate(names, 1)) + words
    short, *_ = excerpt(text, len(text) // 8, lambda piece: 6.0 if "1" in piece else 0.1)
    assert short.endswith(words.strip())


@pytest.mark.parametrize(
    "hit",
    [
        "- server: {name}\n  tool: {name}_file\n  what: It {name}s a file of the project, as a whole",
        "{n}. [{name} und mehr](https://example.org/{name})\n   Seite {n} über {name}, mit Beispielen\n   Stand: heute",
        "{n}) {name}：第{n}个结果\n   关于{name}的网页，有例子\n   更新：今天",
    ],
)
def test_the_first_hit_of_a_search_stays(hit: str) -> None:
    names = ["write", "append", "patch", "stage", "commit", "clone", "merge", "fetch", "tag"]
    hits = [hit.format(n=n, name=name) for n, name in enumerate(names, 1)]
    text = "\n".join(["ok: true", "found:", *hits, "that is all"])
    short, *_ = excerpt(text, len(text) // 3, lambda piece: 2.0 if any(n in piece for n in names[4:]) else 0.5)
    assert "write" in short


@pytest.mark.parametrize(
    ("line", "below"),
    [
        ("The drug has shown promise in animals. However, two double-blind,", "sham-controlled trials found no effect"),
        (
            "Das Mittel half den Mäusen sehr, aber bei den Menschen,",
            "die es ein Jahr nahmen, war nichts davon zu sehen",
        ),
        ("Le remède a aidé les souris. Mais dans deux essais,", "on n'a vu aucun effet chez les malades"),
    ],
)
def test_a_sentence_does_not_end_at_the_comma_of_its_line(line: str, below: str) -> None:
    filler = [f"{chr(97 + n) * 12} is what part {n} of the page says about it." for n in range(24)]
    text = "\n".join([*filler[:12], line, below, *filler[12:]])
    short, *_ = excerpt(text, len(text) // 4, lambda piece: 6.0 if piece == line else 0.1 if piece == below else 4.0)
    assert f"{line}\n{below}" in short


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("Summary:", "Both trials found no effect on the disease, but harm to some of the patients."),
        ("## Fazit", "Beide Studien fanden keine Wirkung, aber Schäden bei einigen der Kranken."),
        ("**结论：**", "两项研究都没有发现疗效，但有些病人受到了伤害。"),
    ],
)
def test_what_a_text_sums_itself_up_with_stays(head: str, said: str) -> None:
    filler = [f"{chr(97 + n) * 12} is what part {n} of the page says about it." for n in range(24)]
    text = "\n".join([*filler[:16], head, said, "=======", *filler[16:]])
    worths = {said: 0.3, **dict.fromkeys(filler, 0.6)}
    assert said in excerpt(text, len(text) // 4, lambda piece: worths.get(piece, 0.0))[0]


@pytest.mark.parametrize(
    ("opening", "below"),
    [
        ("    except OSError_{n}:", "        retry_{n}()"),
        ("import (", '    "os_{n}"'),
        ("Anlage {n}:", "  Rechnung {n} von Maier"),
        ("第{n}步（", "    检查第{n}项"),
    ],
)
@pytest.mark.parametrize("number", ["", "{:6d}\t"])
def test_a_line_that_only_opens_what_follows_stands_with_it(opening: str, below: str, number: str) -> None:
    block = [line.format(n=n) for n in range(10) for line in (opening, below, f"{' ' * 8}{chr(97 + n) * 30}")]
    text = "\n".join(number.format(n) + line for n, line in enumerate(block, 1))
    openings = {block[i].strip() for i in range(0, 30, 3)}
    short, *_ = excerpt(text, len(text) // 3, lambda piece: 3.0 if without_number(piece) in openings else 0.1)
    lines = [without_number(line) for line in short.split("\n")]
    assert openings & {*lines}
    first = {line.strip() for line in block[2::3]}  # below a gap, it stands above another line of its own block
    shown = pairwise(pairwise([*lines, "…", "…"]))
    assert not any(line in openings and gap == "…" and below not in first for (line, gap), (_, below) in shown)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(
    "line",
    ["{}: /reviews/search{}?", "{}: Konto {} der Buchhaltung", "{}：订单 {} 的退款"],
    ids=["robots", "accounts", "refunds"],
)
def test_a_line_of_a_printed_string_is_not_torn_from_its_first_word(line: str, depth: int) -> None:
    """Also of JSON that is printed within another."""
    lines = [line.format("Deny" if n % 3 else "Allow", n) for n in range(200)]
    text = "\n".join(lines)
    for _ in range(depth):
        text = json.dumps({"page": [{"text": text}]}, ensure_ascii=False)
    for wanted in (31, 92, 93, 160):
        short, *_ = excerpt(text, 700, lambda piece, wanted=wanted: 9.0 * (f"{wanted}" in piece) + 0.01)
        shown = re.split(r"\\+n|\n\s*|\s?…\s?|\\*\"", short)
        whole = {part for part in shown if ":" in part or "：" in part or "/" in part}
        assert {part for part in whole if part.startswith(("Deny", "Allow"))} <= {*lines}, whole
        assert lines[wanted] in whole


@pytest.mark.parametrize("head", ["Summary: ", "Zusammenfassung:", "总结："])
def test_what_a_page_is_summed_up_with_stands_below_its_own_line(head: str) -> None:
    """Not below the last heading of the page itself."""
    text = f"## Results\n40 patients were seen.\n### Trials\nNone.\n{head}\nIt tells of two trials.\nUlm."
    found = pieces(text)
    named = [found[parent].said for parent in parents(text, found)[-2:]]
    assert named == [head.strip(), head.strip()]


@pytest.mark.parametrize(
    ("title", "body", "sentence"),
    [
        ("title", "snippet", "The founders of part {} met in {}. "),
        ("Titel", "Auszug", "Im Jahr {1} kam Teil {0} dazu. "),
        ("标题", "摘要", "第{}部分成立于{}年。"),
    ],
)
def test_a_sentence_of_a_long_field_of_indented_json_stands_under_its_record(
    title: str, body: str, sentence: str
) -> None:
    """Two hits of a search: what is said of one never stands below the name of the other."""
    hits = [
        {
            title: f"{name} 7",
            "url": f"https://{name}.example",
            body: "".join(sentence.format(k, 1_000 * n + k) for k in range(40)),
        }
        for n, name in enumerate(("alpha", "beta", "gamma"), start=1)
    ]
    text = json.dumps(hits, ensure_ascii=False, indent=2)
    for wanted in (1_030, 2_030, 3_030):
        short, *_ = excerpt(
            text, 500, lambda piece, wanted=wanted: 9.0 * (f"{wanted}" in piece) + 0.01 * ("url" in piece)
        )
        before = short[: short.index(f"{wanted}")]
        name = ("alpha", "beta", "gamma")[wanted // 1_000 - 1]
        assert re.findall(r"(\w+) 7", before)[-1] == name, short


@pytest.mark.parametrize("printed", [False, True])
def test_a_part_of_a_long_value_stands_under_the_name_of_its_record(printed: bool) -> None:
    """Its parts begin in the middle of a line: they do not end the record."""
    tools = [
        f"- server: desk\n  tool_name: tool_{n}\n"
        f'  description: "{"It does what its name says for the part. " * 9}Last words {n}."\n'
        f"  schema:\n    pid: number of {n}\n"
        for n in range(8)
    ]
    text = "".join(tools)
    wanted = "Last words 5."
    short, *_ = excerpt(repr(text) if printed else text, 420, lambda piece: 9.0 * (wanted in piece) + 0.01)
    assert "tool_5" in short[: short.index(wanted)]
    assert short[: short.index(wanted)].rfind("tool_") == short.index("tool_5")


@pytest.mark.parametrize(
    ("good", "bad"), [("✓ PASS", "✗ FAIL"), ("in Ordnung", "fehlgeschlagen"), ("通过", "失败"), ("ok.", "Not found.")]
)
def test_what_failed_stands_above_the_line_that_says_so(good: str, bad: str) -> None:
    cases = [f"price('tea {n}') = {n}\nexpects {n} or more\n{bad if n in (5, 11, 20) else good}\n" for n in range(30)]
    short = excerpt("\n".join(cases), 240, lambda piece: 5.0 * (piece == bad) + 0.01).text
    for n in (5, 11, 20):
        assert cases[n].strip() in short
    code = "\n".join(f"value_{n} = load({n})\ncheck(value_{n})" for n in range(30)) + "\n  cancel(\n  )\n"
    found = pieces(code)
    assert parents(code, found)[-2] == -1, "a line of code says nothing about those above it"


@pytest.mark.parametrize(
    ("who", "what"),
    [
        ("Backup Operators", "may override the locks of files"),
        ("Frau Lindner", "übernimmt ab Mai die Abrechnung"),
        ("sansa.stark", "can delegate to KINGSLANDING$"),
    ],
)
def test_what_goes_on_between_words_stays_with_whom_it_is_about(who: str, what: str) -> None:
    filler = " ".join(["plain"] * 20)
    lines = [f"{who} {n} {filler} {what} {n} of {n * n} {filler}" for n in range(10, 21)]
    short = excerpt("\n".join(lines), 500, lambda piece: 9.0 * (what in piece)).text
    assert any(f"{who} {n} {filler} {what}" in short for n in range(10, 21)), "not three ends of three lines"


@pytest.mark.parametrize(("passed", "failed"), [("Passed", "Failed"), ("in Ordnung", "fehlgeschlagen")])
def test_what_failed_does_not_stand_under_the_case_that_passed_above_it(passed: str, failed: str) -> None:
    text = f"login\n{passed}\nexport\n{failed}\nshare\n{passed}"
    found = pieces(text)
    said = [text[p.start : p.stop] for p in found]
    assert parents(text, found)[said.index(failed)] in (-1, said.index("export"))


@pytest.mark.parametrize("room", [240, 320, 500, 800])
@pytest.mark.parametrize("token", ["x" * 900, " ".join(["plain"] * 150)])
def test_what_tells_most_stays_though_what_it_goes_on_from_has_no_room(room: int, token: str) -> None:
    text = f"first line\nPOST /orders with {token} returned 401 Unauthorized for order 77 of today\nlast line"
    assert "401 Unauthorized" in excerpt(text, room, lambda piece: 9.0 * ("401" in piece)).text


PRINTED = {
    "files": ("--- envs/{0}/billing.yaml", ["size: m{0}", "subnet: 10.{0}.3.0/24", "", "  HEAP_MB: {0}76"], "\n"),
    "cat": ("==> mesures/T{0}.csv <==", ["t_min,A", "{0},0.05{0}", "5{0},0.1{0}"], "\n\n"),
    "posts": (
        "From: kunde{0}@example.org",
        ["Date: {0} Sep", "", "Die Ware {0} ist defekt.", "", "Gruß, K{0}"],
        "\n\n",
    ),
    "records": ("dn: CN=user{0}", ["memberOf: G{0}", "badPwdCount: {0}"], "\n\n"),
    "folders": ("src/p{0}:", ["a{0}.c", "b{0}.c", "c{0}.h"], "\n\n"),
    "收据": ("=== 收据 {0} ===", ["供应商：第{0}家", "金额：{0}00 元"], "\n"),
    "sections": ("[hafen-{0}]", ["# Rechner {0}", "db_host = db{0}.internal", "", "zeit_{0} = 30"], "\n"),
    "record by record": ("-[ RECORD {0} ]-+------", ["name_{0}  | Ana Weber {0}", "fehler_{0} | Karte gesperrt"], "\n"),
    "rows": ("********* {0}. row *********", ["name: Ana Weber {0}", "state: card {0} expired"], "\n"),
    "tasks": ("TASK [db {0} : restart] ********", ["ok: [app-{0}]", "fatal: [db-{0}]: FAILED! => timeout"], "\n\n"),
    "described": (
        "Name:         web-{0}",
        ["Node:         n{0}", "Limits:", "  memory:  {0}Mi", "  cpu:  {0}"],
        "\n\n",
    ),
    "objects": ("apiVersion: v{0}", ["kind: K{0}", "metadata:", "  name: web-{0}", "  uid: u{0}"], "\n---\n"),
}


@pytest.mark.parametrize(("head", "body", "between"), PRINTED.values(), ids=PRINTED)
@given(st.lists(st.integers(0, 9), min_size=48, max_size=48), st.integers(80, 500))
def test_a_line_stands_below_the_file_or_record_that_it_is_from(
    head: str, body: list[str], between: str, worths: list[int], characters: int
) -> None:
    heads = [head.format(n) for n in range(10, 18)]
    documents = [[h, *(line.format(n) for line in body)] for n, h in enumerate(heads, 10)]
    text = between.join("\n".join(lines) for lines in documents)
    worth_of = dict(zip(text.split("\n"), [*worths, *worths], strict=False))
    short = excerpt(text, characters, lambda piece: float(worth_of.get(piece, 0)))
    of = {line.strip(): lines[0] for lines in documents for line in lines if text.count(line) == 1}
    above = ""
    for line in map(str.strip, short.text.split("\n")):
        above = line if line in heads else above
        assert of.get(line, above) == above


NESTED = {
    "services": """  s{0}:
    image: s:{0}
    env:
      LOG: l{0}
      PORT: 8{0}
    limits:
      memory: {0}Mi""",
    "containers": """- kind: Pod{0}
  spec:
    list:
    - name: c{0}
      env:
      - name: E{0}
        value: v{0}
      limits:
        memory: {0}Mi
    node: n{0}""",
    "Anlagen": """Anlage {0}:
  Halle {0}:
    Pumpe: P{0}
    Druck:
      Soll: {0} bar
      Ist: {0}5 bar
  Leiter: L{0}""",
    "blocks": """resource "db" "r{0}" {{
  size = "m{0}"
  network {{
    ip = "10.{0}.0.1"
    rule {{
      port = {0}
    }}
  }}
  tags {{
    owner = "o{0}"
  }}
}}""",
    "门店": """门店{0}：
  地址: 第{0}街
  库存：
    茶: {0}0
    米: {0}5
  店长: 王{0}""",
}


@pytest.mark.parametrize("form", NESTED.values(), ids=NESTED)
@pytest.mark.parametrize("number", ["", "{:6}\t"])
@given(st.lists(st.integers(0, 9), min_size=96, max_size=96), st.integers(80, 700))
def test_a_line_stands_below_the_keys_that_it_stands_below_by_indentation(
    form: str, number: str, worths: list[int], characters: int
) -> None:
    lines = "\n".join(form.format(n) for n in range(10, 18)).split("\n")
    worth_of = dict(zip(map(str.strip, lines), worths, strict=False))
    text = "\n".join(number.format(n) + line for n, line in enumerate(lines, 1))
    short = excerpt(text, characters, lambda piece: float(worth_of.get(without_number(piece), 0))).text
    of = dict(keys_above(text))
    for line, keys in keys_above(short):
        assert len([each for each in lines if each.strip() == line]) > 1 or keys == of[line]


def keys_above(text: str) -> list[tuple[str, list[str]]]:
    """Each line, and those that it is below by indentation."""
    found: list[tuple[str, list[str]]] = []
    open_: list[tuple[int, str]] = []
    for line in text.split("\n"):
        own = re.sub(r"^ *\d+\t", "", line)
        if (said := own.strip()) not in ("", "}", "…"):
            depth = len(own) - len(own.lstrip()) + said.startswith("- ")
            open_ = [(indent, key) for indent, key in open_ if indent < depth]
            found.append((said, [key for _, key in open_]))
            open_.append((depth, said))
    return found


@pytest.mark.parametrize("section", ["[hafen-{}]", "[[bin.{}]]", '[remote "r{}"]'])
@pytest.mark.parametrize("number", ["{:6}\t", "{}→", "{}:"])
def test_a_setting_of_a_file_with_line_numbers_stands_below_its_section(section: str, number: str) -> None:
    lines = [part for n in range(20) for part in (section.format(n), "# a comment", f"host = db-{n}", "read_only = no")]
    text = "\n".join(number.format(n) + line for n, line in enumerate(lines, 1))
    short, *_ = excerpt(text, 200, lambda piece: 5.0 * piece.endswith(("db-7", "db-13")) + 0.1)
    for n in (7, 13):
        above = short[: short.index(f"host = db-{n}")].split("\n")
        assert [without_number(line) for line in above if "[" in line][-1] == section.format(n)


def test_a_value_that_is_hidden_names_nothing() -> None:
    text = "\n".join(f"user = u{n}\npassword {sign} ********" for n in range(9) for sign in ":=")
    found = pieces(text)
    assert documents(found)[0] == {}


@pytest.mark.parametrize(
    ("head", "row", "end"),
    [
        (" id | betrag | freigabe\n----+--------+----------", " {0} | {0}4,20 | {1}", "(29 rows)"),
        ("+----+-------+\n| id | state |\n+----+-------+", "| {0} | {1}  |", "+----+-------+\n29 rows in set"),
        ("Name      Id  State\n----      --  -----", "svc-{1}    {0}  Stopped", ""),
        ("  账号 | 余额\n ======+======", "  {1} | {0}00", "共 29 行"),
    ],
)
def test_a_row_stands_under_its_columns_in_tables_of_any_tool(head: str, row: str, end: str) -> None:
    columns = max(head.split("\n"), key=lambda line: sum(map(str.isalpha, line)))
    rows = [row.format(n, "".join(chr(97 + n * k % 26) for k in (3, 5, 7))) for n in range(1, 30)]
    text = "\n".join(["ok\n" * 9, head, *rows, end, "", "The end.\n" + "ok\n" * 9])
    worths = {rows[17].strip(): 9.0, "The end.": 2.0}
    short, *_ = excerpt(text, 100, lambda piece: worths.get(piece, 0.0))
    assert short.index(columns.strip()) < short.index(rows[17].strip())
    alone, *_ = excerpt(text, 60, lambda piece: float(piece in ("The end.", columns.strip())))
    assert f"{columns}\n…\nThe end." not in alone


def test_a_head_within_a_file_stands_below_that_of_the_file() -> None:
    mails = [f"=== caixa/{n}.txt\nOlá, sou o cliente {n}.\n--- ANEXO {n}\nTOTAL {n},50 EUR" for n in range(10, 16)]
    short = excerpt("\n".join(mails), 200, lambda piece: 9.0 * ("TOTAL 13" in piece) + 0.01)
    lines = [line for line in short.text.split("\n") if "13" in line]
    assert lines[0] == "=== caixa/13.txt"
    assert lines[-2:] == ["--- ANEXO 13", "TOTAL 13,50 EUR"]


ATTACHED = {
    "correio": ("=== caixa/{0}.txt", "--- ANEXO: talao-{0}.pdf ---", "--- FIM DO ANEXO ---"),
    "post": ("==> post/{0}.eml <==", "-----BEGIN BELEG {0}-----", "-----ENDE DES BELEGS-----"),
    "邮件": ("=== 邮件 {0} ===", "--- 附件 {0} ---", "--- 附件结束 ---"),
}


@pytest.mark.parametrize(("mail", "begin", "end"), ATTACHED.values(), ids=ATTACHED)
def test_a_line_that_ends_each_file_is_the_head_of_none(mail: str, begin: str, end: str) -> None:
    items = [f"item {k} of a long list of things" for k in range(8)]
    mails = [
        "\n".join(
            (
                mail.format(n),
                begin.format(n),
                *items,
                f"TOTAL {n},50 EUR",
                end,
                *items,
                f"Regards from town {n}.",
            )
        )
        for n in range(10, 16)
    ]
    text, heads = "\n".join(mails), [mail.format(n) for n in range(10, 16)]
    short = excerpt(text, 200, lambda piece: 9.0 * ("town 13" in piece) + 0.01)
    lines = short.text.split("\n")
    assert [line for line in lines[: lines.index("Regards from town 13.")] if line in heads][-1] == mail.format(13)
    assert f"…\n{end}" not in short.text
    total = excerpt(text, 200, lambda piece: 9.0 * ("TOTAL 13" in piece) + 0.01).text.split("\n")
    above = [line for line in total[: total.index("TOTAL 13,50 EUR")] if line not in (*items, "…")]
    assert above[-2:] == [mail.format(13), begin.format(13)]


@pytest.mark.parametrize("head", ["--- envs/{}.hcl", "==> mesures/T{}.csv <==", "=== 收据 {} ==="])
def test_the_name_of_a_file_stands_only_above_a_part_of_it(head: str) -> None:
    heads = [head.format(n) for n in range(10, 18)]
    files = {h: [f"line {k} of {h}, with much that is not needed: {'x' * 40}" for k in range(5)] for h in heads}
    text = "\n".join("\n".join((h, *lines)) for h, lines in files.items())
    short = excerpt(text, 240, lambda piece: 5.0 if piece in heads else 0.5).text
    lines = [line for line in short.split("\n") if line != "…"]
    assert {*heads} & {*lines}
    assert all(below in files[above] for above, below in pairwise([*lines, ""]) if above in heads)


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("==> {}.ini <==", ["app", "db", "app", "web"]),
        ("From: {}@example.org", ["ann", "bob", "ann", "bob"]),
        ("=== 收据 {} ===", ["甲", "乙", "甲", "丙"]),
    ],
)
def test_a_file_that_is_printed_twice_has_its_head_both_times(head: str, names: list[str]) -> None:
    heads = [head.format(name) for name in names]
    files = [f"{h}\nName: {n}\n" + f"line of {n}\n" * 8 + f"timeout = {n}5" for n, h in enumerate(heads)]
    for n, h in enumerate(heads):
        short = excerpt("\n\n".join(files), 150, lambda piece, n=n: 9.0 * (piece == f"timeout = {n}5") + 0.01).text
        above = short[: short.index(f"timeout = {n}5")].split("\n")
        assert [line for line in above if line in heads][-1] == h


@pytest.mark.parametrize("line", ["=== 212 passed, 3 skipped in 4.1s ===", "--- 12 Zeilen gelesen ---"])
def test_a_count_between_signs_stays_though_more_was_printed_below(line: str) -> None:
    lines = ["=== run of unit tests ===", *(f"tests/test_{n}.py ..." for n in range(20)), line, *("done",) * 12]
    assert line in excerpt("\n".join(lines), 150, lambda piece: 5.0 * (piece == line) + 0.01).text


def test_a_failed_test_is_told_by_its_own_line() -> None:
    text = "\n".join(f"--- {'FAIL' if n == 7 else 'PASS'}: TestPool{n} (0.0{n}s)" for n in range(10))
    assert "--- FAIL: TestPool7 (0.07s)" in excerpt(text, 60, lambda piece: 9.0 * ("FAIL" in piece) + 0.01).text


@pytest.mark.parametrize(
    "text", ["Note: a\n\nMore of it.\n\nNote: b\n\nThe end of it.", "a\n---\nb\n---\nc", "k: v\nl: w"]
)
def test_other_lines_name_no_file(text: str) -> None:
    found = pieces(text)
    assert documents(found)[0] == {}


@pytest.mark.parametrize(
    ("head", "frame", "body"),
    [
        (
            "===== notice-{}.html",
            [
                "- Home\n- Prices 2026\n- Offers\n- Notices",
                "The shop | 41 Canal Street | no. 614-22-08173 | 10:00 to 19:00",
            ],
            "Rebate of {} % until 11 December.",
        ),
        (
            "--- {}.txt ---",
            [
                "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nX-Spam-Score: 1.0",
                "Gesendet von meinem Gerät 7",
            ],
            "Die Ware {} ist defekt.",
        ),
        (
            "==> {} <==",
            [
                "- 首页\n- 价格表 2026\n- 活动\n- 公告与常见问题",
                "车铺 | 水街 41 号 | 登记号 614-22-08173 | 营业时间 10:00 至 19:00",
            ],
            "补贴 {} 元，截止 12 月 11 日。",
        ),
    ],
)
def test_what_all_files_have_gives_way_to_what_each_says(head: str, frame: list[str], body: str) -> None:
    files = [[head.format(n), frame[0], body.format(10 * n + 7), frame[1]] for n in range(1, 9)]
    said = [lines[2] for lines in files]
    text = "\n".join(line for lines in files for line in lines)
    size = sum(len(lines[0]) + len(lines[2]) + 18 for lines in files)
    short = excerpt(text, size, worth)
    assert sum(line in short.text for line in said) >= 5


@pytest.mark.parametrize(("share", "is_frame"), [(5, False), (6, True), (10, True)])
def test_a_value_that_half_of_the_files_have_says_something_of_each(share: int, is_frame: bool) -> None:
    files = [f"--- {n}.yaml\nname: x{n}\nreplicas: {2 if n < share else n + 7}\n}}" for n in range(10)]
    text = "\n".join(files)
    found = pieces(text)
    framing = {found[i].said for i in frames(found, documents(found)[0])}
    assert framing == ({"replicas: 2"} if is_frame else set())


@pytest.mark.parametrize(
    ("about", "title", "rows"),
    [
        ("policy_number", "Inspection history", "{n} October 20{n}   Pass   3{n},204   -"),
        ("Kunde", "Protokoll der Prüfung", "{n}. Mai 20{n}   bestanden   3{n}.204 km"),
        ("保单", "检测记录", "20{n}年{n}月   合格   {n}3204 公里"),
    ],
)
def test_of_a_document_in_a_record_its_text_stays_before_fields_that_hold_nothing(
    about: str, title: str, rows: str
) -> None:
    text = "\n".join(rows.format(n=n) for n in range(11, 19))
    record = {
        "id": "DOC-51103",
        "title": title,
        about: None,
        "kind": None,
        "note": "",
        "pages": [{"page": 1, "text": text}],
    }

    def worth(piece: str) -> float:
        return 0.0 if piece.endswith(('""', "null")) else 0.3

    shown = excerpt(json.dumps(record, ensure_ascii=False), 240, worth).text
    assert "null" not in shown
    assert sum(rows.format(n=n) in shown for n in range(11, 19)) >= 2


@pytest.mark.parametrize("odd", ["aborted by the operator", "vom Bediener abgebrochen", "操作员已中止"])
def test_the_line_that_is_like_no_other_stays_in_a_record_too(odd: str) -> None:
    lines = [f"row {n} read and stored in the table" for n in range(120)]
    lines.insert(70, odd)

    def worth(piece: str) -> float:
        return 1.0 * any(map(str.isdigit, piece))

    for text in ("\n".join(lines), json.dumps({"status": 1, "output": "\n".join(lines)}, ensure_ascii=False)):
        assert odd in excerpt(text, 600, worth).text


@pytest.mark.slow
def test_the_pieces_of_a_long_text_are_not_kept() -> None:
    short, long = "\n".join(map(str, range(2_000))), "\n".join(map(str, range(20_000)))
    assert pieces(short) is pieces(short)
    assert pieces(long) == pieces(long)
    assert pieces(long) is not pieces(long)
