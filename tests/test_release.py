"""What a release needs to agree on: the version and its changes, the extras and what uses them."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from autocontext import __version__

pytestmark = pytest.mark.repo

ROOT = Path(__file__).parent.parent


def test_the_newest_heading_of_the_changelog_is_this_version() -> None:
    headings = re.findall(r"^## \[(.+?)\](.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert headings[1][0] == __version__
    assert re.fullmatch(r" - \d{4}-\d\d-\d\d", headings[1][1])


def test_each_extra_is_used_before_a_release() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert sorted(runpy.run_path(str(ROOT / "scripts" / "smoke.py"))["EXTRAS"]) == sorted(["", *extras])
