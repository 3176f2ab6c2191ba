"""A conversation that outgrows its window: the context stays small and valid, and every original can be had again.

Runs offline in seconds; rules write the notes. Usage: python examples/quickstart.py
"""

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg, ToolResultBlock, ToolUseBlock
from autocontext.testing import assert_valid_chat

WINDOW = 4_000


def question(number: int) -> list[Msg]:
    """One round: the user asks, the agent reads a file, the agent answers."""
    path = f"src/module_{number}.py"
    listing = "\n".join(f"{line}: value_{line} = compute({number}, {line})" for line in range(40))
    return [
        Msg(role="user", content=f"What does {path} compute?"),
        Msg(role="assistant", content=[ToolUseBlock(id=f"call_{number}", name="read_file", input={"path": path})]),
        Msg(role="tool", content=[ToolResultBlock(id=f"call_{number}", name="read_file", output=listing)]),
        Msg(role="assistant", content=f"{path} computes 40 values, value_0 to value_39, with compute({number}, n)."),
    ]


def main() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW))
    added: list[Msg] = []
    for number in range(30):
        for msg in question(number):
            memory.add_message(msg)
            added.append(msg)
            if not msg.tool_uses:  # an agent asks for its context before each call of its model
                context = memory.get_messages()
                assert_valid_chat(context)
                assert memory.token_count <= WINDOW

    print(f"{len(added)} messages added, {len(context)} in the context, {memory.token_count} tokens of {WINDOW}")
    print(f"without compression: {AutoContextMemory(AutoContextConfig.for_window(WINDOW)).count(added)} tokens")
    note = next(m.text for m in context if m.origin and m.origin.kind == "fold")
    print("the note that stands for the oldest messages begins:", *note.splitlines()[:5], sep="\n  ")

    assert memory.get_original_memory_msgs() == added
    uuid, originals = next(iter(memory.get_offload_context().items()))
    page = ContextOffloadTool(memory)(working_context_offload_uuid=uuid)
    assert originals[0].text in page or originals[0].tool_results[0].text in page
    print(f"context_reload({uuid[:8]}...) gives {len(page)} characters back")


if __name__ == "__main__":
    main()
