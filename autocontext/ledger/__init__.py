"""The work ledger: what was said, planned, changed, called and found, as one text for whoever goes on with the work."""

from autocontext.ledger.work import WorkLedger

__all__ = ["WorkLedger"]
