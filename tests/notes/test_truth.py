"""What a rendering says is true: every line of it against a second, naive reading of the history."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.messages import is_compressed
from autocontext.notes.calls import looks
from autocontext.notes.page import CALLS, LOOKED
from autocontext.testing import assistant, tool_exchange, tool_result, user
from tests.conversations import histories
from tests.invariants import handles
from tests.notes.desks import Step, played, work
from tests.notes.pages import page
from tests.notes.readings import Reading, calls_of, tool_counts
from tests.test_replay import CONVERSATIONS, DATA, conversations

ALL = CONVERSATIONS | conversations(DATA.with_name("recorded.jsonl"))


def check_work(messages: list[Msg], text: str, only: set[int]) -> None:
    """A rendering of the random work: everything, and each call is told or counted."""
    note = Reading(messages, text, only)
    note.check()
    if {CALLS, LOOKED} & note.parts.keys():
        shown = [line for part in (CALLS, LOOKED) for line in note.parts.get(part, [])]
        counts = {line: re.findall(r"^m\d+(?:-m\d+)?: (\d+) more calls?(?:: .*)?$", line) for line in shown}
        told = [line for line, count in counts.items() if " -> " in line and not count]
        times = [int((re.findall(r" (\d+)x -> ", line) or ["1"])[0]) for line in told]
        more = [int(n) for count in counts.values() for n in count]
        parts = {looks(c.name, c.input) for c in note.calls}
        if len(parts) == len({CALLS, LOOKED} & note.parts.keys()):
            assert sum(times) + sum(more) == len(note.calls), note.text


KINDS = ("coding", "service")


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_every_line_about_random_work_is_true(kind: str, data: st.DataObject) -> None:
    messages = data.draw(work(kind))
    budget = data.draw(st.sampled_from((600, 1_500, 10_000)))
    check_work(messages, page(messages, budget), set(range(1, len(messages) + 1)))


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_every_line_about_a_part_is_true(kind: str, data: st.DataObject) -> None:
    """A note of a span that ends anywhere, with results beyond its end."""
    messages = data.draw(work(kind))
    last = data.draw(st.integers(1, len(messages)))
    only = set(range(data.draw(st.integers(1, last)), last + 1))
    check_work(messages, page(messages, 3_000, only=only), only)


@given(histories(max_moves=8), st.integers(200, 5_000))
@example([user("Go."), assistant("0AA" * 700)], 2_100)
@example([user("0\u3038" * 20_000), assistant("0\u3038" * 20_000), *tool_exchange("a", {}, "0\u3038" * 20_000)], 5_000)
def test_lines_about_anything_are_true(messages: list[Msg], budget: int) -> None:
    text = page(messages, budget)
    Reading(messages, text, set(range(1, len(messages) + 1))).check_numbers()
    Reading(messages, text, set(range(1, len(messages) + 1))).check_words()


def test_equal_calls_share_a_line_with_the_answers_that_differ() -> None:
    run = {"command": "pytest -q"}
    messages = played([Step("bash", run, "failed"), Step("bash", run), Step("bash", {"command": "make"})])
    text = page(messages, 2_000)
    check_work(messages, text, set(range(1, len(messages) + 1)))
    assert 'm3 bash pytest -q 2x -> error: "Error: bash could not do that to pytest -q" (m1); ' in text


def test_other_scripts_are_other_calls() -> None:
    script = "python3 - <<'EOF'\nimport {}\nprint(1)\nEOF"
    first = Step("bash", {"command": script.format("nothing")}, "failed")
    text = page(played([first, Step("bash", {"command": script.format("json")})]), 2_000)
    assert "2x" not in text
    assert "bash could not do that" in text


# ---------------------------------------------------------------------------------------------------- conversations
def notes(memory: AutoContextMemory) -> list[Msg]:
    return [m for m in memory.messages if is_compressed(m) and m.origin is not None]


HEAD = re.compile(r"(\d+) earlier messages?(?: \(m(\d+)(?:-m(\d+))?\))?(?:; calls: (.*))?")


def check_note(memory: AutoContextMemory, originals: list[Msg], note: Msg) -> None:
    number = {m.id: n for n, m in enumerate(originals, 1)}
    behind = [m for key in handles(note) for m in memory.reload(key)]
    only = {number[m.id] for m in behind}
    lines = [x for x in note.text.splitlines() if not x.startswith(("[Reference note", "[End of", "<!--"))]
    head = HEAD.fullmatch(lines[0])
    assert head, lines[0]
    assert int(head[1]) == len(only)
    if head[2]:
        assert (int(head[2]), int(head[3] or head[2])) == (min(only), max(only))
    truth = tool_counts(originals, only)
    for name, count in re.findall(r"(\S+) (\d+)x", head[4] or ""):
        assert truth[name] == int(count), lines[0]
    # A note that had room for nothing but its head may leave the calls out.
    assert bool(head[4]) == bool(truth) or not lines[1:]
    Reading(originals, "\n".join(lines[1:]), only).check()


def follow(name: str, window: int) -> int:
    """Feed a conversation and check each note that comes into view; returns how many there were."""
    memory = AutoContextMemory(AutoContextConfig.for_window(window))
    added, checked, seen = list[Msg](), 0, set[str]()
    for msg in ALL[name]:
        memory.add_message(msg)
        added.append(msg)
        memory.get_messages()
        for note in notes(memory):
            if note.id not in seen and "earlier message" in note.text:
                check_note(memory, added, note)
                checked += 1
                seen.add(note.id)
    return checked


@pytest.mark.slow
@pytest.mark.parametrize("window", [2_000, 4_000, 8_000, 16_000])
@pytest.mark.parametrize("name", sorted(ALL))
def test_every_note_of_every_fold_is_true(name: str, window: int) -> None:
    checked = follow(name, window)
    assert checked or len(ALL[name]) < 100 or window > 8_000


def test_the_naive_reading_pairs_calls_as_it_should() -> None:
    made = calls_of(played([Step("read_file", {"path": "a"}), Step("bash", {"command": "ls"}, "none")]))
    assert [(c.number, c.result) for c in made] == [(1, 2), (3, 0)]


@pytest.mark.parametrize("command", ["pytest -q", "terraform plan", "核对账单"])
def test_answers_of_equal_calls_have_the_number_of_the_newest_that_gave_them(command: str) -> None:
    answers = ["4 failed", "1 failed", "1 failed", "all good"]
    steps = [m for answer in answers for m in tool_exchange("bash", {"command": command}, answer)]
    assert f'm7 bash {command} 4x -> "4 failed" (m1); "1 failed" (m5, 2x); "all good" (m7)' in page(steps, 2_000)


@pytest.mark.parametrize("command", ["npm run build", "pytest -q", "./prüfen.sh", "检查 库存"])
def test_of_many_equal_calls_a_count_is_told_only_where_it_is_that_of_all(command: str) -> None:
    """Only the newest answers are looked at: of the first of these there may have been more before."""
    answers = [*["no rows yet"] * 12, "one row", "two rows", "two rows"]
    steps = [m for answer in answers for m in tool_exchange("bash", {"command": command}, answer)]
    text = page(steps, 2_000)
    assert '15x -> …; "no rows yet" (m23); "one row" (m25); "two rows" (m29, 2x)' in text


@pytest.mark.parametrize(
    ("look", "do", "thing"),
    [
        ("get_order", "cancel_order", {"order_id": "#W4711"}),
        ("read_file", "write_file", {"path": "src/pool.py"}),
        ("get_ticket", "Ticket_schließen", {"ticket_id": "INC-77"}),
    ],
)
def test_what_was_looked_at_names_the_newest_call_that_did_something_with_it(
    look: str, do: str, thing: dict[str, str]
) -> None:
    [name] = thing.values()
    steps = [*tool_exchange(look, thing, "as it was then"), *tool_exchange(do, thing, "done")]
    assert f'm1 {look} {name} -> "as it was then" (then m3 {do})' in page(steps, 2_000)
    # Also where that call stands in another note, or in view; not if it failed, came before, or was deleted.
    assert f"(then m3 {do})" in page(steps, 2_000, only=range(1, 3))
    assert "(then" not in page(steps, 2_000, only=range(1, 3), known=range(1, 3))
    assert "(then" not in page([*steps[2:], *steps[:2]], 2_000)
    more = [m for n in range(3) for m in tool_exchange(do, {**thing, "to": n}, "done")]
    assert f'm1 {look} {name} -> "as it was then" (then m9 {do})' in page([*steps, *more], 2_000)
    assert f"(then m9 {do})" in page([*more, *steps], 2_000), "only one that came after it"
    refused = [*steps[:3], tool_result(steps[2].tool_uses[0].id, "no", is_error=True)]
    assert "(then" not in page(refused, 2_000)


@pytest.mark.parametrize("refusal", ["Error: not enough seats", "Fehler: Karte abgelehnt", "错误：余额不足"])
def test_a_later_call_that_was_refused_stands_with_its_refusal(refusal: str) -> None:
    steps = [
        *tool_exchange("get_order", {"order_id": "#W1"}, "as it was"),
        *tool_exchange("update_order", {"order_id": "#W1"}, refusal),
    ]
    assert f'get_order #W1 -> "as it was" (then m3 update_order -> "{refusal}")' in page(steps, 2_000)
    echo = f"what you sent:\nline 7788 of it, with 12 more of this file\n{refusal}"
    echoed = page([*steps[:2], *tool_exchange("update_order", {"order_id": "#W1"}, echo)], 2_000)
    assert f'(then m3 update_order -> … "{refusal}"' in echoed
    assert f'(then m3 update_order -> "{refusal}")' in page(steps, 2_000, only=range(1, 3))


def test_what_came_back_beside_a_failure_of_a_later_call_is_marked() -> None:
    steps = [
        *tool_exchange("read_file", {"path": "a.py"}, "as it was"),
        *tool_exchange("edit_file", {"path": "a.py", "new": "x"}, "could not format\nFile saved, 3 changes made"),
    ]
    assert '(then m3 edit_file -> "could not format" …)' in page(steps, 2_000)
