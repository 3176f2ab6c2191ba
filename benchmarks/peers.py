"""Environments with other libraries and this one; the library's own environment never has them.

`.venv-adapters/main` is used when it is there (scripts/adapter_environments.sh makes it); otherwise an environment is
made in `.venv-bench/NAME`, and renewed when its versions are older than what is asked for, which needs the package
index and is asked for on a terminal. `AUTOCONTEXT_BENCH_PEERS` answers beforehand: `yes` installs, `no` leaves all
peers out. Without an answer, and with an index out of reach, the benchmarks say so and go on without the peers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = {
    "frameworks": (
        "langchain>=1.5.2,<2",
        "agentscope>=2.0.11,<3",
        "agent-framework-core>=1.23,<2",
        "openai-agents>=0.24",
    ),
    "agentscope1": ("agentscope==1.0.21",),
    "storage": (
        "openai-agents>=0.24",
        "langgraph",
        "langgraph-checkpoint-sqlite",
        "langgraph-checkpoint-postgres",
        "psycopg[binary]",
    ),
    "rankers": ("scikit-learn", "bm25s", "PyStemmer"),
    "diskcache": ("diskcache==5.6.3",),
    "sizes": (
        "openai-agents>=0.24",
        "langgraph",
        "langgraph-checkpoint-sqlite",
        "langgraph-checkpoint-postgres",
        "psycopg[binary]",
        "mem0ai>=2.2",
        "faiss-cpu",
        "diskcache==5.6.3",
    ),
}
_NEEDED = {"agentscope1": ("mcp<2", "openai<3", "greenlet", "tqdm")}
"""As published, agentscope 1.0.21 needs older mcp and openai, and two packages that it does not name."""
_PRESENT = {
    "frameworks": ".venv-adapters/main",
    "storage": ".venv-adapters/main",
    "agentscope1": ".venv-adapters/agentscope1",
}
_NAMES = """
import importlib.metadata as m, sys
for name in sys.argv[1:]: print(name, m.version(name))
import autocontext
"""
_COMPLETE = """
import importlib.metadata as m, sys
from pip._vendor.packaging.requirements import Requirement
import autocontext
for each in map(Requirement, sys.argv[1:]): assert each.specifier.contains(m.version(each.name), prereleases=True), each
"""


def packages(environment: str) -> list[str]:
    """The distributions of an environment, without their versions."""
    return [re.split(r"[\[<>=!~;]", requirement, maxsplit=1)[0] for requirement in ENVIRONMENTS[environment]]


def here(environment: str) -> bool:
    """Whether this interpreter has all of an environment's packages, in the major versions that are meant."""
    try:
        versions = {name: version(name) for name in packages(environment)}
    except PackageNotFoundError:
        return False
    major = {"agentscope1": "1.", "frameworks": "2."}.get(environment, "")
    return versions.get("agentscope", major).startswith(major)


def _answer() -> str:
    return os.environ.get("AUTOCONTEXT_BENCH_PEERS", "ask").lower()


def enabled() -> bool:
    """Whether peers may be used at all."""
    return _answer() not in ("no", "0", "")


def _may_install(environment: str) -> bool:
    """Whether packages may be installed into an environment of their own: the variable's answer, else the user's."""
    if _answer() != "ask":
        return True
    what = f"{', '.join(packages(environment))} into .venv-bench/{environment}"
    if not sys.stdin.isatty():
        print(
            f"{environment}: the peers are left out; AUTOCONTEXT_BENCH_PEERS=yes installs {what}",
            file=sys.stderr,
            flush=True,
        )
        return False
    print(f"Install {what} to compare with them? [y/N/all] ", end="", file=sys.stderr, flush=True)
    typed = sys.stdin.readline().strip().lower()
    if typed == "all":
        os.environ["AUTOCONTEXT_BENCH_PEERS"] = "yes"
    return typed in ("y", "yes", "all")


@cache
def python_with(environment: str) -> str:
    """An interpreter that has an environment's packages and this library; "" when there can be none."""
    if not enabled():
        return ""
    if here(environment):
        return sys.executable
    for home in (_PRESENT.get(environment), f".venv-bench/{environment}"):
        python = ROOT / home / "bin" / "python" if home else None
        if python is not None and python.exists() and _complete(python, environment):
            return str(python)
    return _make(ROOT / ".venv-bench" / environment, environment) if _may_install(environment) else ""


def _complete(python: Path, environment: str) -> bool:
    """Whether an environment has what is asked for: a library measured in an old version would be wronged."""
    command = [python, "-c", _COMPLETE, *ENVIRONMENTS[environment]]
    return subprocess.run(command, capture_output=True, check=False, cwd=ROOT).returncode == 0


def _make(home: Path, environment: str) -> str:
    print(f"{environment}: making {home.relative_to(ROOT)} ...", file=sys.stderr, flush=True)
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    install = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "-e",
        f"{ROOT}[openai]",
    ]  # for --model
    done = subprocess.run(
        [*install, *ENVIRONMENTS[environment], *_NEEDED.get(environment, ())], check=False, stdout=sys.stderr
    )
    if done.returncode:
        print(f"{environment}: the peers are left out, their packages cannot be installed", file=sys.stderr)
        return ""
    return str(python)


def rows_from(environment: str, script: str, arguments: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The rows of a benchmark that is run with an environment's interpreter; [] when there is none."""
    python = python_with(environment)
    if not python:
        return []
    command = [python, str(ROOT / "benchmarks" / script), "--json", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    if not done.stdout.strip():
        raise SystemExit(f"{script} printed nothing with {python}")
    rows: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("{\n") :])["rows"]
    return rows


def versions(environment: str) -> str:
    """The versions of an environment's packages, for the line under a table."""
    python = python_with(environment)
    if not python:
        return ""
    done = subprocess.run(
        [python, "-c", _NAMES, *packages(environment)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return ", ".join(done.stdout.split("\n")).strip(", ")


def again_with(environment: str) -> None:
    """Run this very benchmark with an environment's interpreter and exit as it does; go on here when there is none."""
    if not here(environment) and (python := python_with(environment)):
        sys.exit(subprocess.run([python, *sys.argv], check=False, cwd=ROOT).returncode)
