"""Policies that build a context: plain truncation, baselines that any library should beat, and this library.

A policy is made for a window (tokens) and asked before every assistant message: `step(new messages) -> context`. It may
keep state. `reachable()` gives the texts that one reload would bring back; without it only what is shown counts.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from casefile import CaseFile
from chat import Chat, Tokens, truncate, visible_text
from measure import retrievable
from needs import mentioned
from peer_notes import paid as paid_model

from autocontext import AutoContextConfig, AutoContextMemory, ModelReply, ModelRequest, Msg, Usage
from autocontext.adapters.openai_chat import from_openai, to_openai
from autocontext.models import ExtractiveModel

_TAG = re.compile(r"<!-- CONTEXT_OFFLOAD: uuid=([0-9A-Za-z-]+) -->")
"""What an agent can read a handle for the reload tool from."""
_NUMBERS = re.compile(r"\bm[1-9]\d*(?:-m[1-9]\d*)?\b")
"""Numbers of messages and ranges of them, which are handles where a note names them."""


class Policy(Protocol):
    """Shows a model its context."""

    def step(self, new: list[Chat]) -> list[Chat]:
        """The context after these messages were added."""


@runtime_checkable
class Reloading(Protocol):
    """A policy whose library has a tool that brings back what is no longer shown."""

    def reachable(self) -> Iterable[str]:
        """The texts that one call of the tool would bring back, with any handle that the context shows."""


class Everything:
    """No compression, as if the window had no end."""

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count = window, count
        self.messages: list[Chat] = []

    def step(self, new: list[Chat]) -> list[Chat]:
        self.messages += new
        return list(self.messages)


class Truncate(Everything):
    """The newest whole groups that fit, at every call."""

    def step(self, new: list[Chat]) -> list[Chat]:
        return truncate(super().step(new), self.window, self.count)


class Hysteresis(Everything):
    """A stable prefix: cut only when over the window, then to a share of it."""

    def __init__(self, window: int, count: Tokens, *, low: float = 0.5) -> None:
        super().__init__(window, count)
        self.low = low
        self.view: list[Chat] = []

    def step(self, new: list[Chat]) -> list[Chat]:
        super().step(new)
        self.view += new
        if self.count(self.view) > self.window:
            self.view = self.cut()
        return list(self.view)

    def cut(self) -> list[Chat]:
        """The view, cut to its share."""
        return truncate(self.view, int(self.window * self.low), self.count)


class Lines(Hysteresis):
    """As hysteresis, but `share` of the window goes to a note of earlier values, each with some of its line.

    Values of users and of calls count three times those of results, frequent and recent ones more. No model.
    """

    _AROUND = 24

    def __init__(self, window: int, count: Tokens, *, low: float = 0.6, share: float = 0.15) -> None:
        super().__init__(window, count, low=low)
        self.budget = int(window * share)
        self.note: Chat | None = None
        self.learned: set[int] = set()
        self.score: defaultdict[str, float] = defaultdict(float)
        self.last: dict[str, int] = {}
        self.line: dict[str, str] = {}

    def cut(self) -> list[Chat]:
        view = [m for m in self.view if m is not self.note]
        kept = truncate(view, int(self.window * self.low) - self.budget, self.count)
        visible = {id(m) for m in kept}
        for i, message in enumerate(self.messages):
            if id(message) not in visible and message["role"] != "system" and i not in self.learned:
                self.learn(message, i)
        text = "[reference, earlier lines]\n" + "\n".join(self.best("\n".join(map(visible_text, kept))))
        self.note = {"role": "user", "content": text}
        at = next((i for i, m in enumerate(kept) if m["role"] == "user"), -1) + 1
        return [*kept[:at], self.note, *kept[at:]]

    def learn(self, message: Chat, position: int) -> None:
        """Take in the values of a message that is not shown whole any more."""
        self.learned.add(position)
        text = visible_text(message)
        for value in mentioned(text):
            self.score[value] += 1.0 if message["role"] == "tool" else 3.0
            self.last[value] = position
            at = text.find(value)
            end = at + len(value)
            line_start, line_end = text.rfind("\n", 0, at) + 1, text.find("\n", end)
            stop = min(end + self._AROUND, line_end if line_end >= 0 else len(text))
            self.line[value] = text[max(at - self._AROUND, line_start) : stop]

    def best(self, visible: str) -> list[str]:
        """The lines of the best values that `shown` does not hold, within the budget."""
        now, left, lines, noted = len(self.messages), self.budget - 20, [], ""
        for value in sorted(self.score, key=lambda v: (-self.score[v] * (0.5 + self.last[v] / now), v)):
            if value in visible or value in noted:
                continue
            left -= self.count.text(self.line[value]) + 1
            if left < 0:
                break
            lines.append(self.line[value])
            noted += "\n" + self.line[value]
        return lines


class PaidExtractive:
    """The embedded summariser's notes, accounted for as if a paid model had written them."""

    def __init__(self, count: Tokens) -> None:
        self._count, self._model = count, ExtractiveModel()

    def complete(self, request: ModelRequest) -> ModelReply:
        reply = self._model.complete(request)
        read = self._count.text(request.system) + self._count.text(request.prompt)
        usage = Usage(input_tokens=read, output_tokens=self._count.text(reply.text))
        return reply.model_copy(update={"usage": usage})


class Library:
    """This library as a user calls it, with the recommended settings for the window.

    The embedded summariser writes, or the model that was asked for.
    """

    def __init__(self, window: int, count: Tokens, *, paid: bool = False, **fields: Any) -> None:
        if count.name != "o200k_base":
            fields = {"token_counter": count.name, **fields}
        config = AutoContextConfig.for_window(window, **fields)
        self.memory = AutoContextMemory(config, paid_model() or (PaidExtractive(count) if paid else None))
        self.added: list[Msg] = []
        self.context: list[Chat] = []
        self._added: set[str] = set()
        self._texts: dict[int, tuple[Msg, str]] = {}

    def step(self, new: list[Chat]) -> list[Chat]:
        added = from_openai(new)
        self.added += added
        self._added |= {msg.id for msg in added}
        self.memory.add_messages(added)
        self.context = _same_where_equal(to_openai(self.memory.get_messages()), self.context)
        return self.context

    def reachable(self) -> Iterable[str]:
        """Every text behind a handle in the context."""
        for uuid in dict.fromkeys(_TAG.findall("\n".join(map(visible_text, self.context)))):
            yield from map(self._text, self.memory.reload(uuid))
        notes = [self._text(msg) for msg in self.memory.get_messages() if msg.id not in self._added]
        numbers = ",".join(_NUMBERS.findall("\n".join(notes)))
        yield from map(self._text, self.memory.numbered(numbers).values())

    def _text(self, msg: Msg) -> str:
        if id(msg) not in self._texts:
            self._texts[id(msg)] = (msg, "\n".join(map(visible_text, to_openai([msg]))))
        return self._texts[id(msg)][1]

    @property
    def retrievable(self) -> float:
        """Percent of the added messages that are in view or behind a UUID, byte for byte."""
        return retrievable(self.memory, self.added)

    @property
    def note_tokens(self) -> int:
        """Input tokens that a paid model was asked."""
        return self.memory.usage.input_tokens


def _same_where_equal(context: list[Chat], before: Sequence[Chat]) -> list[Chat]:
    """The context with the very dicts of the last one where they are equal, so that they are counted once."""
    stable = next((i for i, (a, b) in enumerate(zip(context, before, strict=False)) if a != b), len(before))
    return [*before[: min(stable, len(context))], *context[stable:]]


Factory = Callable[[int, Tokens], Policy]

POLICIES: dict[str, Factory] = {
    "everything": Everything,
    "truncate": Truncate,
    "hysteresis 50": Hysteresis,
    "hysteresis 75": partial(Hysteresis, low=0.75),
    "lines": Lines,
    "lines30": partial(Lines, low=0.75, share=0.30),
    "casefile": CaseFile,
    "autocontext": Library,
    "autocontext, no ledger": partial(Library, ledger_ratio=0.0),
    "autocontext, prices": partial(Library, prices={"input": 1.0, "cached_input": 0.1, "cache_write": 1.0}),
    "autocontext, paid notes": partial(Library, paid=True),
}


class PlugIn(NamedTuple):
    """A policy in a file of its own."""

    file: Path
    class_name: str
    requires: tuple[str, ...]
    """Distributions that it imports; it runs in an environment that has them (see `peers`)."""

    @property
    def environment(self) -> str:
        """The environment's name; "" for one that needs nothing."""
        return self.file.stem if self.requires else ""


def plug_ins(file: Path) -> dict[str, PlugIn]:
    """The policies of a file by name, read without importing it; raises ValueError saying what is missing.

    POLICIES = {"my library": "MyPolicy"}  # the class, made with a window and a counter of tokens
    REQUIRES = ("my-library>=1",)          # optional
    """
    values = {
        target.id: node.value
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("POLICIES", "REQUIRES")
    }
    if "POLICIES" not in values:
        raise ValueError(f'{file}: has no POLICIES = {{"name": "Class"}}')
    names: dict[str, str] = ast.literal_eval(values["POLICIES"])
    requires: tuple[str, ...] = ast.literal_eval(values["REQUIRES"]) if "REQUIRES" in values else ()
    return {name: PlugIn(file, class_name, tuple(requires)) for name, class_name in names.items()}


PEERS: dict[str, PlugIn] = {
    name: plug_in
    for file in sorted(Path(__file__).resolve().parent.glob("peer_*.py"))
    if file.stem != "peer_notes"
    for name, plug_in in plug_ins(file).items()
}
"""Other libraries."""


def make(name: str, window: int, count: Tokens) -> Policy:
    """The policy of that name; raises ImportError for one whose packages this interpreter does not have."""
    if name in POLICIES:
        return POLICIES[name](window, count)
    plug_in = PEERS[name]
    policy: Policy = getattr(_module(plug_in.file), plug_in.class_name)(window, count)
    return policy


@cache
def _module(file: Path) -> ModuleType:
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
