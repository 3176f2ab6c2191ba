"""`Session.save`: the working state, optimised, stored beside the log with what was done to it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from autocontext.errors import Conflict, StoreCorruptError
from autocontext.messages import Msg
from autocontext.optimizer.states import SavedState, StateStore
from autocontext.sessions import OptimizationReport, SessionState, StateOptimizer
from autocontext.suite.steps import Flow, Step

if TYPE_CHECKING:
    from autocontext.content import ContentStore
    from autocontext.memory import AutoContextMemory
    from autocontext.stores.database import Database

_log = logging.getLogger(__name__)
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class SaveReport:
    """What a save came to."""

    revision: int
    """Of the saved state; `Session.state(revision)` loads it."""
    optimization: OptimizationReport | None
    """None when the optimiser failed and the state was saved as it was."""
    failure: str = ""
    """Why the optimiser failed."""
    seconds: float = 0.0

    @property
    def optimized(self) -> bool:
        """Whether the saved state is the optimised one."""
        return self.optimization is not None


class Saving:
    """The saved states of one session."""

    def __init__(self, memory: AutoContextMemory, database: Database, content: ContentStore, namespace: str) -> None:
        self._memory = memory
        self._states = StateStore(database)
        self._optimizer = StateOptimizer(store=content, namespace=namespace)

    def latest(self, revision: int | None = None) -> SessionState | None:
        """The state saved last, or one revision; None when there is none."""
        saved = self._states.load(self._memory.session, revision)
        return None if saved is None else saved.state

    def flow(self) -> Flow[SaveReport]:
        """Take up the last saved state, add what is new, optimise, store it with its metadata in one transaction."""
        started = time.perf_counter()
        for attempt in range(_ATTEMPTS):
            before = yield from self._last()
            merged, originals = self._merge(before)
            state, report, failure = yield from self._optimize(merged)
            options: dict[str, Any] = {
                "metadata": _metadata(merged, state, report, failure, originals),
                "expected": before.revision if before is not None else 0,
            }
            try:
                revision = yield Step(
                    partial(self._states.save, state, **options), partial(self._states.asave, state, **options)
                )
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return SaveReport(revision, report, failure, time.perf_counter() - started)
        raise AssertionError("unreachable")

    def _last(self) -> Flow[SavedState | None]:
        session = self._memory.session
        try:
            saved: SavedState | None = yield Step(
                partial(self._states.load, session), partial(self._states.aload, session)
            )
        except StoreCorruptError:
            # The log has everything: the damaged state stays where it is, and the next save rebuilds it.
            _log.exception("a saved state is damaged; rebuilding it from the log")
            newest = self._states.revisions(session)[-1]
            return SavedState(newest, 0, {}, SessionState(session.session_id, session.user_id))
        return saved

    def _merge(self, before: SavedState | None) -> tuple[SessionState, list[Msg]]:
        """The state to optimise: the last one and the originals that have come since, or all of them."""
        session = self._memory.session
        originals = self._memory.get_original_memory_msgs()
        known = int(before.metadata.get("originals", 0)) if before is not None else 0
        last = str(before.metadata.get("last", "")) if before is not None else ""
        goes_on = before is not None and 0 < known <= len(originals) and originals[known - 1].id == last
        state = before.state if before is not None and goes_on else SessionState(session.session_id, session.user_id)
        fresh = originals[known:] if goes_on else originals
        question = next((m.text for m in reversed(originals) if m.role == "user"), state.user_input)
        return state.changed(messages=[*state.messages, *fresh], user_input=question), originals

    def _optimize(self, merged: SessionState) -> Flow[tuple[SessionState, OptimizationReport | None, str]]:
        try:
            state, report = yield Step(
                partial(self._optimizer.optimize, merged), partial(self._optimizer.aoptimize, merged)
            )
        except Exception as e:  # noqa: BLE001 (a save must not fail for the optimiser: the state is saved as it is)
            return merged, None, f"{type(e).__name__}: {e}"
        return state, report, ""


def _metadata(
    merged: SessionState, state: SessionState, report: OptimizationReport | None, failure: str, originals: list[Msg]
) -> dict[str, Any]:
    return {
        "type": "state",
        "last_updated": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "optimization_applied": report is not None,
        "compression_ratio": len(state.messages) / len(merged.messages) if merged.messages else 1.0,
        "original_length": len(merged.messages),
        "optimized_length": len(state.messages),
        "originals": len(originals),
        "last": originals[-1].id if originals else "",
        **({"bytes_before": report.bytes_before, "bytes_after": report.bytes_after} if report is not None else {}),
        **({"optimization_failed": failure, "fallback_save": True} if failure else {}),
    }
