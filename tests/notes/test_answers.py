"""What came back: what the structure says, and the words that tell it. Nothing judges."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.messages import ToolResultBlock
from autocontext.notes.answers import Answer, answer_of, came_back, quoted, telling
from autocontext.text.signs import ERROR, WORDS_OF_ERRORS


def told(text: str, *, is_error: bool = False, characters: int = 160, call: str = "", looks: bool = False) -> str:
    answer = answer_of(ToolResultBlock(id="a", output=text, is_error=is_error))
    return came_back(telling(text, answer, used=lambda _: 0.0, call=call, looks=looks), answer, characters)


@pytest.mark.parametrize(
    ("text", "status", "empty"),
    [
        ("", "", True),
        ("[]", "", True),
        ('{"results": [], "count": 0}', "", True),
        ("<output></output>\n<returncode>0</returncode>", "", True),
        ("<returncode>1</returncode>\n<output>\n</output>", "exit 1", True),
        ("Traceback (most recent call last):\nKeyError: 'id'\nexit code: 1", "exit 1", False),
        ('{"exit_code": 2, "stdout": "no such file"}', "exit 2", False),
        ("HTTP/1.1 404 Not Found\n\nGone.", "HTTP 404", False),
        ('{"error": "仓库已接单"}', "error", False),
        ("Order A1 was cancelled by the user on May 3", "", False),
        ("Forbidden Planet (1956)", "", False),
        ('{"status": "rejected"}', "", False),
        ("The page explains exit code 1 of grep.", "", False),
        ("Keine Treffer.", "", False),
    ],
)
def test_a_status_is_what_the_structure_says(text: str, status: str, empty: bool) -> None:
    assert answer_of(ToolResultBlock(id="a", output=text)) == Answer(status, empty)
    assert answer_of(ToolResultBlock(id="a", output=text, is_error=True)).status in (status, "error")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Order A1 was cancelled by the user on May 3", '"Order A1 was cancelled by the user on May 3"'),
        ("Forbidden Planet (1956)", '"Forbidden Planet (1956)"'),
        ('{"status": "rejected"}', '""status": "rejected""'),
        ("344\nbash-$", '"344 bash-$"'),
        ("3 rows\nuser@host:~$ ", '"3 rows"'),
        ("", "nothing"),
        ("<returncode>1</returncode>\n<output>\n</output>", "exit 1, nothing"),
    ],
)
def test_short_answers_are_quoted_whole(text: str, words: str) -> None:
    assert told(text) == words


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ERROR:\nNo module named pytest\n</output>\nexit code: 1", "No module named pytest"),
        ("x = 1\nTraceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'id'", "KeyError: 'id'"),
        ("string not found in src/auth.py\n</error>", "string not found in src/auth.py"),
        ("Lade Daten\nFehler: Die Rechnung 4711 ist gesperrt\n[exit code: 1]", "Die Rechnung 4711 ist gesperrt"),
        ("正在提交\n错误：仓库已接单，不能修改规格\n", "错误：仓库已接单，不能修改规格"),
        ('{"code": 17, "data": {"a": [1, 2]}, "message": "No seat left on ICE 71"}', "No seat left on ICE 71"),
        ("Downloading ━━━━━━━━━━━━━━━━ 100% 0:00:00\nHash mismatch for wheel 2.1", "Hash mismatch for wheel 2.1"),
        ("Zamówienie 77 zostało odrzucone\n```", "Zamówienie 77 zostało odrzucone"),
    ],
)
def test_the_words_are_the_line_with_the_reason(text: str, reason: str) -> None:
    assert reason in told(text, is_error=True, characters=90)


def test_an_echo_of_the_call_is_no_answer() -> None:
    assert told("pytest -q tests\n3 passed", call="bash pytest -q tests", characters=20) == '"3 passed"'


@pytest.mark.parametrize(("language", "words"), WORDS_OF_ERRORS.items())
def test_each_language_finds_its_own_words(language: str, words: str) -> None:
    example = {
        "en": "Permission denied", "zh": "操作失败", "ja": "見つかりません", "ko": "오류가 있습니다", "de": "Fehler 3",
        "fr": "introuvable", "es": "no se pudo abrir", "pt": "o envio falhou", "it": "non trovato", "ru": "ошибка 5",
    }[language]  # fmt: skip
    assert words
    assert ERROR.search(example)


@given(st.text(max_size=3_000), st.booleans(), st.integers(20, 200))
def test_every_quoted_piece_stands_in_the_answer(text: str, is_error: bool, characters: int) -> None:
    words = told(text, is_error=is_error, characters=characters)
    assert "\n" not in words
    if '"' in words and "…" not in text:
        inside = words[words.index('"') + 1 : words.rindex('"')].replace('\\"', '"')
        flat = "".join("".join(ch if ch.isprintable() else " " for ch in text).split())
        for piece in inside.split("…"):
            assert "".join(piece.split()) in flat.replace("<!--CONTEXT_OFFLOAD", "<!CONTEXT_OFFLOAD"), piece


@given(st.text(st.sampled_from('a" ->\\x'), max_size=40))
def test_no_text_ends_its_own_quotation(text: str) -> None:
    inside = quoted(text)[1:-1]
    assert '" ->' not in inside.replace('\\"', "")
    assert re.sub(r'\\"(?=\s*->)', '"', inside) == text
