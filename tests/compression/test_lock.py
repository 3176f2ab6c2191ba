"""The lock of a memory's passes: who waits for it gets it."""

import threading

from autocontext.compression.lock import LockHolder, PassLock, inside


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


def test_a_pass_waits_for_that_of_another_thread_and_not_for_the_one_that_it_is_made_in() -> None:
    lock, before, after = PassLock(), LockHolder(), LockHolder()
    before.running.acquire()
    with after.running:
        assert lock.take(before)
        with inside(before):
            assert not lock.take(after)
        threading.Timer(0.02, before.running.release).start()
        assert lock.take(after)
        assert not before.running.locked()
