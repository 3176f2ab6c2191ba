"""The ledger of two histories in a row is the sum of their ledgers, whatever arrives in them."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from autocontext.history.runs import Runs
from autocontext.messages import Msg, Origin, ToolResultBlock, ToolUseBlock
from autocontext.notes.notes import is_note_tool
from autocontext.notes.work import WorkLedger
from tests.conversations import histories
from tests.notes.pages import page

FIELDS = [name for name in WorkLedger.__slots__ if name not in ("_memo", "rated")]
TEXTS = (
    "",
    "ok",
    "Error: src/a.py:12 KeyError 'user_id'",
    "exit code 1",
    "Never touch /etc/hosts. Use tabs.",
    "The fix works.",
)
IDS = ("a", "b", "")
TOOLS = ("bash", "edit_file", "read_file", "TodoWrite", "cancel_order", "finish_subtask")
ARGUMENTS: tuple[dict[str, object], ...] = (
    {},
    {"command": "echo x > out.txt"},
    {"path": "src/a.py"},
    {"order_id": "#W1"},
    {"todos": [{"content": "write the parser", "status": "pending"}]},
    {"subtask_idx": 0, "state": "done"},
    {"_raw": "{broken"},
    {"command": ["ls", 3], "path": {"a": [None]}},
)


def _blocks() -> st.SearchStrategy[ToolUseBlock | ToolResultBlock]:
    uses = st.builds(
        ToolUseBlock, id=st.sampled_from(IDS), name=st.sampled_from(TOOLS), input=st.sampled_from(ARGUMENTS)
    )
    results = st.builds(
        ToolResultBlock,
        id=st.sampled_from(IDS),
        name=st.sampled_from(TOOLS),
        output=st.sampled_from(TEXTS),
        is_error=st.booleans(),
    )
    return st.one_of(uses, results)


def tangles() -> st.SearchStrategy[list[Msg]]:
    """Calls and results with few ids in any order and any message: answered twice, before they are asked, never."""
    texts = st.sampled_from(TEXTS)
    plain = st.builds(
        lambda role, text: Msg(role=role, content=text), st.sampled_from(("user", "assistant", "system")), texts
    )
    mixed = st.builds(
        lambda role, blocks: Msg(role=role, content=tuple(blocks)),
        st.sampled_from(("assistant", "tool", "user")),
        st.lists(_blocks(), max_size=4),
    )
    return st.lists(st.one_of(plain, mixed), max_size=12)


def anything() -> st.SearchStrategy[list[Msg]]:
    return st.one_of(tangles(), histories(max_moves=6, duplicates=True))


def fields(ledger: WorkLedger) -> dict[str, object]:
    return {name: getattr(ledger, name) for name in FIELDS}


def snapshot(ledger: WorkLedger) -> str:
    return repr(fields(ledger))


@given(anything(), st.integers(0, 99))
def test_a_ledger_is_the_sum_of_the_ledgers_of_its_parts(messages: list[Msg], at: int) -> None:
    place = at % (len(messages) + 1)
    first, then = messages[:place], messages[place:]
    assert fields(WorkLedger.of(first) + WorkLedger.of(then)) == fields(WorkLedger.of(messages))
    assert WorkLedger.of(first) + WorkLedger.of(then) == WorkLedger.of(messages)


@given(anything(), st.lists(st.integers(1, 14)))
def test_how_often_each_tool_was_called_in_some_messages(messages: list[Msg], numbers: list[int]) -> None:
    ledger, only = WorkLedger.of(messages), Runs.of(numbers)
    names = [call.name for call in ledger.told_calls if call.number in only and not is_note_tool(call.name)]
    assert [*ledger.tools(only).items()] == [*Counter(names).items()]


def test_a_result_answers_the_latest_open_call_with_its_id() -> None:
    """Also across the seam: an id may be used again while an earlier call with it is still open."""
    ask = [Msg(role="assistant", content=(ToolUseBlock(id="a", name="bash", input={"n": n}),)) for n in (1, 2)]
    answer = [Msg(role="tool", content=(ToolResultBlock(id="a", output=text),)) for text in ("one", "two", "three")]
    messages = [ask[0], ask[1], answer[0], answer[1], answer[2]]
    whole = WorkLedger.of(messages)
    assert [call.result for call in whole.calls] == [4, 3]
    for at in range(len(messages) + 1):
        assert WorkLedger.of(messages[:at]) + WorkLedger.of(messages[at:]) == whole


@given(anything(), anything(), anything())
def test_sums_are_associative(x: list[Msg], y: list[Msg], z: list[Msg]) -> None:
    a, b, c = map(WorkLedger.of, (x, y, z))
    assert (a + b) + c == a + (b + c)


@given(anything())
def test_the_empty_ledger_is_neutral(messages: list[Msg]) -> None:
    ledger, empty = WorkLedger.of(messages), WorkLedger.of([])
    assert ledger + empty == ledger == empty + ledger


@given(anything())
def test_a_ledger_depends_on_its_messages_alone(messages: list[Msg]) -> None:
    again = [Msg.model_validate(m.model_dump()) for m in messages]
    assert WorkLedger.of(messages) == WorkLedger.of(again)
    assert page(WorkLedger.of(messages), 900, len) == page(WorkLedger.of(again), 900, len)


@given(anything(), anything())
def test_a_sum_changes_neither_ledger(x: list[Msg], y: list[Msg]) -> None:
    a, b = WorkLedger.of(x), WorkLedger.of(y)
    before = snapshot(a), snapshot(b)
    total = a + b
    for message in (*y, *x):
        total.append(message)
    assert (snapshot(a), snapshot(b)) == before


@given(st.lists(tangles(), max_size=5))
def test_a_fold_of_spans_reads_like_the_whole_history(spans: Sequence[list[Msg]]) -> None:
    total = WorkLedger.of([])
    for span in spans:
        total += WorkLedger.of(span)
    whole = WorkLedger.of([m for span in spans for m in span])
    assert total == whole
    assert page(total, 2_000, len) == page(whole, 2_000, len)


@given(tangles(), tangles())
def test_unequal_histories_make_unequal_ledgers(x: list[Msg], y: list[Msg]) -> None:
    assert (WorkLedger.of(x) == WorkLedger.of(y)) == (x == y)
    assert WorkLedger.of(x) != x


def test_nothing_of_a_system_message_and_of_a_note_is_taken_down() -> None:
    text = "Never touch /srv/shop/prod.yaml before SHOP-4711 is closed."
    note = Msg(role="user", content=text, origin=Origin(uuid="a" * 32, kind="fold"))
    ledger = WorkLedger.of([Msg(role="system", content=text), note])
    assert (ledger.user_sentences, ledger.rules) == ([], [])
