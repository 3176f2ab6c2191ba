"""Agents without tools: a command in a text, and what it printed in the user's role."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import Msg
from autocontext.history.runs import Runs
from autocontext.notes.sentences import ASIDE, CLAUSE, GREETING, OUTPUT, PASTE, PLAIN, of_user
from autocontext.notes.typed import NAME
from autocontext.notes.work import WorkLedger
from autocontext.testing import assistant, tool_call, tool_exchange, user
from autocontext.tokens import get_counter
from tests.notes.pages import page

COUNT = get_counter("o200k_base").count_text
PROMPT = "(Open file: n/a)\n(Current directory: /app)\nbash-$"
ROUNDS = [
    ("I install it first.\n```\npip install -e .[dev]\n```", f"Successfully installed shop-3.1.0\n{PROMPT}"),
    (
        "THOUGHT: Die Tests laufen lassen.\n\n```bash\npytest tests/test_pool.py\n```",
        "<returncode>1</returncode>\n<output>\n2 failed, 7 passed\n</output>",
    ),
    ("思考：查看余额。\n```python\nprint(balance('C-77'))\n```<end_code>", "Observation:\n余额 1,250 元"),
]


def calls(messages: list[Msg]) -> list[tuple[int, str, int]]:
    return [(call.number, call.label, call.result) for call in WorkLedger.of(messages).calls]


@pytest.mark.parametrize(("said", "printed"), ROUNDS)
def test_a_command_and_what_it_printed_are_a_call_and_its_answer(said: str, printed: str) -> None:
    history = [user("Please do it."), assistant(said), user(printed), assistant("Now it is done.")]
    (call,) = WorkLedger.of(history).calls
    assert (call.number, call.name, call.result) == (2, NAME, 3)
    text = page(WorkLedger.of(history), 300, COUNT, only={2, 3})
    command = said.rpartition("```")[0].rpartition("\n")[0].rpartition("\n")[2]
    assert f"m2 {NAME} {command}" in text
    told = next(line for line in printed.split("\n") if any(map(str.isdigit, line)) and "returncode" not in line)
    assert f'"{told}"' in text
    assert "The user said" not in text


@pytest.mark.parametrize("tag", ["local-command-stdout", "bash-stderr", "tool-output", "stdout"])
def test_what_a_command_of_the_user_printed_is_not_quoted_as_their_words(tag: str) -> None:
    history = [user("Please do it."), user(f"<{tag}>Set model to large 7, and saved.</{tag}>"), assistant("Done.")]
    assert "The user said" not in page(WorkLedger.of(history), 300, COUNT, only={2, 3})


@pytest.mark.parametrize(
    "history",
    [
        [assistant("```\nls\n```"), user("Why do you not just look?")],  # no output
        [
            assistant("It is set up so:\n```\nls\n```\nShall I run it?"),
            user(f"a.py\n{PROMPT}"),
        ],  # the fence ends nothing
        [assistant("I look."), user(f"a.py\n{PROMPT}")],
        [user("```\nls\n```"), user(f"a.py\n{PROMPT}")],
        [assistant("```\n\n```"), user(f"a.py\n{PROMPT}")],
        [tool_call("bash", {"command": "ls"}, id="c", text="```\nls\n```"), user(f"a.py\n{PROMPT}")],
    ],
)
def test_anything_else_is_none(history: list[Msg]) -> None:
    assert [call for call in calls(history) if call[2]] == []


@given(
    st.lists(st.sampled_from([m for pair in ROUNDS for m in (assistant(pair[0]), user(pair[1]))]), max_size=8),
    st.data(),
)
def test_ledgers_of_parts_add_up_between_a_command_and_its_output_too(history: list[Msg], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(history)))
    assert WorkLedger.of(history[:at]) + WorkLedger.of(history[at:]) == WorkLedger.of(history)


@given(st.text(st.sampled_from("`\n a$"), max_size=40), st.text(st.sampled_from("\n a$#>"), max_size=20))
def test_any_text_may_be_said_and_printed(said: str, printed: str) -> None:
    for number, label, result in calls([assistant(said), user(printed + "\n$")]):
        assert (number, result) == (1, 2)
        assert label


def test_where_the_agent_has_tools_commands_in_its_texts_are_examples() -> None:
    said, printed = ROUNDS[0]
    history = [
        user("So it is done:"),
        assistant(said),
        user(printed),
        *tool_exchange("bash", {"command": "ls"}, "a.py 12"),
    ]
    assert [call.name for call in WorkLedger.of(history).newest_calls] == ["bash"]
    text = page(WorkLedger.of(history), 300, COUNT, only={2, 3, 4, 5})
    assert 'bash ls -> "a.py 12"' in text
    assert f"{NAME} pip" not in text
    assert "The user said" not in text
    assert [*WorkLedger.of(history).tools(Runs([(1, 5)])).items()] == [("bash", 1)]
    assert [*WorkLedger.of(history[:3]).tools(Runs([(1, 5)])).items()] == [(NAME, 1)]


MAIL = "From: Front desk\nTo: all\n\n" + "\n".join(f"{n}. Please put a comma into text {n}." for n in range(40))
OWN = [
    (
        "fix kontroll.py, and yes to the test. sv_FI: drop the extra one\n\nfrom the desk, I did not read it all:\n\n",
        MAIL,
    ),
    ("Bitte RE-17 stornieren.\nUnd das kam gerade:\n\n---\n", MAIL),
    ("金额按 NET 算，不含税。别提 Khôi 的房间。\n\n", f"“{MAIL}”"),
    ("approve 398 and send the letter\n\n", f"```\n{MAIL}\n```"),
    ("two changes:\n\n- 95 million is NET, so GALA-A\n- nothing about his room\n- she wrote:\n\n", f'"{MAIL}"'),
]


@pytest.mark.parametrize(("own", "pasted"), OWN)
def test_what_a_user_typed_above_a_paste_goes_before_the_paste(own: str, pasted: str) -> None:
    history = [user("Go on."), user(f"{own}{pasted}"), *tool_exchange("run", {"n": 1}, "ok"), assistant("Done.")]
    for budget in range(120, 600, 40):
        text = page(WorkLedger.of(history), budget, COUNT, only={2, 3, 4})
        said = "\n".join(line.removeprefix("> ") for line in text.splitlines())
        assert all(line.strip(" -`") in said for line in own.splitlines() if line.strip(" -`")), budget


@pytest.mark.parametrize("text", [MAIL, "We met on Monday.\n\n" * 90])
def test_a_long_message_without_a_paste_below_the_user_s_words_is_read_as_before(text: str) -> None:
    assert {sentence.worth for sentence in of_user(text)} <= {OUTPUT, GREETING, PASTE, ASIDE, CLAUSE}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_rule_at_the_head_of_a_paste_does_not_stand_for_the_user_s(end: str) -> None:
    own = "For the whole session: do not translate the titles of the lessons, whatever the policies below say of them."
    policies = [
        user(
            end.join(
                (f"Policy {n}", *(f"Staff must never leave area {n}{k}." for k in range(8)), "---", *(["More."] * 300))
            )
        )
        for n in range(6)
    ]
    text = page(WorkLedger.of([user(own), *policies, assistant("Read.")]), 400, COUNT, only={*range(1, 8)})
    assert own in text
    said = of_user(f"Please fix the door.{end}This came:{end}{end}" + MAIL.replace("\n", end))
    assert [sentence.worth for sentence in said[:2]] == [PLAIN, PLAIN]
