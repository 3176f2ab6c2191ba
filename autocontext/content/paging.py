"""Pages: how a text is divided into rows, and which characters a request gets."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from autocontext.content.records import Page
from autocontext.errors import StoreCorruptError
from autocontext.text.rendering import cut

PAGE_CHARS = 16 * 1024
"""Characters of a row: a read of 10,000 touches two rows at most."""
_LEVEL = 4
"""zlib's: three times as fast as its default on tool output, and within a tenth of its size."""
_AROUND = 64
"""Characters to read on either side of a request, so that combined characters are not split."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A content as it is stored."""

    text: str
    sha256: str
    encoding: Literal["utf-8", "base64"]
    size: int
    """Bytes of the payload."""

    def pages(self) -> list[bytes]:
        """The compressed rows, in order; one empty row for an empty content."""
        parts = (self.text[at : at + PAGE_CHARS] for at in range(0, len(self.text) or 1, PAGE_CHARS))
        return [zlib.compress(part.encode("utf-8", "surrogatepass"), _LEVEL) for part in parts]


def packed(content: str | bytes) -> Packed:
    """The content with its hash. Bytes that are UTF-8 are the same content as their text."""
    if isinstance(content, str):
        raw = content.encode("utf-8", "surrogatepass")
        return Packed(content, hashlib.sha256(raw).hexdigest(), "utf-8", len(raw))
    if not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"content is a {type(content).__name__}; put takes str or bytes, e.g. json.dumps(value)")
    raw = bytes(content)
    digest = hashlib.sha256(raw).hexdigest()
    try:
        return Packed(raw.decode("utf-8"), digest, "utf-8", len(raw))
    except UnicodeDecodeError:
        return Packed(base64.b64encode(raw).decode("ascii"), digest, "base64", len(raw))


def last_page(chars: int) -> int:
    """The number of the last page of a text with so many characters; an empty one has page 0."""
    return max(0, chars - 1) // PAGE_CHARS


def payload(text: str, encoding: str) -> bytes:
    """The bytes that were stored, from their text."""
    return base64.b64decode(text) if encoding == "base64" else text.encode("utf-8", "surrogatepass")


def unpack(ref: str, rows: Iterable[bytes]) -> str:
    """The text of consecutive pages. Raises StoreCorruptError when one cannot be read back."""
    try:
        return "".join(zlib.decompress(row).decode("utf-8", "surrogatepass") for row in rows)
    except (zlib.error, UnicodeDecodeError) as e:
        raise StoreCorruptError(f"content {ref}: a page cannot be read back ({e}); delete it, then put it again") from e


@dataclass(frozen=True, slots=True)
class Window:
    """The characters [start, stop) of a request, and the pages to read for them."""

    start: int
    stop: int
    total: int
    first: int
    """The first page to read."""
    last: int
    """The last page to read; smaller than `first` when there is nothing to read."""
    notice: str

    def page(self, ref: str, text: str) -> Page:
        """The answer, from the text of the rows first to last."""
        base = self.first * PAGE_CHARS
        start, stop, notice = self.start, self.stop, self.notice
        if start < stop and _halves_pair(text, start - base):
            start -= 1
            notice = _joined(notice, "offset moved back by one, it stood inside a surrogate pair")
        if start < stop < self.total:
            stop = start + cut(text[start - base : stop - base + 1], stop - start)
            if _halves_pair(text, stop - base):
                stop += 1 if stop - start == 1 else -1
        more = stop < self.total
        return Page(
            ref, text[start - base : stop - base], start, stop, self.total, more, stop if more else None, notice
        )


def window(total: int, offset: int, limit: int | None) -> Window:
    """The window of a request for `limit` characters (None: all) from `offset` on, clamped to the content."""
    notice = ""
    if offset < 0:
        notice = f"offset {offset} is before the beginning, 0 was taken"
    elif offset > total:
        notice = f"offset {offset} is past the end at {total}"
    if limit is not None and limit < 1:  # a page of nothing would lead to itself
        notice, limit = _joined(notice, f"limit {limit} is less than 1, 1 was taken"), 1
    start = min(max(0, offset), total)
    stop = total if limit is None else min(total, start + limit)
    if start >= stop:
        return Window(start, start, total, 0, -1, notice)
    first, last = max(0, start - 1) // PAGE_CHARS, (min(total, stop + _AROUND) - 1) // PAGE_CHARS
    return Window(start, stop, total, first, last, notice)


def _halves_pair(text: str, place: int) -> bool:
    return 0 < place < len(text) and "\ud800" <= text[place - 1] <= "\udbff" and "\udc00" <= text[place] <= "\udfff"


def _joined(*notices: str) -> str:
    return "; ".join(filter(None, notices))
