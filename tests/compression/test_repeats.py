"""Whether an agent repeats itself after a pass: counted as a slow reading of the rules counts it, each entry once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from autocontext import AutoContextMemory, Msg, ToolUseBlock
from autocontext.compression.repeats import NEAR, RepeatMeter
from autocontext.events import CallCounts, Repeats
from autocontext.history.entries import Added, Cleared, Edited, Entry
from autocontext.stores import InMemorySessionStore, SessionKey
from autocontext.testing import tool_exchange
from tests.costs import python_calls
from tests.production.agents import day, small

PASS, CLEAR = "pass", "clear"
Step = str | tuple[str, dict[str, Any]]


def entries_of(steps: Sequence[Step]) -> list[Entry]:
    return [
        Edited(edits=(), events=())
        if step == PASS
        else Cleared()
        if step == CLEAR
        else Added(message=Msg(role="assistant", content=[ToolUseBlock(id=f"c{i}", name=step[0], input=step[1])]))  # type: ignore[arg-type]
        for i, step in enumerate(steps)
    ]


def counted(steps: Sequence[Step]) -> Repeats:
    meter = RepeatMeter()
    meter.follow(entries_of(steps))
    return meter.repeats


def by_rule(steps: Sequence[Step]) -> tuple[list[int], list[int]]:
    """Before and after: calls, repeated, reread, reloads; for calls of `read_file` and `context_reload` alone."""
    near_after: set[int] = set()
    for at in (i for i, step in enumerate(steps) if step == PASS):
        for i in range(at + 1, len(steps)):
            if steps[i] == CLEAR or sum(not isinstance(s, str) for s in steps[at + 1 : i + 1]) > NEAR:
                break
            near_after.add(i)
    near_before: set[int] = set()
    for at in (i for i, step in enumerate(steps) if step == PASS):
        start = max([i for i in range(at) if steps[i] == CLEAR], default=-1) + 1
        free = [i for i in range(start, at) if not isinstance(steps[i], str) and i not in near_after]
        near_before.update(free[-NEAR:])

    def counts(places: set[int]) -> list[int]:
        found = [0, 0, 0, 0]
        for i in sorted(places):
            if isinstance(steps[i], str):
                continue
            name, arguments = steps[i]
            start = max([j for j in range(i) if steps[j] == CLEAR], default=-1) + 1
            earlier = [s for s in steps[start:i] if not isinstance(s, str)]
            reload = name == "context_reload"
            seen = any(n == name and a.get("path") == arguments.get("path") for n, a in earlier)
            found = [a + b for a, b in zip(found, [1, steps[i] in earlier, reload or seen, reload], strict=True)]
        return found

    return counts(near_before), counts(near_after)


def as_list(counts: CallCounts) -> list[int]:
    return [counts.calls, counts.repeated, counts.reread, counts.reloads]


READS = st.builds(
    lambda path, offset: ("read_file", {"path": path, "offset": offset}), st.sampled_from("abcd"), st.integers(0, 2)
)
RELOADS = st.builds(lambda n: ("context_reload", {"working_context_offload_uuid": f"m{n}"}), st.integers(1, 3))
STEPS = st.lists(st.one_of(READS, READS, READS, RELOADS, st.just(PASS), st.just(CLEAR)), max_size=60) | st.lists(
    st.one_of(*[READS] * 9, st.just(PASS)), min_size=30, max_size=120
)


@given(STEPS)
def test_counts_are_those_of_the_rule(steps: list[Step]) -> None:
    found = counted(steps)
    event(f"{min(found.after.calls, 20) // 5 * 5} calls after, {min(found.before.calls, 20) // 5 * 5} before")
    assert (as_list(found.before), as_list(found.after)) == by_rule(steps)


@given(STEPS, st.lists(st.integers(0, 120), max_size=5))
def test_in_parts_it_counts_the_same(steps: list[Step], cuts: list[int]) -> None:
    meter, entries, at = RepeatMeter(), entries_of(steps), 0
    for cut in [*sorted(cuts), len(entries)]:
        before = meter.repeats
        meter.follow(entries[at:cut])
        at = max(at, min(cut, len(entries)))
        assert meter.entries == at
        assert all(n >= 0 for n in as_list(meter.repeats.after - before.after))
        assert all(n >= 0 for n in as_list(meter.repeats.before - before.before))
    assert meter.repeats == counted(steps)


@given(STEPS)
def test_without_a_pass_nothing_is_counted(steps: list[Step]) -> None:
    assert counted([step for step in steps if step != PASS]) == Repeats()


def after(first: Step, again: Step) -> tuple[int, int, int]:
    """Of a call after a pass: repeated, reread, reload."""
    counts = counted([first, PASS, again]).after
    assert counts.calls == 1
    return counts.repeated, counts.reread, counts.reloads


REPEATED, REREAD, BOTH, NEW = (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 0)


@pytest.mark.parametrize(
    ("first", "again", "expected"),
    [
        # A coding agent.
        (("Read", {"file_path": "/app/queue.py"}), ("Read", {"file_path": "/app/queue.py"}), BOTH),
        (("Read", {"file_path": "/app/queue.py"}), ("Read", {"file_path": "/app/queue.py", "offset": 200}), REREAD),
        (("Read", {"file_path": "/app/queue.py"}), ("Read", {"file_path": "/app/jobs.py"}), NEW),
        (("Edit", {"file_path": "/app/queue.py"}), ("Read", {"file_path": "/app/queue.py"}), NEW),
        (("Grep", {"pattern": "retry", "path": "src"}), ("Grep", {"pattern": "lock", "path": "src"}), NEW),
        (("Bash", {"command": "pytest -q"}), ("Bash", {"description": "again", "command": "pytest -q"}), REPEATED),
        (("Bash", {"command": "cat a.py"}), ("Bash", {"command": "cat a.py", "timeout": 9}), BOTH),
        (
            ("edit", {"command": "view", "path": "a.py", "view_range": [1, 50]}),
            ("edit", {"command": "view", "path": "a.py", "view_range": [40, 90]}),
            REREAD,
        ),
        # A service desk.
        (("get_order", {"order_id": "W-7714"}), ("get_order", {"order_id": "W-7714"}), BOTH),
        (("get_order", {"order_id": "W-7714"}), ("get_order", {"order_id": "W-7715"}), NEW),
        (("get_line", {"user_id": 5, "line_id": 7}), ("get_line", {"user_id": 5, "line_id": 8}), NEW),
        (("get_line", {"user_id": 5, "line_id": 7}), ("get_line", {"line_id": 7, "user_id": 5}), BOTH),
        (
            ("get_line", {"region": "eu", "user_id": 5, "line_id": 7}),
            ("get_line", {"region": "eu", "user_id": 5, "line_id": 8}),
            NEW,
        ),
        (("get_mails", {"order_id": 7, "page": 1}), ("get_mails", {"order_id": 7, "page": 2}), REREAD),
        (("refund", {"order_id": "W-7714"}), ("refund", {"order_id": "W-7714"}), REPEATED),
        # Research on the web.
        (("web_search", {"query": "heat pumps"}), ("web_search", {"query": "heat pumps"}), BOTH),
        (("web_search", {"query": "heat pumps"}), ("web_search", {"query": "heat pumps", "page": 2}), NEW),
        (("fetch", {"url": "https://a.example/1"}), ("visit", {"url": "https://a.example/1"}), NEW),
        # Our tool, also behind a server's name.
        (
            ("fetch", {"url": "https://a.example/1"}),
            ("mcp__autocontext__context_reload", {"working_context_offload_uuid": "m1"}),
            (0, 1, 1),
        ),
    ],
)
def test_examples(first: Step, again: Step, expected: tuple[int, int, int]) -> None:
    assert after(first, again) == expected


def test_a_loaded_state_knows_what_was_called_but_not_when() -> None:
    first = AutoContextMemory(small())
    first.add_messages([*tool_exchange("read_file", {"path": "a"}, "x"), *day(12)])
    assert first.compress_if_needed(force=True)
    memory = AutoContextMemory(small())
    memory.load_state_dict(first.state_dict())
    memory.add_messages(tool_exchange("read_file", {"path": "a"}, "x"))
    assert memory.repeats() == Repeats()
    memory.add_messages(day(12))
    assert memory.compress_if_needed(force=True)
    memory.add_messages(tool_exchange("read_file", {"path": "a"}, "x"))
    assert as_list(memory.repeats().after) == [1, 1, 1, 0]


def exchanges(n: int) -> Iterator[Msg]:
    for i in range(n):
        yield from tool_exchange("read_file", {"path": f"src/{i}.py"}, "text")


def test_a_later_use_reads_only_what_is_new() -> None:
    def cost(calls: int) -> tuple[int, int]:
        memory = AutoContextMemory(small(msg_threshold=10_000, max_token=1_000_000))
        memory.add_messages(exchanges(calls))
        whole = python_calls(memory.repeats)
        memory.add_messages(exchanges(5))
        return whole, python_calls(memory.repeats)

    (few, new), (many, as_new) = cost(50), cost(800)
    assert as_new <= 1.2 * new
    assert many <= 1.2 * 16 * few


def test_a_memory_counts_what_its_log_says() -> None:
    store = InMemorySessionStore()
    memory = AutoContextMemory(small(), store=store, session_id="s")
    memory.add_messages([*exchanges(12), *day(6)])
    assert memory.compress_if_needed(force=True)
    memory.add_messages(exchanges(4))
    meter = RepeatMeter()
    meter.follow(store.read(SessionKey("", "s")))
    assert memory.repeats() == meter.repeats
    assert as_list(memory.repeats().after) == [4, 4, 4, 0]
    assert memory.repeats().before.calls == NEAR
