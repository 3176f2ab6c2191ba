"""The user's words inside a tool's result: only the caller can say that they are, and then they count as the user's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.errors import InvalidMessage
from autocontext.formats.provider_messages import marked_words
from autocontext.messages import is_note, said_in, words_of_user
from autocontext.notes.page import SAID, PageRequest, render
from autocontext.notes.work import WorkLedger
from autocontext.testing import assert_valid_chat, tool_exchange, user
from autocontext.tokens import get_counter

WORDS = "Do not touch the billing module, Ann is working on it."
COUNTED: dict[str, Any] = {"token_counter": "bytes4"}
CLAUDE = (
    "<system-reminder>\nThe user sent a new message while you were working:\n{}\n\nIMPORTANT: After completing your "
    "current task, you MUST address the user's message above. Do not ignore it.\n</system-reminder>"
)
LATER = (
    "The user sent a new message while you were working:\n{}\n\nThis is how Claude Code surfaces messages the user "
    "sends mid-turn."
)
SHORT = "<system-reminder>\nThe user sent a new message while you were working:\n{}\n</system-reminder>"
OPENCODE = (
    "<system-reminder>\nThe user sent the following message:\n{}\n\nPlease address this message and continue with your "
    "tasks.\n</system-reminder>"
)
HERMES = "[OUT-OF-BAND USER MESSAGE — a direct message from the user]\n{}\n[/OUT-OF-BAND USER MESSAGE]"


def coding(n: int) -> list[Msg]:
    return tool_exchange("Read", {"file_path": f"/srv/part_{n}.py"}, f"def f_{n}(x):\n    return x * {n}\n" * 30)


def shop(n: int) -> list[Msg]:
    return tool_exchange("get_order", {"id": f"W{n}"}, f'{{"id": "W{n}", "note": "{"Lieferung " * 60}"}}')


def web(n: int) -> list[Msg]:
    return tool_exchange("visit", {"url": f"https://example.org/{n}"}, f"第{n}页 价格 {n} 元。" * 60)


def steered(result: str, said_by_user: str | bool, window: int, *work: list[Msg]) -> AutoContextMemory:
    memory = AutoContextMemory(AutoContextConfig.for_window(window, **COUNTED))
    memory.add(user("Please make it faster."))
    memory.add(tool_exchange("bash", {"command": "make"}, result), said_by_user=said_by_user)
    for messages in work:
        memory.add(messages)
    memory.get_messages()
    return memory


def shown(memory: AutoContextMemory) -> str:
    """The user's part of the notes."""
    texts = [m.text for m in memory.messages if is_note(m)]
    return "\n".join(text.partition(SAID)[2].partition("\nCalls:")[0].partition("\nLooked at:")[0] for text in texts)


@pytest.mark.sampled
@pytest.mark.parametrize("window", [4_000, 8_000, 16_000])
@pytest.mark.parametrize("step", [coding, shop, web])
def test_the_note_quotes_them_as_the_users(window: int, step: Any) -> None:
    work = [step(n) for n in range(window // 40)]
    memory = steered("building\n" * 200 + WORDS, WORDS, window, *work)
    assert f"m3 (open): {WORDS}" in shown(memory)
    assert_valid_chat(memory.messages)
    assert WORDS not in shown(steered("building\n" * 200 + WORDS, False, window, *work))


def test_they_stay_in_view_when_the_result_is_shortened() -> None:
    for size in range(12, 60):
        memory = steered("step of the build\n" * 200 + WORDS, WORDS, 16_000, *map(coding, range(size)))
        (result,) = [r.text for m in memory.messages if said_in(m) for r in m.tool_results] or [""]
        if "characters left out]" in result:
            assert f'The user said: "{WORDS}"' in result or WORDS in result
            assert result.endswith("characters left out]")
            return
    raise AssertionError("never shortened")


@pytest.mark.parametrize("mark", [CLAUDE, LATER, SHORT, OPENCODE, HERMES])
def test_the_marks_of_agents_are_read_if_the_caller_says_so(mark: str) -> None:
    text = "built in 3 s\n\n" + mark.format(WORDS)
    assert marked_words(text) == [WORDS]
    (call, result) = steered(text, True, 4_000).messages[1:]
    assert said_in(result) == (WORDS,)
    assert said_in(call) == ()
    assert said_in(steered(text, False, 4_000).messages[2]) == ()


@given(st.text(max_size=300))
def test_free_text_is_never_taken_for_the_users(text: str) -> None:
    assert marked_words(text) == []
    memory = steered(text, True, 4_000)
    assert not any(map(said_in, memory.messages))


@pytest.mark.parametrize("said", ["not there", "  ", 7])
def test_words_that_no_result_has_are_refused(said: Any) -> None:
    with pytest.raises(InvalidMessage, match="said_by_user"):
        steered("built", said, 4_000)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(("Never do that.", "Use A-7714.", "Go on!"))), max_size=6))
def test_ledgers_with_such_words_add_up(said: list[tuple[bool, str]]) -> None:
    messages = [m for _, words in said for m in tool_exchange("bash", {}, f"built\n{words}")]
    marked = [
        m.model_copy(update={"metadata": {"said_by_user": said[i // 2][1]}})
        if m.tool_results and said[i // 2][0]
        else m
        for i, m in enumerate(messages)
    ]
    for cut in range(len(marked) + 1):
        assert WorkLedger.of(marked[:cut]) + WorkLedger.of(marked[cut:]) == WorkLedger.of(marked)
    text = render(WorkLedger.of(marked), PageRequest(2_000, get_counter("bytes4").count_text))
    for m in marked:
        assert words_of_user(m) in text


def test_a_session_takes_them_too(tmp_path: Any) -> None:
    memory = AutoContextMemory.open(f"{tmp_path}/a.db", session_id="s", window=4_000)
    memory.add([user("Go."), *tool_exchange("bash", {"command": "make"}, f"built\n{WORDS}")], said_by_user=WORDS)
    memory.close()
    again = AutoContextMemory.open(f"{tmp_path}/a.db", session_id="s", window=4_000)
    assert said_in(again.messages[2]) == (WORDS,)
    assert "said_by_user" not in str(again.to_openai())
    again.close()
