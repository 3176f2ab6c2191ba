"""The public names are there, and importing them costs no optional package, no vocabulary and no network module."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import autocontext
from tests.extras import need

PUBLIC = {
    "autocontext": [
        "AutoContextMemory", "AutoContextConfig", "PromptConfig", "ContextOffloadTool",
        "Msg", "TextBlock", "ThinkingBlock", "ToolUseBlock", "ToolResultBlock",
        "ImageBlock", "AudioBlock", "VideoBlock",
        "CompressionEvent", "CompressionReport", "Plan", "SubTask",
        "ChatModel", "AsyncChatModel", "ModelRequest", "ModelReply", "Usage",
        "AutoContext", "AutoContextError",
    ],
    "autocontext.stores": [
        "SqliteSessionStore", "SqlSessionStore", "InMemorySessionStore", "EncryptedSessionStore",
        "SessionKey", "SessionStore", "import_agentscope_java", "Entry", "dump_entry", "load_entry",
    ],
    "autocontext.content": [
        "ContentStore", "SqliteContentStore", "SqlContentStore", "ObjectContentStore",
        "PrunePolicy", "prune_messages", "get_file_content_tool",
    ],
    "autocontext.cache": ["ResultCache", "canonical_key", "normalize_number", "MISS", "UncacheableError"],
    "autocontext.sessions": [
        "StateOptimizer", "ConversationCompressor", "ContextSelector", "ErrorPatternAnalyzer",
        "SessionState", "StateConfig", "OptimizationReport",
    ],
    "autocontext.compat": ["StateOptimizationManager", "ContextManager"],
    "autocontext.memories": [
        "MemoryStore", "Memory", "format_memory_for_injection", "extract_conversation_context", "MemoryInjector",
        "TfidfRanker", "Bm25Ranker", "HybridRanker", "default_ranker",
    ],
    "autocontext.tokens": ["get_counter"],
    "autocontext.strategies": ["Strategy", "Proposal", "Span", "View"],
    "autocontext.models": ["ExtractiveModel", "OpenAIChatModel", "DashScopeChatModel", "CallableModel"],
    "autocontext.adapters.openai_chat": ["from_openai", "to_openai"],
    "autocontext.adapters.anthropic_messages": ["from_anthropic", "to_anthropic"],
    "autocontext.testing": ["ScriptedModel", "assert_valid_chat"],
    "autocontext.tools": ["INSTRUCTIONS"],
    "autocontext.steering": ["ContextTool"],
}  # fmt: skip
METHODS = {
    "AutoContextMemory": [
        "add_message", "add_messages", "get_messages", "aget_messages", "compress_if_needed", "acompress_if_needed",
        "messages", "delete_message", "clear", "clear_offload", "offload", "reload", "get_original_memory_msgs",
        "get_interaction_msgs", "get_offload_context", "get_compression_events", "attach_plan_note", "token_count",
        "undo", "state_dict", "load_state_dict", "tools", "child", "children", "parent",
    ],
    "AutoContextConfig": ["builder", "for_window", "agentscope_java"],
    "ContextOffloadTool": ["schema", "acall"],
}  # fmt: skip
OPTIONAL = {
    "openai", "dashscope", "rich", "httpx", "aiohttp", "requests", "websocket",
    "psycopg", "cryptography", "obstore", "opentelemetry", "sklearn", "numpy",
}  # fmt: skip
NEEDS = {"EncryptedSessionStore": ("crypto",), "ObjectContentStore": ("cloud",)}
# These are always at hand, but a program that only builds messages should not pay for them.
COSTLY = {"tiktoken", "regex", "sqlite3", "urllib.request", "http.client"}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in PUBLIC.items() for name in names])
def test_public_name_imports(module: str, name: str) -> None:
    need(*NEEDS.get(name, ()))
    assert getattr(importlib.import_module(module), name) is not None


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in METHODS.items() for name in names])
def test_public_method_exists(owner: str, name: str) -> None:
    assert hasattr(getattr(autocontext, owner), name)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["autocontext.stores", "autocontext.content"])
def test_names_that_are_imported_late_complete_too(module: str) -> None:
    program = f"import {module}; print(*dir({module}))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    assert set(PUBLIC[module]) <= set(run.stdout.split())


def test_a_star_imports_what_needs_no_extra() -> None:
    stars = "; ".join(f"from {module} import *" for module in PUBLIC)
    loaded_after(f"sys.modules.update(dict.fromkeys({sorted(OPTIONAL)}))\n{stars}")


def test_all_lists_exactly_the_public_names() -> None:
    assert sorted(set(autocontext.__all__) - {"__version__"}) == sorted(PUBLIC["autocontext"])


@pytest.mark.parametrize("name", ["cache", "memories", "ranking", "sessions", "steering", "tokens"])
def test_a_package_that_only_gathers_names_lists_them_all(name: str) -> None:
    package = importlib.import_module(f"autocontext.{name}")
    gathered = {n for n, value in vars(package).items() if n[0] != "_" and not isinstance(value, ModuleType)}
    assert set(package.__all__) == gathered - {"annotations"}


def loaded_after(code: str) -> set[str]:
    """Names of the modules in a fresh interpreter after running some code."""
    program = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    return set(json.loads(run.stdout))


def test_importing_the_package_loads_nothing_optional_or_costly() -> None:
    extra = loaded_after("import autocontext") - loaded_after("import pydantic; from pydantic import BaseModel")
    assert "autocontext.messages" in extra
    assert extra & (OPTIONAL | COSTLY) == set()


@pytest.mark.sampled
@pytest.mark.parametrize("module", PUBLIC)
def test_no_public_module_loads_an_optional_package(module: str) -> None:
    assert loaded_after(f"import {module}") & OPTIONAL == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["use_public_api.py", "use_stores_and_neighbours.py"])
def test_a_user_s_program_over_the_public_names_runs(name: str) -> None:
    program = Path(__file__).parent / "typing" / name
    run = subprocess.run(
        [sys.executable, "-W", "error", str(program)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.slow
def test_the_check_sees_a_costly_import() -> None:
    assert COSTLY & loaded_after("import autocontext, sqlite3") == {"sqlite3"}
