"""What a run takes: few examples unless `--hypothesis-profile` asks for more, some cases of a `sampled` test."""

import gc
import os
import random
import re
import signal
import sys
import uuid
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

import tests.profiles  # noqa: F401 (registers them)
from autocontext import messages, testing
from autocontext.history import proposals
from autocontext.steering import marking

settings.load_profile("quick")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell without job control ignores it for what runs behind
    signal.signal(signal.SIGINT, signal.default_int_handler)


_drawn = random.Random()
os.register_at_fork(after_in_child=_drawn.seed)


class _SameIds:
    """In the place of the module `uuid`: a test gets the same ids in each run, since their tokens differ a little."""

    UUID = uuid.UUID

    @staticmethod
    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=_drawn.getrandbits(128), version=4)


for _module in (messages, proposals, marking, testing):
    vars(_module)["uuid"] = _SameIds


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Draw a test's ids anew from its name."""
    _drawn.seed(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while there is none, nor look for any among the tests later on: that is 7 % of a run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)  # the adapters' environments have no xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """With `-n auto` the quick run stays in one process: two would take half as much processor time again."""
    return 0 if leaves_out(config, "slow") else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a module unread that is marked as a whole and whose mark the run leaves out."""
    if collection_path.suffix == ".py":
        marked = re.search(r"^pytestmark = pytest\.mark\.(\w+)", collection_path.read_text("utf-8"), re.MULTILINE)
        if marked and leaves_out(config, marked[1]):
            return True
    return None


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `sampled` the first case is quick, with `sampled(7)` each seventh too; the others are slow."""
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark and not item.get_closest_marker("slow"):
            test = item.nodeid.partition("[")[0]
            if seen[test] % (mark.args[0] if mark.args else sys.maxsize):
                item.add_marker("slow")
            seen[test] += 1


def leaves_out(config: pytest.Config, mark: str) -> bool:
    return f"not {mark}" in config.option.markexpr
