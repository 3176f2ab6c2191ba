"""What something costs, in calls of Python: the same on every machine."""

import sys
from collections.abc import Callable


def python_calls(of: Callable[[], object]) -> int:
    """How many functions are called: a measure of work that no other process disturbs."""
    found = 0

    def note(_frame: object, kind: str, _argument: object) -> None:
        nonlocal found
        found += kind in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        of()
    finally:
        sys.setprofile(before)
    return found
