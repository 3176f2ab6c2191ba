"""What all readers and writers of messages share: hints, media by address, what is carried along.

What our messages and blocks have no field for stands in their metadata, under a key that each format has for itself:
the hints. They never repeat what a block says, so one whose text was replaced is written with its new text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from autocontext.messages import COMPACTION, FILE, AudioBlock, Block, ImageBlock, Msg, TextBlock, VideoBlock, texts_in
from autocontext.tokens.media import described, described_file, media_tokens

Media: TypeAlias = ImageBlock | AudioBlock | VideoBlock
MEDIA: Final[Mapping[str, type[Media]]] = {"image": ImageBlock, "audio": AudioBlock, "video": VideoBlock}
"""By the first half of their media type, which is also the block's own type."""

_DATA_URL = re.compile(r"data:([^;,][^,]*?);base64,(.*)", re.DOTALL)
"""The media type is with its parameters, so that `url_of` writes the same address."""
_DATA = re.compile(r"data:[^\s,]*,.*|[A-Za-z0-9+/_=-]{256,}", re.DOTALL)
_SAYS_NOTHING = ("type", "kind", "part_kind", "id", "status", "cache_control", "index")
"""Of a part that is carried along."""
_FILES = ("file", "input_file", "document", "image_generation_call")
"""Types of parts and items that hold a file, of which only its name is read."""


def hints(key: str, value: Msg | Block) -> Mapping[str, Any]:
    """What the format with this key has remembered about a message or block."""
    values = value.metadata.get(key)
    return values if isinstance(values, dict) else {}


def remember(key: str, /, **values: Any) -> dict[str, Any]:
    """Metadata that holds these hints; {} when there is nothing to remember."""
    kept = {k: v for k, v in values.items() if v is not None and v != {} and v is not False}
    return {key: kept} if kept else {}


def hints_of(key: str) -> tuple[Callable[[Msg | Block], Mapping[str, Any]], Callable[..., dict[str, Any]]]:
    """`hints` and `remember` of the format with this key."""
    return partial(hints, key), partial(remember, key)


def carried_text(part: Mapping[str, Any], kind: object, name: object = None) -> str:
    """What a part that no block stands for reads like: its kind and name, then what it holds, without data.

    The part itself is carried along in the metadata. Its words must stand here, too: only a block's text is counted,
    searched, shown in transcripts and sent to other providers.
    """
    lines = [f"[{kind}: {name}]" if isinstance(name, str) and name else f"[{kind}]"]
    for key, value in sorted(part.items()):  # stores may reorder keys, and `carries` compares
        said = value if isinstance(value, str) else _without_data(value)
        if key in _SAYS_NOTHING or said in (None, "", [], {}) or said == kind:
            continue
        shown = _or_data(said) if isinstance(said, str) else json.dumps(said, ensure_ascii=False, sort_keys=True)
        if shown != name:
            lines.append(f"{key}: {shown}")
    return "\n".join(lines)


def file_mark(part: Mapping[str, Any], name: object = None) -> dict[str, Any]:
    """Metadata of a block that carries this part along: what file it is, if the part holds the file's data."""
    kind = part.get("type")
    if kind not in _FILES:
        return {}
    data = max((text for text in texts_in(part) if _DATA.fullmatch(text)), key=len, default="")
    if not data:
        return {}
    if kind == "image_generation_call":
        image = ImageBlock(source={"type": "base64", "media_type": "image/png", "data": data})
        return {FILE: {"kind": "image", "what": described(image), "tokens": media_tokens(image)}}
    return {FILE: {"kind": "file", "what": described_file(name if isinstance(name, str) else "", data)}}


def carries(block: Block, text: str) -> bool:
    """Whether a block still says what the part says that it carries along, which has this text.

    A compression may have given it a new text, which is then sent in the part's place. Earlier versions stored the
    first line only.
    """
    if not isinstance(block, TextBlock) or COMPACTION in block.metadata:
        return True
    # Half a surrogate pair is sent as its escape, which stands in JSON once more escaped.
    said, text = block.text.replace("\\", ""), text.replace("\\", "")
    return said in (text, text.partition("\n")[0])


def _without_data(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_data(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_data(v) for v in value]
    return _or_data(value) if isinstance(value, str) else value


def _or_data(text: str) -> str:
    """The text; of base64 and the like, how long it is."""
    return f"({len(text):,} characters of data)" if _DATA.fullmatch(text) else text


def source_of(url: str) -> dict[str, Any]:
    """The source of a media block that an address or a data URL stands for."""
    match = _DATA_URL.fullmatch(url)
    return {"type": "base64", "media_type": match[1], "data": match[2]} if match else {"type": "url", "url": url}


def url_of(block: Media) -> str:
    """A media block's address, or its data as a URL."""
    source = block.source
    return str(source["url"]) if source["type"] == "url" else f"data:{source['media_type']};base64,{source['data']}"
