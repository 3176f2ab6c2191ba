"""AutoContextAgentScopeMemory in AgentScope 1's own seat: beside InMemoryMemory, in sessions, with hints and plans."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.memory import InMemoryMemory, MemoryBase
from agentscope.message import Msg, TextBlock, ToolUseBlock
from agentscope.model import ChatModelBase, ChatResponse, OpenAIChatModel
from agentscope.plan import PlanNotebook, SubTask
from agentscope.session import JSONSession
from agentscope.token import CharTokenCounter
from agentscope.tool import Toolkit
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext import Msg as OwnMsg
from autocontext.adapters.agentscope_v1 import (
    AutoContextAgentScopeMemory,
    attach,
    from_agentscope,
    to_agentscope,
)
from autocontext.errors import ConfigError, InvalidMessage, StateError
from autocontext.stores import SqliteSessionStore
from autocontext.tools import INSTRUCTIONS
from tests.fakes import FakeOpenAI
from tests.production.agents import day, rounds_only

SMALL = AutoContextConfig(msg_threshold=4, last_keep=1)
TEXT = st.text(max_size=12)
JSON = st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | TEXT | st.lists(TEXT, max_size=2), max_size=3)
SOURCE = st.sampled_from(
    [
        {"type": "url", "url": "https://a.example/b.png"},
        {"type": "base64", "media_type": "image/png", "data": "AAAA"},
    ]
)
TEXTS = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}, optional={"cache": st.just({"a": 1})})
MEDIA = st.fixed_dictionaries({"type": st.sampled_from(["image", "audio", "video"]), "source": SOURCE})
THINKING = st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXT}, optional={"signature": TEXT})
USES = st.fixed_dictionaries(
    {"type": st.just("tool_use"), "id": TEXT, "name": TEXT, "input": JSON}, optional={"raw_input": TEXT}
)
RESULTS = st.fixed_dictionaries(
    {
        "type": st.just("tool_result"),
        "id": TEXT,
        "name": TEXT,
        "output": TEXT | st.lists(TEXTS | MEDIA, max_size=3),
    }
)
OTHER = st.just({"type": "hologram", "size": 3})
MESSAGES = st.builds(
    Msg,
    name=st.text(min_size=1, max_size=6).filter(lambda n: n != "tool"),
    content=TEXT | st.lists(TEXTS | MEDIA | THINKING | USES | RESULTS | OTHER, max_size=4),
    role=st.sampled_from(["user", "assistant", "system"]),
    metadata=JSON,
)


@given(MESSAGES)
def test_messages_come_back_as_they_were(msg: Msg) -> None:
    before = json.dumps(msg.to_dict())
    [read] = from_agentscope([msg])
    [written] = to_agentscope([OwnMsg.model_validate(json.loads(json.dumps(read.to_dict())))])
    assert written.to_dict() == msg.to_dict()
    assert (read.id, json.dumps(msg.to_dict())) == (msg.id, before)


def test_what_is_no_message_is_named() -> None:
    with pytest.raises(InvalidMessage, match=r"messages\[1\] is a str"):
        from_agentscope([Msg("user", "hi", "user"), "hi"])


# ------------------------------------------------------------------------------------------ beside InMemoryMemory
IDS, MARKS = [str(n) for n in range(8)], ["todo", "important", "done"]
MARK = st.sampled_from(MARKS)
SOME = st.lists(st.sampled_from(IDS), max_size=3)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.sampled_from(IDS), unique=True, max_size=4), st.none() | MARK),
        st.tuples(st.just("delete"), SOME),
        st.tuples(st.just("delete_by_mark"), MARK | st.lists(MARK, min_size=1, max_size=2)),
        st.tuples(st.just("update_messages_mark"), st.none() | MARK, MARK, st.none() | SOME),
        st.tuples(st.just("clear")),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@example(changes=[("add", ["0"], "todo"), ("delete_by_mark", "todo"), ("add", ["0"], None)], mark=None, exclude="todo")
@given(CHANGES, st.none() | MARK, st.none() | MARK)
def test_marks_and_deletions_are_those_of_in_memory_memory(
    changes: list[Any], mark: str | None, exclude: str | None
) -> None:
    async def outcome(memory: MemoryBase) -> list[Any]:
        seen: list[Any] = []
        for name, *arguments in changes:
            if name == "add":
                await memory.add([_numbered(n) for n in arguments[0]], marks=arguments[1])
            else:
                await getattr(memory, name)(*arguments)
            seen.append([m.id for m in await memory.get_memory()])
        filtered = [m.id for m in await memory.get_memory(mark=mark, exclude_mark=exclude)]
        return [*seen, filtered, await memory.size()]

    expected = asyncio.run(outcome(InMemoryMemory()))
    assert asyncio.run(outcome(AutoContextAgentScopeMemory(config=AutoContextConfig(msg_threshold=10**6)))) == expected


def _numbered(number: str) -> Msg:
    msg = Msg("user", f"text {number}", "user")
    msg.id = number
    return msg


def test_an_id_is_added_once_unless_it_is_wanted_twice() -> None:
    async def use() -> None:
        memory = AutoContextAgentScopeMemory()
        msg = _numbered("1")
        await memory.add(msg)
        await memory.add([msg, msg])
        assert await memory.size() == 1
        await memory.add(msg, allow_duplicates=True)
        assert [m.content for m in await memory.get_memory()] == ["text 1", "text 1"]
        await memory.add(None)
        for wrong in (3, [3]):
            with pytest.raises(TypeError):
                await memory.add(msg, marks=wrong)
            with pytest.raises(TypeError):
                await memory.get_memory(mark=wrong)

    asyncio.run(use())


def test_hints_are_shown_once_and_not_remembered() -> None:
    async def use() -> None:
        memory = AutoContextAgentScopeMemory()
        await memory.add(_numbered("1"))
        await memory.add(_numbered("2"), marks="hint")
        assert [m.id for m in await memory.get_memory()] == ["1", "2"]
        assert await memory.delete_by_mark("hint") == 1
        assert [m.id for m in await memory.get_memory()] == ["1"]
        assert [m.id for m in memory.memory.get_original_memory_msgs()] == ["1"]

    asyncio.run(use())


# ------------------------------------------------------------------------------------------------- whole agents
class Scripted(ChatModelBase):
    """Answers by a function of the prompt."""

    def __init__(self, answer: Callable[[Any, Any], Any]) -> None:
        super().__init__("scripted", stream=False)
        self.answer = answer
        self.prompts: list[Any] = []

    async def __call__(self, prompt: Any, tools: Any = None, **_: Any) -> ChatResponse:
        self.prompts.append(json.loads(json.dumps(prompt)))
        said = self.answer(prompt, tools)
        blocks = said if isinstance(said, list) else [TextBlock(type="text", text=said)]
        return ChatResponse(content=blocks)


def agent_of(answer: Callable[[Any, Any], Any], **more: Any) -> ReActAgent:
    agent = ReActAgent("agent", "Be kind.", Scripted(answer), OpenAIChatFormatter(), Toolkit(), **more)
    agent.set_console_output_enabled(False)
    return agent


def test_one_line_equips_an_agent() -> None:
    agent = agent_of(lambda _p, _t: "hello")
    memory = attach(agent, config=SMALL)
    memory.attach(agent)
    assert agent.memory is memory
    assert agent.sys_prompt == f"Be kind.\n\n{INSTRUCTIONS}"
    assert [s["function"]["name"] for s in agent.toolkit.get_json_schemas()] == ["context_reload"]
    asyncio.run(agent(Msg("user", "hi", "user")))
    assert memory.memory.token_count > 300  # the prompt and the schema count as well


def test_two_compressions_are_refused() -> None:
    own = ReActAgent.CompressionConfig(enable=True, agent_token_counter=CharTokenCounter(), trigger_threshold=9)
    with pytest.raises(ConfigError, match="compression_config"):
        attach(agent_of(lambda _p, _t: "hello", compression_config=own))


def test_a_prompt_from_an_older_state_is_instructed_again() -> None:
    agent = agent_of(lambda _p, _t: "hello")
    saved = agent.state_dict()
    memory = attach(agent)
    agent.load_state_dict({**saved, "memory": memory.state_dict()})
    assert INSTRUCTIONS not in agent.sys_prompt
    asyncio.run(agent(Msg("user", "hi", "user")))
    assert agent.model.prompts[0][0]["content"][0]["text"].count(INSTRUCTIONS) == 1


def test_a_plan_is_attached_and_its_hints_are_not_remembered() -> None:
    notebook = PlanNotebook()

    def answer(prompt: Any, _tools: Any) -> Any:
        if any(m["role"] == "tool" for m in prompt):
            return "done"
        task = SubTask(name="look", description="d", expected_outcome="o").model_dump()
        plan = {"name": "p", "description": "Find the leak", "expected_outcome": "dry", "subtasks": [task]}
        return [ToolUseBlock(type="tool_use", id="c1", name="create_plan", input=plan)]

    agent = agent_of(answer, plan_notebook=notebook)
    notes: list[str] = []

    class Summariser:
        def complete(self, request: Any) -> Any:
            notes.append(request.prompt)
            raise RuntimeError("only looked at")

    memory = attach(agent, config=rounds_only(), model=Summariser())
    asyncio.run(agent(Msg("user", "hi", "user")))
    assert notebook.current_plan is not None
    shown = json.dumps(agent.model.prompts[-1])
    assert "system-hint" in shown
    assert not any("system-hint" in m.text for m in memory.memory.get_original_memory_msgs())
    memory.memory.add_messages(day(3))
    memory.memory.compress_if_needed(force=True)
    assert any("Find the leak" in note for note in notes)


def test_what_the_agent_adds_to_a_request_is_counted() -> None:
    """A plan's hint of about 400 tokens, which no request remembers, and names that repeat the role."""
    notebook = PlanNotebook()
    tasks = [SubTask(name=f"hall {i}", description="Look at its pump. " * 5, expected_outcome="dry") for i in range(12)]

    async def use(base_url: str) -> None:
        await notebook.create_plan("pumps", "Find the leak", "dry", tasks)
        client = {"base_url": base_url, "max_retries": 0}
        model = OpenAIChatModel("m", api_key="test-key", stream=False, client_kwargs=client)
        agent = ReActAgent("assistant", "Be kind.", model, OpenAIChatFormatter(), Toolkit(), plan_notebook=notebook)
        agent.set_console_output_enabled(False)
        memory.attach(agent)
        for i in range(40):
            await agent(Msg("user", f"Question {i}: " + f"detail {i} of valve {i * 7}. " * 12, "user"))
        await model.client.close()

    memory = AutoContextAgentScopeMemory(config=AutoContextConfig.for_window(6_000))
    with FakeOpenAI(default="Very well.", window=6_000) as server:
        asyncio.run(use(server.base_url))
        sent = server.turn(server.requests[-1].body).tokens
    assert server.refused == []
    assert abs(memory.memory.count(memory.memory.messages[:-1]) - sent) <= 10
    assert memory.memory.get_compression_events()
    assert all("system-hint" in json.dumps(request.body["messages"][-1]) for request in server.requests)


# ------------------------------------------------------------------------------------------------------ sessions
async def filled(memory: MemoryBase) -> MemoryBase:
    for n in range(12):
        await memory.add(Msg("user", f"question {n} " + "word " * 300, "user"), marks="asked" if n == 11 else None)
        await memory.add(Msg("agent", f"answer {n} " + "word " * 300, "assistant"))
    return memory


def test_sessions_of_the_framework_save_and_load_it(tmp_path: Path) -> None:
    async def use() -> None:
        session = JSONSession(save_dir=str(tmp_path))
        memory = AutoContextAgentScopeMemory(config=SMALL)
        await filled(memory)
        before = [m.to_dict() for m in await memory.get_memory()]
        uuids = list(memory.memory.get_offload_context())
        assert uuids
        await session.save_session_state("s", memory=memory)
        other = AutoContextAgentScopeMemory(config=SMALL)
        await session.load_session_state("s", memory=other)
        assert [m.to_dict() for m in await other.get_memory()] == before
        assert [m.content for m in await other.get_memory(mark="asked")] == ["question 11 " + "word " * 300]
        assert all(other.memory.reload(u) == memory.memory.reload(u) for u in uuids)
        with pytest.raises(StateError):
            other.load_state_dict({"something": 1})
        assert [m.to_dict() for m in await other.get_memory()] == before

    asyncio.run(use())


def test_a_session_of_in_memory_memory_is_taken_over() -> None:
    async def use() -> None:
        old = await filled(InMemoryMemory())
        memory = AutoContextAgentScopeMemory(config=AutoContextConfig(msg_threshold=10**6))
        memory.load_state_dict(json.loads(json.dumps(old.state_dict())))
        assert [m.to_dict() for m in await memory.get_memory()] == [m.to_dict() for m in await old.get_memory()]
        assert len(await memory.get_memory(mark="asked")) == 1

    asyncio.run(use())


def test_marks_given_when_adding_survive_in_the_store(tmp_path: Path) -> None:
    async def use() -> None:
        for _ in range(2):
            store = SqliteSessionStore(tmp_path / "agent.db")
            memory = AutoContextAgentScopeMemory(store=store, session_id="s", user_id="ann")
            await memory.add(_numbered("1"), marks=["todo"])
            assert [m.id for m in await memory.get_memory(mark="todo")] == ["1"]
            assert await memory.size() == 1
            store.close()

    asyncio.run(use())


def test_a_memory_that_is_given_is_used() -> None:
    own = AutoContextMemory()
    assert AutoContextAgentScopeMemory(own).memory is own
    with pytest.raises(ConfigError, match="session_id"):
        AutoContextAgentScopeMemory(own, session_id="s")


def test_the_tool_answers_in_the_toolkits_form() -> None:
    async def use() -> str:
        memory = AutoContextAgentScopeMemory()
        memory.memory.offload("0b5c7e0a-1111", [OwnMsg(role="user", content="heron")])
        toolkit = Toolkit()
        toolkit.register_tool_function(memory.tools[0])
        call = ToolUseBlock(
            type="tool_use", id="c", name="context_reload", input={"working_context_offload_uuid": "0b5c7e0a-1111"}
        )
        async for chunk in await toolkit.call_tool_function(call):
            found = chunk
        return str(found.content[0]["text"])

    assert "heron" in asyncio.run(use())
