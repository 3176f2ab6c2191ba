"""A budget agent asks the same thing in other words: the second answer is not computed again.

Runs offline. Usage: python examples/result_cache.py
"""

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from autocontext.cache import ResultCache, normalize_number

ANOMALY_THRESHOLD_MULTIPLIER = 2.0
MONTHS_LEFT = 4
computed = 0


def analyze_budget(limit: float, spent: float, history: list[float]) -> dict[str, Any]:
    """The state of the budget, and a forecast from the history."""
    global computed  # noqa: PLW0603 (shows how often this runs)
    computed += 1
    rate = statistics.mean(history) if history else 0
    spread = statistics.stdev(history) if len(history) > 1 else 0
    predicted = spent + rate * MONTHS_LEFT
    return {
        "remaining": limit - spent,
        "rate": rate,
        "predicted": predicted,
        "overshoot": predicted > limit,
        "anomalies": [value for value in history if value > rate + ANOMALY_THRESHOLD_MULTIPLIER * spread],
    }


def extracted(limit: str, spent: str, history: list[str]) -> dict[str, Any]:
    """The model's reading of the user's words, as numbers: the cache key depends on these, not on the words."""
    return {
        "limit": normalize_number(limit),
        "spent": normalize_number(spent),
        "history": [normalize_number(value) for value in history],
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with ResultCache(Path(folder) / "agent.db", namespace=("u1", "budget agent"), default_ttl=3600) as cache:
            first = extracted("50k", "42,000", ["5000", "7000", "8000", "6000"])
            result = cache.get_or_compute("analyze_budget", first, analyze_budget)
            assert result == {
                "remaining": 8000,
                "rate": 6500,
                "predicted": 68000,
                "overshoot": True,
                "anomalies": [],
            }
            print(f"computed: {result}")

        # Another process, another day, other words.
        with ResultCache(Path(folder) / "agent.db", namespace=("u1", "budget agent"), default_ttl=3600) as cache:
            second = extracted("$50,000", "forty-two thousand", ["5k", "7k", "8k", "6k"])
            again = cache.get_or_compute("analyze_budget", second, analyze_budget)
            assert again == result
            assert computed == 1
            print(f"found again under {next(iter(keys(cache, Path(folder))))}")

            # All values of the history count, not only the first five.
            longer = {**first, "history": [*first["history"], 7000, 90000]}
            other = cache.get_or_compute("analyze_budget", longer, analyze_budget)
            assert other["anomalies"] == [90000]
            assert computed == 2

            # Another user's results are never seen.
            stranger = ResultCache(Path(folder) / "agent.db", namespace=("u2", "budget agent"))
            stranger.get_or_compute("analyze_budget", first, analyze_budget)
            assert computed == 3
            stranger.close()
            print(f"{cache.stats().hits} hit, {computed} computations")


def keys(cache: ResultCache, folder: Path) -> list[str]:
    """The readable keys, out of an export."""
    cache.export_json(folder / "memory.json")
    return list(json.loads((folder / "memory.json").read_text())["tasks"])


if __name__ == "__main__":
    main()
