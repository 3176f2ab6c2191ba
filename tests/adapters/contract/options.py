"""The contract of the adapters' constructors: the same options, visible at run time, and wrong ones named."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import pytest

from autocontext import AutoContextMemory, Plan
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
