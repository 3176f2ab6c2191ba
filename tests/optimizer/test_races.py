"""Savers and deleters of one session's states at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from autocontext import AutoContextMemory, Msg
from autocontext.errors import Conflict
from autocontext.optimizer import states
from autocontext.optimizer.state import SessionState
from autocontext.optimizer.states import StateStore
from autocontext.stores import SqlSessionStore
from autocontext.stores.protocol import SessionKey
from tests.stores.homes import home
from tests.stores.races import SERVED, at_once, run_between

SESSION = SessionKey("ann", "s")
STATE = SessionState("s", "ann")


def save(store: StateStore, expected: int) -> int:
    """The new revision; 0 when another was saved or the session was deleted."""
    with suppress(Conflict):
        return store.save(STATE, metadata={}, expected=expected)
    return 0


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with home(request.param, tmp_path) as where:
        yield where


def test_row_03_of_several_saves_of_one_revision_one_succeeds(url: str) -> None:
    with StateStore(url) as store:
        for revision in range(8):
            assert sorted(at_once(*[partial(save, store, revision)] * 4)) == [0, 0, 0, revision + 1]
        assert store.revisions(SESSION) == [4, 5, 6, 7, 8], "the latest few are kept"


def saved() -> states.Work[int]:
    """Save revision 2, if 1 is there."""
    try:
        return (yield from states._saved(states._row(STATE, {}, 2)))
    except Conflict:
        return 0


def test_row_03_a_state_saved_while_its_session_is_deleted_does_not_stay() -> None:
    with home("postgresql", Path()) as url, StateStore(url) as store, SqlSessionStore(url) as sessions:
        for before in itertools.count():
            AutoContextMemory(store=sessions, session_id="s", user_id="ann").add_message(Msg(role="user", content="hi"))
            save(store, 0)
            if not run_between(store.database, saved, partial(sessions.delete, SESSION), before)[1]:
                break
            assert store.revisions(SESSION) == []
        assert before, "a save has statements"
