"""An MCP client on autocontext's server: a model in another program looks up what an agent has compressed away.

    python examples/mcp_client.py          (needs the extra `mcp`; offline, no key)

The first part stands for your agent: it writes a session to a file. The second is any MCP client.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from autocontext import AutoContext, Msg, ToolResultBlock, ToolUseBlock


def work(file: Path) -> str:
    """What an agent leaves behind: a session with one compression; gives the UUID of its note."""
    with AutoContext.open(file, window="16k") as context:
        session = context.session("logs", user_id="ann")
        session.add(Msg(role="user", content="Read the logs of the last week."))
        for day in range(1, 8):
            lines = [f"day {day} request {n} handled" for n in range(300)]
            lines[150] = f"day {day} ALERT disk {day * 11} failed"
            session.add(
                Msg(role="assistant", content=[ToolUseBlock(id=f"c{day}", name="read_log", input={"day": day})])
            )
            session.add(
                Msg(role="tool", content=[ToolResultBlock(id=f"c{day}", name="read_log", output="\n".join(lines))])
            )
        session.add(Msg(role="assistant", content="A disk failed every day."))
        session.memory.compress_if_needed(force=True)
        context.content.put("Runbook: swap the disk, then rebuild the array.", name="runbook", namespace="user:ann")
        return next(iter(session.memory.get_offload_context()))


async def look_up(file: Path, uuid: str) -> None:
    command = ["-m", "autocontext", "mcp", "--db", str(file), "--session", "logs", "--user", "ann"]
    server = StdioServerParameters(command=sys.executable, args=command)
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as client:
        await client.initialize()
        tools = await client.list_tools()
        print("tools:", ", ".join(tool.name for tool in tools.tools))
        calls = [
            ("context_reload", {"working_context_offload_uuid": uuid, "query": "ALERT disk"}),
            ("content_search", {"query": "rebuild the array"}),
            ("memory_add", {"content": "Ann wants disks replaced the same day.", "tags": ["disks"], "importance": 8}),
            ("memory_search", {"query": "when to replace a disk"}),
        ]
        for name, arguments in calls:
            block = (await client.call_tool(name, arguments)).content[0]
            assert isinstance(block, TextContent)
            text = next((line for line in block.text.splitlines() if "failed" in line), block.text)
            print(f"{name}: {text}")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "agent.db"
        uuid = work(file)
        asyncio.run(look_up(file, uuid))


if __name__ == "__main__":
    main()
