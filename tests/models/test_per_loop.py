"""PerLoop: one client for a loop, closed on it."""

import asyncio
import gc

import pytest

from autocontext.models.per_loop import PerLoop


class Client:
    def __init__(self, log):
        self.loop = asyncio.get_running_loop()
        self.log = log
        log.append("open")

    async def close(self):
        await asyncio.sleep(0)
        self.log.append("closed on its loop" if asyncio.get_running_loop() is self.loop else "closed elsewhere")


def per_loop(log):
    async def make():
        await asyncio.sleep(0.01)
        return Client(log)

    return PerLoop(make, Client.close)


def test_tasks_of_a_loop_share_one_client_and_it_is_closed_with_the_loop():
    log = []
    clients = per_loop(log)

    async def several():
        found = await asyncio.gather(*(clients.client() for _ in range(5)))
        assert len(set(map(id, found))) == 1
        assert log == ["open"]

    asyncio.run(several())
    assert log == ["open", "closed on its loop"]


def test_each_loop_has_its_own():
    log = []
    clients = per_loop(log)
    first, second = asyncio.run(clients.client()), asyncio.run(clients.client())
    assert first is not second
    assert log == ["open", "closed on its loop"] * 2
    assert len(clients) <= 1


@pytest.mark.slow
def test_a_client_dies_with_its_owner_while_the_loop_goes_on():
    log = []

    async def main():
        clients = per_loop(log)
        await clients.client()
        del clients
        gc.collect()
        while len(log) < 2:  # noqa: ASYNC110 (its closing has no event to wait for)
            await asyncio.sleep(0)
        assert log == ["open", "closed on its loop"]

    asyncio.run(asyncio.wait_for(main(), 240))


def test_closing_early_makes_room_for_a_new_one():
    log = []
    clients = per_loop(log)

    async def main():
        first = await clients.client()
        await clients.aclose()
        await clients.aclose()
        assert await clients.client() is not first

    asyncio.run(main())
    assert log == ["open", "closed on its loop"] * 2


def test_a_client_that_cannot_be_made_is_tried_again():
    attempts = []

    async def make():
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("no certificates")
        return Client([])

    async def main():
        clients = PerLoop(make, Client.close)
        try:
            await clients.client()
        except OSError as e:
            assert str(e) == "no certificates"  # noqa: PT017 (the second half of the test goes on in this loop)
        assert await clients.client()

    asyncio.run(main())
    assert len(attempts) == 2
