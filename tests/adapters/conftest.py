"""Each test of the adapter contract that takes a `mode` runs in every mode that the driver has."""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.cls is None:
        return
    if "mode" in metafunc.fixturenames:
        metafunc.parametrize("mode", metafunc.cls.driver.modes)
    if "outer_mode" in metafunc.fixturenames:  # of a long test: the modes that have least in common
        metafunc.parametrize("outer_mode", dict.fromkeys((metafunc.cls.driver.modes[0], metafunc.cls.driver.modes[-1])))
