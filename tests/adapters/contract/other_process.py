"""Goes on with a session in a process of its own: reads what to do as JSON, prints what came of it."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from tests.adapters.contract.driver import Setup, asked


def main() -> None:
    """Open the session, note what the memory holds, ask the questions."""
    given: dict[str, Any] = json.load(sys.stdin)
    module, _, name = given["driver"].partition(":")
    kind = getattr(importlib.import_module(module), name)
    driver = kind(Setup(**{k: frozenset(v) if isinstance(v, list) else v for k, v in given["setup"].items()}))
    memory = driver.memory
    found = {
        "before": [m.to_dict() for m in memory.get_original_memory_msgs()],
        "offloads": {uuid: [m.to_dict() for m in ms] for uuid, ms in memory.get_offload_context().items()},
    }
    answers = asked(driver, given["mode"], *given["questions"])
    print(json.dumps({**found, "answers": [str(answer) for answer in answers]}))


if __name__ == "__main__":
    main()
