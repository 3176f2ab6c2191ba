"""The one place where a test asks for packages that `pip install -e '.[test]'` leaves out.

`need("sql")` stands in a test, in its fixture, or in the head of a module before what it imports. Where a package is
missing the tests are skipped; CI sets AUTOCONTEXT_REQUIRE_ALL, and there they fail.
"""

from __future__ import annotations

import importlib.util
import os

import pytest

_MODULES = {
    "openai": ("openai",),
    "dashscope": ("dashscope",),
    "sql": ("psycopg",),
    "crypto": ("cryptography",),
    "cloud": ("obstore",),
    "otel": ("opentelemetry.sdk",),
    "moto": ("moto",),
    "websocket-client": ("websocket",),
}


def need(*names: str) -> None:
    """Skip unless these extras of autocontext-memory, or packages of its extra `test-all`, are installed."""
    missing = [name for name in names if not all(_is_there(module) for module in _MODULES[name])]
    if missing:
        reason = f"needs {', '.join(missing)}: pip install -e '.[test-all]'"
        if os.environ.get("AUTOCONTEXT_REQUIRE_ALL"):
            pytest.fail(f"AUTOCONTEXT_REQUIRE_ALL is set, and this test {reason}", pytrace=False)
        pytest.skip(reason, allow_module_level=True)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of its package
        return False
