"""AutoContextMiddleware and LangGraph's state: threads, checkpoints, branches, interrupts, other middleware."""

from __future__ import annotations

import asyncio
import json
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
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain.tools import ToolRuntime
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt
from openai import BadRequestError
from pydantic import BaseModel, Field

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.adapters.langchain import AutoContextMiddleware
from autocontext.adapters.langchain_messages import from_langchain, to_langchain
from autocontext.errors import ConfigError
from autocontext.stores import SqliteSessionStore
from tests.adapters.contract.driver import ROOM, WINDOW
from tests.adapters.contract.scripted_agent import ScriptedAgent, part_text, secret
from tests.adapters.frameworks.test_langchain import chat_openai
from tests.fakes import FakeOpenAI, Reply
from tests.fakes.http_server import Raw

CONFIG = AutoContextConfig.for_window(WINDOW - ROOM)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(default="Very well.", window=WINDOW) as service:
        yield service


def model(server: FakeOpenAI) -> ChatOpenAI:
    return chat_openai(server.base_url)


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


@pytest.mark.parametrize("removed", ["first", "middle", "last", "answers", "all"])
def test_what_is_removed_from_a_thread_goes_out_of_view_wherever_it_stood(server: FakeOpenAI, removed: str) -> None:
    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [], middleware=[middleware], checkpointer=InMemorySaver())
    for question in ("one", "two", "three"):
        state = agent.invoke(said(question), thread("t1"))
    kinds = {"first": slice(2), "middle": slice(2, 4), "last": slice(4, 6), "answers": slice(1, 6, 2)}
    gone = [m.id for m in state["messages"][kinds[removed]]] if removed in kinds else [REMOVE_ALL_MESSAGES]
    agent.update_state(thread("t1"), {"messages": [RemoveMessage(id=id_) for id_ in gone]})
    for question in ("four", "five"):
        state = agent.invoke(said(question), thread("t1"))
        request = [m["content"] for m in server.requests[-1].body["messages"][1:]]
        assert request == [m.text for m in state["messages"][:-1]]
    assert [m.text for m in middleware.memory("t1").get_original_memory_msgs()][:6:2] == ["one", "two", "three"]


def test_a_checkpointer_that_forgets_takes_nothing_out_of_view(server: FakeOpenAI) -> None:
    """InMemorySaver after a restart, beside a memory in a file."""
    middleware = AutoContextMiddleware(config=CONFIG)
    for question in ("one", "two", "three", "four"):
        if question in ("one", "three"):
            agent = create_agent(model(server), [], middleware=[middleware], checkpointer=InMemorySaver())
        agent.invoke(said(question), thread("t1"))
    assert [m.text for m in middleware.memory("t1").messages][::2] == ["one", "two", "three", "four"]


def test_a_branch_that_comes_back_is_in_view_again(server: FakeOpenAI) -> None:
    """LangGraph's time travel: runs go on from checkpoints of two branches, in turn."""
    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [], middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke(said("plan a trip"), thread("t1"))
    start = agent.get_state(thread("t1")).config
    states = {}
    for city in ("Rome", "Oslo"):
        agent.invoke(said(f"to {city}"), start)
        states[city] = agent.get_state(thread("t1")).config
    for city in ("Rome", "Oslo", "Rome"):
        state = agent.invoke(said("where to?"), states[city])
        states[city] = agent.get_state(thread("t1")).config
        request = [m["content"] for m in server.requests[-1].body["messages"][1:]]
        assert request == [m.text for m in state["messages"][:-1]]
        assert f"to {city}" in request


@tool
def book(city: str) -> str:
    """Book a hotel."""
    return f"booked {city}"


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("node", ["model", "tools"])
@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("named", [True, False])
def test_a_checkpoint_within_a_run_takes_back_what_came_after_it(
    server: FakeOpenAI, node: str, *, later: bool, edited: bool, named: bool
) -> None:
    """LangGraph's time travel: such a run does not begin anew, and goes on in the middle of another one."""
    server.script([calling("book", '{"city": "Rome"}'), "Rome is booked.", *(["Well?"] if later else [])])
    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [book], middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke(said("Book a hotel."), thread("t1"))
    if later:
        agent.invoke(said("Rome?"), thread("t1"))
    start = [s for s in agent.get_state_history(thread("t1")) if s.next == (node,)][-1]
    question, *calls = start.values["messages"]
    config = start.config
    if edited or not named:
        call = {"name": "book", "args": {"city": "Oslo" if edited else "Rome"}, "id": "c1"}
        changed = [AIMessage("", id=m.id, tool_calls=[call]) for m in calls] or [question]
        config = agent.update_state(config, {"messages": changed})
    state = agent.invoke(None, config if named else thread("t1"))
    for _ in range(2):
        request = server.requests[-1].body["messages"][1:]
        assert [m["content"] or "" for m in request] == [m.text for m in state["messages"][:-1]]
        cities = [c["function"]["arguments"] for m in request for c in m.get("tool_calls", ())]
        assert cities == [json.dumps(c["args"]) for m in state["messages"] for c in getattr(m, "tool_calls", ())]
        state = agent.invoke(said("Next?"), thread("t1"))
    originals = [m.text for m in middleware.memory("t1").get_original_memory_msgs()]
    assert "Rome is booked." in originals


def test_what_a_tool_adds_to_the_memory_stays_in_view(server: FakeOpenAI) -> None:
    @tool
    def look() -> str:
        """Look."""
        middleware.memory("t1").add({"role": "user", "content": "By the way, it is noon."})
        return "seen"

    server.script([calling("look"), calling("look", call_id="c2")])
    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [look], middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke(said("Look twice."), thread("t1"))
    assert str(server.requests[-1].body["messages"]).count("By the way, it is noon.") == 2


# ------------------------------------------------------------------------------------------------ a run that waits
@tool
def ask() -> str:
    """Ask the user."""
    return f"The user says {interrupt('?')}."


def as_sent(messages: list[Any]) -> list[Any]:
    """What messages of a state, or of a request, say and call."""
    calls = [m["tool_calls"] if isinstance(m, dict) and "tool_calls" in m else [] for m in messages]
    return [
        (m["content"] or "", [json.loads(c["function"]["arguments"]) for c in made])
        if isinstance(m, dict)
        else (m.text, [c["args"] for c in getattr(m, "tool_calls", ())])
        for m, made in zip(messages, calls, strict=True)
    ]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("same_id", [False, True])
def test_going_back_within_a_run_that_waits(
    server: FakeOpenAI, tmp_path: Path, *, same_id: bool, restarted: bool
) -> None:
    """The checkpoint is not named: LangGraph goes on from the newest, which `update_state` has made."""

    def agent_of() -> Any:
        middleware = AutoContextMiddleware(config=CONFIG, store=SqliteSessionStore(tmp_path / "agent.db"))
        return create_agent(model(server), [book, ask], middleware=[middleware], checkpointer=saver)

    saver = InMemorySaver()
    agent = agent_of()
    server.script([calling("book", '{"city": "Rome"}'), calling("ask", call_id="c2"), "Oslo is booked.", "Rome it is."])
    agent.invoke(said("Book a hotel."), thread("t1"))
    start = [s for s in agent.get_state_history(thread("t1")) if s.next == ("tools",)][-1]
    first = start.values["messages"][-1]
    call = {"name": "book", "args": {"city": "Oslo"}, "id": "c9"}
    changed = [AIMessage("", id=first.id, tool_calls=[call])]
    if not same_id:
        changed = [RemoveMessage(first.id), AIMessage("", tool_calls=[call])]
    agent.update_state(start.config, {"messages": changed}, as_node="model")
    for config in (thread("t1"), start.config):  # to the new branch, and back to the one that was left
        agent = agent_of() if restarted else agent
        state = agent.invoke(None, config)
        assert as_sent(server.requests[-1].body["messages"][1:]) == as_sent(state["messages"][:-1])
        state = agent.invoke(said("Next?"), thread("t1"))
        assert as_sent(server.requests[-1].body["messages"][1:]) == as_sent(state["messages"][:-1])
    assert server.refused == []


@pytest.mark.parametrize("resumed", ["here", "by its checkpoint", "in another process"])
def test_what_the_application_says_while_a_run_waits_stays_in_view(
    server: FakeOpenAI, tmp_path: Path, resumed: str
) -> None:
    @tool
    def upload() -> str:
        """Take a file."""
        workers[0].memory("t1").add({"role": "user", "content": "The invoice: 4711 EUR."})
        return "taken"

    def agent_of() -> Any:
        workers.insert(0, AutoContextMiddleware(config=CONFIG, store=SqliteSessionStore(tmp_path / "agent.db")))
        return create_agent(model(server), [upload, ask], middleware=workers[:1], checkpointer=saver)

    workers: list[AutoContextMiddleware] = []
    saver = InMemorySaver()
    agent = agent_of()
    server.script([calling("upload"), calling("ask", call_id="c2")])
    agent.invoke(said("Pay it."), thread("t1"))
    workers[0].memory("t1").add({"role": "user", "content": "Pay in EUR only."})
    if resumed == "in another process":
        agent = agent_of()
    config = agent.get_state(thread("t1")).config if resumed == "by its checkpoint" else thread("t1")
    agent.invoke(Command(resume="yes"), config)
    for _ in range(2):
        request = str(server.requests[-1].body["messages"])
        assert ("4711" in request, "EUR only" in request, "The user says yes." in request) == (True, True, True)
        agent.invoke(said("And now?"), thread("t1"))


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_removed_while_a_run_waits_goes_out_of_view(
    server: FakeOpenAI, tmp_path: Path, *, restarted: bool
) -> None:
    def agent_of() -> Any:
        middleware = AutoContextMiddleware(config=CONFIG, store=SqliteSessionStore(tmp_path / "agent.db"))
        return create_agent(model(server), [ask], middleware=[middleware], checkpointer=saver)

    saver = InMemorySaver()
    agent = agent_of()
    server.script(["Noted.", calling("ask")])
    agent.invoke(said("My password is hunter2."), thread("t1"))
    state = agent.invoke(said("Go."), thread("t1"))
    gone = [RemoveMessage(id=m.id) for m in state["messages"][:2]]
    agent.update_state(thread("t1"), {"messages": gone}, as_node="model")
    agent = agent_of() if restarted else agent
    agent.invoke(None, thread("t1"))
    state = agent.invoke(Command(resume="yes"), thread("t1"))
    assert as_sent(server.requests[-1].body["messages"][1:]) == as_sent(state["messages"][:-1])
    assert state["messages"][0].text == "Go."


def test_a_second_compression_within_a_run_takes_nothing_out_of_view(server: FakeOpenAI) -> None:
    """Its summaries are left out."""
    server.script([calling("book", json.dumps({"city": f"city {i}"}), f"c{i}") for i in range(6)])
    with FakeOpenAI(default="A summary.", window=WINDOW) as service:
        other = SummarizationMiddleware(model(service), trigger=("messages", 4), keep=("messages", 2))
        middleware = AutoContextMiddleware(config=CONFIG)
        agent = create_agent(model(server), [book], middleware=[other, middleware], checkpointer=InMemorySaver())
        agent.invoke(said("Book six hotels."), thread("t1"))
        assert service.requests
    request = str(server.requests[-1].body["messages"])
    assert "Book six hotels." in request
    assert all(f"booked city {i}" in request for i in range(6))


@pytest.mark.parametrize("fails", [False, True])
def test_a_summary_right_before_the_new_message_is_left_out(
    server: FakeOpenAI, caplog: pytest.LogCaptureFixture, *, fails: bool
) -> None:
    """Nothing behind it is known then. Also where a run fails behind it."""
    with FakeOpenAI(default="A summary.", window=WINDOW) as service:
        other = SummarizationMiddleware(model(service), trigger=("messages", 3), keep=("messages", 1))
        middleware = AutoContextMiddleware(config=CONFIG)
        agent = create_agent(model(server), [], middleware=[other, middleware], checkpointer=InMemorySaver())
        questions = ["one", "two", "three", "four", "five"]
        for question in questions:
            if fails and question == "three":
                server.script([Raw(400, {"error": {"message": "no such thing"}})])
                with pytest.raises(BadRequestError):
                    agent.invoke(said(question), thread("t1"))
            else:
                state = agent.invoke(said(question), thread("t1"))
        assert service.requests
        assert "A summary." in str(state["messages"])
    request = server.requests[-1].body["messages"]
    assert [m["content"] for m in request if m["role"] == "user"] == questions
    assert "A summary." not in str([m.text for m in middleware.memory("t1").get_original_memory_msgs()])
    assert ["second compression" in r.message for r in caplog.records] == [True]


def test_a_summary_is_kept_where_the_memory_has_nothing_of_what_it_stands_for(server: FakeOpenAI) -> None:
    with FakeOpenAI(default="A summary.", window=WINDOW) as service:
        other = SummarizationMiddleware(model(service), trigger=("messages", 3), keep=("messages", 1))
        saver = InMemorySaver()
        for question in ("one", "two"):
            create_agent(model(server), [], middleware=[other], checkpointer=saver).invoke(said(question), thread("t1"))
    agent = create_agent(model(server), [], middleware=[AutoContextMiddleware(config=CONFIG)], checkpointer=saver)
    agent.invoke(said("three"), thread("t1"))
    texts = [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "user"]
    assert ["A summary." in texts[0], *texts[1:]] == [True, "two", "three"]


@pytest.mark.parametrize("order", [(0, 1, 0, 0), (0, 0, 1, 0), (0, 1, 0, 1), (0, 1, 1, 0)])
def test_a_run_that_other_processes_resume_is_kept_once(
    server: FakeOpenAI, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Two calls have to be approved; the process that goes on has the thread as it was when it had it last."""
    calls = [calling("book", json.dumps({"city": city}), city) for city in ("Rome", "Oslo")]
    server.script(["Hello.", *calls])
    saver, approval = InMemorySaver(), HumanInTheLoopMiddleware(interrupt_on={"book": True})
    workers = [AutoContextMiddleware(config=CONFIG, store=SqliteSessionStore(tmp_path / "agent.db")) for _ in range(2)]
    agents = [create_agent(model(server), [book], middleware=[approval, w], checkpointer=saver) for w in workers]
    approved = Command(resume={"decisions": [{"type": "approve"}]})
    for worker, what in zip(order, (said("Hi."), said("Book two hotels."), approved, approved), strict=True):
        state = agents[worker].invoke(what, thread("t1"))
    assert len(state["messages"]) == 8
    assert to_langchain(workers[order[-1]].memory("t1").get_original_memory_msgs()) == state["messages"]


def test_what_others_put_into_one_request_is_sent_and_not_remembered(server: FakeOpenAI) -> None:
    class Reminder(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(messages=[*request.messages, HumanMessage("It is noon.")]))

    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [], middleware=[Reminder(), middleware], checkpointer=InMemorySaver())
    agent.invoke(said("one"), thread("t1"))
    assert server.requests[-1].body["messages"][-1]["content"] == "It is noon."
    assert [m.text for m in middleware.memory("t1").messages] == ["one", "Very well."]


@pytest.mark.parametrize(
    ("calls", "roles"),
    [
        ([("c1", '{"number": 1')], ["user", "assistant", "tool", "user", "assistant", "user"]),
        (
            [("c1", '{"number": 1}'), ("c2", '{"number": ')],
            ["user", "assistant", "tool", "tool", "assistant", "user", "assistant", "user"],
        ),
        (
            [("c1", "{"), ("c2", "[1"), ("c3", "错")],
            ["user", "assistant", "tool", "tool", "tool", "user", "assistant", "user"],
        ),
    ],
)
def test_a_thread_goes_on_after_malformed_arguments(
    server: FakeOpenAI, caplog: pytest.LogCaptureFixture, calls: list[tuple[str, str]], roles: list[str]
) -> None:
    function = [(call_id, {"name": "look", "arguments": arguments}) for call_id, arguments in calls]
    made = [{"id": call_id, "type": "function", "function": f} for call_id, f in function]
    server.script([Reply(text=None, finish="tool_calls", tool_calls=made)])

    @tool
    def look(number: int = 0) -> str:
        """Look."""
        return f"seen {number}"

    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [look], middleware=[middleware], checkpointer=InMemorySaver())
    for question in ("one", "two", "three"):
        state = agent.invoke(said(question), thread("t1"))
    assert server.refused == []
    sent = server.requests[-1].body["messages"][1:]
    assert [m["role"] for m in sent] == roles
    assert {c["id"]: c["function"]["arguments"] for m in sent for c in m.get("tool_calls", ())} == dict(calls)
    originals = to_langchain(middleware.memory("t1").get_original_memory_msgs())
    assert originals == state["messages"]
    assert caplog.records == []


def test_a_request_that_is_tried_again_after_malformed_arguments(server: FakeOpenAI) -> None:
    server.script([calling("look", '{"x": 1'), Raw(400, {"error": {"message": "no"}})])

    @tool
    def look(x: int) -> str:
        """Look."""
        return f"seen {x}"

    middleware = AutoContextMiddleware(config=CONFIG)
    agent = create_agent(model(server), [look], middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke(said("one"), thread("t1"))
    with pytest.raises(BadRequestError):
        agent.invoke(said("two"), thread("t1"))
    state = agent.invoke(None, thread("t1"))
    assert to_langchain(middleware.memory("t1").get_original_memory_msgs()) == state["messages"]
    assert [m["role"] for m in server.requests[-1].body["messages"][1:]] == ["user", "assistant", "tool", "user"]


class Report(BaseModel):
    """What was found."""

    place: str = Field(description="where it was found, in full sentences " * 40)
    note: str = Field(description="谁发现的，什么时候 " * 40)


@pytest.mark.parametrize("form", [ToolStrategy, ProviderStrategy, AutoStrategy, lambda schema: schema])
@pytest.mark.parametrize("schema", [Report, Report.model_json_schema()])
def test_the_schema_of_a_structured_answer_is_counted(server: FakeOpenAI, form: Any, schema: Any) -> None:
    middleware = AutoContextMiddleware(config=CONFIG)
    counted, sent = [], []
    for name, response_format in (("t1", None), ("t2", form(schema))):
        text = json.dumps({"place": "here", "note": "n"})
        server.script([text if form is ProviderStrategy or name == "t1" else calling("Report", text)])
        agent = create_agent(model(server), [], middleware=[middleware], response_format=response_format)
        middleware._sessions.of = _watching(middleware._sessions.of, seen := [])
        agent.invoke(said("Report."))
        counted.append(seen[-1].count([]))
        sent.append(server.turn(server.requests[-1].body).tokens)
    assert sent[1] - sent[0] > 500
    assert -5 <= (counted[1] - counted[0]) - (sent[1] - sent[0]) <= 30


class Redacting(AgentMiddleware):
    """Sends copies in which a word has another in its place."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__()
        self.old, self.new = old, new

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        copies = [m.model_copy(update={"content": m.content.replace(self.old, self.new)}) for m in request.messages]
        return handler(request.override(messages=copies))


def test_what_others_have_redacted_in_one_request_stays_redacted(server: FakeOpenAI) -> None:
    middleware = AutoContextMiddleware(config=CONFIG)
    others = [Redacting("4111-1111", "[card]"), middleware]
    agent = create_agent(model(server), [], middleware=others, checkpointer=InMemorySaver())
    for question in ("My card is 4111-1111.", "卡号 4111-1111。"):
        agent.invoke(said(question), thread("t1"))
    sent = [m["content"] for m in server.requests[-1].body["messages"][1:]]
    assert sent == ["My card is [card].", "Very well.", "卡号 [card]。"]
    originals = [m.text for m in middleware.memory("t1").get_original_memory_msgs()]
    assert originals[::2] == ["My card is 4111-1111.", "卡号 4111-1111。"]


def test_what_others_have_made_longer_in_one_request_is_counted(server: FakeOpenAI) -> None:
    middleware = AutoContextMiddleware(config=CONFIG)
    overheads = []
    for new in ("GUIDE", "guide " * 1_000):
        others = [Redacting("GUIDE", new), middleware]
        agent = create_agent(model(server), [], middleware=others, checkpointer=InMemorySaver())
        agent.invoke(said("Follow the GUIDE."), thread(f"t-{len(new)}"))
        overheads.append(middleware.memory(f"t-{len(new)}").count([]))
    assert 1_000 <= overheads[1] - overheads[0] <= 1_100


def test_what_others_put_in_front_or_between_keeps_its_place(server: FakeOpenAI) -> None:
    """Also once what stood behind it is in a note; never between a call and its result."""

    class Examples(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            messages = [HumanMessage("Two and two?"), AIMessage("Four.")]
            for message in request.messages:
                named = [HumanMessage("[a call]")] if isinstance(message, AIMessage) and message.tool_calls else []
                messages += [*named, message]
            return handler(request.override(messages=messages))

    with FakeOpenAI(default=ScriptedAgent(), window=WINDOW) as service:
        middleware = AutoContextMiddleware(config=CONFIG)
        agent = create_agent(
            model(service),
            [read_part],
            middleware=[case_prompt, Examples(), middleware],
            checkpointer=InMemorySaver(),
        )
        agent.invoke(said("[task 1: read 12] Read."), thread("t1"), context={"case": "alpha"})
        assert service.refused == []
        assert middleware.memory("t1").get_compression_events()
        first, last = (service.requests[i].body["messages"][1:] for i in (0, -1))
        assert [m["content"] for m in first] == ["Two and two?", "Four.", "[task 1: read 12] Read."]
        texts = [m["content"] for m in last]
        assert texts.index("Four.") < texts.index("[a call]") < len(texts) - 1


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


def test_agents_that_are_nodes_of_a_graph_have_one_session_for_each_thread(server: FakeOpenAI, tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "agent.db")
    middleware = AutoContextMiddleware(config=CONFIG, store=store)
    graph = StateGraph(MessagesState)
    for name in ("planner", "writer"):
        graph.add_node(name, create_agent(model(server), [], middleware=[middleware], checkpointer=True))
    graph.add_edge(START, "planner")
    graph.add_edge("planner", "writer")
    compiled = graph.compile(checkpointer=InMemorySaver())
    for question in ("one", "two", "three"):
        state = compiled.invoke(said(question), thread("t1"))
    compiled.invoke(said("one"), thread("t2"))
    sessions = sorted(info.session_id for info in store.sessions())
    assert sessions == ["t1/planner", "t1/writer", "t2/planner", "t2/writer"]
    held = [m.id for m in middleware.memory("t1/writer").get_original_memory_msgs()]
    assert held == [m.id for m in state["messages"]]


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


def test_a_message_that_is_answered_while_a_tool_runs_does_not_end_the_request(server: FakeOpenAI) -> None:
    """A request that ends with an answer is continued, or refused."""

    @tool
    def wait() -> str:
        """Wait."""
        with ThreadPoolExecutor(1) as pool:
            pool.submit(agent.invoke, said("two"), thread("t")).result()
        return "waited"

    agent = create_agent(model(server), [wait], middleware=[AutoContextMiddleware()], checkpointer=InMemorySaver())
    server.script([calling("wait"), "Second.", "First."])
    assert agent.invoke(said("one"), thread("t"))["messages"][-1].text == "First."
    roles = [m["role"] for m in server.requests[-1].body["messages"] if m["role"] != "system"]
    assert roles == ["user", "user", "assistant", "assistant", "tool"]


class Searching(FakeMessagesListChatModel):
    """Answers with these messages, and takes tools."""

    def bind_tools(self, *_: Any, **_more: Any) -> Any:
        return self


def test_the_usage_of_an_answer_for_which_the_service_searched_is_not_used() -> None:
    """It is the sum of what the service has read before and after each search."""
    usage = UsageMetadata(input_tokens=50_000, output_tokens=5, total_tokens=50_005)
    parts: list[str | dict[str, Any]] = [{"type": "web_search_call", "id": "ws_1"}, {"type": "text", "text": "Found."}]
    answers: list[BaseMessage] = [AIMessage(parts, usage_metadata=usage), AIMessage("Fine.", usage_metadata=usage)]
    middleware = AutoContextMiddleware(config=AutoContextConfig.for_window(100_000))
    agent = create_agent(Searching(responses=answers), middleware=[middleware], checkpointer=InMemorySaver())
    counts = []
    for text in ("Search.", "Go on."):
        agent.invoke(said(text), thread("t"))
        counts.append(middleware.memory("t").token_count)
    assert counts[0] < 50_000 <= counts[1]


def test_arguments_that_a_model_makes_up_do_not_end_the_turn() -> None:
    middleware = AutoContextMiddleware()
    made_up = {"query": "disks", "self": 1, "callbacks": 2}
    with FakeOpenAI(default="Very well.", window=WINDOW) as server:
        server.script([calling("context_reload", json.dumps({"working_context_offload_uuid": "m1", **made_up}))])
        agent: Any = create_agent(model(server), [], middleware=[middleware])
        said_by = agent.invoke(said("Which disks failed?"))["messages"]
    assert said_by[-1].content == "Very well."
    assert "Which disks failed?" in str(said_by[-2].content)
