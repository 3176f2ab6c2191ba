"""How many functions and files of the library one pass, one reload, one stored message and one cache hit run through.

A small number means that somebody who has to change one of these can read it. Run from a clone:
`python scripts/count_calls.py`, with `--list` for the names.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import autocontext
from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.cache import ResultCache
from autocontext.stores import SqliteSessionStore
from autocontext.testing import tool_exchange, user
from autocontext.tools import ContextOffloadTool

PACKAGE = str(Path(autocontext.__file__).parent)


def calls(action: Callable[[], object]) -> set[tuple[str, str]]:
    """The file and qualified name of each function of the library that `action` runs through."""
    codes: set[CodeType] = set()

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    sys.setprofile(record)
    try:
        action()
    finally:
        sys.setprofile(None)
    inside = [code for code in codes if code.co_filename.startswith(PACKAGE)]
    # A class body or a comprehension is no function that somebody reads by itself.
    return {
        (code.co_filename.removeprefix(PACKAGE + "/"), code.co_qualname)
        for code in inside
        if not code.co_name.startswith("<")
    }


def filled(memory: AutoContextMemory) -> AutoContextMemory:
    """The memory with a conversation that its next reading compresses."""
    memory.add_message(user("Collect the regular expressions of this project in one module."))
    for number in range(40):
        text = "".join(f"{line}: pattern_{line} = re.compile('a{line}')\n" for line in range(20))
        memory.add_messages(tool_exchange("read_file", {"path": f"src/part_{number}.py"}, text))
    return memory


def operations(folder: Path) -> dict[str, Callable[[], object]]:
    """What is measured. Each has run once before, so that nothing is imported or compiled for the first time."""
    config = AutoContextConfig.for_window(4_000)
    memory = filled(AutoContextMemory(config))
    memory.get_messages()
    stored = AutoContextMemory(config, store=SqliteSessionStore(str(folder / "sessions.db")), session_id="one")
    stored.add_message(user("Hello."))
    cache = ResultCache(str(folder / "cache.db"), namespace="one")
    cache.get_or_compute("lookup", {"city": "Lyon"}, lambda city: {"city": city})
    fresh = filled(AutoContextMemory(config))
    tool = ContextOffloadTool(memory)
    tool("m3")
    return {
        "a pass": fresh.get_messages,
        "a reload": lambda: tool("m3"),
        "a stored message": lambda: stored.add_message(user("And now?")),
        "a cache hit": lambda: cache.get_or_compute("lookup", {"city": "Lyon"}, lambda city: {"city": city}),
    }


def import_milliseconds() -> float:
    """Milliseconds that `import autocontext` adds to the start of Python, the best of five."""
    command = "import time; t = time.perf_counter(); import autocontext; print(time.perf_counter() - t)"
    times = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)  # noqa: S603
        times.append(float(done.stdout))
    return min(times) * 1_000


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the functions")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, action in operations(Path(folder)).items():
            reached = calls(action)
            print(f"{name:18} {len(reached):4} functions in {len({file for file, _ in reached}):3} files")
            if options.list:
                print(*(f"  {file}: {function}" for file, function in sorted(reached)), sep="\n")
    print(f"{'import':18} {import_milliseconds():4.0f} ms")


if __name__ == "__main__":
    main()
