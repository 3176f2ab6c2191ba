"""Takes the pictures of docs/pictures that show the product at work: the demo's output, a report, that of the tour.

Usage: `python scripts/take_pictures.py [--to FOLDER]`, after changes to what they show; look at them before you commit.
Needs the extras `cli` and `openai`, and Chromium. scripts/draw_rooms.py draws the picture of the rooms.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from autocontext import AutoContextMemory
from autocontext.cli import demo, report
from autocontext.cli.conversations import shipped
from autocontext.cli.screen import RichScreen, Screen

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
WINDOW, SESSION, USER = 16_000, "42", "ann"
_WIDTH = 96
_FONTS = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)


def demo_picture(file: Path) -> None:
    """The demo as it looks on a terminal; no font is loaded from elsewhere."""
    with open("/dev/null", "w", encoding="utf-8") as nowhere:  # noqa: PTH123 (the console only records)
        console = Console(record=True, width=_WIDTH, file=nowhere, force_terminal=True, highlight=False)
        demo.run(RichScreen(console, width=_WIDTH, unicode=True), argparse.Namespace(window=WINDOW))
    svg = console.export_svg(title="autocontext demo", code_format=_FONTS.sub("", CONSOLE_SVG_FORMAT), unique_id="demo")
    file.write_text(svg, encoding="utf-8")


def report_picture(file: Path) -> None:
    """The first screen of a report."""
    with tempfile.TemporaryDirectory() as folder:
        db, page = f"{folder}/agent.db", f"{folder}/report.html"
        with AutoContextMemory.open(db, session_id=SESSION, user_id=USER, window=WINDOW) as memory:
            for msg in shipped().messages[:300]:
                if msg.role == "assistant":
                    memory.get_messages()
                memory.add_message(msg)
        arguments = argparse.Namespace(db=db, session=SESSION, user=USER, window=WINDOW, output=page, secrets=False)
        report.run(Screen(width=_WIDTH, unicode=True), arguments)
        _screenshot(page, file)


def tour_picture(file: Path) -> None:
    """The first screen of the report on the tour."""
    with tempfile.TemporaryDirectory() as folder:
        tour = [sys.executable, str(ROOT / "examples" / "tour" / "tour.py"), folder]
        subprocess.run(tour, check=True, capture_output=True)  # noqa: S603
        _screenshot(f"{folder}/train/report.html", file)


def _screenshot(page: str, file: Path) -> None:
    browser = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1200,1000"]
    subprocess.run([*browser, f"--screenshot={file}", f"file://{page}"], check=True, capture_output=True)  # noqa: S603


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Take the pictures of the demo, a report and the tour.")
    parser.add_argument("--to", type=Path, default=PICTURES, metavar="FOLDER")
    to = parser.parse_args().to
    to.mkdir(parents=True, exist_ok=True)
    demo_picture(to / "demo.svg")
    report_picture(to / "report.png")
    tour_picture(to / "tour.png")
