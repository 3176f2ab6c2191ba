"""Each test of the adapter contract that takes a `mode` runs in every mode that the driver has."""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mode" in metafunc.fixturenames and metafunc.cls is not None:
        metafunc.parametrize("mode", metafunc.cls.driver.modes)
