"""Writes docs/configuration.md from AutoContextConfig itself: fields, types, defaults, ranges, docstrings, presets.

Usage: `python scripts/build_config_reference.py` writes the page; `--check` exits with 1 when the page is not what the
class would give now. The groups are the `# --- name` comments between the fields.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from autocontext import AutoContextConfig, PromptConfig

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

REFERENCE_FIELDS = {
    "msg_threshold": "msgThreshold",
    "max_token": "maxToken",
    "token_ratio": "tokenRatio",
    "last_keep": "lastKeep",
    "min_consecutive_tool_messages": "minConsecutiveToolMessages",
    "large_payload_threshold": "largePayloadThreshold",
    "offload_single_preview": "offloadSinglePreview",
    "min_compression_token_threshold": "minCompressionTokenThreshold",
    "current_round_compression_ratio": "currentRoundCompressionRatio",
    "custom_prompt": "customPrompt",
}
"""Fields that AgentScope-Java's AutoContextConfig has too, with its spelling; every other field is new here."""

_WINDOWS = (4_000, 16_000, 128_000)

_HEAD = """\
# Configuration

<!-- Made by scripts/build_config_reference.py from the class itself: change the field's docstring, not this page. -->

Start with `AutoContextConfig.for_window(window)`: the size of your model's window in tokens, less the room for its
answer. You can pass any field as well: `AutoContextConfig.for_window(16_000, model_timeout=20)`. [Presets](#presets)
shows what it sets.

Keywords and a builder make the same frozen object:

```python
from autocontext import AutoContextConfig

by_keyword = AutoContextConfig(msg_threshold=30, last_keep=10)
by_builder = AutoContextConfig.builder().msg_threshold(30).last_keep(10).build()
assert by_keyword == by_builder
```

A value outside its range raises `ConfigError`, a `ValueError` that names the field:

```python
from autocontext import AutoContextError

try:
    AutoContextConfig(token_ratio=1.5)
except AutoContextError as error:
    assert "token_ratio" in str(error)
```

## Fields

If you set `max_token`, some defaults [fit that window](#a-window-that-is-set). "Reference" is the name in
AgentScope-Java's `AutoContextConfig`; **new** marks what it does not have.
"""

_PRESETS = """
## Presets

### `AutoContextConfig.for_window(window)`

The fields that depend on the window, at three sizes; all others keep their defaults.

"""

_SET = """
### A window that is set

The defaults above are for 131,072 tokens. With `AutoContextConfig(max_token=window)`, fields that you leave out fit the
window:

- `ledger_ratio`
- `msg_threshold` and `target_ratio`, unless you set `msg_threshold` or `escalation`
- `last_keep` and `large_payload_threshold`, unless you set any field that says what to compress and into what: those of
  "What" above except `protected_tools`, and `last_resort`, `keep_recent`, `ledger_ratio`, `custom_prompt`
- `strategies` is `('read_once', 'shorten')`, and `keep_recent` and `target_ratio` are as with `for_window`, if you set
  none of all these

"""

_JAVA = """
### `AutoContextConfig.agentscope_java()`

These values make a pass comparable with AgentScope-Java 1.x. The remaining, intended differences are listed in
[differences from the reference](reference-differences.md).

"""

_PROMPTS = """
## Prompts

`custom_prompt=PromptConfig(...)` replaces single prompts; other fields keep their texts. The texts are in
`autocontext/prompts.py`, one field each.

"""


def _code(value: object) -> str:
    if isinstance(value, frozenset):
        return "`{" + ", ".join(repr(item) for item in sorted(value)) + "}`" if value else "`frozenset()`"
    return f"`{value!r}`"


def _type(field: FieldInfo) -> str:
    annotation = field.annotation
    name = (
        annotation.__name__ if isinstance(annotation, type) and not hasattr(annotation, "__args__") else str(annotation)
    )
    name = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", name)
    return "`" + name.replace("|", "\\|") + "`"


def _range(field: FieldInfo) -> str:
    signs: list[tuple[type[Any], str, str]] = [(Gt, "gt", ">"), (Ge, "ge", "≥"), (Lt, "lt", "<"), (Le, "le", "≤")]
    bounds = [
        f"{sign} {getattr(limit, attribute)}"
        for limit in field.metadata
        for kind, attribute, sign in signs
        if isinstance(limit, kind)
    ]
    return ", ".join(bounds)


def _groups() -> dict[str, str]:
    """The group of each field, read from the source of the class."""
    group, groups = "", {}
    for line in inspect.getsource(AutoContextConfig).splitlines():
        if heading := re.match(r"    # --- (.+)", line):
            group = heading[1].strip()
        elif (field := re.match(r"    (\w+): ", line)) and field[1] in AutoContextConfig.model_fields:
            groups[field[1]] = group
    return groups


def _docstrings(owner: type) -> dict[str, str]:
    """The literal beneath each field of a class, on one line and safe inside a table."""
    body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(body, ast.ClassDef)
    descriptions = {}
    for field, doc in itertools.pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant):
            descriptions[ast.unparse(field.target)] = " ".join(str(doc.value.value).split()).replace("|", "\\|")
    return descriptions


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _fields() -> str:
    groups, docs = _groups(), _docstrings(AutoContextConfig)
    parts = []
    for group in dict.fromkeys(groups.values()):
        rows = [
            [
                f"`{name}`", _type(field), _code(field.get_default(call_default_factory=True)), _range(field),
                docs[name],
                f"`{REFERENCE_FIELDS[name]}`" if name in REFERENCE_FIELDS else "**new**",
            ]
            for name, field in AutoContextConfig.model_fields.items()
            if groups[name] == group
        ]  # fmt: skip
        heads = ["field", "type", "default", "range", "meaning", "reference"]
        parts.append(f"\n### {group[:1].upper() + group[1:]}\n\n" + _table(heads, rows))
    return "".join(parts)


def _changed(config: AutoContextConfig) -> list[str]:
    plain = AutoContextConfig()
    return [name for name in AutoContextConfig.model_fields if getattr(config, name) != getattr(plain, name)]


def _windows(made: Callable[[int], AutoContextConfig]) -> str:
    configs = {window: made(window) for window in _WINDOWS}
    names = [n for n in AutoContextConfig.model_fields if any(n in _changed(config) for config in configs.values())]
    heads = ["field", "default", *(f"{window:,}" for window in _WINDOWS)]
    plain = AutoContextConfig()
    rows = [[f"`{n}`", _code(getattr(plain, n)), *(_code(getattr(c, n)) for c in configs.values())] for n in names]
    return _table(heads, rows)


def _reference_preset() -> str:
    java, plain = AutoContextConfig.agentscope_java(), AutoContextConfig()
    rows = [[f"`{n}`", _code(getattr(plain, n)), _code(getattr(java, n))] for n in _changed(java)]
    return _table(["field", "default", "preset"], rows)


def _prompts() -> str:
    rows = [[f"`{name}`", doc] for name, doc in _docstrings(PromptConfig).items()]
    return _table(["field", "asked when"], rows)


def page() -> str:
    """The page as the class gives it now."""
    windows = _windows(AutoContextConfig.for_window), _windows(lambda window: AutoContextConfig(max_token=window))
    return "".join(
        [_HEAD, _fields(), _PRESETS, windows[0], _SET, windows[1], _JAVA, _reference_preset(), _PROMPTS, _prompts()]
    )


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description="Write docs/configuration.md from AutoContextConfig.")
    parser.add_argument("--check", action="store_true", help="only say whether the page is current")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write("docs/configuration.md is not current: run python scripts/build_config_reference.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
