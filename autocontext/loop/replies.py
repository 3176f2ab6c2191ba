"""What a service of the chat completions API answers: the message in it, whole or streamed.

Compatible services leave fields out, or send null; what is no message at all is told with the field that is wrong.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from autocontext.errors import ConfigError, ModelError, short

_TEXTS = ("content", "reasoning_content", "refusal")


def creating(client: Any, options: Mapping[str, Any]) -> Callable[..., Any]:
    """The client's call. Raises ConfigError for what is no client, and for options that a loop sets itself."""
    create: object = getattr(getattr(getattr(client, "chat", None), "completions", None), "create", None)
    if not callable(create):
        raise ConfigError(f"client must be a client of the openai package, such as OpenAI() (got {short(client)})")
    if ours := sorted(options.keys() & {"messages", "stream"}):
        raise ConfigError(
            f"options: the loop sets {' and '.join(ours)} itself; leave it out, and call stream to stream"
        )
    return create


def at_once(answer: Any) -> Any:
    """The answer of a synchronous client. Raises ConfigError for that of an asynchronous one."""
    if hasattr(type(answer), "__await__"):
        if hasattr(answer, "close"):
            answer.close()  # nothing was sent
        raise ConfigError(
            "client is asynchronous, and run and stream need OpenAI(): with AsyncOpenAI() write `await loop.arun(...)` "
            "or `async for text in loop.astream(...)`"
        )
    return answer


def later(answer: Any) -> Awaitable[Any]:
    """The answer of an asynchronous client, to be awaited. Raises ConfigError for that of a synchronous one."""
    if not hasattr(type(answer), "__await__"):
        raise ConfigError(
            "client is synchronous, and arun and astream need AsyncOpenAI(): with OpenAI() call loop.run or loop.stream"
        )
    found: Awaitable[Any] = answer
    return found


def message_of(answer: Any) -> dict[str, Any]:
    """The message of an answer as a dict without what is null or empty. Raises ModelError naming the field."""
    message: Any = getattr(_first_choice(answer), "message", None)
    if hasattr(message, "model_dump"):
        message = message.model_dump(exclude_none=True, warnings=False)
    if not isinstance(message, Mapping):
        raise _unusable("choices[0].message", message)
    said = {key: value for key, value in message.items() if value is not None and value != []}
    if isinstance(said.get("tool_calls"), list):
        said["tool_calls"] = _checked(said["tool_calls"])
    # Always the model's words, whatever a service writes there: they must not become the user's.
    return {**said, "role": "assistant"}


class StreamedReply:
    """Takes the chunks of one reply and gives its message."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {key: [] for key in _TEXTS}
        self._calls: dict[int, dict[str, Any]] = {}
        self._begun = False
        self.usage: Any = None
        """Of the request, if the service tells it: with `stream_options={"include_usage": True}` OpenAI's does."""

    def add(self, chunk: Any) -> Iterator[str]:
        """Take a chunk; yields the text in it that the user may read. Raises ModelError naming the field."""
        if getattr(chunk, "error", None):
            raise _unusable("error", chunk.error)
        self.usage = getattr(chunk, "usage", None) or self.usage
        if not getattr(chunk, "choices", None):
            return  # the last one may hold the usage alone
        delta = getattr(_first_choice(chunk), "delta", None)
        if delta is None:
            return
        if isinstance(delta, str | float | int | list | dict):
            raise _unusable("choices[0].delta", delta)
        self._begun = True
        for key, texts in self._texts.items():
            if text := _text(delta, key, "choices[0].delta"):
                texts.append(text)
        calls = getattr(delta, "tool_calls", None) or ()
        if not isinstance(calls, list | tuple):
            raise _unusable("choices[0].delta.tool_calls", calls)
        for number, part in enumerate(calls):
            self._add_call(part, f"choices[0].delta.tool_calls[{number}]")
        if content := _text(delta, "content", "choices[0].delta"):
            yield content

    def _add_call(self, part: Any, field: str) -> None:
        id_ = _text(part, "id", field)
        call = self._calls.setdefault(self._place(part, id_), {"id": "", "name": "", "arguments": []})
        call["id"] = id_ or call["id"]
        function = getattr(part, "function", None)
        call["name"] = _text(function, "name", f"{field}.function") or call["name"]
        call["arguments"].append(_text(function, "arguments", f"{field}.function"))

    def _place(self, part: Any, id_: str) -> int:
        """The number of the call that this is a part of; without an index another id begins another call."""
        index = getattr(part, "index", None)
        if isinstance(index, int):
            return index
        last = max(self._calls, default=-1)
        return last if last >= 0 and id_ in ("", self._calls[last]["id"]) else last + 1

    def message(self) -> dict[str, Any]:
        """The message, as if it had not been streamed. Raises ModelError if there was none."""
        if not self._begun:
            raise _unusable("choices", None)
        texts = {key: "".join(texts) for key, texts in self._texts.items() if texts}
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": "".join(call["arguments"])},
            }
            for _, call in sorted(self._calls.items())
        ]
        said = {"role": "assistant", "content": None, **texts}
        return {**said, "tool_calls": _checked(calls)} if calls else said


def _first_choice(answer: Any) -> Any:
    choices = getattr(answer, "choices", None)
    if isinstance(choices, list | tuple) and choices:
        return choices[0]
    if isinstance(answer, str):  # an error page, which the client gives as it is
        raise _unusable("it", answer)
    error = getattr(answer, "error", None)  # how some services tell an error, with status 200
    raise _unusable("error", error) if error else _unusable("choices", choices)


def _text(value: Any, key: str, field: str) -> str:
    text = getattr(value, key, None)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise _unusable(f"{field}.{key}", text)
    return text


def _checked(calls: list[Any]) -> list[Any]:
    """The calls, each with a type and an id of its own: some services send none, or one id twice.

    Raises ModelError for a call without a name, which no service would take back.
    """
    seen: set[Any] = {None, ""}
    checked = []
    for number, call in enumerate(calls):
        own, function = (call.get("id"), call.get("function")) if isinstance(call, Mapping) else (call, None)
        name = function.get("name") if isinstance(function, Mapping) else None
        if isinstance(name, str) and (not name.isprintable() or not name.strip()):
            raise _unusable(f"tool_calls[{number}].function.name", name)
        if isinstance(call, Mapping):
            call_id = f"call_{uuid.uuid4().hex[:24]}" if isinstance(own, str | None) and own in seen else own
            checked.append({"type": "function", **call, "id": call_id})
        else:
            checked.append(call)
        if isinstance(own, str):
            seen.add(own)
    return checked


def _unusable(field: str, value: Any) -> ModelError:
    return ModelError(
        f"loop: the service's answer is no message to go on with: {field} is {short(value)}; nothing of it was "
        "stored, and another run asks again"
    )
