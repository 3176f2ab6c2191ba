"""A strategy of your own: when the agent reads the same file again, the older reading is replaced by one line.

Usage: python examples/own_strategy.py
"""

from collections.abc import Iterator

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.strategies import Proposal, View
from autocontext.testing import assert_valid_chat, assistant, tool_exchange, user


class SupersededReads:
    """Shortens what `read_file` gave wherever a later call reads the same path; needs no model."""

    name = "superseded_reads"

    def propose(self, view: View) -> Iterator[Proposal]:
        """One proposal per outdated result: in place, so that the call keeps its answer."""
        calls = {use.id: use for msg in view for use in msg.tool_uses if use.name == "read_file"}
        newest = {use.input.get("path"): use.id for use in calls.values()}
        for i, msg in enumerate(view):
            outdated = {
                at: f"(outdated: {calls[block.id].input['path']} was read again later)"
                for at, block in enumerate(msg.content)
                if block.type == "tool_result"
                and block.id in calls
                and newest[calls[block.id].input.get("path")] != block.id
                and len(block.text) > 200
            }
            if outdated:
                yield Proposal(view.span(i, i + 1), blocks=outdated, event_type="SUPERSEDED_READ", kind="stub")


def main() -> None:
    # First in the list, it is tried first; the built-in ones go on where it was not enough.
    config = AutoContextConfig(max_token=1_200, strategies=(SupersededReads(), "rounds", "current_round"))
    memory = AutoContextMemory(config)
    memory.add_message(user("Fix the parser in c.py."))
    for version in range(3):
        source = f"def parse(text):  # version {version}\n    return text.split()\n" * 20
        memory.add_messages(tool_exchange("read_file", {"path": "c.py"}, source))
        memory.add_messages(tool_exchange("edit_file", {"path": "c.py"}, f"now version {version + 1}"))
    report = memory.compress_if_needed()
    print(
        f"{report.strategies[0].name}: {report.strategies[0].reason}, {report.strategies[0].tokens_saved} tokens saved"
    )
    results = [result.text for msg in memory.messages for result in msg.tool_results if result.name == "read_file"]
    assert [text.startswith("(outdated") for text in results] == [True, True, False]
    assert "version 0" in memory.reload(next(iter(memory.get_offload_context())))[0].tool_results[0].text
    memory.add_message(assistant("Fixed."))
    assert_valid_chat(memory.get_messages())


if __name__ == "__main__":
    main()
