"""The measures of `costs` count what they are given, and nothing that happens to come in between."""

from __future__ import annotations

import gc
from typing import Any

from tests.costs import python_calls


def test_a_garbage_collection_in_between_does_not_count() -> None:
    def noted(_phase: str, _info: dict[str, Any]) -> None:
        """As Hypothesis has one, too."""

    def work() -> list[list[object]]:
        return [[] for _ in range(10_000)]

    alone = python_calls(work)
    before = gc.get_threshold()
    gc.callbacks.append(noted)
    gc.set_threshold(10)
    try:
        assert python_calls(work) == alone
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(noted)
