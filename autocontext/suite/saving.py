"""`Session.save`: optimises the working state and stores it beside the log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from autocontext.content.queries import held
from autocontext.errors import Conflict, StoreCorruptError, told
from autocontext.flows import Flow, method
from autocontext.flows.logs import logger
from autocontext.messages import Msg
from autocontext.optimizer.replacements import CONTENT_REF, is_shortened
from autocontext.optimizer.states import SavedState, StateStore
from autocontext.sessions import OptimizationReport, SessionState, StateOptimizer
from autocontext.stores.records import now
from autocontext.suite.preparing import refreshed

if TYPE_CHECKING:
    from autocontext.content.store import DatabaseContentStore
    from autocontext.memory import AutoContextMemory

_log = logger(__name__)
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class SaveReport:
    """The result of a save."""

    revision: int
    """Of the saved state: `Session.state(revision)` loads it."""
    optimization: OptimizationReport | None
    """None if the optimiser failed and the state was saved unchanged."""
    failure: str = ""
    """Why the optimiser failed; "" if it did not."""
    seconds: float = 0.0

    @property
    def optimized(self) -> bool:
        """Whether the saved state is the optimised one."""
        return self.optimization is not None


class Saving:
    """The saved states of one session."""

    def __init__(self, memory: AutoContextMemory, content: DatabaseContentStore, namespace: str) -> None:
        self._memory, self._content, self._namespace = memory, content, namespace
        self._states = StateStore(content.database)

    def latest(self, revision: int | None = None) -> SessionState | None:
        """The state saved last, or one revision; None if there is none."""
        saved = self._states.load(self._memory.session, revision)
        return None if saved is None else saved.state

    def flow(self) -> Flow[SaveReport]:
        """Load the last saved state, add the new messages, optimise, and save all of it in one transaction.

        Texts that are erased meanwhile are not saved. Raises SessionGone if the session was deleted.
        """
        started = time.perf_counter()
        for attempt in range(_ATTEMPTS):
            version, content = yield from refreshed(self._memory, self._content)
            before = yield from self._load()
            merged, originals = self._merge(before)
            state, report, failure = yield from self._optimize(merged, content)
            metadata = _metadata(state, report, failure, originals)
            try:
                revision = yield method(
                    self._states, "save", state, metadata=metadata, expected=before.revision, version=version
                )
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return SaveReport(revision, report, failure, time.perf_counter() - started)
        raise AssertionError("unreachable")

    def _load(self) -> Flow[SavedState]:
        """The last state to build on; an empty one if there is none, it is damaged, or contents that it names are gone.

        The log has everything, so this save rebuilds the state from it; the damaged revision stays.
        """
        session = self._memory.session
        try:
            saved: SavedState | None = yield method(self._states, "load", session)
        except StoreCorruptError:
            _log.exception("a saved state is damaged; rebuilding it from the log")
            return self._anew(self._states.revisions(session)[-1])
        if saved is None:
            return self._anew(0)
        # An erase in another session that had the same messages, such as the one that this is a fork of, deletes them.
        if handles := {str(m.metadata[CONTENT_REF]) for m in saved.state.messages if is_shortened(m)}:
            there = yield method(self._content.database, "read", partial(held, self._namespace, handles, now()))
            if not handles <= there:
                return self._anew(saved.revision)
        return saved

    def _anew(self, revision: int) -> SavedState:
        session = self._memory.session
        return SavedState(revision, {}, SessionState(session.session_id, session.user_id))

    def _merge(self, before: SavedState) -> tuple[SessionState, list[Msg]]:
        """The state to optimise: the last one plus newer originals, or all originals if it does not match the log."""
        originals = self._memory.get_original_memory_msgs()
        state, fresh = self._anew(0).state, originals
        count = int(before.metadata.get("originals", 0))
        if 0 < count <= len(originals) and originals[count - 1].id == before.metadata.get("last"):
            state, fresh = before.state, originals[count:]
        question = next((m.text for m in reversed(originals) if m.role == "user"), state.user_input)
        return state.changed(messages=[*state.messages, *fresh], user_input=question), originals

    def _optimize(
        self, merged: SessionState, content: DatabaseContentStore
    ) -> Flow[tuple[SessionState, OptimizationReport | None, str]]:
        redact = self._memory.config.redact
        optimizer = StateOptimizer(store=content, namespace=self._namespace, redact=redact)
        try:
            state, report = yield method(optimizer, "optimize", merged)
        except Exception as e:  # noqa: BLE001 (an optimiser error must not lose the save: the state is saved unchanged)
            return merged, None, told(e)
        return state, report, ""


def _metadata(
    state: SessionState, report: OptimizationReport | None, failure: str, originals: list[Msg]
) -> dict[str, Any]:
    """What was saved; `compression_ratio` is the originals' number of messages divided by the state's."""
    return {
        "type": "state",
        "last_updated": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "optimization_applied": report is not None,
        "compression_ratio": len(originals) / len(state.messages) if state.messages else 1.0,
        "original_length": len(originals),
        "optimized_length": len(state.messages),
        "originals": len(originals),
        "last": originals[-1].id if originals else "",
        **({"bytes_before": report.bytes_before, "bytes_after": report.bytes_after} if report is not None else {}),
        **({"optimization_failed": failure, "fallback_save": True} if failure else {}),
    }
