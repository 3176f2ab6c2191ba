"""Users spread over several servers by the function that docs/scaling.md shows, with two real clusters."""

import re
from pathlib import Path

import pytest

from tests.extras import need

need("sql")

from autocontext import AutoContext
from autocontext.errors import StoreError
from autocontext.stores import copy_sessions
from tests.stores.servers import can_run_a_server, own_server

pytestmark = [pytest.mark.slow, pytest.mark.repo]

PAGE = Path(__file__).parent.parent.parent / "docs" / "scaling.md"
USERS = [f"user {n}" for n in range(24)]


def spread(*urls):
    """The page's `SERVERS` and `server_of`, with these servers for its files."""
    [block] = [b for b in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if "server_of" in b]
    block = block.partition("\nsession = ")[0]
    for name, url in zip(("a.db", "b.db"), urls, strict=True):
        assert block.count(f'"{name}"') == 1
        block = block.replace(f'"{name}"', repr(url))
    names = {}
    exec(block, names)  # noqa: S102 (our own page)
    return names["SERVERS"], names["server_of"]


def texts(server, user):
    return [m.text for m in server.session("s", user_id=user).memory.messages]


@pytest.mark.skipif(not can_run_a_server(), reason="needs root and PostgreSQL's programs")
def test_each_user_has_one_server_and_outlives_the_other():
    with own_server() as one, own_server() as two:
        servers, server_of = spread(f"{one.url}?connect_timeout=60", f"{two.url}?connect_timeout=60")
        for user in USERS:
            server_of(user).session("s", user_id=user).add({"role": "user", "content": f"I am {user}"})
        for server in servers.values():
            own = [user for user in USERS if server_of(user) is server]
            assert 0 < len(own) < len(USERS)
            assert sorted(info.user_id for info in server.sessions.sessions()) == sorted(own)
            assert all(texts(server, user) == [f"I am {user}"] for user in own)

        first, second = servers.values()
        moved = next(user for user in USERS if server_of(user) is first)
        assert copy_sessions(first.sessions, second.sessions, user_id=moved) == 1
        assert texts(second, moved) == [f"I am {moved}"]

        two.stop()
        second.sessions.database._patience = 0.5
        for user in USERS:
            if server_of(user) is first:
                assert texts(first, user) == [f"I am {user}"]
        with pytest.raises(StoreError):
            server_of(next(user for user in USERS if server_of(user) is second)).session("new", user_id="u")
        for server in servers.values():
            server.close()


def test_another_server_takes_its_share_of_the_users_and_leaves_the_others():
    servers, server_of = spread(":memory:", ":memory:")
    before = {user: server_of(user) for user in USERS}
    with AutoContext.open(":memory:") as third:
        servers["three"] = third
        moved = [user for user in USERS if server_of(user) is not before[user]]
        assert 0 < len(moved) < len(USERS)
        assert all(server_of(user) is third for user in moved)
    for server in servers.values():
        server.close()
