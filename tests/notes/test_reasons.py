"""The agent's words in a note: reasons, findings and plans first."""

import pytest

from autocontext.testing import assistant, tool_exchange, user
from tests.notes.pages import page


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("filler", "finding"),
    [
        ("I am glad to help you with all of that today.", "Order W5565470 was shipped twice because of the retry."),
        ("Das mache ich gern für Sie, einen Moment bitte.", "Der Auftrag A-118 fehlt, weil der Import abbrach."),
        ("Con mucho gusto le ayudo con su pedido ahora.", "El pedido P-77 no llegó porque cambió la dirección."),
    ],
)
def test_what_names_nothing_and_gives_no_reason_comes_last_and_is_not_lost(filler: str, finding: str) -> None:
    messages = [user("What happened?")]
    for n in range(12):
        said = filler.replace(" ", f" {'i' * n} ", 1) if n < 6 else f"{finding} {'A' * n}"
        messages += [assistant(said), *tool_exchange("get_log", {"day": n}, f"{n} rows")]
    pages = [page(messages, budget) for budget in range(100, 2_400, 20)]
    for text in pages:
        if any(f"m{2 + 3 * n}: " in text for n in range(6)):
            assert text.count(finding) >= 5, "findings gave way"  # the longest may not fit where a shorter filler does
    assert all(f"m{2 + 3 * n}: " in pages[-1] for n in range(12))


@pytest.mark.parametrize(
    "sentences",
    [
        ["The pool leaks because it never closes.", "Also, A-118 must be opened first, since B needs it."],
        ["Zuerst fehlt der Import, weil A-7 abbrach.", "Also muss A-9 danach laufen, weil B-2 ihn braucht."],
        ["首先，订单A-118缺失，因为导入失败了。", "其次，A-119必须先打开，因为B-2需要它。"],
    ],
)
def test_sentences_of_a_message_stand_in_its_order(sentences: list[str]) -> None:
    for said in (sentences, sentences[::-1]):
        messages = [user("What happened?"), assistant("\n".join(said)), *tool_exchange("get_log", {"day": 1}, "2 rows")]
        text = page(messages, 4_000)
        assert text.index(said[0]) < text.index(said[1])
