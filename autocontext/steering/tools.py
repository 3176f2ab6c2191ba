"""The tools themselves: their schemas for the model, and the functions that answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autocontext import flows
from autocontext.compression.receipt import told
from autocontext.errors import AutoContextError
from autocontext.events import CompressionReport
from autocontext.formats.agent_tools import AgentTool
from autocontext.notes.notes import LONGEST_NOTE
from autocontext.steering import archiving, marking, searching
from autocontext.steering.parts import BUSY, MemoryParts, Refusal
from autocontext.steering.status import status
from autocontext.tools import as_text

_LONGEST_FOCUS = 500
"""Characters of what its notes should keep first."""


class ContextTool(AgentTool):
    """A tool that shows or steers the context of a memory.

    [status] = memory.tools("status")
    text = status()
    """

    refused = (Refusal, AutoContextError)

    def __init__(self, name: str, memory: MemoryParts) -> None:
        description, parameters, required, self._do = _TOOLS[name]
        super().__init__(name, description, parameters, required)
        self._memory = memory
        self.session = memory.session
        """Whose context it steers."""

    def schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        schema = super().schema()
        if self._memory.config.search_scope != "user":
            schema["function"]["parameters"]["properties"].pop("all_sessions", None)
        return schema

    def _steps(self, arguments: dict[str, Any]) -> flows.Flow[str]:
        if self._do is _condense:
            return (yield from _condense(self._memory, **arguments))
        answer: str = yield from flows.compute(lambda: self._do(self._memory, **arguments))
        return answer


def context_tools(memory: MemoryParts) -> list[ContextTool]:
    """All tools of a memory."""
    return [ContextTool(name, memory) for name in NAMES]


def _condense(memory: MemoryParts, focus: Any = "") -> flows.Flow[str]:
    """Run a pass now, unless it would gain little: a model may ask again and again. Raises Refusal."""

    def why_not() -> str:
        with memory.lock:
            return memory.runner.gains_little()

    if reason := (yield from flows.compute(why_not)):
        return f"Nothing was condensed: {reason}."
    # A model may be asked: asynchronous agents await that in their own event loop.
    focus = as_text(focus)[:_LONGEST_FOCUS]
    report: CompressionReport = yield flows.method(memory.runner, "run", force=True, goes_further=True, focus=focus)
    if report.outcome == "busy":
        raise Refusal(BUSY)
    return told(report)


_MESSAGES = {"type": "string", "description": 'Numbers of messages: "m12", a range "m12-m40", a list "m1,m7".'}


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


_TOOLS: Mapping[str, tuple[str, dict[str, Any], tuple[str, ...], Callable[..., Any]]] = {
    "context_status": (
        ("Show how full your context is, what takes the room (numbered, with size, age and use), what is condensed, "
         "and when the oldest messages will be condensed next."), {}, (), status,
    ),
    "context_archive": (
        ("Put messages that you no longer need out of your context. A short note stands in their place and "
         "context_restore brings them back. Calls go together with their results."),
        {"messages": _MESSAGES, "reason": _text("Why they are no longer needed, in a few words.")},
        ("messages", "reason"), archiving.archive,
    ),
    "context_restore": (
        "Bring messages back into your context, word for word, that were archived or condensed.",
        {"messages": _MESSAGES}, ("messages",), archiving.restore,
    ),
    "context_pin": (
        "Keep messages in your context: they are not condensed until you unpin them.",
        {"messages": _MESSAGES, "unpin": {"type": "boolean", "description": "True takes the pin away again."}},
        ("messages",), marking.pin,
    ),
    "context_note": (
        ("Write down a decision, a finding or an open question. It stays in your context word for word, also when the "
         "conversation around it is condensed."),
        {"text": _text(f"The note, at most {LONGEST_NOTE:,} characters.")}, ("text",), marking.note,
    ),
    "context_condense": (
        ("Condense the older part of your context now, such as between two tasks, instead of in the middle of the next "
         "one. Notes take its place; nothing is lost."),
        {"focus": _text("What the notes should keep first, such as the billing bug.")}, (), _condense,
    ),
    "context_search": (
        ("Search everything that was ever said in this conversation, in your context or not. Answers with message "
         "numbers, which context_reload reads."),
        {
            "query": _text("Words to look for; may be left out with a filter below."),
            "messages": _text("Only these numbers, such as m12-m40."),
            "tool": _text("Only calls and results of this tool."),
            "after": _text("Only from this time on, such as 2026-11-22 or 2026-11-22T16:30."),
            "before": _text("Only before this time."),
            "limit": {"type": "integer", "description": "Most results, 8 if left out."},
            "all_sessions": {"type": "boolean", "description": "True searches the user's other conversations, too."},
        },
        (), searching.search,
    ),
}  # fmt: skip
"""Of each tool the description, the parameters, those that are required, and what answers it."""
NAMES = tuple(_TOOLS)
"""The names of the tools, in their order."""
