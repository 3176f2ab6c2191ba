"""Tokens of images, sound and video, by pixels or seconds, not by base64 length."""

from __future__ import annotations

import binascii
import re
import struct
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from autocontext.messages import RESPONSES_HINTS, WIRE_HINTS, AudioBlock, ImageBlock, VideoBlock

# OpenAI's guide "Images and vision", section on costs, for gpt-4o and gpt-4.1: an image is scaled down into a square of
# 2048 pixels, then down to 768 pixels on its shorter side; every tile of 512 pixels costs 170 tokens, the image 85.
IMAGE_BASE_TOKENS = 85
IMAGE_TILE_TOKENS = 170
IMAGE_BOX = 2048
IMAGE_SHORT_SIDE = 768
IMAGE_TILE = 512
UNKNOWN_IMAGE_TOKENS = 1105
"""An image of unknown size (a URL): six tiles, like a screenshot of 1920 x 1080."""

UNKNOWN_AUDIO_TOKENS = 600
"""One minute at OpenAI's rate for audio input, 10 tokens a second."""
UNKNOWN_VIDEO_TOKENS = 2630
"""Ten seconds at Google's rate for Gemini, 263 tokens a second."""

_HINTS = ((WIRE_HINTS, "inner"), (RESPONSES_HINTS, "rest"))
"""Where the readers of formats keep what an image has beside its address: `detail`, if it has one."""

_HEADER_CHARS = 1 << 19
"""Base64 characters to decode for the size: a JPEG's may follow its embedded preview."""
_ADDRESS = 80
"""Characters of an address in a description."""
_KILO = 1000


def media_tokens(block: ImageBlock | AudioBlock | VideoBlock) -> int:
    """Tokens of one image, sound or video.

    `metadata={"tokens": n}` on the block overrides the estimate. `detail` "low" in an image's source or metadata, or as
    a format of OpenAI's has it, costs the base price only.
    """
    tokens = block.metadata.get("tokens")
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
        return tokens
    if isinstance(block, AudioBlock):
        return UNKNOWN_AUDIO_TOKENS
    if isinstance(block, VideoBlock):
        return UNKNOWN_VIDEO_TOKENS
    if "low" in _details(block):
        return IMAGE_BASE_TOKENS
    data = _data_of(block)
    size = None if data is None else image_size(_header(data))
    return image_tokens(*size) if size else UNKNOWN_IMAGE_TOKENS


def _details(block: ImageBlock) -> Iterator[Any]:
    """The `detail` of an image, wherever it stands."""
    yield from (block.source.get("detail"), block.metadata.get("detail"))
    for key, place in _HINTS:
        hints = block.metadata.get(key)
        kept = hints.get(place) if isinstance(hints, Mapping) else None
        yield kept.get("detail") if isinstance(kept, Mapping) else None


def image_tokens(width: int, height: int) -> int:
    """Tokens of an image of that many pixels, 255 to 1445; see the constants above for the formula's source."""
    shrink = min(1.0, IMAGE_BOX / max(width, height))
    w, h = width * shrink, height * shrink
    shrink = min(1.0, IMAGE_SHORT_SIDE / min(w, h))
    # Rounded, so that a floating point error adds no tile.
    tiles = ceil(max(1, round(w * shrink)) / IMAGE_TILE) * ceil(max(1, round(h * shrink)) / IMAGE_TILE)
    return IMAGE_BASE_TOKENS + IMAGE_TILE_TOKENS * tiles


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels from the first bytes of a PNG, JPEG, GIF or WEBP file; None if unknown."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            size = struct.unpack_from(">II", data, 16)
        elif data.startswith((b"GIF87a", b"GIF89a")):
            size = struct.unpack_from("<HH", data, 6)
        elif data.startswith(b"\xff\xd8"):
            size = _jpeg_size(data)
        elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            size = _webp_size(data)
        else:
            return None
    except (struct.error, IndexError):
        return None
    return (size[0], size[1]) if min(size) > 0 else None


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """ITU-T T.81 annex B: segments of marker and length; a start of frame (C0-CF but C4, C8, CC) holds the size."""
    at = 2
    while True:
        if data[at] != 0xFF:
            return (0, 0)
        marker = data[at + 1]
        if marker == 0xFF or 0xD0 <= marker <= 0xD8 or marker == 0x01:  # fill bytes and markers without a segment
            at += 1 if marker == 0xFF else 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]


def _webp_size(data: bytes) -> tuple[int, int]:
    """RFC 9649: the first chunk is lossy (VP8), lossless (VP8L) or extended (VP8X), each with its own header."""
    kind = data[12:16]
    if kind == b"VP8X":
        low_w, high_w, low_h, high_h = struct.unpack_from("<HBHB", data, 24)  # three bytes each
        return 1 + low_w + (high_w << 16), 1 + low_h + (high_h << 16)
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return (0, 0)


def described_file(name: str, data: str) -> str:
    """What can be known of a file from its name and its data, base64 or a data URL: "contract.pdf, 1.5 MB"."""
    name = re.sub(r"[\s\[\]<>]+", " ", name).strip()[:_ADDRESS]
    return ", ".join(filter(None, (name, _in_words(len(data.rpartition(",")[2]) * 3 // 4))))


def described(block: ImageBlock) -> str:
    """What can be known of an image without looking at it: "1,024 x 768 PNG, 34 KB", or its address."""
    data = _data_of(block)
    if data is None:
        # Without its query, which may hold a signature that nobody needs to read.
        address = re.sub(r"[\s\[\]<>]|[^ -~]", "", block.source["url"].partition("?")[0])
        return address[:_ADDRESS] + "..." * (len(address) > _ADDRESS) or "from an address"
    header = _header(data)
    size, kind = image_size(header), _kind(header, str(block.source.get("media_type", "")))
    pixels = f"{size[0]:,} x {size[1]:,} " if size else ""
    return f"{pixels}{kind}, {_in_words(len(data) * 3 // 4)}"


def _data_of(block: ImageBlock) -> str | None:
    """The base64 of an image; None if the image is an address."""
    data: str = block.source["data"] if block.source["type"] == "base64" else block.source["url"]
    # Chat APIs take inline images as "data:image/png;base64,iVBOR..."; some `data` fields hold that form, too.
    if data.startswith("data:"):
        return data.partition(",")[2] if ";base64," in data[:200] else ""
    return None if block.source["type"] == "url" else data


def _header(data: str) -> bytes:
    """The first bytes behind base64; none if it is not base64."""
    data = "".join(data[:_HEADER_CHARS].split())
    try:
        return binascii.a2b_base64(data[: len(data) // 4 * 4])
    except ValueError:  # binascii.Error is one; so is text that is not ASCII
        return b""


def _kind(header: bytes, media_type: str) -> str:
    """The format of an image by its first bytes, otherwise by its media type."""
    begins = {b"\x89PNG": "PNG", b"\xff\xd8": "JPEG", b"GIF8": "GIF", b"RIFF": "WEBP"}
    named = re.fullmatch(r"image/([A-Za-z0-9.+-]{1,20})", media_type)
    other = named[1].upper() if named else "image"
    return next((kind for start, kind in begins.items() if header.startswith(start)), other)


def _in_words(size: int) -> str:
    if size < _KILO:
        return f"{size} bytes"
    return f"{size / _KILO:.0f} KB" if size < _KILO * _KILO else f"{size / _KILO / _KILO:.1f} MB"
