"""Runs a worker of these tests under a library of C that stands between it and the system (LD_PRELOAD)."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_HUNG = 900
"""Seconds after which a worker counts as hung."""


@functools.cache
def compiled(name: str) -> Path:
    """The library made of `name`.c. Skips the test where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip(f"needs a C compiler (gcc): what {name}.c breaks was NOT tested")
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Path(folder, f"{name}.so")
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Werror",
        "-o",
        made,
        HERE / f"{name}.c",
        "-ldl",
        "-pthread",
    ]
    subprocess.run([str(part) for part in command], check=True)
    return made


def run(library: str, module: str, *arguments: object, **environment: object) -> str:
    """What `python -m tests.faults.MODULE ARGUMENTS` prints under the library. Fails with what it says if it fails."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"tests.faults.{module}", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"LD_PRELOAD": str(compiled(library))} | {k: str(v) for k, v in environment.items()},
        capture_output=True,
        text=True,
        check=False,
        timeout=_HUNG,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
