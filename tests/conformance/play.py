"""Plays a quirk's script against a real memory and checks after every pass what must hold of any pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from autocontext import AutoContextConfig, AutoContextMemory, CompressionReport, ModelRequest, Msg
from autocontext.testing import ScriptedModel
from tests.conformance.vectors import Quirk, quirks
from tests.invariants import assert_pairs_kept

QUIRKS = quirks()


def preset(quirk: Quirk, **fields: Any) -> AutoContextConfig:
    """The quirk's configuration as AgentScope-Java's users have it; one attempt a question keeps failures quick."""
    return AutoContextConfig.agentscope_java(**{"model_retries": 0, **_valid(quirk.config), **fields})


def default(quirk: Quirk, **fields: Any) -> AutoContextConfig:
    """The quirk's configuration on top of this library's own defaults."""
    return AutoContextConfig(**{"model_retries": 0, **_valid(quirk.config), **fields})


def _valid(config: dict[str, Any]) -> dict[str, Any]:
    """Some cases have a large threshold below the preview's default size, which this library refuses."""
    if config.get("large_payload_threshold", 5120) <= config.get("offload_single_preview", 200):
        return {**config, "offload_single_preview": 50}
    return config


def uuid_of(msg: Msg) -> str:
    """The key of the offload entry behind a message; "" for one that no compression made."""
    mark = msg.metadata.get("_compress_meta")
    return mark["offloaduuid"] if mark else ""


def ids(messages: Iterable[Msg]) -> list[str]:
    """Recorded ids; a message that a compression made reads "new"."""
    return ["new" if uuid_of(m) else m.id for m in messages]


@dataclass
class Play:
    """One quirk being played: `step` runs the next operations, `run` all that are left."""

    quirk: Quirk
    config: AutoContextConfig
    memory: AutoContextMemory
    model: ScriptedModel
    reply: Callable[[ModelRequest], str]
    reports: list[CompressionReport] = field(default_factory=list)
    reloaded: list[list[Msg]] = field(default_factory=list)
    saved: dict[str, Any] = field(default_factory=dict)
    added: list[Msg] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    done: int = 0
    answered: int = 0
    keys: list[str] = field(default_factory=list)
    """Offload keys in the order in which they appeared."""

    def run(self) -> Play:
        """All operations that are left."""
        return self.step(len(self.quirk.script))

    def step(self, count: int = 1) -> Play:
        """The next `count` operations."""
        for op in self.quirk.script[self.done : self.done + count]:
            getattr(self, f"_{op['op']}")(op)
            self.done += 1
        return self

    # ------------------------------------------------------------------------------------------------ operations
    def _add(self, op: dict[str, Any]) -> None:
        new = self.quirk.messages[op["from"] : op["to"]]
        self.memory.add_messages(new)
        self.added.extend(new)

    def _compress(self, _: dict[str, Any]) -> None:
        before = list(self.memory.messages)
        offloads, events = self.memory.get_offload_context(), self.memory.get_compression_events()
        tokens = self.memory.token_count
        report = self.memory.compress_if_needed()
        self.reports.append(report)
        self.keys += [key for key in self.memory.get_offload_context() if key not in self.keys]
        check_pass(self, before)
        # What a strategy proposes keeps every rule by itself; that it saves nothing is known only once it is written.
        assert {r.reason for r in report.refused} <= {"it would not make the context smaller"}
        if report:
            assert report.tokens_before == tokens > report.tokens_after
        else:
            assert self.memory.messages[: len(before)] == before
            assert self.memory.get_offload_context() == offloads
            assert self.memory.get_compression_events() == events

    def _model(self, op: dict[str, Any]) -> None:
        mode, text = op.get("mode", "ok"), op.get("reply", "SUMMARY")
        self.answered = 0

        def fail_after(request: ModelRequest) -> str:
            self.answered += 1
            if self.answered > op.get("after", 0):
                raise ConnectionError("the summarising model is down")
            return text

        def add_meanwhile(request: ModelRequest) -> str:
            late = self.quirk.messages[op["message"]]
            self.memory.add_message(late)
            self.added.append(late)
            return text

        replies = {"ok": lambda _: text, "empty": lambda _: "", "tool_use": lambda _: "  \n"}
        self.reply = {**replies, "error": fail_after, "add_during": add_meanwhile}[mode]

    def _state(self, _: dict[str, Any]) -> None:
        """Nothing to do: whatever matters is asserted by the tests."""

    def _reload(self, op: dict[str, Any]) -> None:
        self.reloaded.append(self.memory.reload(self._key(op)))

    def _forget(self, op: dict[str, Any]) -> None:
        self.memory.clear_offload(self._key(op))

    def _key(self, op: dict[str, Any]) -> str:
        """The key of the n-th entry ever made; one that no memory has where the right behaviour made fewer."""
        return self.keys[op["nth_offload"]] if op["nth_offload"] < len(self.keys) else "no-such-entry"

    def _save(self, _: dict[str, Any]) -> None:
        self.saved = self.memory.state_dict()

    def _load(self, _: dict[str, Any]) -> None:
        self.memory.load_state_dict(self.saved)

    def _clear(self, _: dict[str, Any]) -> None:
        self.memory.clear()
        self.added.clear()

    def _delete(self, op: dict[str, Any]) -> None:
        before = ids(self.memory.messages)
        self.memory.delete_message(op["index"])
        self.deleted |= set(before) - set(ids(self.memory.messages))

    # ---------------------------------------------------------------------------------------------------- readings
    @property
    def working(self) -> list[str]:
        """Ids in the working view, "new" for what a compression made."""
        return ids(self.memory.messages)

    @property
    def new(self) -> list[Msg]:
        """The messages in the working view that compressions made."""
        return [m for m in self.memory.messages if uuid_of(m)]

    @property
    def entries(self) -> list[list[str]]:
        """Ids in the entries behind the new messages of the view, in its order; notes inside as they were put there."""
        return [ids(self._entry(uuid_of(m))) for m in self.new]

    def _entry(self, uuid: str) -> list[Msg]:
        return self.memory.get_offload_context()[uuid]

    @property
    def events(self) -> list[tuple[str, int]]:
        """Type and number of replaced messages of every event."""
        return [(e.event_type, e.compressed_message_count) for e in self.memory.get_compression_events()]

    @property
    def prompts(self) -> list[str]:
        """What the model was shown."""
        return [r.prompt for r in self.model.requests]


def play(name: str, config: Callable[..., AutoContextConfig] = preset, **fields: Any) -> Play:
    """A quirk, ready to be played under a configuration; nothing has run yet."""
    quirk = QUIRKS[name]
    settings = config(quirk, **fields)

    def answer(request: ModelRequest) -> str:
        return played.reply(request)  # whichever the script has set by then

    model = ScriptedModel(answer)
    played = Play(quirk, settings, AutoContextMemory(settings, model), model, lambda _: "SUMMARY")
    return played


def reachable(memory: AutoContextMemory) -> list[Msg]:
    """The view and the offload entries behind its tags, those behind tags inside them included."""
    entries = memory.get_offload_context()
    found, todo, seen = [], list(memory.messages), set()
    while todo:
        msg = todo.pop()
        found.append(msg)
        key = uuid_of(msg)
        if key and key not in seen:
            seen.add(key)
            todo += entries.get(key) or memory.reload(key)
    return found


def check_pass(played: Play, before: list[Msg]) -> None:
    """What holds after any pass, whatever it did."""
    memory = played.memory
    after = memory.messages
    assert_pairs_kept(after, [*before, *[m for m in played.added if m in after and m not in before]])
    assert [m for m in after if m.role == "system"] == [m for m in before if m.role == "system"]
    assert memory.get_original_memory_msgs() == played.added
    assert {m.id for m in played.added} - played.deleted <= {m.id for m in reachable(memory)}
    by_id = {m.id: m for m in played.added}
    assert all(m == by_id[m.id] for m in reachable(memory) if m.id in by_id)
    assert len(memory.get_offload_context()) == len(memory.get_compression_events())
    fresh = AutoContextMemory(played.config, ScriptedModel())
    fresh.add_messages(after)
    assert memory.token_count == fresh.token_count
    for request in played.model.requests:
        assert isinstance(request.prompt, str)
        assert isinstance(request.system, str)
