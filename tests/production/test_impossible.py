"""A context is over the window only where what must stay is too large: anything else is made to fit."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.adapters.openai_chat import from_openai
from autocontext.config import STRATEGIES
from autocontext.history.view import View
from autocontext.messages import is_pinned
from autocontext.testing import ScriptedModel
from tests.conversations import valid_histories
from tests.invariants import ESTIMATE, texts_of

REPLAYS = Path(__file__).parent.parent / "data" / "replay_dev.jsonl"
BARE_NOTE, FIRST_WORDS = 90, 200
"""Tokens of a note that says next to nothing, and of the beginning of a text in any script."""
LONG, PART = 400, 300
"""Tokens: a message of the user that is longer than the one can be shown in a part as long as the other."""
SHORT_TEXT = 80
"""Tokens of an English text of which a call or a result shows only the ends."""
AROUND = 25
"""Tokens of a message's frame, of a call's name, id and keys."""


def must_stay(view: View, tokens: Callable[[Msg], int], in_part: Callable[[Msg], int]) -> int:
    """Tokens of system messages, pinned exchanges and the current one (`in_part`), and the least for all the rest.

    The rest between two of them becomes a note that says next to nothing, or one message's first words.
    """
    current = {view.latest_user, len(view) - 1, *range(view.unread, len(view))}
    fixed = {i for i, m in enumerate(view.messages) if m.role == "system" or is_pinned(m)}
    fixed = {p for i in fixed for p in view.exchange(i)}
    current = {p for i in current if i >= 0 for p in view.exchange(i)}
    size, between = 0, list[int]()
    for i, m in enumerate([*view.messages, None]):
        if m is not None and i not in current | fixed:
            between.append(tokens(m))
            continue
        size += min(sum(between), BARE_NOTE if len(between) > 1 else FIRST_WORDS)
        size += 0 if m is None else tokens(m) if i in fixed else in_part(m)
        between = []
    return size


def check(memory: AutoContextMemory, messages: Iterable[Msg], in_part: Callable[[Msg], int]) -> None:
    """Read the view at each turn of the model, and look at what is over the window then."""
    window = memory.config.max_token
    for m in messages:
        if m.role == "assistant":
            memory.get_messages()
            if memory.token_count > window:
                originals = View.of(memory.get_original_memory_msgs())
                assert must_stay(originals, memory.counter.count, in_part) > window
        memory.add_message(m)


@given(valid_histories(max_moves=8), st.integers(500, 4_000), st.sampled_from(["set", "five", "recommended", "model"]))
def test_row_32_impossible_only_where_what_must_stay_is_too_large(history: list[Msg], window: int, made: str) -> None:
    fields = {"model_retries": 0, **ESTIMATE, **({"strategies": STRATEGIES} if made == "five" else {})}
    by_window = AutoContextConfig.for_window if made == "recommended" else windowed
    memory = AutoContextMemory(
        by_window(window, **fields), ScriptedModel("In short. " * 30) if made == "model" else None
    )
    check(memory, history, memory.counter.count)


def windowed(window: int, **fields: object) -> AutoContextConfig:
    return AutoContextConfig(max_token=window, **fields)


@pytest.mark.slow
@pytest.mark.parametrize("window", [2_100, 4_000])
def test_row_32_replayed_conversations_are_impossible_only_where_what_must_stay_is_too_large(window: int) -> None:
    """Of the current exchange, too, only a part must stay."""
    for record in map(json.loads, REPLAYS.read_text(encoding="utf-8").splitlines()):
        memory = AutoContextMemory(AutoContextConfig(max_token=window))
        count = memory.counter.count

        def in_part(m: Msg) -> int:
            if m.role == "user":
                return PART if count(m) > LONG else count(m)  # noqa: B023 (called in this round only)
            texts = sum(min(memory.counter.count_text(text), SHORT_TEXT) for text in texts_of(m))  # noqa: B023
            return texts + AROUND

        check(memory, from_openai(record["messages"]), in_part)
