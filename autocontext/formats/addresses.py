"""What services refuse as an image, every time that the conversation is sent: local files, and data that is none."""

from __future__ import annotations

import re
from urllib.parse import unquote

_BEGINNINGS = {"iVBORw0KGgo": "png", "/9j/": "jpeg", "R0lGOD": "gif", "UklGR": "webp"}
"""Of images in base64."""
_ADDRESS = re.compile(r"(?!file:)[a-z][\w+.-]+:.", re.IGNORECASE)
"""A drive's letter is no scheme."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_SAMPLE = 1_000


def plain_base64(data: str) -> str:
    """The data of an image without breaks of lines and the escapes of an address."""
    data = unquote(data) if "%" in data else data
    return "".join(data.split()) if any(blank in data for blank in "\n\r \t") else data


def is_base64(data: str) -> bool:
    """Whether a text looks like base64, by both ends: images are long, and written in each request."""
    return _BASE64.fullmatch(data[:_SAMPLE]) is not None and _BASE64.fullmatch(data[-_SAMPLE:]) is not None


def image_address(url: str) -> str:
    """The address of an image as services take it; "" for a local file, and for data that is no base64 of an image.

    Base64 alone gets what stands before it, if it begins as images do.
    """
    url = url.strip()
    kind = next((kind for beginning, kind in _BEGINNINGS.items() if url.startswith(beginning)), "")
    if kind:
        url = f"data:image/{kind};base64,{url}"
    if url[:5].lower() == "data:":
        head, _, data = url.partition(",")
        data = plain_base64(data)
        is_image = head[5:].lower().startswith("image/") and not head[5:].lower().startswith("image/svg")
        return f"{head},{data}" if is_image and head.lower().endswith(";base64") and is_base64(data) else ""
    return url if _ADDRESS.match(url) else ""
