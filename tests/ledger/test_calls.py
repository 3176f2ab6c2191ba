"""What a call is about, in a few words."""

from typing import Any

import pytest

from autocontext.ledger.calls import label_in, label_of

LABELS: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"command": "pytest -q\ncd x"}, "pytest -q (+1 lines)"),
    ({"origin": "SFO", "destination": "JFK", "date": "2024-05-20"}, "SFO, JFK, 2024-05-20"),
    ({"note": "x" * 90, "order_id": "W1"}, "W1"),
    ({"files": [{"file_path": "requests/models.py", "span_ids": ["Request"]}]}, "requests/models.py, Request"),
    ({"query": "first\nsecond"}, "first"),
]


@pytest.mark.parametrize(("arguments", "label"), LABELS)
def test_a_label_names_what_tells_most(arguments: dict[str, Any], label: str) -> None:
    assert label_of(arguments) == label


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("src/a.py", "src/a.py"),
        ("packages/coding-agent/src/tui/tui-renderer.ts", "…/src/tui/tui-renderer.ts"),
        ("cd packages/coding-agent && npm run check", "cd packages/coding-agent…npm run check"),
        ("grep -n 'a rather long pattern' src/module.py", "grep -n 'a rather long p…"),
    ],
)
def test_a_short_label_keeps_the_end_of_a_path_and_the_beginning_of_all_else(label: str, shown: str) -> None:
    assert label_in(label, 26) == shown
