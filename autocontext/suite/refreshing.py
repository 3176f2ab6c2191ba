"""The state of a session before something is made of it: what others have added and erased is applied."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from autocontext.flows import Flow, compute, operation
from autocontext.stores import session_statements
from autocontext.stores.protocol import Version

if TYPE_CHECKING:
    from autocontext.content.store import DatabaseContentStore
    from autocontext.memory import AutoContextMemory


def refreshed(
    memory: AutoContextMemory, content: DatabaseContentStore
) -> Flow[tuple[Version | None, DatabaseContentStore]]:
    """Refresh a memory. The version of its log (None without entries), and a store for what is made of it.

    Once messages are erased, that store raises Conflict instead of storing texts that were read before.
    """
    database, session = content.database, memory.session
    # Read before the log: if that changes in between, what is made of it meets another version.
    version: Version | None = yield operation(
        database.read, database.aread, partial(session_statements.version, session)
    )
    yield from compute(memory.refresh)
    held = session_statements.ANY if version is None else version
    return version, content.checking(partial(session_statements.hold, session, held))
