"""Leaves to the other environments what is theirs, and says so."""

from __future__ import annotations

import pytest

from tests.adapters.frameworks.environments import current, elsewhere

collect_ignore = list(elsewhere())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for file, name in elsewhere().items():
        if current() is None:
            terminalreporter.write_line(
                f"not run here: tests/adapters/frameworks/{file}: scripts/adapter_environments.sh {name} runs it"
            )
