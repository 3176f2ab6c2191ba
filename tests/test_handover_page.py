"""The note on docs/handover.md is that which the library writes."""

import pytest

from scripts.build_handover_page import PAGE, built, conversation, notes

pytestmark = pytest.mark.repo


def test_the_page_shows_what_the_library_writes() -> None:
    assert built(PAGE.read_text()) == PAGE.read_text(), "run scripts/build_handover_page.py"


def test_a_limit_that_the_user_gave_in_chinese_stays_word_for_word() -> None:
    messages = conversation("tests/data/handover_zh.jsonl", "zh-orders")
    limit = "可以，取消重下，但是不要超过100元。"
    assert limit in {m.text for m in messages}
    assert limit in notes(messages, 1_000)
