"""What something costs, in calls of Python: the same on every machine."""

import gc
import sys
from collections.abc import Callable
from typing import TypeVar

from autocontext.stores.database import Row, Work
from autocontext.stores.sqlite_database import SqliteDatabase

T = TypeVar("T")


def python_calls(of: Callable[[], object]) -> int:
    """How many functions are called: a measure of work that no other process disturbs.

    Without the garbage collector: it comes at any time, and what others have it call would count.
    """
    found = 0

    def note(_frame: object, kind: str, _argument: object) -> None:
        nonlocal found
        found += kind in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(note)
    try:
        of()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return found


class CountingDatabase(SqliteDatabase):
    """A file that counts the rows that it is asked for by reading transactions, or what else `count` counts."""

    rows = 0

    def count(self, sql: str, rows: list[Row]) -> None:
        del sql
        self.rows += len(rows)

    def read(self, work: Callable[[], Work[T]]) -> T:
        return super().read(lambda: self._counted(work()))

    def _counted(self, work: Work[T]) -> Work[T]:
        rows: list[Row] | None = None
        while True:
            try:
                statement = work.send(rows)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as done:
                result: T = done.value
                return result
            rows = yield statement
            self.count(statement.sql, rows)
