"""The public names as a user's own code has them; `mypy --strict` without plugins must accept it, and it must run."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, assert_type

from autocontext import (
    AsyncChatModel,
    AutoContextConfig,
    AutoContextError,
    AutoContextMemory,
    ChatModel,
    CompressionEvent,
    CompressionReport,
    ContextOffloadTool,
    ImageBlock,
    ModelReply,
    ModelRequest,
    Msg,
    Plan,
    PromptConfig,
    SubTask,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from autocontext.adapters.openai_chat import from_openai, to_openai
from autocontext.models import CallableModel, ExtractiveModel
from autocontext.stores import SessionKey
from autocontext.strategies import Proposal, Strategy, View
from autocontext.testing import ScriptedModel, assert_valid_chat
from autocontext.tokens import get_counter


class ShortAnswers:
    """A user's own model: no base class, only the two methods."""

    def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply(text=request.purpose, usage=Usage(input_tokens=1, output_tokens=1))

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        return self.complete(request)


class NoOpinion:
    """A user's own strategy."""

    name = "no_opinion"

    def propose(self, view: View) -> Iterator[Proposal]:
        assert_type(len(view), int)
        yield from ()


def configurations() -> Iterable[AutoContextConfig]:
    """Every way to make one."""
    yield AutoContextConfig(msg_threshold=30, last_keep=10, custom_prompt=PromptConfig(tool_run="Short, please."))
    yield AutoContextConfig.builder().msg_threshold(30).last_keep(10).build()
    yield AutoContextConfig.for_window(16_000, strategies=("tool_runs", NoOpinion()))
    yield AutoContextConfig.for_window(16_000, ledger_ratio=0.2, tool_effects={"deploy": "changes", "peek": "reads"})
    yield AutoContextConfig(custom_prompt=PromptConfig(fold="What is the goal, and what is next?"))
    yield AutoContextConfig.agentscope_java()


def messages() -> list[Msg]:
    """Text as content, blocks as content."""
    call = ToolUseBlock(id="1", name="read", input={"path": "a.py"})
    return [
        Msg(role="user", content="hi"),
        Msg(
            role="user",
            content=[TextBlock(text="see"), ImageBlock(source={"type": "url", "url": "https://x.org/a.png"})],
        ),
        Msg(role="assistant", content=[call]),
        Msg(role="tool", content=[ToolResultBlock(id="1", name="read", output="x = 1")]),
        Msg(role="assistant", content="done", metadata={"pinned": True}),
    ]


def use(config: AutoContextConfig) -> None:
    """A memory in sync code."""
    memory = AutoContextMemory(config, ScriptedModel("SUMMARY"))
    memory.add_messages(messages())
    memory.add_message(Msg(role="user", content="thanks"))
    memory.attach_plan_note(Plan(name="tidy", subtasks=(SubTask(name="read", state="done"),)))
    assert_type(memory.get_messages(), list[Msg])
    assert_type(memory.messages, list[Msg])
    assert_type(memory.token_count, int)
    report = memory.compress_if_needed(force=True)
    assert_type(report, CompressionReport)
    assert_type(bool(report), bool)
    assert_type(memory.get_compression_events(), list[CompressionEvent])
    assert_type(memory.get_offload_context(), dict[str, list[Msg]])
    assert_type(memory.get_original_memory_msgs(), list[Msg])
    assert_type(memory.get_interaction_msgs(), list[Msg])
    memory.offload("handle", messages())
    assert_type(memory.reload("handle"), list[Msg])
    assert_type(memory.numbered("m12-m19"), dict[int, Msg])
    memory.clear_offload("handle")
    assert_type(memory.undo("unknown"), bool)
    assert_type(memory.child("researcher", window="8k"), AutoContextMemory)
    assert_type(memory.children, list[str])
    assert_type(memory.parent, SessionKey | None)
    memory.delete_message(0)
    state = memory.state_dict()
    assert_type(state, dict[str, Any])
    AutoContextMemory(config).load_state_dict(state)
    tool = ContextOffloadTool(memory)
    assert_type(tool(working_context_offload_uuid="unknown", offset=0, limit=None, query=None), str)
    assert_type(tool.schema(), dict[str, Any])
    assert_valid_chat(memory.messages)
    memory.clear()


async def ause(config: AutoContextConfig) -> None:
    """A memory in async code."""
    memory = AutoContextMemory(config, ShortAnswers())
    memory.add_messages(from_openai([{"role": "user", "content": "hi"}]))
    assert_type(await memory.aget_messages(), list[Msg])
    assert_type(await memory.acompress_if_needed(force=True), CompressionReport)
    assert_type(await ContextOffloadTool(memory).acall(working_context_offload_uuid="unknown"), str)
    assert_type(to_openai(memory.messages), list[dict[str, Any]])


def main() -> None:
    """Run all of it once."""
    models: list[ChatModel] = [ShortAnswers(), ExtractiveModel(), CallableModel(lambda request: request.purpose)]
    amodels: list[AsyncChatModel] = [ShortAnswers(), ScriptedModel("SUMMARY")]
    own: Strategy = NoOpinion()
    assert models
    assert amodels
    assert own.name
    for config in configurations():
        use(config)
        asyncio.run(ause(config))
    counter = get_counter("o200k_base")
    assert_type(counter.count_text("hello"), int)
    assert_type(counter.exact, bool)
    try:
        AutoContextConfig(token_ratio=2.0)
    except AutoContextError as error:
        assert_type(error, AutoContextError)


if __name__ == "__main__":
    main()
