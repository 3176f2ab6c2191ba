"""deepagents' context management as policies: large results and summarised history go to files that its tools read.

As `create_deep_agent` sets it up for a model with this window: above 85 % of it a summary takes the place of everything
but the newest tenth, and names the file with the originals; a result of more than 20,000 tokens goes to a file at
once. Tuned: 30 % stay, and results of more than a tenth of the window go to files.
Its file tools bring back any part of a file that the context names (XML escapes are read as their characters).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from html import unescape
from typing import Any

from chat import Chat, Tokens, content_text, visible_text
from deepagents.backends import FilesystemBackend
from deepagents.middleware.filesystem import FilesystemMiddleware
from deepagents.middleware.summarization import (
    DEEPAGENTS_DEFAULT_SUMMARY_PROMPT,
    SummarizationMiddleware,
    compute_summarization_defaults,
)
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from peer_langchain import Beside
from peer_notes import Notes

REQUIRES = ("deepagents>=0.7.32,<0.8",)
POLICIES = {
    "deepagents": "DeepAgents",
    "deepagents, tuned": "DeepAgentsTuned",
}


class DeepAgents(Beside):
    """The two middlewares, called as the agent's loop calls them."""

    keep: tuple[str, float] | None = None
    evict_share: float | None = None
    """Of the window, what a result may have before it goes to a file; None for the library's own limit."""

    def __init__(self, window: int, count: Tokens) -> None:
        super().__init__(window, count)
        self.notes = Notes(window, count)
        self._model = FakeListChatModel(responses=["never asked"], profile={"max_input_tokens": window})
        self._folder = tempfile.TemporaryDirectory(prefix="deepagents-")
        self._backend = FilesystemBackend(root_dir=self._folder.name, virtual_mode=True)
        limit = {} if self.evict_share is None else {"tool_token_limit_before_evict": int(self.evict_share * window)}
        self._files = FilesystemMiddleware(backend=self._backend, **limit)
        defaults = compute_summarization_defaults(self._model)
        self._summaries = SummarizationMiddleware(
            model=self._model,
            backend=self._backend,
            trigger=defaults["trigger"],
            keep=self.keep or defaults["keep"],
            truncate_args_settings=defaults["truncate_args_settings"],
            trim_tokens_to_summarize=None,  # as its own factory sets it
            token_counter=self.tokens,
            summarizer=self._summary,
        )
        self._state: dict[str, Any] = {"_summarization_session_id": "session"}  # else it is a random name
        self._calls: dict[str, dict[str, Any]] = {}
        self.shown: list[Chat] = []

    def step(self, new: list[Chat]) -> list[Chat]:
        before = len(self.messages)
        self.take(new)
        self.messages[before:] = [self._stored(message) for message in self.messages[before:]]
        system = "\n".join(map(content_text, self.system))
        asked: list[BaseMessage] = []

        def model(request: ModelRequest) -> ModelResponse:
            asked[:] = request.messages
            return ModelResponse(result=[AIMessage("never read")])

        request = ModelRequest(
            model=self._model,
            messages=list(self.messages),
            system_message=SystemMessage(system) if system else None,
            state={**self._state, "messages": self.messages},
        )
        try:
            response = self._summaries.wrap_model_call(request, model)
        except ContextOverflowError:
            # A run ends here. What it could not make smaller counts as over the window.
            event = self._state.get("_summarization_event")
            asked = [event["summary_message"], *self.messages[event["cutoff_index"] :]] if event else self.messages
            response = None
        if isinstance(response, ExtendedModelResponse):
            self._take_over(response.command.update)
        self.shown = self.context(asked)
        return self.shown

    def _stored(self, message: BaseMessage) -> BaseMessage:
        """The message as its tool node leaves it: a large result is in a file, and a preview here."""
        if isinstance(message, AIMessage):
            self._calls |= {call["id"]: call for call in message.tool_calls}
        if not isinstance(message, ToolMessage) or message.tool_call_id not in self._calls:
            return message
        call = self._calls[message.tool_call_id]
        request = ToolCallRequest(tool_call=call, tool=None, state={"messages": []}, runtime=None)
        result = self._files.wrap_tool_call(request, lambda _: message)
        return result if isinstance(result, ToolMessage) else result.update["messages"][-1]

    def _take_over(self, update: dict[str, Any]) -> None:
        """What a run keeps after a call: the summary, and messages with the ids of those that they replace."""
        replaced = {m.id: m for m in update.pop("messages", ())}
        self.messages = [replaced.get(m.id, m) for m in self.messages]
        self._state |= update

    def chat(self, message: BaseMessage) -> Chat:
        """The chat form, with arguments that were cut."""
        known = super().chat(message)
        if not isinstance(message, AIMessage):
            return known
        calls = known.get("tool_calls") or ()
        cut = {call["id"]: call["args"] for call in message.tool_calls if call != self._calls.get(call["id"], call)}
        if not cut:
            return known
        return {**known, "tool_calls": [_with(call, cut.get(call["id"])) for call in calls]}

    def tokens(self, messages: Sequence[BaseMessage]) -> int:
        """Counted as the benchmark counts, the system message too."""
        return sum(
            self.count(self.system) if isinstance(m, SystemMessage) else self.count.message(self.chat(m))
            for m in messages
        )

    def reachable(self) -> Iterator[str]:
        """The files that the context names."""
        text = "\n".join(map(visible_text, self.shown))
        for path in self._backend.glob("**/*", path="/").matches or ():
            if path["path"] in text:
                [file] = self._backend.download_files([path["path"]])
                yield unescape((file.content or b"").decode("utf-8", "replace"))

    def _summary(self, messages: Sequence[BaseMessage]) -> str:
        return self.notes.of((m.text for m in messages), DEEPAGENTS_DEFAULT_SUMMARY_PROMPT.partition("<messages>")[0])

    @property
    def note_tokens(self) -> int:
        """What a paid model would have read."""
        return self.notes.read


class DeepAgentsTuned(DeepAgents):
    """More stays, and large results go to files sooner."""

    keep = ("fraction", 0.3)
    evict_share = 0.1


def _with(call: Chat, arguments: dict[str, Any] | None) -> Chat:
    """The call with other arguments."""
    if arguments is None:
        return call
    return {**call, "function": {**call["function"], "arguments": json.dumps(arguments, ensure_ascii=False)}}
