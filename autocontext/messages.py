"""Messages and their content blocks: frozen values with a JSON round trip.

Shapes and JSON keys are those of AgentScope-Java's Msg and ContentBlock (role, name, blocks with a `type`), so that its
sessions can be read here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import not_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NoReturn, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

from autocontext.errors import AutoContextError, InvalidMessage, one_line, short

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

COMPRESS_META = "_compress_meta"
"""Metadata key of messages made by a compression, in the reference's wire format."""
OFFLOAD_UUID = "offloaduuid"
WRITTEN = "written"
"""Key next to the UUID in a note: the number of characters at its beginning that a model wrote."""
PINNED = "pinned"
SAID_BY_USER = "said_by_user"
"""Metadata key of words of the user inside a tool's result: a text, or a list of texts."""
WIRE_HINTS = "_openai"
"""Metadata key for the original spelling of OpenAI messages where blocks do not show it."""
RESPONSES_HINTS = "_responses"
"""The same of items of OpenAI's Responses API."""
ANTHROPIC_HINTS = "_anthropic"
"""The same of Anthropic's; a block of a kind of its own is there as a `whole`."""
COMPACTION = "_compaction"
"""Metadata key of a block by which a provider has compacted what stands before it: "anthropic" or "openai"."""
ENCRYPTED = "_encrypted"
"""Metadata key of a block that only its provider can read: the number of characters of its encrypted content."""

FILE = "_file"
"""Metadata key of a text that carries a file's data along: {"kind": "file" or "image", "what": its name and size}.

An image's "tokens" are what it costs; what a file costs, only its provider knows."""


def _refuse(_self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError("messages are frozen: build a new Msg with the changed value instead")


class _FrozenDict(dict[str, Any]):
    """An immutable dict, so that nobody can alter an original by accident."""

    __setitem__ = __delitem__ = update = pop = popitem = setdefault = clear = __ior__ = _refuse

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (freeze, (dict(self),))


class _FrozenList(list[Any]):
    """An immutable list."""

    __setitem__ = __delitem__ = append = extend = insert = pop = remove = clear = _refuse
    sort = reverse = __iadd__ = __imul__ = _refuse

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (freeze, (list(self),))


class _FrozenSet(set[str]):
    """An immutable set that many values share; a copy of it is an ordinary set."""

    add = clear = difference_update = discard = intersection_update = pop = remove = _refuse
    symmetric_difference_update = update = __iand__ = __ior__ = __isub__ = __ixor__ = _refuse

    def __copy__(self) -> set[str]:
        return set(self)

    copy = __copy__

    def __reduce__(self) -> tuple[Any, ...]:
        return (set, (list(self),))


_DEEPEST = 100
"""Levels of nesting that every JSON reader and writer accepts."""
LONGEST_NUMBER = 4300
"""Digits of the longest whole number that Python (`sys.get_int_max_str_digits`) and pydantic read in JSON."""
_BOUND = 10**LONGEST_NUMBER
_SAFE_BITS = _BOUND.bit_length() - 1
"""Numbers of so many bits are under the bound, and counting bits is quick."""
_Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands: keys and indices. A text would take longer to build than to check."""


def freeze(value: Any) -> Any:
    """An immutable copy of a JSON value that every store gives back.

    Raises ValueError naming the key of anything that is not JSON, of a whole number of more than 4,300 digits, and of
    what is nested more than 100 levels deep.
    """
    return _frozen(value, ())


def _frozen(value: Any, path: _Path) -> Any:
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, int):
        if value.bit_length() > _SAFE_BITS and abs(value) >= _BOUND:
            raise ValueError(
                f"{_named(path)} is a whole number of more than {LONGEST_NUMBER:,} digits, which no JSON reader takes; "
                "pass it as text, such as hex(number)"
            )
        return value
    if len(path) > _DEEPEST:
        raise ValueError(f"is nested more than {_DEEPEST} levels deep; pass it as text")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                place = f" in {_named(path)}" if path else ""
                raise ValueError(f"key {short(key)}{place} is not a string; JSON objects have string keys")
        return _FrozenDict({_interned_text(k): _frozen(v, (*path, k)) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return _FrozenList([_frozen(v, (*path, i)) for i, v in enumerate(value)])
    raise ValueError(f"{_named(path)} is a {type(value).__name__}, which JSON cannot hold; convert it to text first")


def _named(path: _Path) -> str:
    """A path as in code, `a.b[0]`, of at most some 200 characters."""
    name = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".") or "value"
    name = name if name.isprintable() else repr(name)[1:-1]  # pydantic takes no lone surrogates in an error
    return name if len(name) <= 200 else f"{name[:100]}...{name[-97:]}"


def thaw(value: Any) -> Any:
    """A mutable copy of a frozen JSON value."""
    if isinstance(value, dict):
        return {k: thaw(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(v) for v in value]
    return value


def leaves(value: Any) -> Iterator[str]:
    """The texts and numbers of a JSON value, in order; booleans and null are left out."""
    for leaf in _leaves(value):
        if isinstance(leaf, str):
            yield leaf
        elif isinstance(leaf, int | float) and not isinstance(leaf, bool):
            yield repr(leaf)


def texts_in(value: Any) -> Iterator[str]:
    """The texts of a JSON value, in order."""
    return (leaf for leaf in _leaves(value) if isinstance(leaf, str))


def _leaves(value: Any) -> Iterator[Any]:
    """What a JSON value holds in its objects and arrays, in order; the value itself if it is neither."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += reversed(value.values())
        elif isinstance(value, list | tuple):
            waiting += reversed(value)
        else:
            yield value


def _freeze_object(value: Any) -> Any:
    if isinstance(value, _FrozenDict):
        return value
    if not isinstance(value, dict):
        raise ValueError("must be an object with string keys")
    return freeze(value)


_EMPTY: dict[str, Any] = _FrozenDict()
# Plain: pydantic's own dict validation would copy the frozen dict into a mutable one.
JsonObject: TypeAlias = Annotated[dict[str, Any], PlainValidator(_freeze_object)]


def _empty() -> dict[str, Any]:
    return _EMPTY


class Value(BaseModel):
    """Base of the frozen values: unknown fields are refused, errors are one line."""

    error_type: ClassVar[type[AutoContextError]] = InvalidMessage
    """What is raised for invalid fields."""
    java_names: ClassVar[Mapping[str, str]] = {}
    """AgentScope-Java's names of fields, for errors."""
    # Deferred: building all validators takes longer than the rest of the import.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as e:
            raise self._refusal(e) from None

    # As pydantic does with its own: validating a whole value then makes the inner ones without calling this, which
    # takes half the time.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """The value from a dict. Raises an error that names the field."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as e:
            raise cls._refusal(e) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values for some fields, checked like those of a new value."""
        if update:
            checked = type(self).model_validate({**vars(self), **update})
            update = {name: getattr(checked, name) for name in update}
        return super().model_copy(update=update, deep=deep)

    @classmethod
    def _refusal(cls, error: ValidationError) -> AutoContextError:
        return cls.error_type(one_line(cls.__name__, _problems(error), cls.model_fields, cls.java_names))


class Block(Value):
    """A part of a message; `type` says which."""

    metadata: JsonObject = Field(default_factory=_empty, exclude_if=not_)
    """Free for the caller, e.g. for provider keys without a field of their own."""


class TextBlock(Block):
    """Plain text."""

    type: Literal["text"] = "text"
    text: str


class ThinkingBlock(Block):
    """A model's reasoning; it is never separated from its message."""

    type: Literal["thinking"] = "thinking"
    thinking: str


class ToolUseBlock(Block):
    """A call of the tool `name`, answered by the ToolResultBlock with the same id."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: JsonObject = Field(default_factory=_empty)


def _check_source(value: Any) -> Any:
    source = _freeze_object(value)
    keys = {"url": ("url",), "base64": ("media_type", "data")}.get(source.get("type"))
    if keys is None:
        raise ValueError("`type` must be 'url' or 'base64'")
    for key in keys:
        if not isinstance(source.get(key), str):
            raise ValueError(f"a {source['type']} source needs the text `{key}`")
    return source


Source: TypeAlias = Annotated[dict[str, Any], PlainValidator(_check_source)]


class ImageBlock(Block):
    """An image: source={"type": "url", "url": ...} or {"type": "base64", "media_type": ..., "data": ...}."""

    type: Literal["image"] = "image"
    source: Source


class AudioBlock(Block):
    """Sound, with a source as in ImageBlock."""

    type: Literal["audio"] = "audio"
    source: Source


class VideoBlock(Block):
    """A video, with a source as in ImageBlock."""

    type: Literal["video"] = "video"
    source: Source


OutputBlock: TypeAlias = Annotated[
    TextBlock | ThinkingBlock | ImageBlock | AudioBlock | VideoBlock, Field(discriminator="type")
]


class ToolResultBlock(Block):
    """The result of the tool call `id`: a text or blocks."""

    type: Literal["tool_result"] = "tool_result"
    id: str
    name: str = ""
    output: str | tuple[OutputBlock, ...]
    is_error: bool = Field(default=False, exclude_if=not_)

    if TYPE_CHECKING:
        # The arguments have wider types than the fields, which type checkers without pydantic's plugin cannot know.
        def __init__(
            self,
            *,
            id: str,  # noqa: A002 (the field's name)
            output: str | Sequence[OutputBlock],
            name: str = ...,
            is_error: bool = ...,
            metadata: Mapping[str, Any] = ...,
            type: Literal["tool_result"] = ...,  # noqa: A002 (the field's name)
        ) -> None: ...

    @property
    def text(self) -> str:
        """The text of the output; images and the like are left out."""
        if isinstance(self.output, str):
            return self.output
        return "\n".join([b.text for b in self.output if b.type == "text"])


ContentBlock: TypeAlias = Annotated[
    TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ImageBlock | AudioBlock | VideoBlock,
    Field(discriminator="type"),
]

_BLOCK_NAMES = {block.model_fields["type"].default: block.__name__ for block in Block.__subclasses__()}


def _problems(error: ValidationError) -> Iterator[Mapping[str, Any]]:
    """Pydantic's errors, with a block's class name instead of its type in the path: content.0.ToolUseBlock.id."""
    for problem in error.errors(include_url=False):
        loc = problem["loc"]
        pairs = zip(("", *loc), loc, strict=False)
        named = tuple(_BLOCK_NAMES.get(part, part) if isinstance(before, int) else part for before, part in pairs)
        yield {**problem, "loc": named}


OriginKind: TypeAlias = Literal[
    "tool_run", "stub", "bare", "round_summary", "current_round", "fold", "archive", "recall", "ledger"
]


class Origin(Value):
    """Which compression made a message, and where its originals are."""

    uuid: str
    """Key of the offload entry with the messages that this one replaces."""
    kind: OriginKind
    """- tool_run: strategy 1's note
    - stub: one message shortened in place (strategies 2, 3 and 5, read_once, the last resort)
    - bare: one message without the provider's compaction in it
    - round_summary: strategy 4's summary
    - current_round: strategy 5's note
    - fold: the note about the oldest part of the conversation
    - archive: the note about what the agent put away
    - recall: lines from out of view, before a message of the user that names them; it replaces nothing
    - ledger: the evidence ledger of release 0.1.0"""
    fallback: bool = Field(default=False, exclude_if=not_)
    """True if the text was written without the model because it gave no usable answer."""


def _as_blocks(value: Any) -> Any:
    if isinstance(value, str):
        return (TextBlock(text=value),)
    if value is None:
        return ()
    if isinstance(value, BaseModel | Mapping | bytes) or not isinstance(value, Iterable):
        raise ValueError("must be a text or a list of blocks")
    return value


class Msg(Value):
    """One message of a conversation.

    `content` may be a text or blocks and is always read as a tuple of blocks. `id`, `name` (the role), `metadata` and
    `timestamp` (ISO 8601) have defaults. Raises InvalidMessage naming the field.

        Msg(role="user", content="Hello")
        Msg(role="assistant", content=[ToolUseBlock(id="call_1", name="search", input={"q": "weather"})])
    """

    id: str = Field(default_factory=lambda: uuid.uuid4().hex, min_length=1)
    role: Role
    name: str = ""
    content: Annotated[tuple[ContentBlock, ...], BeforeValidator(_as_blocks)] = ()
    metadata: JsonObject = Field(default_factory=_empty, exclude_if=not_)
    timestamp: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    origin: Origin | None = Field(default=None, exclude_if=not_)
    """Set on messages made by a compression."""

    if TYPE_CHECKING:
        # As in ToolResultBlock: wider types than the fields.
        def __init__(
            self,
            *,
            role: Role,
            content: str | Sequence[ContentBlock] | None = ...,
            id: str = ...,  # noqa: A002 (the field's name)
            name: str = ...,
            metadata: Mapping[str, Any] = ...,
            timestamp: str = ...,
            origin: Origin | None = ...,
        ) -> None: ...

    def model_post_init(self, _context: Any) -> None:
        """Fill in the name, which the reference requires of every message."""
        if not self.name:
            self.__dict__["name"] = self.role

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join([b.text for b in self.content if b.type == "text"])

    def texts(self) -> Iterator[str]:
        """The texts of all blocks, including arguments of calls, without reasoning."""
        for block in self.content:
            if block.type == "text" or block.type == "tool_result":  # noqa: PLR1714 (only so does mypy know what it is)
                yield block.text
            elif block.type == "tool_use":
                yield from leaves(block.input)

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        """The calls in this message, in order."""
        return tuple([b for b in self.content if b.type == "tool_use"])

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The results in this message, in order."""
        return tuple([b for b in self.content if b.type == "tool_result"])

    def to_dict(self) -> dict[str, Any]:
        """The message as a JSON object; `Msg.model_validate` reads it back."""
        # Not in pydantic's JSON mode, which rejects lone surrogates in the keys of an object.
        data: dict[str, Any] = thaw(self.model_dump())
        return data


def interned(msg: Msg) -> Msg:
    """The same message in less memory: it shares pydantic's sets of given fields, and names, with others.

    That saves 200 to 700 bytes for the message and for each block.
    """
    for value in (msg, *msg.content):
        fields = value.__pydantic_fields_set__
        if type(fields) is set:
            object.__setattr__(value, "__pydantic_fields_set__", _shared(frozenset(fields)))
        if name := vars(value).get("name"):
            vars(value)["name"] = _interned_text(name)
    return msg


def _interned_text(text: str) -> str:
    """The same text, one object for all who hold it. What pydantic shares depends on what else the process has read.

    Not `sys.intern`, which on Python 3.12 keeps every text for ever.
    """
    return _first(text) if type(text) is str and len(text) <= 64 else text


@lru_cache(maxsize=1024)
def _first(text: str) -> str:
    return text


@lru_cache(maxsize=1024)
def _shared(fields: frozenset[str]) -> _FrozenSet:
    return _FrozenSet(fields)


def is_compressed(msg: Msg) -> bool:
    """Whether a compression made this message (here or in the reference)."""
    return msg.origin is not None or COMPRESS_META in msg.metadata


def is_rewritten(msg: Msg) -> bool:
    """Whether a compression changed this message's words, so that metadata about its exact words is void."""
    return is_compressed(msg) and (msg.origin is None or msg.origin.kind != "bare")


def is_note(msg: Msg) -> bool:
    """Whether this message is a note that replaces others. A round's summary is not one: it stands for the reply."""
    if msg.origin is not None:
        return msg.origin.kind in ("tool_run", "current_round", "fold", "archive", "recall", "ledger")
    meta = msg.metadata.get(COMPRESS_META)
    return isinstance(meta, dict) and bool(meta.get("compressed_current_round"))


def is_fold(msg: Msg) -> bool:
    """Whether the message is the note about the oldest part of the conversation."""
    return msg.origin is not None and msg.origin.kind == "fold"


def is_recall(msg: Msg) -> bool:
    """Whether the message is a note with lines that the user's message after it names."""
    return msg.origin is not None and msg.origin.kind == "recall"


def is_ledger(msg: Msg) -> bool:
    """Whether the message is an evidence ledger of release 0.1.0."""
    return msg.origin is not None and msg.origin.kind == "ledger"


_OF_TOOLS = frozenset({"tool_use", "tool_result"})


def is_tool_message(msg: Msg) -> bool:
    """Whether the message holds tool calls or tool results."""
    # Compares types: isinstance takes ten times as long on pydantic models, and every pass tests every message.
    for block in msg.content:  # noqa: SIM110 (a generator takes three times as long)
        if block.type in _OF_TOOLS:
            return True
    return False


def is_reasoning(msg: Msg) -> bool:
    """Whether the message is the model's reasoning alone, as it comes before the words or calls that it led to."""
    return msg.role == "assistant" and bool(msg.content) and all(b.type == "thinking" for b in msg.content)


def leads_on(msg: Msg, after: Msg) -> bool:
    """Whether a message is reasoning that was added by itself, and led to the next one: services take both or none."""
    return after.role == "assistant" and is_reasoning(msg)


def is_final_reply(msg: Msg) -> bool:
    """Whether this is an assistant message without tool calls: a reply or a round's summary, no note or reasoning."""
    return msg.role == "assistant" and not is_tool_message(msg) and not is_note(msg) and not is_reasoning(msg)


def is_user_turn(msg: Msg) -> bool:
    """Whether the user wrote this message (user role, no tool results, not a note in the user's role)."""
    return msg.role == "user" and not is_tool_message(msg) and not is_note(msg)


def said_in(msg: Msg) -> tuple[str, ...]:
    """The words of the user that the caller has named in this message's results (`metadata={"said_by_user": ...}`)."""
    said = msg.metadata.get(SAID_BY_USER) if msg.metadata else None
    if not said:
        return ()
    return tuple(words for words in ([said] if isinstance(said, str) else said) if isinstance(words, str))


def words_of_user(msg: Msg) -> str:
    """What the user says in this message: its text in the user's role, and what was said inside a result."""
    text = msg.text if msg.role == "user" else ""
    return "\n\n".join(filter(None, (text, *said_in(msg))))


def with_words_of_user(messages: Iterable[Msg], said: Callable[[str], Sequence[str]]) -> list[Msg]:
    """The messages, each with the words of the user that `said` finds in the texts of its results."""
    marked = []
    for m in messages:
        words = [w for result in m.tool_results for w in said(result.text)]
        metadata = {**m.metadata, SAID_BY_USER: words}
        marked.append(m.model_copy(update={"metadata": metadata}) if words else m)
    return marked


def is_pinned(msg: Msg) -> bool:
    """Whether the caller asked to keep this message unchanged (`metadata={"pinned": True}`)."""
    return msg.metadata.get(PINNED) is True


def with_pin(msg: Msg) -> Msg:
    """A copy of the message that is pinned."""
    return msg.model_copy(update={"metadata": freeze({**msg.metadata, PINNED: True})})


def compacted_by(msg: Msg) -> str:
    """The provider whose compaction this message holds, the last one of several; "" without any."""
    # A plain loop, as every view calls it for each of its messages.
    for block in reversed(msg.content):
        if block.metadata and COMPACTION in block.metadata:
            return str(block.metadata[COMPACTION])
    return ""


def own_text(msg: Msg) -> str:
    """The text of a message without a provider's compaction."""
    return "\n".join([b.text for b in msg.content if b.type == "text" and COMPACTION not in b.metadata])


def as_messages(messages: Msg | Iterable[Msg]) -> Sequence[Msg]:
    """One or several messages as a sequence. Raises InvalidMessage naming the index of anything that is not a Msg."""
    sequence = [messages] if isinstance(messages, Msg) else list(messages)
    for i, m in enumerate(sequence):
        if not isinstance(m, Msg):
            hint = "; from_openai and its like read dicts, and memory.add takes them" if isinstance(m, Mapping) else ""
            raise InvalidMessage(
                f"messages[{i}] is a {type(m).__name__}, not a Msg; build it with Msg(role=..., content=...){hint}"
            )
    return sequence
