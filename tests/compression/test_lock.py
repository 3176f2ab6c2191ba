"""The lock of a memory's passes: who waits for it gets it."""

from autocontext.compression.lock import LockHolder, PassLock


class Ending(LockHolder):
    """A pass that ends right after somebody has seen it running."""

    lock: PassLock

    @property
    def stranded(self) -> bool:
        running = self.running.locked()
        self.lock.revoke()
        return not running


def test_a_pass_whose_predecessor_ends_while_it_asks_gets_the_lock() -> None:
    lock, before, after = PassLock(), Ending(), LockHolder()
    before.lock = lock
    with before.running, after.running:
        assert lock.take(before)
        assert lock.take(after)
        assert lock.has(after)
