"""An erase or a delete at every point of a save, a prepare or a tool's call: nothing of the text is stored after it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autocontext import AutoContext, Msg, ToolUseBlock
from autocontext.errors import Conflict, SessionGone
from autocontext.stores.database import Database, Statement, Work
from autocontext.stores.opening import open_database
from autocontext.suite import Session
from autocontext.testing import tool_exchange
from tests.stores.homes import home
from tests.suite.test_erasing import found, opened, said


class Stepping:
    """Runs `other` in a thread before the statement with this number, or the transaction, until it waits or is done."""

    def __init__(self, database: Database, other: Callable[[], object], before: int, *, each_statement: bool) -> None:
        self._other, self._before, self._each_statement = other, before, each_statement
        self.count = 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self._errors: list[BaseException] = []
        for name in ("read", "write"):
            setattr(database, name, partial(self._watched, getattr(database, name)))

    def finish(self) -> bool:
        """Wait for the other; whether there is a point with this number."""
        if self.thread.ident is None:
            return False
        self.thread.join(120)
        assert not self.thread.is_alive()
        for error in self._errors:
            raise error
        return True

    def _run(self) -> None:
        try:
            self._other()
        except BaseException as e:  # noqa: BLE001 (raised by finish)
            self._errors.append(e)

    def _point(self) -> None:
        if self.count == self._before and self.thread.ident is None:
            self.thread.start()
            self.thread.join(0.05 if self._each_statement else 120)
        self.count += 1

    def _watched(self, run: Callable[[Any], Any], work: Callable[[], Work[Any]]) -> Any:
        if not self._each_statement:
            self._point()
            return run(work)
        return run(partial(self._stepped, work))

    def _stepped(self, work: Callable[[], Work[Any]]) -> Generator[Statement, Any, Any]:
        flow, answer = work(), None
        while True:
            try:
                statement = flow.send(answer)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as done:
                return done.value
            self._point()
            answer = yield statement


def talk(context: AutoContext, session_id: str) -> tuple[Session, list[str]]:
    """A session with large results that are pruned when it is prepared, and set aside when it is saved."""
    session = context.session(session_id, user_id="ann")
    told = Msg(role="user", content=said("question") * 40)
    messages = [told]
    for n in range(4):
        messages += tool_exchange("read", {"path": f"{n}.txt"}, (said(f"result {n}") + "\n") * 60)
    session.add([*messages, Msg(role="assistant", content="ok"), Msg(role="user", content="go on")])
    return session, [m.id for m in messages]


@contextmanager
def two(where: str) -> Iterator[tuple[AutoContext, AutoContext]]:
    """The database, opened twice, as by two processes."""
    with opened(where) as one, opened(where) as another:
        yield one, another


MAKERS: dict[str, Callable[[Session], object]] = {"save": lambda s: s.save(), "prepare": lambda s: s.prepare()}


@pytest.mark.sampled
@pytest.mark.parametrize("erase", ["erase", "delete"])
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("kind", "each_statement"),
    [
        ("file", False),
        pytest.param("postgresql", False, marks=pytest.mark.slow),
        pytest.param("postgresql", True, marks=pytest.mark.slow),
    ],
    ids=["file", "postgresql", "postgresql, each statement"],
)
def test_what_is_erased_meanwhile_is_in_no_part_afterwards(
    kind: str, make: str, erase: str, tmp_path: Path, *, each_statement: bool
) -> None:
    with home(kind, tmp_path) as where, two(where) as (context, elsewhere):
        points = 0
        while True:
            _, ids = talk(context, "s")
            other = partial(elsewhere.erase, "s", ids) if erase == "erase" else partial(elsewhere.delete, "s")
            with closing(open_database(where)) as watched:
                mine = opened(watched).session("s", user_id="ann")
                stepping = Stepping(watched, partial(other, user_id="ann"), points, each_statement=each_statement)
                with suppress(SessionGone, Conflict):
                    MAKERS[make](mine)
                if not stepping.finish():
                    break
            assert found(elsewhere, tmp_path) == [], f"{erase} before {points} of {make}"
            elsewhere.delete("s", user_id="ann")
            points += 1
        assert points >= 3


def waiting(context: AutoContext) -> None:
    """A session that waits for the answer of a call."""
    call = Msg(role="assistant", content=[ToolUseBlock(id="c1", name="read", input={"path": said("path")})])
    context.session("s", user_id="ann").add([Msg(role="user", content=said("question")), call])


def read(path: str) -> str:
    return (said(path) + "\n") * 200


@pytest.mark.sampled
@pytest.mark.parametrize("cacheable", [False, True], ids=["", "cached"])
@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_a_tool_whose_session_is_deleted_meanwhile_leaves_nothing(
    kind: str, tmp_path: Path, *, cacheable: bool
) -> None:
    with home(kind, tmp_path) as where, two(where) as (context, elsewhere):
        points = 0
        while True:
            waiting(context)
            with closing(open_database(where)) as watched:
                mine = opened(watched).session("s", user_id="ann")
                delete = partial(elsewhere.delete, "s", user_id="ann")
                stepping = Stepping(watched, delete, points, each_statement=False)
                with suppress(SessionGone):
                    mine.call_tool(read, {"path": said("path")}, "c1", cacheable=cacheable)
                if not stepping.finish():
                    break
            assert found(elsewhere, tmp_path) == [], f"deleted before {points}"
            points += 1
        assert points >= 3


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_what_is_stored_after_the_cache_was_cleared_goes_with_its_call(kind: str, tmp_path: Path) -> None:
    with home(kind, tmp_path) as where, two(where) as (context, elsewhere):
        points = 0
        while True:
            waiting(context)
            with closing(open_database(where)) as watched:
                mine = opened(watched).session("s", user_id="ann")
                stepping = Stepping(watched, elsewhere.cache_of("ann").clear, points, each_statement=False)
                # A call that nobody waits for: only the note tells whose result this is.
                options = {"cacheable": True, "normalizer": lambda given: {"words": given["path"] + "!"}}
                answer = mine.call_tool(
                    lambda path: len(path) + 1, {"path": said("path")}, "c2", name="size", **options
                )
                assert answer.tool_results[0].text == str(len(said("path")) + 1)
                if not stepping.finish():
                    break
            elsewhere.delete("s", user_id="ann")
            assert found(elsewhere, tmp_path) == [], f"cleared before {points}"
            points += 1
        assert points >= 3
