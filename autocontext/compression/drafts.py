"""A pass's own copy of log and tally: it plans on it while others go on adding to the real ones."""

from __future__ import annotations

from autocontext.compression.tally import Tally
from autocontext.history.log import Log


class Draft:
    """What the log and its tally were when the copy was made, or when it followed them last.

    Copying takes about 1 ms for 10,000 messages: they are values, so only the containers are copied.
    """

    def __init__(self, log: Log, tally: Tally) -> None:
        self.log = log.fork()
        self.tally = tally.fork(self.log)

    def follow(self, log: Log, tally: Tally) -> bool:
        """Take over what was recorded since, and give the counts made here; True when messages were added at most."""
        entries = log.entries[len(self.log.entries) :]
        for entry in entries:
            self.tally.update(self.log.record(entry))
        tally.learn_from(self.tally)
        return all(entry.type == "added" for entry in entries)
