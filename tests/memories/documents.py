"""Memory.json documents for tests: one generator, from harmless to hostile."""

from __future__ import annotations

import random
from typing import Any

WORDS = [
    "the",
    "of",
    "test",
    "python",
    "docker",
    "user",
    "prefers",
    "测试",
    "用户喜欢",
    "テスト",
    "naïve",
    "😀",
    "<|endoftext|>",
    "</memory>",
    "&",
    "foo_bar()",
    "x=1",
    "1234567",
    "hello",
    "wörld",
    "deploys",
    "kubernetes",
    "on",
    "Fridays",
]


def text(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(WORDS, k=words))


def facts(dice: random.Random, count: int, lengths: tuple[int, ...] = (3, 8, 8, 15, 30)) -> list[dict[str, Any]]:
    return [
        {
            "id": f"fact_{i:08x}",
            "content": f"{text(dice, dice.choice(lengths))} {i}",
            "category": dice.choice(["preference", "context", "correction", "goal"]),
            "confidence": dice.random(),
            "sourceError": dice.choice([None, "mixed up two names"]),
        }
        for i in range(count)
    ]


def document(dice: random.Random, count: int, lengths: tuple[int, ...] = (3, 8, 8, 15, 30)) -> dict[str, Any]:
    """A document with some facts, and sections half of the time."""
    made: dict[str, Any] = {"version": "1.0", "facts": facts(dice, count, lengths)}
    if dice.random() < 0.5:
        made["user"] = {"workContext": {"summary": text(dice, dice.choice([5, 50, 400])), "updatedAt": ""}}
        made["history"] = {"recentMonths": {"summary": text(dice, dice.choice([5, 50, 400])), "updatedAt": ""}}
    return made


def plain_facts(*contents: str, confidence: float = 0.9) -> dict[str, Any]:
    return {
        "facts": [
            {"id": f"f{i}", "content": c, "category": "context", "confidence": confidence}
            for i, c in enumerate(contents)
        ]
    }
