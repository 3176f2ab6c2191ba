"""Policies by name or by path, and the context that each shows at one place of a conversation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from chat import Chat, Tokens, truncate
from policies import POLICIES, Policy
from replays import turns

Factory = Callable[[int, Tokens], Policy]
BUILT_IN = {"ours": "autocontext", "truncation": "truncate"}
"""What is laid without any --policy: name in the tables to name in `policies`."""


def chosen(texts: Sequence[str]) -> dict[str, Factory]:
    """The built-in policies and those of `NAME=SPEC` texts, which replace one of the same name.

    SPEC is FILE.py:Class or a name in `policies`. Raises ValueError for anything else.
    """
    specs = dict(BUILT_IN)
    for text in texts:
        name, equals, spec = text.partition("=")
        if not (name and equals and spec):
            raise ValueError(f"{text!r}: write NAME=FILE.py:Class")
        specs[name] = spec
    return {name: _factory(spec) for name, spec in specs.items()}


def _factory(spec: str) -> Factory:
    if spec in POLICIES:
        return POLICIES[spec]
    path, colon, class_name = spec.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise ValueError(f"{spec!r} is no policy; write FILE.py:Class or one of {', '.join(POLICIES)}")
    factory: Factory = getattr(_module(Path(path).resolve()), class_name)
    return factory


def _module(file: Path) -> ModuleType:
    """A file's module. What it imports from its own folder hides modules of the same name here, and only for it."""
    spec = spec_from_file_location(f"policy_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with _first(file.parent):
        sys.modules[module.__name__] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    return module


@contextmanager
def _first(folder: Path) -> Iterator[None]:
    """Imports find the modules of a folder first; afterwards its names mean what they meant before."""
    names = {path.stem for path in folder.glob("*.py")}
    hidden = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


def places(messages: Sequence[Chat], window: int, count: Tokens) -> list[int]:
    """Indices of assistant messages with more before them than the window holds, and with room beside the system's."""
    if count(m for m in messages if m["role"] == "system") >= 0.75 * window:
        return []
    found, total = [], 0
    for i, message in enumerate(messages):
        if message["role"] == "assistant" and total > window:
            found.append(i)
        total += count.message(message)
    return found


def context_at(messages: Sequence[Chat], place: int, make: Factory, window: int, count: Tokens) -> list[Chat]:
    """What a policy shows before the assistant message at `place`; cut to the window where it is larger."""
    policy = make(window, count)
    context: list[Chat] = []
    for _, new in turns(messages[: place + 1]):
        context = list(policy.step(new))
    return truncate(context, window, count)
