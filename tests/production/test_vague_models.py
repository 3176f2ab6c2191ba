"""A summarising model that writes much and says nothing pushes out no value, path or limit of the originals."""

import pytest

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.messages import is_note
from autocontext.requests import ModelReply, ModelRequest
from autocontext.testing import assert_valid_chat, assistant, tool_exchange, user

VALUES = (
    "src/pool/worker.py",
    "No module named psycopg2",
    "1,284.50 EUR",
    "8f3a9c1",
    "2026-03-14",
    "Everything goes past Maria first",
)
SENTENCE = (
    "The agent carefully went on with the work, looked into several matters, and made good progress on everything. "
)


class VagueModel:
    """Writes paragraphs of so many tokens in which nothing is said."""

    def __init__(self, tokens: int) -> None:
        self._paragraphs = max(1, tokens * 4 // len(3 * SENTENCE))

    def complete(self, _request: ModelRequest) -> ModelReply:
        return ModelReply(text="\n\n".join([3 * SENTENCE] * self._paragraphs))


@pytest.mark.slow
@pytest.mark.parametrize(("window", "steps"), [(4_000, 60), pytest.param(16_000, 160, marks=pytest.mark.slow)])
@pytest.mark.parametrize("tokens", [200, 1_000, 1_500])
def test_five_of_six_values_stand_beside_a_note_that_says_nothing(window: int, steps: int, tokens: int) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(window), VagueModel(tokens))
    memory.add_messages(
        [
            user("Please repair the pool. Everything goes past Maria first."),
            *tool_exchange(
                "edit_file", {"path": "src/pool/worker.py", "old": "a", "new": "def close(self):"}, "Edited."
            ),
            *tool_exchange("bash", {"command": "pytest"}, "ModuleNotFoundError: No module named psycopg2\nexit code 1"),
            assistant("The total of the order is 1,284.50 EUR, and the commit is 8f3a9c1."),
            user("The delivery date is 2026-03-14, nothing else."),
        ]
    )
    for n in range(steps):
        page = f"words of page {n} about nothing. " * (window // 200)
        memory.add_messages(
            [*([user(f"Look at part {n}.")] if n % 5 == 0 else []), *tool_exchange("read", {"n": n}, page)]
        )
        assert_valid_chat(memory.get_messages())
        assert memory.token_count <= window
    notes = [m for m in memory.messages if is_note(m)]
    assert any("good progress" in note.text for note in notes) or window == 4_000
    in_view = "\n".join(
        [*(m.text for m in memory.messages), *(r.text for m in memory.messages for r in m.tool_results)]
    )
    in_view += str([use.input for m in memory.messages for use in m.tool_uses])
    assert sum(value in in_view for value in VALUES) >= 5
