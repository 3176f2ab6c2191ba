"""The agent of the tour: a few tools on a folder of code, and a memory in a file.

    python agent.py FOLDER WINDOW [QUESTION] [--steps N]

Without a question it goes on with what is open. `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `OPENAI_MODEL` name the model.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from openai import OpenAI

from autocontext import AutoContextMemory, loop
from autocontext.errors import AutoContextError
from autocontext.events import CompressionReport


def tools_on(folder: Path) -> list[loop.Tool]:
    """What the agent can do in a folder."""

    def todo() -> str:
        """The modules of shop/ that still have the flat tax rate 1.19."""
        found = [p for p in sorted((folder / "shop").glob("*.py")) if "* 1.19" in p.read_text(encoding="utf-8")]
        return "\n".join(f"shop/{p.name}" for p in found) or "none"

    def read_file(path: str) -> str:
        """The text of a file."""
        return (folder / path).read_text(encoding="utf-8")

    def edit_file(path: str, old: str, new: str) -> str:
        """Replace a text of a file that occurs once."""
        text = (folder / path).read_text(encoding="utf-8")
        if text.count(old) != 1:
            return f"Error: the old text occurs {text.count(old)} times in {path}"
        (folder / path).write_text(text.replace(old, new), encoding="utf-8")
        return f"{path}: 1 replacement"

    def run_tests(path: str) -> str:
        """Run the doctests of a module."""
        command = [sys.executable, "-m", "doctest", path]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        return f"exit code {done.returncode}\n{done.stdout or 'all passed'}"

    return [todo, read_file, edit_file, run_tests]


def main() -> None:
    """Ask the question, or go on."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("window")
    parser.add_argument("question", nargs="?")
    parser.add_argument("--steps", type=int, default=500, help="stop after so many requests to the model")
    asked = parser.parse_args()
    with AutoContextMemory.open(asked.folder / "agent.db", session_id="tax", window=asked.window) as memory:
        memory.on_compression(told)
        if asked.question and memory.open_request is None:  # else a process ended in the middle: go on
            memory.add({"role": "user", "content": asked.question})
        client, model = OpenAI(), os.environ.get("OPENAI_MODEL", "gpt-4.1-mini")
        try:
            print("answer:", loop.run(client, model, memory, tools_on(asked.folder), max_steps=asked.steps))
        except AutoContextError as e:  # so many steps
            print("stopped:", e)
        originals = len(memory.get_original_memory_msgs())
        print(f"{originals} messages, {len(memory)} in the context, {memory.token_count:,} tokens", flush=True)


def told(report: CompressionReport) -> None:
    """One line for a pass that changed something."""
    if report:
        print(f"  pass: {report.tokens_before:,} -> {report.tokens_after:,} tokens", flush=True)


if __name__ == "__main__":
    main()
