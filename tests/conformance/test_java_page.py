"""Each row of "What differs" on the page for AgentScope-Java's users: what happens by default, and with its setting."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, CompressionReport, ContextOffloadTool, ImageBlock, Msg
from autocontext.testing import ScriptedModel, assistant, tool_call, tool_exchange, tool_result, user

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "from-agentscope-java.md").read_text("utf-8")
WHAT_DIFFERS = PAGE.split("## What differs")[1].split("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in WHAT_DIFFERS.splitlines()
    if line.startswith("| ")
][2:]
SETTINGS = [row[-1].strip("`") for row in ROWS]
MODULE = "import re\n" * 120
SMALL = {"msg_threshold": 10, "last_keep": 2, "min_compression_token_threshold": 0}


def memory_of(fields: dict[str, Any], messages: list[Msg], model: ScriptedModel | None = None) -> AutoContextMemory:
    memory = AutoContextMemory(AutoContextConfig(**fields), model or ScriptedModel("SUMMARY"))
    memory.add_messages(messages)
    return memory


def a_round(number: int, calls: int = 1, text: str = MODULE) -> list[Msg]:
    reads = [tool_exchange("read_file", {"path": f"src/{number}_{n}.py"}, text) for n in range(calls)]
    return [user(f"Read {number}."), *(m for read in reads for m in read), assistant(f"Read {number}, nothing odd.")]


def rounds(*calls: int) -> list[Msg]:
    return [m for number, n in enumerate(calls) for m in a_round(number, n)]


def applied(report: CompressionReport) -> list[str]:
    return [s.name for s in report.strategies if s.applied]


def strategies_of_one_pass(**fields: Any) -> list[str]:
    messages = [*rounds(6, 6), *rounds(1, 1)]
    base = SMALL | {"last_resort": False}
    return applied(memory_of(base | fields, messages).compress_if_needed())


def messages_after_a_pass(**fields: Any) -> bool:
    """Whether a pass leaves less than 0.8 of the trigger: the first strategy alone gets just under it."""
    memory = memory_of({"msg_threshold": 20, "last_keep": 2} | fields, [*rounds(4), *rounds(1, 1, 1, 1)])
    return memory.compress_if_needed().messages_after < 16


def the_house_rules(**fields: Any) -> bool:
    """Whether the text of an AGENTS.md is in view after a pass."""
    house = [user("Begin."), *tool_exchange("read_file", {"path": "AGENTS.md"}, MODULE), assistant("I have read it.")]
    memory = memory_of(SMALL | fields, [*house, *rounds(4, 1)])
    memory.compress_if_needed()
    return any(result.text == MODULE for m in memory.messages[:4] for result in m.tool_results)


def a_fold(**fields: Any) -> list[str]:
    """Plain talk has nothing for the five strategies."""
    talk = [m for n in range(12) for m in (user(f"Question {n}?"), assistant(f"Answer {n}. " + "As I said. " * 30))]
    return applied(memory_of({"msg_threshold": 20} | fields, talk).compress_if_needed())


def lines_by_rule_in_a_note(**fields: Any) -> bool:
    memory = memory_of(SMALL | fields, rounds(4, 1))
    memory.compress_if_needed()
    (note,) = [m for m in memory.messages if "SUMMARY" in m.text]
    return "read_file src/0_3.py" in note.text


def short_rounds(**fields: Any) -> list[str]:
    messages = [m for n in range(10) for m in a_round(n)]
    return applied(memory_of({"msg_threshold": 30, "last_keep": 10} | fields, messages).compress_if_needed())


def unread_result_after_strategy_5(**fields: Any) -> bool:
    """Whether the result that the model has not answered stays in view."""
    messages = [
        user("Fix it."),
        *(m for n in range(4) for m in tool_exchange("read_file", {"path": f"{n}.py"}, MODULE)),
    ]
    memory = memory_of({"msg_threshold": 8, "strategies": ("current_round",), "last_resort": False} | fields, messages)
    memory.compress_if_needed()
    return any(result.text == MODULE for m in memory.messages for result in m.tool_results)


def role_of_a_note(**fields: Any) -> str:
    base = SMALL | {"strategies": ("tool_runs",)}
    memory = memory_of(base | fields, rounds(4, 1))
    memory.compress_if_needed()
    return next(m.role for m in memory.messages if "SUMMARY" in m.text)


def view_after_a_failure(**fields: Any) -> bool:
    """Whether a pass whose model fails changes the view."""
    model = ScriptedModel(TimeoutError("slow"))
    base = SMALL | {"model_retries": 0}
    return bool(memory_of(base | {"last_resort": False} | fields, rounds(4, 1), model).compress_if_needed())


def attempts_and_patience(**fields: Any) -> tuple[int, float]:
    """Requests for one question that fails, and the seconds that each may take."""
    model = ScriptedModel(TimeoutError("slow"))
    base = SMALL | {"strategies": ("tool_runs",)}
    memory = memory_of(base | {"last_resort": False} | fields, rounds(4, 1), model)
    memory.compress_if_needed()
    return len(model.requests), memory.config.model_timeout


def requests_for_a_long_transcript(**fields: Any) -> bool:
    """Whether it takes several."""
    model = ScriptedModel("SUMMARY")
    base = {"max_token": 4_000, "strategies": ("rounds",), "last_resort": False}
    memory_of(base | fields, [*a_round(0, 4, MODULE * 3), *a_round(1)], model).compress_if_needed(force=True)
    return len(model.requests) > 1


def images_in_view(**fields: Any) -> int:
    """How many of five photographs of 1.2 MB each are left when the model has answered the request."""
    photograph = ImageBlock(source={"type": "base64", "media_type": "image/jpeg", "data": "/9j/" * 400_000})
    memory = memory_of(fields, [Msg(role="user", content=[photograph] * 5), assistant("Five cats.")])
    return sum(block.type == "image" for m in memory.get_messages() for block in m.content)


def rounds_asked_at_once(**fields: Any) -> bool:
    model = ScriptedModel("SUMMARY", latency=0.05)
    base = SMALL | {"strategies": ("rounds",)}
    memory_of(base | fields, rounds(4, 4, 4, 1), model).compress_if_needed()
    return model.max_concurrent > 1


def tokens_of_hello(**fields: Any) -> int:
    return memory_of(fields, [Msg(role="user", content="Hello, world!")]).token_count


def a_reloaded_page(**fields: Any) -> bool:
    """Whether it is in view after the model has answered it with another call."""
    base = {"msg_threshold": 6, "strategies": ("current_round",), "last_resort": False}
    memory = memory_of({"large_payload_threshold": 300} | base | fields, [user("What was it?")])
    memory.offload("0b9d4f3e-7c1a-4b52-9a3f-2f6f0a1f7d11", [user(MODULE)])
    page = ContextOffloadTool(memory)("0b9d4f3e-7c1a-4b52-9a3f-2f6f0a1f7d11")
    memory.add_messages([tool_call("context_reload", {"working_context_offload_uuid": "0b9d4f3e"}, id="call_r")])
    memory.add_messages([tool_result("call_r", page), *tool_exchange("read_file", {"path": "a.py"}, "pass")])
    memory.add_messages(tool_exchange("read_file", {"path": "b.py"}, "pass"))
    memory.compress_if_needed()
    return any(result.text == page for m in memory.messages for result in m.tool_results)


FOUR = ["tool_runs", "rounds"]
EXPERIMENTS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    'escalation="single"': (strategies_of_one_pass, FOUR, ["tool_runs"]),
    "target_ratio=1.0": (messages_after_a_pass, True, False),
    "last_resort=False": (a_fold, ["fold"], []),
    'min_compression_token_threshold=5000, escalation="single", last_resort=False': (short_rounds, ["rounds"], []),
    'keep_unread=False, note_role="assistant"': (unread_result_after_strategy_5, True, False),
    'note_role="assistant"': (role_of_a_note, "user", "assistant"),
    "ledger_ratio=0.0": (lines_by_rule_in_a_note, True, False),
    "extractive_fallback=False": (view_after_a_failure, True, False),
    "model_timeout=30.0, model_retries=0": (attempts_and_patience, (3, 60.0), (1, 30.0)),
    "summary_max_input_tokens=2147483647": (requests_for_a_long_transcript, True, False),
    "max_parallel_summaries=1": (rounds_asked_at_once, True, False),
    "max_request_bytes=None": (images_in_view, 1, 5),
    'token_counter="agentscope_java"': (tokens_of_hello, 8, 15),
    "protected_tools=frozenset()": (a_reloaded_page, True, False),
    "instruction_sources=()": (the_house_rules, True, False),
}


@pytest.mark.parametrize("setting", EXPERIMENTS)
def test_a_row_s_setting_brings_the_original_s_behaviour_back(setting: str) -> None:
    observed, here, original = EXPERIMENTS[setting]
    assert observed() == here
    assert observed(**eval(f"dict({setting})")) == original  # noqa: S307 (a key of the table above)


def test_every_row_is_tried() -> None:
    assert sorted(SETTINGS) == sorted(EXPERIMENTS)


SAME = "recorded-as-surprising-and-the-same-here"


def test_the_sections_of_corrections_are_linked() -> None:
    """They name a test a line, which `test_quirks.py` compares with the tests."""
    sections = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-"): body for h, body in _sections()}
    linked = re.findall(r"reference-differences\.md#([\w-]+)\)", WHAT_DIFFERS)
    assert {*linked} == {name for name, body in sections.items() if ": `test_" in body} - {SAME}


def _sections() -> list[tuple[str, str]]:
    parts = (DOCS / "reference-differences.md").read_text("utf-8").split("\n## ")[1:]
    return [(part.partition("\n")[0], part) for part in parts]


def test_the_table_has_every_field_that_the_preset_changes() -> None:
    default, preset = AutoContextConfig(), AutoContextConfig.agentscope_java()
    changed = {f for f in AutoContextConfig.model_fields if getattr(default, f) != getattr(preset, f)}
    assert changed <= {field for setting in SETTINGS for field in re.findall(r"(\w+)=", setting)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_preset_has_the_settings_of_all_rows_that_are_not_marked(row: list[str]) -> None:
    fields = eval(f"dict({row[-1].strip('`')})")  # noqa: S307 (checked above)
    preset = AutoContextConfig.agentscope_java()
    assert all(getattr(preset, field) == value for field, value in fields.items()) == ("¹" not in row[0])
