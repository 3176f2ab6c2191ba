"""Content parts of OpenAI chat messages as blocks, and back, without loss.

What a block has no field for stands under `metadata["_openai"]` of that block, as hints: `extra` and `inner` (unknown
keys of the outer and inner object) and a few words about the form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from autocontext.formats import blocks
from autocontext.formats.blocks import source_of, url_of
from autocontext.formats.objects import object_at, put_back, read_at, rest, text_at
from autocontext.messages import WIRE_HINTS, AudioBlock, ImageBlock, TextBlock, VideoBlock

hints, remember = blocks.hints_of(WIRE_HINTS)
"""What was remembered about an OpenAI message or block; metadata that holds such hints."""
Part: TypeAlias = TextBlock | ImageBlock | AudioBlock | VideoBlock

_MEDIA_TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav"}


def read_part(part: Mapping[str, Any]) -> Part:
    """A content part as a block; a part of a kind without a block (`file`) becomes a text that names it."""
    kind = text_at(part, "type")
    if kind == "text":
        return TextBlock(text=text_at(part, "text"), metadata=remember(extra=rest(part, ("type", "text"))))
    if kind == "refusal":
        extra = rest(part, ("type", "refusal"))
        return TextBlock(text=text_at(part, "refusal"), metadata=remember(part="refusal", extra=extra))
    if kind in ("image_url", "video_url"):
        return _read_url(part, kind)
    if kind == "input_audio":
        return _read_audio(part)
    carried = remember(carried=rest(part, ()))
    return TextBlock(text=_text_of(part), metadata=carried | blocks.file_mark(part, _name_of(part)))


def _read_url(part: Mapping[str, Any], kind: str) -> Part:
    extra = rest(part, ("type", kind))
    block = ImageBlock if kind == "image_url" else VideoBlock
    if isinstance(part.get(kind), str):  # not OpenAI's form, but Mistral's and others'
        return block(source=source_of(part[kind]), metadata=remember(bare=True, extra=extra))
    body = object_at(part, kind)
    inner = read_at(kind, rest, body, ("url",))
    return block(source=source_of(read_at(kind, text_at, body, "url")), metadata=remember(inner=inner, extra=extra))


def _read_audio(part: Mapping[str, Any]) -> Part:
    extra = rest(part, ("type", "input_audio"))
    body = object_at(part, "input_audio")
    data, form = (read_at("input_audio", text_at, body, key) for key in ("data", "format"))
    media_type = _MEDIA_TYPES.get(form, f"audio/{form}")
    odd = None if _audio_format(media_type) == form else form
    inner = read_at("input_audio", rest, body, ("data", "format"))
    source = {"type": "base64", "media_type": media_type, "data": data}
    return AudioBlock(source=source, metadata=remember(format=odd, inner=inner, extra=extra))


def _audio_format(media_type: str) -> str:
    known = {v: k for k, v in _MEDIA_TYPES.items()}
    return known.get(media_type, media_type.removeprefix("audio/"))


def _text_of(part: Mapping[str, Any]) -> str:
    """What a part without a block of its own reads like to a model, and how it is known again."""
    kind = part["type"]
    return blocks.carried_text({} if kind == "file" else part, kind, _name_of(part))


def _name_of(part: Mapping[str, Any]) -> Any:
    body = part.get(part["type"])
    return body.get("filename") or body.get("file_id") if isinstance(body, Mapping) else None


def is_plain(block: Part) -> bool:
    """Whether a block is text and nothing else, so that a string can hold it."""
    return isinstance(block, TextBlock) and not hints(block)


def write_part(block: Part) -> dict[str, Any]:
    """The content part that stands for a block."""
    known = hints(block)
    if isinstance(block, TextBlock):
        carried = known.get("carried")
        if isinstance(carried, dict) and "type" in carried and blocks.carries(block, _text_of(carried)):
            return put_back({}, carried)
        key = "refusal" if known.get("part") == "refusal" else "text"
        return put_back({"type": key, key: block.text}, known.get("extra"))
    body: Any
    if isinstance(block, AudioBlock):
        if block.source["type"] == "url":  # chat messages carry sound as data only
            return {"type": "text", "text": stand_in(block)}
        form = known.get("format") or _audio_format(block.source["media_type"])
        kind, body = "input_audio", put_back({"data": block.source["data"], "format": form}, known.get("inner"))
    else:
        kind = "image_url" if isinstance(block, ImageBlock) else "video_url"
        body = url_of(block) if known.get("bare") else put_back({"url": url_of(block)}, known.get("inner"))
    return put_back({"type": kind, kind: body}, known.get("extra"))


def stand_in(block: Part) -> str:
    """The text of a block where only text may stand: an image's address, never its data."""
    if isinstance(block, TextBlock):
        return block.text
    url = block.source["url"] if block.source["type"] == "url" else "data:"
    return f"[{block.type}]" if url.startswith("data:") else f"[{block.type}: {url}]"
