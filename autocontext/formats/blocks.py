"""What all readers and writers of messages need: hints, pictures and sounds by their address, what JSON can hold.

What our messages and blocks have no field for stands in their metadata, under a key that each format has for itself:
the hints. They never repeat what a block says, so one whose text was replaced is written with its new text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pydantic_core import to_jsonable_python

from autocontext.messages import AudioBlock, Block, ImageBlock, Msg, VideoBlock

Media: TypeAlias = ImageBlock | AudioBlock | VideoBlock
MEDIA: Final[Mapping[str, type[Media]]] = {"image": ImageBlock, "audio": AudioBlock, "video": VideoBlock}
"""By the first half of their media type, which is also the block's own type."""

_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)


def hints(key: str, value: Msg | Block) -> Mapping[str, Any]:
    """What the format with this key has remembered about a message or block."""
    values = value.metadata.get(key)
    return values if isinstance(values, dict) else {}


def remember(key: str, /, **values: Any) -> dict[str, Any]:
    """Metadata that holds these hints; {} when there is nothing to remember."""
    kept = {k: v for k, v in values.items() if v is not None and v != {} and v is not False}
    return {key: kept} if kept else {}


def source_of(url: str) -> dict[str, Any]:
    """The source of a media block that an address or a data URL stands for."""
    match = _DATA_URL.fullmatch(url)
    return {"type": "base64", "media_type": match[1], "data": match[2]} if match else {"type": "url", "url": url}


def url_of(block: Media) -> str:
    """A media block's address, or its data as a URL."""
    source = block.source
    return str(source["url"]) if source["type"] == "url" else f"data:{source['media_type']};base64,{source['data']}"


def jsonable(value: Any) -> Any:
    """A value as JSON can hold it; of an object that it cannot hold, what can be said of it."""
    return to_jsonable_python(value, fallback=repr)
