"""The work ledger: what was said, planned, changed, called and found, as one text for the agent that continues."""

from autocontext.ledger.work import WorkLedger

__all__ = ["WorkLedger"]
