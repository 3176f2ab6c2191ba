"""Every recorded fault of the reference has a test of the right behaviour, and every pass keeps what it must keep.

The tests by subject: test_quirks_structure.py, test_quirks_selection.py, test_quirks_failures.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from autocontext import AutoContextConfig
from tests.conformance.play import QUIRKS, default, play, preset

HERE = Path(__file__).parent
DIFFERENCES = (HERE.parent.parent / "docs" / "reference-differences.md").read_text(encoding="utf-8")


def _tests() -> list[str]:
    """Names of all quirk tests."""
    return [
        name
        for file in sorted(HERE.glob("test_quirks_*.py"))
        for name in re.findall(r"^def (test_q\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def test_every_recorded_case_has_its_own_test() -> None:
    tested = {name.split("_")[1].upper() for name in _tests()}
    assert len(QUIRKS) == 48
    assert tested == {number.upper() for number in QUIRKS}


@pytest.mark.parametrize("name", _tests())
def test_every_test_is_listed_with_its_reason(name: str) -> None:
    assert f"`{name}`" in DIFFERENCES


def test_the_list_names_no_test_that_is_gone() -> None:
    assert set(re.findall(r"`(test_q\w+)`", DIFFERENCES)) == set(_tests())


@pytest.mark.sampled
@pytest.mark.parametrize("config", [preset, default], ids=["agentscope_java", "default"])
@pytest.mark.parametrize("name", QUIRKS)
def test_every_pass_keeps_what_a_pass_must_keep(name: str, config: Callable[..., AutoContextConfig]) -> None:
    """`play` checks it after each pass: pairs, system messages, originals, reach, counts, and that tokens shrink."""
    played = play(name, config).run()
    assert len(played.reports) == sum(op["op"] == "compress" for op in played.quirk.script)
    if config is preset:
        assert all(sum(s.applied for s in r.strategies) <= 1 for r in played.reports)
