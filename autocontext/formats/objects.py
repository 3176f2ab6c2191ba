"""Objects of a provider's or framework's messages: read with errors that name the place, kept as JSON, put back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from autocontext.errors import InvalidMessage
from autocontext.messages import Msg, freeze, thaw

T = TypeVar("T")
_PARSED = {"parsed": True, "parsed_arguments": True, "parsed_output": True}
_CALL = {**_PARSED, "index": True, "function": {"parsed_arguments": True}}
_NOT_SENT: Final[Any] = {**_CALL, "tool_calls": {"__all__": _CALL}, "content": {"__all__": _PARSED}}
"""Keys that the SDKs add when they parse or stream. The APIs refuse them, and `tool_calls` that are empty."""


def without_objects(item: Any) -> Any:
    """A message of a provider's SDK, or a dict that holds such objects, as the dict to send back."""
    if isinstance(item, BaseModel):
        sent = item.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=_NOT_SENT, warnings=False)
        return {key: value for key, value in sent.items() if value or key != "tool_calls"}
    if isinstance(item, list | tuple) and any(isinstance(part, BaseModel) for part in item):
        return [without_objects(part) for part in item]
    if type(item) is dict and any(isinstance(value, BaseModel | list | tuple) for value in item.values()):
        return {key: without_objects(value) for key, value in item.items()}
    return item


def each_of(messages: Iterable[T], kind: type[T], name: str) -> Iterator[T]:
    """A framework's messages as they are. Raises InvalidMessage naming the index of what is none."""
    for i, message in enumerate(messages):
        if not isinstance(message, kind):
            raise InvalidMessage(f"messages[{i}] is a {type(message).__name__}, not an {name}")
        yield message


def read_all(messages: Any, name: str, read: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """What `read` makes of each of a provider's messages, as a dict. Errors name its place: "messages[3].role"."""
    if isinstance(messages, str | Mapping | BaseModel) or not isinstance(messages, Iterable):
        raise InvalidMessage(f"{name}: must be a list of message objects, not {kind_of(messages)}")

    def dicts() -> Iterator[Any]:
        for i, message in enumerate(messages):
            if isinstance(message, Msg):
                raise InvalidMessage(f"{name}[{i}]: is a Msg already, not a provider's message")
            yield without_objects(message)

    return read_each(dicts(), name, read)


def read_each(values: Iterable[Any], name: str, read: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """What `read` makes of each object of a list. Errors name its place: "content[0].type"."""
    made: list[T] = []
    for i, value in enumerate(values):
        if not isinstance(value, Mapping):
            raise InvalidMessage(f"{name}[{i}]: must be an object, not {kind_of(value)}")
        made.append(read_at(f"{name}[{i}]", read, value))
    return made


def read_at(place: str, read: Callable[..., T], *given: Any) -> T:
    """What `read` makes of what is given, which stands at this place: its errors begin with it."""
    try:
        return read(*given)
    except InvalidMessage as e:
        raise InvalidMessage(f"{place}.{e}") from None


def rest(message: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The keys that no field stands for. Raises InvalidMessage naming what JSON cannot hold."""
    extra: dict[str, Any] = {}
    for key in [k for k in message if k not in known]:
        try:
            extra |= freeze({key: message[key]})
        except ValueError as e:
            raise InvalidMessage(f"{key}: {e}") from None
    return extra


def put_back(target: dict[str, Any], remembered: Any, lost: Collection[str] = ()) -> dict[str, Any]:
    """Add remembered keys to an object that does not have them by now, except those that are `lost`."""
    if isinstance(remembered, dict):
        target.update((k, thaw(v)) for k, v in remembered.items() if k not in target and k not in lost)
    return target


def text_at(message: Mapping[str, Any], key: str) -> str:
    """The text under a key. Raises InvalidMessage when it is missing or not a text."""
    if key not in message:
        raise InvalidMessage(f"{key}: is missing; it must be a string")
    value = message[key]
    if not isinstance(value, str):
        raise InvalidMessage(f"{key}: must be a string, not {kind_of(value)}")
    return value


def object_at(message: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object under a key. Raises InvalidMessage when it is missing or not an object."""
    value = message.get(key)
    if not isinstance(value, Mapping):
        problem = f"must be an object, not {kind_of(value)}" if key in message else "is missing; it must be an object"
        raise InvalidMessage(f"{key}: {problem}")
    return value


def kind_of(value: object) -> str:
    """A value's type in the words of JSON."""
    return "null" if value is None else f"{type(value).__name__}"


def jsonable(value: Any) -> Any:
    """A value as JSON can hold it; of an object that it cannot hold, what can be said of it."""
    return to_jsonable_python(value, fallback=repr, bytes_mode="base64")
