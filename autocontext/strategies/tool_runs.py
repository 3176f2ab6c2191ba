"""Strategy 1: long runs of finished tool calls become one note each."""

from __future__ import annotations

from autocontext.events import TOOL_INVOCATION_COMPRESS
from autocontext.history.proposals import Proposal
from autocontext.history.view import View
from autocontext.strategies.selection import OfSize, note, recent, stays

_RUNS_A_PASS = 5
_SHARE = 0.3
"""Size of the note as a share of the run."""


class ToolRuns(OfSize):
    """Condenses runs before the latest reply and the newest `last_keep` messages, oldest first, at most 5 a pass."""

    name = "tool_runs"

    def propose(self, view: View) -> list[Proposal]:
        """One note per closed run that is long and large enough."""
        stop = min(view.latest_reply, len(view) - self.config.last_keep, recent(view, self.config))
        notes: list[Proposal] = []
        keep = stays(self.config, view)
        for run_start, run_stop in view.tool_runs(0, max(0, stop)):
            if run_stop - run_start <= self.config.min_consecutive_tool_messages:
                continue
            for a, b in view.closed_spans(run_start, run_stop, keep):
                if b - a > self.config.min_consecutive_tool_messages and self.fits(view.tokens(a, b)):
                    notes.append(
                        note("tool_run", TOOL_INVOCATION_COMPRESS, view, a, b, share=_SHARE, config=self.config)
                    )
                if len(notes) == _RUNS_A_PASS:
                    return notes
        return notes
