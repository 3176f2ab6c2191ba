"""The MCP server, asked by the real client over standard input and output, and in one process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.memory import create_connected_server_and_client_session

from autocontext import AutoContext, AutoContextConfig, AutoContextMemory, Msg, __version__
from autocontext.adapters.mcp_server import AutoContextTools, create_server
from autocontext.cli import main
from autocontext.messages import is_pinned
from autocontext.steering import NAMES
from autocontext.testing import assert_valid_chat, assistant, tool_exchange, user
from tests.adapters.contract.suite import ROOT

SECRET = "the code word is heron"
UUID = "0b5c7e0a-1111-4222-8333-444455556666"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two users with a session of the same name, and what only one of them has."""
    path = tmp_path / "agent.db"
    with AutoContext.open(path) as context:
        for user in ("ann", "bob"):
            session = context.session("s", user_id=user)
            session.add(Msg(role="user", content=f"I am {user}"))
        ann = context.session("s", user_id="ann")
        ann.memory.offload(UUID, [Msg(role="user", content=SECRET)])
        context.content.put(f"A long report. {SECRET}.", name="report.txt", namespace=context.namespace("ann"))
        context.memories.add("Ann likes herons.", user_id="ann", tags=["birds"])
    return path


async def said(client: Any, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert not result.isError
    [content] = result.content
    return str(content.text)


@asynccontextmanager
async def served(file: Path, session: str, user: str) -> AsyncIterator[ClientSession]:
    with AutoContext.open(file) as context:
        async with create_connected_server_and_client_session(create_server(context, session, user)) as client:
            yield client


def test_a_client_steers_the_context_that_the_agent_goes_on_with(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    config = AutoContextConfig.for_window(16_000)
    with AutoContextMemory.open(file, session_id="s", user_id="ann", config=config) as memory:
        memory.add_messages([user("Read the logs."), *tool_exchange("read_log", {"day": 1}, "disk 7 failed\n" * 400)])
        memory.add_messages([assistant("One disk failed."), user("Which?")])

        async def use() -> None:
            arguments = ["-m", "autocontext", "mcp", "--db", str(file), "--session", "s", "--user", "ann"]
            server = StdioServerParameters(command=sys.executable, args=[*arguments, "--steering", "16k"], cwd=ROOT)
            async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as client:
                await client.initialize()
                names = [t.name for t in (await client.list_tools()).tools]
                assert names[: 1 + len(NAMES)] == ["context_reload", *NAMES]
                assert "m2-m3 read_log 1: " in await said(client, "context_status")
                put_away = await said(client, "context_archive", messages="m2-m3", reason="read")
                assert put_away.startswith("Put away m2-m3: 2 messages, ")
                memory.add_message(assistant("Disk 7."))  # the agent goes on meanwhile
                noted = await said(client, "context_note", text="decision: replace disk 7")
                assert noted.startswith("Noted (m7).")
                assert (await said(client, "context_pin", messages=1)).startswith("Pinned m1: ")
                found = await said(client, "context_search", query="disk failed", tool="read_log")
                assert "m3 result of read_log" in found
                assert (await said(client, "context_restore", messages="m4")).startswith("Error: m4 is in view")
                assert await said(client, "context_archive", messages="m2") == "Error: reason: must be passed."

        asyncio.run(use())
        memory.refresh()
        assert [m.origin is not None for m in memory.messages] == [False, True, *[False] * 5]
        assert is_pinned(memory.messages[0])
        [restore] = memory.tools("restore")
        assert restore(messages="m3").startswith("Put back m2-m3 ")
        assert memory.messages[1:] == memory.get_original_memory_msgs()[1:]
        assert_valid_chat(memory.messages)


def test_a_client_of_another_process_uses_every_tool(file: Path) -> None:
    async def use() -> None:
        arguments = ["-m", "autocontext", "mcp", "--db", str(file), "--session", "s", "--user", "ann"]
        server = StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT)
        async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as client:
            hello = await client.initialize()
            assert "context_reload" in (hello.instructions or "")
            assert hello.serverInfo.version == __version__
            tools = (await client.list_tools()).tools
            assert [t.name for t in tools] == ["context_reload", "content_search", "memory_search", "memory_add"]
            assert SECRET in await said(client, "context_reload", working_context_offload_uuid=UUID[:8])
            for number in ("m1", 1):
                page = await said(client, "context_reload", working_context_offload_uuid=number)
                assert page.startswith("[m1: 1 message, ")
                assert page.endswith("I am ann")
            found = await said(client, "content_search", query="code word")
            assert SECRET in found
            handle = found.split("[")[1].split(" ")[0]
            assert SECRET in await said(client, "context_reload", working_context_offload_uuid=handle)
            assert "Ann likes herons." in await said(client, "memory_search", query="birds heron", tags=["birds"])
            assert "Remembered" in await said(
                client, "memory_add", content="Ann has a boat.", importance=9, tags=["boat"]
            )
            assert "Ann has a boat." in await said(client, "memory_search", query="boat")

    asyncio.run(use())
    with AutoContext.open(file) as context:
        [kept] = [m for m in context.memories.all(user_id="ann") if "boat" in m.content]
        assert (kept.source, kept.importance, kept.tags) == ("s", 9, ("boat",))


def test_another_users_things_are_not_found(file: Path) -> None:
    async def use() -> list[str]:
        async with served(file, "s", "bob") as client:
            return [
                await said(client, "context_reload", working_context_offload_uuid=UUID),
                await said(client, "content_search", query="code word heron"),
                await said(client, "memory_search", query="herons", user_id="ann"),
                await said(client, "memory_add", content="I was here", user_id="ann", source="t"),
            ]

    answers = asyncio.run(use())
    assert not any("code word is" in a or "Ann" in a for a in answers)
    with AutoContext.open(file) as context:
        assert [m.content for m in context.memories.all(user_id="ann")] == ["Ann likes herons."]
        assert [(m.content, m.source) for m in context.memories.all(user_id="bob")] == [("I was here", "s")]


def test_without_a_user_there_are_no_memories(file: Path) -> None:
    async def use() -> None:
        async with served(file, "s", "") as client:
            tools = (await client.list_tools()).tools
            assert [t.name for t in tools] == ["context_reload", "content_search"]
            assert "there is no tool 'memory_add'" in await said(client, "memory_add", content="x")

    asyncio.run(use())


def test_what_the_agent_compresses_meanwhile_is_found(file: Path) -> None:
    async def use() -> None:
        async with served(file, "s", "ann") as client:
            with AutoContext.open(file, config=AutoContextConfig(msg_threshold=4, last_keep=1)) as context:
                agent = context.session("s", user_id="ann").memory
                for n in range(40):
                    agent.add_message(Msg(role="user", content=f"question {n} " + "word " * 200))
                    agent.add_message(Msg(role="assistant", content=f"answer {n} " + "word " * 200))
                agent.compress_if_needed(force=True)
                uuids = [u for u in agent.get_offload_context() if u != UUID]
            assert uuids
            for uuid in uuids:
                assert "question" in await said(client, "context_reload", working_context_offload_uuid=uuid)

    asyncio.run(use())


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda x: st.lists(x, max_size=2))


@example(name="memory_add", arguments={"content": None})
@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["context_reload", "content_search", "memory_search", "memory_add", "other"]),
    arguments=st.dictionaries(
        st.sampled_from(["query", "content", "limit", "tags", "importance", "category", "ref", "offset",
                         "working_context_offload_uuid"]), JSON, max_size=5),
)  # fmt: skip
def test_whatever_a_model_passes_it_gets_a_text(name: str, arguments: dict[str, Any]) -> None:
    async def use() -> str:
        with AutoContext.open() as context:
            async with create_connected_server_and_client_session(create_server(context, "s", "ann")) as client:
                return await said(client, name, **arguments)

    assert asyncio.run(use())


def test_the_tools_can_be_used_without_a_server(file: Path) -> None:
    with AutoContext.open(file) as context:
        tools = AutoContextTools(context, "s", "ann")
        assert SECRET in asyncio.run(tools.call("context_reload", {"working_context_offload_uuid": UUID}))
        for tool in tools.offered:
            assert json.dumps(tool.inputSchema)
        endless = json.loads('{"query": "x", "limit": 1e999}')
        for name in ("content_search", "memory_search"):
            assert asyncio.run(tools.call(name, endless)).startswith("Nothing ")


def test_the_command_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "no.db"
    assert main(["mcp", "--db", str(missing)]) == 2
    assert "no file" in capsys.readouterr().err
    assert not missing.exists()
    with AutoContext.open(missing):
        pass
    assert main(["mcp", "--db", str(missing), "--user", "ann"]) == 2
    assert "has no session" in capsys.readouterr().err
