"""Every public coroutine of this library, each as a call that a test can make, and what calls there are."""

import importlib
import inspect
import pkgutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize

import autocontext
from autocontext import AutoContextMemory
from autocontext.content.file_tool import FileContentTool
from autocontext.content.objects import ObjectContentStore
from autocontext.content.pruning import aprune_messages
from autocontext.formats.refusals import asent
from autocontext.memories import MemoryInjector
from autocontext.models import ExtractiveModel
from autocontext.models.callable import CallableModel
from autocontext.optimizer.states import StateStore
from autocontext.requests import ModelRequest
from autocontext.sessions import SessionState, StateOptimizer
from autocontext.stores import InMemorySessionStore, SessionKey
from autocontext.stores.sqlite_database import SqliteDatabase
from autocontext.suite import AutoContext
from autocontext.testing import ScriptedModel, tool_call, user
from tests.faults.script import CONFIG, MESSAGES

ANN = "ann"
QUESTION = ModelRequest(system="Be short.", prompt="It rains.\n" * 20, purpose="fold")


class WatchedDatabase(SqliteDatabase):
    """Notes the work that is done in the thread of the event loop that is watched."""

    loop_thread: int | None = None

    def __init__(self, path: Path) -> None:
        self.in_loop: list[str] = []
        super().__init__(path)

    def _watch(self, work: Any) -> None:
        if threading.get_ident() == self.loop_thread:
            self.in_loop.append(str(work))

    def read(self, work: Any) -> Any:
        self._watch(work)
        return super().read(work)

    def write(self, work: Any) -> Any:
        self._watch(work)
        return super().write(work)


class Desk:
    """All parts on one database, in the middle of a conversation that is over its threshold."""

    def __init__(self) -> None:
        folder = TemporaryDirectory()
        self.folder = Path(folder.name)
        self.database = WatchedDatabase(self.folder / "desk.db")
        self._end = finalize(self, _closed, self.database, folder)
        config = CONFIG.model_copy(update={"show_status": True, "steering": True})
        self.context = AutoContext(self.database, model=ScriptedModel("In short."), config=config)
        self.session = self.context.session("desk", user_id=ANN)
        self.memory = self.session.memory
        self.memory.add_messages([*MESSAGES[:26], tool_call("read_file", {"path": "a.py"}, id="open")])
        self.key = self.memory.session
        self.ref = self.context.content.put("A long text. " * 50, key="notes.txt").ref
        self.state = SessionState("desk", ANN, MESSAGES[:12], user_input="What now?")
        self.objects = ObjectContentStore("memory://")
        self.objects.put("Another text.", key="notes.txt")
        self.in_memory = InMemorySessionStore()
        other = AutoContextMemory(CONFIG, store=self.in_memory, session_id="desk", user_id=ANN)
        other.add_messages(MESSAGES[:4])

    @property
    def memories(self) -> Any:
        """As a program has it that was started anew: opened at its first use."""
        return self.context.memories

    def close(self) -> None:
        self._end()

    def tool(self, name: str) -> Any:
        return next(tool for tool in self.session.tools() if tool.name == name)


def _closed(database: SqliteDatabase, folder: TemporaryDirectory[str]) -> None:
    database.close()
    folder.cleanup()


Call = Callable[[Desk], Coroutine[Any, Any, Any]]


def _tool(text: str) -> str:
    return text * 100


async def _atool(text: str) -> str:
    return text * 100


def _sessions(of: Callable[[Desk], Any]) -> dict[str, Call]:
    return {
        "aappend": lambda d: of(d).aappend(SessionKey(ANN, "new"), list(d.memory._log.entries[:2]), after=0),
        "aread": lambda d: of(d).aread(d.key),
        "asessions": lambda d: of(d).asessions(ANN),
        "adelete": lambda d: of(d).adelete(d.key),
        "asearch": lambda d: of(d).asearch("module", user_id=ANN),
        "aerase": lambda d: of(d).aerase(d.key, [MESSAGES[0].id]),
        "aclose": lambda d: of(d).aclose(),
    }


def _contents(of: Callable[[Desk], Any]) -> dict[str, Call]:
    return {
        "aput": lambda d: of(d).aput("Some text. " * 200, key="other.txt"),
        "aread": lambda d: of(d).aread("notes.txt"),
        "aread_bytes": lambda d: of(d).aread_bytes("notes.txt"),
        "ainfo": lambda d: of(d).ainfo("notes.txt"),
        "ahas": lambda d: of(d).ahas("notes.txt"),
        "asummary": lambda d: of(d).asummary("notes.txt"),
        "afind": lambda d: of(d).afind("notes.txt"),
        "akeys": lambda d: of(d).akeys(),
        "asearch": lambda d: of(d).asearch("text"),
        "astats": lambda d: of(d).astats(),
        "adelete": lambda d: of(d).adelete("notes.txt"),
        "aclear": lambda d: of(d).aclear(),
        "apurge_expired": lambda d: of(d).apurge_expired(),
        "aclose": lambda d: of(d).aclose(),
    }


CALLS: dict[str, dict[str, Call]] = {
    "AutoContextMemory": {
        "aget_messages": lambda d: d.memory.aget_messages(),
        "ato_openai": lambda d: d.memory.ato_openai(),
        "ato_responses": lambda d: d.memory.ato_responses(),
        "ato_anthropic": lambda d: d.memory.ato_anthropic(),
        "amake_readable": lambda d: d.memory.amake_readable("openai"),
        "acompress_if_needed": lambda d: d.memory.acompress_if_needed(force=True),
        "arecover": lambda d: d.memory.arecover(ValueError("context_length_exceeded")),
        "acompress_if_idle": lambda d: d.memory.acompress_if_idle(),
        "aclose": lambda d: d.memory.aclose(),
    },
    "AutoContext": {
        "aerase": lambda d: d.context.aerase("desk", [MESSAGES[0].id], user_id=ANN),
        "adelete": lambda d: d.context.adelete("desk", user_id=ANN),
        "aclose": lambda d: d.context.aclose(),
    },
    "Session": {
        "aadd": lambda d: d.session.aadd({"role": "user", "content": "And now?"}),
        "aprepare": lambda d: d.session.aprepare(),
        "acall_tool": lambda d: d.session.acall_tool(_tool, {"text": "result "}, "open"),
        "asave": lambda d: d.session.asave(),
    },
    "DatabaseSessionStore": _sessions(lambda d: d.context.sessions),
    "InMemorySessionStore": _sessions(lambda d: d.in_memory),
    "DatabaseContentStore": _contents(lambda d: d.context.content),
    "ObjectContentStore": _contents(lambda d: d.objects),
    "ResultCache": {
        "aget": lambda d: d.context.cache.aget("key"),
        "aset": lambda d: d.context.cache.aset("key", {"a": 1}),
        "adelete": lambda d: d.context.cache.adelete("key"),
        "aget_or_compute": lambda d: d.context.cache.aget_or_compute("task", {"text": "x"}, _atool),
        "ainvalidate": lambda d: d.context.cache.ainvalidate(task="task"),
        "aclear": lambda d: d.context.cache.aclear(),
        "adiscard": lambda d: d.context.cache.adiscard(lambda _: True),
        "apurge_expired": lambda d: d.context.cache.apurge_expired(),
        "astats": lambda d: d.context.cache.astats(),
        "aexport_json": lambda d: d.context.cache.aexport_json(d.folder / "cache.json"),
        "aclose": lambda d: d.context.cache.aclose(),
    },
    "MemoryStore": {
        "aadd": lambda d: d.memories.aadd("Likes green tea.", user_id=ANN),
        "aget": lambda d: d.memories.aget("unknown", user_id=ANN),
        "aupdate": lambda d: d.memories.aupdate("unknown", user_id=ANN, importance=5),
        "adelete": lambda d: d.memories.adelete("unknown", user_id=ANN),
        "aclear": lambda d: d.memories.aclear(user_id=ANN),
        "asearch": lambda d: d.memories.asearch("tea", user_id=ANN),
        "aall": lambda d: d.memories.aall(user_id=ANN),
        "astats": lambda d: d.memories.astats(user_id=ANN),
        "arevision": lambda d: d.memories.arevision(user_id=ANN),
        "adocument": lambda d: d.memories.adocument(user_id=ANN),
        "adocument_about": lambda d: d.memories.adocument_about("green tea", user_id=ANN),
        "aexport_json": lambda d: d.memories.aexport_json(user_id=ANN),
        "aimport_json": lambda d: d.memories.aimport_json({"facts": []}, user_id=ANN),
        "aapply_update": lambda d: d.memories.aapply_update({"factsToRemove": ["unknown"]}, user_id=ANN),
        "aclose": lambda d: d.memories.aclose(),
    },
    "MemoryInjector": {
        "ainject": lambda d: MemoryInjector(d.memories, user_id=ANN).ainject([user("Which tea do I like?")]),
    },
    "StateOptimizer": {
        "aoptimize": lambda d: StateOptimizer(store=d.context.content, namespace="user:ann").aoptimize(d.state),
    },
    "StateStore": {
        "asave": lambda d: StateStore(d.database).asave(d.state, metadata={}, expected=0),
        "aload": lambda d: StateStore(d.database).aload(d.key),
        "aclose": lambda d: StateStore(d.database).aclose(),
    },
    "ContextOffloadTool": {"acall": lambda d: d.tool("context_reload").acall(working_context_offload_uuid="m1-m3")},
    "ContextTool": {"acall": lambda d: d.tool("context_status").acall()},
    "MemoryTool": {"acall": lambda d: d.context.memory_tools(ANN)[0].acall(content="Likes tea.")},
    "FileContentTool": {"acall": lambda d: FileContentTool(d.context.content).acall(file_name="notes.txt")},
    "CallableModel": {"acomplete": lambda _: CallableModel(lambda _: "In short.").acomplete(QUESTION)},
    "ExtractiveModel": {"acomplete": lambda _: ExtractiveModel().acomplete(QUESTION)},
    "functions": {
        "aprune_messages": lambda d: aprune_messages(MESSAGES[:12], store=d.context.content, namespace="user:ann"),
        "asent": lambda d: asent(d.memory.aget_messages, lambda: d.memory),
    },
}
NAMES = [f"{owner}.{name}" for owner, calls in CALLS.items() for name in calls]
ELSEWHERE = {
    "EncryptedSessionStore": "those of the store beneath it, as DatabaseSessionStore's",
    "SqliteSessionStore": "DatabaseSessionStore",
    "SqlSessionStore": "DatabaseSessionStore",
    "SqliteContentStore": "DatabaseContentStore",
    "SqlContentStore": "DatabaseContentStore",
    "SqliteDatabase": "what every part here awaits",
    "SqlDatabase": "as SqliteDatabase, on the server: tests/stores",
    "EncryptedDatabase": "as SqliteDatabase",
    "OpenAIChatModel": "tests/models, with a server",
    "DashScopeChatModel": "tests/models, with a server",
    "StateOptimizationManager": "StateOptimizer",
    "Sessions": "tests/adapters",
    "ScriptedModel": "a test double",
}
"""Classes whose coroutines are those of another class, or need what is not here."""
ALIKE = {"arotate": "rotate in a thread", "aredact": "another name of aerase", "aimport_json": "as aexport_json"}
"""Methods likewise."""


def call_of(name: str) -> Call:
    owner, _, method = name.partition(".")
    return CALLS[owner][method]


def public_coroutines() -> Iterator[tuple[str, str]]:
    """Class and name of every coroutine function that a user can call without an extra."""
    for module in pkgutil.walk_packages(autocontext.__path__, "autocontext."):
        if module.name.startswith(("autocontext.adapters", "autocontext.cli")):
            continue
        loaded = importlib.import_module(module.name)
        for kind in vars(loaded).values():
            if not inspect.isclass(kind) or kind.__module__ != module.name or kind.__name__.startswith("_"):
                continue
            if inspect.isabstract(kind) or getattr(kind, "_is_protocol", False):
                continue
            for name in dir(kind):
                method = getattr(kind, name, None)
                ours = str(getattr(method, "__module__", "")).startswith("autocontext")  # not what a driver's class has
                if ours and not name.startswith("_") and inspect.iscoroutinefunction(method):
                    yield kind.__name__, name


INNER = {"Computing", "Asker", "ProviderMessages", "PassLock", "PassRunner", "Bucket", "PagedContentStore", "Lifecycle",
         "Closing", "PerLoop", "DatabasePart", "ServiceModel", "Toolset", "Calls",
         "Service", "Flight", "AsyncConnection"}  # fmt: skip
"""Parts of those classes, which a user does not meet."""
