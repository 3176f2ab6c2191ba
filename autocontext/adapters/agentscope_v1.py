"""AgentScope 1: a memory for its agents that compresses before each call of the model and forgets nothing.

    memory = AutoContextAgentScopeMemory.open("agent.db", window="100k", session_id="42").attach(agent)

gives an agent that exists this memory, the tool `context_reload` and the instructions for it. Written against 1.0.21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, Unpack

from autocontext.adapters._sessions import Sessions
from autocontext.adapters.options import MemoryOptions, Openable, with_memory_options
from autocontext.errors import ConfigError, StateError, needs_extra
from autocontext.memory import AutoContextMemory, offered_tools
from autocontext.messages import Msg
from autocontext.tools import INSTRUCTIONS

with needs_extra("autocontext.adapters.agentscope_v1", "agentscope1"):
    from agentscope.memory import MemoryBase
    from agentscope.message import Msg as AgentScopeMsg
    from agentscope.message import TextBlock
    from agentscope.tool import ToolResponse

    from autocontext.adapters._agentscope_v1_messages import HINT, from_agentscope, marks_of, to_agentscope

__all__ = ["AutoContextAgentScopeMemory", "attach", "from_agentscope", "to_agentscope"]

_HOOK = "autocontext"


class AutoContextAgentScopeMemory(Openable, MemoryBase):
    """The memory of one conversation of an AgentScope 1 agent.

    `get_memory` gives the memory's view and compresses first when it has to. `attach(agent)` gives the agent
    `context_reload`, its instructions, and counts what is sent besides the messages. With marks, only the
    messages that carry them are returned. `memory` is the AutoContextMemory behind it.
    """

    @with_memory_options
    def __init__(self, memory: AutoContextMemory | None = None, **options: Unpack[MemoryOptions]) -> None:
        super().__init__()
        self._has_plan = options.get("plan") is not None
        self.memory = Sessions(memory, **options).one()
        self._tools = offered_tools(self.memory)
        self._marks = self._marks_added()
        """Of every message that was ever added; [] for one without."""
        self._hints: list[tuple[AgentScopeMsg, list[str]]] = []
        self._besides: list[str | dict[str, Any]] = []
        """The prompt and the schemas that the agent sends with the messages; empty without `attach`."""

    def _marks_added(self) -> dict[str, list[str]]:
        """The marks that the messages came with."""
        return {m.id: marks_of(m) for m in self.memory.get_original_memory_msgs()}

    # ------------------------------------------------------------------------------------------------------- tools
    @property
    def tools(self) -> list[Any]:
        """The memory's tools as functions for a Toolkit, `context_reload` first."""
        return [self.context_reload, *map(_function, self._tools[1:])]

    async def context_reload(
        self, working_context_offload_uuid: str, offset: int = 0, limit: int | None = None, query: str | None = None
    ) -> ToolResponse:
        """Read the original messages behind a condensed text, in pages.

        Args:
            working_context_offload_uuid (str): The UUID in the CONTEXT_OFFLOAD mark, or numbers of messages such as
                m41, m12-m19 or m1,m7.
            offset (int): Character to start at (0 is the beginning).
            limit (int | None): Most characters to return; leave it out for a full page.
            query (str | None): Return only the passages that match these words.

        """
        arguments = {"working_context_offload_uuid": working_context_offload_uuid, "offset": offset}
        text = await self._tools[0].acall(**arguments, limit=limit, query=query)
        return ToolResponse(content=[TextBlock(type="text", text=text)])

    def attach(self, agent: Any) -> Self:
        """Make this the memory of an agent, with `context_reload` in its toolkit and the instructions in its prompt.

        Raises ConfigError when the agent compresses by itself.
        """
        own = getattr(agent, "compression_config", None)
        if own is not None and own.enable:
            raise ConfigError(
                "compression_config: this agent compresses by itself, and two compressions would work on each other's "
                "notes; leave compression_config out"
            )
        agent.memory = self
        for tool, function in zip(self._tools, self.tools, strict=True):
            agent.toolkit.register_tool_function(function, json_schema=tool.schema(), namesake_strategy="override")
        agent.register_instance_hook("pre_reasoning", _HOOK, self._before_reasoning)
        self._instruct(agent)
        return self

    def _before_reasoning(self, agent: Any, _given: dict[str, Any]) -> None:
        """Note what this call sends besides the messages, and look at the plan."""
        self._instruct(agent)  # a state that was loaded may hold the prompt as it was
        prompt = _counted(AgentScopeMsg("system", agent.sys_prompt, "system"))
        self._besides = [prompt, *agent.toolkit.get_json_schemas()]
        notebook = getattr(agent, "plan_notebook", None)
        if notebook is not None and not self._has_plan:
            self.memory.attach_plan_note(notebook.current_plan)

    def _instruct(self, agent: Any) -> None:
        if INSTRUCTIONS not in agent.sys_prompt:
            # AgentScope 1 has no public way to change a prompt; this attribute is also what its state saves.
            prompt = f"{vars(agent)['_sys_prompt']}\n\n{INSTRUCTIONS}"
            vars(agent)["_sys_prompt"] = prompt

    # ------------------------------------------------------------------------------------------------ MemoryBase
    async def add(
        self,
        memories: AgentScopeMsg | list[AgentScopeMsg] | None,
        marks: str | list[str] | None = None,
        allow_duplicates: bool = False,
        **_more: Any,
    ) -> None:
        """Add messages at the end; those whose id is there already are left out, unless `allow_duplicates`."""
        messages = [memories] if isinstance(memories, AgentScopeMsg) else list(memories or ())
        names = _marks_in(marks)
        if HINT in names:
            self._hints += [(to_agentscope([m])[0], names) for m in from_agentscope(messages)]
            return
        there = self._there({m.id for m in messages} & self._marks.keys())
        new: list[Msg] = []
        for msg in from_agentscope(messages, marks=names):
            if msg.id not in there:
                new.append(msg)
            elif allow_duplicates:
                new.append(msg.model_copy(update={"id": AgentScopeMsg("", "", "user").id}))
            there.add(msg.id)
        self.memory.add_messages(new)
        self._marks |= {m.id: list(names) for m in new}  # also none: an id that was deleted comes without its marks

    def _there(self, ids: set[str]) -> set[str]:
        """Which of these are in view or behind a note; what was deleted may come again."""
        known = {m.id for m in self.memory.messages if m.id in ids} if ids else set()
        if ids - known:
            known |= {m.id for put_away in self.memory.get_offload_context().values() for m in put_away}
        return known & ids

    async def get_memory(
        self, mark: str | None = None, exclude_mark: str | None = None, prepend_summary: bool = True, **_more: Any
    ) -> list[AgentScopeMsg]:
        """What the model should see, in a form that services take; compresses first when a threshold is reached."""
        for name, value in (("mark", mark), ("exclude_mark", exclude_mark)):
            if not (value is None or isinstance(value, str)):
                raise TypeError(f"{name} must be a string or None, not {type(value).__name__}")
        summary = self._compressed_summary if prepend_summary else ""
        head = [AgentScopeMsg("user", summary, "user")] if summary else []
        if self._besides:  # else the caller's own overhead stays
            # Here, since the agent adds its hints after `pre_reasoning`.
            guests = [_counted(m) for m in (*head, *(m for m, _ in self._hints))]
            # Its formatter for OpenAI sends names that repeat the role, too, which the memory does not count.
            names = [m.name for m in self.memory.messages if m.name == m.role]
            self.memory.set_overhead(*self._besides, *guests, *names)
        view = await self.memory.aget_messages()
        kept = [m for m in view if _is_wanted(self._marks.get(m.id, ()), mark, exclude_mark)]
        shown = to_agentscope(kept if mark else self.memory.as_sent(kept))
        hints = [m for m, marks in self._hints if _is_wanted(marks, mark, exclude_mark)]
        return [*head, *shown, *hints]

    async def delete(self, msg_ids: list[str], **_more: Any) -> int:
        """Take messages out of the view, each with the calls and results it is paired with; the originals stay."""
        ids = {msg_ids} if isinstance(msg_ids, str) else set(msg_ids)
        before = len(self._hints)
        self._hints = [(m, marks) for m, marks in self._hints if m.id not in ids]
        removed = before - len(self._hints)
        while (at := next((i for i, m in enumerate(self.memory.messages) if m.id in ids), None)) is not None:
            removed += len(self.memory.delete_message(at))
        return removed

    async def delete_by_mark(self, mark: str | list[str], *_args: Any, **_more: Any) -> int:
        """Take the messages with one of these marks out of the view."""
        names = set(_marks_in(mark))
        hints = [m.id for m, marks in self._hints if names & set(marks)]
        return await self.delete([*hints, *(id_ for id_, marks in self._marks.items() if names & set(marks))])

    async def update_messages_mark(
        self, new_mark: str | None, old_mark: str | None = None, msg_ids: list[str] | None = None
    ) -> int:
        """Set, change or take away marks of messages in view; how many changed. Marks set so live in `state_dict`."""
        count = 0
        for msg in self.memory.messages:
            marks = self._marks.get(msg.id, [])
            if (msg_ids is not None and msg.id not in msg_ids) or (old_mark is not None and old_mark not in marks):
                continue
            left = [m for m in marks if m != old_mark]
            self._marks[msg.id] = left if new_mark is None or new_mark in left else [*left, str.__str__(new_mark)]
            count += self._marks[msg.id] != marks
        return count

    async def size(self) -> int:
        """How many messages are in view."""
        return len(self.memory.messages) + len(self._hints)

    async def clear(self) -> None:
        """Drop everything: view, originals, offloads, marks."""
        self.memory.clear()
        self._marks.clear()
        self._hints.clear()

    # ------------------------------------------------------------------------------------------------------- state
    def state_dict(self) -> dict[str, Any]:
        """The whole state as JSON, for the session classes of AgentScope."""
        marks = {id_: names for id_, names in self._marks.items() if names}
        return {**super().state_dict(), "autocontext": self.memory.state_dict(), "marks": marks}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Replace the whole state by one of this class, or of InMemoryMemory.

        Raises StateError when it is neither (with `strict`); the memory is then as it was.
        """
        if "autocontext" in state_dict:
            self.memory.load_state_dict(state_dict["autocontext"])
            marks = state_dict.get("marks", {})
            self._marks = {id_: list(marks.get(id_, ())) for id_ in {**self._marks_added(), **marks}}
        elif "content" in state_dict:
            self._adopt(state_dict["content"])
        elif strict:
            raise StateError("state_dict: has neither `autocontext` (this class) nor `content` (InMemoryMemory)")
        self._compressed_summary = state_dict.get("_compressed_summary", "")
        self._hints.clear()

    def _adopt(self, content: Sequence[Any]) -> None:
        """Take over what InMemoryMemory has saved: messages, each with its marks."""
        msgs: list[Msg] = []
        for item in content:
            document, marks = item if isinstance(item, list | tuple) else (item, [])
            msgs += from_agentscope([AgentScopeMsg.from_dict(document)], marks=[str(k) for k in marks])
        self.memory.clear()
        self.memory.add_messages(msgs)
        self._marks = self._marks_added()


def _counted(message: AgentScopeMsg) -> str:
    """A message as a text of about as many tokens as it is sent with."""
    return f"[{message.role}] {message.name}: {message.get_text_content() or ''}"


def _function(tool: Any) -> Any:
    async def call(**arguments: Any) -> ToolResponse:
        return ToolResponse(content=[TextBlock(type="text", text=await tool.acall(**arguments))])

    call.__name__, call.__doc__ = tool.name, tool.description
    return call


def attach(
    agent: Any, memory: AutoContextMemory | None = None, **options: Unpack[MemoryOptions]
) -> AutoContextAgentScopeMemory:
    """Give an agent that exists this memory, `context_reload` and its instructions; returns the memory.

    Raises ConfigError when the agent compresses by itself.
    """
    return AutoContextAgentScopeMemory(memory, **options).attach(agent)


# ----------------------------------------------------------------------------------------------------------- marks
def _marks_in(marks: Any) -> list[str]:
    """One mark, several or none as a list of plain strings: the agent's own are members of an Enum."""
    names = [marks] if isinstance(marks, str) else marks or []
    if not isinstance(names, list | tuple | set) or not all(isinstance(m, str) for m in names):
        raise TypeError(f"marks must be a string, a list of strings or None, not {marks!r}")
    return [str.__str__(m) for m in names]


def _is_wanted(marks: Sequence[str], mark: str | None, exclude_mark: str | None) -> bool:
    """Whether a message with these marks is asked for."""
    return (mark is None or mark in marks) and (exclude_mark is None or exclude_mark not in marks)
