"""Uses what one extra brings, with the installed package, as an application would.

Usage: `python -W error scripts/smoke.py EXTRA`, or without EXTRA what needs none. scripts/release_check.sh makes an
environment for each. The package is the installed one; the examples and the fake services are those of this clone.
"""

# ruff: noqa: PLC0415 (each environment holds what its extra brings, and no more)

from __future__ import annotations

import contextlib
import io
import os
import pty
import runpy
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import autocontext
from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.testing import assert_valid_chat, conversation

ROOT = Path(__file__).resolve().parent.parent
COMMAND = str(Path(sys.executable).with_name("autocontext"))
SERVER = os.environ.get("AUTOCONTEXT_TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432/test")
WINDOW = 4_000
SAID = conversation(rounds=12, chars=2_000)


def compressed(model: Any = None, store: Any = None) -> AutoContextMemory:
    """A conversation that fits its window through notes, with every message still reloadable."""
    where = {"store": store, "session_id": "smoke"} if store is not None else {}
    memory = AutoContextMemory(AutoContextConfig.for_window(WINDOW), model, **where)
    memory.add_messages(SAID)
    assert_valid_chat(memory.get_messages())
    assert memory.token_count <= WINDOW
    assert memory.get_offload_context()
    assert memory.get_original_memory_msgs() == SAID
    return memory


def kept(make: Callable[[], Any]) -> None:
    """What one store has written, another one reads."""
    with contextlib.closing(make()) as store:
        view = compressed(store=store).messages
    with contextlib.closing(make()) as store:
        again = AutoContextMemory(store=store, session_id="smoke")
        assert again.messages == view
        assert again.get_original_memory_msgs() == SAID


def example(name: str, prints: str) -> None:
    """A script of examples/ prints what it should."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    assert prints in printed.getvalue(), printed.getvalue()


def nothing() -> None:
    """Without extras: a memory, a file, exact counts, and the demo, which compares every original it reloads."""
    from autocontext.stores import SqliteSessionStore
    from autocontext.tokens import get_counter

    kept(lambda: SqliteSessionStore("agent.db"))
    assert get_counter("o200k_base").count_text("hello world") == 2
    demo = subprocess.run([COMMAND, "demo"], capture_output=True, text=True, check=False)  # noqa: S603 (ours)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    example("quickstart.py", "characters back")


def services(model: str, service: str) -> None:
    """A model behind the SDK writes the notes."""
    from autocontext import models
    from tests import fakes

    with getattr(fakes, service)() as fake:
        writer = getattr(models, model)("some-model", api_key=fake.api_key, base_url=fake.base_url)
        memory = compressed(writer)
        writer.close()
    assert any("SUMMARY" in msg.text for msg in memory.messages)


def cli() -> None:
    """On a terminal the demo shows colours."""
    terminal, inside = pty.openpty()
    variables = {**os.environ, "TERM": "xterm"}
    output = b""
    with subprocess.Popen([COMMAND, "demo"], stdout=inside, stderr=inside, env=variables) as demo:  # noqa: S603 (ours)
        os.close(inside)
        with contextlib.suppress(OSError):  # raised when the demo has ended
            while True:
                output += os.read(terminal, 4096)
    assert demo.returncode == 0, output.decode()
    assert b"\x1b[1" in output, output.decode()


def otel() -> None:
    """A pass is a span of whatever tracer the application has set."""
    from opentelemetry import trace

    spans: list[str] = []

    class Tracer(trace.NoOpTracer):
        def start_span(self, name: str, *args: Any, **more: Any) -> trace.Span:
            spans.append(name)
            return super().start_span(name, *args, **more)

    class Provider(trace.NoOpTracerProvider):
        def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
            return Tracer()

    trace.set_tracer_provider(Provider())
    compressed()
    assert "autocontext.compress" in spans


@contextlib.contextmanager
def schema() -> Iterator[str]:
    """The URL of a schema of its own in PostgreSQL."""
    import psycopg

    name = f"smoke_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(SERVER, autocommit=True) as server:
        server.execute(f"CREATE SCHEMA {name}")
        try:
            yield f"{SERVER}?options=-csearch_path%3D{name}"
        finally:
            server.execute(f"DROP SCHEMA {name} CASCADE")


def sql() -> None:
    """A session in PostgreSQL."""
    from autocontext.stores import SqlSessionStore

    with schema() as url:
        kept(lambda: SqlSessionStore(url))


def cockroachdb() -> None:
    """A session at a `cockroachdb://` URL, in front of PostgreSQL that answers in CockroachDB's words."""
    from autocontext.stores import SqlSessionStore
    from tests.stores.servers import Disguise

    with schema() as url, contextlib.closing(Disguise(urlsplit(SERVER).port or 5432)) as server:
        kept(lambda: SqlSessionStore(server.through(url).replace("postgresql", "cockroachdb", 1)))


def crypto() -> None:
    """A session that is sealed in the file below."""
    from autocontext.history.entries import Sealed
    from autocontext.stores import EncryptedSessionStore, SessionKey, SqliteSessionStore

    kept(lambda: EncryptedSessionStore(SqliteSessionStore("agent.db"), b"k" * 32))
    written = SqliteSessionStore("agent.db").read(SessionKey("", "smoke"))
    assert len(written) > len(SAID)
    assert all(isinstance(entry, Sealed) for entry in written)


def cloud() -> None:
    """A text in object storage, here a folder."""
    from autocontext.content import ObjectContentStore

    text = "line\n" * 10_000
    bucket = Path("bucket")
    bucket.mkdir()
    stored = ObjectContentStore(bucket.absolute().as_uri()).put(text)
    assert ObjectContentStore(bucket.absolute().as_uri()).read_bytes(stored.ref) == text.encode()


def test(tests: str) -> None:
    """Some of the tests, against the installed package; none may be skipped."""
    import pytest

    os.environ["AUTOCONTEXT_REQUIRE_ALL"] = "1"
    assert pytest.main(["-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", f"{ROOT}/tests/{tests}"]) == 0


def dev() -> None:
    """A type checker finds the package's types, and agrees with how users write."""
    from mypy import api

    out, problem, status = api.run(["--strict", "--config-file=", "--cache-dir=/dev/null", f"{ROOT}/tests/typing"])
    assert status == 0, out + problem


def docs() -> None:
    """The site is built from this clone, without a warning."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", f"{ROOT}/mkdocs.yml"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run([*command, "--site-dir", str(Path("site").absolute())], check=True, env=quiet)  # noqa: S603 (ours)
    assert "AutoContextMemory" in Path("site/api/memory.html").read_text(encoding="utf-8")


EXTRAS: dict[str, Callable[[], None]] = {
    "": nothing,
    "openai": partial(services, "OpenAIChatModel", "FakeOpenAI"),
    "dashscope": partial(services, "DashScopeChatModel", "FakeDashScope"),
    "cli": cli,
    "otel": otel,
    "sql": sql,
    "cockroachdb": cockroachdb,
    "crypto": crypto,
    "cloud": cloud,
    "langchain": partial(example, "langchain_agent.py", "disk 11 failed"),
    "openai-agents": partial(example, "openai_agents_agent.py", "disk 11 failed"),
    "pydantic-ai": partial(example, "pydantic_ai_agent.py", "disk 11 failed"),
    "agentscope": partial(example, "agentscope_v2_agent.py", "disk 11 failed"),
    "agentscope1": partial(example, "agentscope_v1_agent.py", "disk 11 failed"),
    "agent-framework": partial(example, "agent_framework_agent.py", "disk 11 failed"),
    "mcp": partial(example, "mcp_client.py", "disk 11 failed"),
    "test": partial(test, "conformance"),  # the recorded vectors of the reference
    "test-all": partial(test, "models/test_contract.py"),
    "docs": docs,
    "dev": dev,
}


def main() -> None:
    """Use one extra in an empty folder."""
    extra = sys.argv[1] if len(sys.argv) > 1 else ""
    assert autocontext.__file__.startswith(sys.prefix), f"{autocontext.__file__} is not the installed package"
    sys.path.append(str(ROOT))  # behind the installed package: for tests.fakes only
    os.environ.pop("OPENAI_API_KEY", None)  # the examples are to use their scripted models
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        EXTRAS[extra]()


if __name__ == "__main__":
    main()
