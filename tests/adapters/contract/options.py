"""The contract of the adapters' constructors: the same options, visible at run time, and wrong ones named."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, Plan
from autocontext.adapters.options import MemoryOptions
from autocontext.errors import ConfigError
from autocontext.stores import InMemorySessionStore, SessionStore


class OptionsContract:
    """What holds for every adapter class; subclasses name theirs and the options that only it has."""

    adapter: ClassVar[type[Any]]
    own_options: ClassVar[tuple[str, ...]] = ()

    def test_the_signature_names_every_option(self) -> None:
        parameters = inspect.signature(self.adapter).parameters
        assert list(parameters) == ["memory", *self.own_options, *MemoryOptions.__annotations__]
        assert all(p.kind is p.KEYWORD_ONLY for name, p in parameters.items() if name != "memory")
        assert parameters["store"].annotation == SessionStore | None
        assert {name: p.default for name, p in parameters.items() if p.default is not None and name != "source_id"} == {
            "user_id": ""
        }

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ("sesion_id", "has no option 'sesion_id'; did you mean 'session_id'?"),
            ("stores", "has no option 'stores'; did you mean 'store'?"),
            ("max_tokens", "has no option 'max_tokens'; it has memory, "),
            ("window", "has no option 'window'; pass it to `open`, or config=AutoContextConfig.for_window(...)"),
            ("steering", "has no option 'steering'; it is set in the configuration: config="),
        ],
    )
    def test_a_wrong_option_is_named_with_the_nearest_right_one(self, wrong: str, message: str) -> None:
        with pytest.raises(ConfigError) as refusal:
            self.adapter(**{wrong: 1})
        assert str(refusal.value).startswith(f"{self.adapter.__name__} {message}")

    def test_every_option_is_taken(self) -> None:
        options: MemoryOptions = {
            "config": None,
            "model": None,
            "store": InMemorySessionStore(),
            "session_id": "42",
            "user_id": "ann",
            "plan": Plan(name="tidy"),
        }
        assert options.keys() == MemoryOptions.__annotations__.keys()
        self.adapter(**options)
        self.adapter()

    def test_a_memory_has_its_own_options(self) -> None:
        self.adapter(AutoContextMemory(), plan=Plan(name="tidy"))
        with pytest.raises(ConfigError, match="session_id, user_id: the memory that is passed has its own"):
            self.adapter(AutoContextMemory(), session_id="42", user_id="ann")

    def test_it_is_opened_over_a_database(self, tmp_path: Path) -> None:
        file = tmp_path / "agent.db"
        opened = self.adapter.open(file, window="16k", session_id="42", user_id="ann")
        assert isinstance(opened, self.adapter)
        opened.close()
        opened.close()
        with AutoContextMemory.open(file, session_id="42", user_id="ann", window=16_000) as memory:
            assert _config_of(opened) == memory.config
        with pytest.raises(ConfigError, match="pass window or config, not both"):
            self.adapter.open(file, window=16_000, config=AutoContextConfig())
        for wrong, message in (
            ("sesion_id", "did you mean 'session_id'?"),
            ("windw", "did you mean 'window'?"),
            ("store", "it has window, "),
            ("steering", "it is set in the configuration: config="),
        ):
            with pytest.raises(ConfigError, match=re.escape(f"open has no option {wrong!r}; {message}")):
                self.adapter.open(file, **{wrong: None})

    def test_a_path_is_for_open(self) -> None:
        with pytest.raises(ConfigError, match=r"memory: 'agent\.db' is not an AutoContextMemory; for a database use"):
            self.adapter("agent.db")


def _config_of(adapter: Any) -> AutoContextConfig:
    memory = getattr(adapter, "memory", None) or adapter._sessions.one()
    found = memory if isinstance(memory, AutoContextMemory) else memory()
    return cast("AutoContextMemory", found).config
