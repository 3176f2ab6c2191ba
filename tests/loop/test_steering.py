"""An agent that steers its context in the ready loop, with the real client against a strict server."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.extras import need

need("openai")

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.messages import is_pinned
from autocontext.testing import assert_valid_chat
from tests.fakes.http_server import Reply
from tests.fakes.openai_server import FakeOpenAI, Turn
from tests.loop.test_loop import Run, call, read_log, run

__all__ = ["run"]
NAMES = ["context_reload", "context_status", "context_archive", "context_restore", "context_pin", "context_note"]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[AutoContextMemory]:
    config = AutoContextConfig.for_window(16_000, steering=True, show_status=True)
    with AutoContextMemory.open(tmp_path / "agent.db", session_id="42", user_id="ann", config=config) as opened:
        opened.add({"role": "user", "content": "Read the logs."})
        yield opened


def script(*steps: tuple[str, dict[str, Any]]) -> Callable[[Turn], Reply]:
    """A model that makes these calls, one after the other, and then answers."""

    def answer(turn: Turn) -> Reply:
        done = sum(m["role"] == "tool" for m in turn.messages)
        done = max([done, *(int(c["id"][1:]) + 1 for m in turn.messages for c in m.get("tool_calls", ()))])
        if done >= len(steps):
            return Reply(text="Done.")
        name, arguments = steps[done]
        return Reply(text=None, tool_calls=[call(f"c{done}", name, **arguments)])

    return answer


def results(memory: AutoContextMemory) -> list[str]:
    return [b.text for m in memory.get_original_memory_msgs() for b in m.tool_results]


@pytest.mark.sampled
def test_the_agent_archives_pins_notes_searches_and_restores(run: Run, memory: AutoContextMemory) -> None:
    steps: list[tuple[str, dict[str, Any]]] = [
        ("read_log", {"day": 1}),
        ("read_log", {"day": 2}),
        ("context_status", {}),
        ("context_archive", {"messages": "m2-m3", "reason": "day 1 is done"}),
        ("context_pin", {"messages": "m1"}),
        ("context_note", {"text": "decision: only disk 74 is to be replaced"}),
        ("context_search", {"query": "day 1 ALERT disk", "limit": 1}),
        ("context_restore", {"messages": "m3"}),
    ]
    with FakeOpenAI(window=16_000, default=script(*steps)) as service:
        assert run(service.base_url, memory, [read_log]) == "Done."
        assert service.refused == []
    _, _, status, archived, pinned, noted, found, restored = results(memory)
    assert "m2-m3 read_log" in status
    assert archived.startswith("Put away m2-m3: 2 messages, ")
    assert pinned.startswith("Pinned m1:")
    assert noted.startswith("Noted (m12).")
    assert "m3 result of read_log" in found
    assert restored.startswith("Put back m2-m3 (2 messages, ")
    assert sum(map(is_pinned, memory.messages)) == 1
    assert_valid_chat(memory.messages)


@pytest.mark.sampled
def test_the_status_is_last_in_each_request_and_in_no_log(run: Run, memory: AutoContextMemory) -> None:
    with FakeOpenAI(window=16_000, default=script(("read_log", {"day": 1}), ("read_log", {"day": 2}))) as service:
        run(service.base_url, memory, [read_log])
        requests = [request.body["messages"] for request in service.requests]
        assert {tool["function"]["name"] for tool in service.requests[0].body["tools"]} >= set(NAMES)
    assert all(m[-1]["content"].startswith("[Context status, not a request: ") for m in requests)
    assert all("Context status" not in json.dumps(m[:-1]) for m in requests)
    for before, after in itertools.pairwise(requests):
        assert after[: len(before) - 1] == before[:-1]  # what the provider has cached is what is sent again
    assert not any("Context status" in text for m in memory.get_original_memory_msgs() for text in m.texts())
    assert "Context status" not in json.dumps(memory.state_dict())


@pytest.mark.slow
def test_notes_survive_a_long_run_word_for_word(run: Run, memory: AutoContextMemory) -> None:
    decision = "decision: the alerts of days 1-3 are one incident, INC-4411"
    steps: list[tuple[str, dict[str, Any]]] = [
        ("context_note", {"text": decision}),
        *(("read_log", {"day": n}) for n in range(1, 9)),
    ]
    with FakeOpenAI(window=16_000, default=script(*steps)) as service:
        run(service.base_url, memory, [read_log])
        assert service.refused == []
    memory.compress_if_needed(force=True, max_token=2_000)
    assert not any(use.name == "context_note" for m in memory.messages for use in m.tool_uses)
    assert any(decision in m.text for m in memory.messages if m.origin is not None)


@pytest.mark.sampled
def test_the_agent_condenses_between_two_tasks(run: Run, memory: AutoContextMemory) -> None:
    steps: list[tuple[str, dict[str, Any]]] = [
        ("read_log", {"day": 1}),
        ("read_log", {"day": 2}),
        ("context_condense", {"focus": "disk"}),
        ("context_condense", {"focus": "disk"}),
        ("read_log", {"day": 3}),
    ]
    with FakeOpenAI(window=16_000, default=script(*steps)) as service:
        assert run(service.base_url, memory, [read_log]) == "Done."
        assert service.refused == []
    _, _, condensed, again, _ = results(memory)
    assert re.fullmatch(r"Condensed from [\d,]+ to [\d,]+ tokens: .*m3 .*, all can be restored\.", condensed)
    assert again.startswith("Nothing was condensed: ")
    assert_valid_chat(memory.messages)


@pytest.mark.sampled
def test_compact_condenses_with_a_focus_and_asks_no_model(run: Run, memory: AutoContextMemory) -> None:
    memory.add({"role": "user", "content": "Note each odd line of a day, and why it is odd. " * 90})
    with FakeOpenAI(window=16_000, default=script(*(("read_log", {"day": n}) for n in range(1, 3)))) as service:
        run(service.base_url, memory, [read_log])
        asked = len(service.requests)
        memory.add({"role": "user", "content": "/compact day 2 line 17 request"})
        assert run(service.base_url, memory, [read_log]).startswith("Condensed from ")
        assert len(service.requests) == asked
    shown = "\n".join(text for m in memory.messages for text in m.texts())
    assert "/compact" not in shown
    assert "day 2 line 17 request" in shown
    assert_valid_chat(memory.messages)


@pytest.mark.sampled
def test_another_message_about_compact_is_for_the_model(run: Run, memory: AutoContextMemory) -> None:
    memory.add({"role": "user", "content": "/compactor is my program; what is wrong with it?"})
    with FakeOpenAI(default=lambda _: Reply(text="Nothing.")) as service:
        assert run(service.base_url, memory, []) == "Nothing."


@pytest.mark.sampled
def test_what_is_passed_with_the_tools_is_not_offered_twice(run: Run) -> None:
    memory = AutoContextMemory()
    memory.add({"role": "user", "content": "Hello"})
    with FakeOpenAI(default=lambda _: Reply(text="Hello.")) as service:
        run(service.base_url, memory, memory.tools("reload", "status"))
        names = [tool["function"]["name"] for tool in service.requests[0].body["tools"]]
    assert names == ["context_reload", "context_status"]
