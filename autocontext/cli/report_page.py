"""The page of a report: `data/report.html` with its style, its script and the session's data put in.

The data stands in it as JSON in which nothing can end the element around it; the script shows every text as a text
node, and the page's own policy (Content-Security-Policy) lets no other script run and nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any


def written(values: Mapping[str, Any]) -> str:
    """The page with these data."""
    folder = resources.files("autocontext.cli").joinpath("data")
    template, css, js = (folder.joinpath(f"report.{end}").read_text("utf-8") for end in ("html", "css", "js"))
    parts = {
        "title": html.escape(f"autocontext: session {values['session']}".encode("utf-8", "replace").decode()),
        "css": css,
        "css_hash": _hash(css),
        "js": js,
        "js_hash": _hash(js),
        "data": embedded(values),
    }
    # In one go over the template: what is put in is never looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def embedded(value: Any) -> str:
    """JSON that may stand inside a script element: no sign that HTML or JavaScript takes for more than text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _NOT_PLAIN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


_NOT_PLAIN = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
