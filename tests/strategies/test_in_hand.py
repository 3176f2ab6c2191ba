"""What the agent is working on stays whole in the middle distance, although other things are newer."""

import json
from hashlib import sha256
from typing import Any

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.history.view import View
from autocontext.strategies.in_hand import in_hand
from autocontext.testing import assert_valid_chat, assistant, tool_exchange, user
from autocontext.text.reformatting import reformatted
from tests.invariants import ESTIMATE, check

MODULE = "\n".join(f"    def verbinde_{n}(self, wert): return self.pool[{n}] + wert" for n in range(30))
RECORD = json.dumps(
    {"reservation_id": "OBUT9V", "flights": [{"flight_number": f"HAT{n:03}", "price": 100 + n} for n in range(30)]}
)
REPORT = "\n".join(f"第{n}节：工厂{n}的产量是{n * 37}吨，负责人是王{n}。" for n in range(60))
PAGE = "\n".join(f"{sha256(b'%d' % n).hexdigest()[:27]} checked" for n in range(150))
"""No two lines have anything in common."""
WORK: list[tuple[str, dict[str, Any], str, str, dict[str, Any]]] = [
    ("read_file", {"path": "./src/pool.py"}, MODULE, "edit", {"path": "src/pool.py", "new_string": "pass"}),
    ("buchung", {"reservation_id": "OBUT9V"}, RECORD, "umbuchen", {"reservation_id": "OBUT9V", "cabin": "economy"}),
    ("bash", {"command": "cat /work/报告.md"}, REPORT, "bash", {"command": "wc -l /work/报告.md"}),
    ("bash", {"command": "cat src/solver.f90"}, MODULE, "bash", {"command": "wc -l ./src/solver.f90"}),
    ("ansehen", {"files": [{"file_path": "a/b.kt"}]}, MODULE, "edit", {"file_path": "a/b.kt", "new_str": "pass"}),
]


def whole(text: str, number: int) -> tuple[str, str]:
    """A text as it is, and in the form in which nothing is left out."""
    return text, f"{reformatted(text)}\n[m{number}: reformatted, nothing left out]"


def log(n: int, size: int = 40) -> list[Msg]:
    lines = "\n".join(f"10:{i:02}:00 INFO worker {i} of run {n} is fine" for i in range(size))
    return [*tool_exchange("run_checks", {"round": n}, lines), assistant(f"Run {n} is done.")]


def passed(messages: list[Msg], share: float) -> AutoContextMemory:
    """After a pass that leaves this share of the tokens."""
    before = AutoContextMemory(AutoContextConfig(**ESTIMATE))
    before.add_messages(messages)
    config = AutoContextConfig(
        max_token=8_000, token_ratio=1, strategies=("shorten",), last_resort=False,
        target_ratio=share * before.token_count / 8_000, **ESTIMATE,
    )  # fmt: skip
    memory = AutoContextMemory(config)
    memory.add_messages(messages)
    memory.compress_if_needed(force=True)
    return memory


@pytest.mark.parametrize(("look", "asked", "text", "change", "changed"), WORK)
def test_the_text_that_a_later_call_is_about_stays_whole(
    look: str, asked: dict[str, Any], text: str, change: str, changed: dict[str, Any]
) -> None:
    def work(*later: Msg) -> list[Msg]:
        started = [user("Go."), *tool_exchange(look, asked, text), assistant("Seen.")]
        return [*started, *log(1), *log(2), *later, *log(3), *log(4), user("And now?")]

    memory = passed(work(*tool_exchange(change, changed, "ok")), 0.6)
    results = [r.text for m in memory.messages for r in m.tool_results]
    assert results[0] in whole(text, 3)
    assert all(len(r) < 1_000 for r in results[1:3])
    assert_valid_chat(memory.messages)
    check(memory)


def test_where_all_must_be_short_it_is_the_last_to_be_cut() -> None:
    look, asked, text, change, changed = WORK[0]
    messages = [
        user("Go."),
        *tool_exchange(look, asked, text),
        *tool_exchange(change, changed, "ok"),
        *tool_exchange("run_checks", {"round": 1}, PAGE),
        assistant("Done."),
        user("And now?"),
    ]
    sizes = [[len(r.text) for m in passed(messages, s).messages for r in m.tool_results] for s in (0.9, 0.3, 0.2)]
    assert [size[0] == len(text) for size in sizes] == [True, False, False]
    assert sizes[0][2] > sizes[1][2] == sizes[2][2]  # the other gives all it has before this one gives any
    assert sizes[1][0] > sizes[2][0]


@pytest.mark.parametrize(("look", "asked", "text", "change", "changed"), WORK)
def test_where_not_all_of_it_can_stay_what_was_touched_last_does(
    look: str, asked: dict[str, Any], text: str, change: str, changed: dict[str, Any]
) -> None:
    older = tool_exchange("read_file", {"path": "older/notes.txt"}, PAGE[: len(text)])
    messages = [
        user("Go."),
        *older,
        *tool_exchange("edit", {"path": "older/notes.txt", "new_string": "x"}, "ok"),
        *tool_exchange(look, asked, text),
        *tool_exchange(change, changed, "ok"),
        assistant("Done."),
        user("And now?"),
    ]
    # What a record says in less is told so first; then the older text is cut.
    shares = (0.7, 0.6) if text is RECORD else (0.95, 0.9)
    results = [[r.text for m in passed(messages, s).messages for r in m.tool_results] for s in shares]
    assert all(len(texts[0]) < len(PAGE[: len(text)]) for texts in results)
    assert all(texts[2] in whole(text, 7) for texts in results)


def test_texts_are_in_the_order_in_which_calls_touched_what_they_are_about() -> None:
    messages = [
        user("Los."),
        *tool_exchange("read_file", {"path": "a.py"}, "a"),  # 1, 2
        *tool_exchange("read_file", {"path": "b.py"}, "b"),  # 3, 4
        *tool_exchange("search", {"query": "pool"}, "c"),  # about no one thing
        *tool_exchange("bash", {"command": "cd /srv/app && git log origin/v1.2"}, "c"),  # about no file
        *tool_exchange("read_file", {"path": "c.py"}, "Error: no such file"),
        *tool_exchange("get_order", {"order_id": "#W1"}, "d"),  # 11, 12
        *tool_exchange("edit", {"path": "./a.py", "new_string": "e"}, "ok"),  # 13, 14
    ]
    view = View.of(messages)
    assert list(in_hand(view)) == [14, 13, 2, 1, 12, 11, 4, 3]
