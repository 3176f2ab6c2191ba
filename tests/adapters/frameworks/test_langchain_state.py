"""AutoContextMiddleware and LangGraph's state: threads, checkpoints, branches, interrupts, other middleware."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    dynamic_prompt,
)
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.adapters.langchain import AutoContextMiddleware
from autocontext.adapters.langchain_messages import from_langchain, to_langchain
from autocontext.errors import ConfigError
from autocontext.stores import SqliteSessionStore
from tests.adapters.contract.driver import ROOM, WINDOW
from tests.adapters.contract.scripted_agent import ScriptedAgent, part_text, secret
from tests.fakes import FakeOpenAI, Reply

CONFIG = AutoContextConfig.for_window(WINDOW - ROOM)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(default="Very well.", window=WINDOW) as service:
        yield service


def model(server: FakeOpenAI) -> ChatOpenAI:
    return ChatOpenAI(model="m", base_url=server.base_url, api_key="test-key", max_retries=0)


def thread(name: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": name, **more}, "recursion_limit": 500}


def said(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def calling(name: str, arguments: str = "{}", call_id: str = "c1") -> Reply:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return Reply(text=None, finish="tool_calls", tool_calls=[call])


@tool
def read_part(number: int, runtime: ToolRuntime[Any, Any]) -> str:
    """Read one part of the case."""
    return part_text(runtime.context["case"], number)


@dynamic_prompt
def case_prompt(request: Any) -> str:
    return f"You work on case {request.runtime.context['case']}."


def test_one_agent_and_two_threads_at_once(tmp_path: Path) -> None:
    brain = ScriptedAgent()
    with FakeOpenAI(default=brain, window=WINDOW) as server:
        middleware = AutoContextMiddleware(config=CONFIG, store=SqliteSessionStore(tmp_path / "agent.db"))
        agent = create_agent(
            model(server), [read_part], middleware=[case_prompt, middleware], checkpointer=InMemorySaver()
        )

        def run(case: str) -> list[str]:
            questions = ("[task 1: read 10] Read.", "[task 2: recall 3] And part 3?")
            states = [agent.invoke(said(q), thread(f"t-{case}"), context={"case": case}) for q in questions]
            return [state["messages"][-1].text for state in states]

        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(run, ("alpha", "beta")))
        assert answers == [[f"All parts of {c} are read.", f"It is {secret(c, 3)}."] for c in ("alpha", "beta")]
        assert (server.refused, brain.faults) == ([], [])
        for case in ("alpha", "beta"):
            held = agent.get_state(thread(f"t-{case}")).values["messages"]
            assert [m.id for m in middleware.memory(f"t-{case}").get_original_memory_msgs()] == [m.id for m in held]


def test_a_checkpoint_and_a_memory_hold_a_history_once(server: FakeOpenAI, tmp_path: Path) -> None:
    for question in ("one", "two", "three"):  # each with new objects, as a new process has
        with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver:
            middleware = AutoContextMiddleware(config=CONFIG, store=SqliteSessionStore(tmp_path / "agent.db"))
            agent = create_agent(model(server), [], middleware=[middleware], checkpointer=saver)
            state = agent.invoke(said(question), thread("t1", user_id="u1"))
    memory = middleware.memory("t1", "u1")
    assert [m.text for m in memory.get_original_memory_msgs()] == [m.text for m in state["messages"]]
    assert len(state["messages"]) == 6
    assert [m["content"] for m in server.requests[-1].body["messages"][1:]] == [m.text for m in state["messages"][:-1]]


def test_a_turn_that_is_taken_back_goes_out_of_view(server: FakeOpenAI) -> None:
    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [], middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke(said("one"), thread("t1"))
    state = agent.invoke(said("wrong"), thread("t1"))
    gone = [RemoveMessage(id=m.id) for m in state["messages"][2:]]
    agent.update_state(thread("t1"), {"messages": gone})
    agent.invoke(said("right"), thread("t1"))
    assert [m.text for m in middleware.memory("t1").messages] == ["one", "Very well.", "right", "Very well."]
    assert "wrong" in [m.text for m in middleware.memory("t1").get_original_memory_msgs()]
    assert "wrong" not in str(server.requests[-1].body["messages"])


def test_what_others_put_into_one_request_is_sent_and_not_remembered(server: FakeOpenAI) -> None:
    class Reminder(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(messages=[*request.messages, HumanMessage("It is noon.")]))

    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [], middleware=[Reminder(), middleware], checkpointer=InMemorySaver())
    agent.invoke(said("one"), thread("t1"))
    assert server.requests[-1].body["messages"][-1]["content"] == "It is noon."
    assert [m.text for m in middleware.memory("t1").messages] == ["one", "Very well."]


def test_a_second_compression_is_reported(server: FakeOpenAI, caplog: pytest.LogCaptureFixture) -> None:
    other = SummarizationMiddleware(model(server), trigger=("messages", 4), keep=("messages", 2))
    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [], middleware=[other, middleware], checkpointer=InMemorySaver())
    with caplog.at_level(logging.WARNING, "autocontext"):
        for question in ("one", "two", "three", "four"):
            agent.invoke(said(question), thread("t1"))
    assert ["second compression" in r.message for r in caplog.records] == [True]
    originals = [m.text for m in middleware.memory("t1").get_original_memory_msgs()]
    assert originals[::2] == ["one", "two", "three", "four"]


@pytest.mark.parametrize("first", [True, False])
def test_an_interrupted_run_goes_on(server: FakeOpenAI, first: bool) -> None:
    """What is kept is the call as it was approved, in whatever order the middleware stands."""

    @tool
    def delete(path: str) -> str:
        """Delete a file."""
        return f"{path} is gone"

    server.script([calling("delete", '{"path": "a.txt"}')])
    middleware = AutoContextMiddleware(config=CONFIG)
    approval = HumanInTheLoopMiddleware(interrupt_on={"delete": True})
    both = [middleware, approval] if first else [approval, middleware]
    agent = create_agent(model(server), [delete], middleware=both, checkpointer=InMemorySaver())
    assert "__interrupt__" in agent.invoke(said("Delete a.txt."), thread("t1"))
    edited = {"type": "edit", "edited_action": {"name": "delete", "args": {"path": "b.txt"}}}
    state = agent.invoke(Command(resume={"decisions": [edited]}), thread("t1"))
    originals = middleware.memory("t1").get_original_memory_msgs()
    assert to_langchain(originals) == state["messages"]
    assert originals[2].tool_results[0].text.endswith("b.txt is gone")


def test_an_agent_inside_an_agent_has_a_session_of_its_own(server: FakeOpenAI, tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "agent.db")
    inner = create_agent(model(server), [], middleware=[AutoContextMiddleware(config=CONFIG, store=store)])

    @tool
    def ask_expert(question: str) -> str:
        """Ask the expert."""
        return str(inner.invoke(said(question))["messages"][-1].text)

    server.script([calling("ask_expert", '{"question": "How?"}'), "Like this.", "The expert says: like this."])
    middleware = AutoContextMiddleware(config=CONFIG, store=store)
    agent = create_agent(model(server), [ask_expert], middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke(said("Ask the expert how."), thread("t1"))
    sessions = [info.session_id for info in store.sessions()]
    assert len(sessions) == 2
    assert "t1" in sessions
    texts = [m.text for m in middleware.memory("t1").messages if m.text]
    assert texts == ["Ask the expert how.", "The expert says: like this."]


def test_the_to_do_list_is_the_plan(server: FakeOpenAI) -> None:
    todos = '{"todos": [{"content": "Count the sheep", "status": "in_progress"}]}'
    server.script([calling("write_todos", todos)])
    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [], middleware=[TodoListMiddleware(), middleware])
    seen = []
    middleware._sessions.of = _watching(middleware._sessions.of, seen)
    agent.invoke(said("Count."))
    assert [task.name for task in seen[-1]._pass_runner.plan.subtasks] == ["Count the sheep"]


def _watching(of: Any, seen: list[AutoContextMemory]) -> Any:
    def watched(*args: Any, **named: Any) -> AutoContextMemory:
        seen.append(of(*args, **named))
        return seen[-1]

    return watched


def test_runs_without_a_thread_are_let_go(server: FakeOpenAI, tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "agent.db")
    middleware = AutoContextMiddleware(config=CONFIG, store=store)
    agent = create_agent(model(server), [], middleware=[middleware])
    history = said("one")["messages"]
    for question in ("two", "three"):
        history = agent.invoke({"messages": [*history, HumanMessage(question)]})["messages"]
    assert isinstance(history[-1], AIMessage)
    assert (dict(middleware._sessions._memories._values), store.sessions()) == ({}, [])
    assert [m["content"] for m in server.requests[-1].body["messages"][1:]] == ["one", "two", "Very well.", "three"]


def test_a_bound_middleware_refuses_a_second_thread(server: FakeOpenAI) -> None:
    agent = create_agent(
        model(server), [], middleware=[AutoContextMiddleware(session_id="s1")], checkpointer=InMemorySaver()
    )
    agent.invoke(said("one"), thread("t1"))
    with pytest.raises(ConfigError, match=r"bound to one conversation \('t1'\)"):
        agent.invoke(said("two"), thread("t2"))
    with pytest.raises(ConfigError, match="config, session_id: the memory that is passed"):
        AutoContextMiddleware(AutoContextMemory(), config=CONFIG, session_id="s1")


def test_a_memory_of_ones_own(server: FakeOpenAI) -> None:
    memory = AutoContextMemory(CONFIG)
    memory.add_messages(from_langchain([HumanMessage("My name is Ada."), AIMessage("Hello Ada.")]))
    agent = create_agent(model(server), [], middleware=[AutoContextMiddleware(memory)])
    agent.invoke(said("Who am I?"))
    sent = [m["content"] for m in server.requests[-1].body["messages"][1:]]
    assert sent == ["My name is Ada.", "Hello Ada.", "Who am I?"]


def test_a_call_that_a_crash_left_open_is_answered(server: FakeOpenAI) -> None:
    @tool
    def explode() -> str:
        """Raise."""
        raise RuntimeError("no")

    server.script([calling("explode")])
    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [explode], middleware=[middleware], checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError, match="no"):
        agent.invoke(said("Go."), thread("t1"))
    state = agent.invoke(said("Still there?"), thread("t1"))
    assert state["messages"][-1].text == "Very well."
    assert server.refused == []
    assert [m["role"] for m in server.requests[-1].body["messages"]] == ["system", "user", "assistant", "tool", "user"]


@pytest.mark.parametrize("durability", ["exit", "async", "sync"])
def test_a_thread_without_the_call_does_not_take_it_back(server: FakeOpenAI, durability: Any) -> None:
    """With "exit" the checkpoint of a run that was cancelled holds nothing of it."""
    server.script(["Very well.", calling("send")])

    async def cancelled() -> None:
        sending = asyncio.Event()

        @tool
        async def send() -> str:
            """Send a letter."""
            sending.set()
            await asyncio.Event().wait()
            return "sent"

        middleware = AutoContextMiddleware(config=CONFIG)
        agent = create_agent(model(server), [send], middleware=[middleware], checkpointer=InMemorySaver())
        await agent.ainvoke(said("one"), thread("t1"), durability=durability)
        run = asyncio.create_task(agent.ainvoke(said("Send it."), thread("t1"), durability=durability))
        await asyncio.wait_for(sending.wait(), 60)
        assert [use.name for m in middleware.memory("t1").messages for use in m.tool_uses] == ["send"]
        run.cancel()
        await asyncio.wait([run])
        await agent.ainvoke(said("Was it sent?"), thread("t1"), durability=durability)

    asyncio.run(cancelled())
    shown = server.requests[-1].body["messages"][1:]
    assert [m["role"] for m in shown] == ["user", "assistant", "user", "assistant", "tool", "user"]
    assert "The process ended before a result" in shown[4]["content"]
    assert server.refused == []


def test_parallel_calls_are_kept_once(server: FakeOpenAI) -> None:
    """Each call runs in a thread of its own, and each finds all of them in the memory."""
    found: list[list[str]] = []

    @tool
    def look(runtime: ToolRuntime[Any, Any]) -> str:
        """Look."""
        del runtime
        found.append([use.id for m in middleware.memory("t1").messages for use in m.tool_uses])
        return "seen"

    function = {"name": "look", "arguments": "{}"}
    calls = [{"id": f"c{n}", "type": "function", "function": function} for n in range(8)]
    server.script([Reply(text=None, finish="tool_calls", tool_calls=calls)])
    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [look], middleware=[middleware], checkpointer=InMemorySaver())
    state = agent.invoke(said("Look."), thread("t1"))
    assert found == [[call["id"] for call in calls]] * 8
    assert to_langchain(middleware.memory("t1").get_original_memory_msgs()) == state["messages"]


def test_a_run_that_began_without_the_middleware_goes_on_with_it(server: FakeOpenAI) -> None:
    @tool
    def delete(path: str) -> str:
        """Delete a file."""
        return f"{path} is gone"

    server.script([calling("delete", '{"path": "a.txt"}')])
    approval, saver = HumanInTheLoopMiddleware(interrupt_on={"delete": True}), InMemorySaver()
    before = create_agent(model(server), [delete], middleware=[approval], checkpointer=saver)
    assert "__interrupt__" in before.invoke(said("Delete a.txt."), thread("t1"))
    middleware = AutoContextMiddleware(config=CONFIG)
    after = create_agent(model(server), [delete], middleware=[approval, middleware], checkpointer=saver)
    state = after.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread("t1"))
    assert to_langchain(middleware.memory("t1").get_original_memory_msgs()) == state["messages"]
    assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "ai"]


def test_processes_that_take_turns_on_a_thread_keep_its_messages_once(server: FakeOpenAI, tmp_path: Path) -> None:
    """Each has memories of its own; the checkpoint holds what the other one has said meanwhile."""
    saver = InMemorySaver()
    workers = [AutoContextMiddleware(config=CONFIG, store=SqliteSessionStore(tmp_path / "agent.db")) for _ in range(2)]
    agents = [create_agent(model(server), [], middleware=[worker], checkpointer=saver) for worker in workers]
    for i, question in enumerate(("one", "two", "three", "four")):
        state = agents[i % 2].invoke(said(question), thread("t1"))
    assert to_langchain(workers[1].memory("t1").get_original_memory_msgs()) == state["messages"]
    assert [m["content"] for m in server.requests[-1].body["messages"][1::2]] == ["one", "two", "three", "four"]


def test_without_the_reload_tool_nothing_tells_to_call_it(server: FakeOpenAI, caplog: pytest.LogCaptureFixture) -> None:
    class Selector(AgentMiddleware):
        """Takes tools away, as LLMToolSelectorMiddleware does."""

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tools=[t for t in request.tools if t.name != "context_reload"]))

    middleware = AutoContextMiddleware(config=CONFIG)
    for rest, offered in (([], True), ([Selector()], False)):
        agent = create_agent(model(server), [read_part], middleware=[*rest, middleware], system_prompt="You help.")
        agent.invoke(said("word " * 13_000), thread("t1"))
        agent.invoke(said("And now?"), thread("t1"))
        body = server.requests[-1].body
        assert ("context_reload" in [t["function"]["name"] for t in body["tools"]]) == offered
        assert ("context_reload" in str(body["messages"])) == offered
        assert body["messages"][0]["content"].startswith("You help.")
        told = [r.levelname for r in caplog.records if "context_reload" in r.getMessage()]
        assert told == ([] if offered else ["WARNING"])
