"""A rendering keeps to its budget, uses it, and quotes whole lines."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.caches import forget_texts
from autocontext.history.runs import Runs
from autocontext.messages import Msg
from autocontext.notes.room import Claim, Room
from autocontext.notes.shown import InView
from autocontext.notes.work import WorkLedger
from autocontext.testing import assistant, tool_result, user
from autocontext.tokens import get_counter
from tests.conversations import histories
from tests.costs import python_calls
from tests.notes.desks import calls, use, work
from tests.notes.pages import page
from tests.test_replay import CONVERSATIONS

COUNTERS: dict[str, Callable[[str], int]] = {
    "o200k_base": get_counter("o200k_base").count_text,
    "bytes4": get_counter("bytes4").count_text,
    "chars4": lambda text: (len(text) + 3) // 4,
    "characters": len,
}
BUDGETS = (0, 3, 31, 100, 333, 1_000, 5_000)
ROOMY = [name for name in sorted(CONVERSATIONS) if "large" not in name]


def long_work(steps: int) -> list[Msg]:
    """Much to tell: a user who asks, files that are read and edited, tests that fail, in ever other words."""
    made = [user("Please port the parser. Never change anything below vendor/. Keep the public names.")]
    for i in range(steps):
        path = f"src/package_{i % 17}/module_{i}.py"
        lines = "\n".join(f"{n}: value_{i}_{n} = load('{path}', limit={i * n})" for n in range(12))
        made += [
            calls(f"The cause is in {path}: value_{i} is read before it is set.", use(f"r{i}", "read_file", path=path)),
            tool_result(f"r{i}", lines),
            calls("", use(f"e{i}", "edit_file", path=path, new=f"value_{i} = None")),
            tool_result(f"e{i}", "ok" if i % 3 else f"Error: no such text in {path}", is_error=not i % 3),
            calls("", use(f"t{i}", "bash", command=f"pytest -q tests/test_{i}.py")),
            tool_result(f"t{i}", f"E   AssertionError: value_{i} != {i}\n1 failed" if i % 5 else f"{i} passed"),
        ]
        if i % 7 == 0:
            made.append(
                user(f"And also check case {i}: the limit must stay under {i + 100} MB in worker_{i}.\nThanks!")
            )
    return made


LONG = WorkLedger.of(long_work(120))


@cache
def ledgers() -> list[WorkLedger]:
    return [WorkLedger.of(CONVERSATIONS[name]) for name in ROOMY[::7]]


@pytest.mark.slow
def test_there_is_much_more_to_say_than_the_largest_budget_holds() -> None:
    assert all(count(page(LONG, 10**6, count)) > 1.5 * 5_000 for count in COUNTERS.values())
    assert len(page(LONG, 10**6, len)) > 1.5 * 20_000


@pytest.mark.sampled
@pytest.mark.parametrize("counter", COUNTERS)
@given(messages=histories(max_moves=8), budget=st.integers(0, 5_000))
def test_a_rendering_never_exceeds_its_budget(counter: str, messages: list[Msg], budget: int) -> None:
    count = COUNTERS[counter]
    text = page(WorkLedger.of(messages), budget, count)
    assert count(text) <= budget


@pytest.mark.sampled
@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_real_work_keeps_to_any_budget(counter: str, budget: int) -> None:
    count = COUNTERS[counter]
    for ledger in (LONG, *ledgers()):
        assert count(page(ledger, budget, count)) <= budget


@pytest.mark.sampled
@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("budget", [500, 1_000, 2_000, 5_000])
def test_a_budget_is_used_where_there_is_more_to_say(counter: str, budget: int) -> None:
    count = COUNTERS[counter]
    room = budget * 4 if counter == "characters" else budget
    # The last line that would fit is a larger part of a small budget.
    assert count(page(LONG, room, count)) >= 0.9 * room


@pytest.mark.slow
def test_a_rendering_is_the_same_in_every_process() -> None:
    """Sets of texts have another order in each: no choice may depend on it."""
    code = (
        "from autocontext.notes.work import WorkLedger\n"
        "from tests.notes.pages import page\n"
        "from tests.test_replay import CONVERSATIONS\n"
        f"for name in {ROOMY[::6]!r}:\n"
        "    ledger = WorkLedger.of(CONVERSATIONS[name])\n"
        "    print(name, page(ledger, 1500), page(ledger, 6000))\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(told) == 1


@given(histories(max_moves=8), st.integers(100, 3_000))
def test_rendering_twice_gives_the_same(messages: list[Msg], budget: int) -> None:
    ledger = WorkLedger.of(messages)
    facts = [name for name in WorkLedger.__slots__ if name not in ("_memo", "_readings")]
    before = repr([getattr(ledger, name) for name in facts])
    assert page(ledger, budget, len) == page(ledger, budget, len)
    assert repr([getattr(ledger, name) for name in facts]) == before


@pytest.mark.slow
def test_what_earlier_notes_worked_out_changes_no_later_note() -> None:
    messages = long_work(16)
    ledger = WorkLedger.of(messages[:-12])
    for msg in [*messages[-12:], user("You must never use value_3 in module_2.py.")]:
        page(ledger, 500, len)
        ledger.append(msg)
        for budget in (2_000, 500):
            assert page(ledger, budget, len) == page(WorkLedger.of(ledger.messages), budget, len)


def test_notes_of_one_history_share_what_they_work_out() -> None:
    messages = long_work(40)
    ledger = WorkLedger.of(messages)
    first, again = (python_calls(lambda: page(ledger, 1_000, len)) for _ in range(2))
    assert again < 0.8 * first  # what lines are made of is kept across tests, so the first may be cheap
    ledger.append(user("And then?"))
    assert python_calls(lambda: page(ledger, 1_000, len)) > again


def test_a_claim_writes_only_the_lines_that_it_may_take() -> None:
    written: list[str] = []

    def lines() -> Iterator[str]:
        for n in range(50):
            written.append(f"{n:02d}")
            yield written[-1]

    room = Room(1_000, len)
    claim = Claim(room, lines(), room.cost)
    claim.take(10)  # three tokens each, with their newlines
    assert (claim.size, room.left, len(written)) == (3, 991, 4)
    claim.give_back(4)
    claim.take(9)
    assert (claim.size, room.left, len(written)) == (4, 988, 5)
    claim.take(1_000)
    assert (claim.size, room.left, len(written)) == (50, 850, 50)
    small = Room(4, len)
    assert Claim(small, lines(), small.cost).take(4) is None
    assert len(written) == 52  # a third line could never fit


# ----------------------------------------------------------------------------------------------------------- quotes
def plain(text: str) -> str:
    """A text with its blanks folded and what cannot be printed left out."""
    text = "".join(ch if ch.isprintable() else " " for ch in text).replace("<!-- CONTEXT_OFFLOAD", "<! CONTEXT_OFFLOAD")
    return " ".join(text.split())


def originals(messages: Iterable[Msg]) -> list[str]:
    """Every line of every text, plain."""
    found: dict[str, None] = {}
    for msg in messages:
        for block in msg.content:
            texts = [getattr(block, "text", "")]
            if block.type == "tool_use":
                texts = list(strings(block.input))
            for text in texts:
                found.update(
                    (plain(line), None) for line in re.split(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text)
                )
                found[plain(text)] = None
    return list(found)


def strings(value: object) -> Iterable[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def is_quote(quote: str, lines: list[str], known: set[str]) -> bool:
    """Whether a line is a whole line of an original, or made of pieces of one that are marked where they are cut."""
    if quote in known:
        return True
    pieces = [p.strip() for p in quote.split("…")]
    if len(pieces) == 1:
        # Whole sentences may stand beside each other without a gap between.
        return any(stands(quote, line) for line in lines)
    return all(not p or any(stands(p, line) for line in lines) for p in pieces)


def stands(piece: str, line: str) -> bool:
    """Whether a piece stands in a line with no word cut at either end."""
    at = line.find(piece)
    while at >= 0:
        before, after = line[at - 1 : at] if at else "", line[at + len(piece) : at + len(piece) + 1]
        if not (before.isalnum() and piece[0].isalnum()) and not (after.isalnum() and piece[-1].isalnum()):
            return True
        at = line.find(piece, at + 1)
    return False


def check_quotes(messages: list[Msg], text: str) -> None:
    lines = originals(messages)
    known = set(lines)
    for line in text.splitlines():
        if line.startswith("> "):
            assert is_quote(plain(line[2:]), lines, known), line


@given(histories(max_moves=8), st.integers(100, 4_000))
def test_quoted_lines_are_whole_or_marked(messages: list[Msg], budget: int) -> None:
    check_quotes(messages, page(WorkLedger.of(messages), budget, len))


@pytest.mark.sampled
@pytest.mark.parametrize("name", ROOMY[::2])
def test_quoted_lines_of_real_work_are_whole_or_marked(name: str) -> None:
    messages = CONVERSATIONS[name]
    for budget in (2_000, 12_000):
        check_quotes(messages, page(WorkLedger.of(messages), budget, len))


def test_long_lines_are_cut_between_words_and_marked() -> None:
    line = " ".join(f"field_{i}=value_{i:04}" for i in range(200))
    messages = [user("Which is value 17?"), calls("", use("a", "query", key="field_17")), tool_result("a", line)]
    text = page(WorkLedger.of(messages), 4_000, len)
    (answer,) = re.findall(r'-> "(.*)"', text)
    quotes = [answer, *(x[2:] for x in text.splitlines() if x.startswith(("> field", "> …")))]
    for quote in quotes:
        assert "…" in quote
        assert set(quote.strip("…").split()) <= set(line.split())


# ------------------------------------------------------------------------------------------------- only, elsewhere
NUMBER = re.compile(r"\bm(\d+)\b")


def numbers_told(text: str) -> set[int]:
    """Numbers in our own labels: at the beginning of lines, and in brackets after changes."""
    found: set[int] = set()
    for line in text.splitlines():
        if line.startswith("> "):
            continue
        if head := re.match(r"m(\d+)(?:-m(\d+))?\b", line):
            found.update(int(g) for g in head.groups() if g)
    return found


@pytest.mark.slow
@given(histories(max_moves=8), st.sets(st.integers(1, 60)), st.integers(200, 3_000))
def test_messages_outside_only_are_not_told_of(messages: list[Msg], only: set[int], budget: int) -> None:
    text = page(WorkLedger.of(messages), budget, len, only=only)
    assert numbers_told(text) <= only


def test_nothing_of_a_message_outside_only_is_told() -> None:
    messages = [
        user("Never use secret_word_1."),
        calls("The cause is secret_word_2 in the parser.", use("a", "edit_file", path="secret_3.py")),
        tool_result("a", "secret_4 = /etc/secret_5"),
        user("Always say public_1."),
        calls("", use("b", "read_file", path="public_2.py")),
        tool_result("b", "public_3 = /etc/public_4"),
    ]
    text = page(WorkLedger.of(messages), 3_000, len, only={4, 5, 6})
    assert "secret" not in text
    assert all(word in text for word in ("public_1", "public_2.py", "public_3 = /etc/public_4"))
    assert page(WorkLedger.of(messages), 3_000, len, only=()) == ""


def test_what_the_reader_sees_is_not_repeated() -> None:
    messages = [
        user("Never touch vendor_1.\nAlways run check_2 first."),
        calls("", use("b", "read_file", path="a.py")),
        tool_result("b", "limit_3 = 4096\nlimit_5 = 8192"),
    ]
    ledger = WorkLedger.of(messages)
    whole = page(ledger, 3_000, len)
    for line in ("Never touch vendor_1.", "Always run check_2 first."):
        assert line in whole
        assert line not in page(ledger, 3_000, len, shown=[user(line)])


@given(st.data(), work("coding"), st.integers(100, 3_000))
def test_a_view_without_a_span_is_the_view_of_the_others(data: st.DataObject, messages: list[Msg], budget: int) -> None:
    # Messages that occur twice are shown, if one of the two is outside of the span.
    messages = [*messages, *data.draw(st.lists(st.sampled_from(messages), max_size=6))] if messages else []
    start = data.draw(st.integers(0, len(messages)))
    stop = data.draw(st.integers(start, len(messages)))
    beginning = data.draw(st.sampled_from(["", *(text for m in messages[start:stop] for text in m.texts())]))
    ledger, only = WorkLedger.of(messages), set(range(start + 1, stop + 1))
    others = [*messages[:start], *messages[stop:], assistant(beginning)]
    view = InView(messages)
    for other in data.draw(st.lists(st.integers(0, len(messages)), max_size=4)):  # notes of the same pass
        view.without(min(other, start), max(other, start), "")
    beside = view.without(start, stop, beginning)
    assert page(ledger, budget, len, only=only, shown=beside) == page(ledger, budget, len, only=only, shown=others)


def test_a_conclusion_that_the_text_before_the_ledger_has_is_not_told_again() -> None:
    cause = "The cause is a missing lock."
    messages = [user("Find the cause."), assistant(f"{cause} I go on."), assistant("Now.")]
    ledger, view = WorkLedger.of(messages), InView(messages)
    assert cause in page(ledger, 500, len, shown=view.without(0, 2, "The agent looked for the cause."))
    assert cause not in page(ledger, 500, len, shown=view.without(0, 2, f"Found. {cause}"))


def test_what_a_tool_says_does_not_stand_for_the_user() -> None:
    ledger = WorkLedger.of([user("Use tabs."), user("Stop.")])
    shown = [tool_result("z", "Use tabs. Stop."), user("Never use tabs. Do not Stop. Go on.")]
    told = page(ledger, 3_000, len, shown=shown)
    assert "Use tabs." in told
    assert "Stop." in told


@pytest.mark.slow
def test_a_note_about_few_messages_costs_as_much_in_a_long_history() -> None:
    def cost(steps: int) -> int:
        ledger = WorkLedger.of(long_work(steps))
        last = len(ledger)
        page(ledger, 300, len, only=Runs([(last - 20, last - 11)]))  # works out what all notes share
        forget_texts()  # other tests know some values and lines
        return python_calls(lambda: page(ledger, 300, len, only=Runs([(last - 10, last)])))

    assert cost(315) <= 1.1 * cost(105)  # both end with the same kinds of steps


SHORT: dict[str, Callable[[int], list[Msg]]] = {
    "a chat": lambda n: [m for i in range(n) for m in (user(f"q{i}"), assistant(f"a{i}"))],
    "a user alone": lambda n: [user(f"u{i}") for i in range(n)],
    "rules": lambda n: [m for i in range(n) for m in (user(f"never x{i}"), assistant("ok"))],
    "answers to questions": lambda n: [m for i in range(n) for m in (assistant(f"Is it {i}?"), user(f"no {i}"))],
    "thanks": lambda n: [user(f"{'thanks ' * (i % 3 + 1)}{i}") for i in range(n)],
    "sentences of one message": lambda n: [user("\n".join(f"q{i}" for i in range(n)))],
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("what", SHORT)
def test_a_note_of_short_messages_is_written_in_a_few_steps(what: str, counter: str) -> None:
    whole = 0

    def count(text: str) -> int:
        nonlocal whole
        whole += text.count("\n") > 9
        return COUNTERS[counter](text)

    ledger = WorkLedger.of(SHORT[what](1_500))
    for budget in (500, 2_000, 5_000):
        whole = 0
        assert count(page(ledger, budget, count)) <= budget
        assert whole <= 15  # once for each sentence that has to go, it was some hundreds


@pytest.mark.sampled
@pytest.mark.parametrize("what", SHORT)
def test_the_cost_of_a_note_grows_with_its_short_messages(what: str) -> None:
    def cost(n: int) -> int:
        ledger = WorkLedger.of(SHORT[what](n))
        return python_calls(lambda: page(ledger, 2 * n, COUNTERS["bytes4"]))

    assert cost(1_200) <= 2.5 * cost(600)


def test_a_note_tells_of_old_messages_however_much_came_after() -> None:
    messages = long_work(20)
    alone = page(WorkLedger.of(messages), 6_000, len, only=range(1, len(messages) + 1))
    later = [calls("", use(f"z{i}", "ping", host=f"h{i}")) for i in range(1_200)]
    answers = [tool_result(f"z{i}", "pong") for i in range(1_200)]
    longer = WorkLedger.of([*messages, *(m for pair in zip(later, answers, strict=True) for m in pair)])
    for line in ("read_file", "edit_file", "The cause is in"):
        assert line in alone
        assert line in page(longer, 6_000, len, only=range(1, len(messages) + 1))
