"""What the model has not read yet is cut last, and no further than the window asks for."""

import json

import pytest

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.testing import assistant, system, tool_call, tool_exchange, tool_result, user
from tests.invariants import unreachable
from tests.production.agents import small

BYTES = "bytes4"
CODE = "\n".join(
    f"{n:5}\tdef step_{n}(self, value): return self.table[{n}].get(value, {n * 7})" for n in range(1, 2_500)
)
LOG = "\n".join(f"12:{n // 60:02}:{n % 60:02} worker-{n % 7} took job {n * 31} from queue orders" for n in range(3_000))
ORDERS = json.dumps([{"id": f"#W{n * 977}", "status": ("offen", "storniert")[n % 2], "sum": n} for n in range(3_000)])
KINDS = [
    ("read_file", {"path": "src/steps.py"}, CODE),
    ("bash", {"command": "journalctl"}, LOG),
    ("查询订单", {}, ORDERS),
]


@pytest.mark.sampled
@pytest.mark.parametrize("window", [4_000, 16_000])
@pytest.mark.parametrize(("tool", "arguments", "text"), KINDS)
def test_beside_little_else_a_new_result_fills_the_window(
    tool: str, arguments: dict[str, str], text: str, window: int
) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(window, token_counter=BYTES))
    memory.add_messages([user("What stands there?"), *tool_exchange(tool, arguments, text)])
    memory.get_messages()
    assert 0.72 * window < memory.token_count <= window
    assert unreachable(memory, memory.get_original_memory_msgs()) == []


def test_beside_much_else_it_keeps_half_of_the_room() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, token_counter=BYTES))
    before = [
        m for n in range(12) for m in tool_exchange("bash", {"command": f"make part{n}"}, f"part {n} built\n" * 60)
    ]
    memory.add_messages([user("Build it."), *before, *tool_exchange("bash", {"command": "cat log"}, LOG)])
    result = memory.get_messages()[-1].tool_results[0].text
    assert 4 * 4_000 * 0.4 < len(result) < 4 * 4_000 * 0.6


@pytest.mark.parametrize(("words", "times"), [("weil es so ist ", 110), ("ponieważ tak ", 130), ("def f(x): ", 160)])
def test_what_was_read_gives_way_before_a_new_result_does(words: str, times: int) -> None:
    memory = AutoContextMemory(small(strategies=()))
    # Between messages that stay, one alone is not worth a note.
    said = [m for n in range(4) for m in (assistant(f"{n}: " + words * times), system(f"Rule {n}."))]
    new = "".join(f"line {n} of the report that the next step is about\n" for n in range(80))
    memory.add_messages([user("Go on."), *said, tool_call("report", {}, id="c"), tool_result("c", new)])
    memory.compress_if_needed()
    assert memory.token_count <= memory.config.max_token
    assert memory.messages[-1].tool_results[0].text == new
    long = [m.text for m in memory.messages if m.role == "assistant" and m.text]
    assert len(long) == 4
    assert all(len(text) < 1_100 for text in long)
    assert unreachable(memory, memory.get_original_memory_msgs()) == []


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("paths", "question"),
    [
        ("/srv/store/history/2026-02-20-session-{0}.md /srv/store/debug/{0}/debug.log", "Got no match, why?"),
        ("Rechnung R-2026-{0} vom Lager in der Kastanienallee {0}", "Warum stimmt die Summe nicht?"),
        ("订单号 #W{0}77，客户编号 C-{0}", "为什么没有退款？"),
    ],
)
@pytest.mark.parametrize("times", [6, 14])
def test_a_short_request_stays_whole_whatever_the_results_need(paths: str, question: str, times: int) -> None:
    """Its beginning alone would not say what is asked."""
    request = " ".join(paths.format(n) for n in range(times)) + f"\n{question}"
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, token_counter=BYTES))
    memory.add_message(user(request))
    for n in range(1, 9):
        memory.add_messages(
            tool_exchange("read_file", {"path": f"part{n}.md"}, CODE[n * 977 : n * 977 + 12_900 + 400 * n])
        )
        view = memory.get_messages()
        assert view[0].text == request
        assert memory.token_count <= memory.config.max_token
        if n % 3 == 0:
            memory.add_messages([assistant(f"Part {n} is read."), user("Go on.")])


def test_where_nothing_else_is_left_the_user_s_messages_are_cut_too() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(1_200, token_counter=BYTES))
    asked = [m for n in range(4) for m in (user(f"{n}: " + "please look " * 100), system(f"Rule {n}."))]
    memory.add_messages([*asked, *tool_exchange("read_file", {"path": "a"}, CODE[:4_000]), assistant("Read.")])
    memory.compress_if_needed()
    assert memory.token_count <= memory.config.max_token
    assert unreachable(memory, memory.get_original_memory_msgs()) == []


@pytest.mark.parametrize("window", [4_000, 8_000])
@pytest.mark.parametrize(("tool", "arguments", "text"), KINDS)
def test_of_a_new_call_and_its_result_the_result_keeps_twice_as_much(
    tool: str, arguments: dict[str, str], text: str, window: int
) -> None:
    plan = "\n".join(f"Step {n}: look at what part {n} of the plan of the day says." for n in range(3 * window // 60))
    memory = AutoContextMemory(AutoContextConfig.for_window(window, token_counter=BYTES))
    call = tool_call(tool, {**arguments, "context": plan}, id="c")
    memory.add_messages([user("What stands there?"), call, tool_result("c", text[: 4 * window])])
    view = memory.get_messages()
    (use,), (result,) = view[-2].tool_uses, view[-1].tool_results
    assert 1.6 * len(use.input["context"]) < len(result.text) < len(text[: 4 * window])
    assert memory.token_count <= window
    assert unreachable(memory, memory.get_original_memory_msgs()) == []
