"""An agent loop whose model needs a detail that was compressed away, and asks for it with context_reload.

The agent's model is a script here; put your provider's call in its place. Usage: python examples/reload_tool.py
"""

import re
from collections.abc import Sequence

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg, ToolResultBlock, ToolUseBlock
from autocontext.testing import ScriptedModel
from autocontext.tools import INSTRUCTIONS

MARK = re.compile(r"\[(m\d+): [\d,]+ of [\d,]+ characters left out\]")


def fake_model(context: Sequence[Msg]) -> Msg:
    """What a model does that has read INSTRUCTIONS: it follows a mark when the answer is not in view."""
    last = context[-1]
    if last.tool_results and (secret := re.search(r"build id (\w+)", last.tool_results[0].text)):
        return Msg(role="assistant", content=f"The build id was {secret[1]}.")
    marks = [mark for msg in context for result in msg.tool_results for mark in MARK.findall(result.text)]
    call = {"working_context_offload_uuid": marks[0], "query": "build id"}
    return Msg(role="assistant", content=[ToolUseBlock(id="reload_1", name="context_reload", input=call)])


def main() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000), ScriptedModel("It built."))
    reload_tool = ContextOffloadTool(memory)
    memory.add_message(Msg(role="system", content=f"You are a build agent.\n{INSTRUCTIONS}"))
    memory.add_message(Msg(role="user", content="Build the project."))
    memory.add_message(Msg(role="assistant", content=[ToolUseBlock(id="build_1", name="build", input={})]))
    log = "compiling ...\n" * 2_000 + "build id a81f\n" + "linking ...\n" * 2_000
    memory.add_message(Msg(role="tool", content=[ToolResultBlock(id="build_1", name="build", output=log)]))
    memory.add_message(Msg(role="assistant", content="Done, the build succeeded."))
    memory.add_message(Msg(role="user", content="What was the build id?"))

    while True:
        context = memory.get_messages()
        reply = fake_model(context)
        memory.add_message(reply)
        if not reply.tool_uses:
            break
        for use in reply.tool_uses:
            output = reload_tool(**use.input)
            print(f"{use.name}({use.input['query']!r}) -> {len(output)} of {len(log)} characters")
            memory.add_message(Msg(role="tool", content=[ToolResultBlock(id=use.id, name=use.name, output=output)]))

    assert log not in "".join(result.text for msg in context for result in msg.tool_results)
    assert reply.text == "The build id was a81f."
    print(reply.text)


if __name__ == "__main__":
    main()
