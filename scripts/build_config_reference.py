"""Writes docs/configuration.md from AutoContextConfig itself: fields, defaults, ranges, docstrings, presets.

The options that only AgentScope-Java's five strategies read go between two comments of docs/from-agentscope-java.md.

Usage: `python scripts/build_config_reference.py` writes both; `--check` exits with 1 when one of them is not what the
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
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from autocontext import AutoContextConfig, PromptConfig

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, JAVA_PAGE = DOCS / "configuration.md", DOCS / "from-agentscope-java.md"

JAVA_GROUP = "the five strategies"
"""The group of fields whose place is JAVA_PAGE."""
_BEGIN = "<!-- options: made by scripts/build_config_reference.py -->\n"
_END = "<!-- end of options -->\n"

_WINDOWS = (4_000, 16_000, 128_000)

_HEAD = """\
# Configuration

<!-- Made by scripts/build_config_reference.py from the class itself: change the field's docstring, not this page. -->

- `AutoContextConfig.for_window(window)` is recommended: the newest messages whole, long results before them
  in short, one note about the rest ([strategies](strategies.md)), in requests of at most
  `window` tokens, the size of your model's window less the room for its answer. `open(..., window="16k")` uses it.
- `AutoContextConfig(...)` and its builder are AgentScope-Java's: its [five strategies](five-strategies.md) in their
  order, then what makes the context fit.

Keywords and a builder, which can start from any configuration, make the same frozen object. A value outside its range
raises `ConfigError`, a `ValueError` that names the field.

```python
from autocontext import AutoContextConfig

by_keyword = AutoContextConfig.for_window(16_000, model_timeout=20)
by_builder = AutoContextConfig.builder(AutoContextConfig.for_window(16_000)).model_timeout(20).build()
assert by_keyword == by_builder
```

## Fields

Those of the five strategies stand [elsewhere](from-agentscope-java.md#options-of-the-five-strategies).
"""

_PRESETS = """
## Presets

`AutoContextConfig.agentscope_java()` makes a pass comparable with AgentScope-Java 1.x:
[what differs](from-agentscope-java.md#what-differs). `AutoContextConfig.for_window(window)` sets these fields, at three
sizes:

"""

_PROMPTS = """
## Prompts

`custom_prompt=PromptConfig(...)` replaces single prompts. The texts are in `autocontext/prompts.py`.

"""


def _shown(value: object) -> str:
    if isinstance(value, frozenset):
        return "{" + ", ".join(repr(item) for item in sorted(value)) + "}" if value else "frozenset()"
    return repr(value)


def _values(field: FieldInfo, default: object) -> str:
    """What else a field may be: its type where the default does not tell it, and the range of its values."""
    annotation = field.annotation
    signs: list[tuple[type[Any], str, str]] = [(Gt, "gt", ">"), (Ge, "ge", "≥"), (Lt, "lt", "<"), (Le, "le", "≤")]
    told = [
        f"{sign} {getattr(limit, attribute)}"
        for limit in field.metadata
        for kind, attribute, sign in signs
        if isinstance(limit, kind)
    ]
    if get_origin(annotation) is Literal:
        told = [f"or `{other!r}`" for other in get_args(annotation) if other != default]
    elif default is None:
        told.insert(0, "`" + re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", str(annotation)) + "`")
    return f" ({', '.join(told)})" if told else ""


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
    """The literal beneath each field of a class, on one line."""
    body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(body, ast.ClassDef)
    descriptions = {}
    for field, doc in itertools.pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant):
            descriptions[ast.unparse(field.target)] = " ".join(str(doc.value.value).split())
    return descriptions


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _fields() -> str:
    groups = [group for group in dict.fromkeys(_groups().values()) if group != JAVA_GROUP]
    return "".join(f"\n### {group[:1].upper() + group[1:]}\n\n{_group(group)}" for group in groups)


def _group(group: str) -> str:
    groups, docs = _groups(), _docstrings(AutoContextConfig)
    lines = []
    for name, field in AutoContextConfig.model_fields.items():
        if groups[name] == group:
            default = field.get_default(call_default_factory=True)
            lines.append(f"- `{name}={_shown(default)}`{_values(field, default)}. {docs[name]}\n")
    return "".join(lines)


def _changed(config: AutoContextConfig) -> list[str]:
    plain = AutoContextConfig()
    return [name for name in AutoContextConfig.model_fields if getattr(config, name) != getattr(plain, name)]


def _windows() -> str:
    configs = {window: AutoContextConfig.for_window(window) for window in _WINDOWS}
    changed = [n for n in AutoContextConfig.model_fields if any(n in _changed(config) for config in configs.values())]
    always = [n for n in changed if len({repr(getattr(config, n)) for config in configs.values()}) == 1]
    names = [n for n in changed if n not in always]
    rows = [[f"`{n}`", *(f"`{_shown(getattr(c, n))}`" for c in configs.values())] for n in names]
    same = ", ".join(f"`{n}={_shown(getattr(configs[_WINDOWS[0]], n))}`" for n in always)
    return _table(["field", *(f"{window:,}" for window in _WINDOWS)], rows) + f"\nAt all three: {same}.\n"


def _prompts() -> str:
    return "".join(f"- `{name}`: {doc}\n" for name, doc in _docstrings(PromptConfig).items())


def page() -> str:
    """The page as the class gives it now."""
    return f"{_HEAD}{_fields()}{_PRESETS}{_windows()}{_PROMPTS}{_prompts()}"


def java_page() -> str:
    """The page for users of AgentScope-Java, with the options as the class gives them now."""
    before, _, rest = JAVA_PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    return f"{before}{_BEGIN}\n{_group(JAVA_GROUP)}\n{_END}{rest.partition(_END)[2]}"


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description="Write docs/configuration.md from AutoContextConfig.")
    parser.add_argument("--check", action="store_true", help="only say whether the pages are current")
    check = parser.parse_args().check
    stale = []
    for path, text in ((PAGE, page()), (JAVA_PAGE, java_page())):
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.name)
        if not check:
            path.write_text(text, encoding="utf-8")
    if check and stale:
        sys.stderr.write(f"not current: {', '.join(stale)}; run python scripts/build_config_reference.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
