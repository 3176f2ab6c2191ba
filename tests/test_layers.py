"""Imports point one way and never in a circle, and the core does no I/O: checked over every module's syntax tree."""

import ast
import functools
import sys
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import autocontext

pytestmark = pytest.mark.repo

PACKAGE = Path(autocontext.__file__).parent

# Rooms (folders) and the modules at the door, lowest first: what a module imports stands to its left, or in its room.
LAYERS = [
    "_version", "caches", "redaction", "errors", "messages", "requests", "events", "prompts", "prices", "config",
    "plan", "flows", "text", "tokens", "formats", "ranking", "history", "notes", "strategies", "models",
    "compression", "stores", "content", "cache", "memories", "tools", "steering", "memory", "loop", "testing",
    "optimizer", "sessions", "compat", "suite", "__init__", "adapters", "cli", "__main__",
]  # fmt: skip
# Module and layer of each import that points to the right all the same, with the reason. Nothing else may be here.
UPWARD = {
    # `autocontext.stores.import_agentscope_java` is public and gives a memory; it is imported when it is called.
    ("stores.agentscope_java", "memory"),
}
# These rooms, doors and modules do no I/O. Of `compression` the drivers of a pass do, of `cache` all but its keys.
CORE = {
    "_version", "caches", "redaction", "errors", "messages", "requests", "events", "prompts", "prices", "config",
    "plan", "tokens", "text", "ranking", "history", "notes", "strategies", "compression",
    "cache.canonical", "cache.canonical_numbers",
}  # fmt: skip
DRIVERS = {
    "compression.runner", "compression.pass_run", "compression.lock", "compression.asking", "compression.loading",
    "compression.telemetry",
}  # fmt: skip
DOES_IO = {
    "os", "pathlib", "shutil", "tempfile", "glob", "fileinput", "mmap", "io",
    "socket", "ssl", "select", "selectors", "http", "urllib", "ftplib", "smtplib", "socketserver", "xmlrpc",
    "sqlite3", "dbm", "shelve", "subprocess", "multiprocessing", "signal", "pty",
    "asyncio", "threading", "concurrent", "queue", "sched", "contextvars",
    "logging", "syslog", "webbrowser",
}  # fmt: skip
PURE = {"pathlib.PurePath"}
IO_CALLS = {"open", "print", "input", "breakpoint"}
THIRD_PARTY = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions"}
# The vocabularies are data files of this package, read through importlib.resources, unpacked by lzma. The builder of a
# configuration says in the log what AgentScope-Java's names are here; it has no driver that could.
EXTRA_IN = {"tokens": {"tiktoken", "importlib", "lzma"}, "text": {"regex"}, "config": {"logging"}}
READS_DATA = {"importlib", "lzma"}


class Import(NamedTuple):
    """One imported module, or one name of it ("" for the whole module)."""

    line: int
    dotted: str
    name: str
    runs: bool
    """Whether it is ever executed: what stands under `if TYPE_CHECKING` is not."""

    @property
    def root(self) -> str:
        return self.dotted.split(".")[0]

    @property
    def module(self) -> str:
        """The module of this package that is reached, without "autocontext."; "" for a foreign one."""
        if self.root != "autocontext":
            return ""
        whole = f"{self.dotted}.{self.name}".removeprefix("autocontext.").rstrip(".")
        if self.name and exists(whole):
            return whole
        return self.dotted.removeprefix("autocontext").lstrip(".") or "__init__"

    def __str__(self) -> str:
        return f"{self.dotted}.{self.name}".rstrip(".")


def exists(module: str) -> bool:
    path = PACKAGE.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def layer(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found.append((name.removesuffix(".__init__"), ast.parse(path.read_text(encoding="utf-8"), str(path))))
    return found


def is_package(module: str) -> bool:
    return module == "__init__" or PACKAGE.joinpath(*module.split(".")).is_dir()


def imported(module: str, tree: ast.Module) -> Iterator[Import]:
    """Every import of a module, also those inside functions; relative ones resolved."""
    only_types: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            only_types.update(inner for statement in node.body for inner in ast.walk(statement))
        runs = node not in only_types
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name, "", runs) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = [part for part in module.split(".") if part != "__init__"]
                above = ["autocontext", *(package if is_package(module) else package[:-1])]
                above = above[: len(above) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (Import(node.lineno, base, alias.name, runs) for alias in node.names)


def is_core(module: str) -> bool:
    return module not in DRIVERS and (module in CORE or layer(module) in CORE)


def order_violations(module: str, tree: ast.Module) -> Iterator[str]:
    own = layer(module)
    for target_module in imported(module, tree):
        target = layer(target_module.module)
        if target and target != own and LAYERS.index(target) > LAYERS.index(own) and (module, target) not in UPWARD:
            yield f"{module}:{target_module.line}: {own} imports {target_module}, which stands above it"


def core_violations(module: str, tree: ast.Module) -> Iterator[str]:
    allowed = EXTRA_IN.get(layer(module), set())
    for target_module in imported(module, tree):
        if target_module.module:
            if not is_core(target_module.module):
                yield f"{module}:{target_module.line}: the core imports {target_module} of the shell"
        elif target_module.root in (DOES_IO | READS_DATA) - allowed and str(target_module) not in PURE:
            yield f"{module}:{target_module.line}: the core imports {target_module}, which does I/O"
        elif target_module.root not in sys.stdlib_module_names | THIRD_PARTY | allowed:
            yield f"{module}:{target_module.line}: the core imports {target_module}, which is no core dependency"
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"{module}:{node.lineno}: the core is not asynchronous"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IO_CALLS:
            yield f"{module}:{node.lineno}: the core calls {node.func.id}()"


def private_violations(module: str, tree: ast.Module) -> Iterator[str]:
    """What adapters and the command line take from other parts must be public, as for any user."""
    for target_module in imported(module, tree):
        if layer(target_module.module) in ("", "__init__", layer(module)):
            continue
        if any(part.startswith("_") for part in str(target_module).split(".")):
            yield f"{module}:{target_module.line}: {target_module} is not public"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not mine:
                yield f"{module}:{node.lineno}: .{node.attr} is not public"


def violations(module: str, tree: ast.Module) -> list[str]:
    violations = list(order_violations(module, tree))
    if is_core(module):
        violations += core_violations(module, tree)
    if layer(module) in ("adapters", "cli"):
        violations += private_violations(module, tree)
    return violations


def circle(trees: Iterable[tuple[str, ast.Module]]) -> list[str]:
    """The modules of a circle of imports, those inside functions included; [] when there is none."""
    graph = {
        module: {i.module for i in imported(module, tree) if i.runs and i.module not in ("", module)}
        for module, tree in trees
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as e:
        return list(e.args[1])
    return []


def test_every_room_and_door_has_its_layer() -> None:
    assert sorted({layer(module) for module, _ in modules()}) == sorted(LAYERS)


def test_the_package_keeps_its_layers() -> None:
    assert [v for module, tree in modules() for v in violations(module, tree)] == []


def test_no_imports_run_in_a_circle() -> None:
    assert circle(modules()) == []


def test_what_is_allowed_to_point_up_still_does() -> None:
    pairs = {(module, layer(i.module)) for module, tree in modules() for i in imported(module, tree)}
    assert pairs >= UPWARD


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("history.edits", "import asyncio"),
        ("history.log", "from pathlib import Path"),
        ("compression.engine", "async def compress(): pass"),
        ("compression.engine", "from autocontext.compression.runner import Passes"),
        ("compression.engine", "from autocontext.memory import AutoContextMemory"),
        ("compression.engine", "from autocontext import Msg"),
        ("compression.engine", "from .. import memory"),
        ("compression.engine", "from ..compression import runner"),
        ("strategies.rounds", "from ..models import extractive"),
        ("strategies.rounds", "def f():\n    import openai"),
        ("text.rendering", "print('hello')"),
        ("text.rendering", "import lzma"),
        ("tokens.vocabulary", "import urllib.request"),
        ("messages", "from autocontext.history.view import View"),
        ("text.rendering", "from autocontext.history.log import Log"),
        ("cache.canonical", "from autocontext.stores.database import Database"),
        ("strategies", "from autocontext.compression.engine import compress"),
        ("strategies.fold", "if TYPE_CHECKING:\n    from autocontext.compression.limits import Target"),
        ("compression.telemetry", "def f():\n    from autocontext import __version__"),
        ("stores.database", "def f():\n    from autocontext.memory import AutoContextMemory"),
        ("memory", "from autocontext.adapters import openai_chat"),
        ("models.openai", "import autocontext.cli"),
        ("adapters.langchain", "from autocontext.messages import _freeze_object"),
        ("cli.demo", "def f(memory): return memory._log"),
    ],
)
def test_each_rule_finds_its_violation(module: str, source: str) -> None:
    assert violations(module, ast.parse(source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tokens.vocabulary", "import lzma\nfrom importlib import resources\ndef f():\n    import tiktoken"),
        ("memory", "import asyncio\nfrom autocontext.compression.engine import compress"),
        ("compression.runner", "import asyncio"),
        ("cache.rows", "import sqlite3"),
        ("__main__", "from autocontext.cli import main"),
        ("cli.demo", "from autocontext.adapters.openai_chat import from_openai"),
        ("adapters.langchain", "from autocontext.messages import Msg\nclass A:\n    def f(self): return self._x"),
    ],
)
def test_what_is_allowed_is_not_a_violation(module: str, source: str) -> None:
    assert violations(module, ast.parse(source)) == []


@pytest.mark.parametrize(
    ("sources", "circular"),
    [
        (
            {"notes.work": "def f():\n    from autocontext.notes.pages import Page", "notes.pages": "import math"},
            False,
        ),
        (
            {"history.log": "from autocontext.history import view", "history.view": "import autocontext.history.log"},
            True,
        ),
        (
            {"notes.work": "def f():\n    from .pages import Page", "notes.pages": "from .work import WorkLedger"},
            True,
        ),
        (
            {"notes.work": "from .pages import Page", "notes.pages": "if TYPE_CHECKING:\n    from .work import X"},
            False,
        ),
    ],
)
def test_a_circle_is_found(sources: dict[str, str], circular: bool) -> None:
    assert bool(circle((module, ast.parse(source)) for module, source in sources.items())) == circular
