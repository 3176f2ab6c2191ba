"""The running size of the view as a request: each message is measured once, and only when it has to be."""

from __future__ import annotations

from autocontext.history.entries import Added
from autocontext.history.log import Log
from autocontext.history.recorded import Recorded
from autocontext.messages import Msg
from autocontext.tokens.request_size import RequestSize, request_size


class RequestSum:
    """Images and bytes of the working view; it follows the log by itself, when it is asked."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._sizes: dict[str, tuple[Msg, RequestSize]] = {}
        """Of the messages in view. An id may mean another message later."""
        self._seen: tuple[Recorded | None, int, int, RequestSize] = (None, 0, 0, RequestSize())
        """The entries and how many there were, the messages in view, and their size; set in one step."""

    def total(self) -> RequestSize:
        """The size of the view; takes time in proportion to what was added, or to the view where more has changed."""
        entries, seen, shown, total = self._seen
        log = self._log
        now, in_view = len(log.entries), len(log.view_ids)
        if entries is log.entries and seen == now:
            return total
        new = log.entries[seen:] if entries is log.entries else []
        if new and in_view == shown + len(new) and all(isinstance(entry, Added) for entry in new):
            for id_ in log.view_ids[shown:]:
                total = total.plus(self.of(id_, log.messages[id_]))
        else:
            old, self._sizes = self._sizes, {}
            total = RequestSize()
            for id_, msg in log.in_view:
                if id_ in old:
                    self._sizes[id_] = old[id_]
                total = total.plus(self.of(id_, msg))
        self._seen = (log.entries, now, in_view, total)
        return total

    def of(self, id_: str, msg: Msg) -> RequestSize:
        """The size of one message of the view, measured now or earlier."""
        known = self._sizes.get(id_)
        if known is None or known[0] is not msg:
            known = self._sizes[id_] = msg, request_size(msg)
        return known[1]

    def fork(self, log: Log) -> RequestSum:
        """One for a fork of the log."""
        fork = RequestSum(log)
        fork._sizes = self._sizes.copy()
        entries, seen, shown, total = self._seen
        if entries is self._log.entries:
            fork._seen = (log.entries, seen, shown, total)
        return fork
