"""How much of a request a message takes: its images, and its bytes as JSON, in which base64 stands as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import NamedTuple, TypeGuard

from autocontext.config import AutoContextConfig
from autocontext.messages import FILE, Block, ContentBlock, ImageBlock, Msg, OutputBlock, TextBlock

Place = tuple[int, ...]
"""Where a block stands in a message: (2,), or (2, 0) for the first block of the output of the result at 2."""

_PER_MESSAGE = 64
"""Bytes of a message's own keys, at most, in the formats of chat services."""
_PER_BLOCK = 192
"""Those of a block; an image of a result may come in a message of its own."""

_LONG = 4096
_SHORT_ESCAPES = b'"\\\n\r\t\b\f'
_ESCAPED = _SHORT_ESCAPES, bytes(set(range(32)) - set(_SHORT_ESCAPES))
"""Bytes that JSON writes with a backslash before one letter, and as \\u with four digits."""

_json = json.JSONEncoder(ensure_ascii=False, default=str).encode
"""Shared: `json.dumps` with an option makes a new encoder for every call."""


class RequestSize(NamedTuple):
    """What messages take of a request."""

    images: int = 0
    size: int = 0
    """Bytes."""
    files: int = 0
    """Those whose data is in it."""

    @property
    def may_leave(self) -> int:
        """Images and files, which may give way to lines."""
        return self.images + self.files

    def plus(self, other: RequestSize) -> RequestSize:
        """Both together."""
        return RequestSize(self.images + other.images, self.size + other.size, self.files + other.files)


def request_size(msg: Msg) -> RequestSize:
    """Images and bytes of a message, rather too many bytes than too few: services write its keys differently."""
    size = _PER_MESSAGE + 2 * len(msg.name) + _of_metadata(msg) + sum(map(block_size, msg.content))
    images = [is_image(block) for _, block in data_in(msg)]
    return RequestSize(sum(images), size, len(images) - sum(images))


def images_in(msg: Msg) -> Iterator[tuple[Place, ImageBlock]]:
    """The images of a message and of its results, in order, with their places."""
    return ((place, block) for place, block in data_in(msg) if block.type == "image")


def data_in(msg: Msg) -> Iterator[tuple[Place, ImageBlock | TextBlock]]:
    """The same, and the texts that carry a file's data along."""
    # Compares types: this runs for every message added, and isinstance is slow on pydantic models.
    for i, block in enumerate(msg.content):
        if may_leave(block):
            yield (i,), block
        elif block.type == "tool_result" and not isinstance(block.output, str):
            yield from (((i, k), inner) for k, inner in enumerate(block.output) if may_leave(inner))


def may_leave(block: ContentBlock | OutputBlock) -> TypeGuard[ImageBlock | TextBlock]:
    """Whether a line may stand in its place: an image, or a text that carries a file's data along."""
    return block.type == "image" or (block.type == "text" and FILE in block.metadata)


def is_image(block: ImageBlock | TextBlock) -> bool:
    """Whether this is an image, also one that the provider made and that is carried along; otherwise it is a file."""
    return block.type == "image" or block.metadata[FILE]["kind"] == "image"


def block_size(block: ContentBlock | OutputBlock) -> int:
    """Bytes of a block."""
    fixed = _PER_BLOCK + _of_metadata(block)
    if block.type == "text":
        return fixed + _bytes(block.text)
    if block.type == "thinking":
        return fixed + _bytes(block.thinking)
    if block.type == "tool_use":  # arguments are JSON in a text in some formats, so their quotes are escaped once more
        return fixed + _of_all(block.name, block.id, block.id, _json(block.input))
    if block.type == "tool_result":
        if isinstance(block.output, str):
            return fixed + _of_all(block.name, block.id, block.id, block.output)
        return fixed + _of_all(block.name, block.id, block.id) + sum(map(block_size, block.output))
    return fixed + sum(len(value) for value in block.source.values() if isinstance(value, str))


def _of_all(*texts: str) -> int:
    """UTF-8 bytes of texts as JSON, in quotes each."""
    return _bytes("".join(texts)) + 2 * (len(texts) - 1)


def _of_metadata(part: Msg | Block) -> int:
    return _bytes(part.metadata) if part.metadata else 0


def _bytes(value: object) -> int:
    """UTF-8 bytes of a value as JSON."""
    if not isinstance(value, str):
        return utf8_bytes(_json(value))
    if len(value) > _LONG:  # without making the JSON
        raw = value.encode("utf-8", "surrogatepass")
        short, long = (len(raw) - len(raw.translate(None, escaped)) for escaped in _ESCAPED)
        return 2 + len(raw) + short + 5 * long
    return utf8_bytes(encode_basestring(value))


def utf8_bytes(text: str) -> int:
    """How many bytes a text takes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def request_limits(config: AutoContextConfig) -> tuple[float, float]:
    """Most images and bytes of one request."""
    most, room = config.max_images, config.max_request_bytes
    return float("inf") if most is None else most, float("inf") if room is None else room


def over_limit(size: RequestSize, config: AutoContextConfig) -> bool:
    """Whether a view of that size has too many images or bytes for one request."""
    most, room = request_limits(config)
    return size.images > most or (size.may_leave > 0 and size.size > room)
