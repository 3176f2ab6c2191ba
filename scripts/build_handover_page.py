"""Writes the note on docs/handover.md: what the first Python block prints.

Usage: `python scripts/build_handover_page.py` fills it in. `--check` exits with 1 when the page shows anything else.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
from pathlib import Path

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.adapters.openai_chat import from_openai
from autocontext.cli.show import before_last_reply
from autocontext.messages import is_note
from autocontext.text.rendering import NOTE_MARKS, untagged

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "handover.md"
_FIRST = re.compile(r"^(```python\n(.*?)^```\n\n```text\n).*?^```$", re.DOTALL | re.MULTILINE)


def conversation(file: str, id_: str) -> list[Msg]:
    """A conversation of a file of JSON lines."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    records = (json.loads(line) for line in lines)
    return from_openai(next(record["messages"] for record in records if record["id"] == id_))


def notes(messages: list[Msg], window: int) -> str:
    """The notes in the context before the last reply, without their marks and tags."""
    memory = AutoContextMemory(AutoContextConfig.for_window(window, token_counter="bytes4"))  # noqa: S106 (a counter of bytes)
    notes = [m for m in before_last_reply(memory, messages) if is_note(m)]
    texts = [untagged(m.text).splitlines() for m in notes]
    return "\n".join(line for lines in texts for line in lines if line not in NOTE_MARKS)


def built(page: str) -> str:
    """The page with its note as it is now."""
    return _FIRST.sub(lambda m: f"{m[1]}{printed(m[2])}```", page, count=1)


def printed(code: str) -> str:
    """What a block prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})  # noqa: S102 (running the page is the purpose)
    return out.getvalue()


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description="Fill in the note of docs/handover.md.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    new = built(page)
    if options.check:
        if new != page:
            sys.stderr.write(f"{PAGE}: shows notes of another version; run scripts/build_handover_page.py\n")
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
