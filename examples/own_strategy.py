"""A strategy of your own: where a test run failed and a later run of the same command passed, its last line is enough.

Usage: python examples/own_strategy.py
"""

from collections.abc import Iterator

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.strategies import Proposal, View
from autocontext.testing import assert_valid_chat, assistant, tool_exchange, user


class RepairedRuns:
    """Shortens what `run_tests` gave if it failed and the same call passed later; needs no model."""

    name = "repaired_runs"

    def propose(self, view: View) -> Iterator[Proposal]:
        """One proposal per outdated result: in place, so that the call keeps its answer."""
        calls = {use.id: str(use.input) for msg in view for use in msg.tool_uses if use.name == "run_tests"}
        blocks = ((i, at, block) for i, msg in enumerate(view) for at, block in enumerate(msg.content))
        results = [place for place in blocks if place[2].type == "tool_result"]
        passed = {calls[block.id]: i for i, _, block in results if block.id in calls and "failed" not in block.text}
        for i, at, block in results:
            if passed.get(calls.get(block.id, ""), -1) > i and len(block.text) > 200:
                last = block.text.splitlines()[-1]
                short = {at: f"{last} (repaired: a later run passed)"}
                yield Proposal(view.span(i, i + 1), blocks=short, event_type="REPAIRED_RUN", kind="stub")


def main() -> None:
    # First in the list, it is tried first; the built-in ones go on where it was not enough.
    config = AutoContextConfig(max_token=1_500, strategies=(RepairedRuns(), "rounds", "current_round"))
    memory = AutoContextMemory(config)
    memory.add_message(user("Fix the parser in c.py."))
    for failures in (2, 1, 0):
        log = "test_parse: AssertionError: ['a', 'b'] != ['a b']\n" * 40 if failures else ""
        verdict = f"{failures} failed, 12 passed" if failures else "14 passed"
        memory.add_messages(tool_exchange("run_tests", {"path": "tests/test_c.py"}, log + verdict))
        memory.add_messages(tool_exchange("edit_file", {"path": "c.py"}, "ok"))
    report = memory.compress_if_needed()
    print(f"{report.strategies[0].name}: {report.strategies[0].tokens_saved} tokens saved; {report.receipt}")
    results = [result.text for msg in memory.messages for result in msg.tool_results if result.name == "run_tests"]
    assert ["repaired" in text for text in results] == [True, True, False]
    assert "AssertionError" in memory.reload(next(iter(memory.get_offload_context())))[0].tool_results[0].text
    memory.add_message(assistant("Fixed."))
    assert_valid_chat(memory.get_messages())


if __name__ == "__main__":
    main()
