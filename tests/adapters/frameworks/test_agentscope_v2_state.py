"""AutoContextMiddleware in AgentScope 2's own seat: replies read piece by piece, hints, offloading, several agents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agentscope.agent import Agent, ContextConfig, InjectionConfig
from agentscope.credential import CredentialBase
from agentscope.event import ConfirmResult, RequireUserConfirmEvent, UserConfirmResultEvent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import (
    AssistantMsg,
    Base64Source,
    DataBlock,
    HintBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    URLSource,
    UserMsg,
)
from agentscope.middleware import MiddlewareBase
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.permission import PermissionBehavior, PermissionDecision, PermissionRule
from agentscope.state import AgentState
from agentscope.state._task import Task
from agentscope.tool import FunctionTool, Toolkit
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext import Msg as OwnMsg
from autocontext.adapters.agentscope_v2 import (
    AutoContextMiddleware,
    AutoContextOffloader,
    from_agentscope,
    to_agentscope,
)
from autocontext.errors import ConfigError, InvalidMessage
from autocontext.messages import ToolUseBlock
from autocontext.stores import SqliteSessionStore
from autocontext.text.rendering import TAG
from autocontext.tools import ContextOffloadTool
from tests.production.agents import day, rounds_only

ALLOW = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="It only reads.")
QUIET = InjectionConfig(inject_runtime_state=False)

# ---------------------------------------------------------------------------------------------------- translation
TEXT = st.text(max_size=10)
TEXTS = st.builds(TextBlock, text=st.text(min_size=1, max_size=10))
IMAGES = st.builds(
    DataBlock,
    source=st.sampled_from(
        [
            Base64Source(data="AAAA", media_type="image/png"),
            URLSource(url="https://a.example/b.png", media_type="image/png"),
            Base64Source(data="AAAA", media_type="application/pdf"),
        ]
    ),
    name=st.none() | st.just("f.pdf"),
)
HINTS = st.builds(HintBlock, hint=TEXT | st.lists(TEXTS | IMAGES, max_size=2), source=st.none() | st.just("team"))
ARGUMENTS = st.sampled_from(['{"a":1}', '{"a": 1}', "{}", "", '{"a":', "[1]"])
RULES = st.builds(
    PermissionRule,
    tool_name=st.just("f"),
    rule_content=st.none() | st.just("a*"),
    behavior=st.just(PermissionBehavior.ALLOW),
    source=st.just("session"),
)


@st.composite
def replies(draw: st.DrawFn) -> Msg:
    """One assistant message as the agent builds it: steps of thoughts, texts, calls, results; hints between."""
    blocks: list[Any] = []
    for step in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            blocks.append(draw(HINTS))
        if draw(st.booleans()):
            blocks.append(ThinkingBlock(thinking=draw(TEXT), signature="s"))
        blocks += draw(st.lists(TEXTS, max_size=2))
        calls = [f"call_{step}_{n}" for n in range(draw(st.integers(0, 2)))]
        rules = draw(st.lists(RULES, max_size=1))
        blocks += [
            ToolCallBlock(id=c, name="f", input=draw(ARGUMENTS), state="finished", suggested_rules=rules) for c in calls
        ]
        for c in calls:
            output = draw(TEXT | st.lists(TEXTS | IMAGES, max_size=2))
            state = draw(st.sampled_from(["success", "error", "interrupted"]))
            blocks.append(ToolResultBlock(id=c, name="f", output=output, state=state, metadata={"m": 1, "n": None}))
    return AssistantMsg(name="agent", content=[*blocks, *draw(st.lists(TEXTS, max_size=1))])


CONTEXTS = st.lists(
    st.one_of(
        st.builds(UserMsg, name=st.just("user"), content=st.lists(TEXTS | IMAGES, min_size=1, max_size=3)), replies()
    ),
    max_size=4,
)


@given(CONTEXTS)
def test_a_context_comes_back_as_the_service_would_see_it(context: list[Msg]) -> None:
    before = [m.model_dump_json() for m in context]
    read = [OwnMsg.model_validate(json.loads(json.dumps(m.to_dict()))) for m in from_agentscope(context)]

    async def formed(messages: list[Msg]) -> Any:
        return await OpenAIChatFormatter().format(messages)

    assert asyncio.run(formed(to_agentscope(read))) == asyncio.run(formed(context))
    kept = [b.model_dump(mode="json") for m in to_agentscope(read) for b in m.content]
    assert kept == [b.model_dump(mode="json") for m in context for b in m.content]
    assert [m.model_dump_json() for m in context] == before


@given(replies(), st.data())
def test_a_growing_reply_is_read_once(reply: Msg, data: st.DataObject) -> None:
    """However the agent is interrupted, each block is read exactly once, in its order."""
    at = sorted(data.draw(st.lists(st.integers(0, len(reply.content)), max_size=3)))
    seen: dict[str, int] = {}
    found: list[OwnMsg] = []
    for stop in [*at, len(reply.content)]:
        part = reply.model_copy(update={"content": reply.content[:stop]})
        new = from_agentscope([part], seen)
        found += new
        seen = {reply.id: stop}
    assert len({m.id for m in found}) == len(found)
    whole = from_agentscope([reply])
    assert [b for m in found for b in m.content] == [b for m in whole for b in m.content]


def test_what_is_no_message_is_named() -> None:
    with pytest.raises(InvalidMessage, match=r"messages\[1\] is a str"):
        from_agentscope([UserMsg("user", "hi"), "hi"])


# --------------------------------------------------------------------------------------------------------- agents
class Scripted(ChatModelBase):
    """Answers by a function of the prompt in OpenAI's form."""

    formatter = OpenAIChatFormatter()

    def __init__(self, answer: Callable[[Any], Any], context_size: int = 100_000) -> None:
        super().__init__(CredentialBase(), "scripted", ChatModelBase.Parameters(), False, context_size=context_size)
        self.answer = answer
        self.prompts: list[Any] = []

    async def _call_api(self, _name: str, messages: list[Msg], **_: Any) -> ChatResponse:
        prompt = await self.formatter.format(messages)
        self.prompts.append(prompt)
        said = self.answer(prompt)
        blocks = [TextBlock(text=said)] if isinstance(said, str) else said
        return ChatResponse(content=blocks, is_last=True)


def agent_of(middleware: AutoContextMiddleware, answer: Callable[[Any], Any] = lambda _: "hello", **more: Any) -> Agent:
    given = {"injection_config": QUIET, "toolkit": Toolkit(), **more}
    model = Scripted(answer, given.pop("context_size", 100_000))
    return Agent(name="agent", system_prompt="Be kind.", model=model, middlewares=[middleware], **given)


def ask(agent: Agent, text: str) -> str:
    return str(asyncio.run(agent.reply(UserMsg("user", text))).get_text_content())


def reload_call(uuid: str) -> list[Any]:
    return [ToolCallBlock(id="c1", name="context_reload", input=json.dumps({"working_context_offload_uuid": uuid}))]


def test_one_middleware_serves_many_sessions(tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "agent.db")
    middleware = AutoContextMiddleware(store=store, user_id="ann")
    for session in ("a", "b"):
        agent = agent_of(middleware, state=AgentState(session_id=session))
        assert ask(agent, f"I am {session}") == "hello"
    texts = {s: [m.text for m in middleware.memory(s).get_original_memory_msgs()] for s in ("a", "b")}
    assert texts == {"a": ["I am a", "hello"], "b": ["I am b", "hello"]}
    store.close()


def test_a_bound_middleware_refuses_a_second_session() -> None:
    middleware = AutoContextMiddleware(session_id="one")
    ask(agent_of(middleware, state=AgentState(session_id="a")), "hi")
    with pytest.raises(ConfigError, match="'b'"):
        ask(agent_of(middleware, state=AgentState(session_id="b")), "hi")


def test_a_restored_state_is_not_read_twice(tmp_path: Path) -> None:
    saved = AgentState(session_id="s").model_dump_json()
    for n in range(3):
        store = SqliteSessionStore(tmp_path / "agent.db")
        middleware = AutoContextMiddleware(store=store)
        agent = agent_of(middleware, state=AgentState.model_validate_json(saved))
        ask(agent, f"question {n}")
        saved = agent.state.model_dump_json()
        said = [m.text for m in middleware.memory("s").get_original_memory_msgs()]
        assert said == [t for k in range(n + 1) for t in (f"question {k}", "hello")]
        assert len(agent.model.prompts[-1]) == 2 + 2 * n
        store.close()


def test_agents_that_share_a_toolkit_reload_their_own() -> None:
    toolkit, uuid = Toolkit(), "0b5c7e0a-1111"
    answers: list[str] = []

    def answer(prompt: Any) -> Any:
        if prompt[-1]["role"] != "tool":
            return reload_call(uuid)
        answers.append(prompt[-1]["content"])
        return "done"

    for secret in ("heron", "otter"):
        memory = AutoContextMemory()
        memory.offload(uuid, [OwnMsg(role="user", content=secret)])
        ask(agent_of(AutoContextMiddleware(memory), answer, toolkit=toolkit), "what was it?")
    assert ["heron" in answers[0], "otter" in answers[1]] == [True, True]
    assert "heron" not in answers[1]


def test_what_the_agent_cuts_off_a_result_is_found_again() -> None:
    text = "\n".join(f"line {n} of the report" for n in range(2_000))

    def answer(prompt: Any) -> Any:
        if prompt[-1]["role"] != "tool":
            return [ToolCallBlock(id="c1", name="report", input="{}")]
        tags = TAG.findall(prompt[-1]["content"])
        return reload_call(tags[0]) if tags else "done"

    def report() -> str:
        """Give the report."""
        return text

    middleware = AutoContextMiddleware()
    toolkit = Toolkit(tools=[FunctionTool(report, permission=ALLOW)])
    config = ContextConfig(tool_result_limit=200)
    agent = agent_of(middleware, answer, toolkit=toolkit, context_config=config, state=AgentState(session_id="s"))
    ask(agent, "what does it say?")
    [uuid] = [
        u
        for m in middleware.memory("s").get_original_memory_msgs()
        for r in m.tool_results
        for u in TAG.findall(r.text)
    ]
    tool = ContextOffloadTool(middleware.memory("s"))
    assert "line 1999 of the report" in tool(uuid, query="line 1999")


def test_the_offloader_alone_keeps_what_the_agent_compresses() -> None:
    async def use() -> None:
        memory = AutoContextMemory()
        offloader = AutoContextOffloader(memory)
        image = DataBlock(source=Base64Source(data="AAAA", media_type="image/png"))
        tag = await offloader.offload_context("s", [UserMsg("user", "remember the heron")])
        assert memory.reload(TAG.findall(tag)[0])[0].text == "remember the heron"
        kept = await offloader.offload_data_block(image)
        assert memory.reload(str(kept.source.url).rpartition("/")[2])[0].content[0].source["data"] == "AAAA"
        assert await offloader.offload_data_block(kept) is kept
        [tool] = offloader.tools
        chunk = await tool.call(working_context_offload_uuid=TAG.findall(tag)[0])
        assert "heron" in chunk.content[0].text

    asyncio.run(use())


def test_a_file_goes_to_the_session_it_was_sent_in() -> None:
    async def use() -> None:
        middleware = AutoContextMiddleware()
        agents = {s: agent_of(middleware, state=AgentState(session_id=s)) for s in ("a", "b")}
        file = DataBlock(source=Base64Source(data="AAAA", media_type="application/zip"), name="a.zip")
        await agents["a"].reply(UserMsg("user", "hi"))
        await agents["b"].reply(UserMsg("user", "hi"))
        await agents["a"].reply(UserMsg("user", [file]))
        [uuid] = middleware.memory("a").get_offload_context()
        assert f"autocontext://{uuid}" in json.dumps(agents["a"].model.prompts[-1])
        assert middleware.memory("b").get_offload_context() == {}
        # Without an agent nobody knows whose it is.
        assert await AutoContextOffloader().offload_data_block(file) is file

    asyncio.run(use())


def test_runtime_hints_are_no_users_words_and_say_no_wrong_length() -> None:
    calls = iter(range(3))

    def answer(_: Any) -> Any:
        n = next(calls)
        return [ToolCallBlock(id=f"c{n}", name="look", input="{}")] if n < 2 else "done"

    def look() -> str:
        """Look around."""
        return "nothing " * 500

    config = InjectionConfig(time_interval=0)
    toolkit = Toolkit(tools=[FunctionTool(look, permission=ALLOW)])
    middleware = AutoContextMiddleware()
    agent = agent_of(
        middleware,
        answer,
        toolkit=toolkit,
        injection_config=config,
        context_size=1_000,
        state=AgentState(session_id="s"),
    )
    ask(agent, "hi " * 2_000)
    assert "<context-length>" in agent.state.model_dump_json()
    prompts = agent.model.prompts
    assert all("<current-time>" in json.dumps(p) and "<context-length>" not in json.dumps(p) for p in prompts)
    # In the place where it was injected, as the framework itself would send it.
    assert [m["role"] for m in prompts[-1]] == [
        "system", "user", "user", "assistant", "tool", "user", "assistant", "tool", "user",
    ]  # fmt: skip
    originals = middleware.memory("s").get_original_memory_msgs()
    assert [m.role for m in originals] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


def test_tasks_become_the_plan_and_a_compression_by_hand_is_done() -> None:
    prompts: list[str] = []

    class Summariser:
        def complete(self, request: Any) -> Any:
            prompts.append(request.prompt)
            raise RuntimeError("only looked at")

    middleware = AutoContextMiddleware(config=rounds_only(msg_threshold=10**6), model=Summariser())
    agent = agent_of(middleware, state=AgentState(session_id="s"))
    agent.state.tasks_context.tasks.append(
        Task(subject="Find the leak", description="d", metadata={}, state="in_progress")
    )
    ask(agent, "hi")
    middleware.memory("s").add_messages(day(3))
    asyncio.run(agent.compress_context(instructions=HintBlock(hint="now")))
    assert prompts
    assert all("In progress: Find the leak" in p for p in prompts)


def test_what_other_middleware_adds_to_a_request_passes_through() -> None:
    class Facts(MiddlewareBase):
        async def on_model_call(self, agent: Any, input_kwargs: Any, next_handler: Any) -> Any:
            fact = UserMsg("facts", "It is Tuesday.")
            return await next_handler(messages=[*input_kwargs["messages"], fact])

    middleware = AutoContextMiddleware(config=AutoContextConfig.for_window(16_000))
    model = Scripted(lambda _: "hello")
    agent = Agent(
        "agent", "Be kind.", model, middlewares=[Facts(), middleware], injection_config=QUIET,
        state=AgentState(session_id="s", summary="Earlier we spoke of herons."),
    )  # fmt: skip
    ask(agent, "hi")
    texts = [m["content"][0]["text"] for m in model.prompts[0]]
    assert texts[1:] == ["Earlier we spoke of herons.", "hi", "It is Tuesday."]
    assert [m.text for m in middleware.memory("s").get_original_memory_msgs()] == ["hi", "hello"]


def test_processes_that_take_turns_on_a_session_keep_its_messages_once(tmp_path: Path) -> None:
    """The agent's state is saved and loaded; each process has memories of its own."""
    workers = [AutoContextMiddleware(store=SqliteSessionStore(tmp_path / "agent.db")) for _ in range(2)]
    model = Scripted(lambda _: "hello")
    state = AgentState(session_id="s")
    for i, question in enumerate(("one", "two", "three", "four")):
        state = AgentState.model_validate_json(state.model_dump_json())
        agent = Agent("agent", "Be kind.", model, middlewares=[workers[i % 2]], injection_config=QUIET, state=state)
        ask(agent, question)
        state = agent.state
    texts = [m.text for m in workers[1].memory("s").get_original_memory_msgs()]
    assert texts == ["one", "hello", "two", "hello", "three", "hello", "four", "hello"]


# -------------------------------------------------------------------------------------------- calls to be confirmed
LOOK = ToolCallBlock(id="c0", name="look", input="{}")
DELETE = ToolCallBlock(id="c1", name="delete", input='{"path": "/prod"}')


def confirming(middleware: AutoContextMiddleware, state: AgentState, *calls: Any) -> Agent:
    """An agent that says this at once, then is done; `delete` has to be confirmed."""

    def calling(prompt: Any) -> Any:
        return "done" if any(m["role"] == "tool" for m in prompt) else [c.model_copy() for c in calls]

    def look() -> str:
        """Look around."""
        return "two files"

    def delete(path: str) -> str:
        """Delete a path."""
        return f"deleted {path}"

    tools = [FunctionTool(look, permission=ALLOW), FunctionTool(delete)]
    return agent_of(middleware, calling, toolkit=Toolkit(tools=tools), state=state)


def events(agent: Agent, what: Any) -> list[Any]:
    async def use() -> list[Any]:
        return [event async for event in agent.reply_stream(what)]

    return asyncio.run(use())


def answer_to(agent: Agent, question: RequireUserConfirmEvent, confirmed: bool, **changed: Any) -> list[Any]:
    call = question.tool_calls[0].model_copy(update=changed)
    result = ConfirmResult(confirmed=confirmed, tool_call=call)
    return events(agent, UserConfirmResultEvent(reply_id=question.reply_id, confirm_results=[result]))


@pytest.mark.parametrize(("calls", "said"), [([DELETE], []), ([LOOK, DELETE], ["two files"])])
def test_a_call_that_is_confirmed_runs_and_the_conversation_goes_on(
    calls: list[ToolCallBlock], said: list[str]
) -> None:
    middleware = AutoContextMiddleware()
    agent = confirming(middleware, AgentState(session_id="s"), *calls)
    [question] = [e for e in events(agent, UserMsg("user", "Clean up.")) if isinstance(e, RequireUserConfirmEvent)]
    assert [rule.rule_content for rule in question.tool_calls[0].suggested_rules] == [None]
    answer_to(agent, question, confirmed=True)
    results = [m.tool_results[0].text for m in middleware.memory("s").messages if m.tool_results]
    assert results == [*said, "deleted /prod"]
    assert ask(agent, "And now?") == "done"


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    "calls", [[DELETE], [LOOK, DELETE], [DELETE, LOOK], [DELETE, DELETE.model_copy(update={"id": "c2"})]]
)
def test_a_call_that_the_user_corrects_is_sent_as_it_ran(
    tmp_path: Path, calls: list[ToolCallBlock], *, restarted: bool
) -> None:
    store = SqliteSessionStore(tmp_path / "agent.db")
    middleware = AutoContextMiddleware(store=store)
    agent = confirming(middleware, AgentState(session_id="s"), TextBlock(text="I clean up."), *calls)
    happened = events(agent, UserMsg("user", "Clean up."))
    paths = iter(("/old/x", "/old/y"))
    while questions := [e for e in happened if isinstance(e, RequireUserConfirmEvent)]:
        # Before the user decides, all that has been said and done is kept.
        stored = SqliteSessionStore(tmp_path / "agent.db")
        memory = AutoContextMemory(store=stored, session_id="s")
        assert {use.id for m in memory.messages for use in m.tool_uses} == {c.id for c in calls}
        assert {r.id for m in memory.messages for r in m.tool_results} == {
            r.id for r in agent.state.context[-1].get_content_blocks("tool_result")
        }
        stored.close()
        if restarted:
            middleware = AutoContextMiddleware(store=store)
            agent = confirming(middleware, AgentState.model_validate_json(agent.state.model_dump_json()), *calls)
        happened = answer_to(agent, questions[0], True, input=json.dumps({"path": next(paths)}))
    assert ask(agent, "And now?") == "done"
    read, sent = [
        [b for m in messages for b in m.content if b.type in ("tool_call", "tool_result")]
        for messages in (to_agentscope(middleware.memory("s").messages), agent.state.context)
    ]
    assert [(b.id, getattr(b, "input", None)) for b in read] == [(b.id, getattr(b, "input", None)) for b in sent]
    assert [m.text for m in middleware.memory("s").messages if m.text] == [
        "Clean up.", "I clean up.", "done", "And now?", "done",
    ]  # fmt: skip
    asked = [u.input["path"] for m in middleware.memory("s").get_original_memory_msgs() for u in m.tool_uses if u.input]
    assert {"/prod", "/old/x"} <= {*asked}
    store.close()


def test_what_follows_a_reply_that_the_user_made_shorter_is_kept() -> None:
    """Of a reply with two calls one is corrected and one taken out, before the first one runs."""
    middleware = AutoContextMiddleware()
    calls = [DELETE, DELETE.model_copy(update={"id": "c2"})]
    agent = confirming(middleware, AgentState(session_id="s"), TextBlock(text="I clean up."), *calls)
    [question] = [e for e in events(agent, UserMsg("user", "Clean up.")) if isinstance(e, RequireUserConfirmEvent)]
    reply = agent.state.context[-1]
    reply.content = [b for b in reply.content if getattr(b, "id", "") != "c2"]
    answer_to(agent, question, confirmed=True, input=json.dumps({"path": "/old/x"}))
    assert ask(agent, "And now?") == "done"
    messages = middleware.memory("s").messages
    assert [use.input for m in messages for use in m.tool_uses] == [{"path": "/old/x"}]
    assert [result.text for m in messages for result in m.tool_results] == ["deleted /old/x"]


def test_a_suggestion_that_was_stored_without_its_empty_fields_is_read() -> None:
    rule = {"tool_name": "f", "behavior": "allow", "source": "session"}
    known = {"_agentscope": {"rest": {"state": "asking", "suggested_rules": [rule]}}}
    msg = OwnMsg(role="assistant", content=[ToolUseBlock(id="c", name="f", input={}, metadata=known)])
    [written] = to_agentscope([msg])
    assert written.content[0].suggested_rules[0].rule_content is None
