"""The contract: real agent loops against a server that refuses what the services refuse.

    class TestLangchain(AdapterContract):
        driver = LangchainDriver

in `tests/adapters/frameworks/test_NAME.py`, with the file's name in that directory's `environments.py`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from autocontext import AutoContextMemory, Msg
from autocontext.adapters.sendable import sendable
from autocontext.messages import is_pinned
from autocontext.stores import SqliteSessionStore
from autocontext.testing import assert_valid_chat
from autocontext.text.rendering import transcript
from tests.adapters.contract.driver import IMAGE_URL, WINDOW, Asked, Driver, Mode, Setup, asked, conversation, one
from tests.adapters.contract.scripted_agent import (
    DECISION,
    DIED,
    PARALLEL,
    ScriptedAgent,
    part_text,
    said_in,
    secret,
)
from tests.fakes import Close, Cut, FakeOpenAI, Hang, Raw, Reply
from tests.fakes.http_server import Item
from tests.fakes.openai_server import Turn

ROOT = Path(__file__).parents[3]
STEPS = 40
READ = f"[task 1: read {STEPS}] Read everything and tell me when you are done."
SHORT = "[task 1: read 6] Read a few parts."
OUTAGE = Raw(500, {"error": {"message": "The server had an error", "type": "server_error"}})
EMPTY = Reply(text="")
TROUBLES: dict[str, Item] = {
    "a server error": OUTAGE,
    "a timeout": Hang(600.0),  # until the server stops: an answer that came late would confuse the agent
    "a closed connection": Close(),
    "an empty answer": EMPTY,
    "a stream that breaks": Cut(Reply(text="I am about to say", tool_calls=None), events=2),
}


class AdapterContract:
    """What holds for every adapter; subclasses name their driver."""

    driver: ClassVar[type[Driver]]
    lets_numbers_pass: ClassVar[bool] = True
    """Whether the framework hands a number to a tool whose schema says string."""

    @pytest.fixture
    def agent(self) -> ScriptedAgent:
        return ScriptedAgent()

    @pytest.fixture
    def server(self, agent: ScriptedAgent) -> Iterator[FakeOpenAI]:
        with FakeOpenAI(default=agent, window=WINDOW) as service:
            yield service

    @pytest.fixture
    def setup(self, server: FakeOpenAI, tmp_path: Path) -> Setup:
        return Setup(base_url=server.base_url, store=str(tmp_path / "agent.db"))

    # ------------------------------------------------------------------------------------------------ the long run
    def test_forty_steps_in_a_small_window(
        self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup, outer_mode: Mode
    ) -> None:
        driver = self.driver(setup)
        answers = asked(driver, outer_mode, READ)
        assert answers == ["All parts of alpha are read."]
        assert (server.refused, agent.faults) == ([], [])
        assert server.largest <= WINDOW
        assert len(agent.turns) == STEPS + 1
        assert len(agent.reloaded["alpha"]) >= 2
        _check_memory(driver, parts=STEPS - 2 + sum(n - 1 for n in PARALLEL.values()))
        assert driver.memory.get_compression_events()

    def test_what_is_sent_with_the_messages_is_counted(
        self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup, mode: Mode
    ) -> None:
        driver = self.driver(replace(setup, steering=True))
        asked(driver, mode, "[task 1: greet] Hello, I am Ann.")
        [turn] = agent.turns
        counted = driver.memory.count(driver.memory.get_original_memory_msgs()[:1])
        assert turn.tokens <= counted + 20 + 5 * len(turn.tools)

    def test_nothing_of_the_framework_is_changed(self, agent: ScriptedAgent, setup: Setup) -> None:
        driver = self.driver(setup)
        if driver.history() is None:
            return
        asked(driver, _modes(driver)[0], "[task 1: read 12] Read.")
        assert driver.memory.get_compression_events()
        held = json.dumps(driver.history(), ensure_ascii=False)
        assert [n for n in range(1, 13) if json.dumps(part_text("alpha", n))[1:-1] not in held] == []
        driver.memory.compress_if_needed(force=True)
        assert json.dumps(driver.history(), ensure_ascii=False) == held

    def test_a_message_is_reloaded_by_its_number(
        self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup, mode: Mode
    ) -> None:
        driver = self.driver(setup)
        kinds = ["number", "bare"] if self.lets_numbers_pass else ["number"]
        questions = [f"[task {n}: {kind} 1] What was said first?" for n, kind in enumerate(kinds, 2)]
        answers = asked(driver, mode, "[task 1: greet] Hello, I am Ann.", *questions)
        first = transcript(driver.memory.get_original_memory_msgs()[0])
        assert answers == ["Hello from alpha.", *[first] * len(kinds)]
        assert (server.refused, agent.faults) == ([], [])

    def test_the_agent_steers_its_context(
        self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup, mode: Mode
    ) -> None:
        driver = self.driver(replace(setup, steering=True))
        answers = asked(driver, mode, "[task 1: steer] Read two parts.")
        assert answers == ["Steered alpha."]
        assert (server.refused, agent.faults) == ([], [])
        assert server.largest <= WINDOW
        memory = driver.memory
        results = [b.text for m in memory.get_original_memory_msgs() for b in m.tool_results]
        condensed, _, _, status, archived, noted, pinned, found, restored, unknown = results
        assert " of 15,500 tokens are used" in status
        assert archived.startswith("Put away ")
        assert noted.startswith("Noted (m")
        assert pinned.startswith("Pinned m1: ")
        assert secret("alpha", 1) in found
        assert restored.startswith(f"Put back {archived.split()[2].rstrip(':')} (2 messages, ")
        assert unknown.startswith("Error: there is no m999: ")
        assert condensed.startswith("Nothing was condensed: ")
        assert part_text("alpha", 1) in [b.text for m in memory.messages for b in m.tool_results]
        assert is_pinned(memory.messages[0])
        requests = [[said_in(m) for m in turn.messages] for turn in agent.turns]
        # AgentScope 2 puts hints of its own behind everything.
        assert all(sum("[Context status, not a request: " in text for text in texts[-2:]) == 1 for texts in requests)
        assert not any("Context status" in text for texts in requests for text in texts[:-2])
        assert not any("Context status" in t for m in memory.get_original_memory_msgs() for t in m.texts())
        assert json.dumps(driver.history() or "").count("Context status") == 0
        # The note stands in view word for word, however often it is condensed.
        memory.add({"role": "user", "content": "Go on."})
        for window in (4_000, 2_000):
            memory.compress_if_needed(force=True, max_token=window)
            assert any(DECISION in str(m.to_dict()) for m in memory.messages)

    def test_an_image_is_passed_through(self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup) -> None:
        driver = self.driver(setup)
        question = ("[task 1: read 6] Read a few parts. What does the picture show?", IMAGE_URL)
        answers = asked(driver, _modes(driver)[0], question, "[task 2: greet] Hello.")
        assert answers == ["All parts of alpha are read.", "Hello from alpha."]
        assert (server.refused, agent.faults) == ([], [])
        for turn in agent.turns[:7]:
            shown = [p for m in turn.messages if isinstance(m.get("content"), list) for p in m["content"]]
            assert [p["image_url"]["url"] for p in shown if p["type"] == "image_url"] == [IMAGE_URL]

    # ---------------------------------------------------------------------------------------------------- failures
    @pytest.mark.parametrize("trouble", TROUBLES)
    def test_a_failing_step_is_survived(
        self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup, trouble: str
    ) -> None:
        agent.trouble[4] = TROUBLES[trouble]
        # Every request of the conversation has to be answered within this time, on a busy machine too.
        driver = self.driver(replace(setup, timeout=6.0) if trouble == "a timeout" else setup)
        mode = next((m for m in _modes(driver) if m.endswith("stream") == ("stream" in trouble)), _modes(driver)[0])
        asked_for = (SHORT, "[task 2: read 6] Go on.", "[task 3: recall 1] And the first?")
        answers = asked(driver, mode, *asked_for)
        assert answers[1:] == ["All parts of alpha are read.", f"It is {secret('alpha', 1)}."], answers
        assert not agent.trouble, "it happened"
        assert (server.refused, agent.faults) == ([], [])
        _check_memory(driver)

    def test_a_tool_that_raises_is_survived(self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup) -> None:
        driver = self.driver(Setup(**{**vars(setup), "failing": frozenset({3, 5})}))
        answers = asked(driver, _modes(driver)[0], SHORT, "[task 2: read 6] Go on.", "[task 3: greet] Hello.")
        assert answers[-1] == "Hello from alpha.", answers
        assert (server.refused, agent.faults) == ([], [])

    # -------------------------------------------------------------------------------------------- calls in flight
    def test_a_call_in_flight_survives_the_end_of_the_process(
        self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup, mode: Mode, tmp_path: Path
    ) -> None:
        """Part 5 is called for together with part 4: step 4 calls twice."""
        outbox = tmp_path / "outbox"
        gone = elsewhere(self.driver, replace(setup, dying=frozenset({5}), outbox=str(outbox)), mode, SHORT)
        assert gone.returncode == DIED, (gone.returncode, gone.stdout, gone.stderr)
        assert outbox.read_text() == "5\n"
        driver = self.driver(setup)
        found = driver.memory.get_original_memory_msgs()
        assert [use.input["number"] for m in found for use in m.tool_uses] == [1, 2, 3, 4, 5]
        assert set(unanswered(found)) in ({5}, {4, 5})
        assert asked(driver, mode, "[task 2: greet] Hello.") == ["Hello from alpha."]
        assert (server.refused, agent.faults) == ([], [])
        assert "The process ended before a result" in answer_shown(agent.turns[-1], 5)
        assert_valid_chat(sendable(driver.memory.messages))

    def test_thirty_steps_with_the_end_of_the_process_inside_a_tool(
        self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup, tmp_path: Path
    ) -> None:
        """What was started and where the agent is stands in each request after it, too."""
        dying, mode = replace(setup, dying=frozenset({16}), outbox=str(tmp_path / "outbox")), self.driver.modes[0]
        gone = elsewhere(self.driver, dying, mode, "[task 1: work 30] Read everything.")
        assert gone.returncode == DIED, (gone.returncode, gone.stdout, gone.stderr)
        before = len(agent.turns)
        driver = self.driver(setup)
        assert asked(driver, mode, f"[task 2: read {29 - before}] Go on.") == ["All parts of alpha are read."]
        assert (server.refused, agent.faults, len(agent.turns)) == ([], [], 30)
        assert server.largest <= WINDOW
        for turn in agent.turns[before:]:
            shown = "\n".join(map(said_in, turn.messages))
            assert "feat/queue-7714" in shown
            assert "npm run dev" in shown
            assert "4821" in shown

    def test_a_turn_that_is_cancelled_keeps_its_call(
        self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup, mode: Mode, tmp_path: Path
    ) -> None:
        if not mode.startswith("async"):
            return
        outbox = tmp_path / "outbox"
        assert setup.store is not None
        store = SqliteSessionStore(setup.store)

        async def cancelled() -> tuple[list[int], Asked, list[int]]:
            driver = self.driver(replace(setup, waiting=frozenset({2}), outbox=str(outbox)))
            turn = asyncio.create_task(one(driver, mode, SHORT))
            async with asyncio.timeout(60):
                while not outbox.exists():
                    assert not turn.done(), turn.result()
                    await asyncio.sleep(0.01)
            stored = unanswered(AutoContextMemory(store=store, session_id=setup.session_id).get_original_memory_msgs())
            turn.cancel()
            await asyncio.wait([turn])
            answer = await one(driver, mode, "[task 2: greet] Hello.")
            calls = [use.input["number"] for m in driver.memory.get_original_memory_msgs() for use in m.tool_uses]
            await driver.aclose()
            return stored, answer, calls

        assert asyncio.run(cancelled()) == ([2], "Hello from alpha.", [1, 2])
        assert (server.refused, agent.faults) == ([], [])
        # Some frameworks answer such a call themselves.
        assert answer_shown(agent.turns[-1], 2)

    # ---------------------------------------------------------------------------------------------------- sessions
    def test_a_new_process_continues_the_session(self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup) -> None:
        driver = self.driver(setup)
        assert asked(driver, _modes(driver)[0], "[task 1: read 15] Read.") == ["All parts of alpha are read."]
        before = [m.to_dict() for m in driver.memory.get_original_memory_msgs()]
        offloads = {uuid: [m.to_dict() for m in found] for uuid, found in driver.memory.get_offload_context().items()}
        assert offloads
        other = continued(self.driver, setup, "[task 2: recall 2] What was the secret of part 2?")
        assert other["answers"] == [f"It is {secret('alpha', 2)}."]
        assert other["before"] == before
        assert other["offloads"] == offloads
        assert (server.refused, agent.faults) == ([], [])

    def test_two_sessions_at_once_never_meet(self, server: FakeOpenAI, agent: ScriptedAgent, setup: Setup) -> None:
        """The same session id, the same file, two users."""
        sides = {case: Setup(**{**vars(setup), "case": case, "user_id": case}) for case in ("alpha", "beta")}
        drivers = {case: self.driver(side) for case, side in sides.items()}
        mode = next((m for m in _modes(drivers["alpha"]) if m.startswith("async")), _modes(drivers["alpha"])[0])

        async def together() -> list[list[Asked]]:
            questions = ("[task 1: read 12] Read.", "[task 2: recall 3] And part 3?")
            return await asyncio.gather(*(conversation(driver, mode, *questions) for driver in drivers.values()))

        answers = asyncio.run(together())
        assert answers == [
            [f"All parts of {case} are read.", f"It is {secret(case, 3)}."] for case in ("alpha", "beta")
        ]
        assert (server.refused, agent.faults) == ([], [])
        for case, driver in drivers.items():
            other = "beta" if case == "alpha" else "alpha"
            assert f"S-{other}" not in json.dumps(driver.memory.state_dict())


def elsewhere(driver: type[Driver], setup: Setup, mode: Mode, *questions: str) -> subprocess.CompletedProcess[str]:
    """The same session in a process of its own, which has ended."""
    given = {"driver": f"{driver.__module__}:{driver.__qualname__}", "setup": asdict(setup), "mode": mode}
    return subprocess.run(
        [sys.executable, "-m", "tests.adapters.contract.other_process"],
        input=json.dumps({**given, "questions": questions}, default=sorted),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        check=False,
    )


def continued(driver: type[Driver], setup: Setup, *questions: str) -> dict[str, Any]:
    """The same session in a process of its own: its answers, and the memory as it was opened."""
    run = elsewhere(driver, setup, driver.modes[0], *questions)
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def unanswered(messages: Sequence[Msg]) -> list[int]:
    """The parts that were called for and have no result."""
    answered = {result.id for m in messages for result in m.tool_results}
    return [use.input["number"] for m in messages for use in m.tool_uses if use.id not in answered]


def answer_shown(turn: Turn, part: int) -> str:
    """What a request shows as the result of the call for a part."""
    calls = {call["id"]: call["function"] for m in turn.messages for call in m.get("tool_calls") or ()}
    [call_id] = [id_ for id_, call in calls.items() if json.loads(call["arguments"]) == {"number": part}]
    [answer] = [m["content"] for m in turn.messages if m.get("tool_call_id") == call_id]
    return str(answer)


def _modes(driver: Driver) -> list[Mode]:
    return list(type(driver).modes)


def _check_memory(driver: Driver, parts: int | None = None) -> None:
    """Every part is there as it was, once; every id is kept; the view is valid."""
    originals = driver.memory.get_original_memory_msgs()
    results = [r for m in originals for r in m.tool_results if r.text.startswith("part ")]
    texts = [r.text for r in results]
    assert len(set(texts)) == len(texts)
    assert set(texts) <= {part_text("alpha", n) for n in range(1, len(texts) + 1)}
    assert parts is None or len(texts) == parts
    assert all(r.id.startswith("call_alpha_") for r in results)
    assert len({m.id for m in originals}) == len(originals)
    assert_valid_chat(driver.memory.as_sent(driver.memory.messages))
