"""The library's log lines: no secret in any form, and none that breaks a turn."""

import logging
from collections.abc import Iterator

import pytest

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.flows.logs import logger
from autocontext.testing import conversation

SECRET = "hunter22"


class Lines(logging.Handler):
    """Formats exceptions itself, as formatters that write JSON do."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        own = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
        self.lines += [record.getMessage(), own, self.format(record)]


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler, log = Lines(), logger("autocontext.passes")
    log.addHandler(handler)
    yield handler.lines
    log.removeHandler(handler)


def test_a_traceback_holds_no_secret_whoever_formats_it(lines: list[str]) -> None:
    try:
        int(f"postgresql://ann:{SECRET}@db/agents")
    except ValueError:
        logger("autocontext.passes").exception("failed: %s", f"password={SECRET}")
    text = "\n".join(lines)
    assert "postgresql://ann:[redacted]@db/agents" in text
    assert SECRET not in text


def test_an_object_that_cannot_be_shown_breaks_no_turn(lines: list[str]) -> None:
    class Listener:
        def __repr__(self) -> str:
            raise RuntimeError("detached")

        def hear(self, report: object) -> None:
            raise ValueError("no")

    memory = AutoContextMemory(AutoContextConfig.for_window(2_000))
    memory.on_compression(Listener().hear)
    memory.add_messages(conversation(20, chars=1_000))
    assert memory.get_messages()
    assert any("cannot be shown" in line for line in lines)
