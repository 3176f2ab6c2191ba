"""Texts in a form that every database takes."""

from __future__ import annotations

import re

_UNSAFE = re.compile(r"[\\\x00\ud800-\udfff]")
_ESCAPED = re.compile(r"\\u([0-9a-f]{4})")


def safe(text: str) -> str:
    """The text in a form that every database takes: no NUL, no lone surrogates. Different texts stay different."""
    return _UNSAFE.sub(lambda m: f"\\u{ord(m.group()):04x}", text)


def unsafe(text: str) -> str:
    """The text that `safe` has escaped."""
    return _ESCAPED.sub(lambda m: chr(int(m.group(1), 16)), text)
