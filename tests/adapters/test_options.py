"""The contract of constructors, on adapters without a framework."""

from typing import Unpack

import pytest

from autocontext import AutoContextMemory
from autocontext.adapters._sessions import Sessions
from autocontext.adapters.options import MemoryOptions, Openable, with_memory_options
from autocontext.errors import ConfigError
from tests.adapters.contract.options import OptionsContract


class Plain(Openable):
    """An adapter at its smallest."""

    @with_memory_options
    def __init__(self, memory: AutoContextMemory | None = None, **options: Unpack[MemoryOptions]) -> None:
        """Make one."""
        self.sessions = Sessions(memory, **options)

    def memory(self) -> AutoContextMemory:
        """The one memory."""
        return self.sessions.one()


class Named(Plain):
    """An adapter with an option of its own."""

    @with_memory_options
    def __init__(
        self, memory: AutoContextMemory | None = None, *, source_id: str = "x", **options: Unpack[MemoryOptions]
    ) -> None:
        super().__init__(memory, **options)
        self.source_id = source_id


class TestPlain(OptionsContract):
    adapter = Plain


class TestNamed(OptionsContract):
    adapter = Named
    own_options = ("source_id",)


def test_an_option_of_its_own_is_hinted_at_too() -> None:
    with pytest.raises(ConfigError, match="Named has no option 'sourceid'; did you mean 'source_id'"):
        Named(sourceid="y")  # type: ignore[call-arg]


def test_the_constructor_keeps_its_words() -> None:
    assert Plain.__init__.__doc__ == "Make one."
    assert Plain.__init__.__name__ == "__init__"


def test_options_reach_the_memories() -> None:
    memory = Plain(session_id="42", user_id="ann").sessions.one()
    assert memory.session == ("ann", "42")
    assert Plain(user_id="ann").sessions.of("7").session == ("ann", "7")
