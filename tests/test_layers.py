"""Imports point one way, and the core does no I/O: checked over the syntax tree of every module."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import autocontext

PACKAGE = Path(autocontext.__file__).parent

# Whatever is not named here is core: a new module must earn its place in the shell.
SHELL = {
    "__init__", "__main__", "memory", "journal", "passes", "attempts", "turns", "asking", "tools", "models", "stores",
    "adapters", "cli", "telemetry", "testing", "flows", "context", "content", "cache", "sessions", "memories", "compat",
}  # fmt: skip
# Lowest first; a module imports only from its left. Core modules that stand beside this chain are not ordered.
CHAIN = [
    "messages", "view", "edits", "proposals", "log_entries", "log", "strategies", "engine", "memory", "context",
    "adapters", "cli",
]  # fmt: skip
DOES_IO = {
    "os", "pathlib", "shutil", "tempfile", "glob", "fileinput", "mmap", "io",
    "socket", "ssl", "select", "selectors", "http", "urllib", "ftplib", "smtplib", "socketserver", "xmlrpc",
    "sqlite3", "dbm", "shelve", "subprocess", "multiprocessing", "signal", "pty",
    "asyncio", "threading", "concurrent", "queue", "sched", "contextvars",
    "logging", "syslog", "webbrowser",
}  # fmt: skip
IO_CALLS = {"open", "print", "input", "breakpoint"}
THIRD_PARTY = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions"}
# The vocabularies are data files of this package, read through importlib.resources, unpacked by lzma.
EXTRA_IN = {"tokens": {"tiktoken", "importlib", "lzma"}}
READS_DATA = {"importlib", "lzma"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        yield name.removesuffix(".__init__"), ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(module: str, tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Line, dotted module and name ("" for a whole module) of each import, relative ones resolved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = ["autocontext", *module.split(".")][: -node.level]
                base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, base, alias.name) for alias in node.names)


def own(dotted: str, name: str) -> str:
    """The first-level module of this package that an import reaches; "" for a foreign one or the package itself."""
    parts = dotted.split(".")
    if parts[0] != "autocontext":
        return ""
    if len(parts) > 1:
        return parts[1]
    return name if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists() else ""


def core_violations(module: str, tree: ast.Module) -> Iterator[str]:
    top = module.split(".", maxsplit=1)[0]
    allowed = EXTRA_IN.get(top, set())
    for line, dotted, name in imported(module, tree):
        root = dotted.split(".")[0]
        if root == "autocontext":
            target = own(dotted, name)
            if target in SHELL or not target:
                yield f"{module}:{line}: the core imports {dotted}.{name} of the shell"
        elif root in (DOES_IO | READS_DATA) - allowed:
            yield f"{module}:{line}: the core imports {dotted}, which does I/O"
        elif root not in stdlib() | THIRD_PARTY | allowed:
            yield f"{module}:{line}: the core imports {dotted}, which is no core dependency"
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"{module}:{node.lineno}: the core is not asynchronous"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IO_CALLS:
            yield f"{module}:{node.lineno}: the core calls {node.func.id}()"


def order_violations(module: str, tree: ast.Module) -> Iterator[str]:
    top = module.split(".", maxsplit=1)[0]
    for line, dotted, name in imported(module, tree):
        target = own(dotted, name)
        if target in ("adapters", "cli") and top not in (target, "cli", "__main__"):
            yield f"{module}:{line}: only the command line may import {target}"
        if top in CHAIN and target in CHAIN and CHAIN.index(target) > CHAIN.index(top):
            yield f"{module}:{line}: {top} imports {target}, which stands above it"


def private_violations(module: str, tree: ast.Module) -> Iterator[str]:
    """What adapters and the command line take from other parts must be public, as for any user."""
    top = module.split(".", maxsplit=1)[0]
    for line, dotted, name in imported(module, tree):
        if own(dotted, name) in ("", top):
            continue
        if any(part.startswith("_") for part in [*dotted.split("."), name]):
            yield f"{module}:{line}: {dotted}.{name} is not public"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not mine:
                yield f"{module}:{node.lineno}: .{node.attr} is not public"


def stdlib() -> frozenset[str]:
    import sys

    return sys.stdlib_module_names


def violations(module: str, tree: ast.Module) -> list[str]:
    top = module.split(".", maxsplit=1)[0]
    found = list(order_violations(module, tree))
    if top not in SHELL:
        found += core_violations(module, tree)
    if top in ("adapters", "cli"):
        found += private_violations(module, tree)
    return found


def test_the_package_keeps_its_layers() -> None:
    seen = dict(modules())
    assert {"messages", "config", "errors"} <= seen.keys()
    assert [v for module, tree in seen.items() for v in violations(module, tree)] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("edits", "import asyncio"),
        ("log", "from pathlib import Path"),
        ("engine", "async def compress(): pass"),
        ("engine", "from autocontext.memory import AutoContextMemory"),
        ("engine", "from autocontext import Msg"),
        ("engine", "from . import memory"),
        ("strategies.rounds", "from ..models import extractive"),
        ("strategies.rounds", "def f():\n    import openai"),
        ("rendering", "print('hello')"),
        ("rendering", "import lzma"),
        ("tokens.vocabulary", "import urllib.request"),
        ("messages", "from autocontext.view import View"),
        ("edits", "from autocontext.log import Log"),
        ("strategies", "from autocontext.engine import compress"),
        ("memory", "from autocontext.adapters import openai_chat"),
        ("models.openai", "import autocontext.cli"),
        ("adapters.openai_chat", "from autocontext.messages import _freeze_object"),
        ("cli.demo", "def f(memory): return memory._log"),
    ],
)
def test_each_rule_finds_its_violation(module: str, source: str) -> None:
    assert violations(module, ast.parse(source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tokens.vocabulary", "import lzma\nfrom importlib import resources\ndef f():\n    import tiktoken"),
        ("memory", "import asyncio\nfrom autocontext.engine import compress"),
        ("__main__", "from autocontext.cli import main"),
        ("cli.demo", "from autocontext.adapters.openai_chat import from_openai"),
        ("adapters.openai_chat", "from autocontext.messages import Msg\nclass A:\n    def f(self): return self._x"),
    ],
)
def test_what_is_allowed_is_not_a_violation(module: str, source: str) -> None:
    assert violations(module, ast.parse(source)) == []
