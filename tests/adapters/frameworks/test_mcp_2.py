"""The MCP server with mcp 2, whose servers are made otherwise, asked by its client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import autocontext
from tests.adapters.contract.suite import ROOT


def test_a_client_of_mcp_2_uses_the_tools(tmp_path: Path) -> None:
    assert version("mcp").startswith("2.")

    async def use() -> None:
        arguments = ["-m", "autocontext", "mcp", "--db", str(tmp_path / "a.db"), "--session", "s", "--user", "ann"]
        server = StdioServerParameters(command=sys.executable, args=[*arguments, "--steering", "16k"], cwd=ROOT)
        async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as client:

            async def said(name: str, **arguments: object) -> str:
                [content] = (await client.call_tool(name, arguments)).content
                return str(content.text)

            hello = await client.initialize()
            assert "context_reload" in (hello.instructions or "")
            assert hello.server_info.version == autocontext.__version__
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert {"context_reload", "context_status", "content_search", "memory_search", "memory_add"} <= {*names}
            assert (await said("memory_add", content="Ann has a boat.")).startswith("Remembered as ")
            assert "Ann has a boat." in await said("memory_search", query="boat")
            assert await said("memory_search") == "Error: query: must be passed."
            assert "there is no tool 'other'" in await said("other")

    asyncio.run(use())
